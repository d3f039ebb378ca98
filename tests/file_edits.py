"""Edits of a file's bytes, and of the values in its JSON: what damage, haste and strangers make of a good one."""

import json
import re

from hypothesis import strategies as st

# What is put in the place of a number, a string or a word, or between any two bytes.
PIECES = [
    *(b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r", b"\t", b" ", b"\xc2\x85", b"\xe2\x80\xa8", b"9" * 5000),
    *b'0 -1 3 50 1e999 NaN 0.5 true null [] {} 99999999 " \\ , # -DOCSTART-'.split(),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"]" * 1000, b"a" * 100_000, b"\n" * 1000, b"\t" * 1000),
]
# What is put in the place of a value of JSON.
VALUES = [
    *json.loads('[null, true, false, 0, 1, -1, 3, 50, 1000000, 1000000000000, 0.5, -0.0, Infinity, NaN, "", "a"]'),
    *json.loads('[[], {}, [1], [[1, 2]], [null], ["a", 1], {"a": 1}, [[0, -1]], {"1": "a", "0": null}]'),
    *(10**400, "x" * 10**5, {"type": "token_classification"}),
    *("../../etc/passwd", "\ud800", "float16", "relu", "ElmoModel", "F32", "torch"),
]
_PIECE = re.compile(rb'"[^"]*"|-?\d+(?:\.\d+)?|true|false|null|[^\s\[\]{},:"]+')

places = st.integers(0, 2**16 - 1).map(lambda place: place / 2**16)
byte_edits = st.one_of(
    st.tuples(st.just("flip"), places, st.integers(0, 7)),
    st.tuples(st.just("fill"), places, st.integers(1, 4000), st.integers(0, 255)),
    st.tuples(st.just("cut"), places),
    st.tuples(st.just("delete"), places, st.integers(1, 40)),
    st.tuples(st.just("double"), places, st.integers(1, 4000), st.sampled_from([1, 200])),
    st.tuples(st.just("insert"), places, st.sampled_from(PIECES)),
    st.tuples(st.just("replace"), places, st.sampled_from(PIECES)),
    st.tuples(st.just("all"), st.sampled_from(PIECES) | st.binary(max_size=50)),
)
# They leave the form as it is and change what it means.
value_edits = st.one_of(
    st.tuples(st.just("value"), places, st.sampled_from(VALUES)),
    st.tuples(st.just("value"), places, st.sampled_from(VALUES)),
    st.tuples(st.just("key"), places, st.sampled_from(["", "a", "type", "head", "auto_map", "quantization_config"])),
    st.tuples(st.just("value"), places, st.sampled_from(VALUES)),
)


def altered(content: bytes, edit: tuple) -> bytes:
    """The content with one edit, as `byte_edits` and `value_edits` draw them."""
    kind, *values = edit
    if kind == "all":
        return values[0]
    if kind in ("value", "key"):
        return altered_json(content, *edit)
    if kind == "replace":
        found = list(_PIECE.finditer(content))
        if not found:
            return content
        match = found[int(values[0] * len(found))]
        return content[: match.start()] + values[1] + content[match.end() :]
    at = int(values[0] * len(content))
    before, after = content[:at], content[at:]
    if kind == "cut":
        return before
    if kind == "insert":
        return before + values[1] + after
    if kind == "flip":
        return before + bytes([after[0] ^ 1 << values[1]]) + after[1:] if after else before
    part, rest = after[: values[1]], after[values[1] :]
    if kind == "fill":
        return before + bytes([values[2]]) * len(part) + rest
    return before + (b"" if kind == "delete" else part * (1 + values[2])) + rest


def altered_json(content: bytes, kind: str, place: float, new) -> bytes:
    """JSON, or one of the lines of JSON, with another value in one place, or another key before a value."""
    try:
        whole = [json.loads(line) for line in content.splitlines()]
        is_lines = True
    except ValueError:
        try:
            whole, is_lines = [json.loads(content)], False
        except ValueError:
            return content
    slots, todo = [], [whole]
    while todo:
        inside = todo.pop()
        for key in list(inside) if isinstance(inside, dict) else range(len(inside)):
            slots.append((inside, key))
            if isinstance(inside[key], (dict, list)):
                todo.append(inside[key])
    if not slots:
        return content
    inside, key = slots[int(place * len(slots))]
    if kind == "value":
        inside[key] = new
    elif isinstance(inside, dict):
        inside[new] = inside.pop(key)
    return b"\n".join(json.dumps(value).encode() for value in whole) + b"\n" * is_lines
