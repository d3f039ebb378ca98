"""The compiled library builds itself, once per machine, where a model of some size first runs; and says so."""

import os
import shutil
import sys
from pathlib import Path

import fresh_process
import pytest
from test_scan import build_or_skip

from hf_elmo import kernels
from hf_elmo.kernels import backends, library

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
    lines = sorted(line for _, logged in answers for line in logged)
    assert len(lines) == 2 and "builds its compiled kernels" in lines[0] and "HF_ELMO_KERNELS=plain" in lines[0]
    assert "waits for another process" in lines[1]
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


def test_a_build_that_failed_is_not_tried_again_and_says_why(compiler, tmp_path):
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\necho "kernels.cpp:1: error: no vectors"\nexit 1\n')
    [(printed, (start, reason))] = use(tmp_path, CXX=compiler)
    assert printed == ["False", "True"] and "builds its compiled kernels" in start
    assert "error: no vectors" in reason and "hf_elmo.kernels.build(" in reason
    why = f"{USE}\nprint(library.why_not())"
    [(printed, (again,))] = use(tmp_path, script=why, CXX=compiler)
    assert calls(tmp_path) == 1 and "error: no vectors" in again and "vectors);" in printed
    # Where nothing was used yet, the reason is known too.
    [(printed, _)] = use(tmp_path, script="from hf_elmo import kernels\nprint(kernels.why_not())", CXX=compiler)
    assert "no vectors);" in " ".join(printed)
    assert use(tmp_path, CXX=compiler, HF_ELMO_KERNELS="plain") == [(["False", "True"], [])]
    # Another compiler, or being asked, is another try.
    shutil.copy(compiler, tmp_path / "other")
    use(tmp_path, CXX=tmp_path / "other")
    assert calls(tmp_path) == 2
    ask = "from hf_elmo import kernels\ntry:\n    kernels.build()\nexcept RuntimeError as error:\n    print(error)"
    [(printed, _)] = use(tmp_path, script=ask, CXX=tmp_path / "other")
    assert calls(tmp_path) == 3 and "vectors);" in printed


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"CXX": "", "PATH": "/nowhere"}, "no C++ compiler found"),
        ({"TORCH_EXTENSIONS_DIR": "/proc/nowhere"}, "set TORCH_EXTENSIONS_DIR"),
    ],
    ids=["no-compiler", "no-folder"],
)
def test_where_it_cannot_be_built_one_line_says_why(built, tmp_path, environment, reason):
    [(printed, (line,))] = use(tmp_path, **{"CXX": "false", **environment})
    assert printed == ["False", "True"] and reason in line


def test_who_has_no_home_has_no_library_and_no_error(monkeypatch):
    for name in ("TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.setattr(library, "_loaded", None)
    monkeypatch.setattr(library, "_failure", None)
    assert not library.is_ready()
    assert "no home" in kernels.why_not()["compiled"] and "TORCH_EXTENSIONS_DIR" in kernels.why_not()["compiled"]


@pytest.fixture
def environment(monkeypatch):
    """A process that has chosen no backend, with a variable that may."""
    monkeypatch.setattr(backends, "_of_process", None)
    backends._of_environment.cache_clear()
    yield lambda name: monkeypatch.setenv("HF_ELMO_KERNELS", name)
    backends._of_environment.cache_clear()


def test_the_environment_names_the_backend_of_a_process_that_chooses_none(environment):
    environment("readable")
    assert kernels.get_backend() == "readable"
    with kernels.use_backend("plain"):
        assert kernels.get_backend() == "plain"


@pytest.mark.parametrize("name", ["fast", "cuda_graphs"])
def test_a_backend_of_the_environment_that_cannot_run_is_told_in_a_line(environment, monkeypatch, name):
    monkeypatch.setitem(backends._REASONS, "cuda_graphs", lambda: "there is no GPU")
    environment(name)
    with pytest.raises(ValueError, match=f"HF_ELMO_KERNELS is '{name}'"):
        kernels.get_backend()


def test_auto_says_once_that_it_takes_the_readable_scan(monkeypatch, log_records):
    from conftest import make_tiny_config

    from hf_elmo import ElmoCharTokenizer, ElmoModel

    monkeypatch.setattr(backends, "_said", set())
    model = ElmoModel(make_tiny_config(project_hidden=False, cell_size=6))
    for _ in range(2):
        model(**ElmoCharTokenizer()("a b", return_tensors="pt"))
    lines = [record.getMessage() for record in log_records if record.name.startswith("hf_elmo.kernels")]
    assert len(lines) == 1 and "without a projection" in lines[0]
