// Large buffers that are reused from step to step: the system clears fresh pages at each use, which costs as much as
// the products that fill them.
#pragma once

#include <ATen/Parallel.h>
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

constexpr int64_t kLargePage = int64_t(1) << 21;
// What all scans of a training step keep, four of them at published sizes and 128 lanes.
constexpr int64_t kMostBytes = int64_t(1) << 29;

// Buffers that nobody uses, their bytes first, in the order in which they were released.
struct BufferPool {
  std::mutex mutex;
  std::list<std::pair<int64_t, void*>> unused;
  int64_t bytes = 0;
};

// Never destroyed: tensors may outlive whatever is torn down at the end of a process.
BufferPool& pool() {
  static BufferPool& pool = *new BufferPool();
  return pool;
}

// Frees unused buffers, the oldest first, until at most so many bytes of them are left. Returns how many are.
int64_t trim_buffers(int64_t most_bytes) {
  const std::lock_guard<std::mutex> lock(pool().mutex);
  for (auto& unused = pool().unused; pool().bytes > most_bytes; unused.pop_front()) {
    std::free(unused.front().second);
    pool().bytes -= unused.front().first;
  }
  return pool().bytes;
}

// An uninitialized tensor; where clearing its pages would show, of memory that is kept when the tensor is gone.
at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) {
  int64_t bytes = c10::multiply_integers(sizes) * options.dtype().itemsize();
  if (bytes < 2 * kLargePage) {
    return at::empty(sizes, options);
  }
  // At most an eighth more, so that batches of about as many words share one size.
  int64_t step = kLargePage;
  while (step * 16 <= bytes) {
    step *= 2;
  }
  bytes = at::divup(bytes, step) * step;
  void* buffer = nullptr;
  {
    const std::lock_guard<std::mutex> lock(pool().mutex);
    auto& unused = pool().unused;
    // The newest may still lie in a cache.
    const auto found = std::find_if(unused.rbegin(), unused.rend(), [&](auto& each) { return each.first == bytes; });
    if (found != unused.rend()) {
      buffer = found->second;
      unused.erase(std::prev(found.base()));
      pool().bytes -= bytes;
    }
  }
  if (buffer == nullptr) {
    buffer = std::aligned_alloc(kLargePage, bytes);
    TORCH_CHECK(buffer != nullptr, "no memory for ", bytes, " bytes");
    madvise(buffer, bytes, MADV_HUGEPAGE);
  }
  const auto release = [bytes](void* memory) {
    {
      const std::lock_guard<std::mutex> lock(pool().mutex);
      pool().unused.emplace_back(bytes, memory);
      pool().bytes += bytes;
    }
    // Sizes that do not come back would fill it for good.
    trim_buffers(kMostBytes);
  };
  return at::from_blob(buffer, sizes, release, options);
}

// A weight's numbers in another type, for one call.
at::Tensor cast_weight(const at::Tensor& weight, at::ScalarType dtype) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return allocate(weight.sizes(), weight.options().dtype(dtype)).copy_(weight);
}

} // namespace
