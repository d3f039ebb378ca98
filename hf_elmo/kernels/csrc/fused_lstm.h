// A projected LSTM trained in one call per pass: products, gates and gradients of some rows by the core that has them.
//
// Letters as in lstm_steps.h. Rows of a batch share nothing but the gradients of weights, so that each core runs
// all steps of its own rows and waits for nobody. M is the type of products' factors; everything between is float32.

#pragma once

#include "buffer_pool.h"
#include "amx_gemm.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <optional>
#include <vector>

namespace {

// What a cell leaves for the way back: its four gates, and what it was before the step. The traces of a step lie by
// blocks of 16 cells, in these by rows: (H / 16, rows, 5, 16).
constexpr int64_t kKept = 5;
constexpr int64_t kScratch = kTiles * kTile * kPanels * kTile;

// What a thread needs while it multiplies.
template <typename M>
struct Session {};
#ifdef HF_ELMO_AMX
template <>
struct Session<at::BFloat16> : Tiles {};
#endif

// A vector as a factor of products: stored as 16 numbers of a row, and with that of the row after it, where `row` is
// even, into their lines of a panel.
template <typename M>
struct Factors;

template <>
struct Factors<float> {
  Vec<float> values;

  C10_ALWAYS_INLINE explicit Factors(const Vec<float>& values) : values(values) {}
  C10_ALWAYS_INLINE void store(float* to) const {
    values.store(to);
  }
  C10_ALWAYS_INLINE void store_pair(float* panel, int64_t row, int64_t j, const Factors& next) const {
    values.store(panel + row * kTile + j);
    next.values.store(panel + (row + 1) * kTile + j);
  }
};

#ifdef HF_ELMO_AMX
template <>
struct Factors<at::BFloat16> {
  // Rounded, ties to even, in the upper halves.
  __m512i upper;

  C10_ALWAYS_INLINE explicit Factors(const Vec<float>& values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    upper = _mm512_mask_mov_epi32(rounded, is_nan, _mm512_set1_epi32(0x7fc00000));
  }
  C10_ALWAYS_INLINE void store(at::BFloat16* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_srli_epi32(upper, 16)));
  }
  C10_ALWAYS_INLINE void store_pair(at::BFloat16* panel, int64_t row, int64_t j, const Factors& next) const {
    const __m512i high = _mm512_and_si512(next.upper, _mm512_set1_epi32(int32_t(0xffff0000)));
    _mm512_storeu_si512(panel + row * kTile + 2 * j, _mm512_or_si512(_mm512_srli_epi32(upper, 16), high));
  }
};
#endif

// Calls run(first, last) for ranges of tiles of rows, one for each core.
template <typename F>
void over_tiles(int64_t rows, const F& run) {
  const int64_t tiles = at::divup(rows, kTile), cores = std::min<int64_t>(at::get_num_threads(), tiles);
  at::parallel_for(0, cores, 1, [&](int64_t first, int64_t last) {
    run(first * tiles / cores * kTile, std::min(last * tiles / cores * kTile, rows));
  });
}

// Calls run(row, count) for up to two tiles of rows at a time.
template <typename F>
C10_ALWAYS_INLINE void over_rows(int64_t rows, const F& run) {
  for (int64_t row = 0; row < rows; row += kTiles * kTile) {
    run(row, std::min(kTiles * kTile, rows - row));
  }
}

struct FusedForward {
  Tensor words;  // (N, P), of M
  Tensor gate_panels, output_panels;  // of the inputs' and the recurrent weight side by side, (2P, 4H), and of (H, P)
  Tensor bias, hidden, cell;  // (4H), (B, P), (B, H); the last overwritten by the state after each row's last step
  at::IntArrayRef sizes;
  float cell_bound, output_bound;
  Tensor traces, unclipped_outputs, outputs;  // (N, 5H), (N, P), (N, P)
};

template <typename M>
void run_fused_rows(const FusedForward& a, int64_t begin, int64_t end) {
  const int64_t cell_size = a.cell.size(1), output_size = a.hidden.size(1), inputs = 2 * output_size;
  const int64_t rows = at::divup(end - begin, kTile) * kTile;
  // A little apart, lest all rows of a tile fall into the same few lines of a cache.
  const int64_t factors_step = inputs + 32, cell_output_step = cell_size + 32;
  const auto options = a.words.options();
  const Tensor factors_space = at::zeros({rows, factors_step}, options);
  const Tensor cell_output_space = at::zeros({rows, cell_output_step}, options);
  M *const factors = factors_space.data_ptr<M>(), *const cell_output = cell_output_space.data_ptr<M>();
  const M *const gate_panels = a.gate_panels.data_ptr<M>(), *const output_panels = a.output_panels.data_ptr<M>();
  const float* const bias = a.bias.data_ptr<float>();
  float* const cells = a.cell.data_ptr<float>() + begin * cell_size;
  alignas(64) float scratch[kScratch];
  constexpr int64_t pitch = kPanels * kTile;
  const Session<M> session;
  for (int64_t row = 0; row < end - begin; ++row) {
    const float* const from = row_of<float>(a.hidden, begin + row);
    over_vectors<float>(0, output_size, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
      Factors<M>(Vec<float>::loadu(from + j)).store(factors + row * factors_step + output_size + j);
    });
  }
  int64_t start = 0;
  for (const int64_t size : a.sizes) {
    const int64_t num_rows = std::min(size, end) - begin;
    if (num_rows <= 0) {
      break;
    }
    for (int64_t row = 0; row < num_rows; ++row) {
      std::memcpy(factors + row * factors_step, row_of<M>(a.words, start + begin + row), output_size * sizeof(M));
    }
    for (int64_t column = 0; column < cell_size; column += kTile) {
      const M* const panels = gate_panels + 4 * column * inputs;
      float* const kept = a.traces.data_ptr<float>() + kKept * (start * cell_size + (column * size + begin * kTile));
      over_rows(num_rows, [&](int64_t first, int64_t count) {
        const M* const from = factors + first * factors_step;
        multiply_panels(from, factors_step, count, panels, inputs * kTile, 4, inputs, scratch, pitch);
        for (int64_t row = first; row < first + count; ++row) {
          const float* const product = scratch + (row - first) * pitch;
          float *const own = kept + row * kKept * kTile, *const state = cells + row * cell_size + column;
          M* const to = cell_output + row * cell_output_step + column;
          over_vectors<float>(0, kTile, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
            const auto total = [&](int64_t gate) C10_ALWAYS_INLINE_ATTRIBUTE {
              return Vec<float>::loadu(product + gate * kTile + j) +
                  Vec<float>::loadu(bias + gate * cell_size + column + j);
            };
            const Vec<float> i = sigmoid(total(0)), f = sigmoid(total(1)), g = tanh(total(2)), o = sigmoid(total(3));
            const Vec<float> before = Vec<float>::loadu(state + j);
            const Vec<float> clipped = clip(at::vec::fmadd(f, before, i * g), a.cell_bound);
            i.store(own + j);
            f.store(own + kTile + j);
            g.store(own + 2 * kTile + j);
            o.store(own + 3 * kTile + j);
            before.store(own + 4 * kTile + j);
            clipped.store(state + j);
            Factors<M>(o * tanh(clipped)).store(to + j);
          });
        }
      });
    }
    for (int64_t column = 0; column < output_size; column += pitch) {
      const int64_t columns = std::min(pitch, output_size - column);
      over_rows(num_rows, [&](int64_t first, int64_t count) {
        const M *const from = cell_output + first * cell_output_step, *const panels = output_panels + column * cell_size;
        multiply_panels(
            from, cell_output_step, count, panels, cell_size * kTile, columns / kTile, cell_size, scratch, pitch);
        for (int64_t row = first; row < first + count; ++row) {
          float* const unclipped = row_of<float>(a.unclipped_outputs, start + begin + row) + column;
          float* const outputs = row_of<float>(a.outputs, start + begin + row) + column;
          M* const to = factors + row * factors_step + output_size + column;
          over_vectors<float>(0, columns, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
            const Vec<float> output = Vec<float>::loadu(scratch + (row - first) * pitch + j);
            const Vec<float> clipped = clip(output, a.output_bound);
            output.store(unclipped + j);
            clipped.store(outputs + j);
            Factors<M>(clipped).store(to + j);
          });
        }
      });
    }
    start += size;
  }
}

struct FusedBackward {
  Tensor traces, unclipped_outputs;
  Tensor cell_output_panels, input_panels;  // of the weights' transposes, (P, H) and (4H, 2P)
  Tensor grad_outputs, grad_hidden, grad_cell;  // (N, P), (B, P), (B, H); the last two overwritten
  at::IntArrayRef sizes;
  std::vector<int64_t> places;  // of each step's first row among the rows of the weights' gradients, all even
  float cell_bound, output_bound;
  Tensor grad_words;  // (N, P)
  // Rows of the weights' gradients, R of them: of the outputs, (R, P), and as panels of gates and cell_output, (R, 5H).
  Tensor of_outputs, panels;
  Tensor bias;  // per tile of rows, (tiles, 4H)
};

// Up to 16 rows of 16 cells on the way back.
template <typename M>
struct CellsBack {
  const float* traces;
  const float* grad_cell_output;
  float* grad_cells;
  M* gates;
  M* panel;
  float* bias;
  int64_t cell_size, pitch, gates_step, depth;
  float bound;

  // The gradients of a row's gates and its output of the cell as factors; sums of the former go to `totals`.
  C10_ALWAYS_INLINE void run_row(int64_t row, int64_t j, Factors<M> (&factors)[kKept], Vec<float> (&totals)[4]) const {
    const float* const kept = traces + row * kKept * kTile + j;
    const Vec<float> i = Vec<float>::loadu(kept), f = Vec<float>::loadu(kept + kTile);
    const Vec<float> g = Vec<float>::loadu(kept + 2 * kTile), o = Vec<float>::loadu(kept + 3 * kTile);
    const Vec<float> before = Vec<float>::loadu(kept + 4 * kTile);
    const Vec<float> grad = Vec<float>::loadu(grad_cell_output + row * pitch + j);
    float* const grad_cell = grad_cells + row * cell_size + j;
    const Vec<float> one(1), unclipped = at::vec::fmadd(f, before, i * g), tanh_cell = tanh(clip(unclipped, bound));
    const Vec<float> of_clipped = at::vec::fmadd(grad * o, one - tanh_cell * tanh_cell, Vec<float>::loadu(grad_cell));
    const Vec<float> of_cell = clip_backward(of_clipped, unclipped, bound);
    (of_cell * f).store(grad_cell);
    const Vec<float> gradients[4] = {
        of_cell * g * i * (one - i), of_cell * before * f * (one - f), of_cell * i * (one - g * g),
        grad * tanh_cell * o * (one - o)};
    for (int gate = 0; gate < 4; ++gate) {
      totals[gate] = totals[gate] + gradients[gate];
      factors[gate] = Factors<M>(gradients[gate]);
      factors[gate].store(gates + row * gates_step + gate * cell_size + j);
    }
    factors[4] = Factors<M>(o * tanh_cell);
  }

  // `place` is that of the first row in the panels, and even.
  void run(int64_t num_rows, int64_t place) const {
    over_vectors<float>(0, kTile, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
      Vec<float> totals[4];
      for (int gate = 0; gate < 4; ++gate) {
        totals[gate] = Vec<float>::loadu(bias + gate * cell_size + j);
      }
      const Factors<M> zero(Vec<float>(0));
      for (int64_t row = 0; row < num_rows; row += 2) {
        Factors<M> upper[kKept] = {zero, zero, zero, zero, zero}, lower[kKept] = {zero, zero, zero, zero, zero};
        run_row(row, j, upper, totals);
        // An odd last row has zeros beside it.
        if (row + 1 < num_rows) {
          run_row(row + 1, j, lower, totals);
        }
        for (int part = 0; part < kKept; ++part) {
          upper[part].store_pair(panel + part * cell_size * depth, place + row, j, lower[part]);
        }
      }
      for (int gate = 0; gate < 4; ++gate) {
        totals[gate].store(bias + gate * cell_size + j);
      }
    });
  }
};

template <typename M>
void run_fused_rows_backward(const FusedBackward& a, int64_t begin, int64_t end) {
  const int64_t cell_size = a.grad_cell.size(1), output_size = a.grad_hidden.size(1), num_gates = 4 * cell_size;
  const int64_t rows = at::divup(end - begin, kTile) * kTile, depth = a.of_outputs.size(0);
  const int64_t outputs_step = output_size + 32, gates_step = num_gates + 32;
  const auto options = a.of_outputs.options();
  const Tensor outputs_space = at::zeros({rows, outputs_step}, options);
  const Tensor gates_space = at::zeros({rows, gates_step}, options);
  M *const outputs = outputs_space.data_ptr<M>(), *const gates = gates_space.data_ptr<M>();
  const M* const cell_output_panels = a.cell_output_panels.data_ptr<M>();
  const M* const input_panels = a.input_panels.data_ptr<M>();
  const float* const traces = a.traces.data_ptr<float>();
  float *const grad_cells = row_of<float>(a.grad_cell, begin), *const bias = row_of<float>(a.bias, begin / kTile);
  M* const of_weights = a.panels.data_ptr<M>();
  alignas(64) float scratch[kScratch];
  constexpr int64_t pitch = kPanels * kTile;
  const Session<M> session;
  int64_t start = a.grad_outputs.size(0);
  for (int64_t step = static_cast<int64_t>(a.sizes.size()) - 1; step >= 0; --step) {
    const int64_t size = a.sizes[step], num_rows = std::min(size, end) - begin;
    start -= size;
    if (num_rows <= 0) {
      continue;
    }
    const int64_t place = a.places[step] + begin;
    for (int64_t row = 0; row < num_rows; ++row) {
      const float* const grad_output = row_of<float>(a.grad_outputs, start + begin + row);
      const float* const later = row_of<float>(a.grad_hidden, begin + row);
      const float* const unclipped = row_of<float>(a.unclipped_outputs, start + begin + row);
      M *const to = outputs + row * outputs_step, *const kept = row_of<M>(a.of_outputs, place + row);
      over_vectors<float>(0, output_size, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
        const Vec<float> sum = Vec<float>::loadu(grad_output + j) + Vec<float>::loadu(later + j);
        const Vec<float> grad = clip_backward(sum, Vec<float>::loadu(unclipped + j), a.output_bound);
        const Factors<M> factors(grad);
        factors.store(to + j);
        factors.store(kept + j);
      });
    }
    for (int64_t group = 0; group < cell_size; group += pitch) {
      const int64_t columns = std::min(pitch, cell_size - group);
      over_rows(num_rows, [&](int64_t first, int64_t count) {
        const M *const from = outputs + first * outputs_step, *const panels = cell_output_panels + group * output_size;
        multiply_panels(
            from, outputs_step, count, panels, output_size * kTile, columns / kTile, output_size, scratch, pitch);
        for (int64_t top = first; top < first + count; top += kTile) {
          for (int64_t column = group; column < group + columns; column += kTile) {
            const CellsBack<M> cells{
                traces + kKept * (start * cell_size + column * size + (begin + top) * kTile),
                scratch + (top - first) * pitch + column - group,
                grad_cells + top * cell_size + column,
                gates + top * gates_step + column,
                of_weights + column * depth,
                bias + (top / kTile) * num_gates + column,
                cell_size, pitch, gates_step, depth, a.cell_bound};
            cells.run(std::min(num_rows - top, kTile), place + top);
          }
        }
      });
    }
    for (int64_t group = 0; group < 2 * output_size; group += pitch) {
      over_rows(num_rows, [&](int64_t first, int64_t count) {
        const M *const from = gates + first * gates_step, *const panels = input_panels + group * num_gates;
        const int64_t columns = std::min(pitch, 2 * output_size - group);
        multiply_panels(from, gates_step, count, panels, num_gates * kTile, columns / kTile, num_gates, scratch, pitch);
        for (int64_t row = first; row < first + count; ++row) {
          for (int64_t column = group; column < group + columns; column += kTile) {
            float* const to = column < output_size ? row_of<float>(a.grad_words, start + begin + row) + column
                                                   : row_of<float>(a.grad_hidden, begin + row) + column - output_size;
            std::memcpy(to, scratch + (row - first) * pitch + column - group, kTile * sizeof(float));
          }
        }
      });
    }
  }
}

// left (rows, R) with panels of columns (R, C), into (rows, C).
template <typename M>
Tensor multiply_left(const Tensor& left, const M* panels, int64_t columns) {
  const int64_t rows = left.size(0), size = left.size(1);
  const Tensor out = at::empty({rows, columns}, left.options().dtype(at::kFloat));
  constexpr int64_t group = kPanels * kTile;
  at::parallel_for(0, at::divup(columns, group), 1, [&](int64_t begin, int64_t end) {
    const Session<M> session;
    for (int64_t column = begin * group; column < std::min(end * group, columns); column += group) {
      const int64_t num_panels = std::min(group, columns - column) / kTile;
      over_rows(rows, [&](int64_t row, int64_t count) {
        multiply_panels(
            row_of<M>(left, row), size, count, panels + column * size, size * kTile, num_panels, size,
            row_of<float>(out, row) + column, columns);
      });
    }
  });
  return out;
}

// The inputs and the states before them that the gates of each row of the weights' gradients were made of, (R, 2P).
template <typename M>
Tensor lay_out_factors(
    const Tensor& words, const Tensor& hidden, const Tensor& outputs, at::IntArrayRef sizes,
    const std::vector<int64_t>& places, int64_t depth) {
  const int64_t output_size = words.size(1);
  const Tensor factors = at::zeros({depth, 2 * output_size}, words.options());
  std::vector<int64_t> starts(sizes.size());
  for (size_t step = 1; step < sizes.size(); ++step) {
    starts[step] = starts[step - 1] + sizes[step - 1];
  }
  at::parallel_for(0, static_cast<int64_t>(sizes.size()), 4, [&](int64_t first, int64_t last) {
    for (int64_t step = first; step < last; ++step) {
      for (int64_t row = 0; row < sizes[step]; ++row) {
        M* const to = row_of<M>(factors, places[step] + row);
        std::memcpy(to, row_of<M>(words, starts[step] + row), output_size * sizeof(M));
        const float* const before =
            step == 0 ? row_of<float>(hidden, row) : row_of<float>(outputs, starts[step - 1] + row);
        over_vectors<float>(0, output_size, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
          Factors<M>(Vec<float>::loadu(before + j)).store(to + output_size + j);
        });
      }
    }
  });
  return factors;
}

// Calls run(M()) with the type of the products' factors.
template <typename F>
void with_factors(const Tensor& words, const F& run) {
#ifdef HF_ELMO_AMX
  if (words.scalar_type() == at::kBFloat16 && has_amx_bf16()) {
    return run(at::BFloat16());
  }
#endif
  TORCH_CHECK(words.scalar_type() == at::kFloat, "no fused steps for words of ", words.scalar_type());
  run(float());
}

std::vector<Tensor> run_fused(
    const Tensor& words, const std::vector<Tensor>& panels, const Tensor& bias, const Tensor& hidden,
    const Tensor& cell, at::IntArrayRef sizes, std::optional<double> cell_clip, std::optional<double> projection_clip) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const int64_t num_words = words.size(0);
  const Tensor traces = allocate({num_words, kKept * cell.size(1)}, cell.options());
  const Tensor outputs = at::empty({num_words, hidden.size(1)}, cell.options());
  const Tensor unclipped_outputs = projection_clip ? at::empty_like(outputs) : outputs;
  const FusedForward arguments{
      words, panels[0], panels[1], bias, hidden, cell, sizes, bound_of<float>(cell_clip), bound_of<float>(projection_clip),
      traces, unclipped_outputs, outputs};
  with_factors(words, [&](auto m) {
    over_tiles(sizes[0], [&](int64_t begin, int64_t end) { run_fused_rows<decltype(m)>(arguments, begin, end); });
  });
  return {traces, unclipped_outputs, outputs};
}

std::vector<Tensor> run_fused_backward(
    const Tensor& words, const std::vector<Tensor>& traces, const std::vector<Tensor>& panels, const Tensor& hidden,
    const std::vector<Tensor>& gradients, at::IntArrayRef sizes, std::optional<double> cell_clip,
    std::optional<double> projection_clip) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const int64_t cell_size = gradients[2].size(1), output_size = hidden.size(1);
  // Each step begins at an even row, and their number suits a tile; one of 4 KiB would fill few lines of a cache.
  std::vector<int64_t> places;
  int64_t used = 0;
  for (const int64_t size : sizes) {
    places.push_back(used);
    used += (size + 1) / 2 * 2;
  }
  int64_t depth = at::divup(used, 32) * 32;
  depth += depth % 1024 == 0 ? 32 : 0;
  const Tensor grad_words = at::empty({words.size(0), output_size}, hidden.options());
  const Tensor bias = at::zeros({at::divup(sizes[0], kTile), 4 * cell_size}, hidden.options());
  const Tensor of_outputs = at::zeros({depth, output_size}, words.options());
  const Tensor gate_panels = allocate({5 * cell_size, depth}, words.options());
  Tensor grad_weights, grad_projection;
  const FusedBackward arguments{
      traces[0], traces[1], panels[0], panels[1], gradients[0], gradients[1], gradients[2], sizes, places,
      bound_of<float>(cell_clip), bound_of<float>(projection_clip), grad_words, of_outputs, gate_panels, bias};
  with_factors(words, [&](auto m) {
    using M = decltype(m);
    M* const all = gate_panels.data_ptr<M>();
    for (int64_t panel = 0; panel < 5 * cell_size / kTile; ++panel) {
      std::fill(all + (panel * depth + used) * kTile, all + (panel + 1) * depth * kTile, M(0));
    }
    over_tiles(sizes[0], [&](int64_t begin, int64_t end) { run_fused_rows_backward<M>(arguments, begin, end); });
    const Tensor factors = lay_out_factors<M>(words, hidden, traces[2], sizes, places, depth);
    grad_weights = multiply_left<M>(factors.t().contiguous(), all, 4 * cell_size);
    grad_projection = multiply_left<M>(of_outputs.t().contiguous(), all + 4 * cell_size * depth, cell_size);
  });
  return {grad_words, grad_weights, bias, grad_projection};
}

} // namespace
