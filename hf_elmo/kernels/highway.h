// A highway layer around its two products: gates and what they mix, in one pass, and back.
#pragma once

#include "products.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

namespace {

// y = g relu(t) + (1 - g) x with g = sigmoid(c): c and t are a row's two products before their biases.
template <typename T, typename M>
C10_ALWAYS_INLINE void mix_row(
    const M* carry, const M* transform, const T* carry_bias, const T* transform_bias, const M* x, M* y, int64_t columns) {
  over_vectors<T>(0, columns, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
    const Vec<T> gate = sigmoid(load<T>(carry + j, count) + load<T>(carry_bias + j, count));
    const Vec<T> sum = load<T>(transform + j, count) + load<T>(transform_bias + j, count);
    const Vec<T> carried = load<T>(x + j, count);
    store(y + j, carried + gate * (at::vec::maximum(sum, Vec<T>(0)) - carried), count);
  });
}

// products: (2, N, F), those of the gate and of the transformation. biases: (2, F), in the type of sums. x: (N, F).
Tensor mix_highway(const Tensor& products, const Tensor& biases, const Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const int64_t num_rows = x.size(0), size = x.size(1);
  const Tensor y = at::empty_like(x);
  const auto run = [&]<typename T, typename M>(T, M) {
    const M* const from = products.data_ptr<M>();
    const T* const bias = biases.data_ptr<T>();
    over_blocks(num_rows, size, [&](int64_t row, int64_t begin, int64_t end) {
      const int64_t place = row * size + begin;
      mix_row(
          from + place,
          from + num_rows * size + place,
          bias + begin,
          bias + size + begin,
          x.data_ptr<M>() + place,
          y.data_ptr<M>() + place,
          end - begin);
    });
  };
  over_types(x, run);
  return y;
}

// The gradients of the products, (2, N, F), of the biases, (2, F), and of x as far as it is carried, (N, F).
std::tuple<Tensor, Tensor, Tensor> mix_highway_back(
    const Tensor& gradient, const Tensor& products, const Tensor& biases, const Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const int64_t num_rows = x.size(0), size = x.size(1);
  const Tensor of_products = at::empty_like(products), of_biases = at::zeros_like(biases), of_x = at::empty_like(x);
  const auto run = [&]<typename T, typename M>(T, M) {
    // All rows of some columns to a thread: sums over rows are then added up in one order, whatever the threads.
    over_groups(size, kBlock, num_rows, [&](int64_t begin, int64_t end) {
      T* const of_carry_bias = of_biases.data_ptr<T>();
      T* const of_transform_bias = of_carry_bias + size;
      const T *const carry_bias = biases.data_ptr<T>(), *const transform_bias = carry_bias + size;
      for (int64_t row = 0; row < num_rows; ++row) {
        const int64_t first = row * size, second = first + num_rows * size;
        over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
          const Vec<T> gate = sigmoid(load<T>(products.data_ptr<M>() + first + j, count) + load<T>(carry_bias + j, count));
          const Vec<T> sum = load<T>(products.data_ptr<M>() + second + j, count) + load<T>(transform_bias + j, count);
          const Vec<T> grad = load<T>(gradient.data_ptr<M>() + first + j, count);
          const Vec<T> carried = load<T>(x.data_ptr<M>() + first + j, count);
          const Vec<T> let_through = grad * gate, zero(0);
          const Vec<T> of_transform = Vec<T>::blendv(zero, let_through, sum > zero);
          const Vec<T> of_carry = let_through * (Vec<T>(1) - gate) * (at::vec::maximum(sum, zero) - carried);
          store(of_products.data_ptr<M>() + first + j, of_carry, count);
          store(of_products.data_ptr<M>() + second + j, of_transform, count);
          store(of_x.data_ptr<M>() + first + j, grad - let_through, count);
          store(of_carry_bias + j, load<T>(of_carry_bias + j, count) + of_carry, count);
          store(of_transform_bias + j, load<T>(of_transform_bias + j, count) + of_transform, count);
        });
      }
    });
  };
  over_types(x, run);
  return {of_products, of_biases, of_x};
}

// A whole highway layer of few rows x, (N, F), whose weights, (F, F), are read once and as they lie.
Tensor highway_of_few(
    const Tensor& x, const Tensor& carry, const Tensor& carry_bias, const Tensor& transform, const Tensor& transform_bias) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const int64_t num_rows = x.size(0), size = x.size(1);
  const Tensor y = at::empty_like(x);
  over_weight_types(x, carry, [&]<typename T, typename M>(T, M) {
    over_groups(size, kColumns, 2 * size * num_rows, [&](int64_t begin, int64_t end) {
      std::vector<T> products(2 * num_rows * kColumns);
      T* to = products.data();
      for (const Tensor* weight : {&carry, &transform}) {
        const M* const from = weight->data_ptr<M>() + begin * size;
        multiply_rows(from, end - begin, x.data_ptr<T>(), num_rows, size, to, kColumns);
        to += num_rows * kColumns;
      }
      for (int64_t row = 0; row < num_rows; ++row) {
        mix_row(
            products.data() + row * kColumns,
            products.data() + (num_rows + row) * kColumns,
            carry_bias.data_ptr<T>() + begin,
            transform_bias.data_ptr<T>() + begin,
            row_of<T>(x, row) + begin,
            row_of<T>(y, row) + begin,
            end - begin);
      }
    });
  });
  return y;
}

} // namespace
