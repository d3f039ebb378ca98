"""transformers' TrainingArguments with our defaults, and what follows from the ones that are left out."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import TrainingArguments

from .arguments import STEPS, TrainingFlags


@dataclass
class TaskTrainingArguments(TrainingFlags, TrainingArguments):
    """transformers' TrainingArguments with defaults that suit a small head on a frozen biLM.

    None in `learning_rate`, `eval_strategy`, `save_strategy` and `metric_for_best_model` stands for what follows from
    the rest: see their help.
    """

    def __post_init__(self) -> None:
        # transformers itself turns do_eval on where eval_strategy is set: keep what was really asked for.
        self.steps_asked = [step for step in STEPS if getattr(self, step)]
        self.eval_strategy_asked = self.eval_strategy is not None
        self.checkpoints_asked = self.save_strategy is not None
        if self.eval_strategy is None:
            self.eval_strategy = "epoch"
        if self.save_strategy is None:
            self.save_strategy = "best" if self.load_best_model_at_end else "no"
        if self.metric_for_best_model is None and (self.load_best_model_at_end or self.save_strategy == "best"):
            self.metric_for_best_model = "f1"
        super().__post_init__()
