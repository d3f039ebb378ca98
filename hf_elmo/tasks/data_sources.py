"""Where the examples of a task come from: files, one for each split, or a dataset that has splits of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from datasets import Dataset

from .readers.named_datasets import load_named_dataset

AnyExamples = TypeVar("AnyExamples")


class FileArguments(Protocol):
    """The arguments that name files."""

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""


class DataSource(FileArguments, Protocol):
    """The arguments that name files or a dataset."""

    validation_share: float | None
    dataset_name: str | None
    dataset_config_name: str | None


def check_data_source(data_args: DataSource) -> None:
    """Check that there are either files or a dataset.

    Raises: ValueError naming what was given.
    """
    if data_args.dataset_name and data_args.files:
        raise ValueError(
            f"dataset_name {data_args.dataset_name!r} and files ({', '.join(data_args.files.values())}) given; wanted "
            "one or the other."
        )
    if not data_args.dataset_name and not data_args.files:
        raise ValueError("No data given; wanted --train_file, --validation_file or --test_file, or --dataset_name.")


def read_splits(
    data_args: DataSource,
    read_file: Callable[[str, str], AnyExamples],
    read_split: Callable[[Dataset, str], AnyExamples],
) -> dict[str, AnyExamples]:
    """The examples of each split that there is.

    Args:
        data_args: What names them.
        read_file: Reads a file; also gets the argument that names it.
        read_split: Reads one split of a dataset; also gets what errors call it.
    Raises: ValueError naming the dataset that has none of the splits; what the two readers raise.
    """
    if not data_args.dataset_name:
        return {split: read_file(file, f"{split}_file") for split, file in data_args.files.items()}
    dataset = load_named_dataset(data_args.dataset_name, data_args.dataset_config_name)
    splits = {
        split: read_split(dataset[split], f"dataset_name {data_args.dataset_name!r}, split {split!r}")
        for split in ("train", "validation", "test")
        if split in dataset
    }
    if not splits:
        raise ValueError(
            f"dataset_name {data_args.dataset_name!r} has the splits {list(dataset)}; wanted train, validation or test."
        )
    return splits


def name_source(data_args: DataSource, split: str) -> str:
    """What a split is called where others read it: no folders of this machine."""
    if not data_args.dataset_name:
        return name_file(data_args, split)
    name = Path(data_args.dataset_name).name if os.path.exists(data_args.dataset_name) else data_args.dataset_name
    part = "train" if split == "validation" and data_args.validation_share else split
    return ", ".join([name, *filter(None, [data_args.dataset_config_name]), part])


def name_file(data_args: FileArguments, split: str) -> str:
    """As `name_source`, for tasks that read files alone."""
    # Where there is no validation file a share of the training file was held out.
    return Path(data_args.files[split if split in data_args.files else "train"]).name
