"""Every file that comes from elsewhere, altered in any way, is read or refused by an error of our own that names it.

With `make test-slow` each kind of file gets many more alterations.
"""

import json
import re
import resource
import shutil
import sys

import pytest
from file_kinds import KINDS, header_of, pickle_of, whole
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import assert_read_or_refused
from run_cases import make_arguments, write_lines

from hf_elmo.hub import provenance
from hf_elmo.hub.provenance import write_json
from hf_elmo.pretraining.checkpoint import DIGESTS_FILE, checkpoints_in, compute_digests
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.train import LaneTrainer

# torch says it of a byte that was altered, before it reads on or refuses.
pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")

SLOW_FACTOR = 20

efforts = pytest.mark.parametrize("effort", [1, pytest.param(SLOW_FACTOR, marks=pytest.mark.slow)])


# Edits: what damage, haste and strangers make of a good file.

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


# Files


def most_memory() -> int:
    """The most memory that this process has ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def check_alterations(path, check_read, examples, inside):
    """Alter a file in many ways and check each time how it is read."""
    good, memory = path.read_bytes(), most_memory()
    part, put_in = inside(good)
    is_json = part.lstrip()[:1] in (b"{", b"[")
    changes = st.lists(byte_edits, min_size=1, max_size=2).map(lambda changes: (good, bytes, changes))
    changes |= st.lists(value_edits if is_json else byte_edits, min_size=1, max_size=2).map(
        lambda changes: (part, put_in, changes)
    )

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(changes)
    def check(change):
        content, finish, edits = change
        for edit in edits:
            content = altered(content, edit)
        path.write_bytes(finish(content))
        check_read()

    try:
        check()
    finally:
        path.write_bytes(good)
    assert most_memory() - memory < 2**30


@efforts
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name or kind.file)
def test_what_is_altered_is_read_or_refused_by_name(tmp_path, kind, effort):
    path = kind.prepare(tmp_path / "folder")
    check_alterations(path, lambda: kind.check(path), kind.examples * effort, kind.inside)


class GoneOn(Exception):
    """A run got as far as its first step."""


@pytest.fixture
def checkpoint(tmp_path, monkeypatch, accelerate_anew):
    """A checkpoint of a run, and what resumes from it up to its first step."""
    write_lines(tmp_path)
    changes = {"save_steps": 3, "eval_steps": 3, "skip_baselines": True}
    run_pretraining(make_arguments(tmp_path, max_steps=3, **changes), report=lambda line: None)
    found = shutil.move(checkpoints_in(tmp_path / "out")[3], tmp_path / "checkpoint-3")
    shutil.rmtree(tmp_path / "out")

    def stop(trainer):
        raise GoneOn

    monkeypatch.setattr(LaneTrainer, "train", stop)
    # Which asks git.
    monkeypatch.setattr(provenance, "_commit", lambda: None)
    arguments = make_arguments(tmp_path, max_steps=3, resume_from_checkpoint=str(found), **changes)

    def go_on():
        with pytest.raises(GoneOn):
            run_pretraining(arguments, report=lambda line: None)

    return found, go_on


FILES = {
    "trainer_state.json": whole,
    "optimizer.pt": pickle_of,
    "rank-0.pt": pickle_of,
    "model.safetensors": header_of,
    "config.json": whole,
    "word_vocabulary.txt": whole,
}


@efforts
def test_a_checkpoint_of_a_run_is_gone_on_from_or_refused_by_name(checkpoint, effort):
    directory, go_on = checkpoint
    go_on()

    def check_read():
        # As a stranger writes it, whose digests are right.
        write_json(directory / DIGESTS_FILE, {"sha256": compute_digests(directory)})
        assert_read_or_refused(go_on, directory.name)

    for name, inside in FILES.items():
        check_alterations(directory / name, check_read, 10 * effort, inside)
