"""The library of kernels in C++ for the CPU: built on first use, kept in a cache folder, loaded when looked for.

Its source is `kernels.cpp` beside this file, with the headers there.
"""

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

_FOLDER = Path(__file__).parent
_NAME = "kernels"
_TYPICAL_SECONDS = 30
# What ATen's vectors want; anything else they do in plain C++.
_VECTOR_FLAGS = {
    "AVX512": "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c "
    "-DCPU_CAPABILITY=AVX512 -DCPU_CAPABILITY_AVX512",
    "AVX2": "-mavx2 -mfma -mf16c -DCPU_CAPABILITY=AVX2 -DCPU_CAPABILITY_AVX2",
}

logger = logging.getLogger(__name__)

# Whether the library is in this process; None until somebody has looked for it.
_loaded: bool | None = None
_failure: str | None = None
# Whether this process has been at the place where it is built by itself.
_was_used = False


def is_ready() -> bool:
    """Whether the steps can run now: the library is there, built for this source, PyTorch and processor."""
    global _loaded, _failure
    if _loaded is None:
        _loaded = False
        try:
            if _source().is_file() and library_path().is_file():
                error = _load()
                _loaded = error is None
                _failure = None if _loaded else f"{error}; hf_elmo.kernels.build() builds it anew"
        except OSError as error:
            _failure = _cannot_be_kept(error)
    return _loaded


def why_not() -> str | None:
    """Why the steps cannot run now, in a sentence; None where they can."""
    if is_ready():
        return None
    return (
        _failure
        or _why_not_built()
        or _why_it_failed_before()
        or f"not built yet: hf_elmo.kernels.build() builds it in about {_TYPICAL_SECONDS} s, and so does the first use "
        "of a model that it pays for"
    )


def was_used() -> bool:
    """Whether `build_on_first_use` has been called in this process."""
    return _was_used


def build_on_first_use() -> None:
    """Build the library where it is not there, at the first call in this process, and say so in a line of the log.

    Other processes wait for the one that builds. A build that failed is not tried again until the sources, PyTorch or
    the compiler are others. Where there is no library in the end, a line says why.
    """
    global _was_used, _loaded, _failure
    if _was_used:
        return
    # Set first: other threads go on without the library meanwhile, and none waits for another.
    _was_used = True
    if not is_ready() and _failure is None:
        try:
            _failure = _why_not_built() or _build_in_turn(verbose=False, is_asked_for=False)
        except OSError as error:
            _failure = _cannot_be_kept(error)
        _loaded = _failure is None
    if _failure is None:
        logger.info("hf_elmo runs its compiled kernels")
    else:
        logger.warning(
            "hf_elmo runs without its compiled kernels, at about half their speed: %s. (HF_ELMO_KERNELS=plain leaves "
            "this line out.)",
            _failure,
        )


def build(verbose: bool = False) -> None:
    """Build the library, unless it is there, and load it.

    Args:
        verbose: Print the compiler's command and what it says.
    Raises: RuntimeError where it cannot be built or loaded, with the reason and the next step.
    """
    global _loaded, _failure
    if is_ready():
        return
    try:
        _failure = _why_not_built() or _build_in_turn(verbose, is_asked_for=True)
    except OSError as error:
        _failure = _cannot_be_kept(error)
    _loaded = _failure is None
    if _failure is not None:
        raise RuntimeError(f'use_backend("auto") runs without the backend "compiled", which fails here: {_failure}')


def library_path() -> Path:
    """Where the library lies, or would: under PyTorch's folder for extensions, by a hash of all that goes into it.

    Raises: OSError where no folder is named and the user has no home.
    """
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if not root:
        try:
            root = os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "torch_extensions")
        except RuntimeError as error:
            raise FileNotFoundError(str(error)) from error
    sources = [path.read_text(encoding="utf-8") for path in sorted([_source(), *_FOLDER.glob("*.h")])]
    parts = (*sources, torch.__version__, *_flags())
    return Path(root, "hf_elmo", f"{_NAME}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.so")


def _source() -> Path:
    return _FOLDER / f"{_NAME}.cpp"


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


def _why_not_built() -> str | None:
    if not _source().is_file():
        return f"{_source()} is missing; install the package anew"
    if sys.platform != "linux":
        return f"it is built on Linux only, and this is {sys.platform}"
    if _compiler() is None:
        chosen = os.environ.get("CXX")
        found = f"CXX is {chosen!r}, which is no program" if chosen else "no C++ compiler found"
        return f"{found}; install g++, or set CXX to a C++ compiler"
    return None


def _cannot_be_kept(error: OSError) -> str:
    return f"the folder for it cannot be read or written ({error}); set TORCH_EXTENSIONS_DIR to another one"


def _build_in_turn(verbose: bool, is_asked_for: bool) -> str | None:
    """Build and load the library while no other process does; the reason where that failed.

    Args:
        verbose: As of `build`.
        is_asked_for: Whether somebody called `build`, which tries again what failed before.
    """
    import fcntl  # which only some systems have

    target = library_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    # The lock goes with the process that holds it, however that ends.
    with open(target.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning("hf_elmo waits for another process that builds its compiled kernels")
            fcntl.flock(lock, fcntl.LOCK_EX)
        reason = _load() if target.is_file() else "not there"
        if reason is None or (target.is_file() and not is_asked_for):
            return reason
        if not is_asked_for:
            reason = _why_it_failed_before()
            if reason is not None:
                return reason
            logger.warning(
                "hf_elmo builds its compiled kernels for this processor, once, in about %d s (HF_ELMO_KERNELS=plain "
                "runs without them)",
                _TYPICAL_SECONDS,
            )
        marker = target.with_suffix(".failed")
        reason = _compile(target, verbose)
        if reason is not None:
            marker.write_text(f"{_compiler()}\n{reason}", encoding="utf-8")
            return reason
        marker.unlink(missing_ok=True)
        return _load()


def _why_it_failed_before() -> str | None:
    """What an earlier process wrote down, that failed to build the same source by the same compiler."""
    marker = library_path().with_suffix(".failed")
    compiler, _, reason = marker.read_text(encoding="utf-8").partition("\n") if marker.is_file() else ("", "", "")
    return f"{reason}, and tries again" if compiler == str(_compiler()) else None


def _compile(target: Path, verbose: bool) -> str | None:
    """Build the library; the reason where that failed."""
    torch_folder = Path(torch.__file__).parent
    # Under a name of its own first: another process that builds, or looks for the library, never meets half of one.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made, object_file = Path(folder, target.name), Path(folder, f"{_NAME}.o")
        compiler = _compiler() or ["c++"]
        include, libraries = f"-isystem{torch_folder / 'include'}", f"-L{torch_folder / 'lib'}"
        # -fopenmp stays out of the second command: the OpenMP library is to be PyTorch's own, which it has loaded, and
        # a second one would bring a second pool of threads.
        commands = [
            [*compiler, *_flags(), include, "-c", _source(), "-o", object_file],
            [*compiler, "-shared", object_file, "-o", made, libraries, "-lc10", "-ltorch_cpu"],
        ]
        for command in commands:
            reason = _call(list(map(str, command)), verbose)
            if reason is not None:
                return reason
        os.replace(made, target)
    return None


def _call(command: list[str], verbose: bool) -> str | None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if verbose:
        print(shlex.join(command), done.stdout, sep="\n")
    if done.returncode == 0:
        return None
    lines = done.stdout.strip().splitlines()
    first = next((line for line in lines if "error" in line), lines[-1] if lines else f"exit code {done.returncode}")
    return f"{command[0]} failed ({first.strip()[:200]}); hf_elmo.kernels.build(verbose=True) shows all that it says"


def _load() -> str | None:
    """Load the library into this process; the reason where that failed."""
    try:
        torch.ops.load_library(str(library_path()))
    except OSError as error:
        return f"{library_path()} cannot be loaded ({error})"
    return None
