"""From a script's flags to a function of the package, with errors a user can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import datasets
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import HfArgumentParser
from transformers.utils import logging

from ..checkpoints.secrets import check_command_line

# What bad arguments and bad files raise; anything else is a bug and keeps its traceback.
USER_ERRORS = (ValueError, OSError, ImportError, FloatingPointError, StrictDataclassError, SafetensorError)
SHOW_TRACEBACK = "HF_ELMO_TRACEBACK"


def run_command(arguments_class: type, function: Callable[[Any], Any]) -> None:
    """Parse the flags of `arguments_class`, a dataclass, and call `function` with them."""
    with readable_errors():
        # Before the parser, which shows the words that it does not know.
        check_command_line(sys.argv[1:])
    parser = HfArgumentParser(arguments_class, description=(arguments_class.__doc__ or "").splitlines()[0])
    (arguments,) = parser.parse_args_into_dataclasses()
    quiet_libraries()
    with readable_errors():
        function(arguments)


def quiet_libraries() -> None:
    """Leave the screen to our own lines: no dumps of configs and no bars for files of a few megabytes."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()


@contextmanager
def readable_errors() -> Iterator[None]:
    """End the process with exit code 2 and the message alone where a user's mistake is the cause.

    HF_ELMO_TRACEBACK=1 in the environment shows the traceback too.
    """
    try:
        yield
    except USER_ERRORS as error:
        if os.environ.get(SHOW_TRACEBACK):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
