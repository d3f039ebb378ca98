"""What a run of pre-training takes, computed from its sizes: memory, communication, operations, steps and text.

Letters: B lanes, T words of a window, N distinct words of a window, C characters a word, P projection, H cell, V words
of the softmax, S negatives. An entry is a word or a marker of a lane; a target is a word or a closing marker.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining
from ..text.word_counts import MAX_WORDS_IN_MEMORY, WordCounter
from .objectives import OBJECTIVES, propose_cutoffs
from .recipes import OPTIMIZERS
from .sampling import log_uniform_probabilities

PRECISIONS = ("no", "bf16")
# Weights, gradients, optimizer states and what a scan keeps are float32 in mixed precision too.
_FLOAT, _LONG = 4, 8
_STATES_PER_WEIGHT = {"adamw": 2, "adagrad": 1}
_PARTS = (
    ("elmo.token_encoder.character_embedding", "character embedding"),
    ("elmo.token_encoder.convolutions", "convolutions"),
    ("elmo.token_encoder.highways", "highway layers"),
    ("elmo.token_encoder.word_table", "word table"),
    ("elmo.token_encoder.projection", "projection"),
    ("elmo.bilm", "biLM"),
    ("elmo.mixes", "scalar mixes"),
    ("word_softmax", "word softmax"),
)
# CPython on 64 bits: a string of ASCII without its letters, a pointer, an integer, an entry of a dict and its share of
# the index, a dict being between a third and two thirds full.
_STRING, _POINTER, _INTEGER, _DICT_ENTRY = 56, 8, 32, 64
# Tables of words that were met, in the tokenizer and in the lanes, forget them all when they hold more.
WORDS_MET = 100_000
# As `WordCounter` has it.
_COUNTED_WORD = 200
_COUNT_DIGITS = 4


@dataclass(frozen=True)
class TrainingPlan:
    """The sizes of a run.

    Args:
        config: The model, with its word_vocab_size and type of softmax; see `plan_config`.
        objective: "full", "sampled" or "adaptive".
        optim: "adamw" or "adagrad".
        precision: "no" for float32, or "bf16", as accelerate's mixed_precision.
        num_lanes: Lanes of each process.
        unroll_steps: Words of a window.
        num_processes: Processes, of a GPU each.
        gradient_accumulation_steps: Windows to an optimizer step.
        num_negative_samples: Of the sampled softmax, for each direction.
        sparse_gradients: Of the sampled softmax's weights.

    Raises: ValueError naming the argument, the value got and the value wanted.
    """

    config: ElmoConfig
    objective: str = "full"
    optim: str = "adamw"
    precision: str = "no"
    num_lanes: int = 128
    unroll_steps: int = 20
    num_processes: int = 1
    gradient_accumulation_steps: int = 1
    num_negative_samples: int = 8192
    sparse_gradients: bool = False

    def __post_init__(self):
        for name, valid in (("objective", OBJECTIVES), ("optim", OPTIMIZERS), ("precision", PRECISIONS)):
            if getattr(self, name) not in valid:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(valid)}.")
        for name in (
            "num_lanes",
            "unroll_steps",
            "num_processes",
            "gradient_accumulation_steps",
            "num_negative_samples",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be an integer >= 1.")
        if self.config.word_vocab_size is None:
            raise ValueError("config has no word_vocab_size; set it to the words of the softmax (see plan_config).")
        wanted = "adaptive" if self.objective == "adaptive" else "full"
        if self.config.softmax_type != wanted:
            raise ValueError(
                f"the config's softmax_type is {self.config.softmax_type!r}, but the objective {self.objective!r} "
                f"wants {wanted!r}; make the config with plan_config."
            )
        if self.objective == "sampled" and self.num_negative_samples >= self.config.word_vocab_size:
            raise ValueError(
                f"num_negative_samples is {self.num_negative_samples}; it must be < the {self.config.word_vocab_size} "
                "words of the softmax. Lower it, or use the full softmax."
            )
        if self.sparse_gradients and (self.objective, self.optim, self.num_processes) != ("sampled", "adagrad", 1):
            raise ValueError(
                f"sparse_gradients is True with objective={self.objective!r}, optim={self.optim!r} and num_processes="
                f"{self.num_processes}; sparse gradients are for the sampled softmax with adagrad in one process."
            )

    @property
    def entries_per_window(self) -> int:
        """Entries of each direction that one process reads in a window."""
        return self.num_lanes * self.unroll_steps

    @property
    def entries_per_step(self) -> int:
        """Entries of each direction that all processes read for one optimizer step."""
        return self.entries_per_window * self.gradient_accumulation_steps * self.num_processes


def plan_config(config: ElmoConfig, vocab_size: int, objective: str) -> ElmoConfig:
    """The config with the softmax that an objective trains, over so many words."""
    fields = {name: value for name, value in config.to_dict().items() if name in ElmoConfig.__dataclass_fields__}
    fields |= {"word_vocab_size": vocab_size, "softmax_type": "full", "adaptive_softmax_cutoffs": None}
    if objective == "adaptive":
        cutoffs = config.adaptive_softmax_cutoffs or propose_cutoffs(vocab_size)
        fields |= {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": cutoffs}
    return ElmoConfig(**fields)


def count_parameters(config: ElmoConfig) -> dict[str, int]:
    """Parameters of the model that is pre-trained, by part, in the order of the computation."""
    counts = {part: 0 for _, part in _PARTS}
    for name, parameter in _build_without_memory(config).named_parameters():
        counts[next(part for prefix, part in _PARTS if name.startswith(prefix))] += parameter.numel()
    return {part: count for part, count in counts.items() if count}


def weight_bytes(plan: TrainingPlan) -> int:
    """All parameters, float32."""
    return _FLOAT * sum(count_parameters(plan.config).values())


def gradient_bytes(plan: TrainingPlan) -> int:
    """The gradients of one process; sparse ones as they are before equal rows are put together."""
    numbers = sum(parameter.numel() for parameter in _trained(plan.config))
    if not plan.sparse_gradients:
        return _FLOAT * numbers
    config = plan.config
    softmaxes = 1 if config.share_word_softmax else 2
    dense = numbers - softmaxes * config.word_vocab_size * config.projection_size
    return _FLOAT * dense + _rows_looked_up(plan) * (_FLOAT * config.projection_size + _LONG)


def bucket_bytes(plan: TrainingPlan) -> int:
    """What DistributedDataParallel holds to reduce gradients in; nothing with one process."""
    return gradient_bytes(plan) if plan.num_processes > 1 else 0


def optimizer_bytes(plan: TrainingPlan) -> int:
    """The states of the optimizer, with a count of steps for each tensor."""
    states = _STATES_PER_WEIGHT[plan.optim]
    return sum(_FLOAT * (states * parameter.numel() + 1) for parameter in _trained(plan.config))


def kept_bytes(
    plan: TrainingPlan,
    num_distinct_words: int,
    longest_word: int | None = None,
    num_targets: int | None = None,
    cluster_targets: Sequence[int] | None = None,
) -> dict[str, int]:
    """What one window keeps for its backward pass, by part, beside weights and the window itself.

    Dropout is counted as on a CPU, which keeps its factors; a GPU keeps a byte for each.

    Args:
        plan: The sizes.
        num_distinct_words: Distinct words N of the window, each of which is encoded once.
        longest_word: Characters of the longest word, its marks included; None for full rows. Where words are grouped by
            length, as on a CPU, the shorter ones keep less.
        num_targets: Targets of one direction; None for as many as entries.
        cluster_targets: Of an adaptive softmax, the targets of both directions in each cluster; None for
            `expected_cluster_targets`.
    """
    config, entries = plan.config, plan.entries_per_window
    size = _factor_bytes(plan)
    targets = entries if num_targets is None else num_targets
    longest = config.max_characters_per_word if longest_word is None else longest_word
    dropout = size * config.projection_size * entries if config.dropout else 0
    # Inputs, gates, both sides of the clips and the squashed cells; states before the first step.
    clips = (config.cell_clip is not None, config.projection_clip is not None)
    by_entry = (4 + 2 + clips[0]) * config.cell_size + (1 + clips[1]) * config.projection_size
    by_lane = config.projection_size + config.cell_size
    scan = size * config.projection_size * entries + _FLOAT * (by_entry * entries + by_lane * plan.num_lanes)
    scans = 2 * config.num_hidden_layers
    return {
        "token encoder": _kept_by_token_encoder(plan, num_distinct_words, longest),
        "biLM": scans * scan,
        "dropout": (scans + 2) * dropout,
        "word softmax": 2 * entries + _kept_by_softmax(plan, targets, cluster_targets),
    }


def softmax_working_bytes(plan: TrainingPlan) -> int:
    """What the backward pass of the full softmax takes beside what is kept: two arrays of one direction's logits.

    The other softmaxes' arrays are small beside it; they are counted alike.
    """
    config, entries = plan.config, plan.entries_per_window
    widest = {
        "full": config.word_vocab_size,
        "sampled": plan.num_negative_samples,
        "adaptive": _head_size(config) if plan.objective == "adaptive" else 0,
    }[plan.objective]
    return 2 * _FLOAT * entries * widest


def step_bytes(plan: TrainingPlan, num_distinct_words: int, longest_word: int | None = None) -> dict[str, int]:
    """The memory of a training step in one process, by part; the libraries' own is not in it."""
    return {
        "weights": weight_bytes(plan),
        "gradients": gradient_bytes(plan),
        "buckets of gradients": bucket_bytes(plan),
        "optimizer states": optimizer_bytes(plan),
        **{f"kept: {part}": size for part, size in kept_bytes(plan, num_distinct_words, longest_word).items()},
        "softmax at work": softmax_working_bytes(plan),
    }


def all_reduce_bytes(plan: TrainingPlan) -> float:
    """What each process sends, and receives as much, in one optimizer step: a ring reduces all gradients."""
    return 2 * (plan.num_processes - 1) / plan.num_processes * gradient_bytes(plan)


def operations_per_window(
    plan: TrainingPlan,
    num_distinct_words: int,
    longest_word: int | None = None,
    num_targets: int | None = None,
    cluster_targets: Sequence[int] | None = None,
) -> dict[str, int]:
    """Multiplications and additions of the matrix products of a window, forward and backward, by part.

    The backward pass takes twice what the forward pass takes: a product for the gradient of each factor.

    Args:
        plan: The sizes.
        num_distinct_words, longest_word, num_targets, cluster_targets: As of `kept_bytes`.
    """
    config, entries = plan.config, plan.entries_per_window
    size = config.projection_size
    targets = entries if num_targets is None else num_targets
    longest = config.max_characters_per_word if longest_word is None else longest_word
    encoder = sum(
        _windows(config, width, longest) * width * config.character_embedding_size * count
        for width, count in _filters(config)
    )
    features = _num_filters(config)
    encoder += _num_highways(config) * 2 * features**2 + (features + (config.word_vector_size or 0)) * size
    bilm = 2 * config.num_hidden_layers * (4 + 4 + 1) * size * config.cell_size
    if plan.objective == "full":
        softmax = 2 * targets * size * config.word_vocab_size
    elif plan.objective == "sampled":
        softmax = 2 * targets * size * plan.num_negative_samples
    else:
        softmax = 2 * targets * size * _head_size(config) + sum(
            count * (size * inner + inner * width) for count, inner, width in _clusters(plan, targets, cluster_targets)
        )
    products = {"token encoder": num_distinct_words * encoder, "biLM": entries * bilm, "word softmax": softmax}
    return {part: 2 * 3 * count for part, count in products.items()}


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
    return [
        round(2 * num_targets * (math.log1p(end) - math.log1p(start)) / total)
        for start, end in itertools.pairwise(ends)
    ]


def count_entries(num_words: int, words_per_sentence: float) -> int:
    """Entries of one direction's stream: the words and the two markers of each sentence."""
    return round(num_words * (1 + 2 / words_per_sentence))


def count_steps(plan: TrainingPlan, num_words: int, words_per_sentence: float) -> int:
    """Optimizer steps in which all processes together read so many words."""
    return math.ceil(count_entries(num_words, words_per_sentence) / plan.entries_per_step)


def seconds_of_training(plan: TrainingPlan, num_words: int, words_per_second: float) -> float:
    """How long the words take where each process trains on so many words a second, waiting for others included."""
    return num_words / (plan.num_processes * words_per_second)


def seconds_of_communication(plan: TrainingPlan, link_gigabytes_per_second: float) -> float:
    """How long the reduction of one step takes at this rate of sending (10^9 bytes a second), nothing overlapping."""
    return all_reduce_bytes(plan) / (link_gigabytes_per_second * 1e9)


def share_read(num_files: int, num_processes: int) -> float:
    """Share of the text that each process reads and decodes to get its part of the records.

    `Corpus.shard` gives out whole files where their number is a multiple of the processes'; else every process reads
    all of them and keeps each n-th record.
    """
    return 1 / num_processes if num_files % num_processes == 0 else 1.0


def state_bytes(plan: TrainingPlan) -> int:
    """The LSTM states of one process's lanes, float32."""
    config = plan.config
    return _FLOAT * plan.num_lanes * config.num_hidden_layers * 2 * (config.projection_size + config.cell_size)


def checkpoint_bytes(plan: TrainingPlan) -> int:
    """The tensors of a checkpoint: weights, optimizer states and each process's LSTM states."""
    return weight_bytes(plan) + optimizer_bytes(plan) + plan.num_processes * state_bytes(plan)


def host_bytes(
    plan: TrainingPlan, letters_per_word: float, words_per_sentence: float, num_distinct_words: int | None = None
) -> dict[str, int]:
    """Most memory of the loader in one process, by part; it does not depend on the length of the text.

    Args:
        plan: The sizes.
        letters_per_word: Of running words and of the vocabulary alike.
        words_per_sentence: Words that a lane holds beyond a window.
        num_distinct_words: Distinct words of the whole text that are counted; None for more than are held in memory.
    """
    word = _STRING + letters_per_word
    in_table = word + _INTEGER + _DICT_ENTRY
    # Arrays of rows grow by doubling: 16 bits a character in the lanes and 64 in the tokenizer.
    row = (2 + 8) * 2 * plan.config.max_characters_per_word
    waiting = plan.num_lanes * (plan.unroll_steps + words_per_sentence)
    counted = MAX_WORDS_IN_MEMORY if num_distinct_words is None else min(num_distinct_words, MAX_WORDS_IN_MEMORY)
    return {
        "vocabulary": round(plan.config.word_vocab_size * (in_table + _POINTER)),
        "words met": round(WORDS_MET * (2 * in_table + row)),
        "sentences in the lanes": round(waiting * (word + _POINTER + 2 * _LONG)),
        "word counts": counted * _COUNTED_WORD,
    }


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


def _build_without_memory(config: ElmoConfig) -> ElmoForPreTraining:
    with torch.device("meta"):
        return ElmoForPreTraining(config)


def _trained(config: ElmoConfig) -> list[torch.nn.Parameter]:
    return [parameter for parameter in _build_without_memory(config).parameters() if parameter.requires_grad]


def _factor_bytes(plan: TrainingPlan) -> int:
    """Bytes of a factor of a matrix product."""
    return 2 if plan.precision == "bf16" else _FLOAT


def _rows_looked_up(plan: TrainingPlan, num_targets: int | None = None) -> int:
    """Rows of the softmax's weights that the sampled softmax takes for a window, both directions."""
    targets = plan.entries_per_window if num_targets is None else num_targets
    return 2 * (targets + plan.num_negative_samples)


def _filters(config: ElmoConfig) -> list[list[int]]:
    return [] if config.token_inputs == "words" else config.filters


def _num_filters(config: ElmoConfig) -> int:
    return sum(count for _, count in _filters(config))


def _num_highways(config: ElmoConfig) -> int:
    return 0 if config.token_inputs == "words" else config.num_highway_layers


def _windows(config: ElmoConfig, width: int, longest_word: int) -> int:
    """Windows of a filter over a word: those that hold a character, and one of padding alone."""
    return min(config.max_characters_per_word, longest_word + width) - width + 1


def _kept_by_token_encoder(plan: TrainingPlan, num_words: int, longest_word: int) -> int:
    config, size = plan.config, _factor_bytes(plan)
    features, kept = _num_filters(config), 0
    if config.token_inputs != "words":
        by_word = features * (1 + 4 * _num_highways(config))
        for width, count in _filters(config):
            windows = _windows(config, width, longest_word)
            by_word += windows * (width * config.character_embedding_size + count) + count
        kept += num_words * (size * by_word + _LONG * (config.max_characters_per_word + 1))
    if config.token_inputs != "characters":
        kept += num_words * (size * (config.word_vector_size + features) + _LONG)
    if plan.precision == "bf16":
        weights = sum(width * config.character_embedding_size * count for width, count in _filters(config))
        weights += _num_highways(config) * 2 * features**2
        kept += size * (weights + (features + (config.word_vector_size or 0)) * config.projection_size)
    return kept


def _kept_by_softmax(plan: TrainingPlan, targets: int, cluster_targets: Sequence[int] | None) -> int:
    config, size = plan.config, _factor_bytes(plan)
    projection, is_mixed = config.projection_size, plan.precision == "bf16"
    softmaxes = 1 if config.share_word_softmax else 2
    hidden = 2 * targets * size * projection
    if plan.objective == "full":
        # The logarithms of the probabilities, the targets and their number.
        kept = 2 * (targets * (_FLOAT * config.word_vocab_size + _LONG) + _FLOAT)
        return hidden + kept + is_mixed * softmaxes * size * config.word_vocab_size * projection
    if plan.objective == "sampled":
        negatives = plan.num_negative_samples
        rows = _rows_looked_up(plan, targets) * (_FLOAT * projection + _LONG)
        # The logits before and after those of accidental hits are taken out, their sums, and the targets' own.
        kept = 2 * targets * (_FLOAT * (2 * negatives + 2) + _LONG + 1)
        return hidden + rows + kept + is_mixed * 2 * (targets * _FLOAT + negatives * size) * projection
    clusters = _clusters(plan, targets, cluster_targets)
    kept = 2 * targets * (_FLOAT * _head_size(config) + _LONG)
    kept += sum(
        count * (size * (projection + inner) + _FLOAT * (width + 1) + 2 * _LONG) for count, inner, width in clusters
    )
    weights = projection * _head_size(config) + sum(inner * (projection + width) for _, inner, width in clusters)
    return hidden + kept + is_mixed * softmaxes * size * weights


def _head_size(config: ElmoConfig) -> int:
    cutoffs = config.adaptive_softmax_cutoffs
    return cutoffs[0] + len(cutoffs)


def _clusters(plan: TrainingPlan, targets: int, cluster_targets: Sequence[int] | None) -> list[tuple[int, int, int]]:
    """Targets of both directions, size of the rows and number of words of each cluster."""
    config = plan.config
    counts = expected_cluster_targets(plan, targets) if cluster_targets is None else cluster_targets
    ends = [*config.adaptive_softmax_cutoffs, config.word_vocab_size]
    return [
        (count, int(config.projection_size // config.adaptive_softmax_div_value ** (index + 1)), end - start)
        for index, (count, (start, end)) in enumerate(zip(counts, itertools.pairwise(ends), strict=True))
    ]
