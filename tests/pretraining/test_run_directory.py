"""Which checkpoint a run goes on from: the newest whole one, whatever a killed process left behind."""

import pytest
import torch
from safetensors.torch import save_file

from hf_elmo.pretraining.run_directory import find_checkpoint, find_fault, find_faults
from hf_elmo.pretraining.run_state import remove_partial_checkpoints


def write_checkpoint(output_dir, step):
    directory = output_dir / f"checkpoint-{step}"
    directory.mkdir(parents=True)
    (directory / "trainer_state.json").write_text('{"num_processes": 2}')
    for name in ("config.json", "tokenizer_config.json"):
        (directory / name).write_text("{}")
    save_file({"a": torch.zeros(30), "b": torch.zeros(2, 3)}, directory / "model.safetensors")
    for name in ("optimizer.pt", "rank-0.pt", "rank-1.pt"):
        torch.save({"numbers": torch.zeros(100)}, directory / name)
    return directory


@pytest.fixture
def output_dir(tmp_path):
    for step in (5, 40, 100):
        write_checkpoint(tmp_path / "out", step)
    return tmp_path / "out"


FILES = ("trainer_state.json", "config.json", "tokenizer_config.json", "model.safetensors", "optimizer.pt", "rank-1.pt")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kept", [None, 0, 0.5, -1], ids=["missing", "empty", "half", "all but a byte"])
def test_what_is_missing_or_cut_off_is_named_and_stepped_over(output_dir, name, kept):
    file = output_dir / "checkpoint-100" / name
    content = file.read_bytes()
    if kept is None:
        file.unlink()
    else:
        file.write_bytes(content[: kept if kept in (0, -1) else int(len(content) * kept)])
    if name in ("config.json", "tokenizer_config.json") and kept in (0.5, -1):
        # Nobody reads how long a file of JSON should be; loading it says what is wrong.
        return
    assert name in find_fault(file.parent)
    for resume in ("auto", "last"):
        assert find_checkpoint(resume, output_dir) == output_dir / "checkpoint-40"
    assert list(find_faults(output_dir)) == [file.parent]
    with pytest.raises(FileNotFoundError, match=name):
        find_checkpoint(str(file.parent), output_dir)


def test_the_newest_by_number_is_the_last(output_dir):
    assert find_checkpoint("last", output_dir) == output_dir / "checkpoint-100"
    assert find_faults(output_dir) == {} and find_checkpoint(None, output_dir) is None


def test_where_none_is_whole_there_is_nothing_to_go_on_from(output_dir):
    for directory in output_dir.iterdir():
        (directory / "optimizer.pt").unlink()
    assert find_checkpoint("auto", output_dir) is None
    with pytest.raises(FileNotFoundError, match="'last'"):
        find_checkpoint("last", output_dir)


def test_leftovers_of_killed_runs_go_and_the_neighbours_stay(output_dir):
    parent = output_dir.parent
    leftovers = [
        output_dir / ".checkpoint-7.partial",
        output_dir / ".a1b2c3_d.partial",
        output_dir / ".a1b2c3_d.replaced",
        output_dir / ".checkpoint-3.removed",
    ]
    others = [parent / ".a1b2c3_d.partial", output_dir / ".cache"]
    for directory in (*leftovers, *others):
        directory.mkdir()
        (directory / "model.safetensors").write_text("half")
    remove_partial_checkpoints(output_dir)
    assert not any(path.exists() for path in leftovers) and all(path.exists() for path in others)
    assert find_checkpoint("last", output_dir) == output_dir / "checkpoint-100"
