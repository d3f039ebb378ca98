"""The compiled library builds itself, once per machine, where a model of some size first runs; and says so."""

import os
import re
import shutil
import sys
from pathlib import Path

import fresh_process
import pytest
from test_scan import build_or_skip

from hf_elmo import kernels
from hf_elmo.kernels import library

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the library is built on Linux only")

# Two words, and a model just large enough.
MODEL = """
import torch
from hf_elmo import ElmoConfig, ElmoModel
from hf_elmo.kernels import library
sizes = {"projection_size": 64, "cell_size": 1024, "num_hidden_layers": 1, "num_highway_layers": 1}
model = ElmoModel(ElmoConfig(filters=[[1, 32], [3, 512]], **sizes)).eval()
ids = torch.full((1, 2, 50), 261)
ids[..., 0], ids[..., 1], ids[..., 2] = 259, torch.tensor([65, 66]), 260
"""
USE = f"""{MODEL}
with torch.no_grad():
    first, second = (model(ids).last_hidden_state for _ in range(2))
# A build in between would leave the first one to other steps.
print(library.is_ready(), torch.equal(first, second))
"""
NO_USE = f"""{MODEL}
from torch import export
export.export(model, (ids,), strict=False)
tiny = ElmoModel(ElmoConfig(projection_size=6, cell_size=10, filters=[[1, 4]], num_highway_layers=0))
tiny(ids)
print(library.is_ready())
"""
# A second OpenMP library would have a second pool of threads, and both would wait for the same cores.
MAPPED = """
import re
from pathlib import Path
from hf_elmo import kernels

def mapped():
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    return sorted({str(Path(path).resolve()) for path in paths if re.match(r"lib[gi]?omp", Path(path).name)})

before = mapped()
kernels.build()
print(before == mapped())
"""


@pytest.fixture(scope="module")
def built() -> Path:
    build_or_skip()
    return library.library_path()


@pytest.fixture
def use(built, tmp_path):
    """What processes that run at a time print and log, and how often they called the compiler.

    A stand-in for g++ takes half a second, keeps a record of its calls, and links what was built before.
    """
    compiler, record = tmp_path / "compiler", tmp_path / "calls"
    find_target = 'while [ "$1" != "-o" ]; do shift; done'
    compiler.write_text(f'#!/bin/sh\nsleep 0.5\necho "$@" >> {record}\n{find_target}\ncp {built} "$2"\n')
    compiler.chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "HF_ELMO_KERNELS"},
        "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions"),
        "PYTHONWARNINGS": "error::RuntimeWarning",
        "CXX": str(compiler),
    }

    def run(script, count=1):
        words = [["-c", script]] * count
        done = fresh_process.run_together(words, [{}] * count, env=environment)
        assert all(one.returncode == 0 for one in done), done[0].stderr
        num_calls = len(record.read_text().splitlines()) if record.is_file() else 0
        return [one.stdout.split() for one in done], [one.stderr for one in done], num_calls

    return run


def test_processes_that_start_together_build_once_and_all_have_it(use):
    printed, logged, num_calls = use(USE, 2)
    assert printed == [["True", "True"]] * 2
    assert num_calls == 2  # it compiles, and it links
    assert all(text.count("builds its compiled kernels") == text.count("\n") == 1 for text in logged)
    # From then on nobody builds, and nobody says anything.
    assert use(USE) == ([["True", "True"]], [""], 2)


def test_looking_tracing_and_toys_build_nothing(use):
    assert use(NO_USE) == ([["False"]], [""], 0)


def test_it_is_found_without_a_compiler_and_brings_no_openmp_library_of_its_own(built, tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path), "CXX": ""}
    done = fresh_process.run(["-c", MAPPED], env=environment)
    assert done.stdout.strip() == "True", done.stderr


@pytest.fixture
def nothing_loaded(monkeypatch, tmp_path):
    """This process before it has looked for the library, which is not there."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    for name, value in (("_loaded", None), ("_failure", None), ("was_tried", False)):
        monkeypatch.setattr(library, name, value)


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"CXX": "", "PATH": "/nowhere"}, r"no C\+\+ compiler found .*; install g\+\+, or set CXX"),
        ({"CXX": "/nowhere/g++"}, r"CXX is '/nowhere/g\+\+'"),
        ({"CXX": "false"}, r"false failed \(exit code 1\); hf_elmo.kernels.build\(verbose=True\) shows"),
        ({"CXX": "true", "TORCH_EXTENSIONS_DIR": "/proc/nowhere"}, "cannot be read, .*TORCH_EXTENSIONS_DIR"),
    ],
    ids=["no-compiler", "no-program", "failure", "no-folder"],
)
def test_who_asks_by_name_is_told_why_it_cannot_be_built_and_auto_goes_on(
    environment, wanted, monkeypatch, tmp_path, log_records
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with (
        pytest.raises(RuntimeError, match=f'"compiled", which fails here: .*{wanted}'),
        kernels.use_backend("compiled"),
    ):
        pass
    assert re.search(wanted, kernels.unavailable_reasons()["compiled"])
    assert not list(tmp_path.rglob("*.so")) and not library.is_ready()
    for _ in range(2):
        library.build_on_first_use()
    (line,) = (text for record in log_records if "half its speed" in (text := record.getMessage()))
    assert re.search(wanted, line)


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize("problem", ["no library", "no home"])
def test_a_library_that_cannot_be_loaded_is_reported(problem, monkeypatch):
    if problem == "no home":
        for name in ("TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(Path, "expanduser", lambda path: (_ for _ in ()).throw(RuntimeError("no home")))
    else:
        library.library_path().parent.mkdir(parents=True)
        library.library_path().write_bytes(b"no library")
    assert not library.is_ready()
    reason = kernels.unavailable_reasons()["compiled"]
    assert {"no library": ".so: ", "no home": "no home"}[problem] in reason and "TORCH_EXTENSIONS_DIR" in reason


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize("file", ["ops.cpp", "vectors.h"])
def test_what_was_built_of_another_source_is_left_alone(file, tmp_path, monkeypatch):
    before, sources = library.library_path(), tmp_path / "csrc"
    shutil.copytree(library._SOURCES, sources)
    with open(sources / file, "a", encoding="utf-8") as changed:
        changed.write("// changed\n")
    before.parent.mkdir()
    before.touch()
    monkeypatch.setattr(library, "_SOURCES", sources)
    assert library.library_path() != before
    assert not library.is_ready() and "not built yet" in kernels.unavailable_reasons()["compiled"]
