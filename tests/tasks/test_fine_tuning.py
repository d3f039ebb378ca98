"""Fine-tuning serves a task that supplies its own examples, encoding, metric and predictions."""

import json
from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from datasets import Dataset
from transformers import DataCollatorForTokenClassification

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.tasks import trainer_lines
from hf_elmo.tasks.arguments import ModelArguments
from hf_elmo.tasks.fine_tuning import FineTuning
from hf_elmo.tasks.run_checks import check_run
from hf_elmo.tasks.tagging_arguments import TaggedDataArguments
from hf_elmo.tasks.training_arguments import TaskTrainingArguments
from hf_elmo.tasks.weights import check_model_source, settle_learning_rate


class Capitals(FineTuning):
    """Whether a word begins with a capital letter, from sentences that are lists of words."""

    shown_scores: ClassVar[tuple[str, ...]] = ("share_right",)
    best_score: ClassVar[str] = "share_right"

    def encode(self, split):
        rows = [self.tokenizer(words, is_split_into_words=True) for words in self.splits[split]]
        labels = [[-100, *(int(word[0].isupper()) for word in words), -100] for words in self.splits[split]]
        return Dataset.from_list([{**row, "labels": row_labels} for row, row_labels in zip(rows, labels, strict=True)])

    def make_collator(self):
        return DataCollatorForTokenClassification(self.tokenizer)

    def score(self, output):
        counted = output.label_ids != -100
        return {"share_right": float(np.mean(output.predictions[counted] == output.label_ids[counted]))}

    def report(self, split, output, directory):
        if directory is not None:
            (directory / f"{split}.txt").write_text(str(output.predictions.shape[0]))
        return {"looked_at": split}, f"looked at {split}"

    def write_card(self, directory, name):
        (directory / "README.md").write_text(f"# {name}")

    def describe(self):
        return {"tag_scheme": "words", "question": "capitals"}


def make_task(directory, **training):
    sentences = [["Anna", "sees", "Oslo"], ["we", "like", "Bert"], ["no", "names"]]
    model = ElmoForTokenClassification(make_tiny_config(num_labels=2))
    settings = {"use_cpu": True, "num_train_epochs": 2, "output_dir": str(directory), "learning_rate": 0.01, **training}
    args = TaskTrainingArguments(**settings)
    splits = {"train": sentences, "validation": sentences}
    return Capitals(model, ElmoCharTokenizer(), splits, args, "a tiny model", {"train": {"source": "here"}})


def test_a_task_of_another_kind_is_trained_scored_and_written(tmp_path, capsys):
    results = make_task(tmp_path / "out", metric_for_best_model="share_right", load_best_model_at_end=True).run()
    out = tmp_path / "out"
    assert json.loads((out / "results.json").read_text(encoding="utf-8")) == results
    assert results["question"] == "capitals" and results["looked_at"] == "validation"
    assert 0 <= results["eval_share_right"] <= 1 and results["data"] == {"train": {"source": "here"}}
    assert results["settings"]["learning_rate"] == 0.01 and results["kept_step"] in (1, 2)
    assert (out / "validation.txt").read_text() == "3" and (out / "README.md").read_text() == "# out"
    assert (out / "model.safetensors").is_file()
    shown = capsys.readouterr().out
    assert "share_right" in shown and "looked at validation" in shown


def test_it_stops_where_nothing_gets_better(tmp_path, monkeypatch):
    monkeypatch.setattr(Capitals, "score", lambda self, output: {"share_right": 0.5})
    chosen = {"metric_for_best_model": "share_right", "load_best_model_at_end": True}
    results = make_task(tmp_path / "out", num_train_epochs=9, early_stopping_patience=2, **chosen).run()
    assert results["epoch"] == 3 and results["kept_step"] == 1


def test_a_file_gets_lines_and_no_bars(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(trainer_lines, "SECONDS_BETWEEN_LINES", 0)
    make_task(tmp_path / "out", disable_tqdm=False, per_device_eval_batch_size=1).run()
    shown = capsys.readouterr().err
    assert "training: 2 of 2 steps" in shown and "predicting: 3 of 3 batches" in shown
    assert "2/2 [" not in shown and "\x1b" not in shown


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
    task.model, task.make_model = make_models(), make_models
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
    assert {"results.json", "README.md", "validation.txt", "model.safetensors", "layer_shares.png"} <= names
    assert not [name for name in names if name.startswith(("seed-", "."))]
    assert ".partial" not in (tmp_path / "out" / "trainer_state.json").read_text()
    assert "Mean and deviation of 3 seeds, validation: share_right" in shown and shown.count("looked at") == 1


@pytest.mark.parametrize(
    "settings, runs",
    [({"num_train_epochs": 3}, 2), ({"num_seeds": 2}, 2), ({"num_train_epochs": 1}, None), ({"max_steps": 1}, None)],
)
def test_a_frozen_bilm_reads_each_text_once(settings, runs, tmp_path, capsys):
    task = make_task(tmp_path / "out", **{"num_train_epochs": 1, **settings})
    task.layer_bytes = 2**30
    task.splits["validation"] = task.splits["train"][:2]
    torch.manual_seed(5)
    config = make_tiny_config(num_labels=2)
    task.model = ElmoForTokenClassification(config)
    weights = {name: value.clone() for name, value in task.model.elmo.state_dict().items()}

    def make_model():
        model = ElmoForTokenClassification(config)
        model.elmo.load_state_dict(weights)
        model.elmo.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run for another seed"))
        return model

    task.make_model = make_model
    calls = []
    task.model.elmo.bilm.register_forward_hook(lambda *_: calls.append(1))
    results = task.run()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert ".layers" not in {path.name for path in (tmp_path / "out").iterdir()}
    if runs is None:
        assert len(calls) == 3 and "computing" not in capsys.readouterr().out
    else:
        assert len(calls) == runs and capsys.readouterr().out.count("layers: computing") == runs
    task = make_task(tmp_path / "without", **{"num_train_epochs": 1, **settings, "num_seeds": 1})
    task.model = ElmoForTokenClassification(config)
    task.model.elmo.load_state_dict(weights)
    assert results.keys() >= task.run().keys()


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Capitals, "report", lambda *arguments: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        make_task(tmp_path / "out").run()
    assert not list(tmp_path.iterdir())


def test_exactly_one_flag_names_the_model():
    for given in ({}, {"preset": "small", "config_name": "x"}):
        with pytest.raises(ValueError, match="--model_name_or_path"):
            check_model_source(ModelArguments(**given))
    check_model_source(ModelArguments(preset="small"))


@pytest.mark.parametrize(
    "model, wanted",
    [
        ({"model_name_or_path": "x"}, 1e-3),
        ({"model_name_or_path": "x", "freeze_bilm": False}, 1e-4),
        ({"model_name_or_path": "x", "freeze_bilm": False, "from_scratch": True}, 1e-3),
        ({"preset": "small", "freeze_bilm": False}, 1e-3),
    ],
)
def test_a_pretrained_bilm_that_is_trained_learns_slowly(tmp_path, model, wanted):
    args = TaskTrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    settle_learning_rate(args, ModelArguments(**model))
    assert args.learning_rate == wanted


@pytest.mark.parametrize("output_dir", [{}, {"output_dir": ""}])
def test_a_run_without_a_directory_is_refused_before_anything_is_read(output_dir):
    arguments = TaskTrainingArguments(use_cpu=True, **output_dir)
    with pytest.raises(ValueError, match="--output_dir"):
        check_run(ModelArguments("nothing"), TaggedDataArguments(train_file="nothing.conll"), arguments)
