"""Names in strangers' files do not lead out of their directory."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.given.bounded_files import path_inside, quoted


@pytest.mark.parametrize(
    "name", ["../a", "a/../../b", "/etc/passwd", "..", "a\\..\\..\\b", "C:\\a", "C:a", "\\\\host\\a", "", ".", "a\0b"]
)
def test_names_that_lead_out_are_refused(tmp_path, name):
    message = assert_refused(ValueError, "index 'i'", path_inside, tmp_path, name, "index 'i'")
    assert "\0" not in message


@given(name=st.text("a./\\:C~", max_size=8))
def test_what_is_not_refused_stays_inside(name):
    try:
        path = path_inside("/data/here", name, "index 'i'")
    except ValueError:
        return
    assert os.path.normpath(path).startswith("/data/here/")


def test_long_values_are_cut():
    assert quoted("abc") == "'abc'" and len(quoted("a" * 10_000)) < 100
