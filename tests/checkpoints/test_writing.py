"""Directories are put in place whole or not at all."""

import errno
import os
import stat
import tempfile
from pathlib import Path

import pytest
from volumes import make_volume

from hf_elmo.checkpoints import writing
from hf_elmo.checkpoints.writing import (
    check_output_directory,
    leftovers_of,
    moved_into,
    restore_replaced,
    written_aside,
)


def contents(directory) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.fixture
def full(tmp_path):
    """A directory with an old checkpoint, alone in its parent."""
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    (directory / "old").write_text("old")
    return directory


@pytest.mark.parametrize("existing", [False, True])
def test_what_was_written_takes_the_name_at_the_end(tmp_path, existing):
    target = tmp_path / "a" / "b"
    if existing:
        target.mkdir(parents=True)
    with written_aside(target) as aside:
        (aside / "weights").write_text("new")
        assert not target.exists() or not any(target.iterdir())
    assert contents(target) == {"weights": "new"}
    assert [path.name for path in target.parent.iterdir()] == ["b"]


def test_a_full_directory_is_replaced_whole_when_that_is_asked_for(full):
    with written_aside(full, overwrite=True) as aside:
        (aside / "weights").write_text("new")
        assert contents(full) == {"old": "old"}
    assert contents(full) == {"weights": "new"}
    assert [path.name for path in full.parent.iterdir()] == [full.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_directory_and_nothing_else(full, error):
    with pytest.raises(error), written_aside(full, overwrite=True) as aside:
        (aside / "weights").write_text("half")
        raise error("in the middle")
    assert contents(full) == {"old": "old"}
    assert [path.name for path in full.parent.iterdir()] == [full.name]


def test_a_failure_leaves_nothing_where_nothing_was(tmp_path):
    with pytest.raises(ValueError), written_aside(tmp_path / "new") as aside:
        (aside / "weights").write_text("half")
        raise ValueError("in the middle")
    assert not any(tmp_path.iterdir())


def test_a_rename_that_fails_puts_the_old_directory_back(full, monkeypatch):
    rename = os.rename

    def refuse(source, target):
        if str(source).endswith(".partial"):
            raise OSError("no space")
        rename(source, target)

    monkeypatch.setattr(writing.os, "rename", refuse)
    with pytest.raises(OSError, match="no space"), written_aside(full, overwrite=True) as aside:
        (aside / "weights").write_text("new")
    assert contents(full) == {"old": "old"}
    assert [path.name for path in full.parent.iterdir()] == [full.name]


@pytest.fixture
def volume(tmp_path, monkeypatch):
    """A mount point with an old checkpoint, and what another process writes there at the moment."""
    directory = make_volume(tmp_path / "out", monkeypatch)
    (directory / "old").write_text("old")
    (directory / "folder").mkdir()
    (directory / "folder" / "deep").write_text("old")
    (directory / ".out.checkpoint-7.partial").mkdir()
    return directory


def names(directory) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_mount_point_is_written_within_itself(volume):
    with written_aside(volume, overwrite=True) as aside:
        for name in ("config.json", "weights", "old"):
            (aside / name).write_text("new")
        assert (volume / "old").read_text() == "old"
    assert names(volume) == {"config.json", "weights", "old", ".out.checkpoint-7.partial"}
    assert (volume / "old").read_text() == "new"
    assert names(volume.parent) == {"out"}


def test_an_empty_mount_point_takes_what_is_written(tmp_path, monkeypatch):
    volume = make_volume(tmp_path / "out", monkeypatch)
    # Of a process that was killed.
    (volume / ".out.a1b2c3_d.partial").mkdir()
    with written_aside(volume) as aside:
        (aside / "weights").write_text("new")
    assert (volume / "weights").read_text() == "new"


@pytest.mark.parametrize("failing", ["old", "weights"])
def test_a_move_that_fails_leaves_a_mount_point_as_it_was(volume, monkeypatch, failing):
    rename = os.rename

    def rename_or_fail(source, place):
        if Path(source).name == failing:
            monkeypatch.setattr(os, "rename", rename)
            raise OSError("no more")
        rename(source, place)

    before = names(volume)
    with pytest.raises(OSError, match="no more"), written_aside(volume, overwrite=True) as aside:
        for name in ("config.json", "weights", "folder"):
            (aside / name).write_text("new")
        monkeypatch.setattr(os, "rename", rename_or_fail)
    assert names(volume) == before
    assert (volume / "folder" / "deep").read_text() == (volume / "old").read_text() == "old"


def test_what_a_killed_process_moved_within_a_mount_point_comes_back(volume):
    (volume / ".out.a1b2c3_d.replaced").mkdir()
    for name in ("old", "folder"):
        os.rename(volume / name, volume / ".out.a1b2c3_d.replaced" / name)
    (volume / "old").write_text("new")
    restore_replaced(volume)
    assert names(volume) == {"old", "folder", ".out.checkpoint-7.partial"}
    assert (volume / "folder" / "deep").read_text() == (volume / "old").read_text() == "old"


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS])
def test_where_nothing_may_stand_beside_a_directory_it_is_written_within_itself(full, monkeypatch, error):
    """As where a container's user owns the volume alone."""
    make = tempfile.mkdtemp

    def make_or_fail(**kwargs):
        if kwargs["dir"] == full.parent:
            raise OSError(error, os.strerror(error))
        return make(**kwargs)

    monkeypatch.setattr(tempfile, "mkdtemp", make_or_fail)
    with written_aside(full, overwrite=True) as aside:
        (aside / "weights").write_text("new")
    assert contents(full) == {"weights": "new"}


def test_a_full_directory_is_refused_before_any_work(full):
    started = False
    with pytest.raises(FileExistsError, match=r"checkpoint'.*--overwrite_output_dir"), written_aside(full):
        started = True
    assert not started
    assert contents(full) == {"old": "old"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_in_the_way_is_refused_and_kept(tmp_path, overwrite):
    target = tmp_path / "file"
    target.write_text("precious")
    with pytest.raises(FileExistsError, match="file'"):
        check_output_directory(target, overwrite)
    with pytest.raises(FileExistsError), written_aside(target, overwrite):
        pass
    assert target.read_text() == "precious"


def test_a_file_in_the_place_of_a_parent_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    for name in ("file/checkpoint", "file/a/b/checkpoint"):
        with pytest.raises(FileExistsError, match="file'"):
            check_output_directory(tmp_path / name)


def test_checking_makes_nothing(tmp_path):
    target = tmp_path / "a" / "b"
    assert check_output_directory(str(target)) == target
    assert not any(tmp_path.iterdir())


def test_the_result_is_readable_for_those_who_may_read_its_neighbours(tmp_path):
    neighbour = tmp_path / "neighbour"
    (neighbour / "folder").mkdir(parents=True)
    (neighbour / "folder" / "file").touch()
    with written_aside(tmp_path / "new") as aside:
        (aside / "folder").mkdir(mode=0o700)
        (aside / "folder" / "file").touch(mode=0o600)
    for name in (".", "folder", "folder/file"):
        modes = {stat.S_IMODE((tmp_path / top / name).stat().st_mode) for top in ("neighbour", "new")}
        assert len(modes) == 1


def test_a_link_is_followed_to_the_directory_it_names(full):
    link = full.parent / "link"
    link.symlink_to(full)
    with written_aside(link, overwrite=True) as aside:
        (aside / "weights").write_text("new")
    assert link.is_symlink()
    assert contents(full) == contents(link) == {"weights": "new"}
    assert {path.name for path in full.parent.iterdir()} == {full.name, "link"}


def test_a_relative_name_holds_wherever_the_work_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with written_aside("new") as aside:
        (aside / "weights").write_text("new")
        os.chdir("elsewhere")
    assert contents(tmp_path / "new") == {"weights": "new"}


def test_files_move_into_a_directory_and_what_is_there_stays(tmp_path):
    (tmp_path / "checkpoint-5").mkdir()
    (tmp_path / "weights").write_text("old")
    with moved_into(tmp_path, last="config.json") as directory:
        (directory / "config.json").write_text("new")
        (directory / "weights").write_text("new")
        assert (tmp_path / "weights").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-5", "config.json", "weights"}
    assert (tmp_path / "weights").read_text() == "new"


def test_a_failure_before_the_move_changes_nothing(tmp_path):
    (tmp_path / "config.json").write_text("old")
    with pytest.raises(RuntimeError), moved_into(tmp_path, last="config.json") as directory:
        (directory / "config.json").write_text("new")
        raise RuntimeError
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_failure_in_the_middle_of_the_move_leaves_no_finished_directory(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("old")
    replace = os.replace

    def replace_or_fail(source, target):
        if Path(target).name == "weights":
            raise OSError("no more")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_or_fail)
    with pytest.raises(OSError, match="no more"), moved_into(tmp_path, last="config.json") as directory:
        for name in ("config.json", "card", "weights"):
            (directory / name).write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["card"]


def test_what_stepped_aside_gets_its_name_back_where_nothing_took_it(tmp_path):
    aside = tmp_path / ".out.a1b2c3_d.replaced"
    aside.mkdir()
    (aside / "precious.txt").write_text("keep me")
    assert leftovers_of(tmp_path / "out") == [aside] and leftovers_of(tmp_path / "other") == []
    restore_replaced(tmp_path / "out")
    assert (tmp_path / "out" / "precious.txt").read_text() == "keep me" and not aside.exists()


def test_what_was_replaced_does_not_come_back(tmp_path):
    for name in (".out.a1b2c3_d.replaced", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name.txt").write_text(name)
    restore_replaced(tmp_path / "out")
    assert (tmp_path / "out" / "name.txt").read_text() == "out"
    assert leftovers_of(tmp_path / "nowhere" / "out") == []
