"""What a run of pre-training takes: memory, communication, operations, steps and text, from its sizes.

What a window keeps for its backward pass, its operations and the loader's tables are measured: by the real layers and
the real tables, with a few words each, and multiplied, for all of them are linear. The rest are products of sizes.

An entry is a word or a marker of a lane; a target is a word or a closing marker.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from ..kernels import use_backend
from ..model.characters_elmo import PAD_CHARACTER
from ..model.configuration_elmo import ElmoConfig
from ..model.layers_elmo import ElmoBiLM, ElmoState
from ..model.modeling_elmo import ElmoForPreTraining
from ..model.token_encoder_elmo import ElmoTokenEncoder
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import SPECIAL_WORDS, WordVocabulary
from ..text.word_counts import MAX_WORDS_IN_MEMORY, WordCounter
from .lanes import LaneFiller
from .objectives import Direction, build_objective, propose_cutoffs
from .recipes import OptimizationArguments
from .sampling import log_uniform_probabilities

# Weights, gradients, optimizer states and what a scan keeps are float32 in mixed precision too.
_FLOAT, _LONG = 4, 8
_STATES_PER_WEIGHT = {"adamw": 2, "adagrad": 1}
_PARTS = {
    "elmo.token_encoder.character_embedding": "character embedding",
    "elmo.token_encoder.convolutions": "convolutions",
    "elmo.token_encoder.highways": "highway layers",
    "elmo.token_encoder.word_table": "word table",
    "elmo.token_encoder.projection": "projection",
    "elmo.bilm": "biLM",
    "elmo.mixes": "scalar mixes",
    "word_softmax": "word softmax",
}
# Tables of words that were met, in the tokenizer and in the lanes, forget them all when they hold more.
WORDS_MET = 100_000
# Python's tables have most room to spare just after they grew, which they do when they are two thirds full.
_WORDS_MEASURED = 2**16 * 2 // 3 + 10
_COUNT_DIGITS = 4


@dataclass(frozen=True)
class TrainingPlan:
    """The sizes of a run.

    Args:
        config: The model, with its word_vocab_size and type of softmax; see `plan_config`.
        settings: How it is optimised, the recipe being in.
        num_processes: Processes, of a GPU each.
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
        """Entries of each direction that all processes read for one optimizer step."""
        return self.entries_per_window * self.settings.gradient_accumulation_steps * self.num_processes


def plan_config(config: ElmoConfig, vocab_size: int, objective: str) -> ElmoConfig:
    """The config with the softmax that an objective trains, over so many words."""
    fields = _fields(config) | {"word_vocab_size": vocab_size, "softmax_type": "full", "adaptive_softmax_cutoffs": None}
    if objective == "adaptive":
        cutoffs = config.adaptive_softmax_cutoffs or propose_cutoffs(vocab_size)
        fields |= {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": cutoffs}
    return ElmoConfig(**fields)


def count_parameters(config: ElmoConfig) -> dict[str, int]:
    """Parameters of the model that is pre-trained, by part, in the order of the computation."""
    counts = dict.fromkeys(_PARTS.values(), 0)
    for name, parameter in _parameters(config):
        counts[next(part for prefix, part in _PARTS.items() if name.startswith(prefix))] += parameter.numel()
    return {part: count for part, count in counts.items() if count}


def training_bytes(plan: TrainingPlan) -> dict[str, int]:
    """What training holds beside a window in one process, by part; sparse gradients as before equal rows are one."""
    config, settings = plan.config, plan.settings
    trained = [parameter.numel() for _, parameter in _parameters(config) if parameter.requires_grad]
    gradients = _FLOAT * sum(trained)
    if settings.has_sparse_gradients(plan.num_processes):
        rows = 2 * (plan.entries_per_window + settings.num_negative_samples)
        gradients -= (2 - config.share_word_softmax) * _FLOAT * config.word_vocab_size * config.projection_size
        gradients += rows * (_FLOAT * config.projection_size + _LONG)
    return {
        "weights": _FLOAT * sum(count_parameters(config).values()),
        "gradients": gradients,
        # What DistributedDataParallel reduces gradients in.
        "buckets of gradients": gradients if plan.num_processes > 1 else 0,
        # With a count of steps for each tensor.
        "optimizer states": sum(_FLOAT * (_STATES_PER_WEIGHT[settings.optim] * numbers + 1) for numbers in trained),
    }


def step_bytes(plan: TrainingPlan) -> dict[str, int]:
    """The memory of a training step in one process, by part; the libraries' own is not in it.

    At work in the backward pass of the softmax are two arrays of one direction's widest logits.
    """
    kept, _ = measure_window(plan)
    widest = {"full": plan.config.word_vocab_size, "sampled": plan.settings.num_negative_samples}
    if plan.settings.objective == "adaptive":
        cutoffs = plan.config.adaptive_softmax_cutoffs
        widest["adaptive"] = cutoffs[0] + len(cutoffs)
    return {
        **training_bytes(plan),
        **{f"kept: {part}": size for part, size in kept.items()},
        "softmax at work": 2 * _FLOAT * plan.entries_per_window * widest[plan.settings.objective],
    }


def all_reduce_bytes(plan: TrainingPlan) -> float:
    """What each process sends, and receives as much, in one optimizer step: a ring reduces all gradients."""
    return 2 * (plan.num_processes - 1) / plan.num_processes * training_bytes(plan)["gradients"]


def checkpoint_bytes(plan: TrainingPlan) -> int:
    """The tensors of a checkpoint: weights, optimizer states and each process's LSTM states."""
    config, held = plan.config, training_bytes(plan)
    lanes = plan.num_processes * plan.settings.per_device_train_batch_size
    states = _FLOAT * lanes * config.num_hidden_layers * 2 * (config.projection_size + config.cell_size)
    return held["weights"] + held["optimizer states"] + states


def expected_distinct_words(num_words: int, vocab_size: int) -> int:
    """Distinct words expected among so many, by the log-uniform law of the sampler (`LogUniformSampler`).

    Text has somewhat fewer: a few words are more frequent there than in the law.
    """
    probabilities = log_uniform_probabilities(torch.arange(vocab_size), vocab_size, torch.float64)
    return round(float(-torch.expm1(num_words * torch.log1p(-probabilities)).sum()))


def expected_cluster_targets(plan: TrainingPlan, num_targets: int) -> list[int]:
    """Targets of both directions expected in each cluster of the adaptive softmax, by the same law."""
    ends = [*plan.config.adaptive_softmax_cutoffs, plan.config.word_vocab_size]
    total = math.log1p(plan.config.word_vocab_size)
    shares = ((math.log1p(end) - math.log1p(start)) / total for start, end in itertools.pairwise(ends))
    return [round(2 * num_targets * share) for share in shares]


def share_read(num_files: int, num_processes: int) -> float:
    """Share of the text that each process reads and decodes to get its part of the records.

    `Corpus.shard` gives out whole files where their number is a multiple of the processes'; else every process reads
    all of them and keeps each n-th record.
    """
    return 1 / num_processes if num_files % num_processes == 0 else 1.0


def counting_disk_bytes(num_words: int, num_distinct_words: int, letters_per_word: float) -> int:
    """Most disk that counting the words of a text takes: nothing where the distinct ones fit into memory.

    A file holds at most MAX_WORDS_IN_MEMORY words; at most so many files stand before they are merged into one, which
    stands beside them for a while.
    """
    if num_distinct_words <= MAX_WORDS_IN_MEMORY:
        return 0
    files = min(WordCounter.max_files, num_words // MAX_WORDS_IN_MEMORY)
    lines = files * MAX_WORDS_IN_MEMORY + num_distinct_words
    return round(min(lines, num_words + num_distinct_words) * (letters_per_word + _COUNT_DIGITS + 2))


def host_bytes(plan: TrainingPlan, letters_per_word: float, num_distinct_words: int | None = None) -> dict[str, int]:
    """Most memory of the loader's tables in one process, by part; it does not depend on the length of the text.

    Args:
        plan: The sizes.
        letters_per_word: Of running words and of the vocabulary alike.
        num_distinct_words: Distinct words of the whole text that are counted; None for more than are held in memory.
    """

    counted = MAX_WORDS_IN_MEMORY if num_distinct_words is None else min(num_distinct_words, MAX_WORDS_IN_MEMORY)
    vocabulary, met, counts = _measure_tables(math.ceil(letters_per_word), plan.config.max_characters_per_word)
    return {
        "vocabulary": round(plan.config.word_vocab_size * vocabulary),
        "words met, in the tokenizer and the lanes": round(WORDS_MET * met),
        "word counts": round(counted * counts),
    }


@functools.lru_cache
def _measure_tables(letters: int, characters: int) -> list[float]:
    """Bytes per word of the tables of words: the vocabulary, those of words that were met, and the counts."""

    def meet(words: list[str]) -> LaneFiller:
        tokenizer = ElmoCharTokenizer(max_characters_per_word=characters)
        # All in one window: tables grow to twice what they hold then.
        filler = LaneFiller(tokenizer, WordVocabulary(SPECIAL_WORDS), num_lanes=1, unroll_steps=len(words))
        next(filler.windows([words]))
        return filler

    def count(words: list[str]) -> WordCounter:
        counter = WordCounter()
        counter.add(words)
        return counter

    def measure(build: Callable[[list[str]], Any]) -> float:
        tracemalloc.start()
        table = build([f"{number:0{letters}d}" for number in range(_WORDS_MEASURED)])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del table
        return most / _WORDS_MEASURED

    return [measure(build) for build in (lambda words: WordVocabulary([*SPECIAL_WORDS, *words]), meet, count)]


def measure_window(
    plan: TrainingPlan,
    num_distinct_words: int | None = None,
    longest_word: int | None = None,
    num_targets: int | None = None,
    cluster_targets: Sequence[int] | None = None,
) -> tuple[dict[str, int], dict[str, int]]:
    """What a window keeps for its backward pass, and what it computes.

    Args:
        plan: The sizes.
        num_distinct_words: Distinct words of the window, each of which is encoded once; None for
            `expected_distinct_words`.
        longest_word: Characters of the longest word, its marks included; None for full rows. Where words are grouped by
            length, as on a CPU, the shorter ones keep less.
        num_targets: Targets of one direction; None for as many as entries.
        cluster_targets: Of an adaptive softmax, the targets of both directions in each cluster; None for
            `expected_cluster_targets`.
    Raises: ValueError where the objective cannot be trained.
    Returns: By part, the bytes kept beside weights and the window itself, and the multiplications and additions of
        matrix products, forward and backward. Dropout is counted as on a CPU, which keeps its factors; a GPU keeps a
        byte for each. The backward pass computes twice what the forward pass does: each factor's gradient is a product.
    """
    config, entries, lanes = plan.config, plan.entries_per_window, plan.settings.per_device_train_batch_size
    targets = entries if num_targets is None else num_targets
    if num_distinct_words is None:
        num_distinct_words = expected_distinct_words(entries, config.word_vocab_size)
    if plan.settings.objective == "adaptive" and cluster_targets is None:
        cluster_targets = expected_cluster_targets(plan, targets)
    # Whatever the softmax and the number of word vectors, the layers take as much.
    sizes = _fields(plan_config(config, len(SPECIAL_WORDS), "full")) | {"word_table_size": config.word_table_size and 1}
    longest = config.max_characters_per_word if longest_word is None else longest_word
    per_word, per_entry = _measure_layers(json.dumps(sizes), plan.settings.bf16, longest)
    measured = {
        "token encoder": np.array([1, num_distinct_words]) @ per_word,
        "biLM": np.array([1, lanes, entries]) @ per_entry,
        # A byte for each entry says whether it has a target.
        "word softmax": _measure_softmax(plan, targets, cluster_targets) + np.array([2 * entries, 0]),
    }
    kept, forward = ({part: int(pair[index]) for part, pair in measured.items()} for index in (0, 1))
    return kept, {part: 3 * count for part, count in forward.items()}


@functools.lru_cache
def _measure_layers(sizes: str, bf16: bool, longest_word: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes kept and operations, (..., 2), from the fewest words that tell them apart: of the token encoder in all and
    per word, of the biLM in all, per lane and per entry."""
    config = ElmoConfig(**json.loads(sizes))
    encoder, bilm = ElmoTokenEncoder(config), ElmoBiLM(config)
    if encoder.word_table is not None:
        encoder.word_table.hashes.zero_()

    def encode(num_words: int) -> list[int]:
        rows = torch.full((num_words, config.max_characters_per_word), PAD_CHARACTER)
        rows[:, :longest_word] = 1
        return _measure(lambda: encoder(rows), [*encoder.parameters(), rows], bf16)

    def scan(lanes: int, steps: int) -> list[int]:
        states = [
            torch.zeros(lanes, config.num_hidden_layers, 2, n) for n in (config.projection_size, config.cell_size)
        ]
        shape, dtype = (lanes, steps, config.projection_size), torch.bfloat16 if bf16 else torch.float32
        vectors = [torch.zeros(shape, dtype=dtype, requires_grad=True) for _ in range(2)]
        return _measure(lambda: bilm(*vectors, state=ElmoState(*states)), [*bilm.parameters()], bf16)

    # Of a single one torch keeps a view where it copies several.
    words, windows = (2, 3), ((2, 2), (3, 2), (3, 3))
    per_word = np.linalg.solve([[1, count] for count in words], [encode(count) for count in words])
    per_entry = np.linalg.solve([[1, lanes, lanes * steps] for lanes, steps in windows], [scan(*w) for w in windows])
    return per_word.round(), per_entry.round()


def _measure_softmax(plan: TrainingPlan, num_targets: int, cluster_targets: Sequence[int] | None) -> list[int]:
    """Bytes kept and operations of both directions' losses, on tensors that have sizes and no memory."""
    # What `nonzero` is to find, in the order of the calls: a cluster's targets, or the negatives that are drawn.
    counts = [plan.settings.num_negative_samples]
    if cluster_targets is not None:
        counts = [(count + direction) // 2 for direction in (0, 1) for count in cluster_targets]
    with FakeTensorMode():
        model = ElmoForPreTraining(plan.config)
        objective = build_objective(plan.settings.objective, model, plan.settings.num_negative_samples).train()
        shape = (num_targets, plan.config.projection_size)
        directions = tuple(
            Direction(softmax, torch.zeros(shape, requires_grad=True), torch.zeros(num_targets, dtype=torch.long))
            for softmax in model.word_softmaxes
        )
        with _Found(counts):
            return _measure(lambda: objective.sum_losses(directions), [*model.parameters()], plan.settings.bf16)


class _Found(TorchDispatchMode):
    """Answers what tensors without memory cannot: how many places `nonzero` finds, these counts in turn."""

    def __init__(self, counts: Sequence[int]):
        super().__init__()
        self._counts = itertools.cycle(counts)

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if function is torch.ops.aten.nonzero.default:
            return args[0].new_empty(next(self._counts), 1, dtype=torch.long)
        if function is torch.ops.aten._local_scalar_dense.default:
            return 1
        return function(*args, **(kwargs or {}))


def _measure(compute: Callable[[], Any], known: Sequence[Tensor], bf16: bool) -> list[int]:
    """Bytes of the distinct storages that autograd saves of a computation, known tensors' left out, and the operations
    of its matrix products."""
    known_storages = {tensor.untyped_storage()._cdata for tensor in known}
    kept = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in known_storages:
            # Kept alive too: another storage may else be given the same address.
            kept[storage._cdata] = storage
        return tensor

    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        with use_backend("plain"), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            compute()
        # The readable scan's products are torch's own operators; those of the fast ones are the same, packed.
        with use_backend("readable"), FlopCounterMode(display=False) as counter:
            compute()
    return [sum(storage.nbytes() for storage in kept.values()), counter.get_total_flops()]


def _fields(config: ElmoConfig) -> dict[str, Any]:
    return {name: value for name, value in config.to_dict().items() if name in ElmoConfig.__dataclass_fields__}


def _parameters(config: ElmoConfig) -> list[tuple[str, torch.nn.Parameter]]:
    with torch.device("meta"):
        return list(ElmoForPreTraining(config).named_parameters())
