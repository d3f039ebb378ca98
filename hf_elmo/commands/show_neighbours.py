"""For some words, print the nearest uses by the contextual vector beside the nearest words by the static one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..given.flags import flag
from .command_line import run_command
from .text_input import ReadingArguments, read_lines, warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.embedder import ElmoEmbedder
    from ..inference.neighbours import UseFinder, UseIndex
    from ..inference.shard_search import ShardBatch, ShardIndex

_EXAMPLES = """
examples:
  hf-elmo neighbours --model_name_or_path output/my-elmo --input_file corpus.txt.gz --words play match
  hf-elmo neighbours --model_name_or_path output/my-elmo --input_file corpus.txt.gz \\
      --sentence "They play the match again ." --word play --top_k 5
  hf-elmo neighbours --model_name_or_path output/my-elmo --vectors vectors --sentence "They play again ." --word play
"""


@dataclass(kw_only=True)
class NeighbourArguments(ReadingArguments):
    """What is looked for in the text."""

    # As the second argument, where it stood before it could be left out.
    input_file: str | None = flag(  # type: ignore[assignment]
        "Text, one sentence per line, or .jsonl or .parquet; each also as .gz, .bz2, .xz or .zst; - for "
        "text from standard input. A quoted glob names several files.",
        default=None,
        aliases=("--text_file",),
        kw_only=False,
    )
    vectors: str | None = flag(
        "Directory that `hf-elmo embed --output_dir` wrote, in place of the text: the uses nearest to those of "
        "--sentence in a corpus of any size.",
        default=None,
    )
    words: list[str] | None = flag(
        "Words of the text: the nearest words, and some uses of each with the nearest use.", default=None
    )
    sentence: str | None = flag(
        "A sentence of yours: the uses in the text that are nearest to its words.", default=None
    )
    word: str | None = flag("The word of --sentence to look for, as it is used there.", default=None)
    top_k: int | None = flag("Nearest uses to show.", default=None)
    layer: int | None = flag(
        "Layer whose vectors are compared: 0 knows no context, 1 is the first of the biLM, -1 the top one.",
        default=None,
    )
    same_word: bool = flag("Look at uses of the same word only, in upper or lower case.", default=False)
    approximate: bool = flag(
        "In --vectors look by way of clusters, which the first search makes and keeps there: later ones take a share "
        "of the time, and may miss a use; only for words of which they find none are all uses compared.",
        default=False,
    )

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return super().shown_defaults() | {
            "word": "each of them",
            "top_k": "1 with --words, 5 with --sentence",
            "layer": "-1, or the one of --vectors",
        }

    def check(self) -> None:
        """Check that the arguments go together.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        if (self.input_file is None) == (self.vectors is None):
            found = "neither --input_file nor --vectors" if self.vectors is None else "--input_file and --vectors"
            raise ValueError(f"{found} given; wanted one of them.")
        if self.approximate and self.vectors is None:
            raise ValueError("--approximate given without --vectors; in a text all uses are compared.")
        if self.vectors is not None and self.words:
            raise ValueError(f"--words is {self.words!r}; in --vectors look by --sentence, and --word of it.")
        if not self.words and self.sentence is None:
            raise ValueError("--words is missing, and --sentence too; say what to look for by one of them.")
        if self.word is not None and self.sentence is None:
            raise ValueError(f"--word is {self.word!r} without --sentence; for words of the text there is --words.")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"--top_k is {self.top_k}; it must be >= 1.")


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(NeighbourArguments, show_neighbours, argv, prog, __doc__, _EXAMPLES)


def show_neighbours(arguments: NeighbourArguments) -> None:
    """Print the neighbours of each word; a word that the text lacks is named.

    Raises: ValueError or OSError naming the argument.
    """
    from ..inference.embedder import ElmoEmbedder
    from ..inference.neighbours import describe_neighbours, describe_query

    arguments.check()
    cut = str.split if arguments.text_is_tokenized else str
    options = {} if arguments.top_k is None else {"count": arguments.top_k}
    lines = None if arguments.input_file is None else read_lines(arguments.input_file, arguments.text_column)
    embedder = ElmoEmbedder(
        arguments.model_name_or_path, arguments.device, max_words_per_batch=arguments.max_words_per_batch
    )
    if lines is None:
        index: UseFinder = _index_of_shards(arguments, embedder)
    else:
        warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer)
        index = uses = _index_of_text(arguments, embedder, map(cut, lines))
        if arguments.words:
            print(describe_neighbours(uses, arguments.words, same_word=arguments.same_word, **options))
        if arguments.words and arguments.sentence is not None:
            print()
    if arguments.sentence is not None:
        print(describe_query(index, cut(arguments.sentence), arguments.word, same_word=arguments.same_word, **options))


def _index_of_text(
    arguments: NeighbourArguments, embedder: ElmoEmbedder, sentences: Iterator[str | list[str]]
) -> UseIndex:
    from ..inference.neighbours import UseIndex
    from ..text.progress import track

    layer = -1 if arguments.layer is None else arguments.layer
    read = track(sentences, "reading", "sentences")
    return UseIndex(embedder.model, embedder.tokenizer, read, layer, arguments.max_words_per_batch)


def _index_of_shards(arguments: NeighbourArguments, embedder: ElmoEmbedder) -> ShardIndex:
    from ..inference.cluster_search import ClusterIndex
    from ..inference.shard_search import ShardIndex
    from ..text.progress import track

    def shown(batches: Iterator[ShardBatch], num_words: int) -> Iterator[ShardBatch]:
        return track(batches, "searching", "words", num_words, size=lambda batch: len(batch.words))

    kind = ClusterIndex if arguments.approximate else ShardIndex
    return kind(arguments.vectors or "", embedder, arguments.layer, shown)
