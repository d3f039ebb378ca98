// Threads that run all steps of a scan together: they are started once, where starting them at each step would cost as
// much as a short step itself.
#pragma once

#include "vectors.h"

#include <ATen/Config.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

// How often a thread looks whether the others have arrived before it yields its core.
constexpr int64_t kSpins = 1 << 12;

class SpinBarrier {
 public:
  explicit SpinBarrier(int64_t parts) : parts_(parts) {}

  // Waits until all parts of the work have arrived; the calling thread has so many of them.
  void wait(int64_t parts) {
    const int64_t generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(parts, std::memory_order_acq_rel) + parts == parts_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int64_t spin = 0; generation_.load(std::memory_order_acquire) == generation; ++spin) {
      if (spin < kSpins) {
#if defined(__x86_64__)
        _mm_pause();
#endif
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  const int64_t parts_;
  // On cache lines of their own: reading the one does not disturb counting in the other.
  alignas(64) std::atomic<int64_t> arrived_{0};
  alignas(64) std::atomic<int64_t> generation_{0};
};

// One thread and its share of all work: parts `first` to `last` of `parts`.
struct Worker {
  SpinBarrier& barrier;
  int64_t first, last, parts;

  // Waits for the other threads.
  void wait() const {
    barrier.wait(last - first);
  }

  // Calls run(begin, end) for groups of this thread's columns, the same ones at every call.
  template <typename F>
  C10_ALWAYS_INLINE void over_groups(int64_t columns, int64_t group, const F& run) const {
    const int64_t groups = at::divup(columns, group), each = at::divup(groups, parts);
    for (int64_t begin = first * each * group; begin < std::min(last * each * group, columns); begin += group) {
      run(begin, std::min(begin + group, columns));
    }
  }
};

// Calls run(worker) in each of as many threads as steps of so many multiplications keep busy.
template <typename F>
void parallel_steps(int64_t multiplications, const F& run) {
#if AT_PARALLEL_OPENMP
  const int64_t parts = std::clamp<int64_t>(at::divup(multiplications, kShare), 1, at::get_num_threads());
#else
  // Threads of a pool may start only after others end, and a barrier would wait for them forever.
  const int64_t parts = 1;
#endif
  SpinBarrier barrier(parts);
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) { run(Worker{barrier, first, last, parts}); });
}

} // namespace
