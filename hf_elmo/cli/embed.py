"""Write the vectors of a corpus's words, of its sentences or of a list of words."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..given.flags import check_choices, flag
from .command_line import run_command
from .text_input import STANDARD_INPUT, ReadingArguments, lines_of_standard_input, warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.embedder import ElmoEmbedder
    from ..text.corpora import Corpus, Sentence

_EXAMPLES = """
examples:
  hf-elmo embed --model_name_or_path output/my-elmo --input_file 'corpus/*.txt.gz' --output_dir vectors
  hf-elmo embed --model_name_or_path output/my-elmo --input_file train.conllu --output_dir vectors --layers all
  hf-elmo embed --model_name_or_path output/my-elmo --dataset_name my-data --output_dir vectors --pooling mean
  hf-elmo embed --model_name_or_path output/my-elmo --input_file corpus.txt.gz --output_file vectors.hdf5 --layers all
  hf-elmo embed --model_name_or_path output/my-elmo --vocab_file words.txt --output_file words.bin
  hf-elmo embed --model_name_or_path output/my-elmo --input_file - --output_file vectors.npz --storage_dtype float16
  torchrun --nproc_per_node 2 -m hf_elmo embed --model_name_or_path output/my-elmo --input_file a.txt --output_dir v
"""
_INPUTS = ("input_file", "dataset_name", "vocab_file")
_OUTPUTS = ("output_dir", "output_file")
# What words without context do not have; what an output_dir alone has; what an output_file alone has.
_OF_TEXT = (*("text_is_tokenized", "text_column", "word_column", "carry_state", "store_sentences", "storage_dtype"),)
_OF_DIRECTORIES = ("pooling", "keep_markers", "max_words_per_shard", "format", "overwrite_output_dir")
_OF_FILES = ("carry_state", "store_sentences", "overwrite_output_file")


@dataclass(kw_only=True)
class EmbeddingArguments(ReadingArguments):
    """What is read and what is written."""

    input_file: str | None = flag(  # type: ignore[assignment]
        "Text, one sentence per line, .jsonl or .parquet (a column of texts or of lists of words), or CoNLL columns "
        "(.conll, .conllu, .iob, .iob2, .bio); other suffixes are read as what the file looks like; each also as .gz, "
        ".bz2, .xz or .zst; - for text from standard input. A quoted glob names several files.",
        default=None,
    )
    word_column: int | None = flag(
        "Place of the words among CoNLL columns, from 0; files of any suffix are read as columns then.", default=None
    )
    dataset_name: str | None = flag("Dataset, a directory or a name on the Hub, in place of a file.", default=None)
    dataset_config_name: str | None = flag("The dataset's configuration.", default=None)
    dataset_split: str = flag("The dataset's split.", default="train")
    vocab_file: str | None = flag(
        "Words, one per line, in place of text: --output_file gets their vectors of layer 0 in word2vec's format, "
        "which gensim's KeyedVectors loads, .bin or .txt.",
        default=None,
    )
    output_dir: str | None = flag(
        "Directory of shards to write, a row per sentence with its number, words, their places in the line and "
        "vectors. Run the same command again to resume.",
        default=None,
    )
    output_file: str | None = flag(
        "A single file in place of the directory, written when all is computed: an array per line of the text by its "
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
    format: Literal["arrow", "parquet"] = flag("File format of the shards.", default="arrow")
    carry_state: bool = flag(
        "Carry the state from line to line, as in one long text; without it each line is read by itself. Of single "
        "files.",
        default=False,
    )
    store_sentences: bool = flag(
        "Store the sentences as AllenNLP does (sentence_to_index); takes memory for the whole text. Of single files.",
        default=False,
    )
    storage_dtype: Literal["float32", "float16"] = flag(
        "Precision of what is written; float16 halves it and keeps three digits.", default="float32"
    )
    dtype: Literal["float32", "bfloat16", "float16"] = flag("Precision of the model.", default="float32")
    max_words_per_shard: int = flag(
        "Words of a shard, and two for each sentence; the vectors of one are held in memory.", default=65536
    )
    overwrite_output_dir: bool = flag("Begin anew in a directory that has vectors already.", default=False)
    overwrite_output_file: bool = flag("Replace an existing output file or page, at the end of the run.", default=False)

    def check(self) -> None:
        """Check that the arguments go together.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        check_choices(self)
        for names, wanted in ((_INPUTS, "input"), (_OUTPUTS, "output")):
            given = [f"--{name}" for name in names if getattr(self, name) is not None]
            if len(given) != 1:
                found = " and ".join(given) or f"no {wanted}"
                raise ValueError(f"{found} given; wanted one of {', '.join(f'--{name}' for name in names)}.")
        if self.vocab_file is not None:
            if self.output_file is None:
                raise ValueError(f"output_dir is {self.output_dir!r}; words of --vocab_file go into an --output_file.")
            if self.layers not in ("token", "0", _default_of("layers")):
                raise ValueError(f"layers is {self.layers!r}; words of --vocab_file have no context, which is layer 0.")
            self._refuse(_OF_TEXT, "words of --vocab_file do not have; leave it out.")
        if self.output_dir is None:
            self._refuse(_OF_DIRECTORIES, "--output_file does not have; leave it out, or write to --output_dir.")
        else:
            self._refuse(_OF_FILES, "--output_dir does not have; leave it out, or write to --output_file.")

    def _refuse(self, names: Sequence[str], why: str) -> None:
        for name in names:
            if getattr(self, name) != _default_of(name):
                raise ValueError(f"{name} is {getattr(self, name)!r}, which {why}")

    def layers_as_given(self) -> str | int:
        """A layer's number as such."""
        try:
            return int(self.layers)
        except ValueError:
            return self.layers

    def embedder(self, device: str | None = None, **limits: int) -> ElmoEmbedder:
        """The checkpoint, on the device that was asked for or else on another one."""
        from ..inference.embedder import ElmoEmbedder

        limits = {"max_words_per_batch": self.max_words_per_batch, **limits}
        return ElmoEmbedder(self.model_name_or_path, self.device or device, self.dtype, **limits)

    def corpus(self) -> Corpus | None:
        """The text of a file or a dataset; None for that of standard input.

        Raises: FileNotFoundError or ValueError naming the argument and what is wrong with it.
        """
        from ..text.corpora import corpus_from_dataset, corpus_from_files

        if self.dataset_name is not None:
            return corpus_from_dataset(
                self.dataset_name, self.dataset_config_name, self.dataset_split, self.text_column, takes_words=True
            )
        if self.input_file == STANDARD_INPUT:
            return None
        assert self.input_file is not None, "check() asks for one of them"
        corpus = corpus_from_files(
            [self.input_file], "input_file", self.text_column, takes_words=True, word_column=self.word_column
        )
        for note in corpus.notes:
            print(f"note: {note}", file=sys.stderr)
        return corpus


def _default_of(name: str) -> object:
    return EmbeddingArguments.__dataclass_fields__[name].default


@dataclass
class EmbeddingSummary:
    """What one process wrote in one run: sentences, words that have vectors, seconds of computing and writing.

    Args:
        num_sentences, num_words, num_bytes, seconds: Of this run.
        written: Names of the shards.
        num_shards: Shards of the whole text.
        is_complete: Whether all of them are there.
    """

    num_sentences: int = 0
    num_words: int = 0
    num_bytes: int = 0
    seconds: float = 0.0
    written: list[str] = field(default_factory=list)
    num_shards: int = 0
    is_complete: bool = True


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(EmbeddingArguments, run_embedding, argv, prog, __doc__, _EXAMPLES)


def run_embedding(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Embed a text into a file or a directory and print what was done.

    Raises: ValueError, OSError, ImportError or FloatingPointError naming the argument, what it was and what to do.
    """
    arguments.check()
    if arguments.vocab_file is not None:
        return _embed_words(arguments)
    return _embed_to_directory(arguments) if arguments.output_file is None else _embed_to_file(arguments)


def _embed_words(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Write the vectors of words without context."""
    from ..inference.embedding_files import WORD_SUFFIXES, check_embedding_file, read_words, write_word_vectors

    assert arguments.vocab_file is not None and arguments.output_file is not None, "check() asks for them"
    target = check_embedding_file(arguments.output_file, WORD_SUFFIXES, arguments.overwrite_output_file)
    words = read_words(arguments.vocab_file)
    embedder = arguments.embedder()
    started = time.perf_counter()
    write_word_vectors(embedder, words, target, arguments.overwrite_output_file, arguments.max_words_per_batch)
    summary = EmbeddingSummary(0, len(words), target.stat().st_size, time.perf_counter() - started)
    print(
        f"Embedded {len(words):,} words without context.\n"
        f"Wrote {arguments.output_file}, {summary.num_bytes / 1e6:,.1f} MB: {embedder.vector_size // 2} numbers per "
        "word, for gensim.models.KeyedVectors.load_word2vec_format(file"
        f"{', binary=True' if target.suffix == '.bin' else ''})."
    )
    return summary


def _embed_to_file(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Write an array per sentence into one file."""
    from ..inference.embedding_files import ARRAY_SUFFIXES, check_embedding_file, write_embeddings
    from ..text.progress import track

    assert arguments.output_file is not None
    overwrite = arguments.overwrite_output_file
    target = check_embedding_file(arguments.output_file, ARRAY_SUFFIXES, overwrite)
    corpus = arguments.corpus()
    if corpus is not None and target in (Path(file).resolve() for file in corpus.files):
        raise ValueError(f"output_file {arguments.output_file!r} is the input_file too; name another one.")
    embedder = arguments.embedder()
    warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer, corpus)
    read, texts = _lines_of(corpus), None
    if arguments.store_sentences:
        # A second reader that nobody moves on would keep the whole text.
        read, texts = itertools.tee(read)
    started = time.perf_counter()
    sentences = map(_split, read) if arguments.text_is_tokenized else read
    arrays = embedder.stream(sentences, arguments.layers_as_given(), arguments.carry_state)
    num_sentences, num_words = write_embeddings(
        target,
        track(arrays, "embedding", "sentences"),
        None if texts is None else map(_as_line, texts),
        overwrite,
        arguments.storage_dtype,
    )
    summary = EmbeddingSummary(num_sentences, num_words, target.stat().st_size, time.perf_counter() - started)
    print(
        f"{_describe(summary, arguments, embedder)}\n"
        f"Wrote {arguments.output_file}, {summary.num_bytes / 1e6:,.1f} MB: an array per sentence, by its number from "
        f"0, in {arguments.storage_dtype}."
    )
    return summary


def _embed_to_directory(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Write a directory of shards, alone or as one of the processes that `accelerate launch` or torchrun started."""
    import torch
    from accelerate import PartialState

    from ..given.flags import part_of
    from ..inference.embedding_shards import EmbeddingSettings, EmbeddingWriter, Shard
    from ..text.progress import track

    settings = replace(part_of(arguments, EmbeddingSettings), layers=arguments.layers_as_given())
    settings.check()
    on_cpu = arguments.device == "cpu" or not torch.accelerator.is_available()
    # Of one process alone accelerate would remember the device for whatever comes after.
    state = PartialState(cpu=on_cpu) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else None
    rank, num_ranks = (state.process_index, state.num_processes) if state else (0, 1)
    corpus = arguments.corpus()
    if corpus is None and num_ranks > 1:
        raise ValueError(
            f"input_file '-' with {num_ranks} processes, of which one alone has standard input; give a file."
        )
    device = str(state.device) if state and not on_cpu else None
    # A shard is read ahead as a whole, so that each of its distinct words is encoded once.
    embedder = arguments.embedder(device, max_words_per_buffer=settings.max_words_per_shard)
    assert arguments.output_dir is not None
    writer = EmbeddingWriter(embedder, arguments.output_dir, settings, rank, num_ranks)
    if not rank:
        warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer, corpus)
    with state.main_process_first() if state else nullcontext():
        writer.prepare(arguments.overwrite_output_dir and not rank)

    def size(shard: Shard) -> int:
        return shard.num_words

    # What cannot be read, and another text than that of the shards that are there, is found before any work is done.
    is_near = corpus is not None and (arguments.dataset_name is None or Path(arguments.dataset_name).is_dir())
    total = sum(map(size, writer.shards_left(_lines_of(corpus)))) if is_near else None
    summary, started = EmbeddingSummary(), time.perf_counter()
    left = writer.shards_left(_lines_of(corpus))
    for shard in track(left, "embedding", "words", total, shown=not rank, size=size):
        file, num_words = writer.write(shard)
        summary.written.append(file.name)
        summary.num_bytes += file.stat().st_size
        summary.num_sentences += len(shard.sentences)
        summary.num_words += num_words
    summary.num_shards, summary.is_complete = writer.num_shards, writer.finish()
    summary.seconds = time.perf_counter() - started
    print("\n".join(_describe_shards(summary, arguments, embedder, rank, num_ranks)))
    if state:
        state.destroy_process_group()
    return summary


def _describe(summary: EmbeddingSummary, arguments: EmbeddingArguments, embedder: ElmoEmbedder) -> str:
    pooled = "" if arguments.pooling == "none" else f", {arguments.pooling} of the words"
    how = f"{arguments.layers}{pooled}{', the state carried from line to line' if arguments.carry_state else ''}"
    rate = summary.num_words / max(summary.seconds, 1e-9)
    return (
        f"Embedded {summary.num_sentences:,} sentences of {summary.num_words:,} words ({how}): {rate:,.0f} words/s on "
        f"{embedder.device} in {arguments.dtype}."
    )


def _describe_shards(
    summary: EmbeddingSummary, arguments: EmbeddingArguments, embedder: ElmoEmbedder, rank: int, num_ranks: int
) -> Iterator[str]:
    """The lines that say what this process did."""
    if summary.is_complete and not summary.written and num_ranks == 1:
        yield f"All {summary.num_shards} shards of {arguments.output_dir} were there; nothing was left to do."
        return
    who = f"Process {rank + 1} of {num_ranks}: " if num_ranks > 1 else ""
    yield f"{who}{_describe(summary, arguments, embedder)}"
    yield (
        f"{who}Wrote {len(summary.written)} of {summary.num_shards} shards to {arguments.output_dir}, "
        f"{summary.num_bytes / 1e6:,.1f} MB as {arguments.format} in {arguments.storage_dtype}."
    )
    if summary.is_complete:
        yield f"{who}All {summary.num_shards} shards are there."
    elif num_ranks > 1:
        yield f"{who}Other processes are still at work."


def _lines_of(corpus: Corpus | None) -> Iterator[Sentence]:
    return lines_of_standard_input() if corpus is None else corpus.lines()


def _split(sentence: Sentence) -> list[str]:
    return sentence.split() if isinstance(sentence, str) else sentence


def _as_line(sentence: Sentence) -> str:
    return sentence.strip() if isinstance(sentence, str) else " ".join(sentence)
