"""Neighbours from the command line: words of a text and of a sentence, and what cannot be found."""

import gzip

import pytest
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.commands.show_neighbours import NeighbourArguments, main, show_neighbours

TEXT = "the play was good\nthey play chess\n\na good play\nthe cat sat on a mat near the door\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("neighbours")
    ElmoModel(make_tiny_config()).save_pretrained(folder / "elmo")
    ElmoCharTokenizer().save_pretrained(folder / "elmo")
    (folder / "text.txt").write_text(TEXT)
    with gzip.open(folder / "text.txt.gz", "wt") as file:
        file.write(TEXT)
    return folder


@pytest.fixture
def run(folder, capsys):
    def run(input_file="text.txt", **options):
        capsys.readouterr()
        show_neighbours(NeighbourArguments(str(folder / "elmo"), str(folder / input_file), device="cpu", **options))
        return capsys.readouterr().out

    return run


def test_flags_of_old_still_work(folder, capsys):
    main(
        [
            "--model_name_or_path",
            str(folder / "elmo"),
            "--input_file",
            str(folder / "text.txt"),
            "--words",
            "play",
            "zebra",
        ]
    )
    printed = capsys.readouterr().out
    assert printed.count("nearest  ") == 2 and "'zebra'" in printed


def test_words_that_are_there_are_shown_and_the_others_named(run):
    shown = run(words=["play", "zebra"])
    assert shown.count("nearest  ") == 2 and "'zebra': not among" in shown
    assert run("text.txt.gz", words=["play", "zebra"]) == shown
    assert run(words=["zebra"]).startswith("'zebra': not among")
    assert run(words=["play"], top_k=2).count("nearest  ") == 4


def test_uses_nearest_to_a_word_of_a_sentence(run):
    lines = run(sentence="we play cards", word="play", top_k=2, same_word=True).splitlines()
    assert lines[0] == "we [play] cards" and len(lines) == 3
    assert all("[play]" in line for line in lines)
    every = run(sentence="we play cards").splitlines()
    assert len([line for line in every if line[0] != " "]) == 3
    assert run(sentence="a play", word="play", layer=0, top_k=1).splitlines()[1].split()[0] == "1.00"


def test_mistakes_are_named(run):
    for options, named in (
        ({}, "--words"),
        ({"words": ["play"], "word": "play"}, "--sentence"),
        ({"sentence": "we play", "word": "cat"}, "'cat'"),
        ({"words": ["play"], "top_k": 0}, "--top_k"),
        ({"words": ["play"], "layer": 3}, "layers is 3"),
        ({"words": ["play"], "input_file": "absent.txt"}, "absent.txt"),
    ):
        assert_refused((ValueError, OSError), named, run, **options)
