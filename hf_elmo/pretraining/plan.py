"""What a run of pre-training takes, from its sizes: memory of a step, traffic, checkpoints and disk.

An entry is a word or a marker of a lane; a target is a word or a closing marker.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels import use_backend
from ..model.configuration_elmo import ElmoConfig
from ..model.layers_elmo import ElmoState
from ..model.modeling_elmo import ElmoForPreTraining
from ..text.word_counts import WordCounter
from .fused_losses import FULL_BLOCK_LOGITS, SAMPLED_BLOCK_LOGITS
from .lanes import LaneWindow
from .objectives import LaneObjective, build_objective, propose_cutoffs
from .parameter_kinds import matrices_of
from .recipes import OptimizationArguments
from .sampling import log_uniform_probabilities

# Weights, gradients, optimizer states and what a scan keeps are float32 in mixed precision too.
_FLOAT, _LONG = 4, 8
_STATES_PER_WEIGHT = {"adamw": 2, "adagrad": 1}
_COUNT_DIGITS = 4


@dataclass(frozen=True)
class TrainingPlan:
    """The sizes of a run.

    Args:
        config: The model, with its word_vocab_size and type of softmax; see `plan_config`.
        settings: How it is optimised, the recipe being in.
        num_processes: Processes, with one GPU each.
    """

    config: ElmoConfig
    settings: OptimizationArguments
    num_processes: int = 1

    @property
    def entries_per_window(self) -> int:
        """Entries of each direction that one process reads in a window."""
        return self.settings.per_device_train_batch_size * self.settings.unroll_steps

    @property
    def entries_per_step(self) -> int:
        """Entries of each direction that all processes read per optimizer step."""
        return self.entries_per_window * self.settings.gradient_accumulation_steps * self.num_processes


def plan_config(config: ElmoConfig, vocab_size: int, objective: str) -> ElmoConfig:
    """The config with the softmax that an objective trains, over so many words."""
    is_adaptive = objective == "adaptive"
    cutoffs = (config.adaptive_softmax_cutoffs or propose_cutoffs(vocab_size)) if is_adaptive else None
    fields = {"softmax_type": "adaptive" if is_adaptive else "full", "adaptive_softmax_cutoffs": cutoffs}
    return ElmoConfig(**{**config.to_dict(), **fields, "word_vocab_size": vocab_size})


def count_parameters(config: ElmoConfig) -> dict[str, int]:
    """Parameters of the model that is pre-trained, by part, in the order of the model."""
    counts: Counter[str] = Counter()
    for name, parameter in _build_model(config).named_parameters():
        part = name.removeprefix("elmo.").removeprefix("token_encoder.").partition(".")[0]
        counts[part.removesuffix("_backward").replace("_", " ")] += parameter.numel()
    return dict(counts)


def training_bytes(plan: TrainingPlan) -> dict[str, int]:
    """What training holds beside a window in one process, by part; sparse gradients as before equal rows are one."""
    config, settings = plan.config, plan.settings
    model = _build_model(config)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    num_trained = sum(parameter.numel() for parameter in trained)
    # Muon keeps a momentum alone.
    matrices = [matrix.numel() for matrix in matrices_of(model) if matrix.requires_grad and settings.optim == "muon"]
    # With a count of steps per tensor.
    states = _STATES_PER_WEIGHT.get(settings.optim, _STATES_PER_WEIGHT["adamw"]) * num_trained + len(trained)
    gradients = _FLOAT * num_trained
    if settings.has_sparse_gradients(plan.num_processes):
        rows = 2 * (plan.entries_per_window + settings.num_negative_samples)
        gradients -= (2 - config.share_word_softmax) * _FLOAT * config.word_vocab_size * config.projection_size
        gradients += rows * (_FLOAT * config.projection_size + _LONG)
    return {
        "weights": _FLOAT * sum(count_parameters(config).values()),
        "gradients": gradients,
        # What DistributedDataParallel reduces gradients in.
        "buckets of gradients": gradients if plan.num_processes > 1 else 0,
        "optimizer states": _FLOAT * (states - sum(matrices) - len(matrices)),
        **({"average of the weights": _FLOAT * num_trained} if settings.ema_decay else {}),
    }


def step_bytes(plan: TrainingPlan) -> dict[str, int]:
    """The memory of a training step in one process, by part; the libraries' own is not in it.

    At work in the softmax are logits and probabilities of a block of one direction's targets, as on a CPU; a GPU takes
    all targets at once.
    """
    widest, block = plan.config.word_vocab_size, FULL_BLOCK_LOGITS
    if plan.settings.objective == "sampled":
        widest, block = plan.settings.num_negative_samples, SAMPLED_BLOCK_LOGITS
    elif plan.settings.objective == "adaptive":
        cutoffs = plan.config.adaptive_softmax_cutoffs
        widest = cutoffs[0] + len(cutoffs)
    return {
        **training_bytes(plan),
        "kept for the backward pass": kept_bytes(plan),
        "softmax at work": 2 * _FLOAT * widest * min(plan.entries_per_window, max(1, block // widest)),
    }


def all_reduce_bytes(plan: TrainingPlan) -> float:
    """What each process sends, and receives as much, per optimizer step: a ring reduces all gradients."""
    return 2 * (plan.num_processes - 1) / plan.num_processes * training_bytes(plan)["gradients"]


def checkpoint_bytes(plan: TrainingPlan) -> int:
    """The tensors of a checkpoint: weights, optimizer states and each process's LSTM states."""
    config, held = plan.config, training_bytes(plan)
    lanes = plan.num_processes * plan.settings.per_device_train_batch_size
    states = _FLOAT * lanes * config.num_hidden_layers * 2 * (config.projection_size + config.cell_size)
    # Beside an average the weights that it is of.
    return held["weights"] + held["optimizer states"] + held.get("average of the weights", 0) + states


def counting_disk_bytes(num_words: int, num_distinct: int, letters_per_word: float, max_words_in_memory: int) -> int:
    """Most disk that counting the words of a text takes: nothing where the distinct ones fit into memory.

    A file of counts holds as many words as memory does; a merged one stands beside `WordCounter.max_files` of them.
    """
    if num_distinct <= max_words_in_memory:
        return 0
    lines = min(WordCounter.max_files * max_words_in_memory, num_words) + num_distinct
    return round(lines * (letters_per_word + _COUNT_DIGITS + 2))


def expected_distinct_words(num_words: int, vocab_size: int) -> int:
    """Distinct words expected among so many, by the log-uniform law of the sampler (`LogUniformSampler`).

    Text has somewhat fewer: a few words are more frequent there than in the law.
    """
    probabilities = log_uniform_probabilities(torch.arange(vocab_size), vocab_size, torch.float64)
    return round(float(-torch.expm1(num_words * torch.log1p(-probabilities)).sum()))


def expected_cluster_targets(plan: TrainingPlan) -> list[int]:
    """Targets of both directions of a window expected in each cluster behind the first, by the same law."""
    ends = [*plan.config.adaptive_softmax_cutoffs, plan.config.word_vocab_size]
    shares = (math.log1p(end) - math.log1p(start) for start, end in itertools.pairwise(ends))
    return [round(2 * plan.entries_per_window * share / math.log1p(ends[-1])) for share in shares]


def share_read(num_files: int, num_processes: int) -> float:
    """Share of the text that each process reads: whole files of its own (`Corpus.shard`), or else all of them."""
    return 1 / num_processes if num_files % num_processes == 0 else 1.0


def kept_bytes(
    plan: TrainingPlan, num_distinct_words: int | None = None, cluster_targets: Sequence[int] | None = None
) -> int:
    """What a window with full rows and a target per entry keeps for its backward pass, beside weights and itself.

    Measured on windows and softmaxes of a few words, and multiplied: the tests show that it is linear.

    Args:
        plan: The sizes.
        num_distinct_words: Distinct words of the window; None for `expected_distinct_words`.
        cluster_targets: Of an adaptive softmax, the targets of both directions in each cluster behind the first; None
            for `expected_cluster_targets`.
    Raises: ValueError where the objective cannot be trained.
    Returns: Bytes, those of dropout as on a CPU, which keeps its factors; a GPU keeps one byte for each.
    """
    config, settings = plan.config, plan.settings
    size, cutoffs = config.word_vocab_size, config.adaptive_softmax_cutoffs or []
    distinct = num_distinct_words or expected_distinct_words(plan.entries_per_window, size)
    rare = cluster_targets or (expected_cluster_targets(plan) if cutoffs else [])
    fewest = settings.num_negative_samples if settings.objective == "sampled" else max(cutoffs, default=1)
    fewest = min(size, fewest + 2)
    lanes, steps = settings.per_device_train_batch_size, settings.unroll_steps

    def extrapolate(num_words: int) -> int:
        model = _build_model(plan_config(config, num_words, config.softmax_type)).to_empty(device="cpu")
        for buffer in model.buffers():
            buffer.zero_()
        objective = build_objective(settings.objective, model, settings.num_negative_samples).train()
        measure = functools.partial(_measure, objective, settings.bf16)
        # At least two of each: of a single one torch keeps a view where it copies several.
        start = 2 + len(cutoffs)
        base = measure(2, 2, start)
        word, lane, step = (measure(*window) - base for window in ((3, 2, start), (2, 3, start), (2, 2, start + 1)))
        kept = base + (distinct - 2) * word + (lanes - 2) * lane + lanes * (steps - start) * step // 2
        # In each direction two targets are in each cluster, and now there is one more in one of them.
        more = [(measure(2, 2, start, cutoff) - base) // 2 for cutoff in cutoffs]
        return kept + sum((count - 4) * each for count, each in zip(rare, more, strict=True))

    few = extrapolate(fewest)
    return few + (size - fewest) * (extrapolate(fewest + 1) - few)


def _measure(objective: LaneObjective, bf16: bool, distinct: int, lanes: int, steps: int, last_target: int = 0) -> int:
    """Bytes of the distinct storages that autograd saves of a window, those of weights and of the window left out."""
    config = objective.model.config
    rows = torch.ones(distinct, config.max_characters_per_word, dtype=torch.long)
    words, targets = torch.zeros(2, lanes * steps, dtype=torch.long)
    rare = [*2 * (config.adaptive_softmax_cutoffs or []), last_target]
    targets[: len(rare)] = torch.tensor(rare)
    words, targets = words.view(lanes, steps), targets.view(lanes, steps)
    window = LaneWindow(rows, words, words, targets, targets, torch.zeros(lanes, dtype=torch.bool))
    sizes = (config.projection_size, config.cell_size)
    state = ElmoState(*(torch.zeros(lanes, config.num_hidden_layers, 2, size, requires_grad=True) for size in sizes))
    known = {tensor.untyped_storage().data_ptr() for tensor in (*objective.parameters(), *vars(window).values())}
    kept = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            # Kept alive too: another storage may else be given the same address.
            kept[storage.data_ptr()] = storage
        return tensor

    with (
        torch.autocast("cpu", torch.bfloat16, enabled=bf16),
        use_backend("plain"),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        objective(window, state)
    return sum(storage.nbytes() for storage in kept.values())


def _build_model(config: ElmoConfig) -> ElmoForPreTraining:
    """A model whose weights have sizes and no memory."""
    with torch.device("meta"):
        return ElmoForPreTraining(config)
