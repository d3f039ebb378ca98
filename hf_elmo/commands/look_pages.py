"""What the commands share that draw a page: its name, and the files that stand beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..given.flags import check_choices, flag
from .text_input import STANDARD_INPUT, ReadingArguments


@dataclass(kw_only=True)
class PageArguments(ReadingArguments):
    """What is drawn of which text, and where it goes."""

    # What else is written beside the page and before the picture.
    endings: ClassVar[tuple[str, ...]] = ()

    output_file: str = flag("Page to write, .html; the picture, .png, stands beside it.")
    skip_picture: bool = flag("Leave the picture out, without need of matplotlib.", default=False)
    overwrite_output_file: bool = flag("Replace files that are there.", default=False)

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError, FileExistsError or FileNotFoundError naming the argument, the value got and what is wanted.
        """
        from ..checkpoints.writing import check_output_file
        from ..text.corpora import expand_patterns

        check_choices(self)
        if Path(self.output_file).suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"--output_file is {self.output_file!r}; it must end in .html.")
        inputs = [] if self.input_file == STANDARD_INPUT else expand_patterns([self.input_file], "input_file")
        read = {Path(file).resolve() for file in inputs}
        for file in self.files():
            if file in read:
                raise ValueError(
                    f"output_file {self.output_file!r} means {file.name!r} is written, which is the input_file too; "
                    "name another page."
                )
            check_output_file(file, self.overwrite_output_file)

    def files(self) -> list[Path]:
        """What is written, the page first and the picture last."""
        page = Path(self.output_file).resolve()
        endings = self.endings if self.skip_picture else (*self.endings, ".png")
        return [page, *(page.with_suffix(ending) for ending in endings)]
