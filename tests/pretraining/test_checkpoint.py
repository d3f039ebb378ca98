"""Checkpoints take their place in one rename, and one that is not what was written is never resumed from."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from refusals import Code, assert_refused
from run_cases import make_arguments, write_lines
from transformers import AutoModel, AutoTokenizer

from hf_elmo.pretraining import checkpoint as module
from hf_elmo.pretraining.checkpoint import (
    DIGESTS_FILE,
    RunCheckpoints,
    checkpoints_in,
    find_checkpoint,
    find_fault,
    run_folder,
)
from hf_elmo.pretraining.run import run_pretraining

pytestmark = pytest.mark.usefixtures("accelerate_anew")

# Writing


def save(folder, text, step=3, **options):
    def write_model(directory):
        (directory / "model.safetensors").write_text(text)

    with run_folder(folder / "out") as own:
        checkpoints = RunCheckpoints(folder / "out", own, Accelerator(cpu=True), write_model, {}, **options)
        return checkpoints.save(step, best_step=3, shared={}, optimizers=[], own={})


@pytest.mark.parametrize(("limit", "kept"), [(0, [3, 4, 5, 6]), (1, [3, 6]), (2, [3, 6]), (3, [3, 5, 6])])
def test_the_last_the_best_and_as_many_more_as_asked_are_kept(tmp_path, limit, kept):
    for step in (3, 4, 5, 6):
        save(tmp_path, "x", step, save_total_limit=limit)
    assert sorted(checkpoints_in(tmp_path / "out")) == kept


@pytest.mark.parametrize("limit", [0, 2])
def test_checkpoints_of_a_run_that_was_given_up_are_not_met_by_the_one_that_took_an_earlier_one(tmp_path, limit):
    for step in (3, 8, 9):
        save(tmp_path, "astray", step, save_total_limit=0)
    save(tmp_path, "x", 5, save_total_limit=limit)
    assert sorted(checkpoints_in(tmp_path / "out")) == [3, 5]


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name_and_older_ones_go(tmp_path, monkeypatch):
    save(tmp_path, "x", 4, save_total_limit=1)
    written, seen = set(), set()
    monkeypatch.setattr(
        os, "fsync", lambda file: (written.add(Path(file.name)), seen.update(checkpoints_in(tmp_path / "out")))
    )
    path = save(tmp_path, "y", 5, save_total_limit=1)
    assert {file.name for file in written} == {file.name for file in path.iterdir()}
    assert seen == {4}


# Reading


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with the checkpoints 2 and 4 of 6 steps, and the text that it read."""
    folder = tmp_path_factory.mktemp("trained")
    write_lines(folder)
    arguments = make_arguments(folder, save_steps=2, save_total_limit=0, skip_baselines=True)
    run_pretraining(arguments, report=lambda line: None)
    for step, path in checkpoints_in(folder / "out").items():
        if step not in (2, 4):
            shutil.rmtree(path)
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


def arguments_of(folder, resume):
    return make_arguments(
        folder, save_steps=2, save_total_limit=0, skip_baselines=True, resume_from_checkpoint=str(resume)
    )


def resume_from(folder, resume):
    lines = []
    return run_pretraining(arguments_of(folder, resume), report=lines.append), lines


@pytest.mark.parametrize("name", ["model.safetensors", "rank-0.pt", "trainer_state.json", "config.json"])
def test_what_is_missing_cut_off_or_altered_by_a_bit_is_named_and_stepped_over(copy, name):
    file = copy / "out" / "checkpoint-4" / name
    content = file.read_bytes()
    altered = bytearray(content)
    altered[len(content) // 2] ^= 1
    for other in (None, b"", content[: len(content) // 2], content[:-1], bytes(altered)):
        file.unlink() if other is None else file.write_bytes(other)
        assert name in find_fault(file.parent)
        lines = []
        assert find_checkpoint(arguments_of(copy, "auto"), lines.append) == copy / "out" / "checkpoint-2"
        assert len(lines) == 1 and name in lines[0] and "checkpoint-4" in lines[0]
        assert_refused(
            FileNotFoundError, (name, "checkpoint-4"), find_checkpoint, arguments_of(copy, file.parent), lines.append
        )
    file.write_bytes(content)
    assert find_fault(file.parent) is None


def test_each_is_a_checkpoint_like_any_other_for_all_who_may_read_its_text(trained):
    checkpoint = trained / "out" / "checkpoint-4"
    for kind in (AutoModel, AutoTokenizer):
        kind.from_pretrained(checkpoint)
    modes = {path.stat().st_mode & 0o444 for path in checkpoint.iterdir()}
    assert modes == {(trained / "text.txt").stat().st_mode & 0o444}


def test_a_run_goes_back_to_the_checkpoint_before_and_writes_the_broken_one_anew(copy):
    path = copy / "out" / "checkpoint-4"
    (path / "optimizer.pt").write_bytes(b"")
    results, lines = resume_from(copy, "auto")
    assert results["resumed_from_steps"] == [2] and find_fault(path) is None
    assert any("checkpoint-4" in line and "optimizer.pt" in line for line in lines)


def foreign_pickle(path):
    torch.save(Code(path.with_name("ran")), path)


def bare_pickle(path):
    path.write_bytes(pickle.dumps(Code(path.with_name("ran")), protocol=2))


def other_things(path):
    torch.save({"param_groups": [1], "lanes": 3, "state": 5}, path)


def sign(checkpoint):
    """What a stranger does, whose digests are right."""
    (checkpoint / DIGESTS_FILE).write_text(json.dumps({"sha256": module.compute_digests(checkpoint)}))


@pytest.mark.parametrize("name", ["optimizer.pt", "rank-0.pt"])
@pytest.mark.parametrize("write", [foreign_pickle, bare_pickle, other_things])
def test_states_of_strangers_are_refused_by_the_checkpoint_and_never_run(copy, name, write):
    checkpoint = copy / "out" / "checkpoint-4"
    write(checkpoint / name)
    sign(checkpoint)
    message = assert_refused(ValueError, "checkpoint-4", resume_from, copy, checkpoint)
    assert len(message) < 700 and "\n" not in message and "weights_only" not in message
    assert not (checkpoint / "ran").exists()


def test_wrong_digests_are_no_digests(copy):
    checkpoint = copy / "out" / "checkpoint-4"
    for content in ("[" * 100_000, "[]", "{}", '{"sha256": []}', '{"sha256": {"../../secret": "a"}}'):
        (checkpoint / DIGESTS_FILE).write_text(content)
        assert find_fault(checkpoint) is not None
