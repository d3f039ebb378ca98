"""Datasets that `save_to_disk` wrote, read as a library reads what it has written, and checked first."""

from __future__ import annotations

import os
from pathlib import Path

from datasets import Dataset, DatasetDict, load_from_disk


def is_saved_dataset(path: str | os.PathLike) -> bool:
    """Whether a directory holds all splits of a dataset, or one of them, as `save_to_disk` writes them."""
    return any((Path(path) / name).is_file() for name in ("dataset_dict.json", "state.json"))


def load_saved_dataset(path: str | os.PathLike) -> Dataset | DatasetDict:
    """All splits, or the one there is, memory-mapped; each is read once, to see whether it is damaged.

    Args:
        path: The directory.
    Raises: What `datasets` and Arrow raise where it is damaged.
    """
    dataset = load_from_disk(path)
    for split in dataset.values() if isinstance(dataset, DatasetDict) else [dataset]:
        # Arrow believes a file's own word for where each text ends: a wrong one would end the process.
        split.data.validate(full=True)
    return dataset
