"""For some words, print the nearest uses by the contextual vector beside the nearest words by the static one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..given.flags import flag
from .command_line import run_command
from .text_input import ReadingArguments, read_lines, warn_of_raw_text

_EXAMPLES = """
examples:
  hf-elmo neighbours --model_name_or_path output/my-elmo --input_file corpus.txt.gz --words play match
  hf-elmo neighbours --model_name_or_path output/my-elmo --input_file corpus.txt.gz \\
      --sentence "They play the match again ." --word play --top_k 5
"""


@dataclass(kw_only=True)
class NeighbourArguments(ReadingArguments):
    """What is looked for in the text."""

    words: list[str] | None = flag(
        "Words of the text: the nearest words, and some uses of each with the nearest use.", default=None
    )
    sentence: str | None = flag(
        "A sentence of yours: the uses in the text that are nearest to its words.", default=None
    )
    word: str | None = flag("The word of --sentence to look for, as it is used there.", default=None)
    top_k: int | None = flag("Nearest uses to show.", default=None)
    layer: int = flag(
        "Layer whose vectors are compared: 0 knows no context, 1 is the first of the biLM, -1 the top one.", default=-1
    )
    same_word: bool = flag("Look at uses of the same word only, in upper or lower case.", default=False)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return super().shown_defaults() | {"word": "each of them", "top_k": "1 with --words, 5 with --sentence"}

    def check(self) -> None:
        """Check that the arguments go together.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
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
    from ..inference.neighbours import UseIndex, describe_neighbours, describe_query
    from ..text.progress import track

    arguments.check()
    cut = str.split if arguments.text_is_tokenized else str
    lines = read_lines(arguments.input_file, arguments.text_column)
    embedder = ElmoEmbedder(
        arguments.model_name_or_path, arguments.device, max_words_per_batch=arguments.max_words_per_batch
    )
    warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer)
    index = UseIndex(
        embedder.model,
        embedder.tokenizer,
        map(cut, track(lines, "reading", "sentences")),
        arguments.layer,
        arguments.max_words_per_batch,
    )
    options = {} if arguments.top_k is None else {"count": arguments.top_k}
    if arguments.words:
        print(describe_neighbours(index, arguments.words, same_word=arguments.same_word, **options))
    if arguments.words and arguments.sentence is not None:
        print()
    if arguments.sentence is not None:
        print(describe_query(index, cut(arguments.sentence), arguments.word, same_word=arguments.same_word, **options))
