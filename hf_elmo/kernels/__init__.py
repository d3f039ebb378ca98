"""Fast twins of the readable scan in `hf_elmo.model.recurrence_elmo`; nothing here imports the rest of the package."""

from .backends import BACKENDS, get_backend, linear, run_projected_lstm, set_backend, use_backend, why_not
from .compiled import build
from .prepared import clear_packed, packed_bytes
from .words import cache_words, cached_words

__all__ = [
    "BACKENDS",
    "build",
    "cache_words",
    "cached_words",
    "clear_packed",
    "get_backend",
    "linear",
    "packed_bytes",
    "run_projected_lstm",
    "set_backend",
    "use_backend",
    "why_not",
]
