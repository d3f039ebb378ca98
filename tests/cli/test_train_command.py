"""`hf-elmo train` and `pretrain` as users give them: files, a directory, interrupts, processes, wrong files."""

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


def test_a_wrong_file_is_named_in_one_line(folder, capsys):
    path = folder / "train.csv"
    path.write_bytes(b"premise,hypothesis,label\na man,a dog,neutral\ncaf\xe9,x,y\n")
    words = ["train", "text-classification", "--model_name_or_path", folder / "architecture", "--from_scratch"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--use_cpu", f"--train_file={path}", f"--output_dir={folder / 'out'}"])
    said, error = capsys.readouterr()
    assert (ended.value.code, said, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"error: train_file {str(path)!r}") and "line 3" in error and not (folder / "out").exists()


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


TINY = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]]}'
TWO_PROCESSES = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29611")


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param((), id="python"),
        pytest.param(("-m", "accelerate.commands.launch", "--cpu"), id="accelerate", marks=pytest.mark.slow),
        pytest.param(TWO_PROCESSES, id="torchrun", marks=pytest.mark.slow),
    ],
)
def test_a_pretraining_runs_by_every_launcher(tmp_path, launcher):
    for index in range(2):
        lines = (f"the cat sat on mat {number} .\na dog ran {number} times .\n" for number in range(30))
        (tmp_path / f"{index}.txt").write_text("".join(lines))
    flags = ["--train_file", tmp_path / "*.txt", "--output_dir", tmp_path / "out", "--config_overrides", TINY]
    flags += ["--max_steps", 4, "--per_device_train_batch_size", 2, "--validation_split_percentage", 10]
    done = fresh_process.run([*launcher, "-m", "hf_elmo", "pretrain", *flags])
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith("step 4 of 4: held-out perplexity") for line in done.stdout.splitlines()) == 1
    assert "words/s" in done.stderr
    assert (tmp_path / "out" / "model.safetensors").exists()
