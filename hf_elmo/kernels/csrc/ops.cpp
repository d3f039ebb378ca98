// The library's operators as PyTorch sees them.

#include "filters.h"
#include "fused_lstm.h"
#include "lstm_steps.h"
#include "small_gemm.h"

#include <torch/library.h>

TORCH_LIBRARY(hf_elmo_kernels, library) {
  library.def(
      "filter_maxima(Tensor char_ids, int padding, Tensor embedding, Tensor[] weights, Tensor[] biases, bool keeps) "
      "-> (Tensor, Tensor)",
      &filter_maxima);
  library.def(
      "filter_maxima_backward(Tensor gradient, Tensor winners, Tensor char_ids, int padding, Tensor embedding, "
      "Tensor[] weights, Tensor[] biases) -> Tensor[]",
      &filter_maxima_backward);
  library.def("multiply_small_batch(Tensor x, Tensor weight) -> Tensor", &multiply_small_batch);
  library.def("multiply_words(Tensor x, Tensor weight, ScalarType dtype) -> Tensor", &multiply_words);
  library.def("cast_weight(Tensor weight, ScalarType dtype) -> Tensor", &cast_weight);
  library.def(
      "run_steps(Tensor(a!) gates, Tensor bias, Tensor[] weights, Tensor hidden, Tensor(b!) cell, int[] sizes, "
      "float? cell_clip, float? projection_clip, int small_batch, bool keeps) -> Tensor[]",
      &run_steps);
  library.def(
      "run_steps_backward(Tensor[] traces, Tensor[] weights, Tensor cell, Tensor(a!)[] gradients, int[] sizes, "
      "float? cell_clip, float? projection_clip) -> Tensor",
      &run_steps_backward);
  library.def("has_amx_bf16() -> bool", &has_amx_bf16);
  library.def(
      "run_fused(Tensor words, Tensor[] panels, Tensor bias, Tensor hidden, Tensor(a!) cell, int[] sizes, "
      "float? cell_clip, float? projection_clip) -> Tensor[]",
      &run_fused);
  library.def(
      "run_fused_backward(Tensor words, Tensor[] traces, Tensor[] panels, Tensor hidden, Tensor(a!)[] gradients, "
      "int[] sizes, float? cell_clip, float? projection_clip) -> Tensor[]",
      &run_fused_backward);
  library.def("trim_buffers(int most_bytes) -> int", &trim_buffers);
}
