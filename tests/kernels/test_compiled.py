"""The compiled steps: the plain ones' numbers on few rows and many, in every dtype; the building and its failures."""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import fresh_process
import pytest
import torch
from test_scan import build_or_skip
from tolerances import BFLOAT16, FLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64

from hf_elmo import kernels
from hf_elmo.kernels import compiled, library, plain
from hf_elmo.kernels.prepared import DenseWeight, PackedWeight, TransposedWeight, why_not_packed

CLIPS = plain.Clips(cell=0.5, projection=0.3)


@pytest.fixture(scope="module")
def built():
    build_or_skip()


def make_steps(dtype, sizes, projection_size=37, cell_size=150, layout=DenseWeight):
    """The arguments of a backend's steps, with values in reach of the clips."""
    between = torch.promote_types(dtype, torch.float32)
    weights = [
        layout((torch.randn(shape) / shape[1] ** 0.5).to(dtype))
        for shape in [(4 * cell_size, projection_size), (projection_size, cell_size)]
    ]
    gates = torch.randn(sum(sizes), 4 * cell_size, dtype=between)
    bias = torch.randn(4 * cell_size, dtype=between)
    hidden = torch.randn(sizes[0], projection_size, dtype=between)
    cell = torch.randn(sizes[0], cell_size, dtype=between)
    return gates, bias, *weights, hidden, cell, sizes, CLIPS


def run(backend, arguments):
    gates, bias, recurrent, projection, hidden, cell, *rest = arguments
    cell = cell.clone()
    return backend.run_steps(gates.clone(), bias, recurrent, projection, hidden, cell, *rest), cell


def assert_near(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("sizes", [[1, 1, 1], [3, 3, 1], [40, 33, 7, 4, 4, 1]], ids=str)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, REORDERED_FLOAT64),
        (torch.float32, 2 * REORDERED_FLOAT32),
        (torch.bfloat16, BFLOAT16),
        (torch.float16, FLOAT16),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", [DenseWeight, TransposedWeight, PackedWeight])
def test_steps_are_those_of_plain(built, layout, dtype, tolerance, sizes):
    if layout is PackedWeight and why_not_packed(dtype):
        pytest.skip(why_not_packed(dtype))
    arguments = make_steps(dtype, sizes, layout=layout)
    assert_near(run(compiled, arguments), run(plain, arguments), tolerance)


@pytest.mark.parametrize("sizes", [[2, 1], [40, 33, 5]], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, BFLOAT16)], ids=str)
def test_traces_and_gradients_are_those_of_plain(built, dtype, tolerance, sizes):
    gates, bias, recurrent, projection, hidden, cell, *rest = make_steps(dtype, sizes)
    wanted = plain.run_steps_keeping(gates.clone(), bias, recurrent, projection, hidden, cell, *rest)
    found = compiled.run_steps_keeping(gates.clone(), bias, recurrent, projection, hidden, cell, *rest)
    assert_near(found, wanted, tolerance)
    transposes = [DenseWeight(weight.transposed) for weight in (recurrent, projection)]
    gradients = [torch.randn_like(tensor) for tensor in (wanted.outputs, hidden, cell)]
    back = [
        backend.run_steps_back(wanted, *transposes, cell, tuple(g.clone() for g in gradients), *rest)
        for backend in (compiled, plain)
    ]
    assert_near(*back, tolerance)


@pytest.mark.parametrize("is_contiguous", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 47, 48, 49])
@pytest.mark.parametrize("size", [37, 127, 128])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, REORDERED_FLOAT64)], ids=str)
def test_the_inputs_share_is_that_of_plain(built, dtype, tolerance, size, rows, is_contiguous):
    words, weight = torch.randn(rows, size, dtype=dtype), torch.randn(20, size, dtype=dtype)
    weight = weight if is_contiguous else weight.t().contiguous().t()
    wanted = plain.multiply_inputs(words.double(), weight.double())
    assert_near(compiled.multiply_inputs(words, weight), wanted.to(dtype), tolerance)


def on_threads(count, function):
    """What a function gives on so many threads of PyTorch's."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return function()
    finally:
        torch.set_num_threads(before)


def test_one_thread_gives_the_numbers_of_two(built):
    arguments = make_steps(torch.float32, [40, 3, 1])
    one, two = (on_threads(count, lambda: run(compiled, arguments)) for count in (1, 2))
    assert_near(one, two, REORDERED_FLOAT32)


@pytest.mark.parametrize("threads", [2, 3, 5, 16])
@pytest.mark.parametrize("sizes", [[1] * 50, [5, 4, 4, 2, 1]], ids=["one-row", "few-rows"])
def test_few_rows_have_the_same_bits_on_any_number_of_threads(built, sizes, threads):
    arguments = make_steps(torch.float32, sizes, projection_size=128, cell_size=1024)
    one, many = (on_threads(count, lambda: run(compiled, arguments)) for count in (1, threads))
    assert_near(one, many, 0)


def test_several_callers_at_once_have_teams_of_their_own(built):
    arguments = make_steps(torch.float32, [1] * 50, projection_size=128, cell_size=512)
    wanted = run(compiled, arguments)
    with ThreadPoolExecutor(3) as callers:
        found = list(callers.map(lambda _: on_threads(2, lambda: run(compiled, arguments)), range(6)))
    for each in found:
        assert_near(each, wanted, 0)


@pytest.mark.parametrize("rows", [1, 40])
def test_what_is_not_a_number_stays_so_and_what_is_huge_is_not(built, rows):
    arguments = make_steps(torch.float32, [rows])
    gates = arguments[0]
    gates[0] = float("nan")
    gates[1:] = torch.where(gates[1:] > 0, float("inf"), float("-inf"))
    outputs, cell = run(compiled, (*arguments[:-1], plain.Clips(None, None)))
    assert outputs[0].isnan().all() and cell[0].isnan().all()
    wanted = run(plain, (*arguments[:-1], plain.Clips(None, None)))
    assert_near((outputs[1:], cell[1:]), (wanted[0][1:], wanted[1][1:]), REORDERED_FLOAT32)


def test_states_may_have_any_strides(built):
    gates, bias, recurrent, projection, hidden, cell, *rest = make_steps(torch.float32, [5, 2])
    wanted = run(plain, (gates, bias, recurrent, projection, hidden, cell, *rest))
    strided = [tensor.t().contiguous().t() for tensor in (hidden, cell)]
    outputs = compiled.run_steps(gates.clone(), bias, recurrent, projection, *strided, *rest)
    assert_near((outputs, strided[1]), wanted, REORDERED_FLOAT32)


def run_python(code, **environment):
    """What a fresh process prints."""
    changed = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    done = fresh_process.run(["-c", code], env=changed, modules=fresh_process.LIBRARIES)
    assert done.returncode == 0, done.stderr
    return done.stdout


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


def test_it_brings_no_openmp_library_of_its_own(built):
    """A second one would have a second pool of threads, and both would wait for the same cores."""
    assert run_python(MAPPED).strip() == "True"


# Whether `auto` gives plain's numbers, why "compiled" does not run, and what happens to who asks for it by name.
REPORT = """
import torch
from hf_elmo import kernels
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm

torch.manual_seed(0)
weights = ProjectedLSTMWeights(*(torch.randn(shape) / 4 for shape in [(40, 6), (40, 6), (40,), (6, 10)]))
inputs = torch.randn(3, 5, 6)
found = []
for name in ("auto", "plain"):
    with kernels.use_backend(name):
        found.append(run_projected_lstm(inputs, None, weights)[0])
print("same" if torch.equal(*found) else (found[0] - found[1]).abs().max())
print(kernels.why_not().get("compiled"))
try:
    kernels.set_backend("compiled")
    print("runs")
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"CXX": ""}, "no C++ compiler found; install g++, or set CXX"),
        ({"CXX": "/nowhere/g++"}, "CXX is '/nowhere/g++', which is no program"),
    ],
)
def test_without_a_compiler_all_else_runs(tmp_path, environment, wanted):
    report = run_python(REPORT, PATH=tmp_path, TORCH_EXTENSIONS_DIR=tmp_path, **environment).splitlines()
    assert report[0] == "same"
    assert report[1].startswith(wanted)
    assert report[2].startswith('use_backend("auto") runs without the backend "compiled", which fails here: ' + wanted)


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("false"), reason="asks for a program that fails")
def test_a_compiler_that_fails_is_reported(tmp_path):
    _, reason, *error = run_python(REPORT, CXX="false", TORCH_EXTENSIONS_DIR=tmp_path).splitlines()
    assert reason.startswith("not built yet: hf_elmo.kernels.build() builds it in about")
    assert "false failed (exit code 1); hf_elmo.kernels.build(verbose=True) shows all that it says" in error[0]
    assert not list(tmp_path.rglob("*.so"))


def test_another_process_finds_what_was_built_without_a_compiler(built, tmp_path):
    same, reason, runs = run_python(REPORT, PATH=tmp_path, CXX="").splitlines()
    assert (reason, runs) == ("None", "runs")
    assert same == "same" or float(same.removeprefix("tensor(").removesuffix(")")) <= REORDERED_FLOAT32


@pytest.mark.parametrize("file", ["kernels.cpp", "vectors.h"])
def test_what_was_built_of_another_source_is_left_alone(built, file, tmp_path, monkeypatch):
    before = library.library_path()
    shutil.copytree(library._FOLDER, tmp_path, dirs_exist_ok=True)
    changed = tmp_path / file
    changed.write_text(changed.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    monkeypatch.setattr(library, "_loaded", None)
    assert before.is_file() and library.library_path() != before
    assert not library.is_ready() and "not built yet" in kernels.why_not()["compiled"]


def test_a_library_that_cannot_be_loaded_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setattr(library, "_loaded", None)
    monkeypatch.setattr(library, "_failure", None)
    library.library_path().parent.mkdir(parents=True)
    library.library_path().write_bytes(b"no library")
    reason = r"\.so cannot be loaded \(.*\); hf_elmo\.kernels\.build\(\) builds it anew"
    assert re.search(reason, kernels.why_not()["compiled"])


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("true"), reason="asks for a program that does nothing")
def test_a_folder_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(occupied))
    monkeypatch.setenv("CXX", "true")
    monkeypatch.setattr(library, "_loaded", None)
    monkeypatch.setattr(library, "_failure", None)
    with pytest.raises(RuntimeError, match=r"cannot be read or written .*; set TORCH_EXTENSIONS_DIR"):
        kernels.build()


def test_the_library_lies_in_pytorchs_folder_for_extensions(monkeypatch):
    extensions = pytest.importorskip("torch.utils.cpp_extension")
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    assert library.library_path().is_relative_to(extensions.get_default_build_root())
