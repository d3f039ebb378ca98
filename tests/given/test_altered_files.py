"""Every file that comes from elsewhere, altered in any way, is read or refused by an error of our own that names it.

With `make test-slow` each kind of file gets many more alterations.
"""

import resource
import shutil
import sys

import pytest
from file_edits import altered, byte_edits, value_edits
from file_kinds import KINDS, header_of, pickle_of, whole
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import assert_read_or_refused
from run_cases import make_arguments, write_lines

from hf_elmo.hub import provenance
from hf_elmo.hub.provenance import write_json
from hf_elmo.pretraining.checkpoint import DIGESTS_FILE, checkpoints_in, compute_digests
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.train import LaneTrainer

# torch says it of a byte that was altered, before it reads on or refuses.
pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")

SLOW_FACTOR = 20

efforts = pytest.mark.parametrize("effort", [1, pytest.param(SLOW_FACTOR, marks=pytest.mark.slow)])


def most_memory() -> int:
    """The most memory that this process has ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def check_alterations(path, check_read, examples, inside):
    """Alter a file in many ways and check each time how it is read."""
    good, memory = path.read_bytes(), most_memory()
    part, put_in = inside(good)
    is_json = part.lstrip()[:1] in (b"{", b"[")
    changes = st.lists(byte_edits, min_size=1, max_size=2).map(lambda changes: (good, bytes, changes))
    changes |= st.lists(value_edits if is_json else byte_edits, min_size=1, max_size=2).map(
        lambda changes: (part, put_in, changes)
    )

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(changes)
    def check(change):
        content, finish, edits = change
        for edit in edits:
            content = altered(content, edit)
        path.write_bytes(finish(content))
        check_read()

    try:
        check()
    finally:
        path.write_bytes(good)
    assert most_memory() - memory < 2**30


@efforts
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name or kind.file)
def test_what_is_altered_is_read_or_refused_by_name(tmp_path, kind, effort):
    path = kind.prepare(tmp_path / "folder")
    check_alterations(path, lambda: kind.check(path), kind.examples * effort, kind.inside)


class GoneOn(Exception):
    """A run got as far as its first step."""


@pytest.fixture
def checkpoint(tmp_path, monkeypatch, accelerate_anew):
    """A checkpoint of a run, and what resumes from it up to its first step."""
    write_lines(tmp_path)
    changes = {"save_steps": 3, "eval_steps": 3, "skip_baselines": True}
    run_pretraining(make_arguments(tmp_path, max_steps=3, **changes), report=lambda line: None)
    found = shutil.move(checkpoints_in(tmp_path / "out")[3], tmp_path / "checkpoint-3")
    shutil.rmtree(tmp_path / "out")

    def stop(trainer):
        raise GoneOn

    monkeypatch.setattr(LaneTrainer, "train", stop)
    # Which asks git.
    monkeypatch.setattr(provenance, "_commit", lambda: None)
    arguments = make_arguments(tmp_path, max_steps=3, resume_from_checkpoint=str(found), **changes)

    def go_on():
        with pytest.raises(GoneOn):
            run_pretraining(arguments, report=lambda line: None)

    return found, go_on


FILES = {
    "trainer_state.json": whole,
    "optimizer.pt": pickle_of,
    "rank-0.pt": pickle_of,
    "model.safetensors": header_of,
    "config.json": whole,
    "word_vocabulary.txt": whole,
}


@efforts
def test_a_checkpoint_of_a_run_is_gone_on_from_or_refused_by_name(checkpoint, effort):
    directory, go_on = checkpoint
    go_on()

    def check_read():
        # As a stranger writes it, whose digests are right.
        write_json(directory / DIGESTS_FILE, {"sha256": compute_digests(directory)})
        assert_read_or_refused(go_on, directory.name)

    for name, inside in FILES.items():
        check_alterations(directory / name, check_read, 10 * effort, inside)
