// Large buffers that are reused from step to step: the system clears fresh pages at each use, which costs as much as
// the products that fill them.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <mutex>
#include <utility>

namespace {

class BufferPool {
 public:
  // An uninitialized tensor, whose memory is released to the pool when the tensor is gone.
  at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) {
    const size_t bytes = round_up(c10::multiply_integers(sizes) * options.dtype().itemsize());
    void* buffer = take_free(bytes);
    if (buffer == nullptr) {
      buffer = std::aligned_alloc(kLargePage, bytes);
      TORCH_CHECK(buffer != nullptr, "no memory for ", bytes, " bytes");
      madvise(buffer, bytes, MADV_HUGEPAGE);
    }
    return at::from_blob(buffer, sizes, [this, bytes](void* unused) { release(unused, bytes); }, options);
  }

  // Frees unused buffers, the oldest first, until at most so many bytes of them are left. Returns how many are.
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
  // At most an eighth more, so that batches of about as many words share one size.
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
    for (auto buffer = free_.end(); buffer != free_.begin();) {
      if ((--buffer)->first == bytes) {
        void* const memory = buffer->second;
        free_.erase(buffer);
        free_bytes_ -= bytes;
        return memory;
      }
    }
    return nullptr;
  }

  void release(void* buffer, size_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      free_.emplace_back(bytes, buffer);
      free_bytes_ += bytes;
    }
    // Sizes that do not come back would fill it for good.
    trim(kMostBytes);
  }

  static constexpr size_t kLargePage = size_t(1) << 21;
  // What all scans of a training step keep, four of them at published sizes and 128 lanes.
  static constexpr size_t kMostBytes = size_t(1) << 29;
  std::mutex mutex_;
  // In the order in which they were released.
  std::list<std::pair<size_t, void*>> free_;
  size_t free_bytes_ = 0;
};

// Never destroyed: tensors may outlive whatever is torn down at the end of a process.
BufferPool& buffer_pool() {
  static BufferPool& pool = *new BufferPool();
  return pool;
}

// An uninitialized tensor, of the pool where clearing its pages would show.
at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const bool is_large = c10::multiply_integers(sizes) * options.dtype().itemsize() >= int64_t(1) << 22;
  return is_large ? buffer_pool().allocate(sizes, options) : at::empty(sizes, options);
}

// A weight's numbers in another type, for one call.
at::Tensor cast_weight(const at::Tensor& weight, at::ScalarType dtype) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return allocate(weight.sizes(), weight.options().dtype(dtype)).copy_(weight);
}

int64_t trim_buffers(int64_t most_bytes) {
  return static_cast<int64_t>(buffer_pool().trim(static_cast<size_t>(most_bytes)));
}

} // namespace
