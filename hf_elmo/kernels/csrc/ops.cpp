// The library's operators as PyTorch sees them.

#include "filters.h"
#include "fused_lstm.h"
#include "lstm_steps.h"
#include "small_gemm.h"

#include <torch/library.h>

TORCH_LIBRARY(hf_elmo_kernels, library) {
  library.def("filter_maxima", &filter_maxima);
  library.def("filter_maxima_backward", &filter_maxima_backward);
  library.def("multiply_small_batch", &multiply_small_batch);
  library.def("multiply_words", &multiply_words);
  library.def("cast_weight", &cast_weight);
  library.def("run_steps", &run_steps);
  library.def("run_steps_backward", &run_steps_backward);
  library.def("has_amx_bf16", &has_amx_bf16);
  library.def("run_fused", &run_fused);
  library.def("run_fused_backward", &run_fused_backward);
  library.def("trim_buffers", &trim_buffers);
}
