"""Write the vectors of a text's words to a file."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..given.flags import flag
from .command_line import run_command
from .text_input import ReadingArguments, read_lines, warn_of_raw_text

_EXAMPLES = """
examples:
  hf-elmo embed --model_name_or_path output/my-elmo --input_file corpus.txt.gz --output_file vectors.hdf5 --layers all
  hf-elmo embed --model_name_or_path output/my-elmo --input_file - --output_file vectors.npz --storage_dtype float16
"""


@dataclass(kw_only=True)
class EmbeddingArguments(ReadingArguments):
    """What is written."""

    output_file: str = flag(
        "File to write, in one rename at the end, an array per line of the text by its number from 0, lines without "
        "words included: .hdf5 or .h5 as the old tools wrote it, h5py.File(name)['0'], or .npz, np.load(name)['0']."
    )
    layers: str = flag(
        "mix for the scalar mix, (words, D); all for the layers, (layers, words, D); top for the last of them; average "
        "for their mean; token for layer 0, without context; or a layer's number.",
        default="mix",
    )
    carry_state: bool = flag(
        "Carry the state from line to line, as in one long text; without it each line is read by itself.", default=False
    )
    store_sentences: bool = flag(
        "Store the sentences as AllenNLP does (sentence_to_index); takes memory for the whole text.", default=False
    )
    storage_dtype: Literal["float32", "float16"] = flag(
        "Precision of the file; float16 halves it and keeps three digits.", default="float32"
    )
    compression: Literal["none", "gzip"] = flag(
        "gzip makes the file about a tenth smaller, and writing slower.", default="none"
    )
    dtype: Literal["float32", "bfloat16", "float16"] = flag("Precision of the model.", default="float32")
    max_words_per_chunk: int = flag(
        "Sentences longer than this are read in chunks with the state carried; same vectors, less memory.", default=256
    )
    max_words_per_buffer: int = flag("Words read ahead, to put sentences of like length together.", default=32768)
    overwrite_output_file: bool = flag("Replace an existing output file when the run has ended well.", default=False)


@dataclass(frozen=True)
class EmbeddingSummary:
    """What a run wrote, and how fast: words without their markers, seconds of computing and writing."""

    num_sentences: int
    num_words: int
    num_bytes: int
    seconds: float


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(EmbeddingArguments, run_embedding, argv, prog, __doc__, _EXAMPLES)


def run_embedding(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Embed a text into a file and print what was done.

    Raises: ValueError, OSError, ImportError or FloatingPointError naming the argument, what it was and what to do.
    """
    from ..inference.embedder import ElmoEmbedder
    from ..inference.embedding import check_limits
    from ..inference.embedding_file import check_embedding_file, write_embeddings
    from ..text.progress import track

    layers = _number_or_name(arguments.layers)
    limits = {
        name: getattr(arguments, name)
        for name in ("max_words_per_batch", "max_words_per_chunk", "max_words_per_buffer")
    }
    check_limits(layers, **limits)
    storage = (arguments.overwrite_output_file, arguments.storage_dtype, arguments.compression)
    target = check_embedding_file(arguments.output_file, *storage)
    lines, texts = read_lines(arguments.input_file, arguments.text_column, arguments.output_file), None
    embedder = ElmoEmbedder(arguments.model_name_or_path, arguments.device, arguments.dtype, **limits)
    if arguments.store_sentences:
        # A second reader that nobody moves on would keep the whole text.
        lines, texts = itertools.tee(lines)
    warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer)
    started = time.perf_counter()
    sentences = map(str.split, lines) if arguments.text_is_tokenized else lines
    arrays = embedder.stream(sentences, layers, arguments.carry_state)
    num_sentences, num_words = write_embeddings(
        target, track(arrays, "embedding", "sentences"), texts and map(str.strip, texts), *storage
    )
    seconds = time.perf_counter() - started
    states = ", the state carried from line to line" if arguments.carry_state else ""
    summary = EmbeddingSummary(num_sentences, num_words, target.stat().st_size, seconds)
    print(
        f"Embedded {num_sentences:,} sentences of {num_words:,} words ({layers}{states}): {num_words / seconds:,.0f} "
        f"words/s on {embedder.device} in {arguments.dtype}.\n"
        f"Wrote {arguments.output_file}, {summary.num_bytes / 1e6:,.1f} MB: an array per sentence, by its number from "
        f"0, in {arguments.storage_dtype}."
    )
    return summary


def _number_or_name(layers: str) -> str | int:
    try:
        return int(layers)
    except ValueError:
        return layers
