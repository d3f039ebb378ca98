"""Uses from the command line: of texts, of files of senses and of CoNLL-U, and what is refused."""

import json

import pytest
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoModel
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uses")
    ElmoModel(make_tiny_config()).save_pretrained(folder / "elmo")
    ElmoCharTokenizer().save_pretrained(folder / "elmo")
    (folder / "text.txt").write_text(TEXT)
    (folder / "text.conllu").write_text(CONLLU)
    (folder / "senses.jsonl").write_text("\n".join(map(json.dumps, USES)))
    return folder


@pytest.fixture
def show(folder, tmp_path):
    def show(**options):
        given = {"input_file": str(folder / "text.txt"), "html": str(tmp_path / "page.html"), **options}
        show_uses(UsesArguments(model_name_or_path=str(folder / "elmo"), **given))
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    return show


def test_uses_are_drawn_and_colored_by_senses_parts_of_speech_or_clusters(show, folder, tmp_path, capsys):
    page = show(words=["play", "the,a"])
    assert page.count("<section") == 2 and [file.name for file in tmp_path.iterdir()] == ["page.html"]
    printed = capsys.readouterr().out
    assert "play: 3 uses of 3" in printed and "the: 5 uses of 5" in printed and "page.html" in printed
    senses = show(input_file=str(folder / "senses.jsonl"), overwrite_output_file=True)
    assert "not soft (2)" in senses and "difficult (1)" in senses and '<h2 lang="">hard</h2>' in senses
    (tmp_path / "line.jsonl").write_text(json.dumps({"tokens": ["line"], "index": 0, "sense": "cord"}))
    (tmp_path / "hard.jsonl").write_text((folder / "senses.jsonl").read_text())
    both = show(input_file=str(tmp_path / "*.jsonl"), overwrite_output_file=True)
    assert '<h2 lang="">hard</h2>' in both and '<h2 lang="">line</h2>' in both and "cord (1)" in both
    tags = show(input_file=str(folder / "text.conllu"), words=["play"], overwrite_output_file=True)
    assert "VERB (1)" in tags and "NOUN (1)" in tags and "by part of speech" in tags
    clusters = {"num_clusters": 2, "overwrite_output_file": True}
    page = show(input_file=str(folder / "senses.jsonl"), **clusters)
    assert "not soft" not in page and "cluster 2" in page


def test_what_cannot_be_drawn_is_refused_and_leaves_nothing(show, tmp_path):
    for options, named in (
        ({}, "--words"),
        ({"words": ["gobble"]}, "gobble"),
        ({"words": ["play"], "html": "page.png"}, "--html"),
        ({"words": ["play"], "max_uses": 0}, "--max_uses"),
        ({"words": ["play"], "num_clusters": 7}, "--num_clusters"),
        ({"words": ["play"], "input_file": "nothing.txt"}, "nothing.txt"),
    ):
        assert_refused((ValueError, OSError), named, show, **options)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "page.html").write_bytes(b"mine")
    assert_refused(FileExistsError, "page.html", show, words=["play"])
    assert (tmp_path / "page.html").read_bytes() == b"mine"
