"""Write the vectors of a corpus's words, of its sentences or of a list of words."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command_line import run_command
from .embedding_arguments import EmbeddingArguments

if TYPE_CHECKING:
    from ..inference.corpus_embedding import CorpusSummary
    from ..text.sentence_sources import Sentence

_EXAMPLES = """
examples:
  hf-elmo embed --model_name_or_path output/my-elmo --input_file 'corpus/*.txt.gz' --output_dir vectors
  hf-elmo embed --model_name_or_path output/my-elmo --input_file train.conllu --output_dir vectors --layers all
  hf-elmo embed --model_name_or_path output/my-elmo --dataset_name my-data --output_dir vectors --pooling mean
  hf-elmo embed --model_name_or_path output/my-elmo --input_file corpus.txt.gz --output_file vectors.hdf5 --layers all
  hf-elmo embed --model_name_or_path output/my-elmo --vocabulary words.txt --output_file words.bin
  hf-elmo embed --model_name_or_path output/my-elmo --input_file - --output_file vectors.npz --storage_dtype float16
  torchrun --nproc_per_node 2 -m hf_elmo embed --model_name_or_path output/my-elmo --input_file a.txt --output_dir v
"""


@dataclass(frozen=True)
class EmbeddingSummary:
    """What a run wrote, and how fast: words without their markers, seconds of computing and writing."""

    num_sentences: int
    num_words: int
    num_bytes: int
    seconds: float


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(EmbeddingArguments, run_embedding, argv, prog, __doc__, _EXAMPLES)


def run_embedding(arguments: EmbeddingArguments) -> EmbeddingSummary | CorpusSummary:
    """Embed a text into a file or a directory and print what was done.

    Raises: ValueError, OSError, ImportError or FloatingPointError naming the argument, what it was and what to do.
    """
    from .embed_corpus import embed_corpus

    arguments.check()
    if arguments.vocabulary is not None:
        return _embed_words(arguments)
    return embed_corpus(arguments) if arguments.output_file is None else _embed_to_file(arguments)


def _embed_words(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Write the vectors of words without context."""
    from ..inference.embedder import ElmoEmbedder
    from ..inference.word_vector_files import check_word_vector_file, read_words, write_word_vectors

    assert arguments.vocabulary is not None and arguments.output_file is not None, "check() asks for them"
    target = check_word_vector_file(arguments.output_file, arguments.overwrite_output_file)
    words, num_repeated = read_words(arguments.vocabulary)
    embedder = ElmoEmbedder(arguments.model_name_or_path, arguments.device, arguments.dtype)
    started = time.perf_counter()
    write_word_vectors(embedder, words, target, arguments.overwrite_output_file, arguments.max_words_per_batch)
    seconds = time.perf_counter() - started
    summary = EmbeddingSummary(0, len(words), target.stat().st_size, seconds)
    repeated = f"; {num_repeated:,} lines that repeat a word were left out" if num_repeated else ""
    print(
        f"Embedded {len(words):,} words without context{repeated}.\n"
        f"Wrote {arguments.output_file}, {summary.num_bytes / 1e6:,.1f} MB: {embedder.vector_size // 2} numbers per "
        "word, for gensim.models.KeyedVectors.load_word2vec_format(file"
        f"{', binary=True' if target.suffix == '.bin' else ''})."
    )
    return summary


def _embed_to_file(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Write an array per sentence into one file."""
    from ..inference.embedder import ElmoEmbedder
    from ..inference.embedding_file import check_embedding_file, write_embeddings
    from ..text.progress import track

    assert arguments.output_file is not None
    storage: tuple[bool, Any, Any] = (
        arguments.overwrite_output_file,
        arguments.storage_dtype,
        arguments.compression,
    )
    target = check_embedding_file(arguments.output_file, *storage)
    source = arguments.source()
    if target in (Path(file).resolve() for file in source.files):
        raise ValueError(f"output_file {arguments.output_file!r} is the input_file too; name another one.")
    embedder = ElmoEmbedder(arguments.model_name_or_path, arguments.device, arguments.dtype, **arguments.limits())
    read, texts = iter(source), None
    if arguments.store_sentences:
        # A second reader that nobody moves on would keep the whole text.
        read, texts = itertools.tee(read)
    arguments.warn_of_raw_text(source, embedder.tokenizer.pre_tokenizer)
    started = time.perf_counter()
    sentences = map(_split, read) if arguments.text_is_tokenized else read
    arrays = embedder.stream(sentences, arguments.layers_as_given(), arguments.carry_state)
    lines = None if texts is None else map(_as_line, texts)
    num_sentences, num_words = write_embeddings(target, track(arrays, "embedding", "sentences"), lines, *storage)
    seconds = time.perf_counter() - started
    states = ", the state carried from line to line" if arguments.carry_state else ""
    summary = EmbeddingSummary(num_sentences, num_words, target.stat().st_size, seconds)
    print(
        f"Embedded {num_sentences:,} sentences of {num_words:,} words ({arguments.layers}{states}): "
        f"{num_words / seconds:,.0f} words/s on {embedder.device} in {arguments.dtype}.\n"
        f"Wrote {arguments.output_file}, {summary.num_bytes / 1e6:,.1f} MB: an array per sentence, by its number from "
        f"0, in {arguments.storage_dtype}."
    )
    return summary


def _split(sentence: Sentence) -> list[str]:
    return sentence.split() if isinstance(sentence, str) else sentence


def _as_line(sentence: Sentence) -> str:
    return sentence.strip() if isinstance(sentence, str) else " ".join(sentence)
