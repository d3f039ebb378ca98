"""transformers' TrainingArguments with our defaults, and what follows from the ones that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from transformers import TrainingArguments

from .arguments import STEPS, TrainingFlags


# Some of transformers' fields have no None, which here stands for what is settled later.
@dataclass
class TaskTrainingArguments(TrainingFlags, TrainingArguments):  # type: ignore[misc]
    """transformers' TrainingArguments with defaults that suit a small head on a frozen biLM.

    None in `learning_rate`, `eval_strategy`, `save_strategy` and `metric_for_best_model` stands for what follows from
    the rest: see their help.
    """

    def __post_init__(self) -> None:
        # transformers itself turns do_eval on where eval_strategy is set: keep what was really asked for.
        self.steps_asked = [step for step in STEPS if getattr(self, step)]
        self.eval_strategy_asked = self.eval_strategy is not None
        self.checkpoints_asked = self.save_strategy is not None
        # transformers names one where nobody does.
        self.directory_asked = bool(self.output_dir)
        metric_asked, order_asked = self.metric_for_best_model is not None, self.greater_is_better is not None
        if self.eval_strategy is None:
            self.eval_strategy = "epoch"
        if self.save_strategy is None:
            self.save_strategy = "best" if self.load_best_model_at_end else "no"
            self.save_total_limit = 1
        super().__post_init__()
        self.metric_asked, self.order_asked = metric_asked, order_asked

    @property
    def resumes_newest(self) -> bool:
        """Whether what is resumed is the newest checkpoint of output_dir; the Trainer calls it True."""
        return str(self.resume_from_checkpoint).lower() in ("auto", "last", "true")

    @property
    def directory(self) -> Path:
        """`output_dir` as a path."""
        return Path(cast("str", self.output_dir))

    @property
    def best_by(self) -> tuple[str, bool]:
        """The score that the best model is chosen by, without `eval_`, and whether a higher one is better."""
        score, greater_is_better = cast("str", self.metric_for_best_model), cast("bool", self.greater_is_better)
        return score.removeprefix("eval_"), greater_is_better

    def choose_by(self, score: str) -> None:
        """Have the best model be that of the highest `score`, unless the flags say otherwise."""
        if not self.metric_asked:
            self.metric_for_best_model = score
            if not self.order_asked:
                self.greater_is_better = True

    def settle_sampling(self, group_by_length: bool) -> None:
        """Have batches of like lengths where they are wanted, unless a flag names another way."""
        if group_by_length and self.train_sampling_strategy == "random":
            self.train_sampling_strategy = "group_by_length"
