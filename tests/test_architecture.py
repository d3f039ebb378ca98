"""The shape of the house: which file may import which, and what a file that travels with a checkpoint may not do."""

import ast
import functools
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT

PACKAGE = ROOT / "hf_elmo"

# A package (a folder, or a file beside them) imports only from lower layers; within one, files may import one another.
# Every new package has to be entered here.
LAYERS = {
    **dict.fromkeys(("given", "kernels"), 0),
    "model": 1,
    **dict.fromkeys(("hub", "text"), 2),
    **dict.fromkeys(("pipelines", "conversion", "inference", "pretraining"), 3),
    **dict.fromkeys(("flair", "spacy", "tasks", "web"), 4),
    "cli": 5,
    # The public face: nothing of ours imports it.
    **dict.fromkeys(("__init__", "__main__"), 6),
}
# What a portable file may import besides its siblings: the least that a user of transformers has.
PORTABLE_IMPORTS = {*sys.stdlib_module_names, "huggingface_hub", "numpy", "regex", "torch", "transformers"}
CATCH_ALL_NAMES = {"utils", "util", "helpers", "common", "misc"}
MAX_LINES = 600

MODULES = sorted(PACKAGE.rglob("*.py"))
PORTABLE = sorted(path for path in (PACKAGE / "model").glob("*.py") if path.name != "__init__.py")
SCRIPTS = sorted((ROOT / "scripts").rglob("*.py"))


class Import(NamedTuple):
    """One import: `from ..module import names` has two dots; an import as a whole has no names."""

    module: str
    dots: int
    names: tuple[str, ...]
    is_guarded: bool
    line: int


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@functools.cache
def imports_of(path: Path) -> list[Import]:
    """Every import of a file at run time, also those inside functions."""

    def walk(node: ast.AST, is_guarded: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(name.name, 0, (), is_guarded, node.lineno)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        elif isinstance(node, ast.ImportFrom):
            yield Import(node.module or "", node.level, tuple(n.name for n in node.names), is_guarded, node.lineno)
        for child in ast.iter_child_nodes(node):
            guards = isinstance(node, ast.Try) and child in node.body and any(map(_catches_imports, node.handlers))
            yield from walk(child, is_guarded or guards)

    return list(walk(parse(path), False))


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    return any(name in ast.unparse(handler.type or handler) for name in ("ImportError", "ModuleNotFoundError"))


def own_modules(path: Path) -> Iterator[tuple[str, int]]:
    """The dotted names below `hf_elmo`, "" for the package itself, that a file imports, with the lines."""
    where = ("hf_elmo", *path.relative_to(PACKAGE).parts[:-1])
    for found in imports_of(path):
        parts = tuple(found.module.split(".")) if found.module else ()
        if found.dots:
            parts = where[: len(where) - found.dots + 1] + parts
        if parts[:1] != ("hf_elmo",):
            continue
        for name in found.names or ("",):
            # `from .package import name`: a module, or something in the package's own file?
            target = PACKAGE.joinpath(*parts[1:], name)
            is_module = bool(name) and (target.is_dir() or target.with_suffix(".py").is_file())
            yield ".".join(parts[1:] + ((name,) if is_module else ())), found.line


def layer_of(dotted: str) -> int:
    package = dotted.split(".")[0] or "__init__"
    assert package in LAYERS, f"hf_elmo/{package} has no layer: enter it in LAYERS of tests/test_architecture.py."
    return LAYERS[package]


def dotted_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_imports_point_one_way():
    for path in MODULES:
        layer, package = layer_of(dotted_name(path)), dotted_name(path).split(".")[0]
        for imported, line in own_modules(path):
            is_sibling = path.parent != PACKAGE and imported.split(".")[0] == package
            assert is_sibling or layer_of(imported) < layer, (
                f"{relative(path)}:{line} imports {imported or 'hf_elmo'}; imports go to lower layers only."
            )
    graph = {dotted_name(path): {name or "__init__" for name, _ in own_modules(path)} for path in MODULES}
    graphlib.TopologicalSorter(graph).prepare()  # no two files import each other


def test_portable_files_are_flat_and_alone():
    """transformers copies the flat siblings of a file and demands, at loading, whatever it imports outside `try`."""
    siblings = {path.stem for path in PORTABLE}
    assert len(siblings) == 6
    for path in PORTABLE:
        for found in imports_of(path):
            where = f"{relative(path)}:{found.line}"
            if found.dots:
                # `from . import x` is not shipped.
                assert found.dots == 1 and found.module in siblings, f"{where} imports what does not travel with it."
            elif found.module.split(".")[0] == "hf_elmo":
                assert found.is_guarded, f"{where} needs the package; put it in try/except ImportError."
            elif not found.is_guarded:
                assert found.module.split(".")[0] in PORTABLE_IMPORTS, f"{where} imports {found.module}."


@pytest.mark.parametrize("name", [path.stem for path in PORTABLE])
def test_the_files_that_auto_map_names_import_all_that_they_need_themselves(name):
    """transformers 5.4 copies what such a file imports, but not what only the imported files import."""
    siblings = {
        path.stem: {found.module for found in imports_of(path) if found.dots and found.module != name}
        for path in PORTABLE
    }
    needed, new = set(), siblings[name]
    while new:
        needed |= new
        new = set().union(*(siblings[sibling] for sibling in new)) - needed
    assert siblings[name] == needed


def test_each_file_says_in_one_sentence_what_it_is_for_and_none_grows_beyond_reading():
    for path in MODULES + SCRIPTS:
        docstring = ast.get_docstring(parse(path))
        assert docstring, f"{relative(path)} has no docstring."
        first, _, rest = docstring.partition("\n")
        assert first.rstrip("`").endswith(".") and (not rest or rest.startswith("\n")), (
            f"{relative(path)} starts with {first!r}; wanted one sentence on a line of its own."
        )
        assert path.stem not in CATCH_ALL_NAMES, f"{relative(path)}: name a file by what it is for."
        lines = path.read_text(encoding="utf-8").count("\n")  # of a model that travels there is one file
        assert lines < MAX_LINES or path in PORTABLE, f"{relative(path)} has {lines} lines; split it by concept."
