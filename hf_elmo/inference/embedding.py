"""Text to vectors, for corpora of any size and texts of any length.

Letters in shapes: R rows of a batch, N words of a batch one after another, P projection, H cell, L biLM layers, D = 2P.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizer

from ..given.bounded_files import quoted
from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from .batches import cut_batches, runs

# What may be asked for by name; a layer may also be asked for by its number.
LAYERS = ("mix", "all", "top", "average", "token")


def embed(
    model: ElmoPreTrainedModel,
    tokenizer: PreTrainedTokenizer,
    sentences: Iterable[str | Sequence[str]],
    *,
    layers: str | int = "mix",
    keep_special_tokens: bool = False,
    carry_state: bool = False,
    max_words_per_batch: int = 2048,
    max_words_per_chunk: int = 256,
    max_words_per_buffer: int = 32768,
) -> Iterator[np.ndarray]:
    """Embed a stream of sentences; the arrays come in the order of the sentences.

    A sentence's vectors are those of a call of the model on it alone (unless `carry_state`), whatever the limits below,
    on which memory depends. They count words, the two special tokens of each sentence too.

    Args:
        model: Any ELMo model; of one with a head, the base is used. It is left in the mode it is in.
        tokenizer: The checkpoint's; it cuts the sentences that are strings.
        sentences: Strings or lists of words; also an iterator without an end.
        layers: "mix" for the first scalar mix; "all" for the L + 1 layers; "top" for the last of them; "average" for
            their mean; "token" for layer 0, the token encoder's vector twice, without running the biLM; or a layer's
            number, also from -1 backwards. With mix_normalization "batch" each sentence is a batch of its own.
        keep_special_tokens: Whether to keep the vectors of `<S>` and `</S>`, first and last.
        carry_state: Whether each sentence starts from the states that the one before it left, as on a lane of
            pre-training. Sentences are then read one after another, which is slower on many short ones.
        max_words_per_batch: Bound on what is computed at once, padding included; a longer sentence is computed alone.
        max_words_per_chunk: Longer sentences are read in chunks, each direction from its own end.
        max_words_per_buffer: Sentences are read ahead until they have this many words.
    Returns: One array per sentence: (words, D), or (L + 1, words, D) with layers="all"; float32, or float64 for a model
        in float64.
    Raises: TypeError or ValueError naming the argument; of a wrong sentence, when its turn comes.
    """
    elmo: Any = model.base_model
    expected, found = (part.max_characters_per_word for part in (elmo.config, tokenizer))
    if found != expected:
        raise ValueError(
            f"tokenizer has max_characters_per_word={found}; the model wants {expected}. Use the tokenizer saved with "
            "it."
        )
    if isinstance(sentences, str):
        raise TypeError("sentences is a string; wanted an iterable of sentences. For a single one, give a list of it.")
    limits = {"batch": max_words_per_batch, "chunk": max_words_per_chunk, "buffer": max_words_per_buffer}
    for name, value in limits.items():
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"max_words_per_{name} is {value!r}; it must be an integer >= 1.")
    resolved = resolve_layers(layers, elmo.config.num_hidden_layers + 1)
    embedder = _Embedder(
        elmo, tokenizer, resolved, keep_special_tokens, carry_state, max_words_per_batch, max_words_per_chunk
    )
    buffers = runs(map(embedder.with_special_tokens, itertools.count(), sentences), len, max_words_per_buffer)
    # While the caller works on an array, none of torch's modes is changed.
    return itertools.chain.from_iterable(map(embedder.embed_buffer, buffers))


def resolve_layers(layers: str | int, num_layers: int) -> str | int:
    """A single layer as its number from 0; "mix", "all" and "average" as they are. Raises: ValueError for no layer."""
    number: Any = {"token": 0, "top": num_layers - 1}.get(str(layers), layers)
    if isinstance(number, str) and number.lstrip("-").isdigit():
        number = int(number)
    if number in ("mix", "all", "average"):
        return number
    if not isinstance(number, int):
        raise ValueError(f"layers is {layers!r}; it must be one of {list(LAYERS)}, or a layer's number.")
    if not -num_layers <= number < num_layers:
        raise ValueError(
            f"layers is {number}; this model has the layers 0 (the token encoder) to {num_layers - 1} (the top)."
        )
    return number % num_layers


# Hidden and cell states of one direction, (R, L, P) and (R, L, H); None stands for zeros.
_State = tuple[Tensor, Tensor] | None


@dataclass
class _Embedder:
    """What `embed` was asked for, and the way from a buffer of sentences to their vectors."""

    elmo: ElmoModel
    tokenizer: PreTrainedTokenizer
    layers: str | int
    keep_special_tokens: bool
    carry_state: bool
    max_words_per_batch: int
    max_words_per_chunk: int
    # Where `carry_state` says so: what the sentences before have left, for each direction.
    states: tuple[_State, _State] = (None, None)

    def with_special_tokens(self, number: int, sentence: str | Sequence[str]) -> list[str]:
        if isinstance(sentence, str):
            return [BOS_TOKEN, *self.tokenizer.tokenize(sentence), EOS_TOKEN]
        if not isinstance(sentence, Sequence) or not all(isinstance(word, str) for word in sentence):
            raise TypeError(f"sentences[{number}] is {quoted(sentence)}; wanted a string or a list of words.")
        return [BOS_TOKEN, *sentence, EOS_TOKEN]

    def embed_buffer(self, sentences: list[list[str]]) -> list[np.ndarray]:
        arrays: dict[int, np.ndarray] = {}
        with _evaluation_mode(self.elmo), torch.inference_mode():
            table, places = self._encode_distinct_words(sentences)
            lengths = [len(sentence) for sentence in sentences]
            if self.carry_state:
                batches = runs(range(len(lengths)), lengths.__getitem__, self.max_words_per_batch)
            else:
                batches = cut_batches(lengths, self.max_words_per_batch, self.max_words_per_chunk)
            for batch in batches:
                arrays.update(zip(batch, self._embed_batch(table, [places[n] for n in batch]), strict=True))
        return [arrays[number] for number in range(len(sentences))]

    def _encode_distinct_words(self, sentences: list[list[str]]) -> tuple[Tensor, list[Tensor]]:
        """A token vector for each distinct word, (words, P), and where the words of each sentence are in that table."""
        words = list(dict.fromkeys(itertools.chain.from_iterable(sentences)))
        places = {word: place for place, word in enumerate(words)}
        rows = torch.from_numpy(self.tokenizer.encode_words(words)).to(self.elmo.device)
        encoder = self.elmo.token_encoder
        table = torch.cat([encoder.encode_distinct(piece) for piece in rows.split(self.max_words_per_batch)])
        return table, [torch.tensor([places[word] for word in sentence]) for sentence in sentences]

    def _embed_batch(self, table: Tensor, rows: list[Tensor]) -> list[np.ndarray]:
        lengths = [len(row) for row in rows]
        vectors = table[torch.cat(rows).to(table.device)]
        if self.layers == 0:
            combined = torch.cat([vectors, vectors], dim=-1).to(torch.promote_types(vectors.dtype, torch.float32))
        elif self.carry_state:
            backwards = torch.cat(torch.arange(len(vectors)).split(lengths)[::-1])
            layers, self.states = self._run_bilm(vectors, [len(vectors)], self.states, backwards)
            combined = self._combine(layers, lengths)
        else:
            layers, _ = self._run_bilm(vectors, lengths)
            combined = self._combine(layers, lengths)
        kept = slice(None) if self.keep_special_tokens else slice(1, -1)
        # Copies: an array that the caller keeps would keep its whole batch.
        parts = np.split(combined.cpu().numpy(), np.cumsum(lengths)[:-1], axis=-2)
        return [part[..., kept, :].copy() for part in parts]

    def _run_bilm(
        self,
        vectors: Tensor,
        lengths: list[int],
        states: tuple[_State, _State] = (None, None),
        backwards: Tensor | None = None,
    ) -> tuple[Tensor, tuple[_State, _State]]:
        """The layers over rows in falling length, (L + 1, N, D) in float32 or wider, and the states after them.

        `vectors` (N, P) are the rows' one after another; `backwards` are their places in the order that the backward
        direction reads from its end, where that is not the usual one.
        """
        config, bilm = self.elmo.config, self.elmo.bilm
        chunks = list(_cut_chunks(lengths, self.max_words_per_chunk))
        layers = torch.empty(
            config.num_hidden_layers + 1,
            len(vectors),
            2 * config.projection_size,
            dtype=torch.promote_types(vectors.dtype, torch.float32),
            # A book's layers may be more than an accelerator holds beside the model.
            device=vectors.device if len(chunks) == 1 else "cpu",
        )
        layers[0] = torch.cat([vectors, vectors], dim=-1)
        after = []
        for direction, half in enumerate(layers.chunk(2, dim=-1)):
            hidden, cell = states[direction] or (
                vectors.new_zeros(len(lengths), config.num_hidden_layers, config.projection_size),
                vectors.new_zeros(len(lengths), config.num_hidden_layers, config.cell_size),
            )
            for places, is_word in reversed(chunks) if direction else chunks:
                if direction and backwards is not None:
                    places = backwards[places]
                mask, reading = is_word.to(vectors.device), len(places)
                outputs, state = bilm.run_direction(
                    direction,
                    vectors[places.to(vectors.device)],
                    None if bool(is_word.all()) else mask,
                    (hidden[:reading], cell[:reading]),
                )
                hidden[:reading], cell[:reading] = state
                real = places[is_word].to(layers.device)
                for layer, output in zip(half[1:], outputs, strict=True):
                    layer[real] = output[mask].to(layer)
            after.append((hidden, cell))
        return layers, (after[0], after[1])

    def _combine(self, layers: Tensor, lengths: list[int]) -> Tensor:
        if self.layers == "all":
            return layers
        if isinstance(self.layers, int):
            return layers[self.layers]
        if self.layers == "average":
            return layers.mean(dim=0)
        mix = copy.deepcopy(self.elmo.mixes[0]).to(layers)
        # With the normalization "batch" each sentence counts as a batch; otherwise each word is mixed by itself.
        sizes = lengths if mix.normalization == "batch" else self.max_words_per_batch
        parts = layers.unsqueeze(1).split(sizes, dim=2)
        return torch.cat([mix(list(part), part.new_ones(part.shape[1:3]).bool()) for part in parts], dim=1)[0]


def _cut_chunks(lengths: Sequence[int], max_words: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of rows in falling length: the places among the N words of those that are read side by side, and a mask.

    Both are (rows, words); rows that have ended before, which are the last ones, are left out.
    """
    ends = torch.tensor(lengths)
    starts = ends.cumsum(0) - ends
    for first in range(0, lengths[0], max_words):
        reading = int((ends > first).sum())
        steps = torch.arange(first, min(first + max_words, lengths[0]))
        mask = steps < ends[:reading, None]
        yield torch.where(mask, starts[:reading, None] + steps, 0), mask


@contextmanager
def _evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Dropout off; afterwards each module is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
