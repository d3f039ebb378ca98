"""Files of senses are read whole, and what is no use with its sense is refused by its line."""

import gzip
import json

from conftest import shared_data
from refusals import assert_refused

from hf_elmo.inference.senses import holds_senses, read_senses

USE = {"id": "1", "sense": "S", "index": 1, "tokens": ["a", "word"], "pos": ["DT", "NN"]}


def test_uses_are_read_packed_or_not(tmp_path):
    text = "\n".join([json.dumps(USE), "", json.dumps({**USE, "index": 0, "sense": "T"})])
    (tmp_path / "a.jsonl").write_text(text)
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(text)
    for name in ("a.jsonl", "a.jsonl.gz"):
        assert holds_senses(str(tmp_path / name))
        assert read_senses(str(tmp_path / name)) == [(["a", "word"], [None, "S"]), (["a", "word"], ["T", None])]


def test_other_files_hold_none(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a word"}')
    (tmp_path / "a.txt").write_text(json.dumps(USE))
    (tmp_path / "empty.jsonl").write_text("")
    assert not any(holds_senses(str(tmp_path / name)) for name in ("a.jsonl", "a.txt", "empty.jsonl"))
    assert_refused(ValueError, ("file", "empty.jsonl"), read_senses, str(tmp_path / "empty.jsonl"))


def test_a_wrong_record_is_named_by_its_line(tmp_path):
    for change in (
        *({"tokens": tokens} for tokens in ("a word", [], ["a", 1], ["a", ""], None)),
        *({"index": index} for index in (2, -1, True, "1", None)),
        *({"sense": sense} for sense in ("", 3, None, "\ud800")),
    ):
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [USE, {**USE, **change}])))
        assert_refused(ValueError, ("line 2", "a.jsonl"), read_senses, str(tmp_path / "a.jsonl"))


def test_the_real_files_are_read_whole():
    uses = read_senses(str(shared_data("senseval/interest.jsonl")))
    assert len(uses) == 2368
    labeled = {word for words, labels in uses for word, label in zip(words, labels, strict=True) if label is not None}
    assert labeled <= {"interest", "interests", "interest-", "interest's"}
