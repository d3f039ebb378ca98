"""A corpus to a directory of shards of vectors, as `hf-elmo embed --output_dir` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .embedding_arguments import EmbeddingArguments
from .text_input import STANDARD_INPUT

if TYPE_CHECKING:
    from ..inference.corpus_embedding import CorpusSummary


def embed_corpus(arguments: EmbeddingArguments) -> CorpusSummary:
    """Embed a corpus into shards, alone or as one of several processes, and print what was done.

    Raises: ValueError, OSError or FloatingPointError naming the argument, what it was and what to do.
    """
    import torch

    from ..inference.corpus_embedding import CorpusEmbedder, VectorSettings
    from ..inference.embedder import ElmoEmbedder
    from ..inference.processes import joined_processes
    from ..text.progress import track

    output_dir = arguments.output_dir or ""
    settings = VectorSettings(
        arguments.layers_as_given(),
        arguments.pooling,
        arguments.keep_markers,
        arguments.text_is_tokenized,
        arguments.storage_dtype,
        arguments.format,
        arguments.compression,
        arguments.max_words_per_shard,
    )
    settings.check()
    on_cpu = arguments.device == "cpu" or not torch.accelerator.is_available()
    with joined_processes(on_cpu) as processes:
        if arguments.input_file == STANDARD_INPUT and processes.count > 1:
            raise ValueError(
                f"input_file '-' with {processes.count} processes, of which one alone has standard input; give a file."
            )
        source = arguments.source()
        device = arguments.device if on_cpu or arguments.device is not None else processes.device
        embedder = ElmoEmbedder(arguments.model_name_or_path, device, arguments.dtype, **arguments.limits())
        corpus_embedder = CorpusEmbedder(embedder, output_dir, settings, processes.rank, processes.count)
        if processes.rank == 0:
            arguments.warn_of_raw_text(source, embedder.tokenizer.pre_tokenizer)
        with processes.first_goes_first():
            corpus_embedder.prepare(arguments.overwrite_output_dir and not processes.rank)
        total = corpus_embedder.words_to_embed(source) if arguments.is_near_at_hand() else None

        def shown(items: Iterator[Any], size: Callable[[Any], int]) -> Iterator[Any]:
            return track(items, "embedding", "words", total, shown=processes.rank == 0, size=size)

        summary = corpus_embedder.run(source, shown)
        print("\n".join(_describe(summary, arguments, str(embedder.device), processes.rank, processes.count)))
    return summary


def _describe(
    summary: CorpusSummary, arguments: EmbeddingArguments, device: str, rank: int, num_ranks: int
) -> Iterator[str]:
    """The lines that say what this process did."""
    if summary.is_complete and not summary.written and num_ranks == 1:
        yield f"All {summary.num_shards} shards of {arguments.output_dir} were there; nothing was left to do."
        return
    who = f"Process {rank + 1} of {num_ranks}: " if num_ranks > 1 else ""
    there = f", {summary.num_skipped} stood there" if summary.num_skipped else ""
    sentences = sum(record.num_sentences for record in summary.written)
    pooled = "" if arguments.pooling == "none" else f", {arguments.pooling} of the words"
    rate = summary.num_words / max(summary.seconds, 1e-9)
    yield (
        f"{who}Embedded {sentences:,} sentences of {summary.num_words:,} words ({arguments.layers}{pooled}): "
        f"{rate:,.0f} words/s on {device} in {arguments.dtype}."
    )
    size = sum(record.num_bytes for record in summary.written)
    yield (
        f"{who}Wrote {len(summary.written)} of {summary.num_shards} shards to {arguments.output_dir}{there}, "
        f"{size / 1e6:,.1f} MB as {arguments.format} in {arguments.storage_dtype}."
    )
    if arguments.storage_dtype != "float32" and summary.written:
        error = summary.storage_error
        yield (
            f"{who}Rounding to {arguments.storage_dtype} changed the vectors by {error.relative:.1e} of their length "
            f"(root mean square), no number by more than {error.largest:.1e}."
        )
    if summary.is_complete:
        yield f"{who}All {summary.num_shards} shards are there."
    elif num_ranks > 1:
        yield f"{who}Other processes are still at work."
