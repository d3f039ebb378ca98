"""What `hf-elmo predict` does with a labeller of semantic roles: the arguments of each predicate of each line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING

from .delivery import deliver
from .prediction_arguments import PredictionArguments
from .text_input import warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.html_pages import Drawing
    from ..inference.role_labeller import Frame

# The words of a sentence and its predicates.
_Labelled = tuple[list[str], list["Frame"]]


def predict_roles(arguments: PredictionArguments) -> None:
    """Show the arguments of each predicate that is found, or write them in the columns of CoNLL-2005.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..inference.role_labeller import ElmoRoleLabeller

    for name in ("convert_scheme", "text_pair"):
        if getattr(arguments, name) is not None:
            raise ValueError(
                f"{name} is {getattr(arguments, name)!r}, but the checkpoint labels semantic roles; leave it out."
            )
    lines = arguments.lines()
    labeller = ElmoRoleLabeller(
        arguments.model_name_or_path, arguments.device, arguments.max_words_per_batch, arguments.pre_tokenizer
    )
    if not labeller.finds_predicates:
        raise ValueError(
            f"model_name_or_path {arguments.model_name_or_path!r} does not find predicates, which text has no marks "
            "of; name one that was trained with --find_predicates, or score a file that has them by "
            "hf-elmo train semantic-roles --test_file."
        )
    if arguments.input_file is not None:
        warn_of_raw_text(arguments, labeller.tokenizer.pre_tokenizer)
    tokenizer = labeller.tokenizer
    sentences = (line.split() if arguments.text_is_tokenized else tokenizer.tokenize(line) for line in lines)
    kept, read = itertools.tee(sentences)
    # The frames first: the sentences are those that have been computed.
    labelled = ((words, frames) for frames, words in zip(labeller.label(read), kept, strict=False))
    deliver(arguments, labelled, "sentences", _show, _write, _draw)


def _show(labelled: _Labelled) -> list[str]:
    words, frames = labelled
    return [" ".join(words), *(f"  {in_brackets(frame)}" for frame in frames)]


def _write(file: IO[str], labelled: Iterable[_Labelled]) -> str:
    num_sentences = num_frames = 0
    for words, frames in labelled:
        if words:
            file.writelines(f"{line}\n" for line in columns(words, frames))
        num_sentences, num_frames = num_sentences + bool(words), num_frames + len(frames)
    return f"{num_sentences:,} sentences with {num_frames:,} predicates"


def _draw(labelled: Sequence[_Labelled]) -> Drawing:
    from ..inference.html_pages import draw_roles

    return draw_roles(labelled)


def in_brackets(frame: Frame) -> str:
    """A sentence with the arguments of a predicate in brackets: `[ARG0 Alice] [V sleeps] .`"""
    from ..model.modeling_elmo_tasks import read_spans

    words = list(frame.words)
    for span in read_spans(frame.tags, "IOB2"):
        words[span.start] = f"[{span.type} {words[span.start]}"
        words[span.stop - 1] += "]"
    return " ".join(words)


def columns(words: list[str], frames: list[Frame]) -> list[str]:
    """The lines of a sentence: word, itself again where it is a predicate, and the brackets of each predicate."""
    from ..tasks.readers.propositions import write_brackets

    places = {frame.place for frame in frames}
    brackets = [write_brackets(frame.tags) for frame in frames]
    lines = [
        "\t".join([word, word if place in places else "-", *(column[place] for column in brackets)])
        for place, word in enumerate(words)
    ]
    return [*lines, ""]
