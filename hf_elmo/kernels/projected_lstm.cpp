// Runs all steps of a projected LSTM on the CPU in one call, forward or backward: the twin of plain.py.
//
// Letters as there: B rows, N words in the order of steps, P projection, H cell. T is the type of everything between
// the products, M that of the products' factors; T is float where M is narrower.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/cpu/vec/vec.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

namespace {

using at::Tensor;
template <typename T>
using Vec = at::vec::Vectorized<T>;

// Columns that are handled together, and how many cells make waking a thread pay; multiples of a vector's length.
constexpr int64_t kBlock = 128, kGrain = 2048;
// Rows of a weight that are read side by side, and cells whose gates a core computes together.
constexpr int64_t kGroup = 8, kUnits = 16;

struct Weight {
  Tensor rows;  // (O, I)
  Tensor laid_out;  // the transpose, (I, O), or oneDNN's own layout

  // x (B, I) to x W^T (B, O), which may lie in `space`.
  Tensor multiply(const Tensor& x, const Tensor& space) const {
    if (!laid_out.is_mkldnn()) {
      Tensor product = space.narrow(0, 0, x.size(0));
      return at::mm_out(product, x, laid_out);
    }
    static const auto linear = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "");
    torch::jit::Stack stack{x, laid_out, c10::IValue(), "none", c10::List<std::optional<at::Scalar>>(), ""};
    linear.callBoxed(&stack);
    return stack[0].toTensor();
  }
};

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
  const Vec<float> within = at::vec::clamp(x, Vec<float>(-87), Vec<float>(88));
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
C10_ALWAYS_INLINE Vec<T> sigmoid(const Vec<T>& x) {
  return Vec<T>(1) / (Vec<T>(1) + exponential(x.neg()));
}

template <typename T>
C10_ALWAYS_INLINE Vec<T> tanh(const Vec<T>& x) {
  const Vec<T> e = exponential(x * Vec<T>(-2));
  return (Vec<T>(1) - e) / (Vec<T>(1) + e);
}

template <typename T>
C10_ALWAYS_INLINE Vec<T> clip(const Vec<T>& x, T bound) {
  return at::vec::clamp(x, Vec<T>(-bound), Vec<T>(bound));
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

// Calls run(begin, end) for groups of columns, each column that many multiplications of work.
template <typename F>
void over_groups(int64_t columns, int64_t group, int64_t multiplications, const F& run) {
  const int64_t grain = at::divup(int64_t(1) << 16, group * multiplications);
  at::parallel_for(0, at::divup(columns, group), grain, [&](int64_t first, int64_t last) {
    for (int64_t begin = first * group; begin < std::min(last * group, columns); begin += group) {
      run(begin, std::min(begin + group, columns));
    }
  });
}

template <typename T>
T bound_of(std::optional<double> clip) {
  return clip ? static_cast<T>(*clip) : std::numeric_limits<T>::infinity();
}

template <typename T>
T* row_of(const Tensor& tensor, int64_t row) {
  return tensor.data_ptr<T>() + row * tensor.size(1);
}

// sums += the products of x with `count` weights, in one vector of M.
template <typename T, typename M>
C10_ALWAYS_INLINE void add_products(const M* weights, const T* x, int64_t count, Vec<T>& sum) {
  constexpr int64_t length = Vec<T>::size(), parts = Vec<M>::size() / length;
  const at::vec::VectorizedN<T, parts> wide =
      at::vec::convert<T, parts, M, 1>(at::vec::VectorizedN<M, 1>(Vec<M>::loadu(weights, count)));
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t left = std::clamp<int64_t>(count - part * length, 0, length);
    sum = at::vec::fmadd(wide[part], Vec<T>::loadu(x + part * length, left), sum);
  }
}

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

// The products of x with the first kGroup rows of a weight; where it has fewer, the last one again.
template <typename T, typename M>
C10_ALWAYS_INLINE void multiply_group(const M* weight, int64_t num_rows, const T* x, int64_t size, T* totals) {
  Vec<T> sums[kGroup / 4][4];
  const M* rows[kGroup];
  for (int64_t row = 0; row < kGroup; ++row) {
    rows[row] = weight + std::min(row, num_rows - 1) * size;
    sums[row / 4][row % 4] = Vec<T>(0);
  }
  over_vectors<M>(0, size, [&](int64_t k, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
    if constexpr (std::is_same_v<M, at::BFloat16>) {
      if (count == Vec<M>::size()) {
        // Two weights to a word: every other one by a shift, the others by a mask, is cheaper than the general way.
        const auto [even, odd] = at::vec::deinterleave2(Vec<T>::loadu(x + k), Vec<T>::loadu(x + k + Vec<T>::size()));
        for (int row = 0; row < kGroup; ++row) {
          Vec<T>& sum = sums[row / 4][row % 4];
          const auto words = Vec<int32_t>::loadu(rows[row] + k);
          sum = at::vec::fmadd(at::vec::cast<T>(words << Vec<int32_t>(16)), even, sum);
          sum = at::vec::fmadd(at::vec::cast<T>(words & Vec<int32_t>(-65536)), odd, sum);
        }
        return;
      }
    }
    for (int row = 0; row < kGroup; ++row) {
      add_products<T, M>(rows[row] + k, x + k, count, sums[row / 4][row % 4]);
    }
  });
  for (int part = 0; part < kGroup / 4; ++part) {
    store_totals(sums[part], totals + 4 * part);
  }
}

// Where one row of one forward step reads and writes; null for what is not kept.
template <typename T>
struct Cells {
  T* gates;
  const T* before;
  T* unclipped;
  T* after;
  T* squashed;
  int64_t size;
  T clip;

  // Updates the cells of columns begin to end, given the recurrent share of their gates, `pitch` from gate to gate.
  template <typename M>
  C10_ALWAYS_INLINE void update(int64_t begin, int64_t end, const M* product, int64_t pitch, M* remembered) const {
    over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
      const auto total = [&](int64_t gate) C10_ALWAYS_INLINE_ATTRIBUTE {
        return Vec<T>::loadu(gates + gate * size + j, count) + load<T>(product + gate * pitch + j - begin, count);
      };
      const Vec<T> i = sigmoid(total(0)), f = sigmoid(total(1)), g = tanh(total(2)), o = sigmoid(total(3));
      const Vec<T> cell = at::vec::fmadd(f, Vec<T>::loadu(before + j, count), i * g);
      const Vec<T> clipped = ::clip(cell, clip);
      const Vec<T> bent = tanh(clipped);
      if (squashed != nullptr) {
        i.store(gates + j, count);
        f.store(gates + size + j, count);
        g.store(gates + 2 * size + j, count);
        o.store(gates + 3 * size + j, count);
        cell.store(unclipped + j, count);
        bent.store(squashed + j, count);
      }
      clipped.store(after + j, count);
      store(remembered + j, o * bent, count);
    });
  }
};

// One row's gates and cells. A core computes all gates of its cells, so that they wait for no other core, and the same
// ones at every step, so that they stay in its cache.
template <typename T, typename M>
void update_one_row(const Cells<T>& cells, const M* recurrent, const T* hidden, int64_t output_size, T* remembered) {
  over_groups(cells.size, kUnits, 4 * output_size, [&](int64_t begin, int64_t end) {
    T totals[4 * kUnits];
    for (int64_t gate = 0; gate < 4; ++gate) {
      for (int64_t j = begin; j < end; j += kGroup) {
        const M* const rows = recurrent + (gate * cells.size + j) * output_size;
        multiply_group(rows, end - j, hidden, output_size, totals + gate * kUnits + j - begin);
      }
    }
    cells.update(begin, end, static_cast<const T*>(totals), kUnits, remembered);
  });
}

template <typename T, typename M>
void project_one_row(const M* projection, const T* x, int64_t size, int64_t num_outputs, T bound, T* raw, T* outputs) {
  over_groups(num_outputs, kGroup, size, [&](int64_t begin, int64_t end) {
    T totals[kGroup];
    multiply_group(projection + begin * size, end - begin, x, size, totals);
    for (int64_t j = begin; j < end; ++j) {
      raw[j] = totals[j - begin];
      outputs[j] = std::clamp(totals[j - begin], -bound, bound);
    }
  });
}

struct Forward {
  Tensor gates;  // (N, 4H)
  Weight recurrent, projection;
  Tensor hidden, cell;  // (B, P), (B, H)
  at::IntArrayRef sizes;
  std::optional<double> cell_clip, projection_clip;
  Tensor unclipped_outputs, outputs;  // (N, P)
  Tensor unclipped, cells, squashed;  // (N, H); undefined where nothing is kept
};

template <typename T, typename M>
void run_forward(const Forward& a) {
  const int64_t num_rows = a.sizes[0], cell_size = a.cell.size(1), output_size = a.hidden.size(1);
  const T cell_bound = bound_of<T>(a.cell_clip), output_bound = bound_of<T>(a.projection_clip);
  const bool has_rows = a.recurrent.rows.is_contiguous() && a.projection.rows.is_contiguous();
  // What goes into the products, and room for what comes out of them.
  const auto factors = a.gates.options().dtype(c10::CppTypeToScalarType<M>());
  const Tensor hidden = a.hidden.to(factors, /*non_blocking=*/false, /*copy=*/true);
  const Tensor remembered = at::empty({num_rows, cell_size}, factors);
  const Tensor one_remembered = at::empty({1, cell_size}, a.gates.options());
  const Tensor gates_space = at::empty({num_rows, 4 * cell_size}, factors);
  const Tensor outputs_space = at::empty({num_rows, output_size}, factors);
  // The places of a step's first row and of that of the step before.
  int64_t start = 0, before = 0;
  const auto cells_of = [&](int64_t row) -> Cells<T> {
    T *const gates = row_of<T>(a.gates, start + row), *const carried = row_of<T>(a.cell, row);
    if (!a.cells.defined()) {
      return {gates, carried, nullptr, carried, nullptr, cell_size, cell_bound};
    }
    const T* const found = start == 0 ? carried : row_of<T>(a.cells, before + row);
    T *const unclipped = row_of<T>(a.unclipped, start + row), *const squashed = row_of<T>(a.squashed, start + row);
    return {gates, found, unclipped, row_of<T>(a.cells, start + row), squashed, cell_size, cell_bound};
  };
  for (const int64_t size : a.sizes) {
    // Bound by reading the weights, where a library gains nothing.
    if (size == 1 && has_rows) {
      const T* const found = start == 0 ? row_of<T>(a.hidden, 0) : row_of<T>(a.outputs, before);
      T* const one = row_of<T>(one_remembered, 0);
      update_one_row(cells_of(0), a.recurrent.rows.data_ptr<M>(), found, output_size, one);
      T *const unclipped = row_of<T>(a.unclipped_outputs, start), *const outputs = row_of<T>(a.outputs, start);
      const M* const weight = a.projection.rows.data_ptr<M>();
      project_one_row(weight, one, cell_size, output_size, output_bound, unclipped, outputs);
    } else {
      const Tensor share = a.recurrent.multiply(hidden.narrow(0, 0, size), gates_space);
      over_blocks(size, cell_size, [&](int64_t row, int64_t begin, int64_t end) {
        cells_of(row).update(begin, end, row_of<M>(share, row) + begin, cell_size, row_of<M>(remembered, row));
      });
      const Tensor product = a.projection.multiply(remembered.narrow(0, 0, size), outputs_space);
      over_blocks(size, output_size, [&](int64_t row, int64_t begin, int64_t end) {
        over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
          const Vec<T> output = load<T>(row_of<M>(product, row) + j, count), clipped = clip(output, output_bound);
          output.store(row_of<T>(a.unclipped_outputs, start + row) + j, count);
          clipped.store(row_of<T>(a.outputs, start + row) + j, count);
          store(row_of<M>(hidden, row) + j, clipped, count);
        });
      });
    }
    before = start;
    start += size;
  }
}

struct Backward {
  Tensor gates, unclipped, cells, squashed, unclipped_outputs;  // what the forward steps kept
  Weight recurrent, projection;  // the transposes, (P, 4H) and (H, P)
  Tensor cell;  // before the first step, (B, H)
  Tensor grad_outputs, grad_hidden, grad_cell;  // (N, P), (B, P), (B, H)
  at::IntArrayRef sizes;
  std::optional<double> cell_clip, projection_clip;
  Tensor grad_gates;  // (N, 4H)
};

template <typename T, typename M>
void run_backward(const Backward& a) {
  const int64_t num_rows = a.sizes[0], cell_size = a.cells.size(1), output_size = a.grad_outputs.size(1);
  const T cell_bound = bound_of<T>(a.cell_clip), output_bound = bound_of<T>(a.projection_clip);
  const auto factors = a.gates.options().dtype(c10::CppTypeToScalarType<M>());
  const Tensor cells_space = at::empty({num_rows, cell_size}, factors);
  const Tensor outputs_space = at::empty({num_rows, output_size}, factors);
  // A step's gradients as they go into the products: themselves, where the types are the same.
  constexpr bool is_same = std::is_same_v<T, M>;
  const Tensor outputs_factors = at::empty({is_same ? 0 : num_rows, output_size}, factors);
  const Tensor gates_factors = at::empty({is_same ? 0 : num_rows, 4 * cell_size}, factors);
  int64_t start = a.gates.size(0);
  for (int64_t step = static_cast<int64_t>(a.sizes.size()) - 1; step >= 0; --step) {
    const int64_t size = a.sizes[step];
    start -= size;
    const Tensor of_outputs = is_same ? a.grad_outputs.narrow(0, start, size) : outputs_factors.narrow(0, 0, size);
    const Tensor of_gates = is_same ? a.grad_gates.narrow(0, start, size) : gates_factors.narrow(0, 0, size);
    over_blocks(size, output_size, [&](int64_t row, int64_t begin, int64_t end) {
      T* const grad_output = row_of<T>(a.grad_outputs, start + row);
      over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
        const Vec<T> later = Vec<T>::loadu(row_of<T>(a.grad_hidden, row) + j, count);
        const Vec<T> output = Vec<T>::loadu(row_of<T>(a.unclipped_outputs, start + row) + j, count);
        const Vec<T> grad = clip_backward(Vec<T>::loadu(grad_output + j, count) + later, output, output_bound);
        grad.store(grad_output + j, count);
        store(row_of<M>(of_outputs, row) + j, grad, count);
      });
    });
    const Tensor of_remembered = a.projection.multiply(of_outputs, cells_space);
    over_blocks(size, cell_size, [&](int64_t row, int64_t begin, int64_t end) {
      const T *const gates = row_of<T>(a.gates, start + row), *const squashed = row_of<T>(a.squashed, start + row);
      const T* const before =
          step == 0 ? row_of<T>(a.cell, row) : row_of<T>(a.cells, start - a.sizes[step - 1] + row);
      const T* const unclipped = row_of<T>(a.unclipped, start + row);
      T *const grad_gates = row_of<T>(a.grad_gates, start + row), *const grad_cell = row_of<T>(a.grad_cell, row);
      const M* const grad_remembered = row_of<M>(of_remembered, row);
      M* const to_product = row_of<M>(of_gates, row);
      const Vec<T> one(1);
      over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
        const auto read = [&](const T* from) C10_ALWAYS_INLINE_ATTRIBUTE { return Vec<T>::loadu(from + j, count); };
        const Vec<T> i = read(gates), f = read(gates + cell_size), g = read(gates + 2 * cell_size);
        const Vec<T> o = read(gates + 3 * cell_size), bent = read(squashed);
        const Vec<T> grad = load<T>(grad_remembered + j, count);
        const Vec<T> of_clipped = at::vec::fmadd(grad * o, one - bent * bent, read(grad_cell));
        const Vec<T> of_cell = clip_backward(of_clipped, read(unclipped), cell_bound);
        const Vec<T> found[4] = {
            of_cell * g * i * (one - i),
            of_cell * read(before) * f * (one - f),
            of_cell * i * (one - g * g),
            grad * bent * o * (one - o)};
        for (int64_t gate = 0; gate < 4; ++gate) {
          found[gate].store(grad_gates + gate * cell_size + j, count);
          store(to_product + gate * cell_size + j, found[gate], count);
        }
        (of_cell * f).store(grad_cell + j, count);
      });
    });
    a.grad_hidden.narrow(0, 0, size).copy_(a.recurrent.multiply(of_gates, outputs_space));
  }
}

// Calls run(T(), M()) with the types of a pass.
template <typename F>
void with_types(const Tensor& gates, const Weight& weight, const F& run) {
  const auto dtype = weight.laid_out.scalar_type();
  if (gates.scalar_type() == at::kDouble && dtype == at::kDouble) {
    run(double(), double());
  } else if (gates.scalar_type() == at::kFloat && dtype == at::kFloat) {
    run(float(), float());
  } else if (gates.scalar_type() == at::kFloat && dtype == at::kBFloat16) {
    run(float(), at::BFloat16());
  } else if (gates.scalar_type() == at::kFloat && dtype == at::kHalf) {
    run(float(), at::Half());
  } else {
    TORCH_CHECK(false, "no steps for gates of ", gates.scalar_type(), " with weights of ", dtype);
  }
}

std::vector<Tensor> run_steps(
    const Tensor& gates,
    const std::vector<Tensor>& weights,
    const Tensor& hidden,
    const Tensor& cell,
    at::IntArrayRef sizes,
    std::optional<double> cell_clip,
    std::optional<double> projection_clip,
    bool keeps) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor outputs = at::empty({gates.size(0), hidden.size(1)}, gates.options());
  Tensor unclipped_outputs = outputs, unclipped, cells, squashed;
  if (keeps) {
    unclipped_outputs = projection_clip ? at::empty_like(outputs) : outputs;
    cells = at::empty({gates.size(0), cell.size(1)}, gates.options());
    unclipped = cell_clip ? at::empty_like(cells) : cells;
    squashed = at::empty_like(cells);
  }
  const Weight recurrent{weights[0], weights[1]}, projection{weights[2], weights[3]};
  const Forward arguments{
      gates, recurrent, projection, hidden, cell, sizes, cell_clip, projection_clip, unclipped_outputs, outputs,
      unclipped, cells, squashed};
  if (!sizes.empty()) {
    with_types(gates, recurrent, [&](auto t, auto m) { run_forward<decltype(t), decltype(m)>(arguments); });
  }
  return keeps ? std::vector<Tensor>{unclipped, cells, squashed, unclipped_outputs, outputs}
               : std::vector<Tensor>{outputs};
}

Tensor run_steps_back(
    const std::vector<Tensor>& traces,
    const std::vector<Tensor>& weights,
    const Tensor& cell,
    const std::vector<Tensor>& gradients,
    at::IntArrayRef sizes,
    std::optional<double> cell_clip,
    std::optional<double> projection_clip) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor grad_gates = at::empty_like(traces[0]);
  const Backward arguments{
      traces[0], traces[1], traces[2], traces[3], traces[4], {weights[0], weights[1]}, {weights[2], weights[3]}, cell,
      gradients[0], gradients[1], gradients[2], sizes, cell_clip, projection_clip, grad_gates};
  if (!sizes.empty()) {
    with_types(traces[0], arguments.recurrent, [&](auto t, auto m) {
      run_backward<decltype(t), decltype(m)>(arguments);
    });
  }
  return grad_gates;
}

} // namespace

TORCH_LIBRARY(hf_elmo_kernels, library) {
  library.def(
      "run_steps(Tensor(a!) gates, Tensor[] weights, Tensor hidden, Tensor(b!) cell, int[] sizes, float? cell_clip, "
      "float? projection_clip, bool keeps) -> Tensor[]",
      &run_steps);
  library.def(
      "run_steps_back(Tensor[] traces, Tensor[] weights, Tensor cell, Tensor(a!)[] gradients, int[] sizes, "
      "float? cell_clip, float? projection_clip) -> Tensor",
      &run_steps_back);
}
