"""The directory of a run: which `checkpoint-N` it holds, and which of them a run goes on from."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

STATE_FILE = "trainer_state.json"
OPTIMIZER_FILE = "optimizer.pt"
WEIGHTS_FILE = "model.safetensors"
_MODEL_FILES = ("config.json", "tokenizer_config.json", WEIGHTS_FILE)
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
        whole = [path for _, path in sorted(checkpoints_in(output_dir).items()) if find_fault(path) is None]
        if whole:
            return whole[-1]
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
    """The checkpoints of a run's directory that are not whole, and what is wrong with each."""
    faults = {path: find_fault(path) for path in checkpoints_in(output_dir).values()}
    return {path: fault for path, fault in faults.items() if fault is not None}


def find_fault(checkpoint: Path) -> str | None:
    """What keeps a checkpoint from being whole, by the files' names, lengths and headers; None where nothing does."""
    try:
        state = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))
        num_processes = state["num_processes"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{STATE_FILE} is missing or broken"
    names = [*_MODEL_FILES, OPTIMIZER_FILE, *(rank_file(rank) for rank in range(num_processes))]
    for name in names:
        path = checkpoint / name
        if not path.is_file():
            return f"{name} is missing"
        # Of what torch.save and safetensors wrote, the end shows whether it is all there.
        is_whole = zipfile.is_zipfile(path) if path.suffix == ".pt" else _has_all_tensors(path)
        if not is_whole:
            return f"{name} is cut off"
    return None


def _has_all_tensors(path: Path) -> bool:
    """Whether a file that is not of tensors has anything in it, and one of tensors all of them."""
    size = path.stat().st_size
    if path.suffix != ".safetensors" or not size:
        return size > 0
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(length if length < size else 0))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
    return size == 8 + length + max(ends, default=0)


def rank_file(process_index: int) -> str:
    """The file of a process's own state."""
    return f"rank-{process_index}.pt"
