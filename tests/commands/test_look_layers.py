"""Senses and parts of speech from the command line: the table, the files, and the card of the checkpoint."""

import json

import pytest
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.checkpoints.cards import write_conversion_card
from hf_elmo.commands import command_line
from hf_elmo.commands.look_senses import SensesArguments, look_at_senses
from hf_elmo.commands.look_tags import TagsArguments, look_at_tags

WORDS = {"they": "PRON", "play": "VERB", "the": "DET", "game": "NOUN", "well": "ADV"}


def write_conllu(path, count):
    rows = [[str(n), word, "_", tag, *"______"] for n, (word, tag) in enumerate(WORDS.items(), start=1)]
    path.write_text(("\n".join(map("\t".join, rows)) + "\n\n") * count)
    return str(path)


@pytest.fixture
def folder(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo")
    for word in ("hard", "line"):
        uses = [
            {"tokens": [word, "as" if number % 3 else "of", str(number)], "index": 0, "sense": f"S{number % 3 > 0}"}
            for number in range(12)
        ]
        (tmp_path / f"{word}.jsonl").write_text("\n".join(map(json.dumps, uses)))
    return tmp_path


def test_figures_are_shown_and_written_and_stand_in_the_card(folder, capsys):
    elmo = str(folder / "elmo")
    command_line.main(
        ["look", "senses", "--model_name_or_path", elmo, "--input_file", str(folder / "*.jsonl"), "--output_dir", elmo]
    )
    printed = capsys.readouterr().out
    assert "| in percent | hard |" in printed and "| bag of words |" in printed
    senses = json.loads((folder / "elmo" / "senses.json").read_text())
    assert senses["repeats"] == 5 and set(senses["scores"]) == {"hard", "line", "all words"}
    assert senses["data"]["hard"]["senses"] == {"STrue": 8, "SFalse": 4}
    assert len(senses["scores"]["line"]["layer 2"]["accuracy"]["values"]) == 5 and "command" in senses
    tagged = write_conllu(folder / "a.conllu", 4)
    results = look_at_tags(
        TagsArguments(
            model_name_or_path=elmo,
            output_dir=elmo,
            train_file=tagged,
            validation_file=tagged,
            test_file=tagged,
            num_seeds=2,
            num_train_epochs=1,
            max_train_sentences=3,
        )
    )
    assert results["data"]["train"]["words"] == 15 and results["data"]["test"]["words"] == 20
    assert results["scores"]["all words"]["most frequent tag"]["accuracy"]["mean"] == 1
    write_conversion_card(elmo, "bilm-tf", {})
    text = (folder / "elmo" / "README.md").read_text(encoding="utf-8")
    assert "## Which layer knows what" in text and "| bag of words |" in text and "| most frequent tag |" in text
    assert "(senses.png)" in text and "(tags.png)" in text and (folder / "elmo" / "tags.png").is_file()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"splits": 40}, "--splits"),
        ({"splits": 0}, "--splits"),
        ({"max_uses": 0}, "--max_uses"),
        ({"input_file": ["none.jsonl"]}, "none.jsonl"),
    ],
)
def test_what_cannot_be_measured_is_refused(folder, options, named):
    given = {"input_file": [str(folder / "hard.jsonl")], "output_dir": str(folder / "out"), **options}
    arguments = SensesArguments(model_name_or_path=str(folder / "elmo"), **given)
    assert_refused((ValueError, OSError), named, look_at_senses, arguments)
    assert not (folder / "out").exists()


def test_figures_that_are_there_are_kept(folder):
    (folder / "elmo" / "senses.json").write_text("mine")
    given = {"input_file": [str(folder / "hard.jsonl")], "output_dir": str(folder / "elmo")}
    arguments = SensesArguments(model_name_or_path=str(folder / "elmo"), **given)
    assert_refused(FileExistsError, "senses.json", look_at_senses, arguments)
    assert (folder / "elmo" / "senses.json").read_text() == "mine"
