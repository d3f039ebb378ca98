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
sizes = {"projection_size": 64, "cell_size": 1024, "num_hidden_layers": 1, "num_highway_layers": 1}
model = ElmoModel(ElmoConfig(filters=[[1, 32], [3, 512]], **sizes)).eval()
ids = torch.full((1, 2, 50), 261)
ids[..., 0], ids[..., 1], ids[..., 2] = 259, torch.tensor([65, 66]), 260
"""
USE = (
    MODEL
    + """
from hf_elmo.kernels import library
with torch.no_grad():
    first, second = (model(ids).last_hidden_state for _ in range(2))
# A build in between would leave the first one to other steps.
print(library.is_ready(), torch.equal(first, second))
"""
)


@pytest.fixture(scope="module")
def built() -> Path:
    build_or_skip()
    return library.library_path()


@pytest.fixture
def compiler(built, tmp_path):
    """Stands in for g++: takes half a second, keeps a record of its calls, and links what was built before."""
    path = tmp_path / "compiler"
    find_target = 'while [ "$1" != "-o" ]; do shift; done'
    path.write_text(f'#!/bin/sh\nsleep 0.5\necho "$@" >> {tmp_path}/calls\n{find_target}\ncp {built} "$2"\n')
    path.chmod(0o755)
    return path


def calls(folder):
    record = folder / "calls"
    return len(record.read_text().splitlines()) if record.is_file() else 0


def use(folder, count=1, script=USE, **environment):
    """What processes that run at a time print, and what they log."""
    shared = {
        **os.environ,
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
        "PYTHONWARNINGS": "error::RuntimeWarning",
    }
    shared.pop("HF_ELMO_KERNELS", None)
    shared |= {name: str(value) for name, value in environment.items()}
    words = [["-c", script]] * count
    runs = fresh_process.run_together(words, [{}] * count, env=shared, modules=fresh_process.RUNS)
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    return [(run.stdout.split(), run.stderr.splitlines()) for run in runs]


def test_processes_that_start_together_build_once_and_all_have_it(compiler, tmp_path):
    answers = use(tmp_path, 2, CXX=compiler)
    assert [printed for printed, _ in answers] == [["True", "True"]] * 2
    assert calls(tmp_path) == 2  # it compiles, and it links
    (line,) = {line for _, logged in answers for line in logged}
    assert "builds its compiled kernels" in line and "HF_ELMO_KERNELS=plain" in line
    # From then on nobody builds, and nobody says anything.
    assert use(tmp_path, CXX=compiler) == [(["True", "True"], [])]
    assert calls(tmp_path) == 2


NO_USE = (
    MODEL
    + """
import sys
from torch import export
from hf_elmo.kernels import library
export.export(model, (ids,), strict=False)
tiny = ElmoModel(ElmoConfig(projection_size=6, cell_size=10, filters=[[1, 4]], num_highway_layers=0))
tiny(ids)
print(library.is_ready())
"""
)


def test_looking_tracing_and_toys_build_nothing(compiler, tmp_path):
    assert use(tmp_path, script=NO_USE, CXX=compiler) == [(["False"], [])]
    assert calls(tmp_path) == 0


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


def test_it_is_found_without_a_compiler_and_brings_no_openmp_library_of_its_own(built, tmp_path):
    """A second one would have a second pool of threads, and both would wait for the same cores."""
    environment = {**os.environ, "PATH": str(tmp_path), "CXX": ""}
    done = fresh_process.run(["-c", MAPPED], env=environment, modules=fresh_process.LIBRARIES)
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
    log_records.clear()
    library.build_on_first_use()
    line = log_records[-1].getMessage()
    assert "at about half its speed" in line and re.search(wanted, line)


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


@pytest.mark.parametrize("file", ["ops.cpp", "vectors.h"])
def test_what_was_built_of_another_source_is_left_alone(built, file, tmp_path, monkeypatch):
    before = library.library_path()
    shutil.copytree(library._SOURCES, tmp_path, dirs_exist_ok=True)
    changed = tmp_path / file
    changed.write_text(changed.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")
    monkeypatch.setattr(library, "_SOURCES", tmp_path)
    monkeypatch.setattr(library, "_loaded", None)
    assert before.is_file() and library.library_path() != before
    assert not library.is_ready() and "not built yet" in kernels.unavailable_reasons()["compiled"]
