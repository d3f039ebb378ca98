"""Where the examples of a task come from, and which of them a run trains on, chooses by and is tested on."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset, DatasetDict, load_dataset
from datasets.exceptions import DatasetsError
from pyarrow import ArrowException
from transformers.trainer_utils import IntervalStrategy

from ..given.reasons import UNREADABLE, reason
from ..text.corpora import is_saved_dataset, load_saved_dataset
from ..text.files import check_records
from ..text.hash_split import is_in_fraction
from .arguments import STEPS, DatasetArguments, FileArguments, TaskTrainingArguments
from .readers.examples import AnyExamples


def check_data_source(data_args: FileArguments) -> None:
    """Check that there are either files or a dataset; raises ValueError naming what was given."""
    dataset_name = getattr(data_args, "dataset_name", None)
    if bool(dataset_name) == bool(data_args.files):
        dataset = ", or --dataset_name alone" if isinstance(data_args, DatasetArguments) else ""
        given = f"dataset_name {dataset_name!r} and files {[*data_args.files.values()]}" if dataset_name else "No data"
        raise ValueError(f"{given} given; wanted --train_file, --validation_file or --test_file{dataset}.")


def read_splits(
    data_args: FileArguments,
    read_file: Callable[[str, str], AnyExamples],
    read_split: Callable[[Dataset, str], AnyExamples] | None = None,
) -> dict[str, AnyExamples]:
    """The examples of each split that there is.

    Args:
        data_args: What names them.
        read_file: Reads a file; also gets the argument that names it.
        read_split: Reads one split of a dataset; also gets what errors call it. For tasks that read datasets.
    Raises: ValueError naming the dataset that has none of the splits; what the two readers raise.
    """
    name = getattr(data_args, "dataset_name", None)
    if read_split is None or not name:
        return {split: read_file(file, f"{split}_file") for split, file in data_args.files.items()}
    dataset = load_named_dataset(name, getattr(data_args, "dataset_config_name", None))
    if not set(dataset) & set(STEPS.values()):
        raise ValueError(f"dataset_name {name!r} has the splits {list(dataset)}; wanted train, validation or test.")
    return {
        split: read_split(dataset[split], f"dataset_name {name!r}, split {split!r}")
        for split in STEPS.values()
        if split in dataset
    }


def name_source(data_args: FileArguments, split: str) -> str:
    """What a split is called where others read it: no folders of this machine."""
    if not isinstance(data_args, DatasetArguments) or not data_args.dataset_name:
        # Where there is no validation file a fraction of the training file was held out.
        return Path(data_args.files[split if split in data_args.files else "train"]).name
    name = Path(data_args.dataset_name).name if os.path.exists(data_args.dataset_name) else data_args.dataset_name
    part = "train" if split == "validation" and data_args.validation_fraction else split
    return ", ".join([name, *filter(None, [data_args.dataset_config_name]), part])


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
        if args.load_best_model_at_end:
            raise ValueError(
                "load_best_model_at_end is set, but there is no validation data; give --validation_file or "
                "--validation_fraction, or leave it out."
            )
        args.eval_strategy = IntervalStrategy.NO
    if args.load_best_model_at_end and args.eval_strategy == IntervalStrategy.NO:
        raise ValueError("load_best_model_at_end is set, but eval_strategy is 'no'; leave --eval_strategy out.")
    patience, seeds = args.early_stopping_patience, args.num_seeds
    if patience is not None and (patience < 1 or not args.load_best_model_at_end):
        raise ValueError(
            f"early_stopping_patience is {patience}, load_best_model_at_end {args.load_best_model_at_end}; it must "
            "be an integer >= 1, and wants that flag."
        )
    resumes_one = args.resume_from_checkpoint is not None and not args.resumes_newest
    if seeds < 1 or (seeds > 1 and (not args.do_train or resumes_one)):
        raise ValueError(
            f"num_seeds is {seeds}; it must be an integer >= 1, and 1 where nothing is trained or "
            "resume_from_checkpoint names one run ('auto' resumes the seeds of output_dir)."
        )
    return chosen


def hold_out(splits: dict[str, AnyExamples], args: FileArguments) -> dict[str, AnyExamples]:
    """The splits, with a fraction of the training data as validation data where the arguments want one.

    Raises: ValueError naming the argument where it contradicts the data, or nothing would be left.
    """
    fraction = args.validation_fraction
    if fraction is None:
        return splits
    if not 0 < fraction < 1 or "validation" in splits or "train" not in splits:
        raise ValueError(
            f"validation_fraction is {fraction}, of {' and '.join(splits)} data; it must lie between 0 and 1, 0.1 for "
            "a tenth, and wants training data and no validation data."
        )
    rest, held_out = (_pick(splits["train"], fraction, "validation", held) for held in (False, True))
    if not len(rest) or not len(held_out):
        raise ValueError(
            f"validation_fraction is {fraction}, which leaves no {'validation' if len(rest) else 'train'} data of "
            f"{len(splits['train'])} examples; give more data, or another fraction."
        )
    return {**splits, "train": rest, "validation": held_out}


def shorten(splits: dict[str, AnyExamples], args: FileArguments) -> dict[str, AnyExamples]:
    """The splits with as many examples as the arguments want.

    Raises: ValueError naming the argument that leaves nothing.
    """
    fraction, shortened = args.train_fraction, dict(splits)
    if not 0 < fraction <= 1:
        raise ValueError(f"train_fraction is {fraction}; it must lie above 0, and not above 1.")
    if fraction < 1 and "train" in splits:
        shortened["train"] = _pick(splits["train"], fraction, "train")
        if not len(shortened["train"]):
            raise ValueError(f"train_fraction is {fraction}, which leaves nothing of {len(splits['train'])} examples.")
    return shortened


def _pick(examples: AnyExamples, fraction: float, purpose: str, is_in: bool = True) -> AnyExamples:
    texts = map(examples.text, range(len(examples)))
    return examples.pick(
        [index for index, text in enumerate(texts) if is_in_fraction(text, fraction, purpose) == is_in]
    )


def share_of(split: str, args: FileArguments) -> dict[str, Any]:
    """What results.json says of the share that a split is, where it is not all of its file."""
    if split == "train":
        share = args.train_fraction * (1 - (args.validation_fraction or 0))
        return {"share": round(share, 6)} if share < 1 else {}
    return {"share": args.validation_fraction} if split == "validation" and args.validation_fraction else {}


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
