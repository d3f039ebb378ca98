// The library's operators as PyTorch sees them.

#include "digest.h"
#include "filters.h"
#include "fused_lstm.h"
#include "highway.h"
#include "panel_steps.h"
#include "products.h"
#include "projected_lstm.h"

#include <torch/library.h>

TORCH_LIBRARY(hf_elmo_kernels, library) {
  library.def("digest(Tensor tensor) -> int", &digest);
  library.def(
      "filter_maxima(Tensor rows, int padding, Tensor embedding, Tensor[] weights, Tensor[] biases, bool keeps) "
      "-> (Tensor, Tensor)",
      &filter_maxima);
  library.def(
      "filter_maxima_back(Tensor gradient, Tensor winners, Tensor rows, int padding, Tensor embedding, "
      "Tensor[] weights, Tensor[] biases) -> Tensor[]",
      &filter_maxima_back);
  library.def("mix_highway(Tensor products, Tensor biases, Tensor x) -> Tensor", &mix_highway);
  library.def(
      "mix_highway_back(Tensor gradient, Tensor products, Tensor biases, Tensor x) -> (Tensor, Tensor, Tensor)",
      &mix_highway_back);
  library.def(
      "highway_of_few(Tensor x, Tensor carry, Tensor carry_bias, Tensor transform, Tensor transform_bias) -> Tensor",
      &highway_of_few);
  library.def("multiply_by_rows(Tensor x, Tensor weight) -> Tensor", &multiply_by_rows);
  library.def("multiply_into_large_pages(Tensor x, Tensor weight) -> Tensor", &multiply_into_large_pages);
  library.def(
      "run_steps(Tensor(a!) gates, Tensor bias, Tensor[] weights, Tensor hidden, Tensor(b!) cell, int[] sizes, "
      "float? cell_clip, float? projection_clip, int few_rows, bool keeps) -> Tensor[]",
      &run_steps);
  library.def(
      "run_steps_back(Tensor[] traces, Tensor[] weights, Tensor cell, Tensor(a!)[] gradients, int[] sizes, "
      "float? cell_clip, float? projection_clip) -> Tensor",
      &run_steps_back);
  library.def("trim_rooms(int most_bytes) -> int", &trim_rooms);
  library.def("has_tiles() -> bool", &has_tiles);
  library.def(
      "run_by_panels(Tensor inputs, Tensor[] panels, Tensor bias, Tensor hidden, Tensor(a!) cell, int[] sizes, "
      "float? cell_clip, float? projection_clip) -> Tensor",
      &run_by_panels);
  library.def(
      "run_fused(Tensor words, Tensor[] panels, Tensor bias, Tensor hidden, Tensor(a!) cell, int[] sizes, "
      "float? cell_clip, float? projection_clip) -> Tensor[]",
      &run_fused);
  library.def(
      "run_fused_back(Tensor words, Tensor[] traces, Tensor[] panels, Tensor hidden, Tensor(a!)[] gradients, "
      "int[] sizes, float? cell_clip, float? projection_clip) -> Tensor[]",
      &run_fused_back);
}
