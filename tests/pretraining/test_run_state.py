"""Checkpoints take their place in one rename, and a step's earlier one goes only when the new one stands."""

import json
import os

import pytest
from accelerate import Accelerator
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo.pretraining import run_state
from hf_elmo.pretraining.run_state import (
    RunCheckpoints,
    RunState,
    check_fingerprint,
    remove_partial_checkpoints,
)


def save(folder, text):
    def write_model(directory):
        (directory / "model.safetensors").write_text(text)

    checkpoints = RunCheckpoints(folder / "out", Accelerator(cpu=True), write_model)
    return checkpoints.save(RunState(3, {}, {}, {}), best_step=None)


def test_the_checkpoint_of_a_step_is_written_again(tmp_path):
    save(tmp_path, "old")
    assert (save(tmp_path, "new") / "model.safetensors").read_text() == "new"
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["out", "checkpoint-3"]


def test_it_takes_its_place_when_all_of_it_is_on_the_disk(tmp_path, monkeypatch):
    synced, before_the_rename = set(), []

    def note(descriptor):
        synced.add(os.fstat(descriptor).st_ino)

    def rename(source, place):
        before_the_rename.append({path for path in [source, *source.rglob("*")] if path.stat().st_ino not in synced})
        move(source, place)

    move = os.rename
    monkeypatch.setattr(run_state.os, "fsync", note)
    monkeypatch.setattr(run_state.os, "rename", rename)
    target = save(tmp_path, "new")
    assert before_the_rename == [set()] and target.parent.stat().st_ino in synced


def test_one_that_cannot_take_its_place_leaves_the_earlier_one_there(tmp_path, monkeypatch):
    target = save(tmp_path, "old")

    def fail(source, place):
        if str(source).endswith(".partial"):
            raise OSError("the disk is gone")
        rename(source, place)

    rename = os.rename
    monkeypatch.setattr(run_state.os, "rename", fail)
    with pytest.raises(OSError, match="checkpoint-3 could not be written"):
        save(tmp_path, "new")
    remove_partial_checkpoints(tmp_path / "out")
    assert (target / "model.safetensors").read_text() == "old"
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["out", "checkpoint-3"]


def test_flags_that_an_altered_file_makes_up_are_named_in_short(tmp_path):
    config = make_tiny_config()
    config.save_pretrained(tmp_path)
    fingerprint = {"9" * 1000: "8" * 1000}
    (tmp_path / "trainer_state.json").write_text(json.dumps({"step": 3, "fingerprint": fingerprint}))
    told = assert_refused(ValueError, ("--999", "888"), check_fingerprint, tmp_path, {}, config)
    assert len(told) < 1000
