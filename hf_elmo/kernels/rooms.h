// Memory of tens of MiB that is given back to be taken again: fresh pages would be cleared by the system at each use,
// which costs as much as the products that fill them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace {

class Rooms {
 public:
  // A tensor with whatever numbers lie there; its memory comes back here when the tensor is gone.
  at::Tensor take(at::IntArrayRef sizes, const at::TensorOptions& options) {
    const size_t bytes = c10::multiply_integers(sizes) * options.dtype().itemsize();
    void* room = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = free_.find(bytes);
      if (found != free_.end()) {
        room = found->second;
        free_.erase(found);
        free_bytes_ -= bytes;
      }
    }
    if (room == nullptr) {
      constexpr size_t large_page = size_t(1) << 21;
      room = std::aligned_alloc(large_page, std::max(bytes + large_page - 1, size_t(1)) / large_page * large_page);
      TORCH_CHECK(room != nullptr, "no memory for ", bytes, " bytes");
      madvise(room, bytes, MADV_HUGEPAGE);
    }
    return at::from_blob(room, sizes, [this, bytes](void* given) { give_back(given, bytes); }, options);
  }

  // Frees what nobody uses.
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [bytes, room] : free_) {
      std::free(room);
    }
    free_.clear();
    free_bytes_ = 0;
  }

 private:
  void give_back(void* room, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_bytes_ + bytes > kMostBytes) {
      std::free(room);
      return;
    }
    free_.emplace(bytes, room);
    free_bytes_ += bytes;
  }

  // What all scans of a training step keep, four of them at published sizes and 128 lanes.
  static constexpr size_t kMostBytes = size_t(1) << 29;
  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
  size_t free_bytes_ = 0;
};

// Never destroyed: tensors may outlive whatever is torn down at the end of a process.
Rooms& rooms() {
  static Rooms& all = *new Rooms();
  return all;
}

void clear_rooms() {
  rooms().clear();
}

} // namespace
