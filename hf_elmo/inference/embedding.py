"""Text to vectors, for corpora of any size and texts of any length, and into files.

Letters in shapes: R rows of a batch, N words of a batch one after another, P projection, H cell, L biLM layers, D = 2P.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizer

from ..checkpoints.hdf5 import require_h5py
from ..checkpoints.writing import check_output_file, files_written_aside
from ..model.characters_elmo import BOS_TOKEN, EOS_TOKEN
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel

LAYERS = ("mix", "all", "top", "average")
# Where AllenNLP keeps its map from sentences to the names of their datasets.
SENTENCE_TO_INDEX = "sentence_to_index"


def embed(
    model: ElmoPreTrainedModel,
    tokenizer: PreTrainedTokenizer,
    sentences: Iterable[str | Sequence[str]],
    *,
    layers: str = "mix",
    keep_markers: bool = False,
    max_words_per_batch: int = 2048,
    max_words_per_chunk: int = 256,
    max_words_per_buffer: int = 32768,
) -> Iterator[np.ndarray]:
    """Embed a stream of sentences; the arrays come in the order of the sentences.

    A sentence's vectors depend on it alone and are those of a call of the model on it: neither its place in the
    stream nor any of the limits below changes them. What is held in memory depends on the limits and on the longest
    sentence, never on the number of sentences: sentences are read and computed a buffer at a time, when the next array
    is asked for. Within a buffer, sentences of like length share a batch.

    All limits count words with the two sentence markers of each sentence.

    Args:
        model: Any ELMo model; of one with a head, the base is used. It is left in the mode it is in.
        tokenizer: The checkpoint's tokenizer; it cuts the sentences that are strings.
        sentences: Strings or lists of words; also an iterator without an end.
        layers: "mix" for the first scalar mix; "all" for the L + 1 layers; "top" for the last of them; "average" for
            their mean. Where the config wants mix_normalization "batch", each sentence is normalised as a batch of its
            own, so that its batch mates do not matter.
        keep_markers: Whether to keep the vectors of `<S>` and `</S>`, first and last.
        max_words_per_batch: Bound on what is computed at once, padding included: rows x words that are read side by
            side. A sentence that is longer is computed alone.
        max_words_per_chunk: Sentences longer than this are read in chunks, in each direction from its own end with its
            state carried along. The vectors are those of one pass; small chunks take less memory and leave room in a
            batch for more long sentences side by side.
        max_words_per_buffer: Sentences are read ahead until they have this many words.
    Returns: An iterator over one array a sentence: (words, D), or (L + 1, words, D) with layers="all"; float32, or
        float64 for a model in float64. A sentence without words gives no words, not an error.
    Raises: TypeError or ValueError naming the argument, what it was and what is wanted; of a wrong sentence, when its
        turn comes.
    """
    elmo = getattr(model, "base_model", None)
    if getattr(getattr(elmo, "config", None), "model_type", None) != ElmoConfig.model_type:
        raise TypeError(
            f"model is a {type(model).__name__}; wanted an ELMo model, as AutoModel.from_pretrained gives it after "
            "`import hf_elmo`."
        )
    wanted, found = (getattr(part, "max_characters_per_word", None) for part in (elmo.config, tokenizer))
    if found != wanted:
        raise ValueError(
            f"tokenizer is a {type(tokenizer).__name__} with max_characters_per_word={found}; the model wants "
            f"{wanted}. Use the tokenizer saved with it, or ElmoCharTokenizer(max_characters_per_word={wanted})."
        )
    if isinstance(sentences, str):
        raise TypeError("sentences is a string; wanted an iterable of sentences. For a single one, give a list of it.")
    check_limits(layers, max_words_per_batch, max_words_per_chunk, max_words_per_buffer)
    embedder = _Embedder(elmo, tokenizer, layers, keep_markers, max_words_per_batch, max_words_per_chunk)
    return _embed_buffers(embedder, sentences, max_words_per_buffer)


def check_limits(layers: str, max_words_per_batch: int, max_words_per_chunk: int, max_words_per_buffer: int) -> None:
    if layers not in LAYERS:
        raise ValueError(f"layers is {layers!r}; it must be one of {list(LAYERS)}.")
    for name, value in (
        ("max_words_per_batch", max_words_per_batch),
        ("max_words_per_chunk", max_words_per_chunk),
        ("max_words_per_buffer", max_words_per_buffer),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be an integer >= 1.")


def _embed_buffers(
    embedder: _Embedder, sentences: Iterable[str | Sequence[str]], max_words_per_buffer: int
) -> Iterator[np.ndarray]:
    words = (embedder.marked_words(number, sentence) for number, sentence in enumerate(sentences))
    while buffer := _read_buffer(words, max_words_per_buffer):
        # Nothing of torch's modes is open while the caller has the word.
        yield from embedder.embed_buffer(buffer)


def _read_buffer(sentences: Iterator[list[str]], max_words: int) -> list[list[str]]:
    buffer, num_words = [], 0
    for sentence in sentences:
        buffer.append(sentence)
        num_words += len(sentence)
        if num_words >= max_words:
            break
    return buffer


class _Chunk(NamedTuple):
    """The words that the rows of a batch read side by side.

    Args:
        places: Where each word lies among the batch's N words, (rows, words); anywhere where masked.
        mask: True for real words, (rows, words); rows that have ended before the chunk are left out, and they are the
            last ones.
    """

    places: Tensor
    mask: Tensor


@dataclass(frozen=True)
class _Embedder:
    """What `embed` was asked for, and the way from a buffer of sentences to their vectors."""

    elmo: ElmoModel
    tokenizer: PreTrainedTokenizer
    layers: str
    keep_markers: bool
    max_words_per_batch: int
    max_words_per_chunk: int

    def marked_words(self, number: int, sentence: str | Sequence[str]) -> list[str]:
        """The words of a sentence between its markers."""
        if isinstance(sentence, str):
            return [BOS_TOKEN, *self.tokenizer.tokenize(sentence), EOS_TOKEN]
        if not isinstance(sentence, Sequence) or not all(isinstance(word, str) for word in sentence):
            raise TypeError(f"sentences[{number}] is {_shorten(sentence)}; wanted a string or a list of words.")
        return [BOS_TOKEN, *sentence, EOS_TOKEN]

    def embed_buffer(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """The arrays of sentences that have their markers, in their order."""
        arrays: list[np.ndarray] = [None] * len(sentences)
        with _evaluation_mode(self.elmo), torch.inference_mode():
            table, places = self._encode_distinct_words(sentences)
            lengths = [len(sentence) for sentence in sentences]
            for batch in _cut_batches(lengths, self.max_words_per_batch, self.max_words_per_chunk):
                for number, array in zip(batch, self._embed_batch(table, [places[n] for n in batch]), strict=True):
                    arrays[number] = array
        return arrays

    def _encode_distinct_words(self, sentences: list[list[str]]) -> tuple[Tensor, list[Tensor]]:
        """A token vector for each distinct word, (words, P), and where the words of each sentence are in that table.

        Token vectors have no context: a word is encoded once a buffer, however often and in whichever direction it is
        read.
        """
        words = list(dict.fromkeys(itertools.chain.from_iterable(sentences)))
        places = {word: place for place, word in enumerate(words)}
        rows = torch.from_numpy(self.tokenizer.encode_words(words)).to(self.elmo.device)
        encoder = self.elmo.token_encoder
        table = torch.cat([encoder.encode_distinct(piece) for piece in rows.split(self.max_words_per_batch)])
        return table, [torch.tensor([places[word] for word in sentence]) for sentence in sentences]

    def _embed_batch(self, table: Tensor, rows: list[Tensor]) -> list[np.ndarray]:
        """The arrays of sentences in falling length."""
        lengths = [len(row) for row in rows]
        layers = self._run_bilm(table[torch.cat(rows).to(table.device)], lengths)
        vectors = self._combine(layers, lengths).cpu().numpy()
        markers = slice(None) if self.keep_markers else slice(1, -1)
        # Copies: an array that the caller keeps would keep its whole batch.
        return [part[..., markers, :].copy() for part in np.split(vectors, np.cumsum(lengths)[:-1], axis=-2)]

    def _run_bilm(self, vectors: Tensor, lengths: list[int]) -> Tensor:
        """The layers over sentences in falling length.

        Args:
            vectors: Token vectors of the sentences one after another, (N, P).
            lengths: Words of each sentence.
        Returns: (L + 1, N, D), in float32 or wider; of sentences in several chunks, on the CPU.
        """
        config, bilm = self.elmo.config, self.elmo.bilm
        chunks = list(_cut_chunks(lengths, self.max_words_per_chunk))
        layers = torch.empty(
            config.num_hidden_layers + 1,
            len(vectors),
            config.hidden_size,
            dtype=torch.promote_types(vectors.dtype, torch.float32),
            # A book's layers may be more than an accelerator holds beside the model.
            device=vectors.device if len(chunks) == 1 else "cpu",
        )
        layers[0] = torch.cat([vectors, vectors], dim=-1)
        for direction, half in enumerate(layers.chunk(2, dim=-1)):
            hidden = vectors.new_zeros(len(lengths), config.num_hidden_layers, config.projection_size)
            cell = vectors.new_zeros(len(lengths), config.num_hidden_layers, config.cell_size)
            for chunk in reversed(chunks) if direction else chunks:
                mask, places = chunk.mask.to(vectors.device), chunk.places.to(vectors.device)
                reading = len(places)
                outputs, state = bilm.run_direction(
                    direction,
                    vectors[places],
                    None if bool(chunk.mask.all()) else mask,
                    (hidden[:reading], cell[:reading]),
                )
                hidden[:reading], cell[:reading] = state
                real = chunk.places[chunk.mask].to(layers.device)
                for layer, output in zip(half[1:], outputs, strict=True):
                    layer[real] = output[mask].to(layer)
        return layers

    def _combine(self, layers: Tensor, lengths: list[int]) -> Tensor:
        """What was asked for of the layers (L + 1, N, D): themselves, or (N, D)."""
        if self.layers == "all":
            return layers
        if self.layers == "top":
            return layers[-1]
        if self.layers == "average":
            return layers.mean(dim=0)
        mix = copy.deepcopy(self.elmo.mixes[0]).to(layers)
        # A sentence is what statistics over a batch are taken of; otherwise each word is mixed for itself.
        sizes = lengths if mix.normalization == "batch" else self.max_words_per_batch
        parts = layers.unsqueeze(1).split(sizes, dim=2)
        return torch.cat([mix(list(part), part.new_ones(part.shape[1:3]).bool()) for part in parts], dim=1)[0]


def _cut_batches(lengths: Sequence[int], max_words: int, max_words_per_chunk: int) -> Iterator[list[int]]:
    """The numbers of the sentences of each batch, the longest sentences first."""
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    while order:
        rows = max(1, max_words // min(lengths[order[0]], max_words_per_chunk))
        yield order[:rows]
        order = order[rows:]


def _cut_chunks(lengths: Sequence[int], max_words: int) -> Iterator[_Chunk]:
    """Cut rows of words, in falling length, into chunks from the first word to the last."""
    ends = torch.tensor(lengths)
    starts = ends.cumsum(0) - ends
    for first in range(0, lengths[0], max_words):
        reading = int((ends > first).sum())
        steps = torch.arange(first, min(first + max_words, lengths[0]))
        mask = steps < ends[:reading, None]
        yield _Chunk(places=torch.where(mask, starts[:reading, None] + steps, 0), mask=mask)


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


def _shorten(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= 80 else f"{text[:77]}..."


# Files


def write_embeddings(
    output_file: str | os.PathLike,
    arrays: Iterable[np.ndarray],
    sentences: Iterable[str] | None = None,
    overwrite: bool = False,
) -> tuple[int, int]:
    """Write vectors to an HDF5 file in the layout of bilm-tf's dump and of AllenNLP's `elmo` command.

    Each sentence has a float32 dataset of the shape of its array under its number, "0", "1" and so on. The file appears
    under its name when it is complete; where anything fails before, nothing is left behind.

    Args:
        output_file: The file to write.
        arrays: One array a sentence, as `embed` gives them; taken one by one.
        sentences: The text of each sentence, for a dataset `sentence_to_index` as AllenNLP's: (1,), a JSON object from
            sentences to the names of their datasets. Sentences that are alike are all in it, and a JSON reader takes
            the last, as in AllenNLP's. The whole text is held in memory until the end.
        overwrite: Whether an existing file may be replaced.
    Returns: How many sentences and how many words were written.
    Raises: FileExistsError when the name is taken; ImportError without h5py; ValueError when there are not as many
        sentences as arrays.
    """
    h5py = require_h5py("vectors of whole corpora")
    target = check_output_file(output_file, overwrite)
    num_sentences = num_words = 0
    entries = []
    with files_written_aside(target) as (aside,), h5py.File(aside, "w") as file:
        pairs = zip(arrays, itertools.repeat(None)) if sentences is None else itertools.zip_longest(arrays, sentences)
        for array, sentence in pairs:
            if array is None or (sentence is None and sentences is not None):
                raise ValueError(
                    f"sentences and arrays differ in number: one of them ends after {num_sentences}; give one text an "
                    "array, or leave sentences out."
                )
            file.create_dataset(str(num_sentences), data=array, dtype="float32")
            if sentence is not None:
                entries.append(f'{json.dumps(sentence)}: "{num_sentences}"')
            num_sentences += 1
            num_words += array.shape[-2]
        if sentences is not None:
            index = file.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=h5py.string_dtype())
            index[0] = "{" + ", ".join(entries) + "}"
    return num_sentences, num_words
