"""What `hf-elmo predict` does with a coreference model: the clusters of a document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .prediction_arguments import PredictionArguments
from .text_input import warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.coreference import ResolvedText

_COLUMNS = ".conll"


def predict_clusters(arguments: PredictionArguments) -> None:
    """Show or write the clusters of a text, all of which is one document.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..checkpoints.writing import check_output_file, files_written_aside
    from ..inference.coreference import ElmoCoreference

    for name in ("convert_scheme", "text_pair"):
        if getattr(arguments, name) is not None:
            raise ValueError(
                f"{name} is {getattr(arguments, name)!r}, but the checkpoint finds clusters of mentions; leave it out."
            )
    target = None
    if arguments.output_file is not None:
        target = check_output_file(arguments.output_file, arguments.overwrite_output_file)
    text = "\n".join(arguments.lines())
    if not text.strip():
        raise ValueError(f"input_file {arguments.input_file!r} holds no text; give one with text in it.")
    resolver = ElmoCoreference(arguments.model_name_or_path, arguments.device, arguments.pre_tokenizer)
    if arguments.input_file is not None:
        warn_of_raw_text(arguments, resolver.tokenizer.pre_tokenizer)
    resolved = resolver.resolve(text, arguments.text_is_tokenized)
    if target is None:
        for cluster in resolved.clusters:
            print(
                " | ".join(f"{' '.join(mention.text.split())} [{mention.start}:{mention.stop}]" for mention in cluster)
            )
        if not resolved.clusters:
            print("no clusters")
        return
    name = target.stem
    with files_written_aside(target) as (aside,), open(aside, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(_columns(name, resolved) if target.suffix == _COLUMNS else [_record(resolved)])
    count = sum(map(len, resolved.word_clusters))
    print(f"Wrote {arguments.output_file}: {count:,} mentions in {len(resolved.word_clusters):,} clusters.")


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
