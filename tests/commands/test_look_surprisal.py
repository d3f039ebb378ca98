"""Surprisals from the command line: the page, the picture and the table, and what is refused."""

import csv

import numpy as np
import pytest
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoScorer
from hf_elmo.commands import command_line
from hf_elmo.commands.look_surprisal import SurprisalArguments, look_at_surprisal
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

TEXT = 'They play, "well".\n\n  the game\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("surprisal")
    words = WordVocabulary([*SPECIAL_WORDS, *"They play , the game .".split()])
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(words))).save_pretrained(folder / "elmo")
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(folder / "elmo")
    words.save(folder / "elmo")
    (folder / "text.txt").write_text(TEXT)
    return folder


def test_the_table_has_the_words_as_the_file_cuts_them(folder, tmp_path, capsys):
    page = tmp_path / "page.html"
    words = [
        "look",
        "surprisal",
        "--model_name_or_path",
        str(folder / "elmo"),
        "--input_file",
        str(folder / "text.txt"),
    ]
    command_line.main([*words, "--output_file", str(page)])
    assert "5 words in 2 lines" in capsys.readouterr().out
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG") and "&quot;well&quot;." in page.read_text()
    with open(page.with_suffix(".tsv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [row["word"] for row in rows] == TEXT.split()
    assert [(row["line"], row["position"]) for row in rows] == [
        ("0", "0"),
        ("0", "1"),
        ("0", "2"),
        ("2", "0"),
        ("2", "1"),
    ]
    assert [row["pieces"] for row in rows] == ["1", "2", "4", "1", "1"]
    assert [row["unknown"] for row in rows] == ["0", "0", "3", "0", "0"]
    bits = ElmoScorer(str(folder / "elmo")).surprisals(TEXT.splitlines()[0])
    wanted = [bits[0], bits[1:3].sum(), bits[3:].sum()]
    np.testing.assert_allclose([float(row["forward"]) for row in rows[:3]], wanted, atol=1e-4)


def test_the_text_itself_is_not_overwritten(folder, tmp_path):
    text = tmp_path / "story.tsv"
    text.write_text(TEXT)
    for input_file in (text, tmp_path / "*.tsv"):
        arguments = SurprisalArguments(
            model_name_or_path=str(folder / "elmo"),
            input_file=str(input_file),
            output_file=str(tmp_path / "story.html"),
            overwrite_output_file=True,
        )
        assert_refused(ValueError, ("output_file", "'story.tsv'", "input_file"), look_at_surprisal, arguments)
    assert text.read_text() == TEXT and list(tmp_path.iterdir()) == [text]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"output_file": "page.tsv"}, "--output_file"),
        ({"direction": "up"}, "--direction"),
        ({"input_file": "nothing.txt"}, "nothing.txt"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_leaves_nothing(folder, tmp_path, options, named):
    given = {"input_file": str(folder / "text.txt"), "output_file": str(tmp_path / "page.html"), **options}
    arguments = SurprisalArguments(model_name_or_path=str(folder / "elmo"), **given)
    assert_refused((ValueError, OSError), named, look_at_surprisal, arguments)
    assert list(tmp_path.iterdir()) == []
