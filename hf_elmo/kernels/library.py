"""The library of kernels in C++ for the CPU: built on demand, kept in a cache folder, loaded when looked for.

Its source is `kernels.cpp` beside this file, with the headers there.
"""

from __future__ import annotations

import hashlib
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
_TYPICAL_SECONDS = 10
# What ATen's vectors want; anything else they do in plain C++.
_VECTOR_FLAGS = {
    "AVX512": "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c "
    "-DCPU_CAPABILITY=AVX512 -DCPU_CAPABILITY_AVX512",
    "AVX2": "-mavx2 -mfma -mf16c -DCPU_CAPABILITY=AVX2 -DCPU_CAPABILITY_AVX2",
}

# Whether the library is in this process; None until somebody has looked for it.
_loaded: bool | None = None
_failure: str | None = None


def is_ready() -> bool:
    """Whether the steps can run now: the library is there, built for this source, PyTorch and processor."""
    global _loaded, _failure
    if _loaded is None:
        _loaded = False
        if _source().is_file() and library_path().is_file():
            error = _load()
            _loaded = error is None
            _failure = None if _loaded else f"{error}; hf_elmo.kernels.build() builds it anew"
    return _loaded


def why_not() -> str | None:
    """Why the steps cannot run now, in a sentence; None where they can."""
    if is_ready():
        return None
    return (
        _failure
        or _why_not_built()
        or f"not built yet: hf_elmo.kernels.build() builds it in about {_TYPICAL_SECONDS} s"
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
        _failure = _why_not_built() or _compile(verbose) or _load()
    except OSError as error:
        _failure = f"{library_path()} cannot be written ({error}); set TORCH_EXTENSIONS_DIR to another folder"
    _loaded = _failure is None
    if _failure is not None:
        raise RuntimeError(f'use_backend("auto") runs without the backend "compiled", which fails here: {_failure}')


def library_path() -> Path:
    """Where the library lies, or would: under PyTorch's folder for extensions, by a hash of all that goes into it."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "torch_extensions"
    )
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


def _compile(verbose: bool) -> str | None:
    """Build the library; the reason where that failed."""
    target, torch_folder = library_path(), Path(torch.__file__).parent
    target.parent.mkdir(parents=True, exist_ok=True)
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
    last_lines = "\n".join(done.stdout.strip().splitlines()[-5:])
    return f"{command[0]} failed; hf_elmo.kernels.build(verbose=True) shows all that it says, which ends:\n{last_lines}"


def _load() -> str | None:
    """Load the library into this process; the reason where that failed."""
    try:
        torch.ops.load_library(str(library_path()))
    except OSError as error:
        return f"{library_path()} cannot be loaded ({error})"
    return None
