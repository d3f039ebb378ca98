"""Text to vectors, as NumPy arrays, by any ELMo checkpoint: batches for corpora of any size and texts of any length.

Letters in shapes: R rows of a batch, N words of a batch one after another, P projection, H cell, L biLM layers, D = 2P.
"""

from __future__ import annotations

import copy
import itertools
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from ..given import quoted
from ..hub.loading import load_model, load_tokenizer, usable_device
from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer

# What may be asked for by name; a layer may also be asked for by its number.
LAYERS = ("mix", "all", "top", "average", "token")
Sentence = str | Sequence[str]
# Hidden and cell states of one direction, (R, L, P) and (R, L, H); None stands for zeros.
_State = tuple[Tensor, Tensor] | None
Item = TypeVar("Item")
Result = TypeVar("Result")
# Items of which batches of like lengths are made.
_READ_AHEAD = 1024


class ElmoEmbedder:
    """Sentences in, NumPy arrays out, by any ELMo checkpoint.

    A sentence is a list of words, taken as they are, or a string, which the checkpoint's tokenizer cuts. Its vectors
    are those of a call of the model on it alone, whatever else is read. The special tokens `<S>` and `</S>` have no
    vectors in the arrays, which are float32, or float64 for a model in float64. D is twice the projection.
    docs/notebooks.md has examples.

    Wherever `layers` is asked for: "mix" is the first scalar mix (in a checkpoint that has seen no task, the layers'
    mean), "all" are the L + 1 layers, "top" is the last of them, "average" their mean, "token" layer 0, which knows no
    context and is had without the biLM; a number is a layer's, from 0 or, backwards, from -1. With mix_normalization
    "batch" each sentence is a batch of its own.

    Wherever `carry_state` is: each sentence starts from the states that the one before it left, as on a lane of
    pre-training. Sentences are then read one after another, which is slower on many short ones.

    Args:
        model: The checkpoint, a directory or a name on the Hub; or a model itself, with its `tokenizer`, which stays
            on its device and in its mode. Of one with a head, the base is used.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        dtype: Precision of the weights.
        max_words_per_batch: Bound on the words that are computed at once, special tokens and padding included; a longer
            sentence is computed alone.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the argument.
    """

    # Longer sentences are read in chunks, each direction from its own end.
    max_words_per_chunk = 256
    # Sentences are read ahead until they have this many words.
    max_words_per_buffer = 32768

    def __init__(
        self,
        model: str | ElmoPreTrainedModel,
        device: str | None = None,
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        tokenizer: ElmoCharTokenizer | None = None,
        max_words_per_batch: int = 2048,
    ):
        if dtype not in ("float32", "bfloat16", "float16"):
            raise ValueError(f"dtype is {dtype!r}; it must be 'float32', 'bfloat16' or 'float16'.")
        if not isinstance(max_words_per_batch, int) or max_words_per_batch < 1:
            raise ValueError(f"max_words_per_batch is {max_words_per_batch!r}; it must be an integer >= 1.")
        found: Any = model
        if not isinstance(model, ElmoPreTrainedModel):
            place, weights = usable_device(device), getattr(torch, dtype)
            found = load_model(ElmoModel, str(model), weights).to(place).eval()  # type: ignore[arg-type]
            tokenizer = load_tokenizer(str(model), found.config)
        elif tokenizer is None:
            raise ValueError("tokenizer is None; with a model give the one saved with it.")
        self.name, self.model = str(found.name_or_path), cast("ElmoModel", found.base_model)
        self.tokenizer, self.max_words_per_batch = tokenizer, max_words_per_batch
        width, expected = self.tokenizer.max_characters_per_word, found.config.max_characters_per_word
        if width != expected:
            raise ValueError(
                f"tokenizer has max_characters_per_word={width}; the model wants {expected}. Use the one saved with it."
            )

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def num_layers(self) -> int:
        return self.model.config.num_hidden_layers + 1

    @property
    def vector_size(self) -> int:
        return 2 * self.model.config.projection_size

    def embed_sentence(self, sentence: Sentence, layers: str | int = "mix") -> np.ndarray:
        """The vectors of one sentence's words, (words, D), or (L + 1, words, D) with layers="all"."""
        (array,) = self.stream([sentence], layers)
        return array

    def embed_sentences(
        self, sentences: Iterable[Sentence], layers: str | int = "mix", carry_state: bool = False
    ) -> list[np.ndarray]:
        """An array as of `embed_sentence` for each sentence; `carry_state` reads them as one text."""
        return list(self.stream(sentences, layers, carry_state))

    def average_words(self, sentences: Iterable[Sentence], layers: str | int = "mix") -> np.ndarray:
        """The mean of each sentence's words, zeros where it has none: (sentences, D), or (sentences, L + 1, D)."""
        means = [pool_words(array, "mean") for array in self.stream(sentences, layers)]
        shape = (self.num_layers, self.vector_size) if layers == "all" else (self.vector_size,)
        return np.array(means, np.float32).reshape(-1, *shape)

    def stream(
        self,
        sentences: Iterable[Sentence],
        layers: str | int = "mix",
        carry_state: bool = False,
        keep_special_tokens: bool = False,
    ) -> Iterator[np.ndarray]:
        """The arrays of `embed_sentences` one after another, also of sentences without an end.

        With `keep_special_tokens` the vectors of `<S>` and `</S>` are first and last in each.
        Raises: TypeError or ValueError naming the argument; of a wrong sentence, when its turn comes.
        """
        if isinstance(sentences, str):
            raise TypeError("sentences is a string; wanted an iterable of them. For a single one, give a list of it.")
        kept = slice(None) if keep_special_tokens else slice(1, -1)
        return self._stream(sentences, resolve_layers(layers, self.num_layers), carry_state, kept)

    def _stream(
        self, sentences: Iterable[Sentence], layers: str | int, carry_state: bool, kept: slice
    ) -> Iterator[np.ndarray]:
        states: tuple[_State, _State] | None = (None, None) if carry_state else None
        read = map(self._with_special_tokens, itertools.count(), sentences)
        for buffer in runs(read, len, self.max_words_per_buffer):
            sizes, arrays = list(map(len, buffer)), dict[int, np.ndarray]()
            with _evaluation_mode(self.model), torch.inference_mode():
                table, places = self._encode_distinct_words(buffer)
                if carry_state:
                    batches = runs(range(len(sizes)), sizes.__getitem__, self.max_words_per_batch)
                else:
                    batches = cut_batches(sizes, self.max_words_per_batch, self.max_words_per_chunk)
                for batch in batches:
                    lengths = [sizes[number] for number in batch]
                    vectors = table[torch.cat([places[number] for number in batch]).to(table.device)]
                    if layers == 0:
                        combined = _as_layer_0(vectors)
                    else:
                        every, states = self._run_bilm(vectors, lengths, states)
                        combined = self._combine(every, layers, lengths)
                    # Copies: an array that the caller keeps would keep its whole batch.
                    parts = np.split(combined.cpu().numpy(), np.cumsum(lengths)[:-1], axis=-2)
                    arrays.update(zip(batch, (part[..., kept, :].copy() for part in parts), strict=True))
            # While the caller works on an array, none of torch's modes is changed.
            yield from (arrays[number] for number in range(len(buffer)))

    def _with_special_tokens(self, number: int, sentence: Sentence) -> list[str]:
        if isinstance(sentence, str):
            return [BOS_TOKEN, *self.tokenizer.tokenize(sentence), EOS_TOKEN]
        if not isinstance(sentence, Sequence) or not all(isinstance(word, str) for word in sentence):
            raise TypeError(f"sentences[{number}] is {quoted(sentence)}; wanted a string or a list of words.")
        return [BOS_TOKEN, *sentence, EOS_TOKEN]

    def _encode_distinct_words(self, sentences: list[list[str]]) -> tuple[Tensor, list[Tensor]]:
        """A token vector for each distinct word, (words, P), and where the words of each sentence are in that table."""
        words = list(dict.fromkeys(itertools.chain.from_iterable(sentences)))
        places = {word: place for place, word in enumerate(words)}
        rows = torch.from_numpy(self.tokenizer.encode_words(words)).to(self.device)
        encoder = self.model.token_encoder
        table = torch.cat([encoder.encode_distinct(piece) for piece in rows.split(self.max_words_per_batch)])
        return table, [torch.tensor([places[word] for word in sentence]) for sentence in sentences]

    def _run_bilm(
        self, vectors: Tensor, lengths: list[int], states: tuple[_State, _State] | None
    ) -> tuple[Tensor, tuple[_State, _State] | None]:
        """The layers over sentences in falling length, (L + 1, N, D) in float32 or wider.

        `vectors` (N, P) are the sentences' one after another. With states they are one row in the order of the text,
        which goes on from these, and the states behind it are given, too.
        """
        config, orders = self.model.config, [torch.arange(len(vectors))] * 2
        rows = lengths if states is None else [len(vectors)]
        if states is not None:
            # Read from its end, the last sentence comes first.
            orders[1] = torch.cat(orders[0].split(lengths)[::-1])
        chunks = list(_cut_chunks(rows, self.max_words_per_chunk))
        # A book's layers may be more than an accelerator holds beside the model.
        place = vectors.device if len(chunks) == 1 else torch.device("cpu")
        layer_0 = _as_layer_0(vectors).to(place)
        layers = layer_0.new_empty(config.num_hidden_layers + 1, *layer_0.shape)
        layers[0] = layer_0
        after: list[_State] = []
        for direction, (half, order) in enumerate(zip(layers.chunk(2, dim=-1), orders, strict=True)):
            hidden, cell = (states and states[direction]) or (
                vectors.new_zeros(len(rows), config.num_hidden_layers, config.projection_size),
                vectors.new_zeros(len(rows), config.num_hidden_layers, config.cell_size),
            )
            for steps, is_word in reversed(chunks) if direction else chunks:
                mask, reading, places = is_word.to(vectors.device), len(steps), order[steps]
                outputs, state = self.model.bilm.run_direction(
                    direction,
                    vectors[places.to(vectors.device)],
                    None if bool(is_word.all()) else mask,
                    (hidden[:reading], cell[:reading]),
                )
                hidden[:reading], cell[:reading] = state
                real = places[is_word].to(place)
                for layer, output in zip(half[1:], outputs, strict=True):
                    layer[real] = output[mask].to(layer)
            after.append((hidden, cell))
        return layers, None if states is None else (after[0], after[1])

    def _combine(self, every: Tensor, layers: str | int, lengths: list[int]) -> Tensor:
        if layers == "all":
            return every
        if layers == "average":
            return every.mean(dim=0)
        if layers != "mix":
            return every[cast("int", layers)]
        mix = copy.deepcopy(self.model.mixes[0]).to(every)
        # With the normalization "batch" each sentence counts as a batch; otherwise each word is mixed by itself.
        sizes = lengths if mix.normalization == "batch" else self.max_words_per_batch
        parts = every.unsqueeze(1).split(sizes, dim=2)
        return torch.cat([mix(list(part), part.new_ones(part.shape[1:3]).bool()) for part in parts], dim=1)[0]


def resolve_layers(layers: str | int, num_layers: int) -> str | int:
    """A single layer as its number from 0; "mix", "all" and "average" as they are. Raises: ValueError for no layer."""
    number: Any = {"token": 0, "top": num_layers - 1}.get(str(layers), layers)
    if isinstance(number, str) and number.lstrip("-").isdigit():
        number = int(number)
    if number in ("mix", "all", "average"):
        return number
    if not isinstance(number, int) or not -num_layers <= number < num_layers:
        raise ValueError(
            f"layers is {number!r}; it must be one of {list(LAYERS)}, or the number of a layer of this model: 0 (the "
            f"token encoder) to {num_layers - 1} (the top)."
        )
    return number % num_layers


def _as_layer_0(vectors: Tensor) -> Tensor:
    return torch.cat([vectors, vectors], dim=-1).to(torch.promote_types(vectors.dtype, torch.float32))


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


def pool_words(vectors: np.ndarray, pooling: str) -> np.ndarray:
    """Pool the vectors of a sentence's words, (..., words, D), to (..., D), zeros for a sentence without words.

    "mean" and "max" go number by number. "first-last" is what each direction has read of the whole sentence: the
    forward half of the last word's vector and the backward half of the first word's. "none" leaves all as it is.
    """
    if pooling == "none":
        return vectors
    if not vectors.shape[-2]:
        return np.zeros((*vectors.shape[:-2], vectors.shape[-1]), vectors.dtype)
    if pooling == "mean":
        return vectors.mean(axis=-2)
    if pooling == "max":
        return vectors.max(axis=-2)
    half = vectors.shape[-1] // 2
    return np.concatenate([vectors[..., -1, :half], vectors[..., 0, half:]], axis=-1)


class PlacedWords(NamedTuple):
    """The words of a line of text."""

    words: list[str]  # as the model reads them, lower-cased for example
    offsets: list[tuple[int, int]]  # first character of each word in the line, and the one behind its last
    spaced_words: list[int]  # index, from 0, of the word between white space that each of them belongs to


def place_words(line: str, tokenizer: ElmoCharTokenizer, is_tokenized: bool = False) -> PlacedWords:
    """Cut a line, as it came, into words with their offsets; tokenized words stand between white space."""
    spaced = [match.span() for match in re.finditer(r"\S+", line)]
    words = line.split() if is_tokenized else tokenizer.tokenize(line)
    offsets = spaced if is_tokenized else tokenizer.cutter.spans(line)
    starts = [start for start, _ in spaced]
    return PlacedWords(words, offsets, [bisect_right(starts, start) - 1 for start, _ in offsets])


def in_batches(
    items: Iterable[Item],
    length: Callable[[Item], int],
    compute: Callable[[Sequence[Item]], Sequence[Result]],
    max_words_per_batch: int,
) -> Iterator[Result]:
    """What `compute` makes of each item, in their order, called with items of like lengths.

    Items are read a thousand at a time; `length` counts their words, of which as many are computed at once.
    """
    for buffer in runs(items, lambda item: 1, _READ_AHEAD):
        results: dict[int, Result] = {}
        for batch in cut_batches(list(map(length, buffer)), max_words_per_batch):
            results.update(zip(batch, compute([buffer[index] for index in batch]), strict=True))
        yield from (results[index] for index in range(len(buffer)))


def cut_batches(lengths: Sequence[int], max_words: int, read_at_once: int = sys.maxsize) -> Iterator[list[int]]:
    """The indices of the items of each batch, the longest items first, at most `max_words` with padding or one item.

    Of an item at most `read_at_once` words count, where longer ones are read in parts.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        count = max(1, max_words // max(1, min(lengths[order[0]], read_at_once)))
        yield order[:count]
        order = order[count:]


def runs(items: Iterable[Item], size: Callable[[Item], int], full: int) -> Iterator[list[Item]]:
    """Items that follow one another, together until their sizes sum up to `full`."""
    run: list[Item] = []
    total = 0
    for item in items:
        run.append(item)
        total += size(item)
        if total >= full:
            yield run
            run, total = [], 0
    if run:
        yield run
