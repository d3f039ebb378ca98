"""The files that a command writes, checked before any work is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .text_input import STANDARD_INPUT


def check_targets(arguments: Any, names: tuple[str, ...]) -> list[Path]:
    """The paths of the files to write; "-", standard output, is left out, and what was not asked for.

    Args:
        arguments: With `input_file` and `overwrite_output_file`.
        names: The arguments that name files to write; the one called "html" names a page.
    Raises: FileExistsError where a name is taken; FileNotFoundError where there is no input; ValueError where a page is
        not called .html, or where a file is the input or another output too.
    """
    from ..hub.writing import check_output_file
    from ..text.corpora import expand_patterns

    is_file = arguments.input_file not in (None, STANDARD_INPUT)
    inputs = expand_patterns([arguments.input_file], "input_file") if is_file else []
    taken = {Path(file).resolve(): "input_file" for file in inputs}
    targets = []
    for name in names:
        file = getattr(arguments, name)
        if file is None or file == "-":
            continue
        if name == "html" and not file.endswith((".html", ".htm")):
            raise ValueError(f"--html is {file!r}; it must end in .html.")
        target = Path(file).resolve()
        if target in taken:
            raise ValueError(f"--{name} is {file!r}, which is the {taken[target]} too; name another file.")
        taken[target] = name
        targets.append(check_output_file(file, arguments.overwrite_output_file, name))
    return targets
