"""JSON of any depth, length and encoding is read as Python reads it, or refused by file and line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.given.bounded_json import parse_json, read_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text('[]{}"\\ab\n'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('[{"\\', max_size=3), inner, max_size=3),
)


@given(value=values, indent=st.sampled_from([None, 1]), encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_what_python_reads_is_read(value, indent, encoding):
    text = json.dumps(value, indent=indent)
    assert parse_json(text, "file 'a'") == parse_json(text.encode(encoding), "file 'a'") == value


@pytest.mark.parametrize("bracket", ["[", '{"a":', '[{"a":'])
def test_what_is_nested_too_deep_is_refused(bracket):
    assert_refused(ValueError, "file 'a'", parse_json, bracket * 100_000, "file 'a'")


@pytest.mark.parametrize(
    "content",
    [b"", b'{"a": 1', b"\xff\xfe\x00", b'{"a":\n\n caf\xe9}', b"1" * 5000, b'{"a": "\x00"}', b"nope", b"\x80"],
)
def test_what_is_no_json_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    message = assert_refused(ValueError, ("a.json", "JSON"), read_json, tmp_path / "a.json", "file 'a.json'")
    assert "\n" not in message and len(message) < 300


def test_a_file_larger_than_its_bound_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('"' + "x" * 2000 + '"')
    assert_refused(ValueError, ("'a'", "2,000"), read_json, tmp_path / "a.json", "file 'a'", most=2000)
    assert read_json(tmp_path / "a.json", "file 'a'", most=2002) == "x" * 2000
