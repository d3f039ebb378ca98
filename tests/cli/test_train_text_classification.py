"""`hf-elmo train text-classification` as a user gives it, for texts and for pairs: from files to a directory."""

import json

import pytest
from conftest import make_tiny_config

from hf_elmo.cli.command_line import main

FILES = {
    "texts": ("sentence,label\n", '"good, really",1\n"bad, really",0\n'),
    "pairs": ("premise,hypothesis,label\n", '"a man, asleep",he sleeps,entailment\na man,a dog,neutral\n'),
}


@pytest.fixture
def run(tmp_path, capsys):
    make_tiny_config().save_pretrained(tmp_path / "architecture")

    def run_command(*flags):
        code = 0
        try:
            main(
                [
                    "train",
                    "text-classification",
                    "--model_name_or_path",
                    str(tmp_path / "architecture"),
                    "--from_scratch",
                    "--use_cpu",
                    *map(str, flags),
                ]
            )
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run_command


@pytest.mark.parametrize("kind", FILES)
def test_training_from_a_file(kind, run, tmp_path):
    head, rows = FILES[kind]
    (tmp_path / "train.csv").write_text(head + 4 * rows)
    data = ["--train_file", tmp_path / "train.csv", "--test_file", tmp_path / "train.csv", "--text_is_tokenized"]
    training = ["--num_train_epochs", 1, "--head", "hidden_size=3", "--num_seeds", 2, "--output_dir", tmp_path / "out"]
    code, shown, errors = run(*data, *training)
    assert code == 0, errors
    assert "2 labels." in shown.splitlines()[0] and "What the texts of each label were taken for:" in shown
    assert "| test, mean of seeds |" in shown
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert len(results["seeds"]) == 2 and results["task"] == "text-classification"
    assert results["text_pairs"] == (kind == "pairs")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "\n- text-classification\n" in card and "sentiment" not in card
    assert ("\n- text-pair-classification\n" in card) == (kind == "pairs")
    assert len((tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()) == 9


@pytest.mark.parametrize("kind", FILES)
def test_a_wrong_file_is_one_line(kind, run, tmp_path):
    head, rows = FILES[kind]
    path = tmp_path / "train.csv"
    for content, named in (
        ((head + rows).encode() + b"caf\xe9,caf\xe9,x\n", ("line 4", "UTF-8")),
        ((head + rows + "x\n").encode(), ("line 4", "1 column")),
        (head.encode(), "no texts"),
        (b"what,else\n1,2\n", "--text_column"),
    ):
        path.write_bytes(content)
        code, shown, errors = run("--train_file", path, "--output_dir", tmp_path / "out")
        assert code == 2 and not shown and errors.count("\n") == 1 and errors.startswith("error: "), errors
        assert all(name in errors for name in ([named] if isinstance(named, str) else named)), errors
    assert not (tmp_path / "out").exists()
