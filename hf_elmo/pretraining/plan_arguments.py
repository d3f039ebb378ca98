"""What a plan is asked: the arguments of the run that it is of, and what is assumed where nothing says it."""

from __future__ import annotations

from dataclasses import dataclass

from ..given.flags import flag
from .arguments import ModelArguments, PretrainingArguments
from .recipes import OptimizationArguments


@dataclass(frozen=True, kw_only=True)
class AssumedArguments:
    """What the plan is of beside the run's own flags, and what is assumed of text and machines."""

    num_processes: int = flag("Processes, with one GPU each.", default=1)
    vocab_size: int | None = flag(
        "Words of the softmax. Left out, those of --vocab_file, of --model_name_or_path or of the text; without any, "
        "the paper's 793,471.",
        default=None,
    )
    num_words: int | None = flag(
        "Words of the training text, without markers. Left out, counted, or 10^9 without a text.", default=None
    )
    num_distinct_words: int | None = flag("Distinct words of a text that is not counted; else all.", default=None)
    num_files: int | None = flag("Files that the text lies in; 99 where none are named.", default=None)
    words_per_sentence: float = flag("Assumed of a text that is not counted.", default=25.0)
    letters_per_word: float = flag("Assumed of the text.", default=5.0)
    link_gigabytes_per_second: float = flag("Assumed rate at which a process sends, in 10^9 bytes.", default=10.0)
    disk_gigabytes_per_second: float = flag("Assumed rate of writing, in 10^9 bytes.", default=1.0)
    words_per_second: float | None = flag("Assumed of each process; without it no time is given.", default=None)
    document: bool = flag("Print the document of model_cards/scale instead.", default=False)


@dataclass(frozen=True, kw_only=True)
class PlanArguments(AssumedArguments, PretrainingArguments):
    """Compute what a run of pre-training takes, from the flags of that run; a text that is named is read."""

    output_dir: str = flag("Directory of the run, beside which many words would be counted.", default="run")

    def check(self) -> None:
        """Check what decides about the plan; the recipe has to be in.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for name in AssumedArguments.__dataclass_fields__.keys() - {"document"}:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"--{name} is {value}; it must be > 0.")
        for group in (ModelArguments, OptimizationArguments):
            group.check(self)
        if self.max_hours is not None and self.max_steps < 0 and self.max_words is None:
            raise ValueError(
                f"--max_hours is {self.max_hours}, of which a plan does not know how many steps they are; give "
                "--max_steps, --max_words or --num_train_epochs instead."
            )
