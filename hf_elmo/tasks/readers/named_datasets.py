"""Datasets by the name that a user gives: of the Hub, or of a directory."""

from __future__ import annotations

from datasets import DatasetDict, load_dataset
from datasets.exceptions import DatasetsError
from pyarrow import ArrowException

from ...given.reasons import UNREADABLE, reason
from ...text.corpora import is_saved_dataset, load_saved_dataset
from ...text.files import check_records


def load_named_dataset(dataset_name: str, config_name: str | None = None) -> DatasetDict:
    """All splits of a dataset: a name on the Hub, a directory that `load_dataset` reads or one of `save_to_disk`.

    Raises: ValueError naming the dataset where it cannot be loaded or has no splits.
    """
    check_records(dataset_name, "dataset_name")
    try:
        if is_saved_dataset(dataset_name):
            saved = load_saved_dataset(dataset_name)
            # A single split has no name.
            return saved if isinstance(saved, DatasetDict) else DatasetDict({str(saved.split or "train"): saved})
        return load_dataset(dataset_name, config_name)
    except (ArrowException, DatasetsError, OSError, *UNREADABLE) as error:
        raise ValueError(
            f"dataset_name {dataset_name!r} (dataset_config_name {config_name!r}) cannot be loaded: "
            f"{reason(error.__cause__ or error)}. Check the name; offline, give a directory or a dataset that was "
            "loaded before."
        ) from error
