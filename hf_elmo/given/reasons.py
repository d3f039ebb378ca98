"""What libraries raise over a file that they cannot make sense of, as the one line that an error of ours quotes."""

from __future__ import annotations

import pickle
import struct
import tokenize

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

# Those of files that are damaged or hold something else than the libraries take for granted; OSError is the system's.
UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    SafetensorError,
    StopIteration,  # of datasets, for an empty file
    StrictDataclassError,
    SyntaxError,  # of NumPy, which reads the headers of its files as Python
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    tokenize.TokenError,
)
_LONGEST_REASON = 200


def reason(error: BaseException) -> str:
    """What went wrong, on one line of bounded length."""
    said = " ".join(str(error).split())
    if isinstance(error, pickle.UnpicklingError):
        # torch says in a page how to run the code of a pickle all the same.
        said = "a pickle of more than tensors and plain values, or damaged"
    elif not isinstance(error, (ValueError, StrictDataclassError)):
        said = f"{type(error).__name__}: {said}"
    return said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]}..."
