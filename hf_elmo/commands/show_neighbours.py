"""For some words, print the nearest uses by the contextual vector beside the nearest words by the static one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .command_line import run_command


@dataclass
class NeighbourArguments:
    """What is compared."""

    model_name_or_path: str = field(metadata={"help": "Checkpoint (directory or Hub).", "aliases": "--model"})
    text_file: str = field(metadata={"help": "Text with the uses, one sentence a line."})
    words: list[str] = field(metadata={"help": "The words to show."})


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(NeighbourArguments, show_neighbours, argv, prog, __doc__)


def show_neighbours(arguments: NeighbourArguments) -> None:
    """Print the neighbours of each word.

    Raises: ValueError or OSError naming the argument.
    """
    from pathlib import Path

    from ..checkpoints.loading import load_model
    from ..inference.neighbours import UseIndex, describe_neighbours
    from ..model.modeling_elmo import ElmoModel
    from ..model.tokenization_elmo import ElmoCharTokenizer

    sentences = Path(arguments.text_file).read_text(encoding="utf-8").splitlines()
    model = load_model(ElmoModel, arguments.model_name_or_path)
    tokenizer = ElmoCharTokenizer.from_pretrained(arguments.model_name_or_path)
    print(describe_neighbours(UseIndex(model, tokenizer, sentences), arguments.words))
