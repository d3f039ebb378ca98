"""What `hf-elmo embed` asks for, and the sentences that it reads."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..given.flags import check_choices, flag
from .text_input import STANDARD_INPUT, ReadingArguments, lines_of_standard_input, warn_of_raw_text

if TYPE_CHECKING:
    from ..text.sentence_sources import SentenceSource

# Sentences that are looked at to see whether they are lines, to be cut, or words.
_FIRST_SENTENCES = 1000
_INPUTS = ("input_file", "dataset_name", "vocabulary")
_OUTPUTS = ("output_dir", "output_file")
_WITHOUT_CONTEXT = ("token", "0")
# What only shards have, or only texts, which words without context are not, or only single files.
_OF_SHARDS = ("pooling", "keep_markers", "max_words_per_shard", "format", "overwrite_output_dir")
_OF_TEXT = (
    *("text_is_tokenized", "text_column", "input_format", "word_column", "carry_state", "store_sentences"),
    *("storage_dtype", "compression", "max_words_per_chunk", "max_words_per_buffer"),
)
_OF_FILES = ("carry_state", "store_sentences", "overwrite_output_file")


@dataclass(kw_only=True)
class EmbeddingArguments(ReadingArguments):
    """What is read and what is written."""

    input_file: str | None = flag(  # type: ignore[assignment]
        "Text, one sentence per line, .jsonl or .parquet (a column of texts or of lists of words), or CoNLL columns "
        "(.conll, .conllu, .iob, .iob2, .bio); other suffixes are read as what the file looks like; each also as .gz, "
        ".bz2, .xz or .zst; - for text from standard input. A quoted glob names several files.",
        default=None,
        aliases=("--text_file",),
    )
    input_format: Literal["auto", "conll", "conllu"] = flag(
        "conll or conllu for files of columns whose names do not say so.", default="auto"
    )
    word_column: int | None = flag("Place of the words among CoNLL columns, from 0.", default=None)
    dataset_name: str | None = flag("Data set, a directory or a name on the Hub, in place of a file.", default=None)
    dataset_config_name: str | None = flag("Its configuration.", default=None)
    dataset_split: str = flag("Its split.", default="train")
    vocabulary: str | None = flag(
        "Words, one per line, in place of text: --output_file gets their vectors of layer 0 in word2vec's format, "
        "which gensim's KeyedVectors loads, .bin or .txt.",
        default=None,
    )
    output_dir: str | None = flag(
        "Directory of shards to write, a row per sentence with its number, words, their places in the line and "
        "vectors. A run that was killed is gone on with by the same command.",
        default=None,
    )
    output_file: str | None = flag(
        "A single file in place of the directory, in one rename at the end, an array per line of the text by its "
        "number from 0, lines without words included: .hdf5 or .h5 as the old tools wrote it, "
        "h5py.File(name)['0'], or .npz, np.load(name)['0'].",
        default=None,
    )
    layers: str = flag(
        "mix for the scalar mix, (words, D); all for the layers, (layers, words, D); top for the last of them; average "
        "for their mean; token for layer 0, without context; or a layer's number.",
        default="mix",
    )
    pooling: Literal["none", "mean", "max", "first-last"] = flag(
        "One vector per sentence in place of one per word, in a directory: the mean or the largest numbers of its "
        "words, or what each direction has at its end, the forward half of the last word beside the backward half of "
        "the first.",
        default="none",
    )
    keep_markers: bool = flag("Give <S> and </S> vectors too, and pool them, in a directory.", default=False)
    format: Literal["arrow", "parquet", "safetensors", "numpy"] = flag("Of the shards.", default="arrow")
    carry_state: bool = flag(
        "Carry the state from line to line, as in one long text; without it each line is read by itself. Of single "
        "files.",
        default=False,
    )
    store_sentences: bool = flag(
        "Store the sentences as AllenNLP does (sentence_to_index); takes memory for the whole text. Of single files.",
        default=False,
    )
    storage_dtype: Literal["float32", "float16", "int8"] = flag(
        "Precision of what is written; float16 halves it and keeps three digits, int8, in a directory, takes a quarter "
        "and has a scale for each vector. The summary says what the rounding cost.",
        default="float32",
    )
    compression: Literal["none", "gzip", "zstd"] = flag(
        "gzip makes files about a tenth smaller, and writing slower; zstd, of Parquet and Arrow, is quicker.",
        default="none",
    )
    dtype: Literal["float32", "bfloat16", "float16"] = flag("Precision of the model.", default="float32")
    max_words_per_shard: int = flag("Words of a shard, and two for each sentence.", default=65536)
    max_words_per_chunk: int = flag(
        "Sentences longer than this are read in chunks with the state carried; same vectors, less memory.", default=256
    )
    max_words_per_buffer: int = flag("Words read ahead, to put sentences of like length together.", default=32768)
    overwrite_output_dir: bool = flag("Begin anew in a directory that has vectors already.", default=False)
    overwrite_output_file: bool = flag("Replace an existing output file when the run has ended well.", default=False)

    def check(self) -> None:
        """Check that the arguments go together.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        from ..inference.embedding import check_limits

        check_choices(self)
        for names, wanted in ((_INPUTS, "input"), (_OUTPUTS, "output")):
            given = [f"--{name}" for name in names if getattr(self, name) is not None]
            if len(given) != 1:
                found = " and ".join(given) or f"no {wanted}"
                raise ValueError(f"{found} given; wanted one of {', '.join(f'--{name}' for name in names)}.")
        if self.vocabulary is not None and self.output_file is None:
            raise ValueError(f"output_dir is {self.output_dir!r}; words of --vocabulary go into an --output_file.")
        if self.vocabulary is not None and self.layers not in (*_WITHOUT_CONTEXT, _default_of("layers")):
            raise ValueError(f"layers is {self.layers!r}; words of --vocabulary have no context, which is layer 0.")
        if self.vocabulary is not None:
            for name in _OF_TEXT:
                if getattr(self, name) != _default_of(name):
                    raise ValueError(
                        f"{name} is {getattr(self, name)!r}, which words of --vocabulary do not have; leave it out."
                    )
        other, left_out = ("output_file", _OF_SHARDS) if self.output_dir is None else ("output_dir", _OF_FILES)
        for name in left_out:
            if getattr(self, name) != _default_of(name):
                wanted = next(output for output in _OUTPUTS if output != other)
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, which --{other} does not have; leave it out, or write to "
                    f"--{wanted}."
                )
        check_limits(self.layers_as_given(), **self.limits())

    def layers_as_given(self) -> str | int:
        """A layer's number as such."""
        try:
            return int(self.layers)
        except ValueError:
            return self.layers

    def limits(self) -> dict[str, int]:
        """What is computed and read at once."""
        names = ("max_words_per_batch", "max_words_per_chunk", "max_words_per_buffer")
        return {name: getattr(self, name) for name in names}

    def source(self) -> SentenceSource:
        """The sentences of a file or a data set.

        Raises: FileNotFoundError or ValueError naming the argument and what is wrong with it.
        """
        from ..text.sentence_sources import SentenceSource, sentences_of_dataset, sentences_of_files

        if self.dataset_name is not None:
            return sentences_of_dataset(
                self.dataset_name, self.dataset_config_name, self.dataset_split, self.text_column
            )
        assert self.input_file is not None, "check() asks for one of them"
        if self.input_file == STANDARD_INPUT:
            return SentenceSource(lines_of_standard_input)
        column_format = None if self.input_format == "auto" else self.input_format
        source = sentences_of_files([self.input_file], self.text_column, column_format, self.word_column)
        for note in source.notes:
            print(f"note: {note}", file=sys.stderr)
        return source

    def is_near_at_hand(self) -> bool:
        """Whether the text can be read twice, and without a network."""
        return self.input_file != STANDARD_INPUT and (self.dataset_name is None or Path(self.dataset_name).is_dir())

    def warn_of_raw_text(self, source: SentenceSource, pre_tokenizer: str) -> None:
        """Say, on stderr, where lines do not look as the checkpoint will read them; nothing of words that are cut."""
        if self.input_file in (None, STANDARD_INPUT):
            return
        if all(isinstance(sentence, str) for sentence in islice(source, _FIRST_SENTENCES)):
            warn_of_raw_text(self, pre_tokenizer)


def _default_of(name: str) -> object:
    return EmbeddingArguments.__dataclass_fields__[name].default
