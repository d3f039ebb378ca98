"""What a run of pre-training takes, from its sizes: memory of a step, traffic, checkpoints and disk.

An entry is a word or a marker of a lane; a target is a word or a closing marker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ..kernels import use_backend
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining
from ..text.word_counts import WordCounter
from .dropouts import set_dropouts
from .fused_losses import MOST_BLOCK_LOGITS
from .lanes import LaneWindow
from .objectives import LaneObjective, build_objective
from .optimizers import optimizer_of
from .recipes import OptimizationArguments
from .sampling import log_uniform_probabilities

# Weights, gradients, optimizer states and what a scan keeps are float32 in mixed precision too.
_FLOAT, _LONG = 4, 8
_COUNT_DIGITS = 4


@dataclass(frozen=True)
class TrainingPlan:
    """The sizes of a run.

    Args:
        config: The model, with its word_vocab_size and type of softmax; see `Start.model_config`.
        settings: How it is optimised, the recipe being in.
        num_processes: Processes, with one GPU each.
    """

    config: ElmoConfig
    settings: OptimizationArguments
    num_processes: int = 1

    @property
    def num_words(self) -> int:
        """Words of the softmax."""
        return self.config.word_vocab_size or 0

    @property
    def entries_per_window(self) -> int:
        """Entries of each direction that one process reads in a window."""
        return self.settings.per_device_train_batch_size * self.settings.unroll_steps

    @property
    def entries_per_step(self) -> int:
        """Entries of each direction that all processes read per optimizer step."""
        return self.entries_per_window * self.settings.gradient_accumulation_steps * self.num_processes

    @cached_property
    def _model(self) -> ElmoForPreTraining:
        """The model that is pre-trained, its weights of their sizes and without memory."""
        with FakeTensorMode():
            return ElmoForPreTraining(self.config)

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of the model that is pre-trained, by part, in the order of the model."""
        counts: Counter[str] = Counter()
        for name, parameter in self._model.named_parameters():
            part = name.removeprefix("elmo.").removeprefix("token_encoder.").partition(".")[0]
            counts[part.removesuffix("_backward").replace("_", " ")] += parameter.numel()
        return dict(counts)

    @cached_property
    def training_bytes(self) -> dict[str, int]:
        """What training holds beside a window in one process, by part; equal rows of sparse gradients stand apart."""
        config, settings = self.config, self.settings
        weights: list[Any] = list(self._model.parameters())
        trained = [weight for weight in weights if weight.requires_grad]
        # An optimizer makes the states of weights without memory that it makes of any.
        with weights[0].fake_mode:
            optimizer = optimizer_of(self._model, settings)
            for weight in trained:
                weight.grad = torch.empty_like(weight)
            optimizer.step()
        gradients = all_gradients = sum(weight.nbytes for weight in trained)
        if settings.has_sparse_gradients(self.num_processes):
            rows = 2 * (self.entries_per_window + settings.num_negative_samples)
            gradients -= (2 - config.share_word_softmax) * _FLOAT * self.num_words * config.projection_size
            gradients += rows * (_FLOAT * config.projection_size + _LONG)
        return {
            "weights": sum(weight.nbytes for weight in weights),
            "gradients": gradients,
            # What DistributedDataParallel reduces gradients in.
            "buckets of gradients": gradients if self.num_processes > 1 else 0,
            "optimizer states": sum(value.nbytes for state in optimizer.state.values() for value in state.values()),
            **({"average of the weights": all_gradients} if settings.ema_decay else {}),
        }

    @cached_property
    def step_bytes(self) -> dict[str, int]:
        """The memory of a training step in one process, by part; the libraries' own is not in it."""
        return {
            **self.training_bytes,
            "kept for the backward pass": self.kept_bytes(),
            "softmax at work on a GPU": 2 * _FLOAT * self._logits_at_work,
        }

    @property
    def _logits_at_work(self) -> int:
        """Most logits of a direction's targets that a GPU holds at a time, beside as many probabilities."""
        rare, entries = self.expected_cluster_targets(), self.entries_per_window
        if self.settings.objective == "sampled":
            return min(MOST_BLOCK_LOGITS, entries * self.settings.num_negative_samples)
        ends = [*(self.config.adaptive_softmax_cutoffs or ()), self.num_words]
        clusters = (count // 2 * (end - start) for count, (start, end) in zip(rare, pairwise(ends), strict=True))
        # All targets meet the first words and a logit for each cluster.
        return min(MOST_BLOCK_LOGITS, max([entries * (ends[0] + len(rare)), *clusters]))

    @property
    def all_reduce_bytes(self) -> float:
        """What each process sends, and receives as much, per optimizer step: a ring reduces all gradients."""
        return 2 * (self.num_processes - 1) / self.num_processes * self.training_bytes["gradients"]

    @property
    def checkpoint_bytes(self) -> int:
        """The tensors of a checkpoint: weights, their average, optimizer states and each process's LSTM states."""
        config, kept = self.config, ("weights", "average of the weights", "optimizer states")
        lanes = self.num_processes * self.settings.per_device_train_batch_size
        states = _FLOAT * lanes * config.num_hidden_layers * 2 * (config.projection_size + config.cell_size)
        return states + sum(self.training_bytes.get(part, 0) for part in kept)

    def expected_distinct_words(self) -> int:
        """Distinct words expected in a window, by the log-uniform law of the sampler (`LogUniformSampler`).

        Text has somewhat fewer: a few words are more frequent there than in the law.
        """
        return round(float(-torch.expm1(self.entries_per_window * torch.log1p(-self._word_probabilities)).sum()))

    def expected_cluster_targets(self) -> list[int]:
        """Targets of both directions of a window expected in each cluster behind the first, by the same law."""
        clusters = self._word_probabilities.tensor_split(self.config.adaptive_softmax_cutoffs or [])[1:]
        return [round(2 * self.entries_per_window * float(cluster.sum())) for cluster in clusters]

    @property
    def _word_probabilities(self) -> Tensor:
        return log_uniform_probabilities(torch.arange(self.num_words), self.num_words, torch.float64)

    def kept_bytes(self, num_distinct_words: int | None = None, cluster_targets: Sequence[int] | None = None) -> int:
        """What a window with full rows and a target per entry keeps for its backward pass, beside weights and itself.

        Measured on windows and softmaxes of a few words, and multiplied: the tests show that it is linear.

        Args:
            num_distinct_words: Distinct words of the window; None for those expected.
            cluster_targets: Of an adaptive softmax, the targets of both directions in each cluster behind the first;
                None for those expected.
        Raises: ValueError where the objective cannot be trained.
        Returns: Bytes, those of dropout as on a CPU, which keeps its factors; a GPU keeps one byte for each.
        """
        settings, objective = self.settings, self._objective_of_few_words()
        distinct = num_distinct_words or self.expected_distinct_words()
        rare = cluster_targets or self.expected_cluster_targets()
        measure = partial(_measure, objective, settings.bf16)
        # At least two of each: of a single one torch keeps a view where it copies several.
        lanes, steps = settings.per_device_train_batch_size, 2 + len(rare)
        least = measure(2, 2, steps)
        kept = least + (distinct - 2) * (measure(3, 2, steps) - least) + (lanes - 2) * (measure(2, 3, steps) - least)
        kept += lanes * (settings.unroll_steps - steps) * (measure(2, 2, steps + 1) - least) // 2
        for cluster, count in enumerate(rare, start=1):
            # In each direction two targets are in each cluster, and now there is one more in this one.
            kept += (count - 4) * (measure(2, 2, steps, cluster) - least) // 2
        if settings.objective != "sampled":
            # Each direction computes the gradient of its softmax along with the losses, and keeps it.
            kept += _softmax_bytes(self._model) - _softmax_bytes(objective.model)
        return kept

    def _objective_of_few_words(self) -> LaneObjective:
        """The objective of the run over as few words as can be, one in each cluster of an adaptive softmax."""
        settings, cutoffs = self.settings, self.config.adaptive_softmax_cutoffs or ()
        few = {
            # More than there are negatives.
            "word_vocab_size": min(self.num_words, settings.num_negative_samples + 2),
            "adaptive_softmax_cutoffs": list(range(1, len(cutoffs) + 1)) or None,
        }
        with torch.device("meta"):
            model = ElmoForPreTraining(ElmoConfig.from_dict({**self.config.to_dict(), **few}))
        # What numbers the weights hold does not matter; those of buffers can be indices.
        model.to_empty(device="cpu")
        for buffer in model.buffers():
            buffer.zero_()
        set_dropouts(model, settings)
        return build_objective(settings.objective, model, settings.num_negative_samples).train()


def counting_disk_bytes(num_words: int, num_distinct: int, letters_per_word: float, max_words_in_memory: int) -> int:
    """Most disk that counting the words of a text takes: nothing where the distinct ones fit into memory.

    A file of counts holds as many words as memory does; a merged one stands beside `WordCounter.max_files` of them.
    """
    if num_distinct <= max_words_in_memory:
        return 0
    lines = min(WordCounter.max_files * max_words_in_memory, num_words) + num_distinct
    return round(lines * (letters_per_word + _COUNT_DIGITS + 2))


def share_read(num_files: int, num_processes: int) -> float:
    """Share of the text that each process reads: whole files of its own (`Corpus.shard`), or else all of them."""
    return 1 / num_processes if num_files % num_processes == 0 else 1.0


def _softmax_bytes(model: ElmoForPreTraining) -> int:
    """Of both directions, also where they share one softmax."""
    return sum(weight.nbytes for softmax in model.word_softmaxes for weight in softmax.parameters())


def _measure(objective: LaneObjective, bf16: bool, distinct: int, lanes: int, steps: int, last_target: int = 0) -> int:
    """Bytes of the distinct storages that autograd saves of a window, those of weights and of the window left out."""
    config = objective.model.config
    rows = torch.ones(distinct, config.max_characters_per_word, dtype=torch.long)
    words, targets = torch.zeros(2, lanes, steps, dtype=torch.long)
    rare = [*2 * (config.adaptive_softmax_cutoffs or []), last_target]
    targets.view(-1)[: len(rare)] = torch.tensor(rare)
    window = LaneWindow(rows, words, words, targets, targets, torch.zeros(lanes, dtype=torch.bool))
    kept = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        # Kept alive too: another storage may else be given the same address.
        kept[storage.data_ptr()] = storage
        return tensor

    with (
        torch.autocast("cpu", torch.bfloat16, enabled=bf16),
        use_backend("plain" if config.project_hidden else "readable"),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        objective(window)
    for tensor in (*objective.parameters(), *vars(window).values()):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in kept.values())
