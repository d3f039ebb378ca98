"""What is published: the wheel has every file it needs and declares what it imports; what is missing is named."""

import ast
import importlib
import itertools
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

import hf_elmo

PACKAGE = ROOT / "hf_elmo"
# Packages whose import has another name.
DISTRIBUTIONS = {"sklearn": "scikit_learn", "yaml": "pyyaml"}
# It declares a transformers that is too old for hf_elmo: the extra of its name brings what else it needs.
BESIDE_PIP = {"flair"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="in the standard library from Python 3.11 on")
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_everything_imported_is_declared(project):
    required, optional = (
        project["dependencies"],
        [*itertools.chain.from_iterable(project["optional-dependencies"].values())],
    )
    imported = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                imported.setdefault(name.partition(".")[0], path)
    foreign = set(imported) - set(sys.stdlib_module_names) - {"hf_elmo"} - BESIDE_PIP
    distributions = {DISTRIBUTIONS.get(name, name): imported[name] for name in foreign}
    missing = {name: path for name, path in distributions.items() if name not in names_of(required + optional)}
    assert not missing, f"pyproject.toml does not declare {missing}"
    unused = names_of(required) - set(distributions)
    assert not unused, f"pyproject.toml requires {unused}, which nothing imports"


def test_the_oldest_versions_of_the_matrix_are_the_floors(project):
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    # The extra flair has the bounds that flair itself declares.
    wanted = [requirement for name, group in groups.items() if name not in ("dev", "flair") for requirement in group]
    floors = dict(re.match(r"([\w.-]+)>=([\d.]+)", each).groups() for each in wanted if not each.startswith("hf_elmo"))
    pins = (ROOT / ".ci" / "matrix" / "oldest.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([\d.]+)$", pins, flags=re.MULTILINE))
    assert {name: re.sub(r"(\.0)+$", "", version) for name, version in pinned.items()} == {
        name: re.sub(r"(\.0)+$", "", version) for name, version in floors.items()
    }


def names_of(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", requirement).group().lower().replace("-", "_") for requirement in requirements}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the sdist and the wheel that was made from the sdist."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    shutil.copytree(PACKAGE, source / "hf_elmo", ignore=shutil.ignore_patterns("__pycache__"))
    build("sdist", source, folder)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    build("wheel", next((folder / "unpacked").iterdir()), folder)
    return folder


def build(kind: str, source: Path, folder: Path) -> None:
    script = f"from setuptools import build_meta; build_meta.build_{kind}({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", script], cwd=source, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Deprecat" not in done.stderr, done.stderr


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
        licenses = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    wanted = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sorted(names) == sorted(path.relative_to(ROOT).as_posix() for path in wanted)
    assert {"hf_elmo/py.typed", "hf_elmo/cli/export.py"} <= set(names)
    assert f"Version: {hf_elmo.__version__}\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata and licenses


@pytest.mark.parametrize("library", ["flair", "spacy"])
def test_the_extra_is_named(library, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"hf_elmo.{library}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'hf_elmo\[{library}\]'") as refused:
        importlib.import_module(f"hf_elmo.{library}")
    assert "\n" not in str(refused.value)
