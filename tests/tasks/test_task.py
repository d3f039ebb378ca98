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
from hf_elmo.tasks.arguments import FileArguments, TaskArguments, TaskTrainingArguments
from hf_elmo.tasks.training import check_run_directory, newest_checkpoint


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


def test_a_task_of_another_kind_is_trained_scored_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hf_elmo.text.progress.SECONDS_BETWEEN_LINES", 0)
    out, how = tmp_path / "out", {"load_best_model_at_end": True, "disable_tqdm": False}
    results = make_task(out, metric_for_best_model="share_right", **how).run()
    assert json.loads((out / "results.json").read_text(encoding="utf-8")) == results
    assert results["question"] == "capitals" and results["looked_at"] == "validation"
    assert 0 <= results["eval_share_right"] <= 1 and results["data"]["train"] == {"source": "here"}
    assert results["settings"]["learning_rate"] == 0.01 and results["kept_step"] in (1, 2)
    assert (out / "validation_predictions.txt").read_text() == "3\n" and "\n# out\n" in (out / "README.md").read_text()
    names = {path.name for path in out.iterdir()}
    assert "model.safetensors" in names and not [name for name in names if name.startswith(("checkpoint", "un", "."))]
    shown, said = capsys.readouterr()
    assert f"| validation | {100 * results['eval_share_right']:.2f} |" in shown and "| mix 1 |" in shown
    # A file gets lines and no bars.
    assert "training: 2 of 2 steps" in said and "2/2 [" not in said and "\x1b" not in said


def make_models(config=None):
    return ElmoForTokenClassification(config or make_tiny_config(num_labels=2))


def test_several_seeds_are_several_runs_and_the_best_is_kept(tmp_path, capsys):
    singles = []
    for seed in (42, 43, 44):
        task = make_task(tmp_path / f"single-{seed}", seed=seed)
        torch.manual_seed(seed)
        task.model = make_models()
        singles.append((task.run(), task.model))
    task = make_task(tmp_path / "out", num_seeds=3)
    torch.manual_seed(42)
    task.model, task.build_model = make_models(), lambda: (make_models(), "")
    capsys.readouterr()
    results = task.run()
    shown = capsys.readouterr().out
    values = [run["eval_share_right"] for run, _ in singles]
    assert [row["eval_share_right"] for row in results["seeds"]] == values
    assert [row["eval_loss"] for row in results["seeds"]] == [run["eval_loss"] for run, _ in singles]
    assert [row["layer_shares"] for row in results["seeds"]] == [run["layer_shares"] for run, _ in singles]
    assert results["mean"]["eval_share_right"] == pytest.approx(np.mean(values))
    assert results["deviation"]["eval_loss"] == pytest.approx(np.std([run["eval_loss"] for run, _ in singles], ddof=1))
    best = int(np.argmax(values))
    assert results["kept_seed"] == 42 + best and results["eval_share_right"] == values[best]
    loaded = ElmoForTokenClassification.from_pretrained(tmp_path / "out")
    assert torch.equal(loaded.classifier.weight, singles[best][1].classifier.weight)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.json", "README.md", "validation_predictions.txt", "model.safetensors", "layer_shares.png"} <= names
    assert not [name for name in names if name.startswith(("un", "."))]
    assert ".partial" not in (tmp_path / "out" / "trainer_state.json").read_text()
    assert "| validation, mean of seeds |" in shown


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Capitals, "report", lambda *arguments: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        make_task(tmp_path / "out").run()
    assert not list(tmp_path.iterdir())


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


def stop_at(monkeypatch, number, error=KeyboardInterrupt):
    """Have a task end so before it takes this step."""
    step, taken = Trainer.training_step, itertools.count()

    def fail(*arguments, **more):
        if next(taken) == number:
            raise error
        return step(*arguments, **more)

    monkeypatch.setattr(Trainer, "training_step", fail)


def assert_same_run(whole, parts, results, resumed):
    """The same bits in all weights, the same scores, and the same notes on what happened."""
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, parts))
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    timed = ("runtime", "per_second", "preparation_time", "flos")
    for key in results.keys() | resumed.keys():
        if not any(word in key for word in (*timed, "command")):
            assert resumed[key] == results[key], key
    notes = [json.loads((folder / "trainer_state.json").read_text()) for folder in (whole, parts)]
    logs = [
        [
            {key: value for key, value in entry.items() if not any(word in key for word in timed)}
            for entry in note["log_history"]
            if "train_runtime" not in entry
        ]
        for note in notes
    ]
    assert logs[0] == logs[1]
    assert notes[0]["best_metric"] == notes[1]["best_metric"]


@pytest.mark.parametrize(
    ("settings", "stopped", "left"),
    [
        ({"save_strategy": "steps", "save_steps": 4}, 14, 12),
        ({"save_strategy": "steps", "save_steps": 5, "max_steps": 18}, 16, 15),
        ({"load_best_model_at_end": True}, 18, None),
    ],
    ids=str,
)
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path, monkeypatch, settings, stopped, left):
    results = make_long_task(tmp_path / "whole", **settings).run()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        stop_at(patched, stopped)
        make_long_task(tmp_path / "parts", **settings).run()
    found = tmp_path / "parts" / "unfinished" / "seed-42"
    assert newest_checkpoint(found).name == f"checkpoint-{left}" if left else any(found.iterdir())
    resumed = make_long_task(tmp_path / "parts", seed=7, resume_from_checkpoint="auto", **settings).run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts", results, resumed)
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("whole", "parts")]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("settings", "is_over"),
    [({"early_stopping_patience": 2, "load_best_model_at_end": True}, is_over) for is_over in (False, True)]
    + [({"max_steps": 13}, True)],
)
def test_a_resumed_run_takes_no_step_more(tmp_path, monkeypatch, settings, is_over):
    monkeypatch.setattr(Capitals, "score", lambda self, output: {"share_right": 0.5})
    settings = {"save_strategy": "epoch", "num_train_epochs": 9, **settings}
    results = make_long_task(tmp_path / "whole", **settings).run()
    # Nothing gets better.
    assert "max_steps" in settings or (results["epoch"], results["kept_step"]) == (3, 5)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="disk is full"):
        if is_over:
            patched.setattr(Capitals, "report", lambda *arguments: (_ for _ in ()).throw(OSError("the disk is full")))
        else:
            stop_at(patched, 11, OSError("the disk is full"))
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
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        stop_at(patched, 16)
        make_seeds(tmp_path / "parts").run()
    assert newest_checkpoint(tmp_path / "parts" / "unfinished" / "seed-43").name == "checkpoint-5"
    with pytest.raises(FileExistsError, match=r"seed-42.*settings.*--overwrite_output_dir"):
        make_seeds(tmp_path / "parts", resume_from_checkpoint="auto", learning_rate=0.5).run()
    steps, step = [], Trainer.training_step
    monkeypatch.setattr(
        Trainer, "training_step", lambda *arguments, **more: [steps.append(1), step(*arguments, **more)][1]
    )
    capsys.readouterr()
    resumed = make_seeds(tmp_path / "parts", resume_from_checkpoint="auto").run()
    assert len(steps) == 5 + 10 and "Seed 42, 1 of 3 was done before" in capsys.readouterr().out
    assert [row["seed"] for row in resumed["seeds"]] == [42, 43, 44] and resumed["kept_seed"] == results["kept_seed"]
    assert_same_run(tmp_path / "whole", tmp_path / "parts", {}, {})
    assert all(resumed["mean"][key] == pytest.approx(value) for key, value in results["mean"].items())
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("whole", "parts")]
    assert names[0] == names[1] >= {"checkpoint-5", "checkpoint-10", "results.json", "model.safetensors"}
    notes = json.loads((tmp_path / "parts" / "checkpoint-10" / "trainer_state.json").read_text())
    assert "seed-" not in str(notes["best_model_checkpoint"])
    with pytest.raises(FileExistsError, match="not empty"):
        check_run_directory(make_task(tmp_path / "parts").training_args)


def test_what_a_killed_run_left_is_used_or_removed(tmp_path, capsys):
    # As after a kill while the second checkpoint was being written.
    out, settings = tmp_path / "out", {"save_strategy": "steps", "save_steps": 3}
    with pytest.MonkeyPatch.context() as patched, pytest.raises(OSError, match="full"):
        stop_at(patched, 7, OSError("full"))
        make_long_task(out, **settings).run()
    assert "resume_from_checkpoint" in capsys.readouterr().err
    (out / "unfinished" / "seed-42" / "checkpoint-6" / "trainer_state.json").write_text("{")
    (out / ".abcdefgh.partial").mkdir()
    with pytest.raises(FileExistsError, match="--resume_from_checkpoint auto"):
        check_run_directory(make_long_task(out).training_args)
    assert newest_checkpoint(out / "unfinished" / "seed-42").name == "checkpoint-3"
    make_long_task(out, resume_from_checkpoint="auto", **settings).run()
    names = {path.name for path in out.iterdir()}
    assert not [name for name in names if name.startswith((".", "un"))] and "checkpoint-6" in names


def test_what_holds_nothing_of_use_is_empty(tmp_path):
    out = tmp_path / "out"
    for name in ("unfinished/layers", "unfinished/seed-42/checkpoint-3", ".abcdefgh.partial"):
        (out / name).mkdir(parents=True)
    check_run_directory(make_task(out).training_args)
    with pytest.raises(FileNotFoundError, match="'last'"):
        check_run_directory(make_task(out, resume_from_checkpoint="last").training_args)
    make_task(out, resume_from_checkpoint="auto").run()
    assert not [path.name for path in out.iterdir() if path.name.startswith((".", "checkpoint-", "un"))]


def test_one_run_alone_writes_to_a_directory(tmp_path):
    path = tmp_path / "out" / "unfinished"
    path.mkdir(parents=True)
    with WeakFileLock(path / ".lock"):
        with pytest.raises(FileExistsError, match="another run"):
            make_task(tmp_path / "out").run()
        assert (path / ".lock").exists()


def test_what_is_replaced_stays_until_all_is_done(tmp_path, monkeypatch):
    out, settings = tmp_path / "out", {"save_strategy": "epoch", "overwrite_output_dir": True}
    out.mkdir()
    (out / "precious").touch()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        stop_at(patched, 7)
        make_long_task(out, **settings).run()
    assert {path.name for path in out.iterdir()} == {"precious", "unfinished"}
    make_long_task(out, **settings).run()
    names = {path.name for path in out.iterdir()}
    assert {"checkpoint-5", "results.json", "model.safetensors"} <= names and not names & {"precious", "unfinished"}


def test_a_pretrained_bilm_that_is_trained_learns_slowly(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo")
    (tmp_path / "train.txt").write_text("Anna sees Oslo\n")
    data = FileArguments(train_file=str(tmp_path / "train.txt"))
    for model, wanted in (
        ({}, 1e-3),
        ({"freeze_bilm": False}, 1e-4),
        ({"freeze_bilm": False, "from_scratch": True}, 1e-3),
    ):
        args = TaskTrainingArguments(output_dir=str(tmp_path / "out"), use_cpu=True)
        Capitals(TaskArguments(str(tmp_path / "elmo"), **model), data, args).prepare()
        assert args.learning_rate == wanted


def test_vectors_of_a_file_are_read_for_the_words_of_all_splits(tmp_path):
    make_tiny_config().save_pretrained(tmp_path / "elmo")
    for name, text in (("train", "Anna sees\n"), ("test", "Lima\n"), ("vectors", "Anna 1 2\nLima 3 4\nno 5 6\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    data = FileArguments(train_file=str(tmp_path / "train.txt"), test_file=str(tmp_path / "test.txt"))
    model = TaskArguments(str(tmp_path / "elmo"), from_scratch=True, word_vectors=str(tmp_path / "vectors.txt"))
    args = TaskTrainingArguments(output_dir=str(tmp_path / "out"), use_cpu=True)
    # And the special tokens.
    assert Capitals(model, data, args).prepare().head.word_table_size == 2 + 2


@pytest.mark.parametrize("output_dir", [{}, {"output_dir": ""}])
def test_a_run_without_a_directory_is_refused_before_anything_is_read(output_dir):
    arguments = TaskTrainingArguments(use_cpu=True, **output_dir)
    with pytest.raises(ValueError, match="--output_dir"):
        Capitals(TaskArguments("nothing"), FileArguments(train_file="nothing.conll"), arguments).prepare()
