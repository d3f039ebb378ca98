"""Nearest neighbors, on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..given import check_least, flag
from .text_input import ReadingArguments, open_text, warn_of_raw_text

EXAMPLES = """
examples:
  hf-elmo neighbors --model_name_or_path output/my-elmo --input_file corpus.txt.gz --words play match
  hf-elmo neighbors --model_name_or_path output/my-elmo --input_file vectors --sentence "They play again ." --word play
"""


@dataclass(kw_only=True)
class NeighborArguments(ReadingArguments):
    """What is looked for in the text, or in a directory that `hf-elmo embed --output_dir` wrote."""

    words: list[str] | None = flag(
        "Words of the text: their nearest words, and some uses with the nearest.", default=None
    )
    sentence: str | None = flag("A sentence of your own: the uses in the text nearest to its words.", default=None)
    word: str | None = flag("The word of --sentence to look for, as it is used there (default: each).", default=None)
    top_k: int | None = flag("Number of nearest uses (default: 1 with --words, 5 with --sentence).", default=None)
    layers: str | None = flag(
        "Vectors to compare: top, token, average, mix or a layer's number (default: top, or those of the directory).",
        default=None,
    )
    same_word: bool = flag("Look at uses of the same word only, in upper or lower case.", default=False)

    def check(self) -> None:
        """Raises: ValueError naming the arguments that do not go together, or the value wanted."""
        check_least(self, ("top_k",), 1)
        if not self.words and self.sentence is None:
            raise ValueError("--words is missing, and --sentence too; say what to look for by one of them.")
        if self.word is not None and self.sentence is None:
            raise ValueError(f"--word is {self.word!r} without --sentence; for words of the text there is --words.")


def show_neighbors(arguments: NeighborArguments) -> None:
    """Find nearest neighbors of words, in context and without."""
    from ..inference.neighbors import UseIndex, describe_sentence, describe_words
    from ..text.progress import track

    arguments.check()
    options: dict[str, Any] = {"same_word": arguments.same_word}
    if arguments.top_k is not None:
        options["count"] = arguments.top_k
    cut = str.split if arguments.text_is_tokenized else str
    corpus = None if Path(arguments.input_file).is_dir() else open_text(arguments)
    embedder = arguments.embedder()
    if corpus is None:
        index = UseIndex.of_shards(arguments.input_file, embedder, arguments.layers)
    else:
        warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer, corpus)
        read = track(map(cut, map(str, corpus.lines())), "reading", "sentences")
        index = UseIndex.of_text(embedder, read, arguments.layers or "top")
    if arguments.words:
        print(describe_words(index, arguments.words, **options), end="\n\n" if arguments.sentence else "\n")
    if arguments.sentence is not None:
        print(describe_sentence(index, cut(arguments.sentence), arguments.word, **options))
