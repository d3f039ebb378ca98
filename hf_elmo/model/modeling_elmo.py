"""ELMo (Peters et al. 2018): token encoder, biLM and scalar mixes, and models for pre-training and for tasks.

Letters in shapes: B sentences, T words, C characters per word, P projection, H cell, L biLM layers, M scalar mixes.
"""

from __future__ import annotations

import copy
import importlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.generation import utils as generation_utils
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import ModelOutput, cached_file
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import (
    MAX_CHARACTERS_PER_WORD,
    WORD_LIST_FILE,
    ByteCharacters,
    ElmoConfig,
    EmbeddingsHead,
    HeadConfig,
    read_words,
    write_words,
)


def is_traced() -> bool:
    """True while values cannot be read: under torch.compile, export, jit.trace, and torch.func (torch 2.6)."""
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return recorded or torch._C._are_functorch_transforms_active()


try:
    from torch._higher_order_ops import scan as _scan
except ImportError:  # older versions of torch export a fixed number of words
    _scan = None  # type: ignore[assignment]

# Whether an exported model takes any number of words (torch 2.7 on): its steps are one operator then. The flag itself
# is asked: torch.compile of some versions takes `is_exporting()` for true, and the operator trains wrongly there.
CAN_RECORD_STEPS = _scan is not None and hasattr(torch.compiler, "_is_exporting_flag")

Step = Callable[[Any, Any], tuple[Any, Tensor]]


def scan_words(
    step: Step,
    state: Sequence[Tensor],
    inputs: Sequence[Tensor],
    mask: Tensor | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor, Any]:
    """Run a recurrence word by word. torch.export records its steps as one operator, for any number of words.

    Args:
        step: From the state before a word and the word's inputs, (B, ...) each, to the state after it and an output.
        inputs: Tensors of all words, (B, T, ...) each.
        mask: True for real words, (B, T); others change no state and give zeros. With it all has two axes in a step.
    Returns: The outputs, (B, T, ...), and the state after the last step.
    """
    if mask is not None:
        unmasked, inputs = step, (*inputs, mask.unsqueeze(-1))

        def masked(before: Any, read: Any) -> tuple[Any, Tensor]:
            *read, is_real = read
            after, output = unmasked(before, tuple(read))
            after = tuple(torch.where(is_real, new, old) for new, old in zip(after, before, strict=True))
            return after, torch.where(is_real, output, 0.0)

        step = masked
    if CAN_RECORD_STEPS and torch.compiler._is_exporting_flag:
        # The operator wants outputs and states that share no memory.
        def recorded(carried: Any, read: Any) -> tuple[Any, Tensor]:
            carried, output = step(carried, read)
            return carried, output.clone()

        first = tuple(part.clone() for part in state)
        carried, found = _scan(recorded, first, tuple(part.transpose(0, 1) for part in inputs), reverse=reverse)
        return found.transpose(0, 1), carried
    indices = range(inputs[0].shape[1])
    outputs: list[Tensor] = [state[0]] * len(indices)
    for index in reversed(indices) if reverse else indices:
        state, outputs[index] = step(state, tuple(part[:, index] for part in inputs))
    return torch.stack(outputs, dim=1), state


# The package's kernels give the same numbers faster. A checkpoint's own code never imports the package itself: that
# would put the package's classes in place of these in the middle of a program. With kernels of another API the
# reference runs.
kernels: Any = importlib.import_module("hf_elmo.kernels") if "hf_elmo" in sys.modules else None
kernels = kernels if getattr(kernels, "API", None) == 2 else None


class PackedOrder(NamedTuple):
    """Where the words of a batch lie when all first words come first, then all second ones, and so on.

    Sentences are sorted by falling length, so that those of a step are the first ones of the step before.
    """

    sizes: list[int]  # sentences that have a word in each step, falling
    indices: Tensor  # (N,), the index of each word among all B times T
    mirrored: Tensor  # (N,), where the word lies that is as far from its sentence's end; its own inverse
    sentences: Tensor  # (B,), the sentence of each row of a step
    before: Tensor  # (N - sizes[0],), for the words of all steps but the first, where the word before lies

    def pack(self, vectors: Tensor) -> Tensor:
        """The vectors of the words, (B, T, D) to (N, D)."""
        return vectors.flatten(0, 1).index_select(0, self.indices)

    def unpack(self, words: Tensor, mask: Tensor) -> Tensor:
        """Vectors of the words where they stood, (N, D) to (B, T, D); zero where masked."""
        vectors = words.new_zeros(mask.numel(), words.shape[1]).index_copy(0, self.indices, words)
        return torch.where(mask.unsqueeze(-1), vectors.unflatten(0, mask.shape), 0.0)


def order_words(mask: Tensor, min_words: int = 0) -> PackedOrder:
    """The order of the real words of a mask (B, T), and of masked ones where a sentence has less than `min_words`."""
    device, width = mask.device, mask.shape[1]
    mask = mask.cpu()  # so small that a GPU would only be waited for
    words_first = torch.argsort(mask.logical_not().to(torch.uint8), dim=1, stable=True)
    lengths, sentences = mask.sum(dim=1).clamp(min=min_words).sort(descending=True, stable=True)
    numbers = torch.arange(width)
    per_step = (lengths.unsqueeze(1) > numbers).sum(dim=0)
    sizes = per_step[: int(lengths[0])].tolist()
    steps = numbers.repeat_interleave(per_step)
    starts = per_step.cumsum(dim=0) - per_step
    ranks = torch.arange(len(steps)) - starts[steps]
    rows, later = sentences[ranks], slice(sizes[0] if sizes else 0, None)
    order = (
        rows * width + words_first[rows, steps],
        starts[lengths[ranks] - 1 - steps] + ranks,
        sentences,
        starts[steps[later] - 1] + ranks[later],
    )
    return PackedOrder(sizes, *(part.to(device) for part in order))


class ProjectedLSTMWeights(NamedTuple):
    """The weights of one direction of one layer; the rows of the first three are the gates i, f, g, o."""

    input: Tensor  # (4H, P)
    recurrent: Tensor  # (4H, P)
    bias: Tensor  # (4H,), the forget gate's constant included
    projection: Tensor | None  # (P, H); None where the cell's output is the hidden state, H = P


def scan_projected_lstm(
    inputs: Tensor,
    mask: Tensor | None,
    weights: ProjectedLSTMWeights,
    state: tuple[Tensor, Tensor] | None = None,
    *,
    cell_clip: float | None = None,
    projection_clip: float | None = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Run one direction of a projected LSTM over a padded batch (Sak et al. 2014; Peters et al. 2018, sec. 3.1).

    A step is c = sigmoid(f) c + sigmoid(i) tanh(g), clipped to +-cell_clip before the output tanh, and
    h = W (sigmoid(o) tanh(c)), clipped to +-projection_clip; without W, h = sigmoid(o) tanh(c), which is not clipped.
    Masked words neither change the state nor give output, so the side and the amount of padding do not matter.

    Args:
        inputs: Word vectors, (B, T, P).
        mask: True for real words, (B, T); None if all are.
        state: Carried (hidden (B, P), cell (B, H)); None starts from zeros.
        cell_clip, projection_clip: Bounds on |cell| and |hidden| after each step; None for none.
        reverse: Read from the last word to the first.
    Returns: Outputs (B, T, P), zero where masked, and the state after each row's last word read.
    """
    batch_size, _, projection_size = inputs.shape
    cell_size = len(weights.bias) // 4
    # The inputs of all steps go through one matrix product; only the recurrent one has to wait for its step.
    input_gates = F.linear(inputs, weights.input, weights.bias)
    if state is None:
        state = inputs.new_zeros(batch_size, projection_size), inputs.new_zeros(batch_size, cell_size)

    def step(before: tuple[Tensor, Tensor], read: tuple[Tensor, ...]) -> tuple[tuple[Tensor, Tensor], Tensor]:
        (hidden, cell), (of_word,) = before, read
        gates = of_word + F.linear(hidden, weights.recurrent)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
        new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        if cell_clip is not None:
            new_cell = new_cell.clamp(-cell_clip, cell_clip)
        new_hidden = torch.sigmoid(output_gate) * torch.tanh(new_cell)
        if weights.projection is not None:
            new_hidden = F.linear(new_hidden, weights.projection)
            # As bilm-tf and AllenNLP do it: what is not projected is not clipped either.
            if projection_clip is not None:
                new_hidden = new_hidden.clamp(-projection_clip, projection_clip)
        return (new_hidden, new_cell), new_hidden

    return scan_words(step, state, (input_gates,), mask, reverse=reverse)


def run_projected_lstm(
    inputs: Tensor,
    mask: Tensor | None,
    weights: ProjectedLSTMWeights,
    state: tuple[Tensor, Tensor] | None = None,
    *,
    cell_clip: float | None = None,
    projection_clip: float | None = None,
    reverse: bool = False,
    order: PackedOrder | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """As `scan_projected_lstm`, by the fastest implementation, with the order of the mask's words if it is known."""
    settings: dict[str, Any] = {"cell_clip": cell_clip, "projection_clip": projection_clip, "reverse": reverse}
    if kernels is not None:
        order = order_for_kernels(inputs, mask) if order is None else order
        results = kernels.run_projected_lstm(inputs, order, weights, state, **settings)
        if results is not None:
            return results
    return scan_projected_lstm(inputs, mask, weights, state, **settings)


def order_for_kernels(inputs: Tensor, mask: Tensor | None) -> PackedOrder | None:
    """The order of the words of `inputs`, (B, T, P), for all scans of a batch; None if the reference runs."""
    if kernels is None or is_traced() or inputs.device.type == "meta":
        return None
    return order_words(torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device) if mask is None else mask)


# The hashes of an empty table: sorted, as those of a filled one.
NOT_FILLED = 2**63 - 1

# Words hashed at a time, which bounds memory: a table has many more words than a batch.
_WORDS_AT_A_TIME = 2**16


class ElmoWordTable(nn.Embedding):
    """Vectors of V known words, found by 64-bit hashes of their character ids, and one that all other words share.

    Row 0 of `weight`, (V + 1, D), is for unknown words; row i + 1 is for the word whose hash is `hashes[i]`. The hashes
    are sorted and are saved with the weights. An unknown word has the hash of a known one once in 10^10 words, at V =
    10^6.
    """

    hashes: Tensor

    def __init__(self, num_words: int, vector_size: int):
        super().__init__(num_words + 1, vector_size)
        self.register_buffer("hashes", torch.full((num_words,), NOT_FILLED, dtype=torch.long))

    @torch.no_grad()
    def fill(self, char_ids: Tensor, vectors: Tensor | None = None, unknown: Tensor | None = None) -> None:
        """Set which words the table knows, by character ids (V, C), their vectors, (V, D), and that of others, (D,).

        Raises: ValueError if there are not word_table_size words, or if two have one hash.
        """
        if len(char_ids) != len(self.hashes):
            raise ValueError(
                f"char_ids has {len(char_ids)} words, but this table has {len(self.hashes)}; set word_table_size to "
                "what is filled in."
            )
        hashes, order = hash_words(char_ids).sort()
        if len(equal := (hashes[1:] == hashes[:-1]).nonzero()):
            pair = sorted(order[int(equal[0]) :][:2].tolist())
            raise ValueError(f"words {pair[0]} and {pair[1]} of char_ids have the same hash; leave one of them out.")
        self.hashes.copy_(hashes)
        if vectors is not None:
            self.weight[1:] = vectors[order].to(self.weight)
        if unknown is not None:
            self.weight[0] = unknown.to(self.weight)

    def forward(self, char_ids: Tensor) -> Tensor:
        """Look up words by their character ids, (N, C) to (N, D); ValueError if the table is empty (on a CPU)."""
        if self.hashes.device.type == "cpu" and not is_traced() and int(self.hashes[0]) == NOT_FILLED:
            raise ValueError(
                "the word table is empty, so that every word would be unknown; fill it first (ElmoWordTable.fill), or "
                "load a checkpoint that holds one."
            )
        return super().forward(self.indices(char_ids))

    def indices(self, char_ids: Tensor) -> Tensor:
        """The row of `weight` of each word, (N,); 0 for unknown words."""
        hashes = hash_words(char_ids)
        nearest = torch.searchsorted(self.hashes, hashes).clamp(max=len(self.hashes) - 1)
        return torch.where(self.hashes[nearest] == hashes, nearest + 1, 0)


def hash_words(char_ids: Tensor) -> Tensor:
    """A signed 64-bit number for each word, (N, C) to (N,): its character ids times odd numbers, summed modulo 2^64.

    Two words that differ in one character never have one hash. Checkpoints hold these numbers: they may not change.
    """
    multipliers = torch.tensor(_MULTIPLIERS[: char_ids.shape[1]], device=char_ids.device)
    # A traced batch has no known number of parts.
    parts = [char_ids] if is_traced() else char_ids.split(_WORDS_AT_A_TIME)
    return torch.cat([(part.long() * multipliers).sum(dim=1) for part in parts])


def _compute_multipliers(count: int) -> tuple[int, ...]:
    """Odd 64-bit numbers, as signed ones, by splitmix64 (Steele et al. 2014) from the state 0."""
    numbers = []
    for index in range(1, count + 1):
        mixed = index * 0x9E3779B97F4A7C15 % 2**64
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        odd = mixed ^ mixed >> 31 | 1
        numbers.append(odd - 2**64 if odd >= 2**63 else odd)
    return tuple(numbers)


_MULTIPLIERS = _compute_multipliers(MAX_CHARACTERS_PER_WORD)


class ElmoCarryGate(nn.Linear):
    """The linear map of a highway's gate; a class of its own because its bias starts by carrying."""


class ElmoHighway(nn.Module):
    """y = g relu(W_t x + b_t) + (1 - g) x with g = sigmoid(W_c x + b_c) (Srivastava et al. 2015)."""

    def __init__(self, size: int):
        super().__init__()
        self.carry = ElmoCarryGate(size, size)
        self.transform = nn.Linear(size, size)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (N, F) to (N, F)."""
        gate = torch.sigmoid(self.carry(vectors))
        return gate * torch.relu(self.transform(vectors)) + (1 - gate) * vectors


class ElmoCharacterFilters(nn.Conv1d):
    """Filters of one width, each followed by its maximum over a word's windows (Kim et al. 2016).

    The convolution is a matrix product over windows: with 16 channels that is several times faster on a CPU.
    """

    def forward(self, characters: Tensor) -> Tensor:
        """Embedded characters (N, C, D), C at least the width, to the filters' maxima, (N, F)."""
        windows = characters.unfold(1, self.kernel_size[0], 1)
        products = F.linear(windows.reshape(-1, self.weight[0].numel()), self.weight.flatten(1), self.bias)
        return products.view(*windows.shape[:2], self.out_channels).max(dim=1).values


# A group of fewer words takes in longer ones: products as small as these do not get faster by shorter rows.
_MIN_WORDS_IN_GROUP = 16


def filter_characters(
    owner: nn.Module, char_ids: Tensor, embedding: nn.Embedding, filters: nn.ModuleList, padding: int
) -> Tensor:
    """The maximum of each filter of a module over each word's windows, (N, C) to (N, F)."""
    if kernels is not None and not is_traced() and len(char_ids):
        maxima = kernels.filter_characters(owner, char_ids, embedding, filters, padding)
        if maxima is not None:
            return maxima
    return _filter_in_groups(char_ids, embedding, filters, padding)


def _filter_in_groups(char_ids: Tensor, embedding: nn.Embedding, filters: nn.ModuleList, padding: int) -> Tensor:
    """As `filter_characters`, by products for groups of words of about one length."""
    if is_traced() or not len(char_ids):
        # The words' lengths are not known.
        characters = embedding(char_ids)
        return torch.cat([each(characters) for each in filters], dim=-1)
    places = torch.arange(1, char_ids.shape[1] + 1, device=char_ids.device)
    lengths, order = ((char_ids != padding) * places).amax(dim=1).sort()
    # On other devices than a CPU many small products cost more than one with longer rows.
    smallest = _MIN_WORDS_IN_GROUP if char_ids.device.type == "cpu" else len(lengths)
    maxima, start, each_length = [], 0, lengths.tolist()
    for end, longest in enumerate(each_length, start=1):
        if end == len(order) or (end - start >= smallest and each_length[end] > longest):
            characters = embedding(char_ids[order[start:end]])
            # Padding takes part in the maximum, but all windows of nothing else are alike: the first is enough.
            parts = [each(characters[:, : longest + cast(Any, each).kernel_size[0]]) for each in filters]
            maxima.append(torch.cat(parts, dim=-1))
            start = end
    return torch.cat(maxima)[order.argsort()]


class ElmoTokenEncoder(nn.Module):
    """Characters to one context-free vector per word (Peters et al. 2018, sec. 3.4; Kim et al. 2016).

    A table's word vectors may stand in place of the characters' features, or before them (Che et al. 2018). The highway
    layers are the characters' alone. Without `project_tokens` the features are the word's vector.
    """

    def __init__(self, config: ElmoConfig):
        super().__init__()
        reads_characters = config.token_inputs != "words"
        filters = config.filters if reads_characters else []
        num_filters = sum(count for _, count in filters)
        self.character_embedding: nn.Embedding | None = None
        if reads_characters:
            self.character_embedding = nn.Embedding(
                config.vocab_size, config.character_embedding_size, padding_idx=config.pad_token_id
            )
        self.padding = cast("int", config.padding_character_id)
        self.convolutions = nn.ModuleList(
            ElmoCharacterFilters(config.character_embedding_size, count, width) for width, count in filters
        )
        self.activation = torch.tanh if config.filter_activation == "tanh" else torch.relu
        self.highways = nn.ModuleList(
            ElmoHighway(num_filters) for _ in range(config.num_highway_layers if reads_characters else 0)
        )
        self.word_table: ElmoWordTable | None = None
        if config.word_table_size is not None and config.word_vector_size is not None:
            self.word_table = ElmoWordTable(config.word_table_size, config.word_vector_size)
        self.projection: nn.Linear | None = None
        if config.project_tokens:
            self.projection = nn.Linear(num_filters + (config.word_vector_size or 0), config.projection_size)
        self.vector_size = config.projection_size
        # Modules of these classes nobody has wrapped or replaced: the kernels may use their weights.
        self.module_classes = {type(module) for module in self.modules()}

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights that word vectors come out of."""
        return (next(self.parameters()) if self.projection is None else self.projection.weight).dtype

    def forward(self, char_ids: Tensor) -> Tensor:
        """Encode N words as word vectors, (N, C) to (N, P)."""
        if char_ids.shape[0] == 0:
            return torch.zeros(0, self.vector_size, dtype=self.dtype, device=char_ids.device)
        vectors = None if kernels is None or is_traced() else kernels.encode_words(self, char_ids)
        return self.encode(char_ids) if vectors is None else vectors

    def encode_distinct(self, char_ids: Tensor) -> Tensor:
        """As `forward`, computing repeated words once."""
        distinct, indices = distinct_rows(char_ids)
        # Not by indexing, whose gradients are summed in any order: no two runs would end with the same weights.
        return F.embedding(indices, self(distinct))

    def encode(self, char_ids: Tensor) -> Tensor:
        """As `forward` for N of at least 1, module by module."""
        parts = []
        if self.word_table is not None:
            parts.append(self.word_table(char_ids))
        if self.character_embedding is not None:
            vectors = self.activation(self.filter_characters(char_ids))
            for highway in self.highways:
                vectors = highway(vectors)
            parts.append(vectors)
        features = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return features if self.projection is None else self.projection(features)

    def filter_characters(self, char_ids: Tensor) -> Tensor:
        """The maximum of each filter over each word's windows, (N, C) to (N, F)."""
        embedding = cast("nn.Embedding", self.character_embedding)
        return filter_characters(self, char_ids, embedding, self.convolutions, self.padding)


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of (N, C), and the index among them of each of the N."""
    if rows.device.type != "cpu" or is_traced():
        return torch.unique(rows, dim=0, return_inverse=True)
    # Torch's own compares rows as it sorts them, by a call for each two of them.
    keys = [row.tobytes() for row in rows.numpy()]
    firsts = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    distinct = rows[torch.tensor([firsts[key] for key in numbers], dtype=torch.long)]
    return distinct, torch.tensor([numbers[key] for key in keys], dtype=torch.long)


@dataclass
class ElmoState(ModelOutput):
    """The LSTM states that the next batch of as many rows starts from.

    Args:
        hidden: Projected hidden states, (B, L, 2, P), of the forward and of the backward direction.
        cell: Cell states, (B, L, 2, H).
    """

    # Both are always given; ModelOutput requires defaults.
    hidden: Tensor = None  # type: ignore[assignment]
    cell: Tensor = None  # type: ignore[assignment]
    # What generation asks of every cache.
    is_compileable = False
    is_linear = (True,)

    def detach(self) -> ElmoState:
        """The same numbers without their graph (truncated back-propagation through time)."""
        return ElmoState(hidden=self.hidden.detach(), cell=self.cell.detach())


class ElmoProjectedLSTM(nn.Module):
    """One direction of one biLM layer; parameters are named and ordered as torch.nn.LSTM(proj_size)'s."""

    def __init__(self, config: ElmoConfig, reverse: bool):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * config.cell_size, config.projection_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * config.cell_size, config.projection_size))
        self.bias = nn.Parameter(torch.empty(4 * config.cell_size))
        self.weight_hr: nn.Parameter | None
        projection = nn.Parameter(torch.empty(config.projection_size, config.cell_size))
        self.register_parameter("weight_hr", projection if config.project_hidden else None)
        self.forget_bias = config.forget_bias
        self.cell_clip = config.cell_clip
        self.projection_clip = config.projection_clip
        self.reverse = reverse
        # Share of the recurrent weights dropped in a training call (DropConnect, Merity et al. 2018, sec. 2). Not a
        # field of the config: only pre-training sets it.
        self.recurrent_dropout = 0.0

    def weights(self) -> ProjectedLSTMWeights:
        """The weights for the scan, the forget bias's constant added."""
        input_bias, forget_bias, candidate_bias, output_bias = self.bias.chunk(4)
        bias = torch.cat([input_bias, forget_bias + self.forget_bias, candidate_bias, output_bias])
        recurrent: Tensor = self.weight_hh
        if self.training and self.recurrent_dropout:
            recurrent = F.dropout(recurrent, self.recurrent_dropout)
        return ProjectedLSTMWeights(self.weight_ih, recurrent, bias, self.weight_hr)

    def forward(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        state: tuple[Tensor, Tensor] | None,
        order: PackedOrder | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Scan (B, T, P) word vectors; see `run_projected_lstm`."""
        clips = {"cell_clip": self.cell_clip, "projection_clip": self.projection_clip}
        return run_projected_lstm(inputs, mask, self.weights(), state, reverse=self.reverse, order=order, **clips)


class ElmoBiLMLayer(GradientCheckpointingLayer):
    """Both directions of one biLM layer, which never see each other: a call runs one of them."""

    def __init__(self, config: ElmoConfig, index: int):
        super().__init__()
        self.forward_lstm = ElmoProjectedLSTM(config, reverse=False)
        self.backward_lstm = ElmoProjectedLSTM(config, reverse=True)
        self.dropout = nn.Dropout(config.dropout)
        self.adds_its_input = config.use_skip_connections and index > 0

    def forward(
        self,
        direction: int,
        inputs: Tensor,
        mask: Tensor | None,
        hidden: Tensor | None,
        cell: Tensor | None,
        order: PackedOrder | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run direction 0, forward, or 1, backward, to its outputs and states; arguments as `run_projected_lstm`'s."""
        lstm = self.backward_lstm if direction else self.forward_lstm
        state = None if hidden is None or cell is None else (hidden, cell)
        outputs, (hidden, cell) = lstm(self.dropout(inputs), mask, state, order)
        # The recurrence carries the hidden state from before this sum.
        return outputs + inputs if self.adds_its_input else outputs, hidden, cell


class ElmoBiLM(nn.Module):
    """L layers of two independent language models, forward and backward (Peters et al. 2018, sec. 3.1)."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.layers = nn.ModuleList(ElmoBiLMLayer(config, index) for index in range(config.num_hidden_layers))
        self.output_dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        forward_vectors: Tensor,
        backward_vectors: Tensor,
        mask: Tensor | None = None,
        state: ElmoState | None = None,
    ) -> tuple[list[tuple[Tensor, ...]], ElmoState]:
        """Run both directions through all layers, the backward one from the last word to the first.

        Their token vectors, (B, T, P), are the same ones for ordinary sentences, and different windows in pre-training.

        Returns: (forward, backward) outputs of each layer, (B, T, P), and the states after the batch.
        """
        states = (None, None) if state is None else (state.hidden, state.cell)
        outputs, hidden, cell = self._run((0, 1), (forward_vectors, backward_vectors), mask, *states)
        return outputs, ElmoState(hidden=hidden, cell=cell)

    def run_direction(
        self,
        direction: int,
        vectors: Tensor,
        mask: Tensor | None = None,
        state: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
        """Run one direction alone, 0 forward or 1 backward: a long text can be read in pieces, from either end.

        Arguments and results are those of `forward` for this direction, the states (B, L, P) and (B, L, H).
        """
        states = (None, None) if state is None else (part.unsqueeze(2) for part in state)
        outputs, hidden, cell = self._run((direction,), (vectors,), mask, *states)
        return [output for (output,) in outputs], (hidden.squeeze(2), cell.squeeze(2))

    def _run(
        self,
        directions: Sequence[int],
        vectors: tuple[Tensor, ...],
        mask: Tensor | None,
        hidden: Tensor | None,
        cell: Tensor | None,
    ) -> tuple[list[tuple[Tensor, ...]], Tensor, Tensor]:
        """Some directions, each with its vectors and its place on the third axis of the states."""
        order = order_for_kernels(vectors[0], mask)
        outputs, states = [], []
        for index, layer in enumerate(self.layers):
            results = []
            for place, direction in enumerate(directions):
                state = (part if part is None else part[:, index, place] for part in (hidden, cell))
                results.append(layer(direction, vectors[place], mask, *state, order))
            vectors, *after = zip(*results, strict=True)
            outputs.append(vectors)
            states.append([torch.stack(parts, dim=1) for parts in after])
        outputs[-1] = tuple(map(self.output_dropout, outputs[-1]))
        hidden, cell = (torch.stack(parts, dim=1) for parts in zip(*states, strict=True))
        return outputs, hidden, cell


class ElmoScalarMix(nn.Module):
    """gamma * sum_j s_j h_j (Peters et al. 2018, sec. 3.2, equation 1).

    The shares s are softmax(w), or fixed by the config's `mixed_layers`; gamma is learned in either case.

    Attributes:
        alignment: With `align_layers`, matrices that turn each layer into the space of another language first,
            h_j A_j^T (Schuster et al. 2019), (L + 1, 2P, 2P), the token encoder's first; given, not learned.
    """

    alignment: nn.Parameter | None

    # Keeps the old implementations' numbers where a layer has no variance.
    variance_floor = 1e-12

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.num_hidden_layers + 1))
        self.scale = nn.Parameter(torch.empty(1))
        self.fixed_shares = _fixed_shares(config.mixed_layers, len(self.weight))
        self.normalization = config.mix_normalization
        size = 2 * config.projection_size
        alignment = nn.Parameter(torch.empty(len(self.weight), size, size), requires_grad=False)
        self.register_parameter("alignment", alignment if config.align_layers else None)

    def forward(self, layers: list[Tensor], mask: Tensor) -> Tensor:
        """Mix L + 1 layers, (B, T, D) each, with mask (B, T) into (B, T, D); zero where masked."""
        if self.alignment is not None:
            layers = [F.linear(layer, matrix) for layer, matrix in zip(layers, self.alignment, strict=True)]
        if self.fixed_shares is None:
            pairs = list(zip(self.shares(), layers, strict=True))
        else:
            pairs = [(share, layer) for share, layer in zip(self.fixed_shares, layers, strict=True) if share]
        mixed = sum(share * self._normalize(layer, mask) for share, layer in pairs)
        return torch.where(mask.unsqueeze(-1), self.scale * mixed, 0.0)

    def shares(self) -> Tensor:
        """The share of each layer, (L + 1,), the token encoder's first; they sum to 1."""
        if self.fixed_shares is None:
            return torch.softmax(self.weight, dim=0)
        return self.weight.new_tensor(self.fixed_shares)

    def _normalize(self, layer: Tensor, mask: Tensor) -> Tensor:
        if self.normalization == "none":
            return layer
        # Half precision can hold neither the sums over a batch nor the floor of the variance.
        vectors = layer.to(torch.promote_types(layer.dtype, torch.float32))
        if self.normalization == "word":
            return F.layer_norm(vectors, vectors.shape[-1:], eps=self.variance_floor).to(layer.dtype)
        real = mask.unsqueeze(-1).to(vectors.dtype)
        count = (real.sum() * vectors.shape[-1]).clamp(min=1)
        mean = (vectors * real).sum() / count
        variance = ((vectors - mean) * real).square().sum() / count
        return ((vectors - mean) * torch.rsqrt(variance + self.variance_floor)).to(layer.dtype)

    def squared_norm(self) -> Tensor:
        """The squared norm of the weights before their softmax (`mix_l2`); 0 if shares are fixed."""
        return self.weight.square().sum() if self.fixed_shares is None else self.weight.new_zeros(())


def _fixed_shares(layers: str, count: int) -> tuple[float, ...] | None:
    """The shares of `count` layers that no task learns; None if it does."""
    chosen = {"all": range(0), "top": range(count - 1, count), "token": range(1), "average": range(count)}[layers]
    return tuple((index in chosen) / len(chosen) for index in range(count)) if chosen else None


def pack_layers(layers: list[Tensor]) -> Tensor:
    """L + 1 layers, (B, T, 2P) each, as one tensor, (B, T, P + 2PL), with the token vectors once."""
    vectors, _ = layers[0].chunk(2, dim=-1)
    return torch.cat([vectors, *layers[1:]], dim=-1)


def unpack_layers(packed: Tensor, projection_size: int) -> list[Tensor]:
    """The layers of `pack_layers`."""
    vectors, outputs = packed[..., :projection_size], packed[..., projection_size:]
    return [torch.cat([vectors, vectors], dim=-1), *outputs.split(2 * projection_size, dim=-1)]


IGNORED_LABEL = -100


def values_can_be_read(tensor: Tensor) -> bool:
    """Whether checking values costs little: elsewhere than on a CPU it would wait for the device."""
    return tensor.device.type == "cpu" and not is_traced()


def check_input_ids(config: ElmoConfig, input_ids: Tensor) -> None:
    """Raise ValueError unless these are ids of the checkpoint's tokenizer."""
    width = config.max_characters_per_word
    is_right = input_ids.ndim == 3 and input_ids.shape[-1] == width and not input_ids.is_floating_point()
    if not is_right or 0 in input_ids.shape:
        raise ValueError(
            f"input_ids is {input_ids.dtype} of the shape {tuple(input_ids.shape)}; wanted integers (sentences, words, "
            f"{width}), the character ids of each word, of one sentence and word at least. Use ElmoCharTokenizer("
            f"max_characters_per_word={width}), which gives an empty sentence its two special tokens."
        )
    if values_can_be_read(input_ids) and not 0 <= int(input_ids.min()) <= int(input_ids.max()) < config.vocab_size:
        raise ValueError(
            f"input_ids holds values from {int(input_ids.min())} to {int(input_ids.max())}; this checkpoint knows "
            f"character ids from 0 to {config.vocab_size - 1}. Use the tokenizer saved with it."
        )


def has_pairs(token_type_ids: Tensor | None) -> bool:
    """Whether any row of a batch is a pair; in a trace it may be."""
    return token_type_ids is not None and (is_traced() or bool(token_type_ids.any()))


def check_word_labels(labels: Tensor, mask: Tensor) -> None:
    """Raise ValueError unless labels are integers, one per word."""
    if labels.is_floating_point() or labels.shape != mask.shape:
        raise ValueError(
            f"labels is {labels.dtype} of the shape {tuple(labels.shape)}; wanted integers {tuple(mask.shape)}, one "
            f"label per word, the special tokens included ({IGNORED_LABEL} there)."
        )


class PairSplitter:
    """The sentences of each row, one or several, as rows of their own: words keep their order, wherever they stand.

    It is made by masks of the words of each sentence, (B, T), no word in two; `mask` is that of the S sentences,
    (S, W): the first ones of all rows, then the second ones.
    """

    def __init__(self, *words: Tensor):
        self._count, self._shape = len(words), words[0].shape
        self.mask = torch.cat(words)
        # In a trace lengths are not known: sentences keep the places and the length of their rows.
        self._is_packed = not is_traced()
        if self._is_packed:
            lengths = self.mask.sum(dim=1, keepdim=True)
            self._in_batch = self.mask.flatten().nonzero().squeeze(1) % self._shape.numel()
            # The scan needs a word, be it a masked one.
            self.mask = torch.arange(max(1, int(lengths.max())), device=lengths.device) < lengths
            self._in_sentences = self.mask.flatten().nonzero().squeeze(1)

    def split(self, vectors: Tensor) -> Tensor:
        """Vectors of a batch, (B, T, D), as those of its sentences, (S, W, D); zero where masked."""
        if not self._is_packed:
            return vectors.repeat(self._count, 1, 1)
        return _move_words(vectors, self._in_batch, self.mask.shape, self._in_sentences)

    def merge(self, outputs: Tensor) -> Tensor:
        """Outputs for sentences, (S, W, D), as those of the batch, (B, T, D); zero for other words."""
        if not self._is_packed:
            # Not by chunk, which would have an export settle how many rows there are.
            return outputs.unflatten(0, (self._count, -1)).sum(dim=0)
        return _move_words(outputs, self._in_sentences, self._shape, self._in_batch)

    def find_distinct(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """The index of one sentence of each kind, (U,), and the kind of each, (S,), by 64-bit hashes of their words."""
        hashes = hash_words(input_ids.flatten(0, 1)).view(*input_ids.shape[:2], 1)
        # In halves: who looks for rows that are alike compares 32 bits of a number.
        kinds, kind_of_each = distinct_rows(self.split(hashes).squeeze(-1).view(torch.int32))
        every = torch.arange(len(kind_of_each), device=kind_of_each.device)
        return kind_of_each.new_empty(len(kinds)).scatter(0, kind_of_each, every), kind_of_each


def encode_real_words(encode: Callable[[Tensor], Tensor], input_ids: Tensor, mask: Tensor) -> Tensor:
    """Encode the distinct real words of (B, T, C) by `encode`, (N, C) to (N, D), to (B, T, D); zero where masked."""
    if is_traced():
        # Which words are real, and which of them are alike, is not known.
        vectors = encode(input_ids.flatten(0, 1)).unflatten(0, mask.shape)
        return torch.where(mask.unsqueeze(-1), vectors, 0.0)
    distinct, indices = distinct_rows(input_ids[mask])
    real_vectors = F.embedding(indices, encode(distinct))
    vectors = real_vectors.new_zeros(*mask.shape, real_vectors.shape[1])
    vectors[mask] = real_vectors
    return vectors


def segment_masks(mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
    """The words of the first and of the second sentences of pairs, (B, T) each; either may be empty."""
    is_second = token_type_ids.bool()
    return mask & ~is_second, mask & is_second


def end_masks(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last word of each sentence, (B, T) each; neither where a sentence has none."""
    count = mask.long().cumsum(dim=1)
    return mask & (count == 1), mask & (count == count[:, -1:])


def _move_words(vectors: Tensor, origins: Tensor, shape: torch.Size, targets: Tensor) -> Tensor:
    """Vectors at some indices of a batch, at other indices of a batch of another shape; zeros elsewhere."""
    words = vectors.flatten(0, 1).index_select(0, origins)
    # By indices and not by masks, which would be searched for true ones in each call and on its way back.
    moved = words.new_zeros(shape.numel(), words.shape[1]).index_copy(0, targets, words)
    return moved.unflatten(0, shape)


@dataclass
class ElmoModelOutput(ModelOutput):
    """Output of `ElmoModel`.

    Args:
        last_hidden_state: The first scalar mix, (B, T, 2P), zero where masked.
        hidden_states: With `output_hidden_states`, the L + 1 layers, (B, T, 2P) each: the token encoder's vector twice,
            then each biLM layer's forward and backward halves.
        elmo_representations: All M scalar mixes, (B, T, 2P) each.
        state: The LSTM states after this batch; None after pairs and with `packed_layers`.
    """

    last_hidden_state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    elmo_representations: tuple[Tensor, ...] | None = None
    state: ElmoState | None = None


class ElmoPreTrainedModel(PreTrainedModel):
    """Weight initialization, freezing and loading, shared by all ELMo models."""

    config_class = ElmoConfig
    config: ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoBiLMLayer", "ElmoTokenEncoder"]
    # Each loss is a mean of its own, which Trainer has to divide by the steps that it accumulates.
    accepts_loss_kwargs = False
    _keys_to_ignore_on_load_unexpected = [r"word_softmax(_backward)?\."]

    def __init__(self, config: ElmoConfig, *args: Any, **kwargs: Any):
        # Fields may have been changed since the config was built.
        config.validate()
        super().__init__(config, *args, **kwargs)

    def post_init(self) -> None:
        super().post_init()
        self._apply_freezing()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike | None, *args: Any, **kwargs: Any) -> Any:
        loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._finish_loading(pretrained_model_name_or_path, kwargs)
        return loaded

    def _finish_loading(self, name: str | os.PathLike | None, arguments: dict[str, Any]) -> None:
        # Loading has replaced each parameter by a new one that wants gradients.
        self._apply_freezing()

    def _asked_for(self, layers: Sequence[Tensor], output_hidden_states: bool | None) -> tuple[Tensor, ...] | None:
        """The layers where a call, or else the config, says that they are returned."""
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        return tuple(layers) if wanted else None

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Return the input embeddings, which cannot be resized (ValueError)."""
        embeddings = self._base.get_input_embeddings()
        if new_num_tokens not in (None, embeddings.num_embeddings):
            raise ValueError(
                f"new_num_tokens is {new_num_tokens}, but characters, of which there are {embeddings.num_embeddings}, "
                "write every word. For other words in a softmax or table, pre-train on with --vocab_file."
            )
        return embeddings

    @property
    def _base(self) -> ElmoModel:
        return cast("ElmoModel", self.base_model)

    @property
    def _bilm_modules(self) -> tuple[nn.Module, nn.Module]:
        return self._base.token_encoder, self._base.bilm

    @property
    def _bilm_is_frozen(self) -> bool:
        return self.config.freeze_bilm and not self._base.is_pretraining

    def freeze_bilm(self, freeze: bool = True) -> None:
        """Fix the token encoder and the biLM, or let them be trained with the task.

        A fixed biLM gets no gradients and no dropout; the scalar mixes and the task's layers are always trained.
        """
        self.config.freeze_bilm = freeze
        self._apply_freezing()
        self.train(self.training)

    def _apply_freezing(self) -> None:
        for module in self._bilm_modules:
            module.requires_grad_(not self._bilm_is_frozen)
        table = self._base.token_encoder.word_table
        if table is not None and not self.config.train_word_vectors:
            table.requires_grad_(False)
        for mix in cast("Iterable[ElmoScalarMix]", self._base.mixes):
            if mix.fixed_shares is not None:
                mix.weight.requires_grad_(False)
            if mix.alignment is not None:
                mix.alignment.requires_grad_(False)

    def train(self, mode: bool = True) -> Any:
        """As torch.nn.Module.train; a frozen biLM stays in evaluation mode."""
        super().train(mode)
        if self._bilm_is_frozen:
            for module in self._bilm_modules:
                module.eval()
        return self

    def layer_shares(self) -> list[list[float]]:
        """The share of each layer in each mix, the token encoder's first."""
        return [mix.shares().tolist() for mix in cast("Iterable[ElmoScalarMix]", self._base.mixes)]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Initialize a module that owns parameters as bilm-tf's training code does."""
        if isinstance(module, ElmoProjectedLSTM):
            # Glorot uniform over the stacked [input; recurrent] matrix, TensorFlow's default for its LSTM cell.
            cell_size, projection_size = len(module.bias) // 4, module.weight_ih.shape[1]
            bound = math.sqrt(6 / (2 * projection_size + 4 * cell_size))
            init.uniform_(module.weight_ih, -bound, bound)
            init.uniform_(module.weight_hh, -bound, bound)
            init.zeros_(module.bias)
            if module.weight_hr is not None:
                bound = math.sqrt(6 / (projection_size + cell_size))
                init.uniform_(module.weight_hr, -bound, bound)
        elif isinstance(module, ElmoScalarMix):
            init.zeros_(module.weight)
            init.ones_(module.scale)
            if module.alignment is not None:
                count, size, _ = module.alignment.shape
                init.copy_(module.alignment, torch.eye(size).expand(count, size, size))
        elif hasattr(module, "init_weights") and not isinstance(module, PreTrainedModel):
            cast(Any, module).init_weights()  # of the tasks' modules
        elif isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -1.0, 1.0)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
            if isinstance(module, ElmoWordTable):
                init.constant_(module.hashes, NOT_FILLED)
        elif isinstance(module, nn.Conv1d):
            if self.config.filter_activation == "relu":
                init.uniform_(module.weight, -0.05, 0.05)
            else:
                init.normal_(module.weight, std=math.sqrt(1 / (module.kernel_size[0] * module.in_channels)))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=math.sqrt(1 / module.in_features))
            if module.bias is not None:
                init.constant_(module.bias, -2.0 if isinstance(module, ElmoCarryGate) else 0.0)


class ElmoModel(ElmoPreTrainedModel):
    """Words in, one contextual vector per word out: token encoder, biLM and the scalar mixes over its layers."""

    _auto_class = "AutoModel"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig, is_pretraining: bool = False):
        super().__init__(config)
        self.token_encoder = ElmoTokenEncoder(config)
        self.bilm = ElmoBiLM(config)
        self.is_pretraining = is_pretraining  # the biLM is trained then, whatever the config says
        self.mixes = nn.ModuleList(ElmoScalarMix(config) for _ in range(config.num_mixes))
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        encoder = self.token_encoder
        if encoder.character_embedding is not None:
            return encoder.character_embedding
        # There is a table where there are no characters.
        return cast("nn.Embedding", encoder.word_table)

    def set_input_embeddings(self, value: nn.Module) -> None:
        name = "word_table" if self.token_encoder.character_embedding is None else "character_embedding"
        setattr(self.token_encoder, name, value)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        state: ElmoState | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> ElmoModelOutput:
        """Compute the vectors of a batch of sentences, or of pairs of them.

        Padding, batch mates and their order leave every real word's vector as it is. A row without any real word gives
        zeros and hands its state through. Each sentence of a pair is read on its own.

        Args:
            input_ids: Character ids from `ElmoCharTokenizer`, (B, T, C).
            attention_mask: 1 for real words, (B, T); None takes every word whose ids are not all zeros.
            state: The `state` of an earlier output on as many rows; None starts from zeros.
            output_hidden_states: Whether to return the layers; None takes the config's setting.
            token_type_ids: 1 for the words of the second sentence of a pair, (B, T); None if no row is a pair.
            packed_layers: The layers of these words, computed before (`pack_layers`), (B, T, P + 2PL), zero where
                masked; the frozen biLM is then not run.
            kwargs: What tools pass to every model; not read.
        Raises: ValueError naming the argument, its value and what is wanted.
        """
        mask, layers, state = self.run_layers(input_ids, attention_mask, state, token_type_ids, packed_layers)
        representations = tuple(mix(layers, mask) for mix in self.mixes)
        return ElmoModelOutput(
            last_hidden_state=representations[0],
            hidden_states=self._asked_for(layers, output_hidden_states),
            elmo_representations=representations,
            state=state,
        )

    def run_layers(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        state: ElmoState | None = None,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor], ElmoState | None]:
        """Check a batch and compute its layers without mixing them; arguments as `forward`'s.

        Returns: The mask of real words, (B, T); the L + 1 layers, (B, T, 2P) each; the states, as `ElmoModelOutput`'s.
        """
        check_input_ids(self.config, input_ids)
        if state is not None and len(state.hidden) != len(input_ids):
            raise ValueError(
                f"state is that of {len(state.hidden)} rows, but this batch has {len(input_ids)}; carry a state only "
                "between batches of as many rows, or start anew with state=None."
            )
        mask = self.word_mask(input_ids, attention_mask)
        if packed_layers is not None:
            if state is not None or not self._bilm_is_frozen:
                raise ValueError(
                    "packed_layers are the layers of a frozen biLM that carries no state; leave them out, or set "
                    "freeze_bilm=True and give no state."
                )
            packed_layers = packed_layers.to(self.token_encoder.dtype)
            return mask, unpack_layers(packed_layers, self.config.projection_size), None
        has_padding = is_traced() or not bool(mask.all())
        vectors = self._encode_words(input_ids, mask if has_padding else None)
        if token_type_ids is not None and has_pairs(token_type_ids):
            if state is not None:
                raise ValueError("state is given with pairs (token_type_ids), whose sentences each start anew.")
            pairs = PairSplitter(*segment_masks(mask, token_type_ids))
            outputs, state = self._read_pairs(pairs, input_ids, vectors), None
        else:
            if state is not None:
                # A state may come from a model in another precision.
                state = ElmoState(hidden=state.hidden.to(vectors.dtype), cell=state.cell.to(vectors.dtype))
            outputs, state = self.bilm(vectors, vectors, mask if has_padding else None, state)
        layers = [torch.cat([vectors, vectors], dim=-1)]
        layers.extend(torch.cat(directions, dim=-1) for directions in outputs)
        return mask, layers, state

    def _read_pairs(self, pairs: PairSplitter, input_ids: Tensor, vectors: Tensor) -> list[tuple[Tensor, ...]]:
        """The biLM's outputs for pairs, whose sentences it reads apart."""
        sentences = pairs.split(vectors)
        if self.bilm.training or is_traced():
            # Each copy of a sentence has its own dropout; how many copies there are is not known in a trace.
            outputs, _ = self.bilm(sentences, sentences, pairs.mask)
        else:
            # One context may stand beside many questions, one premise beside several hypotheses.
            first, kinds = pairs.find_distinct(input_ids)
            sentences = sentences[first]
            outputs, _ = self.bilm(sentences, sentences, pairs.mask[first])
            outputs = [tuple(output.index_select(0, kinds) for output in directions) for directions in outputs]
        return [tuple(map(pairs.merge, directions)) for directions in outputs]

    def _encode_words(self, input_ids: Tensor, mask: Tensor | None) -> Tensor:
        """The token vectors of a batch, (B, T, P), zero where masked; a mask of None hides nothing."""
        if mask is None:
            return self.token_encoder.encode_distinct(input_ids.flatten(0, 1)).unflatten(0, input_ids.shape[:2])
        return encode_real_words(self.token_encoder, input_ids, mask)

    def word_mask(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """True for real words, (B, T), by the attention mask or, without one, the ids that are not all zeros."""
        if attention_mask is None:
            return (input_ids != self.config.pad_token_id).any(dim=-1)
        return attention_mask.bool()


def mean_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy in nats over the labels that are not -100; 0, not nan, without any."""
    labels = labels.long()
    total = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED_LABEL, reduction="sum")
    return total / (labels != IGNORED_LABEL).sum().clamp(min=1)


# What `from_pretrained` is told about where files come from, apart from the checkpoint's name.
_WHERE = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")

# Under which name generation keeps a state, and beams reorder it: before transformers 5.24 under another one.
_CACHE_NAME = "cache" if "cache" in generation_utils.ALL_CACHE_NAMES else "past_key_values"

WordSoftmax: TypeAlias = nn.Linear | nn.AdaptiveLogSoftmaxWithLoss


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """Output of `ElmoForPreTraining`; hidden states and state are as in `ElmoModelOutput`.

    Args:
        loss: The mean of both directions' losses, in nats per word.
        forward_loss, backward_loss: Means of -log p(next word) and of -log p(previous word), in nats.
        forward_logits, backward_logits: Scores of the word after and of the word before each position, (B, T, V); log
            probabilities by an adaptive softmax.
    """

    loss: Tensor | None = None
    forward_loss: Tensor | None = None
    backward_loss: Tensor | None = None
    forward_logits: Tensor | None = None
    backward_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    state: ElmoState | None = None


class ElmoForPreTraining(ElmoPreTrainedModel):
    """The biLM with its word softmax, shared by both directions (Peters et al. 2018, sec. 3.1) or one for each.

    The whole biLM is trained whatever `config.freeze_bilm` says; the scalar mixes rest at their starting values.
    `words` are read from word_vocabulary.txt beside the weights if it is there, and saved there.
    """

    _auto_class = "AutoModelForPreTraining"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        if config.word_vocab_size is None:
            raise ValueError(
                "word_vocab_size is None: this checkpoint has no word softmax. hf-elmo pretrain --model_name_or_path "
                "trains one for it; AutoModel loads it without."
            )
        self.elmo = ElmoModel(config, is_pretraining=True)
        self.direction = int(config.direction == "backward")  # whose softmax the output embeddings are
        self.num_words = config.word_vocab_size
        self.word_softmax = _make_word_softmax(config, self.num_words)
        self.word_softmax_backward: WordSoftmax | None = None
        if not config.share_word_softmax:
            self.word_softmax_backward = _make_word_softmax(config, self.num_words)
        self._words: tuple[str, ...] | None = None
        self.post_init()

    @property
    def words(self) -> tuple[str, ...] | None:
        """The V words of the softmax in the order of their ids; None if the checkpoint names none."""
        return self._words

    @words.setter
    def words(self, words: Sequence[str] | None) -> None:
        if words is not None and len(words) != self.num_words:
            found = f"words has {len(words)} entries, but this model has a softmax over {self.num_words} words"
            raise ValueError(f"{found}; give the list that it was trained with.")
        self._words = None if words is None else tuple(words)

    def _finish_loading(self, name: str | os.PathLike | None, arguments: dict[str, Any]) -> None:
        super()._finish_loading(name, arguments)
        if name is None:
            return
        path = cached_file(
            name,
            WORD_LIST_FILE,
            **{argument: arguments[argument] for argument in _WHERE if argument in arguments},
            # The weights may come from the cache while the Hub cannot be reached: no words then, and no error.
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        try:
            self.words = None if path is None else read_words(path)
        except ValueError as error:
            if not arguments.get("ignore_mismatched_sizes", False):
                raise ValueError(f"{name} holds a {WORD_LIST_FILE} that is of no use: {error}") from error

    def save_pretrained(
        self, save_directory: str | os.PathLike, is_main_process: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        """As transformers' own, with the words of the softmax."""
        if self.words is not None and is_main_process:
            os.makedirs(save_directory, exist_ok=True)
            write_words(save_directory, self.words)
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)

    def _get_files_timestamps(self, working_dir: str | os.PathLike) -> dict[str, float]:
        # `save_pretrained(push_to_hub=True)` uploads what is newer than these, and the words have just been written.
        timestamps = super()._get_files_timestamps(working_dir)
        timestamps.pop(WORD_LIST_FILE, None)
        return timestamps

    def _apply_freezing(self) -> None:
        super()._apply_freezing()
        self.elmo.mixes.requires_grad_(False)

    @property
    def word_softmaxes(self) -> tuple[WordSoftmax, WordSoftmax]:
        """The softmax of the forward and of the backward direction; the same one if it is shared."""
        backward = self.word_softmax if self.word_softmax_backward is None else self.word_softmax_backward
        return self.word_softmax, backward

    def get_output_embeddings(self) -> nn.Linear | None:
        softmax = self.word_softmaxes[self.direction]
        return softmax if isinstance(softmax, nn.Linear) else None

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        is_backward = self.direction and self.word_softmax_backward is not None
        setattr(self, "word_softmax_backward" if is_backward else "word_softmax", new_embeddings)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        state: ElmoState | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> ElmoForPreTrainingOutput:
        """Predict each word's neighbors on whole sentences; `hf_elmo.pretraining` trains on a corpus instead.

        Position t scores the word at t + 1 in the forward direction and the word at t - 1 in the backward one.
        Arguments are `ElmoModel`'s, and:

        Args:
            labels: The word id at each position, (B, T), -100 for none; the shift is made here.
        """
        mask, layers, state = self.elmo.run_layers(input_ids, attention_mask, state, token_type_ids)
        forward_logits, backward_logits = map(_score_words, self.word_softmaxes, layers[-1].chunk(2, dim=-1))
        loss = forward_loss = backward_loss = None
        if labels is not None:
            check_word_labels(labels, mask)
            # A target counts only where the word that predicts it is real too.
            labels = labels.masked_fill(~mask, IGNORED_LABEL)
            forward_loss = mean_cross_entropy(
                forward_logits[:, :-1], labels[:, 1:].masked_fill(~mask[:, :-1], IGNORED_LABEL)
            )
            backward_loss = mean_cross_entropy(
                backward_logits[:, 1:], labels[:, :-1].masked_fill(~mask[:, 1:], IGNORED_LABEL)
            )
            loss = (forward_loss + backward_loss) / 2
        return ElmoForPreTrainingOutput(
            loss=loss,
            forward_loss=forward_loss,
            backward_loss=backward_loss,
            forward_logits=forward_logits,
            backward_logits=backward_logits,
            hidden_states=self._asked_for(layers, output_hidden_states),
            state=state,
        )


def _make_word_softmax(config: ElmoConfig, num_words: int) -> WordSoftmax:
    if config.softmax_type == "full":
        return nn.Linear(config.projection_size, num_words)
    return nn.AdaptiveLogSoftmaxWithLoss(
        config.projection_size,
        num_words,
        config.adaptive_softmax_cutoffs or (),
        div_value=config.adaptive_softmax_div_value,
    )


def _score_words(softmax: WordSoftmax, vectors: Tensor) -> Tensor:
    """Logits, or log probabilities where the softmax is adaptive; (B, T, P) to (B, T, V)."""
    if isinstance(softmax, nn.Linear):
        return softmax(vectors)
    return softmax.log_prob(vectors.flatten(0, 1)).unflatten(0, vectors.shape[:2])


@dataclass
class ElmoCausalLMOutput(ModelOutput):
    """Output of `ElmoForCausalLM`.

    Args:
        loss: Mean of -log p(next word), in nats.
        logits: Scores of the word behind each, (B, T, V); log probabilities by an adaptive softmax.
        cache: The LSTM state after the last word, with (B, L, P) hidden and (B, L, H) cell states.
        hidden_states: With `output_hidden_states`, the token vectors and the outputs of each layer, (B, T, P).
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    cache: ElmoState | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoForCausalLM(ElmoForPreTraining, GenerationMixin):
    """One direction of the biLM as a causal language model: the ids of words in, scores of the words behind them out.

    It loads any checkpoint with a word softmax and a list of its words; `ElmoWordTokenizer` gives the ids. The
    backward model (`direction="backward"`) reads sentences from `</S>` to `<S>`; its tokenizer turns them round, and
    for a tool it is one more causal language model.

    Words of the vocabulary are read by their characters, as always. What is behind `<UNK>` is known to the caller
    alone: hand it over as `character_ids`, and only its own probability is that of `<UNK>`.
    """

    _auto_class = "AutoModelForCausalLM"  # type: ignore[assignment]
    # A state has no earlier states in it, to which a generation could go back.
    _is_stateful = True
    accepts_loss_kwargs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        self._rows: tuple[Any, Tensor] | None = None
        self._set_generation_ids()

    def _finish_loading(self, name: str | os.PathLike | None, arguments: dict[str, Any]) -> None:
        super()._finish_loading(name, arguments)
        self._set_generation_ids()

    def _set_generation_ids(self) -> None:
        """Put the ids of words in the place of those of characters, which transformers finds in the config."""
        generation = cast("Any", self.generation_config)
        begin, end, unknown = range(3)  # as every list of words has them
        generation.pad_token_id = end
        generation.bos_token_id, generation.eos_token_id = (end, begin) if self.direction else (begin, end)
        if generation._from_model_config:
            generation.suppress_tokens = [unknown]

    def _characters_of(self, input_ids: Tensor) -> Tensor:
        """The character ids of words of the softmax, (B, T) to (B, T, C)."""
        if self.words is None or self.config.character_scheme != "bytes":
            lack = f"has no {WORD_LIST_FILE}" if self.words is None else "has a dictionary of characters elsewhere"
            raise ValueError(
                f"input_ids are given alone, but the checkpoint {lack}, so that ids of words say nothing of their "
                "characters; give character_ids too."
            )
        if self._rows is None or self._rows[0] is not self.words:
            scheme, width = ByteCharacters(), self.config.max_characters_per_word
            encoded = [scheme.encode(word, width) for word in self.words]
            padded = [row + [scheme.padding] * (width - len(row)) for row in encoded]
            self._rows = self.words, torch.tensor(padded, dtype=torch.int16)
        words, rows = self._rows
        if rows.device != input_ids.device:
            self._rows = words, rows.to(input_ids.device)
        return self._rows[1][input_ids].long()

    def _apply_freezing(self) -> None:
        super()._apply_freezing()
        for layer in cast("Iterable[ElmoBiLMLayer]", self.elmo.bilm.layers):
            (layer.forward_lstm if self.direction else layer.backward_lstm).requires_grad_(False)
        if self.word_softmax_backward is not None:
            self.word_softmaxes[1 - self.direction].requires_grad_(False)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        cache: ElmoState | None = None,
        output_hidden_states: bool | None = None,
        *,
        character_ids: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **kwargs: Any,
    ) -> ElmoCausalLMOutput:
        """Score the words behind those of a batch. Padding may stand anywhere; it leaves real words as they are.

        Args:
            input_ids: Ids of words, (B, T).
            attention_mask: 1 for real words, (B, T); None takes all.
            labels: Ids of the words at each position, (B, T), -100 for none; the shift is made here.
            cache: Of an earlier output on as many rows, whose text goes on here; None begins a text.
            output_hidden_states: Whether to return the layers; None takes the config's setting.
            character_ids: Of all words, (B, T, C), where they are known better than by `input_ids`.
            use_cache: Whether to return the state; None does.
            logits_to_keep: Positions at the end that are scored; 0 for all.
            kwargs: Of the loss; others, which tools pass to every model, are not read.
        Raises: ValueError naming the argument, its value and what is wanted.
        """
        if input_ids.ndim != 2:
            raise ValueError(
                f"input_ids has the shape {tuple(input_ids.shape)}; expected (sentences, words), by ElmoWordTokenizer."
            )
        if character_ids is None:
            character_ids = self._characters_of(input_ids)
        check_input_ids(self.elmo.config, character_ids)
        if labels is not None:
            check_word_labels(labels, input_ids)
        mask = None
        if attention_mask is not None:
            mask = attention_mask[:, -input_ids.shape[1] :].bool()
            mask = mask if is_traced() or not bool(mask.all()) else None
        vectors = self.elmo._encode_words(character_ids, mask)
        state = None
        if cache is not None:
            state = cache.hidden.to(vectors.dtype), cache.cell.to(vectors.dtype)
        # The backward direction runs from the last position to the first, and what it gets is reversed already.
        turn = (lambda tensor: tensor.flip(1)) if self.direction else (lambda tensor: tensor)
        read_mask = None if mask is None else turn(mask)
        outputs, (hidden, cell) = self.elmo.bilm.run_direction(self.direction, turn(vectors), read_mask, state)
        layers = (vectors, *map(turn, outputs))
        logits = _score_words(self.word_softmaxes[self.direction], layers[-1][:, -logits_to_keep:])
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.num_words, **kwargs)
        return ElmoCausalLMOutput(
            loss=loss,
            logits=logits,
            cache=None if use_cache is False else ElmoState(hidden=hidden, cell=cell),
            hidden_states=self._asked_for(layers, output_hidden_states),
        )

    def prepare_inputs_for_generation(  # type: ignore[override]
        self,
        input_ids: Tensor,
        past_key_values: ElmoState | None = None,
        cache: ElmoState | None = None,
        attention_mask: Tensor | None = None,
        character_ids: Tensor | None = None,
        is_first_iteration: bool | None = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The inputs of the next step: all words before the first one, then the last word and the state."""
        state = cache if past_key_values is None else past_key_values
        if state is not None and not is_first_iteration:
            input_ids, character_ids = input_ids[:, -1:], None
        elif character_ids is not None and character_ids.shape[1] < input_ids.shape[1]:
            new_ids = self._characters_of(input_ids[:, character_ids.shape[1] :])
            character_ids = torch.cat([character_ids, new_ids], dim=1)
        names = ("use_cache", "logits_to_keep", "output_hidden_states", "return_dict")
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "cache": state,
            "character_ids": character_ids,
            **{name: kwargs[name] for name in names if name in kwargs},
        }

    def _update_model_kwargs_for_generation(
        self, outputs: ModelOutput, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        model_kwargs = super()._update_model_kwargs_for_generation(outputs, model_kwargs, *args, **kwargs)
        if "cache" in outputs:
            model_kwargs.pop("cache", None)
            model_kwargs[_CACHE_NAME] = outputs["cache"]
        return model_kwargs

    @staticmethod
    def _reorder_cache(state: ElmoState, beam_idx: Tensor) -> ElmoState:
        return ElmoState(hidden=state.hidden.index_select(0, beam_idx), cell=state.cell.index_select(0, beam_idx))

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """As transformers' own, word by word from the state; `cache` goes on with an earlier text."""
        with self._words_as_vocabulary():
            return cast(Any, super()).generate(*args, **kwargs)

    def compute_transition_scores(self, *args: Any, **kwargs: Any) -> Tensor:
        """As transformers' own."""
        with self._words_as_vocabulary():
            return cast(Any, super()).compute_transition_scores(*args, **kwargs)

    @contextmanager
    def _words_as_vocabulary(self) -> Iterator[None]:
        """Transformers takes config.vocab_size, which is that of characters, for the number of logits."""
        config = self.config
        self.config = copy.copy(config)
        self.config.vocab_size = self.num_words
        try:
            yield
        finally:
            self.config = config


# The ids of the capitals A to Z, and how far the small letters lie behind them.
_CAPITALS = (ord("A") + 1, ord("Z") + 1)
_TO_SMALL = ord("a") - ord("A")


@dataclass
class ElmoEmbeddingsOutput(ModelOutput):
    """Output of `ElmoEmbeddings`, and what tasks read; the vectors are those after dropout, zero where masked.

    Args:
        last_hidden_state: The first mix, the word vector and the characters' features side by side, (B, T, D).
        elmo_representations: All M mixes, (B, T, 2P) each; None without ELMo. With `num_mixes=2` the second is for the
            output of the task's own encoder (Peters et al. 2018, sec. 3.3).
        mask: True for real words, (B, T).
        hidden_states: As in `ElmoModelOutput`.
    """

    last_hidden_state: Tensor = None  # type: ignore[assignment]
    elmo_representations: tuple[Tensor, ...] | None = None
    mask: Tensor = None  # type: ignore[assignment]
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoWordFeatures(nn.Module):
    """What stands beside ELMo: V numbers of a table of known words, and F features of any word's characters."""

    def __init__(self, config: ElmoConfig, head: HeadConfig):
        super().__init__()
        if head.lower_case_words and config.character_scheme != "bytes":
            raise ValueError(
                f"lower_case_words is True but character_scheme is {config.character_scheme!r}, in which A to Z "
                "have no ids side by side; leave it out, and fill the table with the words as they stand in text."
            )
        self.padding = cast("int", config.padding_character_id)
        self.lower_case_words = head.lower_case_words
        self.train_word_vectors = head.train_word_vectors
        self.size = 0
        self.word_table: ElmoWordTable | None = None
        if head.word_table_size is not None and head.word_vector_size is not None:
            self.word_table = ElmoWordTable(head.word_table_size, head.word_vector_size)
            self.size += head.word_vector_size
        self.characters: nn.Embedding | None = None
        if head.character_filters:
            self.characters = nn.Embedding(config.vocab_size, head.character_embedding_size, config.pad_token_id)
        self.filters = nn.ModuleList(
            ElmoCharacterFilters(head.character_embedding_size, count, width) for width, count in head.character_filters
        )
        self.size += sum(count for _, count in head.character_filters)
        # As `ElmoTokenEncoder`'s.
        self.module_classes = {type(module) for module in self.modules()}

    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        """The features of a batch, (B, T, C) with mask (B, T) to (B, T, V + F); zero where masked."""
        return encode_real_words(self._encode, input_ids, mask)

    def _encode(self, char_ids: Tensor) -> Tensor:
        """Words, (N, C) to (N, V + F)."""
        parts = []
        if self.word_table is not None:
            is_capital = (char_ids >= _CAPITALS[0]) & (char_ids <= _CAPITALS[1])
            parts.append(self.word_table(char_ids + _TO_SMALL * is_capital if self.lower_case_words else char_ids))
        if self.characters is not None:
            maxima = filter_characters(self, char_ids, self.characters, self.filters, self.padding)
            parts.append(torch.relu(maxima))
        return torch.cat(parts, dim=-1)


class ElmoTaskModel(ElmoPreTrainedModel):
    """Base of the tasks' models: a vector for each word, from ELMo and from what stands beside it.

    A subclass adds its layers, then calls `post_init`. Its forward reads the words by `embed` and its loss goes through
    `add_penalty`. It reads `num_read_mixes` mixes; None is two with the head's `mix_at_output`,
    else one.

    Attributes:
        input_size, mix_size: Sizes D of the vector of a word, and 2P of a mix.
    """

    head_class: ClassVar[type[HeadConfig]]
    reads_pairs = False

    def __init__(self, config: ElmoConfig, num_read_mixes: int | None = None):
        config = copy.deepcopy(config)  # its caller's stays as it is
        head = config.require_head(self.head_class)
        mix_at_output = getattr(head, "mix_at_output", False)
        num_read_mixes = num_read_mixes or (2 if mix_at_output else 1)
        config.num_mixes = max(config.num_mixes, num_read_mixes)
        super().__init__(config)
        self.uses_elmo = head.use_elmo
        self.num_read_mixes = num_read_mixes
        self.elmo = ElmoModel(config)
        self.features = ElmoWordFeatures(config, head)
        self.dropout: nn.Module = nn.Dropout(head.dropout)
        self.mix_size = 2 * config.projection_size
        self.output_mix_size = self.mix_size * mix_at_output
        self.input_size = self.mix_size * head.use_elmo + self.features.size

    def embed(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        packed_layers: Tensor | None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> ElmoEmbeddingsOutput:
        """Check a batch and give the vectors of its words; arguments as `ElmoModel`'s, with all that a forward has."""
        if not self.reads_pairs and not is_traced() and has_pairs(token_type_ids):
            raise ValueError(
                f"token_type_ids marks second texts of pairs, but this {type(self).__name__} reads single texts; give "
                "each text a row of its own."
            )
        mixes = hidden_states = None
        parts: list[Tensor] = []
        if self.uses_elmo:
            mask, layers, _ = self.elmo.run_layers(input_ids, attention_mask, None, token_type_ids, packed_layers)
            mixes = tuple(self.dropout(mix(layers, mask)) for mix in self.elmo.mixes[: self.num_read_mixes])
            hidden_states = self._asked_for(layers, output_hidden_states)
            parts.append(mixes[0])
        else:
            check_input_ids(self.config, input_ids)
            mask = self.elmo.word_mask(input_ids, attention_mask)
        if self.features.size:
            parts.append(self.dropout(self.features(input_ids, mask)))
        vectors = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return ElmoEmbeddingsOutput(vectors, mixes, mask, hidden_states)

    def penalty(self) -> Tensor:
        """mix_l2 times the squared norm of the mixes' weights before their softmax (Peters et al. 2018, sec. 3.3)."""
        mixes = cast("Iterable[ElmoScalarMix]", self.elmo.mixes[: self.num_read_mixes])
        return self.config.mix_l2 * torch.stack([mix.squared_norm() for mix in mixes]).sum()

    def add_penalty(self, loss: Tensor) -> Tensor:
        """The loss of a task, with `penalty` in training."""
        return loss + self.penalty() if self.training and self.config.mix_l2 and self.uses_elmo else loss

    def second_mix(self, words: ElmoEmbeddingsOutput) -> Tensor | None:
        """The mix for the output of the task's own layers, (B, T, 2P); None without `mix_at_output`."""
        return cast("tuple[Tensor, ...]", words.elmo_representations)[1] if self.output_mix_size else None

    def without_special(self, input_ids: Tensor, mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """The mask without the special tokens at the ends of each text, or of both texts of each pair, (B, T)."""
        # In no scheme does any other word hold these characters, but a word may look like a special token.
        first = input_ids[..., 1]
        is_word = (first != self.config.bos_token_id) & (first != self.config.eos_token_id)
        for of_text in (mask,) if token_type_ids is None else segment_masks(mask, token_type_ids):
            is_first, is_last = end_masks(of_text)
            mask = mask & (is_word | ~(is_first | is_last))
        return mask

    def _apply_freezing(self) -> None:
        super()._apply_freezing()
        if self.features.word_table is not None and not self.features.train_word_vectors:
            self.features.word_table.requires_grad_(False)
        # DistributedDataParallel waits for the gradients of unused parameters.
        self.elmo.mixes[self.num_read_mixes :].requires_grad_(False)
        if not self.uses_elmo:
            self.elmo.requires_grad_(False)


class ElmoEmbeddings(ElmoTaskModel):
    """The ELMo layer for a PyTorch model of one's own (Peters et al. 2018, sec. 3.3).

    A frozen biLM (`freeze_bilm`, the default) stays in evaluation mode, without gradients, whatever the mode of the
    model around it. A word table has to be filled before its first use (`hf_elmo.text.word_vectors.build_word_table`).
    `output_size` is the size D of `last_hidden_state`. Fields of the config and its `head` say what there is:
    `ElmoEmbeddings.from_pretrained(name, num_mixes=2, head=EmbeddingsHead(dropout=0.3))`.
    """

    # So that the code is saved with it; what AutoModel finds in its checkpoints is the ElmoModel.
    _auto_class = "AutoModel"  # type: ignore[assignment]
    head_class = EmbeddingsHead
    reads_pairs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config, config.num_mixes)
        self.output_size = self.input_size
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> ElmoEmbeddingsOutput:
        """The vectors of the words of a batch; arguments as `ElmoModel`'s, without a state."""
        return self.embed(input_ids, attention_mask, token_type_ids, packed_layers, **kwargs)
