"""`hf-elmo train-sentiment` and `hf-elmo train-entailment` as a user gives them: from files to a directory."""

import json

import pytest
from conftest import make_tiny_config

from hf_elmo.commands.command_line import main

FILES = {
    "train-sentiment": ("sentence,label\n", '"good, really",1\n"bad, really",0\n'),
    "train-entailment": ("premise,hypothesis,label\n", '"a man, asleep",he sleeps,entailment\na man,a dog,neutral\n'),
}


@pytest.fixture
def run(tmp_path, capsys):
    make_tiny_config().save_pretrained(tmp_path / "architecture")

    def run_command(command, *flags):
        code = 0
        try:
            main([command, "--config_name", str(tmp_path / "architecture"), "--use_cpu", *map(str, flags)])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run_command


@pytest.mark.parametrize("command", FILES)
def test_training_from_a_file(command, run, tmp_path):
    head, rows = FILES[command]
    (tmp_path / "train.csv").write_text(head + 4 * rows)
    data = ["--train_file", tmp_path / "train.csv", "--test_file", tmp_path / "train.csv", "--text_is_tokenized"]
    training = ["--num_train_epochs", 1, "--hidden_size", 3, "--num_seeds", 2, "--output_dir", tmp_path / "out"]
    code, shown, errors = run(command, *data, *training)
    assert code == 0, errors
    assert "2 labels." in shown.splitlines()[0] and "accuracy" in shown and "predicted as" in shown
    assert "Mean and deviation of 2 seeds, test: accuracy" in shown
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert len(results["seeds"]) == 2 and results["task"] == command.removeprefix("train-")
    assert len((tmp_path / "out" / "test_predictions.tsv").read_text().splitlines()) == 9


@pytest.mark.parametrize("command", FILES)
def test_a_wrong_file_is_one_line(command, run, tmp_path):
    head, rows = FILES[command]
    path = tmp_path / "train.csv"
    for content, named in (
        ((head + rows).encode() + b"caf\xe9,caf\xe9,x\n", ("line 4", "UTF-8")),
        ((head + rows + "x\n").encode(), ("line 4", "1 column")),
        (head.encode(), "no texts"),
        (b"what,else\n1,2\n", "--text_column"),
    ):
        path.write_bytes(content)
        code, shown, errors = run(command, "--train_file", path, "--output_dir", tmp_path / "out")
        assert code == 2 and not shown and errors.count("\n") == 1 and errors.startswith("error: "), errors
        assert all(name in errors for name in ([named] if isinstance(named, str) else named)), errors
    assert not (tmp_path / "out").exists()
