"""The C++ library for the CPU (`csrc/`): built on first use, kept in PyTorch's folder for extensions."""

from __future__ import annotations

import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

_SOURCES = Path(__file__).parent / "csrc"
_TYPICAL_SECONDS = 30
# What ATen's vectors want; anything else they do in plain C++.
_VECTOR_FLAGS = {
    "AVX512": "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c "
    "-DCPU_CAPABILITY=AVX512 -DCPU_CAPABILITY_AVX512",
    "AVX2": "-mavx2 -mfma -mf16c -DCPU_CAPABILITY=AVX2 -DCPU_CAPABILITY_AVX2",
}

logger = logging.getLogger(__name__)

# Whether the library is loaded; None until the first look for it.
_loaded: bool | None = None
_failure: str | None = None
was_tried = False  # by `build_on_first_use`


def is_ready() -> bool:
    """Whether the library is loaded, or is there for this source, PyTorch and processor."""
    global _loaded, _failure
    if _loaded is None:
        try:
            _loaded = library_path().is_file()
            if _loaded:
                torch.ops.load_library(str(library_path()))
        except (OSError, RuntimeError) as error:
            _loaded, _failure = False, _unusable(error)
    return _loaded


def unavailable_reason() -> str | None:
    """Why the library cannot be used now; None if it can."""
    if is_ready():
        return None
    return (
        _failure
        or _no_build_reason()
        or f"not built yet: hf_elmo.kernels.build(), or the first use of a model, does it in about {_TYPICAL_SECONDS} s"
    )


def build_on_first_use() -> None:
    """As `build`, once in a process, and where that fails a line in the log."""
    global was_tried
    if was_tried:
        return
    # Set first: other threads go on without the library, and none waits for another.
    was_tried = True
    try:
        build()
    except RuntimeError as error:
        logger.warning("hf_elmo runs at about half its speed (HF_ELMO_KERNELS=plain leaves this line out): %s", error)


def build(verbose: bool = False) -> None:
    """Build and load the library unless it is there; `verbose` prints the compiler's command and output.

    Raises: RuntimeError if it cannot be built or loaded, with the reason and the next step.
    """
    global _loaded, _failure
    if is_ready():
        return
    try:
        _failure = _no_build_reason() or _build_alone(verbose)
    except (OSError, RuntimeError) as error:
        _failure = _unusable(error)
    _loaded = _failure is None
    if _failure is not None:
        raise RuntimeError(f'use_backend("auto") runs without the backend "compiled", which fails here: {_failure}')


def library_path() -> Path:
    """Where the library is, or will be: in PyTorch's folder for extensions, by a hash of all that goes into it.

    Raises: RuntimeError where the user has no home.
    """
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(root) if root else Path(cache, "torch_extensions").expanduser()
    sources = [path.read_text(encoding="utf-8") for path in sorted(_SOURCES.iterdir()) if path.is_file()]
    parts = (*sources, torch.__version__, *_flags())
    return folder / "hf_elmo" / f"kernels-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.so"


def _flags() -> list[str]:
    # By what PyTorch's own kernels use and not -march=native: home directories are shared between machines.
    capability = torch.backends.cpu.get_cpu_capability()
    vectors = _VECTOR_FLAGS.get(capability, "-DCPU_CAPABILITY=DEFAULT")
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return f"-std=c++20 -O3 -fPIC -fopenmp {abi} {vectors}".split()


def _compiler() -> list[str] | None:
    """The command of a C++ compiler; None where there is none."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    commands = map(shlex.split, names)
    return next((command for command in commands if shutil.which(command[0])), None)


def _no_build_reason() -> str | None:
    """Why nothing can be built here; None where that can be tried."""
    if sys.platform != "linux":
        return f"it is built on Linux only, and this is {sys.platform}"
    if _compiler() is None:
        return f"no C++ compiler found (CXX is {os.environ.get('CXX', '')!r}); install g++, or set CXX to a compiler"
    return None


def _unusable(error: Exception) -> str:
    return (
        f"its file cannot be read, written or loaded ({error.__cause__ or error}); hf_elmo.kernels.build() builds it "
        "anew, and TORCH_EXTENSIONS_DIR names another folder for it"
    )


def _build_alone(verbose: bool) -> str | None:
    """Build and load the library while no other process does; the reason where the compiler failed."""
    import fcntl  # which only some systems have

    target = library_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    logger.warning(
        "hf_elmo builds its compiled kernels for this processor, or waits for a process that does, once, in about %d s "
        "(HF_ELMO_KERNELS=plain runs without them)",
        _TYPICAL_SECONDS,
    )
    # The lock goes with the process that holds it, however that ends.
    with open(target.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            torch.ops.load_library(str(target))
        except OSError:
            return _compile(target, verbose)
    return None


def _compile(target: Path, verbose: bool) -> str | None:
    torch_folder = Path(torch.__file__).parent
    # In a folder of its own, and then renamed: no other process ever loads half of a library.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built, object_file = Path(folder, target.name), Path(folder, "ops.o")
        # Linked without -fopenmp: the OpenMP library has to be PyTorch's own, and a second one would bring a second
        # pool of threads.
        for words in (
            [*_flags(), f"-isystem{torch_folder / 'include'}", "-c", _SOURCES / "ops.cpp", "-o", object_file],
            ["-shared", object_file, "-o", built, f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu"],
        ):
            command = [*(_compiler() or []), *map(str, words)]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            )
            if verbose:
                print(shlex.join(command), done.stdout, sep="\n")
            if done.returncode:
                lines = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
                first = next((line for line in lines if "error" in line), lines[-1])
                return (
                    f"{command[0]} failed ({first.strip()[:200]}); hf_elmo.kernels.build(verbose=True) shows its "
                    "whole output"
                )
        os.replace(built, target)
    torch.ops.load_library(str(target))
    return None
