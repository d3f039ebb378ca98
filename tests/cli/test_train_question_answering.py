"""`hf-elmo train question-answering` as a user gives it: from a file to a directory, and wrong files."""

import json

import pytest
from conftest import make_tiny_config

from hf_elmo.cli.command_line import main


def squad(context, text, start):
    qas = [{"id": "q", "question": "Who sat ?", "answers": [{"text": text, "answer_start": start}]}]
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]}]})


@pytest.fixture
def run(tmp_path, capsys):
    make_tiny_config().save_pretrained(tmp_path / "architecture")

    def run_command(*flags):
        code = 0
        command = ["train", "question-answering", "--model_name_or_path", str(tmp_path / "architecture"), "--use_cpu"]
        try:
            main([*command, "--from_scratch", "--output_dir", str(tmp_path / "out"), *map(str, flags)])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run_command


def test_training_from_a_file(run, tmp_path):
    (tmp_path / "train.json").write_text(squad("The cat sat .", "cat", 4))
    flags = ["--num_train_epochs", 1, "--head", "hidden_size=3", "reader=bidaf", "--num_seeds", 2]
    code, shown, errors = run("--train_file", tmp_path / "train.json", "--test_file", tmp_path / "train.json", *flags)
    assert code == 0, errors
    assert "reader bidaf, hidden_size 3" in shown.splitlines()[0] and "| test, mean of seeds |" in shown
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["task"] == "question-answering" and len(results["seeds"]) == 2
    assert list(json.loads((tmp_path / "out" / "test_predictions.json").read_text())) == ["q"]


def test_a_wrong_file_is_one_line(run, tmp_path):
    path = tmp_path / "train.json"
    for content, named in (
        (squad("The cat sat .", "cat", 5), ("answer", "cat", "character 5")),
        ('{"data": []}', ("no questions",)),
        ("[1, 2", (str(path),)),
        ('{"what": 1}', ("data",)),
    ):
        path.write_text(content)
        code, shown, errors = run("--train_file", path)
        assert code == 2 and not shown and errors.count("\n") == 1 and errors.startswith("error: "), errors
        assert all(name in errors for name in named), errors
    assert not (tmp_path / "out").exists()
