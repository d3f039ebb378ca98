"""The examples of a task: where they come from, which of them a run trains on, and their rows of numbers.

Letters in shapes: T words of a row, the special tokens included, C characters per word.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..given import flag
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import is_in_fraction, load_named_dataset
from ..text.progress import track
from .readers import AnyExamples

_AT_A_TIME = 1000


@dataclass
class FileArguments:
    """The data: a file for each split."""

    train_file: str | None = flag("Training data; also as .gz, .bz2, .xz or .zst.", default=None)
    validation_file: str | None = flag("Data to evaluate on, also after epochs.", default=None)
    test_file: str | None = flag("Data to predict and score at the end.", default=None)
    train_fraction: float = flag("Fraction of the training data to use, chosen by a hash of each text.", default=1.0)
    validation_fraction: float | None = flag(
        "Fraction of the training data to hold out as validation data, chosen by another hash of each text.",
        default=None,
    )

    @property
    def files(self) -> dict[str, str]:
        """The files given, by split."""
        files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}


@dataclass
class DatasetArguments(FileArguments):
    """The data: files, or a dataset that has splits of its own."""

    dataset_name: str | None = flag(
        "A dataset with the splits train, validation and test (directory or Hub).", default=None
    )
    dataset_config_name: str | None = flag("The dataset's configuration.", default=None)


def read_splits(
    args: FileArguments,
    read_file: Callable[[str, str], AnyExamples],
    read_split: Callable[[Dataset, str], AnyExamples] | None = None,
) -> dict[str, AnyExamples]:
    """The examples of each split that there is.

    Args:
        read_file: Reads a file; also gets the argument that names it.
        read_split: Reads one split of a dataset; also gets what errors call it. For tasks that read datasets.
    Raises: ValueError where there are neither files nor a dataset with one of the splits, or both.
    """
    name = getattr(args, "dataset_name", None)
    if bool(name) == bool(args.files):
        dataset = ", or --dataset_name alone" if read_split else ""
        given = f"dataset_name {name!r} and files {[*args.files.values()]}" if name else "No data"
        raise ValueError(f"{given} given; wanted --train_file, --validation_file or --test_file{dataset}.")
    if read_split is None or not name:
        return {split: read_file(file, f"{split}_file") for split, file in args.files.items()}
    dataset = load_named_dataset(name, getattr(args, "dataset_config_name", None))
    found = [split for split in ("train", "validation", "test") if split in dataset]
    if not found:
        raise ValueError(f"dataset_name {name!r} has the splits {list(dataset)}; wanted train, validation or test.")
    return {split: read_split(dataset[split], f"dataset_name {name!r}, split {split!r}") for split in found}


def describe_source(args: FileArguments, split: str) -> dict[str, Any]:
    """What results.json says of a split: its source, without folders of this machine, and its share if not all."""
    shares = {"train": args.train_fraction * (1 - (args.validation_fraction or 0))}
    shares["validation"] = args.validation_fraction or 1
    share = {"share": round(shares[split], 6)} if shares.get(split, 1) < 1 else {}
    if not isinstance(args, DatasetArguments) or not args.dataset_name:
        # Where there is no validation file a fraction of the training file was held out.
        return {"source": Path(args.files[split if split in args.files else "train"]).name, **share}
    name = Path(args.dataset_name).name if os.path.exists(args.dataset_name) else args.dataset_name
    part = "train" if split == "validation" and args.validation_fraction else split
    return {"source": ", ".join(filter(None, [name, args.dataset_config_name, part])), **share}


def take_fractions(splits: dict[str, AnyExamples], args: FileArguments) -> dict[str, AnyExamples]:
    """The splits with the fraction of the training data that is wanted, and one that is held out as validation data.

    Raises: ValueError naming the argument where it contradicts the data, or nothing would be left.
    """
    share, held = args.train_fraction, args.validation_fraction
    given = f"train_fraction is {share}, validation_fraction {held}"
    parts = dict(splits)
    if held is not None and ("validation" in splits or "train" not in splits):
        raise ValueError(f"{given}, of {' and '.join(splits)} data; that wants training and no validation data.")
    if not 0 < share <= 1 or not (held is None or 0 < held < 1):
        raise ValueError(f"{given}; wanted 0.1 for a tenth.")
    if held is not None:
        parts["validation"] = _pick(splits["train"], held, "validation")
        parts["train"] = _pick(splits["train"], held, "validation", is_in=False)
    if share < 1 and "train" in parts:
        parts["train"] = _pick(parts["train"], share, "train")
    for split, examples in parts.items():
        if not len(examples):
            raise ValueError(f"{given}, which leaves no {split} data of {len(splits['train'])} examples; give more.")
    return parts


def _pick(examples: AnyExamples, fraction: float, purpose: str, is_in: bool = True) -> AnyExamples:
    places = range(len(examples))
    return examples.pick([one for one in places if is_in_fraction(examples.text(one), fraction, purpose) == is_in])


def type_of_rows(tokenizer: ElmoCharTokenizer) -> type[np.signedinteger]:
    """The smallest type for ids of characters, which are most of a data set; few dictionaries have more than 2^15."""
    return np.int16 if tokenizer.vocab_size < 2**15 else np.int32


def encode_rows(tokenizer: ElmoCharTokenizer, source: str, *texts: Sequence[Any], **how: Any) -> list[dict[str, Any]]:
    """A row for each sentence or pair: `input_ids` (T, C), `attention_mask` (T) and, of pairs, `token_type_ids` (T).

    Args:
        tokenizer: Also gets `how`, `is_split_into_words` for example.
        source: What is encoded, for who waits.
        texts: The sentences, texts or lists of words; of pairs the first ones and the second ones.
    """
    dtype, rows = type_of_rows(tokenizer), list[dict[str, Any]]()
    starts = range(0, len(texts[0]), _AT_A_TIME)
    batches = ([column[start : start + _AT_A_TIME] for column in texts] for start in starts)
    for batch in track(batches, f"encoding {source}", "rows", len(texts[0]), size=lambda batch: len(batch[0])):
        encoded = tokenizer(*batch, **how)
        for values in zip(*encoded.values(), strict=True):
            rows.append({name: np.asarray(value, dtype) for name, value in zip(encoded, values, strict=True)})
    return rows


def pad_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """A batch of rows: what has an entry for each word is padded behind the words, labels by -100, all else by 0."""
    batch = {}
    for name in rows[0]:
        values = [torch.as_tensor(row[name]).long() for row in rows]
        filler = IGNORED_LABEL if name == "labels" else 0
        batch[name] = pad_sequence(values, True, filler) if values[0].ndim else torch.stack(values)
    return batch


def labels_of_words(label_ids: np.ndarray, gold_ids: np.ndarray, names: Sequence[str]) -> list[list[str]]:
    """The labels of each row's words for ids (rows, words), where there is a gold one."""
    return [
        [names[index] for index in row[gold != IGNORED_LABEL].tolist()]
        for row, gold in zip(label_ids, gold_ids, strict=True)
    ]
