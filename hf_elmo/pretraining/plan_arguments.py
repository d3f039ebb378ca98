"""What a plan is asked: the arguments of the run that it is of, and what is assumed where nothing says it."""

from __future__ import annotations

from dataclasses import dataclass

from ..flags import flag
from .arguments import ModelArguments, PretrainingArguments
from .recipes import OptimizationArguments

# The Billion Word Benchmark, as the paper's run read it (Peters et al. 2018, sec. 3.4; bilm-tf's page).
PAPER_VOCABULARY, PAPER_FILES = 793_471, 99


@dataclass(frozen=True, kw_only=True)
class AssumedArguments:
    """What the plan is of beside the run's own flags, and what is assumed of text and machines."""

    num_processes: int = flag("Processes, of a GPU each.", default=1)
    vocab_size: int | None = flag(
        f"Words of the softmax. Left out, those of --vocab_file, of --model_name_or_path or of the text; without any, "
        f"{PAPER_VOCABULARY:,}.",
        default=None,
    )
    num_words: int | None = flag(
        "Words of the training text, without markers. Left out, they are counted, or 10^9 where no text is named.",
        default=None,
    )
    num_distinct_words: int | None = flag(
        "Distinct words of the text; left out and not counted, more than are counted in memory.", default=None
    )
    num_files: int | None = flag(f"Files that the text lies in; {PAPER_FILES} where none are named.", default=None)
    words_per_sentence: float = flag("Assumed of a text that is not counted.", default=25.0)
    letters_per_word: float = flag("Assumed of the text.", default=5.0)
    link_gigabytes_per_second: float = flag("Assumed rate at which a process sends, in 10^9 bytes.", default=10.0)
    disk_gigabytes_per_second: float = flag("Assumed rate of writing, in 10^9 bytes.", default=1.0)
    words_per_second: float | None = flag("Assumed of each process; without it no time is given.", default=None)
    document: bool = flag("Print the document of model_cards/scale instead.", default=False)

    def check(self) -> None:
        """Check the numbers.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for name, value in vars(self).items():
            if (
                name in AssumedArguments.__dataclass_fields__
                and value is not None
                and not (value > 0 or value is False)
            ):
                raise ValueError(f"--{name} is {value}; it must be > 0.")


@dataclass(frozen=True, kw_only=True)
class PlanArguments(AssumedArguments, PretrainingArguments):
    """Compute what a run of pre-training takes, from the flags of that run; a text that is named is read."""

    output_dir: str = flag("Directory of the run, beside which many words would be counted.", default="run")

    def check(self) -> None:
        """Check what decides about the plan; the recipe has to be in.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for group in (AssumedArguments, ModelArguments, OptimizationArguments):
            group.check(self)
