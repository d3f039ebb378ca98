"""Fast twins of the readable scan in `hf_elmo.model.modeling_elmo`; nothing here imports the rest of the package."""

from .backends import BACKENDS, get_backend, linear, run_projected_lstm, set_backend, use_backend, why_not
from .characters import distinct_rows, filter_maxima
from .half_precision import half_products, product_dtype
from .highway import highway
from .library import build
from .prepared import clear_packed, packed_bytes
from .row_counts import pad_rows, round_rows
from .words import cache_words, cached_words

__all__ = [
    "BACKENDS",
    "build",
    "cache_words",
    "cached_words",
    "clear_packed",
    "distinct_rows",
    "filter_maxima",
    "get_backend",
    "half_products",
    "highway",
    "linear",
    "packed_bytes",
    "pad_rows",
    "product_dtype",
    "round_rows",
    "run_projected_lstm",
    "set_backend",
    "use_backend",
    "why_not",
]
