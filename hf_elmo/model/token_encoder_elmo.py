"""The token encoder: a word to one context-free vector, by a character CNN, a table of word vectors or both.

Letters in shapes: N words of a flat list, C characters per word, D character embedding, F filters, P projection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .configuration_elmo import ElmoConfig
from .recurrence_elmo import kernels
from .tracing_elmo import is_traced
from .word_table_elmo import ElmoWordTable


class ElmoLinear(nn.Linear):
    """A linear map of which the package's kernels, where they are, may keep a packed copy for inference."""

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (N, I) to (N, O)."""
        mapped = None if kernels is None or is_traced() else kernels.linear(vectors, self.weight, self.bias)
        return super().forward(vectors) if mapped is None else mapped


class ElmoCarryGate(ElmoLinear):
    """The map of a highway layer's gate: a class of its own for its initialisation, which starts by carrying."""


class ElmoHighway(nn.Module):
    """y = g relu(W_t x + b_t) + (1 - g) x with g = sigmoid(W_c x + b_c) (Srivastava et al. 2015)."""

    def __init__(self, size: int):
        super().__init__()
        self.carry = ElmoCarryGate(size, size)
        self.transform = ElmoLinear(size, size)

    def forward(self, vectors: Tensor) -> Tensor:
        """Map (N, F) to (N, F)."""
        found = self._map_by_kernels(vectors)
        if found is not None:
            return found
        gate = torch.sigmoid(self.carry(vectors))
        return gate * torch.relu(self.transform(vectors)) + (1 - gate) * vectors

    def _map_by_kernels(self, vectors: Tensor) -> Tensor | None:
        """As `forward`, where the package's kernels are and neither map was wrapped, replaced or hooked."""
        kinds: dict[nn.Module, type] = {self.carry: ElmoCarryGate, self.transform: ElmoLinear}
        if kernels is None or is_traced() or not _are_untouched(kinds):
            return None
        return kernels.highway(vectors, self.carry.weight, self.carry.bias, self.transform.weight, self.transform.bias)


class ElmoCharacterFilters(nn.Conv1d):
    """Filters of one width over a word's characters, each followed by its maximum over the windows (Kim et al. 2016).

    The convolution is a matrix product over windows: with 16 channels that is several times faster on a CPU.
    """

    def forward(self, characters: Tensor) -> Tensor:
        """Map embedded characters (N, C, D), C at least the width, to the filters' maxima, (N, F)."""
        windows = characters.unfold(1, self.kernel_size[0], 1)
        rows, weight = windows.reshape(-1, self.weight[0].numel()), self.weight.flatten(1)
        found = None
        if kernels is not None and self.bias is not None and not is_traced():
            found = kernels.linear(rows, weight, self.bias)
        if found is None:
            found = F.linear(rows, weight, self.bias)
        return found.view(*windows.shape[:2], self.out_channels).max(dim=1).values


class ElmoTokenEncoder(nn.Module):
    """Characters to one context-free vector per word (Peters et al. 2018, sec. 3.4; Kim et al. 2016).

    Where the config wants them, a table's word vectors stand in place of the characters' features or before them, side
    by side as in ELMoForManyLangs (Che et al. 2018). The highway layers are the characters' own: without characters
    there are none, and the word vectors go straight to the projection. Where the config wants no projection either, the
    features are the word's vector.
    """

    # A group of fewer words takes in longer ones: products as small as these do not get faster by shorter rows.
    min_words_in_group = 16

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
        self.projection: ElmoLinear | None = None
        if config.project_tokens:
            self.projection = ElmoLinear(num_filters + (config.word_vector_size or 0), config.projection_size)
        self.vector_size = config.projection_size

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights that word vectors come out of."""
        return (next(self.parameters()) if self.projection is None else self.projection.weight).dtype

    def forward(self, rows: Tensor) -> Tensor:
        """Encode N words, rows of character ids (N, C), as word vectors, (N, P)."""
        if rows.shape[0] == 0:
            return torch.zeros(0, self.vector_size, dtype=self.dtype, device=rows.device)
        if kernels is None or is_traced():
            return self._encode(rows)
        # Padding costs a word's first windows only, and nobody reads the vectors of words that are nothing else.
        padded = kernels.pad_rows(rows, self.dtype, self.padding)
        return self._encode(padded)[: len(rows)]

    def encode_distinct(self, rows: Tensor) -> Tensor:
        """As `forward`, but words that occur more than once are computed once."""
        if kernels is not None:
            vectors = kernels.cached_words(self, rows)
            if vectors is not None:
                return vectors
        distinct, places = distinct_rows(rows)
        # By embedding, not by indexing: the gradients of an indexed tensor are added up in whichever order the threads
        # arrive, and no two runs would end with the same weights.
        return F.embedding(places, self(distinct))

    def _encode(self, rows: Tensor) -> Tensor:
        """The vectors of N words, N at least 1."""
        parts = []
        if self.word_table is not None:
            parts.append(self.word_table(rows))
        if self.character_embedding is not None:
            parts.append(self._encode_characters(self.character_embedding, rows))
        features = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return features if self.projection is None else self.projection(features)

    def _encode_characters(self, embedding: nn.Embedding, rows: Tensor) -> Tensor:
        """The features of each word's characters, (N, F)."""
        vectors = self.activation(self._filter(embedding, rows))
        for highway in self.highways:
            vectors = highway(vectors)
        return vectors

    def _filter(self, embedding: nn.Embedding, rows: Tensor) -> Tensor:
        """The maximum of each filter over each word's windows, (N, F)."""
        if is_traced():
            # How long the words are is not known: they are taken at their full width.
            characters = embedding(rows)
            return torch.cat([filters(characters) for filters in self.convolutions], dim=-1)
        maxima = self._filter_by_kernels(embedding, rows)
        if maxima is not None:
            return maxima
        order, found = [], []
        for group, longest in self._groups(self._lengths(rows), rows.device):
            characters = embedding(rows[group])
            # Padding has a learned vector and takes part in the maximum, but all windows that hold nothing else are
            # alike: the first of them stands for the rest.
            found.append(
                torch.cat(
                    [
                        filters(characters[:, : longest + filters.kernel_size[0]])
                        for filters in cast("Iterable[ElmoCharacterFilters]", self.convolutions)
                    ],
                    dim=-1,
                )
            )
            order.append(group)
        return torch.cat(found)[torch.cat(order).argsort()]

    def _filter_by_kernels(self, embedding: nn.Embedding, rows: Tensor) -> Tensor | None:
        """As `_filter`, where the package's kernels are and no module was wrapped, replaced or hooked."""
        kinds: dict[nn.Module, type] = {embedding: nn.Embedding}
        kinds.update((filters, ElmoCharacterFilters) for filters in self.convolutions)
        if kernels is None or not _are_untouched(kinds):
            return None
        weights, biases = zip(*((filters.weight, filters.bias) for filters in self.convolutions), strict=True)
        return kernels.filter_maxima(rows, self.padding, embedding.weight, weights, biases, embedding.padding_idx)

    def _lengths(self, rows: Tensor) -> Tensor:
        """How many characters each word has before its padding, (N,)."""
        places = torch.arange(1, rows.shape[1] + 1, device=rows.device)
        return ((rows != self.padding) * places).amax(dim=1)

    def _groups(self, lengths: Tensor, device: torch.device) -> Iterator[tuple[Tensor, int]]:
        """Words of about one length, as places in the batch, and how many characters the longest has."""
        lengths, order = lengths.sort()
        # On other devices than a CPU many small products cost more than one with longer rows.
        smallest = self.min_words_in_group if device.type == "cpu" else len(lengths)
        start, sorted_lengths = 0, lengths.tolist()
        for end in range(1, len(sorted_lengths) + 1):
            is_last = end == len(sorted_lengths)
            if is_last or (end - start >= smallest and sorted_lengths[end] > sorted_lengths[end - 1]):
                yield order[start:end], sorted_lengths[end - 1]
                start = end


def _are_untouched(kinds: Mapping[nn.Module, type]) -> bool:
    """Whether modules are of the classes that they were built as, with biases, and nobody hooked into them."""
    return all(
        type(module) is kind
        # Where accelerate fetches weights for each call, it puts a forward of its own before the class's.
        and "forward" not in vars(module)
        and getattr(module, "bias", module.weight) is not None
        and not (module._forward_hooks or module._forward_pre_hooks)
        and not (module._backward_hooks or module._backward_pre_hooks)
        for module, kind in kinds.items()
    )


def distinct_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row of (N, C) once, and for each of the N which of those it is."""
    found = None if kernels is None else kernels.distinct_rows(rows)
    return torch.unique(rows, dim=0, return_inverse=True) if found is None else found
