// Runs all steps of a projected LSTM on the CPU in one call, forward or backward: plain.py in C++.
//
// Letters as there: B rows, N words in the order of steps, P projection, H cell. T is the type of everything between
// the products, M that of the products' factors; T is float where M is narrower.

#pragma once

#include "small_gemm.h"
#include "parallel.h"
#include "vectors.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <optional>
#include <vector>

namespace {

// Cells whose gates, and outputs whose products, a core computes together.
constexpr int64_t kUnits = 16, kOutputs = 8;
// The most rows that are multiplied by the weights as they lie in memory.
constexpr int64_t kSmallBatch = 64;

struct Weight {
  Tensor rows;  // (O, I)
  Tensor prepared;  // the transpose, (I, O), or oneDNN's own layout

  // x (B, I) to x W^T (B, O), which may lie in `space`.
  Tensor multiply(const Tensor& x, const Tensor& space) const {
    if (!prepared.is_mkldnn()) {
      Tensor product = space.narrow(0, 0, x.size(0));
      return at::mm_out(product, x, prepared);
    }
    static const auto linear = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "");
    torch::jit::Stack stack{x, prepared, c10::IValue(), "none", c10::List<std::optional<at::Scalar>>(), ""};
    linear.callBoxed(&stack);
    return stack[0].toTensor();
  }
};

// Where one row of one forward step reads and writes; null for what is not kept.
template <typename T>
struct Cells {
  T* gates;
  const T* bias;
  const T* before;
  T* unclipped;
  T* after;
  T* tanh_cells;
  int64_t size;
  T clip;

  // Updates the cells of columns begin to end, given the recurrent share of their gates, `pitch` from gate to gate.
  template <typename M>
  C10_ALWAYS_INLINE void update(int64_t begin, int64_t end, const M* product, int64_t pitch, M* cell_output) const {
    over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
      const auto total = [&](int64_t gate) C10_ALWAYS_INLINE_ATTRIBUTE {
        const Vec<T> of_inputs =
            Vec<T>::loadu(gates + gate * size + j, count) + Vec<T>::loadu(bias + gate * size + j, count);
        return of_inputs + load<T>(product + gate * pitch + j - begin, count);
      };
      const Vec<T> i = sigmoid(total(0)), f = sigmoid(total(1)), g = tanh(total(2)), o = sigmoid(total(3));
      const Vec<T> cell = at::vec::fmadd(f, Vec<T>::loadu(before + j, count), i * g);
      const Vec<T> clipped = ::clip(cell, clip);
      const Vec<T> tanh_cell = tanh(clipped);
      if (tanh_cells != nullptr) {
        i.store(gates + j, count);
        f.store(gates + size + j, count);
        g.store(gates + 2 * size + j, count);
        o.store(gates + 3 * size + j, count);
        cell.store(unclipped + j, count);
        tanh_cell.store(tanh_cells + j, count);
      }
      clipped.store(after + j, count);
      store(cell_output + j, o * tanh_cell, count);
    });
  }
};

struct Forward {
  Tensor gates, bias;  // (N, 4H), (4H)
  Weight recurrent, projection;
  Tensor hidden, cell;  // (B, P), (B, H)
  at::IntArrayRef sizes;
  int64_t small_batch;  // at most kSmallBatch
  std::optional<double> cell_clip, projection_clip;
  Tensor unclipped_outputs, outputs;  // (N, P)
  Tensor unclipped, cells, tanh_cells;  // (N, H); undefined where nothing is kept
};

// All steps from `step` on, of few rows each, whose words lie from `start` on and those of the step before from
// `before` on. A thread has the same cells and the same outputs at every step.
template <typename T, typename M, typename F>
void run_few_steps(const Forward& a, size_t step, int64_t start, int64_t before, const F& cells_of) {
  const int64_t most_rows = a.sizes[step], cell_size = a.cell.size(1), output_size = a.hidden.size(1);
  const T bound = bound_of<T>(a.projection_clip);
  const M *const recurrent = a.recurrent.rows.data_ptr<M>(), *const projection = a.projection.rows.data_ptr<M>();
  const T* const hidden = a.hidden.data_ptr<T>();
  T *const raw = a.unclipped_outputs.data_ptr<T>(), *const outputs = a.outputs.data_ptr<T>();
  const Tensor space = at::empty({most_rows, cell_size}, a.gates.options());
  T* const cell_output = space.data_ptr<T>();
  parallel_steps(4 * output_size * cell_size * most_rows, [&](const Worker& worker) {
    int64_t own = start, last = before;
    for (size_t index = step; index < a.sizes.size(); ++index) {
      const int64_t size = a.sizes[index];
      const T* const state = own == 0 ? hidden : outputs + last * output_size;
      worker.over_groups(cell_size, kUnits, [&](int64_t begin, int64_t end) {
        // All gates of some cells of all rows, and these cells: they wait for no other core.
        T totals[kSmallBatch * 4 * kUnits];
        for (int64_t gate = 0; gate < 4; ++gate) {
          const M* const rows = recurrent + (gate * cell_size + begin) * output_size;
          multiply_rows(rows, end - begin, state, size, output_size, totals + gate * kUnits, 4 * kUnits);
        }
        for (int64_t row = 0; row < size; ++row) {
          const T* const product = totals + row * 4 * kUnits;
          cells_of(row, own, last).update(begin, end, product, kUnits, cell_output + row * cell_size);
        }
      });
      worker.wait();
      worker.over_groups(output_size, kOutputs, [&](int64_t begin, int64_t end) {
        const M* const rows = projection + begin * cell_size;
        const int64_t first = own * output_size + begin;
        multiply_rows(rows, end - begin, cell_output, size, cell_size, raw + first, output_size);
        for (int64_t row = 0; row < size; ++row) {
          for (int64_t j = first + row * output_size; j < first + row * output_size + end - begin; ++j) {
            outputs[j] = std::clamp(raw[j], -bound, bound);
          }
        }
      });
      worker.wait();
      last = own;
      own += size;
    }
  });
}

template <typename T, typename M>
void run_forward(const Forward& a) {
  const int64_t num_rows = a.sizes[0], cell_size = a.cell.size(1), output_size = a.hidden.size(1);
  const T cell_bound = bound_of<T>(a.cell_clip), output_bound = bound_of<T>(a.projection_clip);
  const bool has_rows = a.recurrent.rows.is_contiguous() && a.projection.rows.is_contiguous();
  // The factors of the products, and space for their results.
  const auto factors = a.gates.options().dtype(c10::CppTypeToScalarType<M>());
  const Tensor hidden = a.hidden.to(factors, /*non_blocking=*/false, /*copy=*/true);
  const Tensor cell_output = at::empty({num_rows, cell_size}, factors);
  const Tensor gates_space = at::empty({num_rows, 4 * cell_size}, factors);
  const Tensor outputs_space = at::empty({num_rows, output_size}, factors);
  // The places of a step's first row and of that of the step before.
  int64_t start = 0, before = 0;
  // Looked up once: a tensor's own questions would cost as much as a vector of cells.
  const bool keeps = a.cells.defined();
  T *const gates = a.gates.data_ptr<T>(), *const carried = a.cell.data_ptr<T>();
  const T* const bias = a.bias.data_ptr<T>();
  T* const unclipped = keeps ? a.unclipped.data_ptr<T>() : nullptr;
  T* const kept_cells = keeps ? a.cells.data_ptr<T>() : nullptr;
  T* const tanh_cells = keeps ? a.tanh_cells.data_ptr<T>() : nullptr;
  const auto cells_of = [&](int64_t row, int64_t start, int64_t before) -> Cells<T> {
    T* const own = gates + (start + row) * 4 * cell_size;
    T* const state = carried + row * cell_size;
    if (!keeps) {
      return {own, bias, state, nullptr, state, nullptr, cell_size, cell_bound};
    }
    const T* const earlier = start == 0 ? state : kept_cells + (before + row) * cell_size;
    const int64_t place = (start + row) * cell_size;
    return {own, bias, earlier, unclipped + place, kept_cells + place, tanh_cells + place, cell_size, cell_bound};
  };
  size_t step = 0;
  for (; step < a.sizes.size() && !(has_rows && a.sizes[step] <= a.small_batch); ++step) {
    const int64_t size = a.sizes[step];
    const Tensor share = a.recurrent.multiply(hidden.narrow(0, 0, size), gates_space);
    over_blocks(size, cell_size, [&](int64_t row, int64_t begin, int64_t end) {
      cells_of(row, start, before)
          .update(begin, end, row_of<M>(share, row) + begin, cell_size, row_of<M>(cell_output, row));
    });
    const Tensor product = a.projection.multiply(cell_output.narrow(0, 0, size), outputs_space);
    over_blocks(size, output_size, [&](int64_t row, int64_t begin, int64_t end) {
      over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
        const Vec<T> output = load<T>(row_of<M>(product, row) + j, count), clipped = clip(output, output_bound);
        output.store(row_of<T>(a.unclipped_outputs, start + row) + j, count);
        clipped.store(row_of<T>(a.outputs, start + row) + j, count);
        store(row_of<M>(hidden, row) + j, clipped, count);
      });
    });
    before = start;
    start += size;
  }
  if (step < a.sizes.size()) {
    run_few_steps<T, M>(a, step, start, before, cells_of);
  }
}

std::vector<Tensor> run_steps(
    const Tensor& gates,
    const Tensor& bias,
    const std::vector<Tensor>& weights,
    const Tensor& hidden,
    const Tensor& cell,
    at::IntArrayRef sizes,
    std::optional<double> cell_clip,
    std::optional<double> projection_clip,
    int64_t small_batch,
    bool keeps) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor outputs = at::empty({gates.size(0), hidden.size(1)}, gates.options());
  Tensor unclipped_outputs = outputs, unclipped, cells, tanh_cells;
  if (keeps) {
    unclipped_outputs = projection_clip ? at::empty_like(outputs) : outputs;
    cells = at::empty({gates.size(0), cell.size(1)}, gates.options());
    unclipped = cell_clip ? at::empty_like(cells) : cells;
    tanh_cells = at::empty_like(cells);
  }
  const Weight recurrent{weights[0], weights[1]}, projection{weights[2], weights[3]};
  const Forward arguments{
      gates, bias, recurrent, projection, hidden, cell, sizes, std::min(small_batch, kSmallBatch), cell_clip,
      projection_clip, unclipped_outputs, outputs, unclipped, cells, tanh_cells};
  if (!sizes.empty()) {
    over_weight_types(
        gates, recurrent.prepared, [&]<typename T, typename M>(T, M) { run_forward<T, M>(arguments); });
  }
  return keeps ? std::vector<Tensor>{unclipped, cells, tanh_cells, unclipped_outputs, outputs}
               : std::vector<Tensor>{outputs};
}

// Traces: gates, unclipped cells, cells, their tanh and unclipped outputs. Weights: the transposes, (P, 4H) and (H, P).
// Gradients of outputs, hidden state and cell, which are overwritten; returned are those of the gates.
Tensor run_steps_backward(
    const std::vector<Tensor>& traces,
    const std::vector<Tensor>& weights,
    const Tensor& cell,
    const std::vector<Tensor>& gradients,
    at::IntArrayRef sizes,
    std::optional<double> cell_clip,
    std::optional<double> projection_clip) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor of_all_gates = at::empty_like(traces[0]);
  if (sizes.empty()) {
    return of_all_gates;
  }
  const Weight recurrent{weights[0], weights[1]}, projection{weights[2], weights[3]};
  over_weight_types(traces[0], recurrent.prepared, [&]<typename T, typename M>(T, M) {
    const int64_t num_rows = sizes[0], cell_size = cell.size(1), output_size = gradients[1].size(1);
    const T cell_bound = bound_of<T>(cell_clip), output_bound = bound_of<T>(projection_clip);
    const auto factors = traces[0].options().dtype(c10::CppTypeToScalarType<M>());
    const Tensor cells_space = at::empty({num_rows, cell_size}, factors);
    const Tensor outputs_space = at::empty({num_rows, output_size}, factors);
    // A step's gradients as they go into the products: themselves, where the types are the same.
    constexpr bool is_same = std::is_same_v<T, M>;
    const Tensor outputs_factors = at::empty({is_same ? 0 : num_rows, output_size}, factors);
    const Tensor gates_factors = at::empty({is_same ? 0 : num_rows, 4 * cell_size}, factors);
    int64_t start = traces[0].size(0);
    for (int64_t step = static_cast<int64_t>(sizes.size()) - 1; step >= 0; --step) {
      const int64_t size = sizes[step];
      start -= size;
      const Tensor of_outputs = is_same ? gradients[0].narrow(0, start, size) : outputs_factors.narrow(0, 0, size);
      const Tensor of_gates = is_same ? of_all_gates.narrow(0, start, size) : gates_factors.narrow(0, 0, size);
      over_blocks(size, output_size, [&](int64_t row, int64_t begin, int64_t end) {
        T* const grad_output = row_of<T>(gradients[0], start + row);
        over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
          const Vec<T> later = Vec<T>::loadu(row_of<T>(gradients[1], row) + j, count);
          const Vec<T> output = Vec<T>::loadu(row_of<T>(traces[4], start + row) + j, count);
          const Vec<T> grad = clip_backward(Vec<T>::loadu(grad_output + j, count) + later, output, output_bound);
          grad.store(grad_output + j, count);
          store(row_of<M>(of_outputs, row) + j, grad, count);
        });
      });
      const Tensor of_cell_output = projection.multiply(of_outputs, cells_space);
      over_blocks(size, cell_size, [&](int64_t row, int64_t begin, int64_t end) {
        const T *const gates = row_of<T>(traces[0], start + row), *const tanh_cells = row_of<T>(traces[3], start + row);
        const T* const before =
            step == 0 ? row_of<T>(cell, row) : row_of<T>(traces[2], start - sizes[step - 1] + row);
        const T* const unclipped = row_of<T>(traces[1], start + row);
        T *const grad_gates = row_of<T>(of_all_gates, start + row), *const grad_cell = row_of<T>(gradients[2], row);
        const M* const grad_cell_output = row_of<M>(of_cell_output, row);
        M* const to_product = row_of<M>(of_gates, row);
        const Vec<T> one(1);
        over_vectors<T>(begin, end, [&](int64_t j, int64_t count) C10_ALWAYS_INLINE_ATTRIBUTE {
          const auto read = [&](const T* from) C10_ALWAYS_INLINE_ATTRIBUTE { return Vec<T>::loadu(from + j, count); };
          const Vec<T> i = read(gates), f = read(gates + cell_size), g = read(gates + 2 * cell_size);
          const Vec<T> o = read(gates + 3 * cell_size), tanh_cell = read(tanh_cells);
          const Vec<T> grad = load<T>(grad_cell_output + j, count);
          const Vec<T> of_clipped = at::vec::fmadd(grad * o, one - tanh_cell * tanh_cell, read(grad_cell));
          const Vec<T> of_cell = clip_backward(of_clipped, read(unclipped), cell_bound);
          const Vec<T> of_gate[4] = {
              of_cell * g * i * (one - i),
              of_cell * read(before) * f * (one - f),
              of_cell * i * (one - g * g),
              grad * tanh_cell * o * (one - o)};
          for (int64_t gate = 0; gate < 4; ++gate) {
            of_gate[gate].store(grad_gates + gate * cell_size + j, count);
            store(to_product + gate * cell_size + j, of_gate[gate], count);
          }
          (of_cell * f).store(grad_cell + j, count);
        });
      });
      gradients[1].narrow(0, 0, size).copy_(recurrent.multiply(of_gates, outputs_space));
    }
  });
  return of_all_gates;
}

} // namespace
