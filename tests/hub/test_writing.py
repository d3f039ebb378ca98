"""Directories are put in place whole or not at all."""

import os
import stat
from pathlib import Path

import pytest
from volumes import make_volume

from hf_elmo.hub.writing import (
    check_output_directory,
    check_output_file,
    files_written_aside,
    leftovers_of,
    restore_replaced,
    written_aside,
)


def contents(directory) -> dict[str, str]:
    """What the files of a directory hold, those of its folders included."""
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def names(directory) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.fixture(params=["directory", "mount point"])
def full(request, tmp_path, monkeypatch):
    """A directory with an old checkpoint, and what another process writes there at the moment."""
    directory = tmp_path / "out"
    if request.param == "directory":
        directory.mkdir()
    else:
        make_volume(directory, monkeypatch)
    (directory / "folder").mkdir()
    (directory / "folder" / "deep").write_text("old")
    (directory / "old").write_text("old")
    (directory / ".checkpoint-7.partial").mkdir()
    return directory


OLD = {"old": "old", "folder/deep": "old"}
OLD_NAMES = {"old", "folder", ".checkpoint-7.partial"}


@pytest.mark.parametrize("existing", [False, True])
def test_what_was_written_is_there_at_the_end_and_of_a_failure_nothing(tmp_path, existing):
    target = tmp_path / "a" / "b"
    if existing:
        target.mkdir(parents=True)
    before = names(tmp_path)
    with pytest.raises(ValueError), written_aside(target) as aside:
        (aside / "weights").write_text("half")
        raise ValueError("in the middle")
    assert names(tmp_path) | {"a"} == before | {"a"} and contents(tmp_path) == {}
    with written_aside(target) as aside:
        (aside / "weights").write_text("new")
        assert not (target / "weights").exists()
    assert contents(target) == {"weights": "new"} and names(target) == {"weights"}
    assert names(tmp_path) == {"a"} and names(tmp_path / "a") == {"b"}


def test_a_full_directory_is_replaced_whole_where_that_is_asked_for(full):
    with written_aside(full, overwrite=True) as aside:
        for name in ("config.json", "old"):
            (aside / name).write_text("new")
        assert (full / "old").read_text() == "old"
    assert contents(full) == {"config.json": "new", "old": "new"}
    assert names(full) == {"config.json", "old", ".checkpoint-7.partial"} and names(full.parent) == {"out"}


@pytest.mark.parametrize("failing", ["old", "weights", None])
@pytest.mark.parametrize("keeps_others", [False, True])
def test_an_interruption_or_a_rename_that_fails_leaves_a_directory_as_it_was(full, keeps_others, monkeypatch, failing):
    rename = os.rename

    def rename_or_fail(source, place):
        if Path(source).name == failing:
            monkeypatch.setattr(os, "rename", rename)
            raise OSError("no more")
        rename(source, place)

    write = written_aside(full, overwrite=True, keeps_others=keeps_others)
    with pytest.raises((OSError, KeyboardInterrupt), match="no more"), write as aside:
        for name in ("config.json", "weights", "old"):
            (aside / name).write_text("new")
        if failing is None:
            raise KeyboardInterrupt("no more")
        monkeypatch.setattr(os, "rename", rename_or_fail)
    assert contents(full) == OLD and names(full) == OLD_NAMES


def test_there_is_no_config_until_all_else_is_there(full, monkeypatch):
    (full / "config.json").write_text("old")
    rename, seen = os.rename, []

    def note(source, place):
        rename(source, place)
        seen.append((full / "config.json").exists())

    with written_aside(full, overwrite=True) as aside:
        for name in ("config.json", "weights", "z"):
            (aside / name).write_text("new")
        monkeypatch.setattr(os, "rename", note)
    # The last one puts the old files where they are removed.
    assert not any(seen[:-2]) and all(seen[-2:])
    with written_aside(full, overwrite=True, keeps_others=True) as aside:
        (aside / "z").write_text("newer")
    assert contents(full) == {"config.json": "new", "weights": "new", "z": "newer"}


def test_what_a_killed_process_was_replacing_comes_back(full):
    (full / ".a1b2c3_d.replaced").mkdir()
    for name in ("old", "folder"):
        os.rename(full / name, full / ".a1b2c3_d.replaced" / name)
    for name in ("old", "folder"):
        (full / name).write_text("new")
    assert leftovers_of(full) == [full / ".a1b2c3_d.replaced", full / ".checkpoint-7.partial"]
    restore_replaced(full)
    assert contents(full) == OLD and names(full) == OLD_NAMES
    restore_replaced(full.parent / "nowhere")


def test_the_result_is_readable_for_those_who_may_read_its_neighbors(tmp_path):
    neighbor = tmp_path / "neighbor"
    (neighbor / "folder").mkdir(parents=True)
    (neighbor / "folder" / "file").touch()
    with written_aside(tmp_path / "new") as aside:
        (aside / "folder").mkdir(mode=0o700)
        (aside / "folder" / "file").touch(mode=0o600)
    for name in (".", "folder", "folder/file"):
        modes = {stat.S_IMODE((tmp_path / top / name).stat().st_mode) for top in ("neighbor", "new")}
        assert len(modes) == 1


def test_several_files_are_replaced_together_or_not_at_all(tmp_path):
    targets = [tmp_path / "folder" / "a", tmp_path / "b"]
    (tmp_path / "b").write_text("old")
    with pytest.raises(ValueError), files_written_aside(*targets) as aside:
        aside[1].write_text("half")
        raise ValueError("in the middle")
    assert contents(tmp_path) == {"b": "old"}
    with files_written_aside(*targets) as aside:
        for path in aside:
            path.write_text("new")
        assert contents(tmp_path)["b"] == "old"
    assert contents(tmp_path) == {"folder/a": "new", "b": "new"} and names(tmp_path) == {"folder", "b"}


def test_what_is_in_the_way_is_refused_before_any_work(tmp_path, full):
    (tmp_path / "file").write_text("precious")
    for path in (tmp_path / "file", tmp_path / "file" / "a" / "b"):
        with pytest.raises(FileExistsError, match="file'"):
            check_output_directory(path, overwrite=True)
    with pytest.raises(FileExistsError, match=r"out'.*--overwrite_output_dir"), written_aside(full):
        raise AssertionError("work")
    assert check_output_file(tmp_path / "file", overwrite=True) == tmp_path / "file"
    for path in (tmp_path / "file", tmp_path, tmp_path / "file" / "below"):
        with pytest.raises(FileExistsError, match=r"output_file"):
            check_output_file(path)
    assert check_output_directory(tmp_path / "a" / "b") == tmp_path / "a" / "b" and not (tmp_path / "a").exists()
    assert contents(full) == OLD and (tmp_path / "file").read_text() == "precious"
