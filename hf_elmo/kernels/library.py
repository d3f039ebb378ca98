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
            is_built = library_path().is_file()
            _failure = _load() if is_built else None
            _loaded = is_built and _failure is None
        except OSError as error:
            _loaded, _failure = False, _folder_reason(error)
    return _loaded


def unavailable_reason() -> str | None:
    """Why the library cannot be used now; None if it can."""
    if is_ready():
        return None
    return (
        _failure
        or _no_build_reason()
        or _earlier_failure()
        or f"not built yet: hf_elmo.kernels.build(), or the first use of a model, does it in about {_TYPICAL_SECONDS} s"
    )


def build_on_first_use() -> None:
    """Build the library, and say so in the log, unless it was tried; again only with another compiler or source."""
    global was_tried
    if was_tried:
        return
    # Set first: other threads go on without the library, and none waits for another.
    was_tried = True
    reason = _failure if is_ready() or _failure else _ensure_built(verbose=False, is_asked_for=False)
    if reason is None:
        logger.info("hf_elmo runs its compiled kernels")
    else:
        logger.warning(
            "hf_elmo runs without its compiled kernels, at about half their speed: %s. (HF_ELMO_KERNELS=plain leaves "
            "this line out.)",
            reason,
        )


def build(verbose: bool = False) -> None:
    """Build and load the library unless it is there; `verbose` prints the compiler's command and output.

    Raises: RuntimeError if it cannot be built or loaded, with the reason and the next step.
    """
    if not is_ready() and (reason := _ensure_built(verbose, is_asked_for=True)) is not None:
        raise RuntimeError(f'use_backend("auto") runs without the backend "compiled", which fails here: {reason}')


def library_path() -> Path:
    """Where the library is, or will be: in PyTorch's folder for extensions, by a hash of all that goes into it."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if not root:
        try:
            root = os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "torch_extensions")
        except RuntimeError as error:
            raise FileNotFoundError(str(error)) from error
    sources = [path.read_text(encoding="utf-8") for path in sorted(_SOURCES.iterdir()) if path.is_file()]
    parts = (*sources, torch.__version__, *_flags())
    return Path(root, "hf_elmo", f"kernels-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.so")


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
        chosen = os.environ.get("CXX")
        problem = f"CXX is {chosen!r}, which is no program" if chosen else "no C++ compiler found"
        return f"{problem}; install g++, or set CXX to a C++ compiler"
    return None


def _folder_reason(error: OSError) -> str:
    return f"the folder for it cannot be read or written ({error}); set TORCH_EXTENSIONS_DIR to another one"


def _ensure_built(verbose: bool, is_asked_for: bool) -> str | None:
    """Build and load the library; the reason where that failed, which is kept."""
    global _loaded, _failure
    try:
        _failure = _no_build_reason() or _build_alone(verbose, is_asked_for)
    except OSError as error:
        _failure = _folder_reason(error)
    _loaded = _failure is None
    return _failure


def _build_alone(verbose: bool, is_asked_for: bool) -> str | None:
    """Build and load the library while no other process does; what failed before is tried again if asked for."""
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
        reason = _load() if target.is_file() else _earlier_failure() or "not there"
        if reason is None or (not is_asked_for and reason != "not there"):
            return reason
        logger.warning(
            "hf_elmo builds its compiled kernels for this processor, once, in about %d s (HF_ELMO_KERNELS=plain runs "
            "without them)",
            _TYPICAL_SECONDS,
        )
        reason, record = _compile(target, verbose), target.with_suffix(".failed")
        if reason is not None:
            record.write_text(f"{_compiler()}\n{reason}", encoding="utf-8")
            return reason
        record.unlink(missing_ok=True)
        return _load()


def _earlier_failure() -> str | None:
    """Why an earlier process failed to build the same source by the same compiler."""
    record = library_path().with_suffix(".failed")
    compiler, _, reason = record.read_text(encoding="utf-8").partition("\n") if record.is_file() else ("", "", "")
    return f"{reason}, and tries again" if compiler == str(_compiler()) else None


def _compile(target: Path, verbose: bool) -> str | None:
    """Build the library; the reason where that failed."""
    torch_folder = Path(torch.__file__).parent
    # In a folder of its own, and then renamed: no other process ever loads half of a library.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built, object_file = Path(folder, target.name), Path(folder, "ops.o")
        compiler = _compiler() or ["c++"]
        include, libraries = f"-isystem{torch_folder / 'include'}", f"-L{torch_folder / 'lib'}"
        # Linked without -fopenmp: the OpenMP library has to be PyTorch's own, and a second one would bring a second
        # pool of threads.
        commands = [
            [*compiler, *_flags(), include, "-c", _SOURCES / "ops.cpp", "-o", object_file],
            [*compiler, "-shared", object_file, "-o", built, libraries, "-lc10", "-ltorch_cpu"],
        ]
        for command in commands:
            reason = _call(list(map(str, command)), verbose)
            if reason is not None:
                return reason
        os.replace(built, target)
    return None


def _call(command: list[str], verbose: bool) -> str | None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if verbose:
        print(shlex.join(command), done.stdout, sep="\n")
    if done.returncode == 0:
        return None
    lines = done.stdout.strip().splitlines()
    first = next((line for line in lines if "error" in line), lines[-1] if lines else f"exit code {done.returncode}")
    return f"{command[0]} failed ({first.strip()[:200]}); hf_elmo.kernels.build(verbose=True) shows its whole output"


def _load() -> str | None:
    """Load the library into this process; the reason where that failed."""
    try:
        torch.ops.load_library(str(library_path()))
    except OSError as error:
        return f"{library_path()} cannot be loaded ({error}); hf_elmo.kernels.build() builds it anew"
    return None
