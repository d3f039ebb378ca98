"""What a resumed fine-tuning needs, beside what the Trainer keeps, to end as if it had never been stopped."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.utils import gather_object
from safetensors.torch import load_model
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import SaveStrategy

from ..hub.file_names import WEIGHTS_FILE
from .run_directory import RESUME_STATE, STATE_FILE


class ExactResume(TrainerCallback, ExportableState):
    """Has a resumed run draw and log what the run that was stopped would have.

    Args:
        checkpoint: What is resumed; None for a run that starts.
        before_saving: Called by all processes before a checkpoint may be saved.
    """

    def __init__(self, checkpoint: Path | None, before_saving: Callable[[], None]):
        self._checkpoint = checkpoint
        self._before_saving = before_saving
        self._epoch_starts: list[str] = []
        self._is_due = False

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        # Where it stands now: the state has the path at which it was saved.
        if self._checkpoint is not None and state.best_global_step:
            best = self._checkpoint.parent / f"checkpoint-{state.best_global_step}"
            state.best_model_checkpoint = str(best) if best.is_dir() else None

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self._checkpoint is not None and not _is_between_epochs(state):
            # The Trainer restores random numbers behind the batches that it skips; which these are is drawn before.
            kept = cast("dict[str, Any]", state.stateful_callbacks)[RESUME_STATE]
            starts = kept["attributes"]["epoch_starts"]
            torch.set_rng_state(torch.frombuffer(bytearray.fromhex(starts[args.process_index]), dtype=torch.uint8))
        self._checkpoint = None
        self._epoch_starts = gather_object([bytes(torch.get_rng_state().numpy()).hex()])

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the random numbers of each process where the epoch began."""
        return {"args": {}, "attributes": {"epoch_starts": self._epoch_starts}}

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        # A checkpoint of an epoch's last step has in it what follows at the epoch's end: an evaluation, for example.
        self._is_due = control.should_save and _is_between_epochs(state)
        control.should_save = control.should_save and not self._is_due
        self._prepare_to_save(args, control)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        control.should_save = control.should_save or self._is_due
        self._prepare_to_save(args, control)

    def _prepare_to_save(self, args: TrainingArguments, control: Any) -> None:
        # An evaluation says whether the best is saved.
        if control.should_save or (control.should_evaluate and args.save_strategy == SaveStrategy.BEST):
            # The Trainer keeps no losses that are not logged.
            control.should_log = True
            self._before_saving()


class StopEarly(EarlyStoppingCallback):
    """transformers' early stopping, which a resumed run goes on counting for."""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        # The Trainer expects it there, also where the run that was stopped had no patience.
        cast("dict[str, Any]", state.stateful_callbacks).setdefault(type(self).__name__, self.state())
        self.early_stopping_patience_counter = _evaluations_since_the_best(state)


def train(trainer: Trainer, checkpoint: Path | None, patience: int | None) -> dict[str, Any]:
    """Train, from a checkpoint if there is one; the metrics of the whole training.

    Args:
        trainer: Has `ExactResume` and, with a patience, `StopEarly` among its callbacks.
        checkpoint: What is resumed.
        patience: Evaluations without a better one after which training stops.
    """
    if checkpoint is None:
        return trainer.train().metrics
    state = TrainerState.load_from_json(str(checkpoint / STATE_FILE))
    if not _is_over(state, trainer.args, patience):
        metrics = trainer.train(resume_from_checkpoint=str(checkpoint)).metrics
        return metrics | _mean_loss(trainer.state)
    # The Trainer would take one step more.
    kept = checkpoint
    if trainer.args.load_best_model_at_end and state.best_global_step:
        kept = checkpoint.parent / f"checkpoint-{state.best_global_step}"
        state.best_model_checkpoint = str(kept)
    load_model(cast("torch.nn.Module", trainer.model), kept / WEIGHTS_FILE)
    trainer.state = state
    return {"epoch": state.epoch, **_mean_loss(state)}


def _is_over(state: TrainerState, args: TrainingArguments, patience: int | None) -> bool:
    """Whether a run that was stopped here had taken all of its steps."""
    steps_of_an_epoch = round(state.global_step / (state.epoch or math.inf))
    last = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs * steps_of_an_epoch)
    return state.global_step >= last or (patience is not None and _evaluations_since_the_best(state) >= patience)


def _is_between_epochs(state: TrainerState) -> bool:
    return float(state.epoch or 0).is_integer()


def _evaluations_since_the_best(state: TrainerState) -> int:
    return sum("eval_loss" in entry and entry["step"] > (state.best_global_step or 0) for entry in state.log_history)


def _mean_loss(state: TrainerState) -> dict[str, float]:
    """The mean loss of all steps up to the last one that was logged, if any was."""
    total = counted = 0.0
    for entry in state.log_history:
        if "loss" in entry:
            total += entry["loss"] * (entry["step"] - counted)
            counted = entry["step"]
    return {"train_loss": total / counted} if counted else {}
