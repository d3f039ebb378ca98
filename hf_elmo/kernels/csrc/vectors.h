// Vectors of numbers: loading, storing, exponentials and clips, and loops over columns on all cores where that pays.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/cpu/vec/vec.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

namespace {

using at::Tensor;
template <typename T>
using Vec = at::vec::Vectorized<T>;

// Columns that are handled together, and how many cells make waking a thread pay; multiples of a vector's length.
constexpr int64_t kBlock = 128, kGrain = 2048;
// How many multiplications do.
constexpr int64_t kShare = int64_t(1) << 16;

// Calls run(j, count) for vectors of columns; in all but a last short one `count` is a constant that folds away. What
// runs inside is inlined by force: a call would send the registers through memory.
template <typename T, typename F>
C10_ALWAYS_INLINE void over_vectors(int64_t begin, int64_t end, const F& run) {
  int64_t j = begin;
  for (; j + Vec<T>::size() <= end; j += Vec<T>::size()) {
    run(j, int64_t(Vec<T>::size()));
  }
  if (j < end) {
    run(j, end - j);
  }
}

// Calls run with a number from 1 to N as a constant.
template <int N, typename F>
C10_ALWAYS_INLINE void with_constant(int64_t number, const F& run) {
  if constexpr (N > 1) {
    if (number < N) {
      return with_constant<N - 1>(number, run);
    }
  }
  run(std::integral_constant<int, N>());
}

template <typename T, typename M>
C10_ALWAYS_INLINE Vec<T> load(const M* from, int64_t count) {
  return at::vec::convert<T>(Vec<M>::loadu(from, count));
}

template <typename T, typename M>
C10_ALWAYS_INLINE void store(M* to, const Vec<T>& values, int64_t count) {
  at::vec::convert<M>(values).store(to, count);
}

C10_ALWAYS_INLINE Vec<double> exponential(const Vec<double>& x) {
  return at::vec::clamp(x, Vec<double>(-700), Vec<double>(700)).exp();
}

// at::vec's own is either a call that no compiler can inline (exp) or takes NaN for a number (exp_u20).
C10_ALWAYS_INLINE Vec<float> exponential(const Vec<float>& x) {
  using at::vec::fmadd;
  const Vec<float> within = at::vec::clamp(x, Vec<float>(-87), Vec<float>(84));
  const Vec<float> n = (within * Vec<float>(1.44269504f)).round();
  // ln 2 in two parts, the first of few bits.
  const Vec<float> r = fmadd(n, Vec<float>(2.12194440e-4f), fmadd(n, Vec<float>(-0.693359375f), within));
  // Cephes' polynomial.
  Vec<float> sum = fmadd(Vec<float>(1.9875691500e-4f), r, Vec<float>(1.3981999507e-3f));
  for (const float coefficient : {8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f, 1.f, 1.f}) {
    sum = fmadd(sum, r, Vec<float>(coefficient));
  }
  const Vec<float> exponent_bits = fmadd(n, Vec<float>(1 << 23), Vec<float>(127 << 23));
  return sum * at::vec::cast<float>(at::vec::convert_to_int_of_same_size(exponent_bits));
}

template <typename T>
C10_ALWAYS_INLINE Vec<T> reciprocal(const Vec<T>& x) {
  return Vec<T>(1) / x;
}

#ifdef CPU_CAPABILITY_AVX512
// A guess of 14 bits and a step of Newton's, for numbers whose reciprocal is a normal number: a quarter of a division's
// time, and within a unit in the last place.
template <>
C10_ALWAYS_INLINE Vec<float> reciprocal(const Vec<float>& x) {
  const __m512 guess = _mm512_rcp14_ps(x);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(x, guess, _mm512_set1_ps(1)), guess, guess);
}
#endif

template <typename T>
C10_ALWAYS_INLINE Vec<T> sigmoid(const Vec<T>& x) {
  return reciprocal(Vec<T>(1) + exponential(x.neg()));
}

template <typename T>
C10_ALWAYS_INLINE Vec<T> tanh(const Vec<T>& x) {
  const Vec<T> e = exponential(x * Vec<T>(-2));
  return (Vec<T>(1) - e) * reciprocal(Vec<T>(1) + e);
}

template <typename T>
C10_ALWAYS_INLINE Vec<T> clip(const Vec<T>& x, T bound) {
  return at::vec::clamp(x, Vec<T>(-bound), Vec<T>(bound));
}

template <typename T>
T bound_of(std::optional<double> clip) {
  return clip ? static_cast<T>(*clip) : std::numeric_limits<T>::infinity();
}

// The gradient where the clip let its input through, zero elsewhere.
template <typename T>
C10_ALWAYS_INLINE Vec<T> clip_backward(const Vec<T>& gradient, const Vec<T>& input, T bound) {
  return Vec<T>::blendv(Vec<T>(0), gradient, input.abs() <= Vec<T>(bound));
}

// Calls run(row, begin, end) for blocks of columns, in parallel where that pays.
template <typename F>
void over_blocks(int64_t rows, int64_t columns, const F& run) {
  const int64_t blocks = at::divup(columns, kBlock);
  at::parallel_for(0, rows * blocks, kGrain / kBlock, [&](int64_t first, int64_t last) {
    for (int64_t index = first; index < last; ++index) {
      const int64_t begin = index % blocks * kBlock;
      run(index / blocks, begin, std::min(begin + kBlock, columns));
    }
  });
}

template <typename T>
T* row_of(const Tensor& tensor, int64_t row) {
  return tensor.data_ptr<T>() + row * tensor.size(1);
}

} // namespace
