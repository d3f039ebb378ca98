"""Which examples a run trains on, chooses by and is tested on: splits, shares of them and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from transformers.trainer_utils import IntervalStrategy

from ..text.hash_split import is_in_fraction
from .arguments import STEPS, SplitArguments

if TYPE_CHECKING:
    from .training_arguments import TaskTrainingArguments

AnyExamples = TypeVar("AnyExamples", bound="Examples")


class Examples(Protocol):
    """What a split holds: a task's reader gives it."""

    def __len__(self) -> int: ...

    def text(self, place: int) -> str:
        """All that an example says, its labels left out."""

    def pick(self: AnyExamples, places: Sequence[int]) -> AnyExamples:
        """The examples at these places; labels that only others have stay known."""


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
        if args.load_best_model_at_end or (args.eval_strategy_asked and args.eval_strategy != IntervalStrategy.NO):
            flag = "load_best_model_at_end" if args.load_best_model_at_end else "eval_strategy"
            raise ValueError(
                f"{flag} is set, but there is no validation data; give --validation_file or --validation_share, or "
                "leave it out."
            )
        args.eval_strategy = IntervalStrategy.NO
    if args.load_best_model_at_end and args.eval_strategy == IntervalStrategy.NO:
        raise ValueError("load_best_model_at_end is set, but eval_strategy is 'no'; leave --eval_strategy out.")
    patience = args.early_stopping_patience
    if patience is not None and (patience < 1 or not args.load_best_model_at_end):
        raise ValueError(
            f"early_stopping_patience is {patience}, load_best_model_at_end {args.load_best_model_at_end}; it must "
            "be an integer >= 1, and wants that flag."
        )
    _check_seeds(args)
    return chosen


def hold_out(splits: dict[str, AnyExamples], args: SplitArguments) -> dict[str, AnyExamples]:
    """The splits, with a share of the training data as validation data where the arguments want one.

    Raises: ValueError naming the argument where it contradicts the data, or nothing would be left.
    """
    share = args.validation_share
    if share is None:
        return splits
    if not 0 < share < 1:
        raise ValueError(f"validation_share is {share}; it must lie between 0 and 1, 0.1 for a tenth.")
    if "validation" in splits or "train" not in splits:
        there = "there is validation data" if "validation" in splits else "there is no training data to hold it out of"
        raise ValueError(f"validation_share is {share}, but {there}; leave one of them out.")
    train = splits["train"]
    held_out = [is_in_fraction(train.text(place), share, "validation") for place in range(len(train))]
    parts = {
        "train": train.pick([place for place, is_held in enumerate(held_out) if not is_held]),
        "validation": train.pick([place for place, is_held in enumerate(held_out) if is_held]),
    }
    for split, part in parts.items():
        if not len(part):
            raise ValueError(
                f"validation_share is {share}, which leaves no {split} data of {len(train)} examples; give more data, "
                "or another share."
            )
    return {**splits, **parts}


def shorten(splits: dict[str, AnyExamples], args: SplitArguments) -> dict[str, AnyExamples]:
    """The splits with as many examples as the arguments want.

    Raises: ValueError naming the argument that leaves nothing.
    """
    limits = {
        "train": ("max_train_samples", args.max_train_samples),
        "validation": ("max_eval_samples", args.max_eval_samples),
        "test": ("max_predict_samples", args.max_predict_samples),
    }
    if not 0 < args.train_share <= 1:
        raise ValueError(f"train_share is {args.train_share}; it must lie above 0, and not above 1.")
    shortened = dict(splits)
    if args.train_share < 1 and "train" in splits:
        train = splits["train"]
        places = [place for place in range(len(train)) if is_in_fraction(train.text(place), args.train_share, "train")]
        if not places:
            raise ValueError(
                f"train_share is {args.train_share}, which leaves nothing of {len(train)} examples; take a larger one."
            )
        shortened["train"] = train.pick(places)
    for split, (argument, count) in limits.items():
        if count is not None and count < 1:
            raise ValueError(f"{argument} is {count}; it must be an integer >= 1, or left out for all of them.")
        if count is not None and split in shortened:
            examples = shortened[split]
            shortened[split] = examples.pick(range(min(count, len(examples))))
    return shortened


def share_of(split: str, args: SplitArguments) -> dict[str, Any]:
    """What results.json says of the share that a split is, where it is not all of its file."""
    if split == "train":
        share = args.train_share * (1 - (args.validation_share or 0))
        return {"share": round(share, 6)} if share < 1 else {}
    return {"share": args.validation_share} if split == "validation" and args.validation_share else {}


def _check_seeds(args: TaskTrainingArguments) -> None:
    if args.num_seeds < 1:
        raise ValueError(f"num_seeds is {args.num_seeds}; it must be an integer >= 1.")
    if args.num_seeds > 1 and not args.do_train:
        raise ValueError(f"num_seeds is {args.num_seeds}, but nothing is trained; leave it out.")
    if args.num_seeds > 1 and args.resume_from_checkpoint is not None and not args.resumes_newest:
        raise ValueError(
            f"num_seeds is {args.num_seeds}, but resume_from_checkpoint names one run; leave one of them out, or pass "
            "'auto' to resume the seeds of output_dir."
        )
