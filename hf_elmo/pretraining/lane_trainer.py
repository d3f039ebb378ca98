"""The pre-training loop: windows of lanes in, weights and honest perplexities out, on any accelerate setup."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_model

from ..checkpoints.file_names import WEIGHTS_FILE
from ..model.modeling_elmo import ElmoState
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import Corpus
from ..text.vocabulary import WordVocabulary
from .evaluation import HeldOutText, Perplexity, reset_lanes
from .interruption import SIGNALS, Interruption, Stopped
from .lanes import LaneFiller, LaneWindow
from .layer_rates import drop_frozen_gradients
from .objectives import LaneLoss, LaneObjective
from .optimizers import optimizer_of
from .recipes import OptimizationArguments
from .run_directory import OPTIMIZER_FILE, STATE_FILE, rank_file
from .run_state import (
    RunCheckpoints,
    RunState,
    clear_about_state,
    gather_objects,
    random_state,
    read_run_state,
    set_random_state,
)
from .schedules import build_schedule, move_schedule
from .step_progress import StepProgress
from .time_budget import RunClock, TimeBudget
from .weight_average import WeightAverage

# Of a schedule that goes by the share of the time; a run's own steps lie between these.
_SCHEDULE_STEPS = 1_000_000
# Entries of the history of such a run, where the steps between them are not given.
_NUM_LOGS = 100
_PERPLEXITY_FIELDS = tuple(field.name for field in fields(Perplexity))


@dataclass
class _LossSums:
    """Losses and words of this process since the last entry of the history."""

    loss: float = 0.0
    words: int = 0


class LaneTrainer:
    """Trains a model on lanes of a corpus, the LSTM state carried from window to window.

    The loss of a step is the mean over all its words, in all windows and processes: one process of 64 lanes, two of 32
    and two windows of 32 that are accumulated take the same steps, but for rounding.

    Args:
        objective: What is minimised, with the model that is trained in place.
        tokenizer: Cuts the text and makes the rows of characters.
        vocabulary: Words of the softmax.
        train_corpus: Read again from its start as often as the steps ask for.
        held_out_corpus: Scored before, during and after.
        settings: How the loop runs, the recipe's values in, max_steps settled; lanes are the batch. With max_hours
            max_steps is the bound that there is beside it, or -1; it becomes what the clock lets expect.
        accelerator: Devices and processes; each process reads its own shard of the corpora.
        on_evaluation: Called in the main process with each evaluation's step and perplexity.
        checkpoints: Where checkpoints go; None for none.
        interruption: The signals that stop a run between two steps; None heeds none.
        clock: Of the run, by which max_hours are counted; None starts one now.

    Raises: ValueError when model and vocabulary differ in size, or settings and accelerator in what they accumulate.
    """

    def __init__(
        self,
        objective: LaneObjective,
        tokenizer: ElmoCharTokenizer,
        vocabulary: WordVocabulary,
        train_corpus: Corpus,
        held_out_corpus: Corpus,
        settings: OptimizationArguments,
        accelerator: Accelerator,
        on_evaluation: Callable[[int, Perplexity], None] = lambda step, perplexity: None,
        checkpoints: RunCheckpoints | None = None,
        interruption: Interruption | None = None,
        clock: RunClock | None = None,
    ):
        model = objective.model
        if model.config.word_vocab_size != len(vocabulary):
            raise ValueError(
                f"model has a softmax over {model.config.word_vocab_size} words, but vocabulary has {len(vocabulary)}; "
                "build the config with word_vocab_size=len(vocabulary)."
            )
        if settings.gradient_accumulation_steps != accelerator.gradient_accumulation_steps:
            raise ValueError(
                f"settings accumulate {settings.gradient_accumulation_steps} windows per step, but the accelerator "
                f"{accelerator.gradient_accumulation_steps}; set gradient_accumulation_steps alike."
            )
        _own_memory(model)
        self.settings = settings
        self.accelerator = accelerator
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        rank, num_ranks = accelerator.process_index, accelerator.num_processes
        self.train_corpus = train_corpus.shard(rank, num_ranks)
        self.held_out_corpus = held_out_corpus.shard(rank, num_ranks)
        self.on_evaluation = on_evaluation
        self.checkpoints = checkpoints
        self.interruption = interruption or Interruption()
        optimizer = optimizer_of(model, settings)
        self.clock = clock or RunClock()
        self.budget: TimeBudget | None = None
        if settings.max_hours is not None:
            most_steps = None if settings.max_steps < 0 else settings.max_steps
            self.budget = TimeBudget(3600 * settings.max_hours, self.clock, most_steps)
        self.scheduler = build_schedule(settings, optimizer, _SCHEDULE_STEPS if self.budget else settings.max_steps)
        self.objective, self.optimizer = accelerator.prepare(objective, optimizer)
        # Once, not in each step: accelerate looks for DeepSpeed on the disk every time that it unwraps a model.
        self._bare_objective: LaneObjective = accelerator.unwrap_model(self.objective)
        # None where the weights of the last step are what counts.
        self.average = WeightAverage(model, settings.ema_decay) if settings.ema_decay else None
        self.filler = LaneFiller(
            tokenizer, vocabulary, settings.per_device_train_batch_size, settings.unroll_steps, settings.reset_state
        )
        self.state: ElmoState | None = None
        self.history: list[dict[str, float]] = []
        self.evaluations: list[dict[str, float]] = []
        self.resumed_from_steps: list[int] = []
        self.step = 0
        self.kept_step = 0
        self.num_words = 0
        self.train_seconds = 0.0
        self._logged = _LossSums()
        self._stop_signal: int | None = None

    def train(self) -> Perplexity:
        """Run all steps that are left and return the evaluation of the weights that are kept, those of `kept_step`.

        Raises:
            Stopped: A signal came, and a checkpoint was written after the step at hand.
            ValueError: A process's share of the text does not fill its lanes once.
            FloatingPointError: The loss or the gradients stopped being numbers; the step and the place in the text are
                named, and no checkpoint is written any more.
            OSError: A checkpoint could not be written.
        """
        self._check_text()
        if not self.evaluations:
            self._evaluate_and_report()
        windows = self._train_windows()
        self.objective.train()
        with (
            self.interruption.noted(),
            StepProgress(self.settings.max_steps, self.step, self.accelerator.is_main_process, self.budget) as progress,
        ):
            while not self._is_done and not self._is_out_of_patience:
                self._run_step(windows, progress)
        if self.evaluations[-1]["step"] != self.step:
            self._evaluate_and_report()
        self._keep_best()
        kept = next(entry for entry in self.evaluations if entry["step"] == self.kept_step)
        figures: dict[str, Any] = {name: kept.get(name) for name in _PERPLEXITY_FIELDS}
        return Perplexity(**figures)

    def evaluate(self, cold: bool = False) -> Perplexity:
        """Perplexity on the held-out text, each word scored once; see `HeldOutText.measure`."""
        settings = self.settings
        text = HeldOutText(
            self.tokenizer,
            self.vocabulary,
            self.held_out_corpus,
            settings.per_device_eval_batch_size,
            settings.unroll_steps,
            settings.reset_state,
        )
        with self._kept_weights():
            return text.measure(self._bare_objective, self.accelerator, cold)

    def save(self) -> Path:
        """Write a checkpoint, all processes together.

        Raises: ValueError where the trainer has no place for them.
        """
        if self.checkpoints is None:
            raise ValueError("checkpoints is None; give the trainer RunCheckpoints to save to.")
        state, started = self._run_state(), time.perf_counter()
        with self._kept_weights():
            target = self.checkpoints.save(state, self.best_step)
        if self.budget is not None:
            self.budget.checkpoint_seconds = time.perf_counter() - started
        return target

    def resume(self, checkpoint: str | Path) -> None:
        """Go on where a checkpoint of this run was written, with the very same numbers.

        Raises: ValueError naming the checkpoint and its files where they are no state of such a run.
        """
        state = read_run_state(checkpoint, self.accelerator.process_index)
        files = (WEIGHTS_FILE, OPTIMIZER_FILE, rank_file(self.accelerator.process_index), STATE_FILE)
        with clear_about_state(checkpoint, *files):
            self._go_on(state, Path(checkpoint) / WEIGHTS_FILE)

    def _go_on(self, state: RunState, weights: Path) -> None:
        # Into the weights that are there: a product may round otherwise where a weight lies otherwise in memory.
        load_model(self._bare_objective.model, weights)
        if self.average is not None:
            self.average.resume(state.optimizer["trained_weights"])
        self.optimizer.load_state_dict(state.optimizer["optimizer"])
        self.scheduler.load_state_dict(state.optimizer["scheduler"])
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(state.optimizer["scaler"])
        shared, own = state.shared, state.own
        self.step, self.num_words, self.train_seconds = state.step, shared["words"], shared["seconds"]
        self.history, self.evaluations = shared["history"], shared["evaluations"]
        self.resumed_from_steps = [*shared["resumed_from_steps"], state.step]
        # Earlier versions counted the steps alone.
        self.clock.resume(shared.get("clock_seconds", shared["seconds"]))
        if self.budget is not None:
            self.budget.load_state_dict(shared["time_budget"])
            if self.budget.decisions:
                self._settle_steps(self.budget.decisions[-1].max_steps)
        self.filler.load_state_dict(own["lanes"])
        self.state = None
        if own["state"] is not None:
            self.state = ElmoState(*(tensor.to(self.accelerator.device) for tensor in own["state"]))
        self._bare_objective.load_run_state(own["sampler"])
        self._logged = _LossSums(*own["logged"])
        set_random_state(own["random"])

    def _run_step(self, windows: Iterator[LaneWindow], progress: StepProgress) -> None:
        """One step, and what is due after it."""
        started, before = time.perf_counter(), self.state
        place = self.budget.progress(self.step) if self.budget else 0.0
        taken = list(itertools.islice(windows, self.settings.gradient_accumulation_steps))
        loss = self._train_step(taken)
        self.step += 1
        self.train_seconds += time.perf_counter() - started
        is_settled = False
        if self.budget is not None and not self._is_done and self.budget.is_due(self.step):
            is_settled = True
            self._decide_steps(self.budget)
        settings, is_last = self.settings, self._is_done
        if is_last or self._is_due(settings.logging_steps, _NUM_LOGS, place):
            self._log(taken[0], reset_lanes(before, taken[0].reset_state))
        progress.update(self.step, loss, self._words_per_second, settings.max_steps)
        is_best = False
        if is_last or self._is_due(settings.eval_steps, settings.num_evaluations, place):
            progress.clear()
            is_best = self._evaluate_and_report()
            self.objective.train()
        save_steps = self.checkpoints.save_steps if self.checkpoints else None
        stop_signal = None if is_last else self._stop_signal
        is_due = is_best or is_settled or (save_steps and self.step % save_steps == 0)
        if (save_steps and is_due) or (stop_signal is not None and self.checkpoints):
            self.save()
        if stop_signal is not None:
            raise Stopped(stop_signal, self.step)

    def _run_state(self) -> RunState:
        scaler = self.accelerator.scaler
        return RunState(
            step=self.step,
            shared={
                "words": self.num_words,
                "seconds": self.train_seconds,
                "clock_seconds": self.clock.seconds,
                "time_budget": None if self.budget is None else self.budget.state_dict(),
                "history": self.history,
                "evaluations": self.evaluations,
                "resumed_from_steps": self.resumed_from_steps,
            },
            optimizer={
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
                "trained_weights": None if self.average is None else self.average.trained_weights(),
            },
            own={
                "lanes": self.filler.state_dict(),
                "state": None if self.state is None else [self.state.hidden.cpu(), self.state.cell.cpu()],
                "sampler": self._bare_objective.run_state(),
                "logged": [self._logged.loss, self._logged.words],
                "random": random_state(),
            },
        )

    def _train_step(self, windows: list[LaneWindow]) -> float:
        """One optimizer step over some windows; this process's mean loss."""
        settings, accelerator = self.settings, self.accelerator
        count, self._stop_signal, is_used_up = self._agree(sum(window.num_targets for window in windows))
        if self.budget is not None and is_used_up and self.step + 1 != settings.max_steps:
            self._settle_steps(self.budget.end_after(self.step + 1, self.train_seconds).max_steps)
        # accelerate divides by the windows and DDP by the processes; what is wanted is the mean over all words.
        factor = settings.loss_scale * len(windows) * accelerator.num_processes / max(count, 1)
        losses = []
        for window in windows:
            self.state = reset_lanes(self.state, self._resets(window))
            with accelerator.accumulate(self.objective):
                loss = self.objective(window.to(accelerator.device), self.state)
                accelerator.backward((loss.forward_sum + loss.backward_sum) / 2 * factor)
                self.state = loss.state.detach()
                losses.append(loss)
                if accelerator.sync_gradients:
                    total = self._check_losses(losses)
                    self._clip_gradients()
                self.optimizer.step()
                self.optimizer.zero_grad()
        if self.budget is None:
            self.scheduler.step()
        else:
            move_schedule(self.scheduler, _SCHEDULE_STEPS * self.budget.progress(self.step + 1))
        if self.average is not None:
            self.average.update(self.step + 1)
        words = sum(loss.num_targets for loss in losses)
        self._logged.loss += total
        self._logged.words += words
        self.num_words += count
        return total / max(words, 1)

    def _resets(self, window: LaneWindow) -> torch.Tensor:
        """Which lanes start from zeros, (B,): those that the window names, and some by chance."""
        probability = self.settings.reset_probability
        if not probability:
            return window.reset_state
        return window.reset_state | (torch.rand(len(window.reset_state)) < probability)

    def _check_losses(self, losses: list[LaneLoss]) -> float:
        """The losses of a step's windows together, the mean of both directions' sums."""
        total = float(sum(loss.forward_sum.detach() + loss.backward_sum.detach() for loss in losses)) / 2
        if not math.isfinite(total):
            raise FloatingPointError(f"the loss is {total} {self._place()}.{self._way_back()}")
        return total

    def _clip_gradients(self) -> None:
        settings = self.settings
        drop_frozen_gradients(self.optimizer.param_groups, self.step, settings.unfreeze_steps)
        norm = self._bare_objective.clip_gradients(settings.max_grad_norm, self.accelerator)
        # A scaler steps over gradients that are too large and tries again with a smaller scale.
        if self.accelerator.scaler is None and not math.isfinite(norm):
            raise FloatingPointError(f"the norm of the gradients is {norm} {self._place()}.{self._way_back()}")

    def _place(self) -> str:
        return (
            f"at step {self.step + 1}, after {self.num_words:,} words, in process {self.accelerator.process_index}: "
            f"pass {self.filler.num_passes + 1} over its text, at sentence or document {self.filler.num_taken:,}"
        )

    def _way_back(self) -> str:
        advice = " Lower --learning_rate or --max_grad_norm, or look at the text there"
        saved = self.checkpoints and self.checkpoints.save_steps
        return advice + ("; the last checkpoint is still there." if saved else ".")

    def _agree(self, count: int) -> tuple[int, int | None, bool]:
        """The sum of a count over all processes, the signal that one of them got, and whether time is used up.

        After either of them all stop after one step.
        """
        asked = self.interruption.signal_number
        is_used_up = self.budget is not None and self.budget.is_used_up(self.step, self.train_seconds)
        if self.accelerator.num_processes == 1:
            return count, asked, is_used_up
        flags = [is_used_up, *(asked == number for number in SIGNALS)]
        numbers = torch.tensor([count, *flags], device=self.accelerator.device)
        count, used_up, *asked_by = self.accelerator.reduce(numbers, reduction="sum").tolist()
        signal = next((number for number, times in zip(SIGNALS, asked_by, strict=True) if times), None)
        return count, signal, bool(used_up)

    def _decide_steps(self, budget: TimeBudget) -> None:
        """Settle by the clock how many steps there are, all processes by that of the main one."""
        save_steps = self.checkpoints.save_steps if self.checkpoints else None
        settings = self.settings
        budget.decide(self.step, self.train_seconds, settings.eval_steps, settings.num_evaluations, save_steps)
        decisions = gather_objects(budget.decisions[-1], self.accelerator)
        budget.decisions[-1] = decisions[0]
        self._settle_steps(decisions[0].max_steps)

    def _settle_steps(self, max_steps: int) -> None:
        self.settings = replace(self.settings, max_steps=max_steps)

    def _is_due(self, steps: int | None, times: int, before: float) -> bool:
        """Whether something is due that comes each so many steps or, by the clock, so many times in the run.

        Args:
            steps: Steps between; None where they are not given.
            times: How often then.
            before: The place in the schedule before this step.
        """
        if steps is not None or self.budget is None:
            return bool(steps and self.step % steps == 0)
        return math.floor(times * self.budget.progress(self.step)) > math.floor(times * before)

    def _check_text(self) -> None:
        """Before the first step: whether each process has text for one window of its lanes."""
        settings, accelerator = self.settings, self.accelerator
        num_lanes, entries = settings.per_device_train_batch_size, 0
        wanted = num_lanes * settings.unroll_steps
        for sentence in self.train_corpus.sentences(self.tokenizer.tokenize):
            # With the two markers.
            entries += len(sentence) + 2
            if entries >= wanted:
                break
        shares = gather_objects(entries, accelerator)
        short = min(range(len(shares)), key=shares.__getitem__)
        if not shares[short]:
            raise ValueError(
                f"process {short} of {accelerator.num_processes} has no training text: its share of the shards is "
                "empty. Give more text, or start fewer processes."
            )
        if shares[short] < wanted:
            raise ValueError(
                f"--per_device_train_batch_size {num_lanes} lanes of --unroll_steps {settings.unroll_steps} "
                f"words hold {wanted:,} words, but the training text of process {short} of "
                f"{accelerator.num_processes} has {shares[short]:,}, markers included: the lanes are longer than the "
                "corpus. Give more text, or fewer lanes."
            )

    def _train_windows(self) -> Iterator[LaneWindow]:
        """Windows without end: the corpus again from its start each time it runs out, its lanes going on."""
        while True:
            yield from self.filler.windows(self._read(self.train_corpus.for_pass(self.filler.num_passes)))

    def _read(self, corpus: Corpus) -> Iterator[list]:
        """One pass: sentences, or documents where those decide on the state."""
        read = corpus.documents if self.settings.reset_state == "document" else corpus.sentences
        return read(self.tokenizer.tokenize)

    def _evaluate_and_report(self) -> bool:
        """Whether this evaluation is the best one so far."""
        started = time.perf_counter()
        perplexity = self.evaluate()
        if self.budget is not None:
            self.budget.evaluation_seconds = time.perf_counter() - started
        place = {"step": self.step, "words": self.num_words, "seconds": round(self.clock.seconds, 1)}
        self.evaluations.append({**place, **asdict(perplexity)})
        if self.accelerator.is_main_process:
            self.on_evaluation(self.step, perplexity)
        self.accelerator.log(_prefixed("eval", self.evaluations[-1]), step=self.step)
        return self.best_step == self.step

    def _keep_best(self) -> None:
        """Take the weights of the best evaluation where they are at hand, all processes alike."""
        if self.average is not None:
            self.average.put_in_place()
            self.average = None
        self.kept_step, best = self.step, self.best_step
        wants_best = self.settings.load_best_model_at_end and best != self.step
        if not wants_best or best is None or self.checkpoints is None:
            return
        checkpoint = self.checkpoints.find(best)
        if checkpoint is not None:
            load_model(self._bare_objective.model, checkpoint / WEIGHTS_FILE)
            self.kept_step = best

    def _kept_weights(self) -> AbstractContextManager[None]:
        """In this block the model has the weights that are evaluated and kept: the averages where there are any."""
        return nullcontext() if self.average is None else self.average.in_place()

    @property
    def _is_done(self) -> bool:
        return 0 <= self.settings.max_steps <= self.step

    @property
    def best_step(self) -> int | None:
        """The step of the best evaluation so far, None before the first step: what was not trained is not worth it."""
        trained = self._trained_evaluations
        return int(min(trained, key=lambda entry: entry["mean"])["step"]) if trained else None

    @property
    def _is_out_of_patience(self) -> bool:
        # From the evaluations alone, so that a resumed run stops where it would have.
        patience = self.settings.early_stopping_patience
        later = [entry for entry in self._trained_evaluations if entry["step"] > (self.best_step or 0)]
        return patience is not None and len(later) >= patience

    @property
    def _trained_evaluations(self) -> list[dict[str, float]]:
        return [entry for entry in self.evaluations if entry["step"]]

    @property
    def _words_per_second(self) -> float:
        return self.num_words / self.train_seconds

    def _log(self, window: LaneWindow, state: ElmoState | None) -> None:
        sums = gather_objects([self._logged.loss, self._logged.words], self.accelerator)
        loss, words = (sum(column) for column in zip(*sums, strict=True))
        self._logged = _LossSums()
        entry: dict[str, Any] = {
            "step": self.step,
            "words": self.num_words,
            "seconds": round(self.clock.seconds, 1),
            "loss": round(loss / max(words, 1), 5),
            "learning_rate": self.scheduler.get_last_lr()[0],
            "words_per_second": round(self._words_per_second, 1),
        }
        entry |= self._bare_objective.log_entry(window.to(self.accelerator.device), state)
        self.history.append(entry)
        self.accelerator.log(_prefixed("train", entry), step=self.step)


def _prefixed(prefix: str, entry: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in entry.items() if name != "step"}


@torch.no_grad()
def _own_memory(model: torch.nn.Module) -> None:
    """Give each weight memory of its own, aligned as torch does it: those of a loaded file lie where the file has them,
    and a product may round otherwise there, so that a run that goes on would not meet the same numbers."""
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)
