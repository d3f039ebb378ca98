"""Where predictions go: to the screen, or into a file of the task's own form and a page to look at."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

from .prediction_arguments import PredictionArguments
from .text_input import STANDARD_INPUT

if TYPE_CHECKING:
    from ..inference.html_pages import Drawing

Prediction = TypeVar("Prediction")

_PAGE_ENDINGS = (".html", ".htm")
# Browsers grow slow on longer pages.
_MOST_DRAWN = 1000


def check_targets(arguments: PredictionArguments) -> None:
    """Check, before any work is done, the files that a run writes.

    Raises: FileExistsError where a name is taken; ValueError where html does not end as pages do, or where a file is
        the input, or both are the same.
    """
    from ..checkpoints.writing import check_output_file

    if arguments.html is not None and not arguments.html.endswith(_PAGE_ENDINGS):
        raise ValueError(f"html is {arguments.html!r}; wanted the name of a page, which ends in .html.")
    taken = {} if arguments.input_file is None else {Path(arguments.input_file).resolve(): "input_file"}
    for name, file in _targets(arguments).items():
        if file in taken:
            raise ValueError(f"{name} {getattr(arguments, name)!r} is the {taken[file]} too; name another one.")
        taken[file] = name
        check_output_file(getattr(arguments, name), arguments.overwrite_output_file, name)


def deliver(
    arguments: PredictionArguments,
    predictions: Iterable[Prediction],
    unit: str,
    show: Callable[[Prediction], Iterable[str]],
    write: Callable[[IO[str], Iterable[Prediction]], str],
    draw: Callable[[Sequence[Prediction]], Drawing],
) -> None:
    """Write predictions into the files that were asked for, all of them at the end or none, or else show them.

    Args:
        arguments: Name the files, which `check_targets` has checked.
        predictions: Made one after another.
        unit: What one is called, in the plural.
        show: The lines of one on the screen.
        write: Writes all of them in the task's own form and says in some words what they were; it may raise ValueError
            where they cannot be written.
        draw: What a page shows of them.
    """
    from ..checkpoints.writing import files_written_aside
    from ..text.progress import track

    targets = _targets(arguments)
    if not targets:
        for prediction in predictions:
            for line in show(prediction):
                print(line)
        return
    drawn = _Drawn(_MOST_DRAWN if "html" in targets else 0)
    with files_written_aside(*targets.values()) as asides:
        aside = dict(zip(targets, asides, strict=True))
        # Where a page alone is wanted, what is written is dropped, but counted as ever.
        with open(aside.get("output_file", os.devnull), "w", encoding="utf-8", newline="\n") as file:
            written = write(file, track(drawn.passing(predictions), "predicting", unit))
        if "html" in aside:
            page = _page(arguments, draw(drawn.kept), drawn, unit)
            aside["html"].write_text(page, encoding="utf-8", newline="\n")
    print(f"Wrote {' and '.join(str(getattr(arguments, name)) for name in targets)}: {written}.")


class _Drawn:
    """Keeps the first ones of what passes by, and counts it."""

    def __init__(self, most: int):
        self.kept: list = []
        self.number = 0
        self._most = most

    def passing(self, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
        for prediction in predictions:
            if self.number < self._most:
                self.kept.append(prediction)
            self.number += 1
            yield prediction


def _targets(arguments: PredictionArguments) -> dict[str, Path]:
    """The files to write by the arguments that name them; a link stands for the file it names."""
    named = {"output_file": arguments.output_file, "html": arguments.html}
    return {name: Path(file).resolve() for name, file in named.items() if file is not None}


def _page(arguments: PredictionArguments, drawing: Drawing, drawn: _Drawn, unit: str) -> str:
    from ..inference.html_pages import render_page

    model, file = arguments.model_name_or_path, arguments.input_file
    facts = [
        # No folders of this machine.
        f"model {Path(model).resolve().name if os.path.isdir(model) else model}",
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        *([] if file in (None, STANDARD_INPUT) else [Path(str(file)).name]),
    ]
    is_whole = len(drawn.kept) == drawn.number
    note = None if is_whole else f"The first {len(drawn.kept):,} of {drawn.number:,} {unit}."
    return render_page(drawing, facts, note)
