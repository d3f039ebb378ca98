"""Uses from the command line: of texts, of files of senses and of CoNLL-U, and what is refused."""

import json

import pytest
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.commands import command_line
from hf_elmo.commands.look_uses import UsesArguments, look_at_uses

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
def look(folder, tmp_path):
    def look(**options):
        given = {"input_file": str(folder / "text.txt"), "output_file": str(tmp_path / "page.html"), **options}
        look_at_uses(UsesArguments(model_name_or_path=str(folder / "elmo"), **given))
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    return look


def test_a_text_gives_a_page_and_a_picture(folder, tmp_path, capsys):
    page = tmp_path / "new" / "page.html"
    words = ["look", "uses", "--model_name_or_path", str(folder / "elmo"), "--input_file", str(folder / "text.txt")]
    command_line.main([*words, "--words", "play", "the,a", "--output_file", str(page)])
    assert page.read_text(encoding="utf-8").count("<section") == 2
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "play: 3 uses of 3" in printed and "the: 5 uses of 5" in printed and str(page) in printed


def test_senses_and_parts_of_speech_colour_the_uses(look, folder, tmp_path):
    senses = look(input_file=str(folder / "senses.jsonl"), skip_picture=True)
    assert "not soft (2)" in senses and "difficult (1)" in senses and '<h2 lang="">hard</h2>' in senses
    assert not (tmp_path / "page.png").exists()
    options = {"skip_picture": True, "overwrite_output_file": True}
    tags = look(input_file=str(folder / "text.conllu"), words=["play"], **options)
    assert "VERB (1)" in tags and "NOUN (1)" in tags and "by part of speech" in tags
    clusters = look(input_file=str(folder / "senses.jsonl"), colour_by="cluster", clusters=2, **options)
    assert "not soft" not in clusters and "cluster 2" in clusters


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "--words"),
        ({"words": ["gobble"]}, "gobble"),
        ({"words": ["play"], "output_file": "page.png"}, "--output_file"),
        ({"words": ["play"], "max_uses": 0}, "--max_uses"),
        ({"words": ["play"], "clusters": 7}, "--clusters"),
        ({"words": ["play"], "input_file": "nothing.txt"}, "nothing.txt"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_leaves_nothing(look, tmp_path, options, named):
    assert_refused((ValueError, OSError), named, look, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_is_there_is_kept(look, tmp_path):
    (tmp_path / "page.png").write_bytes(b"mine")
    assert_refused(FileExistsError, "page.png", look, words=["play"])
    assert (tmp_path / "page.png").read_bytes() == b"mine"


@pytest.mark.parametrize(("argv", "code"), [(["look"], 2), (["look", "--help"], 0), (["look", "usse"], 2)])
def test_look_alone_lists_what_there_is_to_look_at(capsys, argv, code):
    with pytest.raises(SystemExit) as ended:
        command_line.main(argv)
    printed = "".join(capsys.readouterr())
    assert ended.value.code == code and "look uses" in printed and "embed" not in printed
