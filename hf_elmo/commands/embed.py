"""Write the vectors of a text's words to a file."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .command_line import run_command


def _help(text: str, **defaults: Any) -> Any:
    return field(metadata={"help": text}, **defaults)


@dataclass
class EmbeddingArguments:
    """From text to a file of vectors."""

    model_name_or_path: str = _help("Checkpoint: pre-trained, converted, or with a task's head (directory or Hub).")
    input_file: str = _help(
        "Text, one sentence a line, or .jsonl or .parquet; also as .gz. Lines without words are kept, so that vectors "
        "have the numbers of their lines, from 0."
    )
    output_file: str = _help("HDF5 file to write, in one rename at the end: a dataset a sentence, by its number.")
    layers: Literal["mix", "all", "top", "average"] = _help(
        "mix for the scalar mix, (words, D); all for the layers, (layers, words, D); top for the last of them; average "
        "for their mean.",
        default="mix",
    )
    text_is_tokenized: bool = _help(
        "Words stand between white space; without it the checkpoint's tokenizer cuts them.", default=False
    )
    text_column: str = _help("Column that holds the text, in JSON and Parquet.", default="text")
    store_sentences: bool = _help(
        "Store the sentences as AllenNLP does (sentence_to_index); takes memory for the whole text.", default=False
    )
    max_words_per_batch: int = _help("Words computed at once, markers and padding included.", default=2048)
    max_words_per_chunk: int = _help(
        "Sentences longer than this are read in chunks with the state carried; same vectors, less memory.", default=256
    )
    max_words_per_buffer: int = _help("Words read ahead, to put sentences of like length together.", default=32768)
    dtype: Literal["float32", "bfloat16"] = _help("Precision of the model; the file is float32.", default="float32")
    device: str | None = _help("cpu, cuda, cuda:1 ...; left out, cuda where there is one, else cpu.", default=None)
    overwrite_output_file: bool = _help("Replace an existing output file when the run has ended well.", default=False)


@dataclass(frozen=True)
class EmbeddingSummary:
    """What a run wrote, and how fast: words without their markers, seconds of computing and writing."""

    num_sentences: int
    num_words: int
    num_bytes: int
    seconds: float


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(EmbeddingArguments, run_embedding, argv, prog, __doc__)


def run_embedding(arguments: EmbeddingArguments) -> EmbeddingSummary:
    """Embed a text file into an HDF5 file and print what was done.

    Raises: ValueError, OSError or ImportError naming the argument, what it was and what to do.
    """
    import torch
    from tqdm.auto import tqdm

    from ..checkpoints.hdf5 import require_h5py
    from ..checkpoints.loading import load_model, load_tokenizer
    from ..checkpoints.writing import check_output_file
    from ..inference.devices import usable_device
    from ..inference.embedding import check_limits, embed
    from ..inference.embedding_file import write_embeddings
    from ..model.modeling_elmo import ElmoModel
    from ..text.corpora import corpus_from_files, lines_of

    limits = (arguments.max_words_per_batch, arguments.max_words_per_chunk, arguments.max_words_per_buffer)
    check_limits(arguments.layers, *limits)
    require_h5py("vectors of whole corpora")
    target = check_output_file(arguments.output_file, arguments.overwrite_output_file)
    corpus = corpus_from_files([arguments.input_file], "input_file", arguments.text_column)
    if target in (Path(file).resolve() for file in corpus.files):
        raise ValueError(f"output_file {arguments.output_file!r} is the input_file too; name another one.")
    device = usable_device(arguments.device)
    model = load_model(ElmoModel, arguments.model_name_or_path, getattr(torch, arguments.dtype)).to(device)
    tokenizer = load_tokenizer(arguments.model_name_or_path, model.config)
    lines, texts = lines_of(corpus), None
    if arguments.store_sentences:
        # A second reader that nobody moves on would keep the whole text.
        lines, texts = itertools.tee(lines)
    started = time.perf_counter()
    arrays = embed(
        model,
        tokenizer,
        map(str.split, lines) if arguments.text_is_tokenized else lines,
        layers=arguments.layers,
        max_words_per_batch=arguments.max_words_per_batch,
        max_words_per_chunk=arguments.max_words_per_chunk,
        max_words_per_buffer=arguments.max_words_per_buffer,
    )
    num_sentences, num_words = write_embeddings(
        target,
        tqdm(arrays, desc="embedding", unit=" sentences", dynamic_ncols=True, disable=None),
        texts and map(str.strip, texts),
        overwrite=arguments.overwrite_output_file,
    )
    seconds = time.perf_counter() - started
    summary = EmbeddingSummary(num_sentences, num_words, target.stat().st_size, seconds)
    print(
        f"Embedded {num_sentences:,} sentences of {num_words:,} words ({arguments.layers}): {num_words / seconds:,.0f} "
        f"words/s on {device} in {arguments.dtype}.\n"
        f"Wrote {arguments.output_file}, {summary.num_bytes / 1e6:,.1f} MB: a dataset a sentence, by its number from 0."
    )
    return summary
