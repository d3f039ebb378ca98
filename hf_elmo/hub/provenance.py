"""Where a figure comes from: the command, the commit, the machine and the versions, for results files."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import os
import platform
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Access tokens as the Hub makes them; those of OAuth are JSON web tokens behind a prefix.
_TOKEN = re.compile(r"\b(?:(?:hf|api_org)_[A-Za-z0-9]{30,}|hf_(?:oauth|jwt)_[\w.\-]{20,})")
_PACKAGES = ("torch", "transformers", "datasets", "accelerate")


def describe_run() -> dict[str, Any]:
    """What someone needs to get the figures of this process again."""
    # Not with the file: arguments are read, and a command's help is shown, before torch is there.
    import torch

    return {
        "command": describe_command(sys.argv),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {**{name: version(name) for name in _PACKAGES}, "hf_elmo": sys.modules["hf_elmo"].__version__},
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
    }


def describe_command(words: Sequence[str]) -> str:
    """A command, as `sys.argv` has it, for others to paste: without the place of an installation, or a token."""
    program, *flags = words or [""]
    start = ["hf-elmo"] if Path(program).stem == "hf-elmo" else ["python", program]
    if Path(program).parts[-2:] == ("hf_elmo", "__main__.py"):
        start = ["python", "-m", "hf_elmo"]
    return redact(shlex.join([*start, *flags]))


def command_to_resume() -> str:
    """The command that resumes the run of this process, for a user to paste."""
    program, *flags = sys.argv
    # A recipe is a file of flags.
    named, recipes = ("__train_file", "__dataset_name"), (".yaml", ".yml")
    if not any(word.replace("-", "_").startswith(named) or word.endswith(recipes) for word in flags):
        # Called from a notebook or another program, whose arguments are not the run's.
        return "the same arguments and resume_from_checkpoint='auto'"
    resume = ["--resume_from_checkpoint", "auto"]
    # Of a flag that is given twice the last value counts; a resumed run may have it already.
    command = describe_command([program, *flags, *([] if flags[-2:] == resume else resume)])
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        count = os.environ.get("LOCAL_WORLD_SIZE", "1")
        return f"torchrun --nproc_per_node {count} {command.removeprefix('python ')}"
    return command


def redact(text: str, token: str | None = None) -> str:
    """The text with each access token in it masked: the given one, HF_TOKEN's, and what looks like one."""
    for known in (token or "", os.environ.get("HF_TOKEN", "").strip()):
        # What is shorter is no token, and stands in any text.
        if len(known) >= 8:
            text = text.replace(known, "<token>")
    return _TOKEN.sub("<token>", text)


def describe_origin(results: Mapping[str, Any], packages: Sequence[str] = ("torch",)) -> str:
    """Where the figures of `describe_run` (and `device`, `num_processes` beside them) come from, without a stop."""
    machine, versions = results["machine"], results["versions"]
    on_accelerator = machine["accelerator"] and results.get("device") != "cpu"
    threads = f"{machine['threads']} threads"
    parts = [
        f"On {results['date']}",
        machine["accelerator"] if on_accelerator else machine["processor"],
        f"{threads} of {machine['cores']} cores" if "cores" in machine else threads,
        *([f"{results['num_processes']} processes"] if results.get("num_processes", 1) > 1 else []),
        *(f"{package} {versions[package]}" for package in packages),
        f"commit {results['commit'] or 'unknown'}",
    ]
    return ", ".join(parts)


def peak_memory_bytes(device: torch.device) -> int:
    """The most bytes that PyTorch had allocated on CUDA, or this process had, at most so far."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # Bytes on macOS, KiB everywhere else.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def describe_file(path: str | os.PathLike) -> dict[str, Any]:
    """The name, the size and the SHA-256 of a file, by which others can tell whether they have the same one."""
    path, digest = Path(path), hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write a readable JSON file with a newline at its end."""
    Path(path).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@functools.cache
def _commit(tree: Path = Path(__file__).parents[2]) -> str | None:
    """The commit of a source tree; None for the folder of an installed package, which may lie inside of another one."""
    if not (tree / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
