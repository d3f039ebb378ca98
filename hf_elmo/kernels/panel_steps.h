// Runs all steps of a projected LSTM without a way back, by packed panels of its weights: gates and cells are computed
// where the products of their columns leave off.
//
// Letters as in projected_lstm.h. A core has the same columns at every step, so that their panels stay in its cache.

#pragma once

#include "teams.h"
#include "tiles.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <limits>
#include <optional>
#include <vector>

namespace {

// Rows whose products of a group of panels are held in the first cache.
constexpr int64_t kHeldRows = 30;

// Calls run(row, count) for even shares of the rows.
template <typename F>
C10_ALWAYS_INLINE void over_held_rows(int64_t rows, const F& run) {
  const int64_t blocks = at::divup(rows, kHeldRows);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * rows / blocks;
    run(first, (block + 1) * rows / blocks - first);
  }
}

struct PanelSteps {
  Tensor inputs;  // words (N, P)
  const float* input_panels;  // (4H, P), the gates of 16 cells side by side
  const float* recurrent_panels;  // the same
  const float* output_panels;  // (P, H)
  Tensor bias, hidden, cell;  // (4H), (B, P), (B, H); the last overwritten
  at::IntArrayRef sizes;
  float cell_bound, output_bound;
  Tensor outputs;  // (N, P)
};

void run_panel_steps(const PanelSteps& a) {
  const int64_t cell_size = a.cell.size(1), output_size = a.hidden.size(1);
  const int64_t remembered_step = cell_size + kTile;
  const Tensor remembered_space = at::empty({a.sizes[0], remembered_step}, a.cell.options());
  float *const remembered = remembered_space.data_ptr<float>(), *const cells = a.cell.data_ptr<float>();
  float* const outputs = a.outputs.data_ptr<float>();
  const float *const inputs = a.inputs.data_ptr<float>(), *const bias = a.bias.data_ptr<float>();
  constexpr int64_t pitch = kPanels * kTile;
  // Four panels at once are fastest, where there are enough of them for all cores.
  const int64_t group = output_size >= pitch * at::get_num_threads() ? pitch : kTile;
  as_team(8 * output_size * cell_size * a.sizes[0], [&](const Member& member) {
    const float* before = a.hidden.data_ptr<float>();
    int64_t start = 0;
    for (const int64_t size : a.sizes) {
      const float* const own = inputs + start * output_size;
      member.over_groups(cell_size, kTile, [&](int64_t column, int64_t) {
        alignas(64) float scratch[kHeldRows * pitch];
        const int64_t panel_size = output_size * kTile;
        over_held_rows(size, [&](int64_t first, int64_t count) {
          const auto multiply = [&](const float* rows, const float* panels, bool adds) {
            const float* const from = rows + first * output_size;
            multiply_panels(
                from, output_size, count, panels + 4 * column * output_size, panel_size, 4, output_size, scratch, pitch,
                adds);
          };
          multiply(own, a.input_panels, false);
          multiply(before, a.recurrent_panels, true);
          for (int64_t row = first; row < first + count; ++row) {
            const float* const product = scratch + (row - first) * pitch;
            float* const state = cells + row * cell_size + column;
            float* const to = remembered + row * remembered_step + column;
            over_vectors<float>(0, kTile, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
              const auto total = [&](int64_t gate) C10_ALWAYS_INLINE_ATTRIBUTE {
                return Vec<float>::loadu(product + gate * kTile + j) +
                    Vec<float>::loadu(bias + gate * cell_size + column + j);
              };
              const Vec<float> i = sigmoid(total(0)), f = sigmoid(total(1)), g = tanh(total(2)), o = sigmoid(total(3));
              const Vec<float> cell = clip(at::vec::fmadd(f, Vec<float>::loadu(state + j), i * g), a.cell_bound);
              cell.store(state + j);
              (o * tanh(cell)).store(to + j);
            });
          }
        });
      });
      member.meet();
      float* const found = outputs + start * output_size;
      member.over_groups(output_size, group, [&](int64_t begin, int64_t end) {
        multiply_panels(
            remembered, remembered_step, size, a.output_panels + begin * cell_size, cell_size * kTile,
            (end - begin) / kTile, cell_size, found + begin, output_size);
        for (int64_t row = 0; row < size; ++row) {
          float* const values = found + row * output_size;
          over_vectors<float>(begin, end, [&](int64_t j, int64_t) C10_ALWAYS_INLINE_ATTRIBUTE {
            clip(Vec<float>::loadu(values + j), a.output_bound).store(values + j);
          });
        }
      });
      member.meet();
      before = found;
      start += size;
    }
  });
}

Tensor run_by_panels(
    const Tensor& inputs, const std::vector<Tensor>& panels, const Tensor& bias, const Tensor& hidden,
    const Tensor& cell, at::IntArrayRef sizes, std::optional<double> cell_clip,
    std::optional<double> projection_clip) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor outputs = at::empty({inputs.size(0), hidden.size(1)}, hidden.options());
  const PanelSteps arguments{
      inputs, panels[0].data_ptr<float>(), panels[1].data_ptr<float>(), panels[2].data_ptr<float>(), bias, hidden, cell,
      sizes, static_cast<float>(cell_clip.value_or(std::numeric_limits<double>::infinity())),
      static_cast<float>(projection_clip.value_or(std::numeric_limits<double>::infinity())), outputs};
  run_panel_steps(arguments);
  return outputs;
}

} // namespace
