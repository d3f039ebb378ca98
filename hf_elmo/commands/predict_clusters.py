"""What `hf-elmo predict` does with a coreference model: the clusters of a document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .delivery import deliver
from .prediction_arguments import PredictionArguments
from .text_input import warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.coreference import ResolvedText
    from ..inference.html_pages import Drawing

_COLUMNS = ".conll"


def predict_clusters(arguments: PredictionArguments) -> None:
    """Show or write the clusters of a text, all of which is one document.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..inference.coreference import ElmoCoreference

    for name in ("convert_scheme", "text_pair"):
        if getattr(arguments, name) is not None:
            raise ValueError(
                f"{name} is {getattr(arguments, name)!r}, but the checkpoint finds clusters of mentions; leave it out."
            )
    if arguments.max_words_per_batch != PredictionArguments.max_words_per_batch:
        raise ValueError(
            f"max_words_per_batch is {arguments.max_words_per_batch}, but the checkpoint reads a document as a whole; "
            "leave it out."
        )
    text = "\n".join(arguments.lines())
    if not text.strip():
        raise ValueError(f"input_file {arguments.input_file!r} holds no text; give one with text in it.")
    resolver = ElmoCoreference(arguments.model_name_or_path, arguments.device, arguments.pre_tokenizer)
    if arguments.input_file is not None:
        warn_of_raw_text(arguments, resolver.tokenizer.pre_tokenizer)
    resolved = resolver.resolve(text, arguments.text_is_tokenized)
    deliver(arguments, [resolved], "documents", _show, partial(_write, arguments), _draw)


def _show(resolved: ResolvedText) -> list[str]:
    return [
        " | ".join(f"{' '.join(mention.text.split())} [{mention.start}:{mention.stop}]" for mention in cluster)
        for cluster in resolved.clusters
    ] or ["no clusters"]


def _write(arguments: PredictionArguments, file: IO[str], documents: Iterable[ResolvedText]) -> str:
    (resolved,) = documents
    if arguments.output_file is not None and arguments.output_ending == _COLUMNS:
        file.writelines(_columns(Path(arguments.output_file).stem, resolved))
    else:
        file.write(_record(resolved))
    count = sum(map(len, resolved.word_clusters))
    return f"{count:,} mentions in {len(resolved.word_clusters):,} clusters"


def _draw(documents: Sequence[ResolvedText]) -> Drawing:
    from ..inference.html_pages import draw_clusters

    return draw_clusters(documents[0])


def _columns(name: str, resolved: ResolvedText) -> Iterator[str]:
    from ..tasks.readers.documents import Document, Mention, document_lines

    clusters = [[Mention(*mention) for mention in cluster] for cluster in resolved.word_clusters]
    return (f"{line}\n" for line in document_lines(Document(name, 0, resolved.sentences, clusters)))


def _record(resolved: ResolvedText) -> str:
    clusters = [
        [{"start": mention.start, "end": mention.stop, "text": mention.text} for mention in cluster]
        for cluster in resolved.clusters
    ]
    return json.dumps({"text": resolved.text, "clusters": clusters}, ensure_ascii=False, indent=1) + "\n"
