"""An altered checkpoint of a run is named, stepped over or refused, and never gone on from without a word."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from refusals import assert_refused
from run_cases import make_arguments, write_lines

from hf_elmo.pretraining.digests import DIGESTS_FILE, has_digests
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.run_directory import checkpoints_in, find_checkpoint, find_fault, find_faults


@pytest.fixture(autouse=True)
def _accelerate_anew():
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with the checkpoints 2 and 4 of 6 steps, and the text that it read."""
    folder = tmp_path_factory.mktemp("trained")
    write_lines(folder)
    AcceleratorState._reset_state(reset_partial_state=True)
    arguments = make_arguments(folder, save_steps=2, save_total_limit=None, skip_baselines=True)
    run_pretraining(arguments, report=lambda line: None)
    for step, path in checkpoints_in(folder / "out").items():
        if step not in (2, 4):
            shutil.rmtree(path)
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


def go_on(folder, resume):
    lines = []
    arguments = make_arguments(
        folder, save_steps=2, save_total_limit=None, skip_baselines=True, resume_from_checkpoint=resume
    )
    return run_pretraining(arguments, report=lines.append), lines


FILES = ("model.safetensors", "optimizer.pt", "rank-0.pt", "trainer_state.json", "config.json", "word_vocabulary.txt")


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_flipped_bit_is_seen(trained, tmp_path_factory, name, place, bit):
    folder = tmp_path_factory.mktemp("flipped")
    for step in (2, 4):
        shutil.copytree(trained / "out" / f"checkpoint-{step}", folder / f"checkpoint-{step}")
    path = folder / "checkpoint-4" / name
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    path.write_bytes(content)
    assert name in find_fault(path.parent)
    assert find_checkpoint("auto", folder) == folder / "checkpoint-2"
    assert list(find_faults(folder)) == [path.parent]
    assert_refused(FileNotFoundError, (name, "checkpoint-4"), find_checkpoint, str(path.parent), folder)


def test_a_run_says_what_it_steps_over_and_goes_on_from_the_one_before(copy):
    path = copy / "out" / "checkpoint-4" / "optimizer.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    results, lines = go_on(copy, "auto")
    assert results["resumed_from_steps"] == [2]
    assert any("checkpoint-4" in line and "optimizer.pt" in line for line in lines)
    assert not any("no digests" in line for line in lines)
    assert find_fault(copy / "out" / "checkpoint-4") is None, "it was written anew"


def test_a_checkpoint_without_digests_is_gone_on_from_and_said_to_have_none(copy):
    for step in (2, 4):
        (copy / "out" / f"checkpoint-{step}" / DIGESTS_FILE).unlink()
    results, lines = go_on(copy, "last")
    assert results["resumed_from_steps"] == [4]
    assert any("checkpoint-4" in line and "no digests" in line for line in lines)
    assert has_digests(copy / "out" / "checkpoint-6")


def forget(checkpoint):
    """What a stranger does, who writes no digests; or who writes his own."""
    (checkpoint / DIGESTS_FILE).unlink()


class Code:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def foreign_pickle(path):
    torch.save(Code(path.with_name("ran")), path)


def bare_pickle(path):
    path.write_bytes(pickle.dumps(Code(path.with_name("ran")), protocol=2))


def nothing_in_it(path):
    torch.save({}, path)


def other_things(path):
    torch.save({"optimizer": [1], "scheduler": "a", "lanes": 3, "trained_weights": None, "state": 5}, path)


@pytest.mark.parametrize("name", ["optimizer.pt", "rank-0.pt"])
@pytest.mark.parametrize("write", [foreign_pickle, bare_pickle, nothing_in_it, other_things])
def test_states_of_strangers_are_refused_by_checkpoint_and_file_and_never_run(copy, name, write):
    checkpoint = copy / "out" / "checkpoint-4"
    forget(checkpoint)
    write(checkpoint / name)
    message = assert_refused((ValueError, OSError), ("checkpoint-4", name), go_on, copy, str(checkpoint))
    assert len(message) < 700 and "\n" not in message and "weights_only" not in message
    assert not (checkpoint / "ran").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("trainer_state.json", b"[" * 100_000),
        ("trainer_state.json", b"[1]"),
        ("trainer_state.json", b'{"num_processes": 1}'),
        ("trainer_state.json", b'{"num_processes": 1000000000000}'),
        ("trainer_state.json", b'{"num_processes": 1, "step": 4, "facts": [], "fingerprint": 3}'),
        ("config.json", b"[" * 100_000),
        ("config.json", b'{"model_type": "elmo", "cell_size": "a"}'),
        ("config.json", b"{}"),
        # A header without a tensor.
        ("model.safetensors", (2).to_bytes(8, "little") + b"{}"),
        ("model.safetensors", (2**62).to_bytes(8, "little") + b"{}"),
        ("model.safetensors", (100_000).to_bytes(8, "little") + b"[" * 100_000),
        ("word_vocabulary.txt", b"a\nb\n"),
        ("word_vocabulary.txt", b"\xff\xfe"),
        (DIGESTS_FILE, b"[" * 100_000),
        (DIGESTS_FILE, b"[]"),
        (DIGESTS_FILE, b'{"sha256": {"../../secret": "a"}}'),
        (DIGESTS_FILE, b'{"sha256": {}}'),
    ],
)
def test_wrong_files_of_strangers_are_refused_by_name(copy, name, content):
    checkpoint = copy / "out" / "checkpoint-4"
    forget(checkpoint)
    (checkpoint / name).write_bytes(content)
    message = assert_refused((ValueError, OSError), ("checkpoint-4", name), go_on, copy, str(checkpoint))
    assert len(message) < 900 and "\n" not in message


def test_files_that_are_links_to_elsewhere_are_refused(copy, tmp_path):
    checkpoint = copy / "out" / "checkpoint-4"
    secret = tmp_path / "secret"
    secret.write_bytes((checkpoint / "word_vocabulary.txt").read_bytes())
    (checkpoint / "word_vocabulary.txt").unlink()
    (checkpoint / "word_vocabulary.txt").symlink_to(secret)
    assert "word_vocabulary.txt" in find_fault(checkpoint)
    assert find_checkpoint("auto", copy / "out") == copy / "out" / "checkpoint-2"


def test_the_hubs_cache_of_links_is_read(copy, tmp_path):
    """There a checkpoint is a directory of links to files that are named by their digests."""
    repository = tmp_path / "models--me--run"
    snapshot, blobs = repository / "snapshots" / "abc" / "checkpoint-4", repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, path in enumerate(sorted((copy / "out" / "checkpoint-4").iterdir())):
        shutil.copy(path, blobs / str(number))
        (snapshot / path.name).symlink_to(os.path.relpath(blobs / str(number), snapshot))
    assert find_fault(snapshot) is None


def test_all_files_have_a_digest(trained):
    checkpoint = trained / "out" / "checkpoint-4"
    digests = json.loads((checkpoint / DIGESTS_FILE).read_text())["sha256"]
    files = {str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if path.is_file()}
    assert digests.keys() == files - {DIGESTS_FILE} and {*FILES} <= digests.keys()
    assert not (Path(trained) / "out" / DIGESTS_FILE).exists()
