"""A directory that behaves as a mount point, a container's volume, without the rights that a mount takes."""

import errno
import os
from pathlib import Path


def make_volume(directory: Path, monkeypatch) -> Path:
    """Make a directory that no rename moves, and whose borders no rename crosses."""
    directory.mkdir()

    def within_borders(move):
        def checked(source, place):
            source, place = Path(source).absolute(), Path(place).absolute()
            if directory in (source, place):
                raise OSError(errno.EBUSY, "Device or resource busy", str(source))
            if (directory in source.parents) != (directory in place.parents):
                raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))
            move(source, place)

        return checked

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, within_borders(getattr(os, name)))
    return directory
