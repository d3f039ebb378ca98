"""The directory of a run: which `checkpoint-N` it holds, and which of them a run goes on from."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import Any

from ..checkpoints.file_names import CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE
from ..given.bounded_files import MEBIBYTE, leads_out
from ..given.bounded_json import parse_json, read_json
from .digests import find_altered

STATE_FILE = "trainer_state.json"
OPTIMIZER_FILE = "optimizer.pt"
_MODEL_FILES = (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE)
# The history of the longest runs takes some megabytes.
_MOST_STATE_BYTES = 1024 * MEBIBYTE
_MOST_PROCESSES = 2**16
# safetensors itself reads no longer header.
_MOST_HEADER_BYTES = 100_000_000
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
        resume: A checkpoint's directory, "last" for the newest whole one in output_dir, "auto" for that one where there
            is any; None starts.
        output_dir: The run's directory.
    Raises: FileNotFoundError when there is no such checkpoint, or it is not whole.
    """
    if resume is None:
        return None
    if resume in ("last", "auto"):
        newest_first = (path for _, path in sorted(checkpoints_in(output_dir).items(), reverse=True))
        whole = next((path for path in newest_first if find_fault(path) is None), None)
        if whole is not None:
            return whole
        if resume == "auto":
            return None
        raise FileNotFoundError(
            f"--resume_from_checkpoint is 'last', but output_dir {str(output_dir)!r} holds no "
            f"{'whole ' if checkpoints_in(output_dir) else ''}checkpoint-N; name another --output_dir, or pass 'auto' "
            "to start where there is none."
        )
    path = Path(resume)
    if not (path / STATE_FILE).is_file():
        raise FileNotFoundError(
            f"--resume_from_checkpoint {resume!r} holds no {STATE_FILE}; name a checkpoint-N directory that a run "
            "saved, 'last' or 'auto'. To train on from finished weights use --model_name_or_path."
        )
    fault = find_fault(path)
    if fault is not None:
        raise FileNotFoundError(f"--resume_from_checkpoint {resume!r} is not whole: {fault}; name another one.")
    return path


def find_faults(output_dir: str | os.PathLike) -> dict[Path, str]:
    """The checkpoints of a run's directory that are not whole, newest first, and what is wrong with each.

    Files are held against their digests as far back as the newest whole checkpoint, which a run would go on from.
    """
    faults = {}
    has_whole = False
    for _, path in sorted(checkpoints_in(output_dir).items(), reverse=True):
        fault = find_fault(path, by_digest=not has_whole)
        if fault is None:
            has_whole = True
        else:
            faults[path] = fault
    return faults


def find_fault(checkpoint: Path, by_digest: bool = True) -> str | None:
    """What keeps a checkpoint from being whole; None where nothing does.

    Args:
        checkpoint: The directory.
        by_digest: Whether files are held against their digests, where there are any, beside their names, lengths and
            headers.
    """
    try:
        num_processes = int(read_state_file(checkpoint)["num_processes"])
        if not 1 <= num_processes <= _MOST_PROCESSES:
            return f"{STATE_FILE} is broken"
        names = [*_MODEL_FILES, OPTIMIZER_FILE, *(rank_file(rank) for rank in range(num_processes))]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{STATE_FILE} is missing or broken"
    for path in checkpoint.iterdir():
        if leads_out(checkpoint, path):
            return f"{path.name} is a link to another place"
    for name in names:
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        # Of what torch.save and safetensors wrote, the end shows whether it is all there.
        is_whole = zipfile.is_zipfile(path) if path.suffix == ".pt" else _has_all_tensors(path)
        if not is_whole:
            return f"{name} is cut off"
    return find_altered(checkpoint, [*names, STATE_FILE]) if by_digest else None


def read_state_file(checkpoint: str | os.PathLike) -> dict[str, Any]:
    """What all processes of a run have in common.

    Raises: ValueError naming the file where it is no object of JSON; OSError.
    """
    where = f"--resume_from_checkpoint {str(checkpoint)!r}, {STATE_FILE}"
    state = read_json(Path(checkpoint) / STATE_FILE, where, _MOST_STATE_BYTES)
    if not isinstance(state, dict):
        raise ValueError(f"{where} holds a {type(state).__name__}, wanted an object; name another checkpoint.")
    return state


def _has_all_tensors(path: Path) -> bool:
    """Whether a file that is not of tensors has anything in it, and one of tensors all of them."""
    size = path.stat().st_size
    if path.suffix != ".safetensors" or not size:
        return size > 0
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = parse_json(file.read(length if length < min(size, _MOST_HEADER_BYTES) else 0), path.name)
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
    return size == 8 + length + max(ends, default=0)


def rank_file(process_index: int) -> str:
    """The file of a process's own state."""
    return f"rank-{process_index}.pt"
