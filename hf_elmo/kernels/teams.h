// Threads that go through the steps of a scan together, from the first to the last: a team is called once, where a call
// at each step costs as much as a short step itself.
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

// Looks at the others before a thread lets somebody else have its core.
constexpr int64_t kLooks = 1 << 12;

// Where the threads of a team wait until all have come.
class Meeting {
 public:
  explicit Meeting(int64_t parts) : parts_(parts) {}

  // Comes for so many parts of the work.
  void meet(int64_t parts) {
    const int64_t held = held_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(parts, std::memory_order_acq_rel) + parts == parts_) {
      arrived_.store(0, std::memory_order_relaxed);
      held_.store(held + 1, std::memory_order_release);
      return;
    }
    for (int64_t look = 0; held_.load(std::memory_order_acquire) == held; ++look) {
      if (look < kLooks) {
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
  // Apart from one another: who looks at the one does not disturb who counts in the other.
  alignas(64) std::atomic<int64_t> arrived_{0};
  alignas(64) std::atomic<int64_t> held_{0};
};

// One thread of a team, with its share of all work: parts `first` to `last` of `parts`.
struct Member {
  Meeting& meeting;
  int64_t first, last, parts;

  // Waits for the others.
  void meet() const {
    meeting.meet(last - first);
  }

  // Calls run(begin, end) for groups of this thread's columns, the same ones whenever it is asked.
  template <typename F>
  C10_ALWAYS_INLINE void over_groups(int64_t columns, int64_t group, const F& run) const {
    const int64_t groups = at::divup(columns, group), each = at::divup(groups, parts);
    for (int64_t begin = first * each * group; begin < std::min(last * each * group, columns); begin += group) {
      run(begin, std::min(begin + group, columns));
    }
  }
};

// Calls run(member) in each thread of a team, as many as steps of so many multiplications keep busy.
template <typename F>
void as_team(int64_t multiplications, const F& run) {
#if AT_PARALLEL_OPENMP
  const int64_t parts = std::clamp<int64_t>(at::divup(multiplications, kShare), 1, at::get_num_threads());
#else
  // Threads of a pool may have to wait for one another before they begin, and would wait forever for those that meet.
  const int64_t parts = 1;
#endif
  Meeting meeting(parts);
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) { run(Member{meeting, first, last, parts}); });
}

} // namespace
