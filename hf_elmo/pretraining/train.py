"""The pre-training loop: windows of lanes in, weights and honest perplexities out, on any accelerate setup.

From top to bottom: the loop, a step, what is logged, evaluated and saved, the text, then signals and the clock.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from safetensors.torch import load_model
from tqdm import tqdm

from ..given import quoted
from ..hub import WEIGHTS_FILE
from ..hub.provenance import command_to_resume
from ..model.modeling_elmo import ElmoForPreTraining, ElmoState
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.corpora import Corpus
from ..text.vocabulary import WordVocabulary
from .arguments import PretrainingArguments
from .checkpoint import OPTIMIZER_FILE, RunCheckpoints, opened_state
from .evaluation import Perplexity, measure_perplexity
from .lanes import LaneFiller, LaneWindow, reset_lanes
from .objective import LaneObjective, LogUniformSampler
from .optim import build_optimizers, build_schedule, clip_gradient_norm

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Of a schedule that goes by the fraction of the time; a run's own steps lie between these.
_SCHEDULE_STEPS = 1_000_000
# Entries of the history of such a run.
_NUM_LOGS = 100
_DEVICE = torch.get_device_module() if torch.accelerator.is_available() else None
# What a checkpoint holds of a trainer, equal in all processes.
_SHARED = ("step", "num_words", "train_seconds", "history", "evaluations", "resumed_from_steps")


@dataclass(eq=False)
class LaneTrainer:
    """Trains a model on lanes of a corpus, the LSTM state carried from window to window.

    The loss of a step is the mean over all its words, in all windows and processes: one process of 64 lanes, two of 32
    and two windows of 32 that are accumulated take the same steps, but for rounding.
    """

    model: ElmoForPreTraining  # trained in place
    tokenizer: ElmoCharTokenizer
    vocabulary: WordVocabulary  # words of the softmax
    train_corpus: Corpus  # read again from its start as often as the steps ask for
    held_out_corpus: Corpus
    arguments: PretrainingArguments  # settled
    accelerator: Accelerator  # each process reads its own shard of the corpora
    checkpoints: RunCheckpoints
    clock: RunClock
    report: Callable[[str], None] = lambda line: None  # called in the main process with each line for the user

    def __post_init__(self) -> None:
        arguments, accelerator = self.arguments, self.accelerator
        with torch.no_grad():
            for tensor in itertools.chain(self.model.parameters(), self.model.buffers()):
                # Memory of its own, aligned as torch does it: weights of a loaded file lie where the file has them, and
                # a product may round otherwise there, so that a resumed run would not meet the same numbers.
                tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)
        accelerator.gradient_accumulation_steps = arguments.gradient_accumulation_steps
        rank, num_ranks = accelerator.process_index, accelerator.num_processes
        self.train_corpus = self.train_corpus.shard(rank, num_ranks)
        self.held_out_corpus = self.held_out_corpus.shard(rank, num_ranks)
        self.signals = StopSignals()
        # Each process draws its own negatives.
        self.sampler: LogUniformSampler | None = None
        if arguments.objective == "sampled":
            self.sampler = LogUniformSampler(
                len(self.vocabulary), arguments.num_negative_samples, arguments.seed + rank
            )
        # DDP does not know how to add up sparse gradients, nor the other optimizers how to use them.
        is_sparse = self.sampler is not None and arguments.optim == "adagrad"
        self.objective, *self.optimizers = accelerator.prepare(
            LaneObjective(self.model, sparse_gradients=is_sparse and num_ranks == 1),
            *build_optimizers(self.model, arguments),
        )
        # Once, not in each step: accelerate looks for DeepSpeed on the disk every time that it unwraps a model.
        self.bare_objective: LaneObjective = accelerator.unwrap_model(self.objective)
        self.schedule = build_schedule(arguments, _SCHEDULE_STEPS if arguments.max_hours else arguments.max_steps)
        lanes, steps = arguments.per_device_train_batch_size, arguments.unroll_steps
        self.filler = LaneFiller(self.tokenizer, self.vocabulary, lanes, steps, arguments.reset_state)
        self.state: ElmoState | None = None
        self.history: list[dict[str, float]] = []
        self.evaluations: list[dict[str, float]] = []
        self.resumed_from_steps: list[int] = []
        self.step = self.kept_step = self.num_words = 0
        self.train_seconds = 0.0
        self.progress: float | None = None
        self._is_last = False
        # Losses and words of this process since the last entry of the history.
        self._logged = [0.0, 0.0]

    def train(self) -> Perplexity:
        """Run all steps that are left and return the evaluation of the weights that are kept, those of `kept_step`.

        Raises:
            SystemExit: A signal came; a checkpoint was written after the step at hand, and a line says so.
            ValueError: A process's part of the text is empty.
            FloatingPointError: The loss or the gradients stopped being numbers, or the loss rose far above that of a
                guess; the step is named, and no checkpoint is written any more.
            OSError: A checkpoint could not be written.
        """
        arguments = self.arguments
        if next(self.train_corpus.sentences(self.tokenizer.tokenize), None) is None:
            raise ValueError(
                f"process {self.accelerator.process_index} of {self.accelerator.num_processes} has no part of the "
                "training text, which has too few records; start fewer processes."
            )
        if not self.evaluations:
            self._evaluate_and_report()
        windows = self._windows()
        bar = tqdm(
            total=arguments.max_steps if arguments.max_steps >= 0 else None,
            initial=self.step,
            desc="pre-training",
            unit="step",
            dynamic_ncols=True,
            # What is no terminal gets a line every half minute.
            mininterval=0.1 if sys.stderr.isatty() else 30,
            disable=not self.accelerator.is_main_process,
        )
        with self.signals, bar:
            while not self.is_done and not self._is_out_of_patience:
                started, state, progress = time.perf_counter(), self.state, self.progress
                self.objective.train()
                taken = list(itertools.islice(windows, arguments.gradient_accumulation_steps))
                stop_signal, loss = self._take_step(taken)
                self.clock.step_seconds = time.perf_counter() - started
                self.train_seconds += self.clock.step_seconds
                if self.is_done or self._is_due(arguments.logging_steps, _NUM_LOGS, progress):
                    self._log(taken[0], reset_lanes(state, taken[0].reset_state))
                bar.set_postfix_str(f"loss {loss:.3f}, {self.words_per_second:,.0f} words/s", refresh=False)
                bar.update()
                is_best = False
                if self.is_done or self._is_due(arguments.eval_steps, arguments.num_evaluations, progress):
                    bar.clear()
                    is_best = self._evaluate_and_report()
                is_stopped = stop_signal and not self.is_done
                save_steps = arguments.save_steps
                if is_stopped or (save_steps and (is_best or self.step % save_steps == 0)):
                    self.save()
                if is_stopped:
                    self.report(
                        f"stopped at step {self.step:,}; resume from checkpoint-{self.step}: {command_to_resume()}"
                    )
                    raise SystemExit(128 + stop_signal)
        if self.evaluations[-1]["step"] != self.step:
            self._evaluate_and_report()
        self._keep_best()
        kept: dict[str, Any] = next(entry for entry in self.evaluations if entry["step"] == self.kept_step)
        return Perplexity(**{field.name: kept[field.name] for field in fields(Perplexity)})

    @property
    def is_done(self) -> bool:
        """Whether the last step was taken."""
        return self._is_last or 0 <= self.arguments.max_steps <= self.step

    def _take_step(self, windows: list[LaneWindow]) -> tuple[int, float]:
        """One optimizer step over some windows: the signal that any process got by then, and this one's mean loss."""
        arguments, accelerator = self.arguments, self.accelerator
        words = sum(window.num_targets for window in windows)
        count, stop_signal = self._agree(words)
        for group in itertools.chain.from_iterable(optimizer.param_groups for optimizer in self.optimizers):
            group["lr"] = self._learning_rate()
        # accelerate divides by the windows and DDP by the processes; the loss is the mean over all words.
        factor = arguments.loss_scale * len(windows) * accelerator.num_processes / max(count, 1)
        losses: list[torch.Tensor] = []
        for window in windows:
            resets = window.reset_state
            if arguments.reset_probability:
                resets = resets | (torch.rand(len(resets)) < arguments.reset_probability)
            self.state = reset_lanes(self.state, resets)
            with accelerator.accumulate(self.objective):
                negatives = self.sampler.draw_pair() if self.sampler else None
                sums, state = self.objective(window.to(accelerator.device), self.state, negatives)
                accelerator.backward(sums.sum() / 2 * factor)
                self.state = state.detach()
                losses.append(sums.detach().sum())
                if accelerator.sync_gradients:
                    total, norm = float(sum(losses)) / 2, self._clip_gradients()
                    if not math.isfinite(total + norm):
                        raise FloatingPointError(
                            f"the loss is {total} and the norm of the gradients {norm} at step {self.step + 1}, after "
                            f"{self.num_words:,} words, in process {accelerator.process_index}: pass "
                            f"{self.filler.num_passes + 1} over its text, at sentence or document "
                            f"{self.filler.num_taken:,}. Lower --learning_rate, or look at the text there; the last "
                            "checkpoint, if any, is still there."
                        )
                for optimizer in self.optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
        self._logged = [self._logged[0] + total, self._logged[1] + words]
        self.num_words += count
        self.step += 1
        return stop_signal, total / max(words, 1)

    def _agree(self, count: int) -> tuple[int, int]:
        """The sum of a count over all processes and the signal that one of them got, 0 for none; by the main process's
        clock, how far the run is and whether this step is its last."""
        each = [[count, self.signals.number, self.clock.fraction(), self.clock.is_used_up()]]
        if self.accelerator.num_processes > 1:
            mine = torch.tensor(each, device=self.accelerator.device, dtype=torch.float64)
            each = self.accelerator.gather(mine).tolist()
        counts, numbers, (fraction, *_), (is_used_up, *_) = zip(*each, strict=True)
        by_steps = self.step / self.arguments.max_steps if self.arguments.max_steps > 0 else 0.0
        # What is reserved for the end may grow, but no schedule turns back.
        self.progress = max(self.progress or 0.0, by_steps, fraction)
        self._is_last = bool(is_used_up)
        return int(sum(counts)), int(max(numbers))

    def _learning_rate(self) -> float:
        place = self.step if self.arguments.max_hours is None else (self.progress or 0.0) * _SCHEDULE_STEPS
        return self.arguments.learning_rate * self.schedule(place)

    def _clip_gradients(self) -> float:
        return float(clip_gradient_norm(self.bare_objective.parameters(), self.arguments.max_grad_norm))

    def _is_due(self, steps: int | None, times: int, progress: float | None) -> bool:
        """Whether something is due that comes each so many steps or, where those are None, so many times in a run.

        `progress` is that before this step; None before the first one of a leg.
        """
        if steps is not None:
            return self.step % steps == 0
        return progress is not None and math.floor(times * (self.progress or 0.0)) > math.floor(times * progress)

    @property
    def words_per_second(self) -> float:
        """Words and closing special tokens trained on, over the seconds of the steps."""
        return self.num_words / self.train_seconds

    @torch.no_grad()
    def _log(self, window: LaneWindow, state: ElmoState | None) -> None:
        loss, words = (sum(column) for column in zip(*gather_object([self._logged]), strict=True))
        self._logged = [0.0, 0.0]
        entry: dict[str, Any] = {
            "step": self.step,
            "words": self.num_words,
            "seconds": round(self.clock.seconds, 1),
            "loss": round(loss / max(words, 1), 5),
            "learning_rate": self._learning_rate(),
            "words_per_second": round(self.words_per_second, 1),
        }
        of_guesses = math.log(len(self.vocabulary))
        if entry["loss"] > 3 + max([of_guesses, *(first["loss"] for first in self.history[:1])]):
            raise self._diverged(
                f"the loss up to step {self.step} is {entry['loss']:.2f} nats a word, and that of a guess among all "
                f"words {of_guesses:.2f}"
            )
        if self.sampler is not None:
            # The sampled loss is no perplexity: beside it, what the full softmax says of the same window.
            # Without dropout; the draws of training are as they were.
            drawn, window = self.sampler.generator.get_state(), window.to(self.accelerator.device)
            self.objective.eval()
            for name, negatives in (("sampled_loss", self.sampler.draw_pair()), ("full_loss", None)):
                sums, _ = self.bare_objective(window, state, negatives)
                entry[name] = round(float(sums.sum()) / max(2 * window.num_targets, 1), 5)
            self.sampler.generator.set_state(drawn)
        self.history.append(entry)
        self._track("train", entry)

    def _diverged(self, told: str) -> FloatingPointError:
        path = self.checkpoints.output_dir / "checkpoint-N"
        return FloatingPointError(
            f"{told}: the run has diverged. Resume from a checkpoint before that (--resume_from_checkpoint {path}) "
            "with a lower --learning_rate."
        )

    def evaluate(self, zero_state: bool = False) -> Perplexity:
        """Perplexity on the held-out text, each word scored once; see `measure_perplexity`."""
        what = self.bare_objective, self.tokenizer, self.vocabulary, self.held_out_corpus, self.accelerator
        try:
            return measure_perplexity(*what, self.arguments.unroll_steps, self.arguments.reset_state, zero_state)
        except OverflowError as error:
            raise self._diverged(f"the held-out perplexity at step {self.step} is beyond all numbers") from error

    def _evaluate_and_report(self) -> bool:
        """Whether this evaluation is the best one so far."""
        started = time.perf_counter()
        perplexity = self.evaluate()
        self.clock.evaluation_seconds = time.perf_counter() - started
        entry = {"step": self.step, "words": self.num_words, "seconds": round(self.clock.seconds, 1)}
        self.evaluations.append({**entry, **asdict(perplexity)})
        max_steps = self.arguments.max_steps
        of = f" of {max_steps}" if max_steps >= 0 else ""
        self.report(
            f"step {self.step:>{len(str(max_steps))}}{of}: held-out perplexity {perplexity.mean:,.1f} "
            f"(forward {perplexity.forward:,.1f}, backward {perplexity.backward:,.1f})"
        )
        self._track("eval", self.evaluations[-1])
        return self.best_step == self.step

    def _track(self, prefix: str, entry: dict[str, float]) -> None:
        values = {f"{prefix}/{name}": value for name, value in entry.items() if name != "step"}
        self.accelerator.log(values, step=self.step)

    @property
    def best_step(self) -> int | None:
        """The step of the best evaluation so far, the initial one excepted; None before the first step."""
        trained = [entry for entry in self.evaluations if entry["step"]]
        return int(min(trained, key=lambda entry: entry["mean"])["step"]) if trained else None

    @property
    def _is_out_of_patience(self) -> bool:
        # From the evaluations alone, so that a resumed run stops where it would have.
        patience, best_step = self.arguments.early_stopping_patience, self.best_step
        if patience is None or best_step is None:
            return False
        return sum(entry["step"] > best_step for entry in self.evaluations) >= patience

    def _keep_best(self) -> None:
        """Take the weights of the best evaluation where there is a checkpoint of them, all processes alike."""
        self.kept_step, best = self.step, self.best_step
        if best not in (None, self.step) and (checkpoint := self.checkpoints.find(best)):
            load_model(self.bare_objective.model, checkpoint / WEIGHTS_FILE)
            self.kept_step = best

    def save(self) -> None:
        """Write a checkpoint, all processes together; see `RunCheckpoints.save`."""
        started = time.perf_counter()
        self.checkpoints.save(
            self.step,
            self.best_step,
            shared={
                **{name: getattr(self, name) for name in _SHARED},
                "seconds": self.clock.seconds,
                "learning_rate": self.arguments.learning_rate,
            },
            optimizers=[optimizer.state_dict() for optimizer in self.optimizers],
            own={
                "lanes": self.filler.state_dict(),
                "state": None if self.state is None else [self.state.hidden.cpu(), self.state.cell.cpu()],
                "sampler": None if self.sampler is None else self.sampler.generator.get_state(),
                "logged": self._logged,
                # Those of torch are all that training draws from.
                "random": torch.get_rng_state(),
                "device_random": _DEVICE.get_rng_state() if _DEVICE else None,
            },
        )
        self.clock.checkpoint_seconds = time.perf_counter() - started

    def resume(self, checkpoint: Path) -> None:
        """Continue where a checkpoint of this run was written, with the very same numbers.

        Raises: ValueError naming the checkpoint where its files hold no state of such a run.
        """
        with opened_state(checkpoint) as shared:
            # Tensors and plain values alone: other pickles run code.
            files = (checkpoint / name for name in (OPTIMIZER_FILE, f"rank-{self.accelerator.process_index}.pt"))
            states, own = (torch.load(file, map_location="cpu", weights_only=True) for file in files)
            # Into the weights that are there: a product may round otherwise where a weight lies otherwise in memory.
            load_model(self.bare_objective.model, checkpoint / WEIGHTS_FILE)
            for optimizer, state in zip(self.optimizers, states, strict=True):
                optimizer.load_state_dict(state)
            for name in _SHARED:
                # As the type that they have; a damaged file may hold anything.
                setattr(self, name, type(getattr(self, name))(shared[name]))
            self.clock.earlier_seconds = shared["seconds"]
            before, now = shared["learning_rate"], self.arguments.learning_rate
            if before != now:
                self.report(f"warning: --learning_rate was {quoted(before)} and is {now}, from here on")
            self.resumed_from_steps = [*self.resumed_from_steps, self.step]
            self.filler.load_state_dict(own["lanes"])
            if own["state"] is not None:
                self.state = ElmoState(*(tensor.to(self.accelerator.device) for tensor in own["state"]))
            if self.sampler is not None:
                self.sampler.generator.set_state(own["sampler"])
            self._logged = own["logged"]
            torch.set_rng_state(own["random"])
            if _DEVICE and own["device_random"] is not None:
                _DEVICE.set_rng_state(own["device_random"])

    def _windows(self) -> Iterator[LaneWindow]:
        """Windows without end: the corpus again from its start each time it runs out, its lanes continued."""
        while True:
            corpus = self.train_corpus
            corpus.records.set_epoch(self.filler.num_passes)
            read = corpus.documents if self.arguments.reset_state == "document" else corpus.sentences
            yield from self.filler.windows(read(self.tokenizer.tokenize))


@dataclass
class RunClock:
    """The seconds of a run, with all that it does and its earlier legs, and the fraction of its hours.

    A leg is what one process does of a run; of one that was killed, what came after its last checkpoint is forgotten.
    """

    max_hours: float | None = None  # that the run may take
    earlier_seconds: float = 0.0  # of earlier legs
    step_seconds: float = 0.0  # what the last step took; so with those that follow
    evaluation_seconds: float = 0.0
    checkpoint_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Up to now."""
        return self.earlier_seconds + time.monotonic() - self._started

    def fraction(self, ahead: float = 0.0) -> float:
        """How much of the time for steps is over in so many seconds, from 0 to 1; 0 where no hours are given."""
        if self.max_hours is None:
            return 0.0
        total = 3600 * self.max_hours
        # For two evaluations, the last checkpoint and the finished one, and what nobody measures.
        reserve = 2 * (self.evaluation_seconds + self.checkpoint_seconds) + min(0.01 * total, 60.0)
        return min(1.0, (self.seconds + ahead) / max(total - reserve, 1e-9))

    def is_used_up(self) -> bool:
        """Whether there is no time for more than one further step."""
        return self.fraction(ahead=1.5 * self.step_seconds) >= 1.0


class StopSignals:
    """Notes the first SIGINT or SIGTERM in `number` while it is entered; a later one ends the process at once.

    Outside of the main thread, where Python delivers no signals, none is noted.
    """

    number = 0

    def __enter__(self) -> StopSignals:
        is_heard = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in SIGNALS if is_heard}
        # What is ignored, as Ctrl-C by a shell's background jobs, stays so.
        self._before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
        for number in self._before:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.number:
            self.number, self._noted_at = number, time.monotonic()
            if int(os.environ.get("RANK", 0)) == 0:
                # Not by print: the signal may have come in the midst of another.
                with suppress(OSError):
                    os.write(2, b"\nstopping: a checkpoint follows after the step at hand; a second signal skips it\n")
        elif time.monotonic() - self._noted_at >= 1.0:
            # A launcher passes on what its processes got already: what comes sooner is the same signal.
            os._exit(128 + number)
