"""Optimized implementations of the reference scan and token encoder in `hf_elmo.model.modeling_elmo`.

Nothing here imports the rest of the package. Code that travels with a checkpoint calls `run_projected_lstm`,
`encode_words` and `filter_characters` where `API` is the number that it was written for, and runs the reference
elsewhere: whoever changes what one of them takes or gives raises the number.
"""

import torch

from . import graphs, library
from .backends import BACKENDS, get_backend, run_projected_lstm, unavailable_reasons, use_backend
from .library import build
from .products import pad_rows, product_dtype, round_rows
from .token_encoder import cache_words, encode_words, filter_characters

API = 2


def free_buffers() -> None:
    """Free what calls leave for the next: the compiled backend up to 512 MiB, and on a GPU recorded graphs theirs."""
    graphs.free()
    if library.is_ready():
        torch.ops.hf_elmo_kernels.trim_buffers(0)


__all__ = [
    "API",
    "BACKENDS",
    "build",
    "cache_words",
    "encode_words",
    "filter_characters",
    "free_buffers",
    "get_backend",
    "pad_rows",
    "product_dtype",
    "round_rows",
    "run_projected_lstm",
    "unavailable_reasons",
    "use_backend",
]
