"""What is said where a library is missing that a file of the package is made for."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("library", ["flair", "spacy"])
def test_the_extra_is_named(library, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"hf_elmo.{library}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'hf_elmo\[{library}\]'") as refused:
        importlib.import_module(f"hf_elmo.{library}")
    assert "\n" not in str(refused.value)
