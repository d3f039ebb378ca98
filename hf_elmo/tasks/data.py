"""Where the examples of a task come from, and which of them a run trains on, chooses by and is tested on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers.trainer_utils import IntervalStrategy

from ..given import check_least
from ..text.corpora import is_in_fraction, load_named_dataset
from .arguments import STEPS, DatasetArguments, FileArguments, TaskTrainingArguments
from .readers import AnyExamples


def read_splits(
    data_args: FileArguments,
    read_file: Callable[[str, str], AnyExamples],
    read_split: Callable[[Dataset, str], AnyExamples] | None = None,
) -> dict[str, AnyExamples]:
    """The examples of each split that there is.

    Args:
        read_file: Reads a file; also gets the argument that names it.
        read_split: Reads one split of a dataset; also gets what errors call it. For tasks that read datasets.
    Raises: ValueError where there are neither files nor a dataset with one of the splits, or both.
    """
    name = getattr(data_args, "dataset_name", None)
    if bool(name) == bool(data_args.files):
        dataset = ", or --dataset_name alone" if read_split else ""
        given = f"dataset_name {name!r} and files {[*data_args.files.values()]}" if name else "No data"
        raise ValueError(f"{given} given; wanted --train_file, --validation_file or --test_file{dataset}.")
    if read_split is None or not name:
        return {split: read_file(file, f"{split}_file") for split, file in data_args.files.items()}
    dataset = load_named_dataset(name, getattr(data_args, "dataset_config_name", None))
    found = [split for split in STEPS.values() if split in dataset]
    if not found:
        raise ValueError(f"dataset_name {name!r} has the splits {list(dataset)}; wanted train, validation or test.")
    return {split: read_split(dataset[split], f"dataset_name {name!r}, split {split!r}") for split in found}


def name_source(data_args: FileArguments, split: str) -> str:
    """What a split is called where others read it: no folders of this machine."""
    if not isinstance(data_args, DatasetArguments) or not data_args.dataset_name:
        # Where there is no validation file a fraction of the training file was held out.
        return Path(data_args.files[split if split in data_args.files else "train"]).name
    name = Path(data_args.dataset_name).name if os.path.exists(data_args.dataset_name) else data_args.dataset_name
    part = "train" if split == "validation" and data_args.validation_fraction else split
    return ", ".join([name, *filter(None, [data_args.dataset_config_name]), part])


def choose_splits(splits: dict[str, AnyExamples], args: TaskTrainingArguments) -> dict[str, AnyExamples]:
    """The splits that the `do_...` flags ask for, all of them without any; settles those flags and when to evaluate.

    Raises: ValueError naming the flag that asks for what is not there.
    """
    for step in args.steps_asked:
        if STEPS[step] not in splits:
            raise ValueError(
                f"{step} is on, but there is no {STEPS[step]} data; give --{STEPS[step]}_file or a dataset with that "
                "split, or leave the flag out."
            )
    wanted = {STEPS[step] for step in args.steps_asked} or set(splits)
    if "train" in wanted:
        wanted.add("validation")
    chosen = {split: examples for split, examples in splits.items() if split in wanted}
    for step, split in STEPS.items():
        setattr(args, step, split in chosen)
    if not args.do_eval:
        args.eval_strategy = IntervalStrategy.NO
    check_least(args, ["num_seeds", "early_stopping_patience"], 1)
    for flag in ("load_best_model_at_end", "early_stopping_patience"):
        if getattr(args, flag) and args.eval_strategy == IntervalStrategy.NO:
            raise ValueError(
                f"{flag} is set, but nothing is evaluated in training; give --validation_file or --validation_fraction "
                "and no --eval_strategy, or leave it out."
            )
    if args.num_seeds > 1 and args.resume_from_checkpoint is not None and not args.resumes_newest:
        raise ValueError(
            f"num_seeds is {args.num_seeds}, but resume_from_checkpoint names one run; 'auto' resumes the seeds of "
            "output_dir."
        )
    return chosen


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
    texts = map(examples.text, range(len(examples)))
    return examples.pick(
        [index for index, text in enumerate(texts) if is_in_fraction(text, fraction, purpose) == is_in]
    )


def share_of(split: str, args: FileArguments) -> dict[str, Any]:
    """What results.json says of the share that a split is, where it is not all of its file."""
    share = {"train": args.train_fraction * (1 - (args.validation_fraction or 0))}
    share["validation"] = args.validation_fraction or 1
    return {"share": round(share[split], 6)} if share.get(split, 1) < 1 else {}
