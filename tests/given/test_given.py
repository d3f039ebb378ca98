"""What users and strangers give: names stay inside of a directory, JSON is JSON, flags are checked alike."""

import json
import os
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.given import check_choices, check_least, flag, parse_json, path_inside, quoted, read_json

# Names of files


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


# JSON

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('[]{}"\\ab\n'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[{"\\', max_size=3), inner, max_size=3),
)


@given(value=values, indent=st.sampled_from([None, 1]), encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_what_python_reads_is_read(value, indent, encoding):
    text = json.dumps(value, indent=indent)
    assert parse_json(text, "file 'a'") == parse_json(text.encode(encoding), "file 'a'") == value


NO_JSON = [b"", b'{"a": 1', b"\xff\xfe\x00", b'{"a":\n\n caf\xe9}', b"1" * 5000, b'{"a": "\x00"}', b"nope", b"\x80"]


@pytest.mark.parametrize(
    "content", [*NO_JSON, *(bracket * 100_000 for bracket in (b"[", b'{"a":', b'[{"a":'))], ids=range(11)
)
def test_what_is_no_json_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    message = assert_refused(ValueError, ("a.json", "JSON"), read_json, tmp_path / "a.json", "file 'a.json'")
    assert "\n" not in message and len(message) < 300


def test_a_file_larger_than_its_bound_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('"' + "x" * 2000 + '"')
    assert_refused(ValueError, ("'a'", "2,000"), read_json, tmp_path / "a.json", "file 'a'", most=2000)
    assert read_json(tmp_path / "a.json", "file 'a'", most=2002) == "x" * 2000


# Flags


@dataclass(frozen=True, kw_only=True)
class Group:
    shape: Literal["round", "square"] = flag("A shape.", default="round")
    colour: Literal["red", "green"] | None = flag("A colour.", default=None)
    size: int | None = flag("A size.", default=None)


@dataclass(frozen=True, kw_only=True)
class Joined(Group):
    name: str = flag("A name, which has no default.")


def test_choices_are_those_of_the_annotation():
    check_choices(Joined(name="n", colour="red"))
    for changes, named in (
        ({"shape": "flat"}, "--shape is 'flat'"),
        ({"shape": None}, "--shape"),
        ({"colour": "blue"}, "--colour"),
    ):
        assert_refused(ValueError, named, check_choices, Joined(name="n", **changes))


@pytest.mark.parametrize(("size", "least"), [(0, 1), (-1, 0), (2, 3)])
def test_least_values_are_named(size, least):
    check_least(Group(size=least), ("size",), least)
    check_least(Group(), ("size",), least)
    assert_refused(ValueError, ("--size", str(size), str(least)), check_least, Group(size=size), ("size",), least)
