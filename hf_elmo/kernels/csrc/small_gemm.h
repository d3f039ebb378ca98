// Products of a few rows with a weight as it lies in memory, which is read once: no packing, and no copy to keep.
#pragma once

#include "buffer_pool.h"
#include "vectors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <numeric>
#include <tuple>

namespace {

// Columns of a product that a core computes in one go.
constexpr int64_t kColumns = 16;

// Bytes of a row of a weight that are multiplied in one go: four such stay in the nearest cache.
constexpr int64_t kNearBytes = 4096;

template <typename T>
C10_ALWAYS_INLINE void store_totals(const Vec<T> (&sums)[4], T* totals) {
  for (int row = 0; row < 4; ++row) {
    T values[Vec<T>::size()];
    sums[row].store(values);
    totals[row] = std::accumulate(values, values + Vec<T>::size(), T(0));
  }
}

#ifdef CPU_CAPABILITY_AVX512
template <>
C10_ALWAYS_INLINE void store_totals(const Vec<float> (&sums)[4], float* totals) {
  const __m512 ab = _mm512_unpacklo_ps(sums[0], sums[1]) + _mm512_unpackhi_ps(sums[0], sums[1]);
  const __m512 cd = _mm512_unpacklo_ps(sums[2], sums[3]) + _mm512_unpackhi_ps(sums[2], sums[3]);
  const __m512 abcd = _mm512_shuffle_ps(ab, cd, 0x44) + _mm512_shuffle_ps(ab, cd, 0xEE);
  const __m256 half = _mm512_castps512_ps256(abcd) + _mm512_extractf32x8_ps(abcd, 1);
  _mm_storeu_ps(totals, _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1));
}
#endif

// The rows of a weight that come next, fetched from memory while the ones before are multiplied by all inputs.
struct Ahead {
  const char* from = nullptr;
  int64_t step = 0;

  C10_ALWAYS_INLINE void fetch() {
    __builtin_prefetch(from, 0, 2);
    from += step;
  }
};

// Some of the `size` numbers of each row.
struct Part {
  int64_t begin, end, size;
};

// The products of part of X rows of inputs with that of the first R rows of a weight, added to those of the parts before
// in rows of `out` that lie `pitch` apart. Where the weight has fewer rows, the last one again.
template <int R, int X, typename T, typename M>
C10_ALWAYS_INLINE void multiply_block(
    const M* weight, int64_t num_rows, const T* x, const Part& part, T* out, int64_t pitch, Ahead ahead = {}) {
  const int64_t size = part.size;
  Vec<T> sums[X][R / 4][4];
  const M* rows[R];
  for (int64_t row = 0; row < R; ++row) {
    rows[row] = weight + std::min(row, num_rows - 1) * size;
    for (int64_t input = 0; input < X; ++input) {
      sums[input][row / 4][row % 4] = Vec<T>(0);
    }
  }
  over_vectors<M>(part.begin, part.end, [&](int64_t k, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
    if constexpr (X > 1) {
      ahead.fetch();
    } else {
      // All that one input costs is reading, and short rows end before a processor has seen where they lead.
      for (int row = 0; row < R; ++row) {
        __builtin_prefetch(rows[row] + k + 2 * R * size, 0, 2);
      }
    }
    if constexpr (std::is_same_v<M, at::BFloat16>) {
      if (count == Vec<M>::size()) {
        // Two weights to a word: every other one by a shift, the others by a mask, is cheaper than the general way.
        Vec<T> even[X], odd[X];
        for (int input = 0; input < X; ++input) {
          const T* const from = x + input * size + k;
          std::tie(even[input], odd[input]) =
              at::vec::deinterleave2(Vec<T>::loadu(from), Vec<T>::loadu(from + Vec<T>::size()));
        }
        for (int row = 0; row < R; ++row) {
          const auto words = Vec<int32_t>::loadu(rows[row] + k);
          const auto first = at::vec::cast<T>(words << Vec<int32_t>(16));
          const auto second = at::vec::cast<T>(words & Vec<int32_t>(-65536));
          for (int input = 0; input < X; ++input) {
            Vec<T>& sum = sums[input][row / 4][row % 4];
            sum = at::vec::fmadd(second, odd[input], at::vec::fmadd(first, even[input], sum));
          }
        }
        return;
      }
    }
    constexpr int64_t length = Vec<T>::size(), parts = Vec<M>::size() / length;
    for (int row = 0; row < R; ++row) {
      const at::vec::VectorizedN<T, parts> wide =
          at::vec::convert<T, parts, M, 1>(at::vec::VectorizedN<M, 1>(Vec<M>::loadu(rows[row] + k, count)));
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t left = std::clamp<int64_t>(count - part * length, 0, length);
        for (int input = 0; input < X; ++input) {
          Vec<T>& sum = sums[input][row / 4][row % 4];
          sum = at::vec::fmadd(wide[part], Vec<T>::loadu(x + input * size + k + part * length, left), sum);
        }
      }
    }
  });
  for (int input = 0; input < X; ++input) {
    for (int four = 0; four < R / 4; ++four) {
      T totals[4];
      store_totals(sums[input][four], totals);
      for (int64_t row = 0; row < std::min<int64_t>(4, num_rows - 4 * four); ++row) {
        T& total = out[input * pitch + 4 * four + row];
        total = part.begin ? total + totals[row] : totals[row];
      }
    }
  }
}

// As many rows of inputs as with the rows of a weight leave registers for the sums: 4 x 6 of 32, or 4 x 2 of 16.
template <typename T>
constexpr int64_t most_inputs() {
  return sizeof(Vec<T>) == 64 ? 6 : 2;
}

// The products of rows of inputs, (num_inputs, size), with rows of a weight, (num_rows, size), into the first columns of
// rows of `out` that lie `pitch` apart; by the thread that calls.
template <typename T, typename M>
void multiply_rows(
    const M* weight, int64_t num_rows, const T* x, int64_t num_inputs, int64_t size, T* out, int64_t pitch) {
  if (num_inputs == 1) {
    for (int64_t row = 0; row < num_rows; row += 8) {
      multiply_block<8, 1>(weight + row * size, num_rows - row, x, Part{0, size, size}, out + row, pitch);
    }
    return;
  }
  // Part by part, so that four rows of a weight stay in the nearest cache until all inputs have been multiplied by them.
  const int64_t blocks = at::divup(num_inputs, most_inputs<T>()), longest = kNearBytes / sizeof(M);
  for (int64_t row = 0; row < num_rows; row += 4) {
    // Each block of inputs fetches its share of the next four rows, a line of 64 bytes for each vector it multiplies.
    const int64_t line = 64;
    Ahead ahead{reinterpret_cast<const char*>(weight + (row + 4) * size), std::max(line, 4 * line / blocks)};
    for (int64_t begin = 0; begin < size; begin += longest) {
      const Part part{begin, std::min(begin + longest, size), size};
      const int64_t fetched = at::divup(part.end - begin, Vec<M>::size()) * ahead.step;
      int64_t input = 0;
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t count = num_inputs / blocks + (block < num_inputs % blocks);
        with_constant<6>(count, [&](auto inputs) C10_ALWAYS_INLINE_ATTRIBUTE {
          multiply_block<4, inputs.value>(
              weight + row * size, num_rows - row, x + input * size, part, out + input * pitch + row, pitch, ahead);
        });
        ahead.from += fetched;
        input += count;
      }
    }
  }
}

// Calls run(T(), M()) for the types of inputs, in which the sums are, and of a weight, which may be narrower.
template <typename F>
void over_weight_types(const Tensor& x, const Tensor& weight, const F& run) {
  const auto type = x.scalar_type(), kind = weight.scalar_type();
  if (type == at::kDouble && kind == at::kDouble) {
    return run(double(), double());
  }
  TORCH_CHECK(type == at::kFloat, "no product of ", type, " with weights of ", kind);
  switch (kind) {
    case at::kFloat:
      return run(float(), float());
    case at::kBFloat16:
      return run(float(), at::BFloat16());
    case at::kHalf:
      return run(float(), at::Half());
    default:
      TORCH_CHECK(false, "no product of ", type, " with weights of ", kind);
  }
}

// x (N, I) to x W^T (N, O), by reading a contiguous weight (O, I) once for all rows.
Tensor multiply_small_batch(const Tensor& x, const Tensor& weight) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  TORCH_CHECK(weight.is_contiguous(), "multiply_small_batch wants a contiguous weight");
  const Tensor rows = x.contiguous();
  const int64_t num_inputs = rows.size(0), size = rows.size(1), num_rows = weight.size(0);
  const Tensor out = at::empty({num_inputs, num_rows}, rows.options());
  if (out.numel() == 0) {
    // A batch may be nothing but padding, and the work is shared out by how much there is.
    return out;
  }
  over_weight_types(rows, weight, [&]<typename T, typename M>(T, M) {
    const M* const from = weight.data_ptr<M>();
    const int64_t grain = at::divup(kShare, kColumns * size * num_inputs);
    at::parallel_for(0, at::divup(num_rows, kColumns), grain, [&](int64_t first, int64_t last) {
      for (int64_t row = first * kColumns; row < std::min(last * kColumns, num_rows); row += kColumns) {
        const int64_t count = std::min(kColumns, num_rows - row);
        T* const to = out.data_ptr<T>() + row;
        multiply_rows(from + row * size, count, rows.data_ptr<T>(), num_inputs, size, to, num_rows);
      }
    });
  });
  return out;
}

// x (N, I) to x W^T (N, O), in another type perhaps, by a library's product.
Tensor multiply_words(const Tensor& x, const Tensor& weight, at::ScalarType dtype) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  Tensor product = allocate({x.size(0), weight.size(0)}, x.options());
  at::mm_out(product, x, weight.t());
  return dtype == x.scalar_type() ? product : allocate(product.sizes(), x.options().dtype(dtype)).copy_(product);
}

} // namespace
