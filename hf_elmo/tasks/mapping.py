"""Rows for the model, made once for all processes of a run."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset


def map_once(dataset: Dataset, function: Callable[..., Any], **options: Any) -> Dataset:
    """`dataset.map(function, **options)` by one process of each machine; the others map the file that it has written.

    Args:
        dataset: The same in all processes, which all call this together.
        function, options: As of `datasets.Dataset.map`.
    """
    state = PartialState()
    if state.num_processes == 1:
        return dataset.map(function, **options)
    shared = [tempfile.mkdtemp(prefix="hf_elmo-") if state.is_main_process else ""]
    broadcast_object_list(shared)
    if state.is_local_main_process:
        Path(shared[0]).mkdir(exist_ok=True)
        atexit.register(shutil.rmtree, shared[0], ignore_errors=True)
    with state.local_main_process_first():
        return dataset.map(
            function, cache_file_name=str(Path(shared[0]) / "rows.arrow"), load_from_cache_file=True, **options
        )
