"""`hf-elmo train` as a user gives it: from files to a directory, interrupts, processes, and mistakes in one line."""

import itertools
import json
import shlex
import sys

import fresh_process
import pytest
from conftest import make_tiny_config
from transformers import Trainer

from hf_elmo.cli.command_line import main
from hf_elmo.tasks.readers.columns import read_tagged_file


@pytest.fixture
def folder(tmp_path):
    make_tiny_config().save_pretrained(tmp_path / "architecture")
    (tmp_path / "train.tsv").write_text("token\tpos\tner\nNew York\tPROPN\tB-LOC\nis\tVERB\tO\n\nbig\tADJ\tO\n")
    return tmp_path


def test_training(folder):
    file = folder / "train.tsv"
    data = ["--train_file", file, "--test_file", file, "--word_column", "token", "--label_column", "pos"]
    model = ["--model_name_or_path", folder / "architecture", "--from_scratch", "--no_freeze_bilm"]
    training = ["--head", "lstm_layers=1", "--output_dir", folder / "out", "--num_train_epochs", 1, "--use_cpu"]
    result = fresh_process.run(["-m", "hf_elmo", "train", "token-classification", *data, *model, *training])
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Model: ")
    assert lines[0].endswith("(biLM trained); all weights random; lstm_layers 1; 3 labels.")
    assert "epoch 1 of 1: training loss" in lines[1]
    assert lines[3] == "## Scores" and any(line.startswith("| mix 1 | 3") for line in lines)
    assert {"test", "`ADJ`", "`PROPN`", "`VERB`"} <= {line.split(" | ")[0].removeprefix("| ") for line in lines}
    assert lines[-1] == f"Written to {folder / 'out'}."
    assert "Warning" not in result.stderr
    assert read_tagged_file(folder / "out" / "test_predictions.conll").words == [["New York", "is"], ["big"]]
    results = json.loads((folder / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["data"]["train"]["sentences"] == 2
    assert "--head lstm_layers=1" in results["command"]


PAIRS = "premise,hypothesis,label\n" + 4 * '"a man, asleep",he sleeps,entailment\na man,a dog,neutral\n'
QUESTION = {"id": "q", "question": "Who sat ?", "answers": [{"text": "cat", "answer_start": 4}]}
SQUAD = json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "The cat sat .", "qas": [QUESTION]}]}]})


@pytest.mark.parametrize(
    ("task", "content", "wrong", "named", "tag"),
    [
        ("text-classification", PAIRS, PAIRS.encode() + b"caf\xe9,x,y\n", "line 10", "text-pair-classification"),
        ("question-answering", SQUAD, b'{"data": []}', "no questions", "question-answering"),
    ],
)
def test_other_tasks_and_a_wrong_file(folder, capsys, task, content, wrong, named, tag):
    path = folder / ("train.csv" if task.startswith("text") else "train.json")
    words = ["train", task, "--model_name_or_path", folder / "architecture", "--from_scratch", "--use_cpu"]
    words += ["--head", "hidden_size=3", "--train_file", path, "--test_file", path, "--output_dir", folder / "out"]
    path.write_bytes(wrong)
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, words)))
    said, error = capsys.readouterr()
    assert (ended.value.code, said, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"error: train_file {str(path)!r}") and named in error and not (folder / "out").exists()
    path.write_text(content)
    main([*map(str, words), "--num_train_epochs", "1"])
    results = json.loads((folder / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["task"] == task
    assert f"\n- {tag}\n" in (folder / "out" / "README.md").read_text(encoding="utf-8")
    assert len(list((folder / "out").glob("test_predictions*"))) >= 1


def train_two_epochs(folder):
    """The words of a command that saves a checkpoint after each of two epochs, its model random."""
    words = ["train", "token-classification", "--model_name_or_path", folder / "architecture", "--from_scratch"]
    words += ["--train_file", folder / "train.tsv", "--word_column", "token", "--label_column", "pos", "--use_cpu"]
    words += ["--per_device_train_batch_size", 1, "--save_strategy", "epoch", "--num_train_epochs", 2]
    return [str(word) for word in (*words, "--output_dir", folder / "out")]


def test_an_interrupt_is_one_line_with_the_command_that_resumes(folder, monkeypatch, capsys):
    words = ["hf-elmo", *train_two_epochs(folder)]
    monkeypatch.setattr(sys, "argv", words)
    step, taken = Trainer.training_step, itertools.count()

    def interrupt(*arguments, **more):
        if next(taken) == 3:
            raise KeyboardInterrupt
        return step(*arguments, **more)

    monkeypatch.setattr(Trainer, "training_step", interrupt)
    with pytest.raises(SystemExit) as stopped:
        main(words[1:])
    assert stopped.value.code == 130
    said = capsys.readouterr().err.splitlines()
    command = said[-2].removeprefix("note: resume this run with: ")
    assert said[-1] == "stopped"
    assert shlex.split(command) == [*words, "--resume_from_checkpoint", "auto"]
    main(shlex.split(command)[1:])
    assert f"Written to {folder / 'out'}." in capsys.readouterr().out
    # Two steps before the interrupt was raised, which was the fourth, and two behind it.
    assert next(taken) == 6


def test_of_two_processes_one_computes_and_writes(folder):
    words = train_two_epochs(folder)
    words += ["--validation_file", folder / "train.tsv", "--load_best_model_at_end"]
    words += ["--layer_cache_dir", folder / "layers"]
    said = []
    environments = fresh_process.environments_of_ranks(2)
    for done in fresh_process.run_together([["-m", "hf_elmo", *words]] * 2, environments):
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    # The same sentences in both files.
    assert "".join(said).count("layers: computing") == 1
    assert {path.name for path in folder.iterdir()} == {"architecture", "train.tsv", "out", "layers"}
    names = {path.name for path in (folder / "out").iterdir()}
    assert {"checkpoint-1", "checkpoint-2", "model.safetensors", "results.json"} <= names
    state = json.loads((folder / "out" / "checkpoint-1" / "trainer_state.json").read_text(encoding="utf-8"))
    assert len(state["stateful_callbacks"]["ExactResume"]["attributes"]["resumed_starts"]) == 2


def test_a_missing_seqeval_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "seqeval.metrics.sequence_labeling", None)
    for name in ("hf_elmo.tasks.metrics", "hf_elmo.tasks.token_classification"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["train", "token-classification", "--model_name_or_path", "x", "--output_dir", "out"])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and error.count("\n") == 1 and "hf_elmo[tasks]" in error
