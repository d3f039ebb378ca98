"""Uses from the command line: of texts, of files of senses and of CoNLL-U, and what is refused."""

import json

import pytest
from refusals import assert_refused

from hf_elmo.cli.show_uses import UsesArguments, show_uses

TEXT = "the play was good\nthey play chess\n\na good play\nthe cat sat on a mat near the door\n"
CONLLU = "".join(
    "\n".join("\t".join([str(n), word, "_", tag, *"______"]) for n, (word, tag) in enumerate(sentence, start=1))
    + "\n\n"
    for sentence in ([("they", "PRON"), ("play", "VERB")], [("a", "DET"), ("play", "NOUN")])
)
USES = [
    {"tokens": ["a", "hard", "task"], "index": 1, "sense": "difficult"},
    {"tokens": ["a", "hard", "stone"], "index": 1, "sense": "not soft"},
    {"tokens": ["harder", "stones"], "index": 0, "sense": "not soft"},
]


@pytest.fixture
def show(embedder, tmp_path):
    for name, content in (
        ("text.txt", TEXT),
        ("text.conllu", CONLLU),
        ("hard.jsonl", "\n".join(map(json.dumps, USES))),
    ):
        (tmp_path / name).write_text(content)

    def show(input_file="text.txt", html="page.html", **options):
        options |= {"input_file": str(tmp_path / input_file), "html": str(tmp_path / html)}
        show_uses(UsesArguments(model_name_or_path=embedder.name, overwrite_output_file=True, **options))
        return (tmp_path / html).read_text(encoding="utf-8")

    return show


def test_uses_are_drawn_and_colored_by_senses_parts_of_speech_or_clusters(show, tmp_path, capsys):
    page = show(words=["play", "the,a"])
    assert page.count("<section") == 2
    printed = capsys.readouterr().out
    assert "play: 3 uses of 3" in printed and "the: 5 uses of 5" in printed and "page.html" in printed
    assert "not soft (2)" in show("hard.jsonl")
    (tmp_path / "line.jsonl").write_text(json.dumps({"tokens": ["line"], "index": 0, "sense": "cord"}))
    both = show("*.jsonl")
    assert '<h2 lang="">hard</h2>' in both and '<h2 lang="">line</h2>' in both and "cord (1)" in both
    tags = show("text.conllu", words=["play"])
    assert "VERB (1)" in tags and "NOUN (1)" in tags and "by part of speech" in tags
    page = show("hard.jsonl", num_clusters=2)
    assert "not soft" not in page and "cluster 2" in page


def test_what_cannot_be_drawn_is_refused_and_leaves_nothing(show, tmp_path):
    for options, named in (
        ({}, "--words"),
        ({"words": ["gobble"]}, "gobble"),
        ({"words": ["play"], "html": "page.png"}, "--html"),
        ({"words": ["play"], "max_uses": 0}, "--max_uses"),
        ({"words": ["play"], "num_clusters": 7}, "--num_clusters"),
        ({"words": ["play"], "input_file": "nothing.txt"}, "nothing.txt"),
        ({"words": ["play"], "html": "text.txt/page.html"}, "text.txt"),
    ):
        assert_refused((ValueError, OSError), named, show, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hard.jsonl", "text.conllu", "text.txt"]
