// A digest of all numbers of a tensor, at the speed at which memory is read.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstring>
#include <vector>

namespace {

constexpr int64_t kLanes = 64, kBytesOfDigestBlock = int64_t(1) << 16;

// Takes another word in. One to one in the word and in the hash, so that a single change is never missed; the shift
// brings the high bits down, which a multiplication alone does not.
inline uint64_t mix(uint64_t hash, uint64_t word) {
  const uint64_t both = hash ^ word;
  return (both ^ (both >> 32)) * 0x9E3779B97F4A7C15u;
}

// Independent hashes, so that a core mixes the next words in while it waits for the last ones.
struct Lanes {
  std::array<uint64_t, kLanes> hashes;

  void take(const char* bytes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      uint64_t word;
      std::memcpy(&word, bytes + lane * sizeof(word), sizeof(word));
      hashes[lane] = mix(hashes[lane], word);
    }
  }
};

uint64_t digest_block(const char* bytes, int64_t count, uint64_t seed) {
  Lanes lanes;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    lanes.hashes[lane] = seed + lane;
  }
  constexpr int64_t width = sizeof(lanes);
  int64_t at = 0;
  for (; at + width <= count; at += width) {
    lanes.take(bytes + at);
  }
  if (at < count) {
    char last[width] = {};
    std::memcpy(last, bytes + at, count - at);
    lanes.take(last);
  }
  uint64_t hash = count;
  for (const uint64_t lane : lanes.hashes) {
    hash = mix(hash, lane);
  }
  return hash;
}

// Of a contiguous tensor; the same whatever the number of threads.
int64_t digest(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.is_cpu(), "digest wants a contiguous tensor on the CPU");
  const char* const bytes = static_cast<const char*>(tensor.const_data_ptr());
  const int64_t size = tensor.nbytes(), blocks = at::divup(size, kBytesOfDigestBlock);
  std::vector<uint64_t> hashes(blocks);
  at::parallel_for(0, blocks, 4, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t start = block * kBytesOfDigestBlock;
      hashes[block] = digest_block(bytes + start, std::min(kBytesOfDigestBlock, size - start), block);
    }
  });
  uint64_t hash = size;
  for (const uint64_t part : hashes) {
    hash = mix(hash, part);
  }
  return static_cast<int64_t>(hash);
}

} // namespace
