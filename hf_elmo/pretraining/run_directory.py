"""The directory of a run: which `checkpoint-N` it holds, and which of them a run goes on from."""

from __future__ import annotations

import os
import re
from pathlib import Path

STATE_FILE = "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d+)")


def checkpoints_in(output_dir: str | os.PathLike) -> dict[int, Path]:
    """The checkpoints of a run's directory by their steps."""
    path = Path(output_dir)
    if not path.is_dir():
        return {}
    found = ((_NAME.fullmatch(entry.name), entry) for entry in path.iterdir() if entry.is_dir())
    return {int(match[1]): entry for match, entry in found if match}


def find_checkpoint(resume: str | None, output_dir: str | os.PathLike) -> Path | None:
    """The checkpoint that a run is to go on from; None for a run that starts.

    Args:
        resume: A checkpoint's directory, "last" for the newest one in output_dir, "auto" for that one where there is
            any; None starts.
        output_dir: The run's directory.
    Raises: FileNotFoundError when there is no such checkpoint.
    """
    if resume is None:
        return None
    if resume in ("last", "auto"):
        found = checkpoints_in(output_dir)
        if found:
            return found[max(found)]
        if resume == "auto":
            return None
        raise FileNotFoundError(
            f"--resume_from_checkpoint is 'last', but output_dir {str(output_dir)!r} holds no checkpoint-N; name "
            "another --output_dir, or pass 'auto' to start where there is none."
        )
    path = Path(resume)
    if not (path / STATE_FILE).is_file():
        raise FileNotFoundError(
            f"--resume_from_checkpoint {resume!r} holds no {STATE_FILE}; name a checkpoint-N directory that a run "
            "saved, 'last' or 'auto'. To train on from finished weights use --model_name_or_path."
        )
    return path
