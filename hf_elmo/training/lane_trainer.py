"""The pre-training loop: windows of lanes in, weights and honest perplexities out, on any accelerate setup."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
from accelerate import Accelerator
from torch import Tensor
from tqdm.auto import tqdm
from transformers import get_scheduler

from ..data.corpora import Corpus
from ..data.lanes import LaneFiller, LaneWindow, fill_lanes
from ..data.vocabulary import WordVocabulary
from ..layers_elmo import ElmoState
from ..tokenization_elmo import ElmoCharTokenizer
from .objectives import LaneObjective, SampledSoftmaxObjective


@dataclass
class Perplexity:
    """Held-out perplexities a word, by the full softmax; a sentence of n words has n + 1 targets in each direction.

    Args:
        forward, backward: exp of each direction's mean -log p.
        mean: Their mean, the figure of the paper.
        num_targets: Words and closing markers scored in each direction.
    """

    forward: float
    backward: float
    mean: float
    num_targets: int


@dataclass
class LoopSettings:
    """How the loop runs; names as in transformers' example scripts, lanes being the batch.

    Args:
        num_lanes: Lanes of each process.
        unroll_steps: Words of a window; gradients stop at its start, states do not.
        max_steps: Optimizer steps.
        gradient_accumulation_steps: Windows a step.
        learning_rate, weight_decay, warmup_steps, lr_scheduler_type: AdamW and its schedule.
        max_grad_norm: Bound on the norm of all gradients together.
        eval_steps: Steps between evaluations on the held-out text; None for only before and after.
        logging_steps: Steps between entries of the history.
        eval_num_lanes: Lanes that the held-out text is dealt to.
        reset_state: When a lane's state goes back to zeros: "never", at each "document" or at each "epoch".
    """

    num_lanes: int
    unroll_steps: int
    max_steps: int
    gradient_accumulation_steps: int = 1
    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    warmup_steps: int = 0
    lr_scheduler_type: str = "cosine"
    max_grad_norm: float = 1.0
    eval_steps: int | None = None
    logging_steps: int = 50
    eval_num_lanes: int = 32
    reset_state: str = "never"


class LaneTrainer:
    """Trains a model on lanes of a corpus, the LSTM state carried from window to window.

    Args:
        objective: What is minimised, with the model that is trained in place.
        tokenizer: Cuts the text and makes the rows of characters.
        vocabulary: Words of the softmax.
        train_corpus: Read again from its start as often as the steps ask for.
        held_out_corpus: Scored before, during and after.
        settings: How the loop runs.
        accelerator: Devices and processes; each process reads its own shard of the corpora.
        on_evaluation: Called in the main process with each evaluation's step and perplexity.

    Raises: ValueError when model and vocabulary differ in size.
    """

    def __init__(
        self,
        objective: LaneObjective,
        tokenizer: ElmoCharTokenizer,
        vocabulary: WordVocabulary,
        train_corpus: Corpus,
        held_out_corpus: Corpus,
        settings: LoopSettings,
        accelerator: Accelerator,
        on_evaluation: Callable[[int, Perplexity], None] = lambda step, perplexity: None,
    ):
        model = objective.model
        if model.config.word_vocab_size != len(vocabulary):
            raise ValueError(
                f"model has a softmax over {model.config.word_vocab_size} words, but vocabulary has {len(vocabulary)}; "
                "build the config with word_vocab_size=len(vocabulary)."
            )
        self.settings = settings
        self.accelerator = accelerator
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary
        rank, num_ranks = accelerator.process_index, accelerator.num_processes
        self.train_corpus = train_corpus.shard(rank, num_ranks)
        self.held_out_corpus = held_out_corpus.shard(rank, num_ranks)
        self.on_evaluation = on_evaluation
        # Only what is trained goes to the optimizer: the scalar mixes rest.
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        self.scheduler = get_scheduler(
            settings.lr_scheduler_type,
            optimizer,
            num_warmup_steps=settings.warmup_steps,
            num_training_steps=settings.max_steps,
        )
        self.objective, self.optimizer = accelerator.prepare(objective, optimizer)
        self.filler = LaneFiller(tokenizer, vocabulary, settings.num_lanes, settings.unroll_steps, settings.reset_state)
        self.history: list[dict[str, float]] = []
        self.evaluations: list[dict[str, float]] = []
        self.num_words = 0
        self.train_seconds = 0.0

    def train(self) -> Perplexity:
        """Run all steps and return the last evaluation.

        Raises: FloatingPointError naming the step at which the loss stopped being a number.
        """
        settings = self.settings
        self._evaluate_and_report(step=0)
        windows = self._train_windows()
        state: ElmoState | None = None
        loss_sum, loss_words = 0.0, 0
        progress = tqdm(
            total=settings.max_steps,
            desc="pre-training",
            unit="step",
            dynamic_ncols=True,
            disable=not self.accelerator.is_main_process,
        )
        self.objective.train()
        for step in range(1, settings.max_steps + 1):
            started = time.perf_counter()
            for _ in range(settings.gradient_accumulation_steps):
                window = next(windows)
                state = reset_lanes(state, window.reset_state)
                before = state
                loss, words, state = self._train_window(window, state)
                if not math.isfinite(loss):
                    raise FloatingPointError(
                        f"the loss is {loss} at step {step}, after {self.num_words} words; lower --learning_rate or "
                        "--max_grad_norm."
                    )
                loss_sum, loss_words = loss_sum + loss * words, loss_words + words
                self.num_words += words * self.accelerator.num_processes
            self.scheduler.step()
            self.train_seconds += time.perf_counter() - started
            if step % settings.logging_steps == 0 or step == settings.max_steps:
                self._log(step, loss_sum / max(loss_words, 1), window, before)
                loss_sum, loss_words = 0.0, 0
            progress.set_postfix_str(f"loss {loss:.3f}, {self._words_per_second:,.0f} words/s", refresh=False)
            progress.update()
            if settings.eval_steps and step % settings.eval_steps == 0 and step != settings.max_steps:
                progress.clear()
                self._evaluate_and_report(step)
                self.objective.train()
        progress.close()
        return self._evaluate_and_report(settings.max_steps)

    @torch.no_grad()
    def evaluate(self) -> Perplexity:
        """Perplexity on the held-out text, each word scored once, state carried along the lanes from zeros."""
        self.objective.eval()
        sums = torch.zeros(3, dtype=torch.float64)
        state = None
        settings = self.settings
        windows = fill_lanes(
            self._read(self.held_out_corpus),
            self.tokenizer,
            self.vocabulary,
            settings.eval_num_lanes,
            settings.unroll_steps,
            settings.reset_state,
        )
        objective = self.accelerator.unwrap_model(self.objective)
        for window in windows:
            state = reset_lanes(state, window.reset_state)
            loss = objective(window.to(self.accelerator.device), state)
            state = loss.state
            sums += torch.stack(
                [loss.forward_sum, loss.backward_sum, loss.forward_sum.new_tensor(loss.num_targets)]
            ).cpu()
        forward_sum, backward_sum, count = self.accelerator.reduce(sums.to(self.accelerator.device)).tolist()
        if not count:
            raise ValueError("held_out_corpus holds no words; perplexity needs text to be scored on.")
        forward, backward = math.exp(forward_sum / count), math.exp(backward_sum / count)
        return Perplexity(forward, backward, (forward + backward) / 2, int(count))

    def _train_window(self, window: LaneWindow, state: ElmoState | None) -> tuple[float, int, ElmoState]:
        with self.accelerator.accumulate(self.objective):
            loss = self.objective(window.to(self.accelerator.device), state)
            self.accelerator.backward(loss.mean)
            if self.accelerator.sync_gradients:
                self.accelerator.clip_grad_norm_(self.objective.parameters(), self.settings.max_grad_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.mean.item(), loss.num_targets, loss.state.detach()

    def _train_windows(self) -> Iterator[LaneWindow]:
        """Windows without end: the corpus again from its start each time it runs out, its lanes going on."""
        while True:
            stream = self._read(self.train_corpus)
            first = next(stream, None)
            if first is None:
                raise ValueError(
                    f"process {self.accelerator.process_index} of {self.accelerator.num_processes} has no training "
                    "text: its share of the shards is empty. Give more text, or start fewer processes."
                )
            yield from self.filler.windows(itertools.chain([first], stream))

    def _read(self, corpus: Corpus) -> Iterator[list]:
        """One pass: sentences, or documents where those decide on the state."""
        read = corpus.documents if self.settings.reset_state == "document" else corpus.sentences
        return read(self.tokenizer.tokenize)

    def _evaluate_and_report(self, step: int) -> Perplexity:
        perplexity = self.evaluate()
        self.evaluations.append({"step": step, "words": self.num_words, **asdict(perplexity)})
        if self.accelerator.is_main_process:
            self.on_evaluation(step, perplexity)
        return perplexity

    @property
    def _words_per_second(self) -> float:
        return self.num_words / self.train_seconds

    def _log(self, step: int, loss: float, window: LaneWindow, state: ElmoState | None) -> None:
        entry = {
            "step": step,
            "words": self.num_words,
            "loss": round(loss, 5),
            "learning_rate": self.scheduler.get_last_lr()[0],
            "words_per_second": round(self._words_per_second, 1),
        }
        objective = self.accelerator.unwrap_model(self.objective)
        if isinstance(objective, SampledSoftmaxObjective):
            # The sampled loss is no perplexity: beside it, what the full softmax says of the same window.
            gap = objective.measure_gap(window.to(self.accelerator.device), state)
            entry |= {"sampled_loss": round(gap.sampled, 5), "full_loss": round(gap.full, 5)}
        self.history.append(entry)


def reset_lanes(state: ElmoState | None, resets: Tensor) -> ElmoState | None:
    """The state with zeros in the lanes that start anew.

    Args:
        state: Of B lanes; None stands for zeros.
        resets: True for those lanes, (B,).
    """
    if state is None or not resets.any():
        return state
    keep = (~resets).to(state.hidden)[:, None, None, None]
    return ElmoState(hidden=state.hidden * keep, cell=state.cell * keep)
