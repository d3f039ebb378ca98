// Memory of tens of MiB that is given back to be taken again: fresh pages would be cleared by the system at each use,
// which costs as much as the products that fill them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>
#include <utility>

namespace {

class Rooms {
 public:
  // A tensor with whatever numbers lie there; its memory comes back here when the tensor is gone.
  at::Tensor take(at::IntArrayRef sizes, const at::TensorOptions& options) {
    const size_t bytes = round_up(c10::multiply_integers(sizes) * options.dtype().itemsize());
    void* room = take_free(bytes);
    if (room == nullptr) {
      room = std::aligned_alloc(kLargePage, bytes);
      TORCH_CHECK(room != nullptr, "no memory for ", bytes, " bytes");
      madvise(room, bytes, MADV_HUGEPAGE);
    }
    return at::from_blob(room, sizes, [this, bytes](void* given) { give_back(given, bytes); }, options);
  }

  // Frees what nobody uses, the oldest first, until no more than so many bytes of it are left. Returns how many are.
  size_t trim(size_t most_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (free_bytes_ > most_bytes) {
      std::free(free_.front().second);
      free_bytes_ -= free_.front().first;
      free_.pop_front();
    }
    return free_bytes_;
  }

 private:
  // At most an eighth more: batches of about as many words have rooms of one size.
  static size_t round_up(size_t bytes) {
    size_t step = kLargePage;
    while (step * 16 <= bytes) {
      step *= 2;
    }
    return std::max((bytes + step - 1) / step, size_t(1)) * step;
  }

  void* take_free(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The newest may still lie in a cache.
    for (auto room = free_.end(); room != free_.begin();) {
      if ((--room)->first == bytes) {
        void* found = room->second;
        free_.erase(room);
        free_bytes_ -= bytes;
        return found;
      }
    }
    return nullptr;
  }

  void give_back(void* room, size_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      free_.emplace_back(bytes, room);
      free_bytes_ += bytes;
    }
    // Sizes that do not come back would fill it for good.
    trim(kMostBytes);
  }

  static constexpr size_t kLargePage = size_t(1) << 21;
  // What all scans of a training step keep, four of them at published sizes and 128 lanes.
  static constexpr size_t kMostBytes = size_t(1) << 29;
  std::mutex mutex_;
  // By the time they came back.
  std::list<std::pair<size_t, void*>> free_;
  size_t free_bytes_ = 0;
};

// Never destroyed: tensors may outlive whatever is torn down at the end of a process.
Rooms& rooms() {
  static Rooms& all = *new Rooms();
  return all;
}

int64_t trim_rooms(int64_t most_bytes) {
  return static_cast<int64_t>(rooms().trim(static_cast<size_t>(most_bytes)));
}

} // namespace
