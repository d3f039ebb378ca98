"""A run that was interrupted and resumes ends with the very same weights and figures."""

import functools
import json
import signal
from itertools import count

import pytest
import torch
from refusals import assert_refused
from run_cases import (
    TINY_WITH_DROPOUT,
    assert_same_run,
    assert_same_weights,
    interrupt_at,
    train,
    train_in_part,
    weights,
    write_corpus,
)
from transformers import AutoModelForPreTraining
from volumes import make_volume

from hf_elmo.pretraining.checkpoint import run_folder
from hf_elmo.pretraining.train import LaneTrainer

pytestmark = pytest.mark.usefixtures("accelerate_anew")


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path)


@pytest.fixture(scope="module")
def run_whole(tmp_path_factory):
    """The directory of a run that was never interrupted; the tests share those of the same flags."""
    corpus = write_corpus(tmp_path_factory.mktemp("whole"))

    @functools.cache
    def run_once(**changes):
        name = f"run-{len(list(corpus.iterdir()))}"
        train(corpus, name, **changes)
        return corpus / name

    return run_once


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


SAMPLED = {"num_negative_samples": 5, "objective": "sampled"}
FEW_STEPS = {"max_steps": 4, "eval_steps": 4, "save_steps": 1}
# Sizes that two threads both work on.
LARGE = '{"projection_size": 128, "cell_size": 64, "filters": [[1, 16], [2, 32]], "dropout": 0.1}'


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"recipe": "paper", **SAMPLED},
        {"objective": "adaptive", "config_overrides": TINY_WITH_DROPOUT.replace('n_size": 8', 'n_size": 16')},
        {"reset_state": "document", "gradient_accumulation_steps": 2},
        {"reset_state": "epoch", "optim": "adagrad", "lr_scheduler_type": "linear"},
        # Held-out text that is cut from the training text: the evaluations of both runs are of the same words.
        {"shuffle_buffer_size": 16, "bf16": True, "validation_file": None, "validation_split_percentage": 20.0},
        {"optim": "adamw", "weight_decay": 0.1, "lr_scheduler_type": "warmup_stable_decay"},
        # Sums whose order follows which thread comes first would show here.
        {"config_overrides": LARGE, "per_device_train_batch_size": 32, "unroll_steps": 20, **SAMPLED, **FEW_STEPS},
    ],
    ids=["modern", "paper", "adaptive", "documents", "epochs", "shuffled-bf16", "adamw", "two-threads"],
)
def test_resuming_changes_nothing(corpus, two_threads, changes):
    changes = {"max_steps": 26, "eval_steps": 9, "save_steps": 6, **changes}
    train(corpus, "whole", **changes)
    train_in_part(corpus, "parts", 5 * changes["save_steps"] // 2, **changes)
    assert not (corpus / "parts" / "config.json").exists()
    results = train(corpus, "parts", **changes, resume_from_checkpoint="last")
    assert results["resumed_from_steps"] == [2 * changes["save_steps"]]
    assert_same_run(corpus, "whole", "parts")
    assert results["objective"] == changes.get("objective", "full")
    model = AutoModelForPreTraining.from_pretrained(corpus / "parts")
    assert (model.config.softmax_type == "adaptive") == (results["objective"] == "adaptive")


@pytest.mark.parametrize(
    ("number", "code", "changes"),
    [(signal.SIGINT, 130, {}), (signal.SIGTERM, 143, {"save_steps": 0})],
    ids=["ctrl-c", "sigterm-without-checkpoints"],
)
def test_a_signal_leaves_a_checkpoint_and_says_how_to_resume(corpus, run_whole, monkeypatch, number, code, changes):
    lines = []
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as stopped:
        interrupt_at(patch, 17, number)
        train(corpus, "parts", lines.append, **changes)
    assert stopped.value.code == code
    # The signal is seen before the next step, and that one is the last.
    assert lines[-1].startswith("stopped at step 19; ") and "checkpoint-19" in lines[-1]
    assert "resume_from_checkpoint" in lines[-1] and "\n" not in lines[-1]
    results = train(corpus, "parts", **changes, resume_from_checkpoint="auto")
    assert results["resumed_from_steps"] == [19] and results["num_legs"] == 2
    assert_same_run(corpus, run_whole(**changes), "parts")


@pytest.fixture
def worsening(corpus):
    """The flags of a run that grows worse from the first evaluation on, whatever the rounding: held out are words
    that the training text has not."""
    (corpus / "heldout.txt").write_text("none of these words\n" * 6)
    return {"learning_rate": 0.02, "lr_scheduler_type": "constant", "eval_steps": 5}


def test_patience_ends_a_run_with_its_best_weights_and_a_resumed_one_alike(corpus, worsening):
    lines, changes = [], {**worsening, "early_stopping_patience": 1}
    results = train(corpus, "whole", lines.append, **changes)
    evaluations = {entry["step"]: entry["mean"] for entry in results["evaluations"] if entry["step"]}
    best, last = min(evaluations, key=evaluations.get), max(evaluations)
    assert last == best + 5 < 40 == results["settings"]["max_steps"]
    assert results["kept_step"] == results["best_step"] == best
    assert results["perplexity"]["mean"] == evaluations[best]
    assert f"step {best} of {last}: held-out perplexity {evaluations[best]:,.1f}; the best was step {best}" in lines[-1]
    assert_same_weights(corpus / "whole" / f"checkpoint-{best}", corpus / "whole")
    train_in_part(corpus, "parts", last - 3, **changes)
    train(corpus, "parts", **changes, resume_from_checkpoint="last")
    assert_same_run(corpus, "whole", "parts")


def test_the_last_weights_are_kept_where_no_others_are(corpus, worsening):
    lines = []
    results = train(corpus, "out", lines.append, **worsening, save_steps=0)
    assert results["kept_step"] == 40 != results["best_step"]
    assert results["perplexity"]["mean"] == results["evaluations"][-1]["mean"]
    assert f"the best was step {results['best_step']}" in lines[-1]
    assert list((corpus / "out").glob("checkpoint-*")) == []


def test_a_finished_run_can_be_finished_again_and_prolonged(corpus, run_whole):
    train(corpus, "out", lr_scheduler_type="constant", max_steps=14)
    before = weights(corpus / "out")
    train(corpus, "out", lr_scheduler_type="constant", max_steps=14, resume_from_checkpoint="last")
    assert all(torch.equal(before[name], value) for name, value in weights(corpus / "out").items())
    prolonged = train(corpus, "out", lr_scheduler_type="constant", max_steps=40, resume_from_checkpoint="auto")
    whole = run_whole(lr_scheduler_type="constant")
    assert prolonged["words_trained"] == json.loads((whole / "results.json").read_text())["words_trained"]
    assert_same_weights(corpus / "out", whole)


def test_a_checkpoint_of_another_run_is_refused(corpus):
    train(corpus, "out", max_steps=8)
    for changes, named in (
        ({"weight_decay": 1e-3}, ("--weight_decay was 0.0", "0.001")),
        ({"config_overrides": TINY_WITH_DROPOUT.replace("0.2", "0.3")}, "config.dropout was 0.2 and is 0.3"),
        ({"unroll_steps": 6}, "--unroll_steps was 5 and is 6"),
        ({"per_device_train_batch_size": 4}, "--per_device_train_batch_size was 3 and is 4"),
        ({"seed": 1}, "--seed was 42 and is 1"),
        ({"recipe": "paper"}, "--recipe was 'modern' and is 'paper'"),
        ({"text_column": "body"}, "--text_column was 'text' and is 'body'"),
        ({"validation_file": None}, "--validation_file"),
    ):
        options = {"max_steps": 16, **changes, "resume_from_checkpoint": "last"}
        assert_refused(ValueError, named, train, corpus, "out", **options)
    train(corpus, "cut", max_steps=8, validation_file=None, validation_split_percentage=10.0)
    options = {"validation_file": None, "validation_split_percentage": 20.0, "resume_from_checkpoint": "last"}
    named = "--validation_split_percentage was 10.0 and is 20.0"
    assert_refused(ValueError, named, train, corpus, "cut", max_steps=16, **options)


def test_where_there_is_nothing_to_resume_from(corpus):
    with pytest.raises(FileNotFoundError, match="checkpoint-N"):
        train(corpus, "out", resume_from_checkpoint="last")
    with pytest.raises(FileNotFoundError, match=r"digests\.json"):
        train(corpus, "out", resume_from_checkpoint=str(corpus))
    train(corpus, "out", resume_from_checkpoint="auto", max_steps=8)
    with pytest.raises(FileExistsError, match="--resume_from_checkpoint last"):
        train(corpus, "out")
    # Where none is whole a new run asks before it replaces them.
    for path in (corpus / "out").glob("checkpoint-*/optimizer.pt"):
        path.unlink()
    with pytest.raises(FileExistsError, match="--overwrite_output_dir"):
        train(corpus, "out", max_steps=8, resume_from_checkpoint="auto")
    train(corpus, "out", max_steps=8, resume_from_checkpoint="auto", overwrite_output_dir=True)


def test_the_directory_of_a_run_may_be_a_mount_point_and_keeps_the_old_run_until_a_new_one_has_a_checkpoint(
    corpus, monkeypatch
):
    changes = {"save_steps": 3, "validation_file": None, "validation_split_percentage": 20.0, "max_steps": 8}
    train(corpus, "whole", **changes)
    volume = make_volume(corpus / "out", monkeypatch)
    train_in_part(corpus, "out", 5, **changes)
    train(corpus, "out", **changes, resume_from_checkpoint="auto")
    assert_same_run(corpus, "whole", "out")
    train_in_part(corpus, "out", 2, **changes, seed=1, overwrite_output_dir=True)
    assert_same_run(corpus, "whole", "out")
    train(corpus, "out", **changes, seed=1, overwrite_output_dir=True)
    first, second = weights(corpus / "whole"), weights(volume)
    assert not all(torch.equal(first[name], second[name]) for name in first)
    assert list(corpus.glob(".*")) == list(volume.glob(".*")) == []
    expected = {path.name for path in (corpus / "whole").glob("checkpoint-*")}
    assert {path.name for path in volume.glob("checkpoint-*")} == expected


def test_a_second_run_to_the_same_directory_is_refused_and_leaves_the_first_one_alone(corpus):
    with run_folder(corpus / "out") as folder:
        (folder / "held_out.jsonl").write_text("of the first run")
        for changes in ({}, {"overwrite_output_dir": True}, {"resume_from_checkpoint": "auto"}):
            assert_refused(FileExistsError, ("another run", "output_dir"), train, corpus, "out", max_steps=2, **changes)
        assert (folder / "held_out.jsonl").read_text() == "of the first run"
        assert list((corpus / "out").iterdir()) == [folder]
    assert not (corpus / "out").exists()
    # What a killed run leaves is no run.
    killed = corpus / "out" / ".abcdefgh.partial"
    killed.mkdir(parents=True)
    (killed / "lock").touch()
    train(corpus, "out", max_steps=2)
    assert list((corpus / "out").glob(".*")) == []


def test_a_failing_write_leaves_the_last_good_checkpoint(corpus, run_whole, monkeypatch):
    save = torch.save
    calls = count(1)

    def save_or_fail(*args, **kwargs):
        # Two files a checkpoint: the second checkpoint fails half-way.
        if next(calls) == 4:
            raise OSError(28, "No space left on device")
        save(*args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"checkpoint-14 .*checkpoint-7 is still there"):
        patch.setattr(torch, "save", save_or_fail)
        train(corpus, "out")
    assert [path.name for path in (corpus / "out").iterdir()] == ["checkpoint-7"]
    assert list(corpus.glob(".*")) == []
    train(corpus, "out", resume_from_checkpoint="auto")
    assert_same_run(corpus, run_whole(), "out")


def test_a_run_that_diverges_ends_and_goes_on_from_an_earlier_checkpoint_at_a_lower_rate(corpus, monkeypatch):
    step = LaneTrainer._take_step

    def astray(trainer, windows):
        if trainer.step == 9:
            with torch.no_grad():
                trainer.bare_objective.model.word_softmax.weight.mul_(1e3)
        return step(trainer, windows)

    with monkeypatch.context() as patch:
        patch.setattr(LaneTrainer, "_take_step", astray)
        with pytest.raises(
            FloatingPointError, match=r"the loss up to step 10 .* diverged.*out/checkpoint-N\) with a lower"
        ):
            train(corpus, "out")
    assert [path.name for path in (corpus / "out").iterdir()] == ["checkpoint-7"]
    lines = []
    train(corpus, "out", lines.append, resume_from_checkpoint="auto", learning_rate=1e-4)
    assert "warning: --learning_rate was 0.008 and is 0.0001, from here on" in lines
    history = json.loads((corpus / "out" / "results.json").read_text())["history"]
    assert {entry["learning_rate"] > 1e-4 for entry in history} == {True, False}


def test_a_loss_that_is_no_number_leaves_the_last_good_checkpoint(corpus, monkeypatch):
    step = LaneTrainer._take_step

    def poisoned(trainer, windows):
        if trainer.step == 9:
            with torch.no_grad():
                trainer.bare_objective.model.word_softmax.bias[0] = float("nan")
        return step(trainer, windows)

    with monkeypatch.context() as patch:
        patch.setattr(LaneTrainer, "_take_step", poisoned)
        with pytest.raises(
            FloatingPointError,
            match=r"the loss is nan .* at step 10, after \d+ words, in process 0: pass 1 over its text, at sentence or "
            r"document \d+.*the last checkpoint, if any, is still there",
        ):
            train(corpus, "out")
    assert [path.name for path in (corpus / "out").iterdir()] == ["checkpoint-7"]
