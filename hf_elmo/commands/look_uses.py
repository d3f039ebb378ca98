"""Draw the uses of words in every layer, as a page in which they can be clicked, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..given.flags import check_least, flag
from .command_line import run_command
from .look_pages import PageArguments
from .text_input import STANDARD_INPUT, read_lines, warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.word_uses import Sentence
    from ..model.tokenization_elmo import ElmoCharTokenizer

_EXAMPLES = """
examples:
  hf-elmo look uses --model_name_or_path output/my-elmo --input_file corpus.txt.gz --words play bank,banks \\
      --output_file play.html
  hf-elmo look uses --model_name_or_path output/my-elmo --input_file senses.jsonl --output_file senses.html
  hf-elmo look uses --model_name_or_path output/my-elmo --input_file train.conllu --words like --output_file like.html
"""


@dataclass(kw_only=True)
class UsesArguments(PageArguments):
    """What is drawn.

    Files of senses (.jsonl with tokens, index and sense in each record) and of parts of speech (.conllu) colour the
    uses by these, other texts by clusters.
    """

    words: list[str] | None = flag(
        "Words to look at, as they stand in the text; several forms of one with commas between them, play,Play,plays.",
        default=None,
    )
    max_uses: int = flag("Uses drawn of each word; of more, some are chosen by a hash of their sentences.", default=400)
    top_k: int = flag("Nearest uses that a click shows.", default=5)
    colour_by: Literal["label", "cluster"] = flag(
        "Whether senses and parts of speech give the colours, where the text has them, or clusters.", default="label"
    )
    clusters: int | None = flag("How many clusters there are.", default=None)
    cluster_layer: int = flag("Layer whose vectors are clustered, from 0, or -1, the top one.", default=-1)
    projection: Literal["pca", "umap"] = flag(
        "How layers are brought to two dimensions: on their principal components, or by UMAP, which shows groups more "
        "clearly and distances less.",
        default="pca",
    )

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return super().shown_defaults() | {
            "words": "of a file of senses, the word that has them",
            "clusters": "2 to 6, by their silhouette",
        }

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted.
        """
        check_least(self, ("max_uses", "top_k", "clusters"), 1)
        super().check()

    def forms(self) -> list[list[str]] | None:
        """The forms of each word."""
        if self.words is None:
            return None
        # A comma is a word, too.
        return [[form for form in word.split(",") if form] or [word] for word in self.words]


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(UsesArguments, look_at_uses, argv, prog, __doc__, _EXAMPLES)


def look_at_uses(arguments: UsesArguments) -> None:
    """Write the page and the picture.

    Raises: ValueError, OSError or ImportError naming the argument, or what is not installed.
    """
    from ..checkpoints.writing import files_written_aside
    from ..inference.embedder import ElmoEmbedder
    from ..inference.use_maps import CLUSTER, map_uses
    from ..inference.use_page import render_page
    from ..inference.use_picture import plot_uses
    from ..inference.word_uses import StaticWords, UseGatherer
    from ..text.progress import track

    arguments.check()
    embedder = ElmoEmbedder(
        arguments.model_name_or_path, arguments.device, max_words_per_batch=arguments.max_words_per_batch
    )
    label, texts = _open_texts(arguments, embedder.tokenizer)
    found, counts = [], None
    asked = arguments.forms()
    gatherer = UseGatherer(asked)
    for sentences in texts:
        gatherer.read(track(sentences, "reading", "sentences"))
        if asked is None:
            # Each file of senses has a word of its own.
            found += gatherer.found(arguments.max_uses)
            counts = gatherer.counts if counts is None else counts + gatherer.counts
            gatherer = UseGatherer()
    if asked is not None:
        found, counts = gatherer.found(arguments.max_uses), gatherer.counts
    assert counts is not None
    static = StaticWords(embedder.model, embedder.tokenizer, counts)
    grouped_by = CLUSTER if arguments.colour_by == "cluster" else label
    maps = [
        map_uses(
            embedder.model,
            embedder.tokenizer,
            each,
            static,
            grouped_by,
            arguments.clusters,
            arguments.cluster_layer,
            arguments.top_k,
            arguments.max_words_per_batch,
            arguments.projection,
        )
        for each in track(found, "drawing", "words", len(found))
    ]
    name, text = Path(embedder.name).name, Path(arguments.input_file).name
    facts = [f"model {name}", f"text {text}, {counts.total():,} words", "drawn by hf_elmo"]
    files = arguments.files()
    with files_written_aside(*files) as aside:
        aside[0].write_text(render_page(maps, facts), encoding="utf-8")
        for picture in aside[1:]:
            plot_uses(maps, picture)
    for drawn in maps:
        agreed = ", ".join(f"{share:.0%} in layer {layer}" for layer, share in enumerate(drawn.agreement(), start=1))
        print(
            f"{drawn.found.word}: {len(drawn.uses):,} uses of {drawn.found.num_found:,}, {len(drawn.groups)} groups by "
            f"{drawn.grouped_by}; the nearest use is of the same group for {agreed} (by chance {drawn.chance():.0%})."
        )
    print(f"Wrote {' and '.join(map(str, files))}.")


def _open_texts(arguments: UsesArguments, tokenizer: ElmoCharTokenizer) -> tuple[str, Iterator[Iterator[Sentence]]]:
    """What the labels of the text are, and the sentences of each file that is read by itself."""
    from ..inference.use_maps import CLUSTER
    from ..tasks.readers.columns import read_tagged_file
    from ..tasks.readers.senses import holds_senses, read_senses
    from ..text.columns import column_format_of
    from ..text.corpora import expand_patterns

    name = "input_file"
    files = [] if arguments.input_file == STANDARD_INPUT else expand_patterns([arguments.input_file], name)
    if files and all(holds_senses(file, name) for file in files):
        labelled = (((use.words, use.labels) for use in read_senses(file, name)) for file in files)
        return "sense", labelled
    if arguments.words is None:
        raise ValueError("--words is missing; only files of senses say themselves which words are meant.")
    if files and all(column_format_of(file, name) == "conllu" for file in files):
        tagged = (read_tagged_file(file, name=name) for file in files)
        return "part of speech", (zip(each.words, each.labels, strict=True) for each in tagged)
    warn_of_raw_text(arguments, tokenizer.pre_tokenizer)
    cut = str.split if arguments.text_is_tokenized else tokenizer.tokenize
    lines = read_lines(arguments.input_file, arguments.text_column)
    return CLUSTER, iter([((cut(line), None) for line in lines)])
