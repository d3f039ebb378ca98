"""Fine-tuning serves a task that supplies its own examples, encoding, metric and predictions."""

import itertools
import json
import random

import numpy as np
import pytest
import torch
from capitals import Capitals, Sentences
from conftest import make_tiny_config
from huggingface_hub.utils import WeakFileLock
from safetensors.torch import load_file
from transformers import Trainer

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification, ElmoModel, TokenClassificationHead
from hf_elmo.tasks.data import FileArguments
from hf_elmo.tasks.inputs import TaskArguments
from hf_elmo.tasks.training import TaskTrainingArguments, best_of, check_run_directory, newest_checkpoint


def make_task(directory, **training):
    sentences = Sentences([["Anna", "sees", "Oslo"], ["we", "like", "Bert"], ["no", "names"]])
    model = ElmoForTokenClassification(make_tiny_config(num_labels=2))
    settings = {"use_cpu": True, "num_train_epochs": 2, "output_dir": str(directory), "learning_rate": 0.01, **training}
    args = TaskTrainingArguments(**settings)
    splits = {"train": sentences, "validation": sentences}
    task = Capitals(TaskArguments("x"), FileArguments(), args)
    task.model, task.tokenizer, task.splits, task.description = model, ElmoCharTokenizer(), splits, "a tiny model"
    task.data = {split: {"source": "here"} for split in splits}
    return task


def make_models(config=None):
    return ElmoForTokenClassification(config or make_tiny_config(num_labels=2))


def test_several_seeds_are_several_runs_and_the_best_is_kept(tmp_path, capsys):
    singles = {}
    for seed in (42, 43, 44):
        task = make_task(tmp_path / f"single-{seed}", seed=seed)
        torch.manual_seed(seed)
        task.model = make_models()
        singles[seed] = task.run()
    task = make_task(tmp_path / "out", num_seeds=3)
    torch.manual_seed(42)
    task.model, task.build_model = make_models(), lambda: (make_models(), "")
    results = task.run()
    for key in ("eval_share_right", "eval_loss", "layer_shares"):
        assert [row[key] for row in results["seeds"]] == [run[key] for run in singles.values()]
    losses = [run["eval_loss"] for run in singles.values()]
    assert results["mean"]["eval_loss"] == pytest.approx(np.mean(losses))
    assert results["deviation"]["eval_loss"] == pytest.approx(np.std(losses, ddof=1))
    best = results["kept_seed"]
    assert best == max(singles, key=lambda seed: singles[seed]["eval_share_right"])
    by_loss = sorted(singles, key=lambda seed: singles[seed]["eval_loss"])
    assert [best_of(singles, score, score == "loss") for score in ("eval_loss", "loss")] == [by_loss[0], by_loss[-1]]
    assert best_of({7: {}, 8: {}}, "loss", True) == 7
    assert results["eval_share_right"] == singles[best]["eval_share_right"]
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("out", f"single-{best}")]
    assert torch.equal(*(its["classifier.weight"] for its in weights))
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.json", "README.md", "validation_predictions.txt", "model.safetensors"} <= names
    assert not [name for name in names if name.startswith(("un", "."))]
    assert "| validation, mean of seeds |" in capsys.readouterr().out


# Runs that are stopped and resumed

SENTENCES = [
    [draw.choice(["we", "Anna", "like", "Oslo"]) for _ in range(draw.randint(1, 7))]
    for draw in [random.Random(1)]
    for _ in range(14)
]
# Five steps in an epoch, in an order that is drawn anew in each.
MANY = {"num_train_epochs": 4, "per_device_train_batch_size": 3, "train_sampling_strategy": "group_by_length"}


def make_long_task(directory, seed=0, **training):
    task = make_task(directory, **{**MANY, **training})
    task.splits = {"train": SENTENCES, "validation": SENTENCES[:6]}
    torch.manual_seed(seed)
    head = TokenClassificationHead(dropout=0.4)
    task.model = make_models(make_tiny_config(num_labels=2, head=head, freeze_bilm=False))
    return task


def stop_at(monkeypatch, number):
    """Have a task end before it takes this step."""
    step, taken = Trainer.training_step, itertools.count()

    def fail(*arguments, **more):
        if next(taken) == number:
            raise OSError("the disk is full")
        return step(*arguments, **more)

    monkeypatch.setattr(Trainer, "training_step", fail)


def assert_same_run(whole, parts, results, resumed):
    """The same bits in all weights, the same files and scores, and the same notes on what happened."""
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, parts))
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert {path.name for path in whole.iterdir()} == {path.name for path in parts.iterdir()}

    def untimed(entry):
        timed = ("runtime", "per_second", "preparation_time", "flos", "command")
        return {key: value for key, value in entry.items() if not any(word in key for word in timed)}

    assert untimed(results) == untimed(resumed)
    notes = [json.loads((folder / "trainer_state.json").read_text()) for folder in (whole, parts)]
    logs = [[untimed(entry) for entry in note["log_history"] if "train_runtime" not in entry] for note in notes]
    assert logs[0] == logs[1] and notes[0]["best_metric"] == notes[1]["best_metric"]
    (of_trainer,) = (entry["train_loss"] for entry in notes[0]["log_history"] if "train_runtime" in entry)
    assert results["train_loss"] == pytest.approx(of_trainer, rel=1e-5)


def fail_to_report(*arguments, **more):
    raise OSError("the disk is full")


PATIENT = {
    "save_strategy": "epoch",
    "num_train_epochs": 9,
    "early_stopping_patience": 2,
    "load_best_model_at_end": True,
}


@pytest.mark.parametrize(
    ("settings", "stopped"),
    [
        ({"save_strategy": "steps", "save_steps": 4}, 14),
        ({"save_strategy": "steps", "save_steps": 5, "max_steps": 18}, 16),
        ({"load_best_model_at_end": True}, 18),
        (PATIENT, 11),
        # Behind the last step, while the scores are told.
        (PATIENT, None),
        ({"save_strategy": "epoch", "max_steps": 13}, None),
    ],
    ids=str,
)
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path, monkeypatch, settings, stopped):
    if settings is PATIENT:
        monkeypatch.setattr(Capitals, "report", lambda self, split, output: ({"share_right": 0.5}, {}))
    results = make_long_task(tmp_path / "whole", **settings).run()
    assert settings is not PATIENT or (results["epoch"], results["kept_step"]) == (3, 5)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="disk is full"):
        if stopped is None:
            patched.setattr(Trainer, "predict", fail_to_report)
        else:
            stop_at(patched, stopped)
        make_long_task(tmp_path / "parts", **settings).run()
    resumed = make_long_task(tmp_path / "parts", seed=7, resume_from_checkpoint="last", **settings).run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts", results, resumed)


def make_seeds(directory, **training):
    task = make_long_task(directory, **{"num_seeds": 3, "save_strategy": "epoch", "num_train_epochs": 2, **training})
    torch.manual_seed(42)
    task.model, task.build_model = make_models(), lambda: (make_models(), "")
    return task


def test_of_several_seeds_those_that_are_done_are_not_run_again(tmp_path, monkeypatch, capsys):
    results = make_seeds(tmp_path / "whole").run()
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        stop_at(patched, 16)
        make_seeds(tmp_path / "parts").run()
    assert newest_checkpoint(tmp_path / "parts" / "unfinished" / "seed-43").name == "checkpoint-5"
    with pytest.raises(FileExistsError, match=r"parts' holds a run.*settings.*--overwrite_output_dir"):
        make_seeds(tmp_path / "parts", resume_from_checkpoint="auto", learning_rate=0.5).run()
    other = make_seeds(tmp_path / "parts", resume_from_checkpoint="auto")
    other.labels = ["small", "capital"]
    with pytest.raises(FileExistsError, match=r"parts' holds a run.*other data"):
        other.run()
    steps, step = [], Trainer.training_step
    monkeypatch.setattr(
        Trainer, "training_step", lambda *arguments, **more: [steps.append(1), step(*arguments, **more)][1]
    )
    capsys.readouterr()
    resumed = make_seeds(tmp_path / "parts", resume_from_checkpoint="auto").run()
    assert len(steps) == 5 + 10 and "Seed 42, 1 of 3 was done before" in capsys.readouterr().out
    assert_same_run(tmp_path / "whole", tmp_path / "parts", results, resumed)
    notes = json.loads((tmp_path / "parts" / "checkpoint-10" / "trainer_state.json").read_text())
    assert "seed-" not in str(notes["best_model_checkpoint"])


def test_what_a_killed_run_left_is_used_or_removed_and_what_was_there_stays_until_all_is_done(tmp_path, capsys):
    out, settings = tmp_path / "out", {"save_strategy": "steps", "save_steps": 3}
    out.mkdir()
    (out / "precious").touch()
    with pytest.raises(FileExistsError, match="not empty"):
        check_run_directory(make_task(out).training_args)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(OSError, match="full"):
        stop_at(patched, 7)
        make_long_task(out, overwrite_output_dir=True, **settings).run()
    assert "resume_from_checkpoint" in capsys.readouterr().err
    assert {path.name for path in out.iterdir()} == {"precious", "unfinished"}
    # As after a kill while the second checkpoint was being written.
    (out / "unfinished" / "seed-42" / "checkpoint-6" / "trainer_state.json").write_text("{")
    (out / ".abcdefgh.partial").mkdir()
    with pytest.raises(FileExistsError, match="--resume_from_checkpoint auto"):
        check_run_directory(make_long_task(out).training_args)
    assert newest_checkpoint(out / "unfinished" / "seed-42").name == "checkpoint-3"
    with WeakFileLock(out / "unfinished" / ".lock"), pytest.raises(FileExistsError, match="another run"):
        make_task(out, resume_from_checkpoint="auto", overwrite_output_dir=True).run()
    # Stopped inside of its first seed.
    with pytest.raises(FileExistsError, match="other data or settings"):
        make_long_task(out, resume_from_checkpoint="auto", overwrite_output_dir=True, learning_rate=0.5).run()
    make_long_task(out, resume_from_checkpoint="auto", overwrite_output_dir=True, **settings).run()
    names = {path.name for path in out.iterdir()}
    assert not [name for name in names if name.startswith((".", "un", "precious"))] and "checkpoint-6" in names


def test_what_holds_nothing_of_use_is_empty(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        patched.setattr(Trainer, "predict", fail_to_report)
        make_task(out).run()
    assert not out.exists()
    for name in ("unfinished/layers", "unfinished/seed-42/checkpoint-3", ".abcdefgh.partial"):
        (out / name).mkdir(parents=True)
    check_run_directory(make_task(out).training_args)
    with pytest.raises(FileNotFoundError, match="'last'"):
        check_run_directory(make_task(out, resume_from_checkpoint="last").training_args)
    make_task(out, resume_from_checkpoint="auto").run()
    assert not [path.name for path in out.iterdir() if path.name.startswith((".", "checkpoint-", "un"))]


def test_a_task_is_prepared_by_its_flags(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo")
    for name, text in (("train", "Anna sees\n"), ("test", "Lima\n"), ("vectors", "Anna 1 2\nLima 3 4\nno 5 6\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    data = FileArguments(train_file=str(tmp_path / "train.txt"), test_file=str(tmp_path / "test.txt"))
    # A pre-trained biLM that is trained along learns slowly.
    for flags, rate in (
        ({"word_vectors": str(tmp_path / "vectors.txt")}, 1e-3),
        ({"freeze_bilm": False}, 1e-4),
        ({"freeze_bilm": False, "from_scratch": True}, 1e-3),
    ):
        args = TaskTrainingArguments(output_dir=str(tmp_path / "out"), use_cpu=True)
        task = Capitals(TaskArguments(str(tmp_path / "elmo"), **flags), data, args).prepare()
        assert args.learning_rate == rate
        # Of the words of both splits, and the special tokens.
        assert task.head.word_table_size == (2 + 2 if "word_vectors" in flags else None)
