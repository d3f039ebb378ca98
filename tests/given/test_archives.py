"""Archives of strangers neither escape nor explode, and what is in a good one is there as it was."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from refusals import assert_refused

from hf_elmo.given import archives
from hf_elmo.given.archives import is_archive, unpacked

FILES = {"config.json": b"{}", "vocabulary/labels.txt": b"O\n", "weights.th": os.urandom(3000)}


def write_zip(path, files, **settings):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content, **settings)
    return path


def write_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "config.json"
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def open_archive(path):
    with unpacked(path, "source 'a'") as directory:
        return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def refuse(path, *names):
    return assert_refused(ValueError, ("source 'a'", *names), open_archive, path)


@pytest.mark.parametrize("mode", ["w:gz", "w", "w:bz2", "w:xz", "zip"])
def test_what_is_in_an_archive_is_there_and_gone_afterwards(tmp_path, mode):
    path = tmp_path / "archive.of_no_name"
    if mode == "zip":
        write_zip(path, FILES.items())
    else:
        write_tar(
            path, [("./", b"", tarfile.DIRTYPE)] + [(name, data, tarfile.REGTYPE) for name, data in FILES.items()], mode
        )
    assert is_archive(path) and open_archive(path) == FILES
    with unpacked(path, "source 'a'") as directory:
        pass
    assert not directory.exists()


def test_a_directory_is_given_as_it_is(tmp_path):
    assert not is_archive(tmp_path)
    with unpacked(tmp_path, "source 'a'") as directory:
        assert directory == tmp_path
    assert tmp_path.is_dir()
    assert_refused(FileNotFoundError, "source 'a'", open_archive, tmp_path / "absent")


BAD_NAMES = ["../out", "/out", "a/../../out", "C:\\out", "..\\out"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_cannot_lead_out(tmp_path, name):
    home = tmp_path / "home"
    home.mkdir()
    refuse(write_zip(home / "a.zip", [(name, b"x")]), "out")
    refuse(write_tar(home / "a.tar.gz", [(name, b"x", tarfile.REGTYPE)]), "out")
    assert not list(tmp_path.rglob("out*"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_of_a_tar_are_refused(tmp_path, kind):
    members = [("config.json", b"{}", tarfile.REGTYPE), ("evil", b"", kind)]
    refuse(write_tar(tmp_path / "a.tar.gz", members), "evil")


def test_links_of_a_zip_are_refused(tmp_path):
    info = zipfile.ZipInfo("evil")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    refuse(write_zip(tmp_path / "a.zip", [(info, b"/etc/passwd")]), "evil")


def test_a_file_that_comes_twice_is_refused(tmp_path):
    members = [("a", b"1", tarfile.REGTYPE), ("./A", b"2", tarfile.REGTYPE)]
    refuse(write_tar(tmp_path / "a.tar.gz", members), "A")
    refuse(write_tar(tmp_path / "b.tar.gz", [("a", b"", tarfile.DIRTYPE), ("a", b"2", tarfile.REGTYPE)]), "a")
    refuse(write_tar(tmp_path / "c.tar.gz", [("a", b"2", tarfile.REGTYPE), ("a/b", b"", tarfile.REGTYPE)]))


def test_an_encrypted_member_is_refused(tmp_path):
    path = write_zip(tmp_path / "a.zip", [("secret", b"x" * 40)])
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    path.write_bytes(data)
    refuse(path, "secret")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_bombs_are_not_unpacked_to_their_end(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(archives, "_SMALL", 1000)
    monkeypatch.setattr(archives, "_PIECE", 1000)
    zeros, path = bytes(3_000_000), tmp_path / "bomb"
    if kind == "zip":
        write_zip(path, [("zeros", zeros)])
    else:
        write_tar(path, [("zeros", zeros, tarfile.REGTYPE)])
    assert path.stat().st_size < 100_000
    refuse(path, "16 times")


def test_a_zip_whose_sizes_lie_is_refused(tmp_path):
    path = write_zip(tmp_path / "a.zip", [("zeros", bytes(100_000))])
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = (50).to_bytes(4, "little")
    path.write_bytes(data)
    refuse(path)


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    refuse(write_zip(tmp_path / "a.zip", [(f"f{number}", b"") for number in range(4)]), "more than 3")


@pytest.mark.parametrize("levels", [33, 400])
def test_what_lies_too_deep_is_refused(tmp_path, levels):
    """Whoever walks through hundreds of directories, and whoever removes them, recurses."""
    names = ["a/" * level for level in range(1, levels + 1)]
    refuse(write_zip(tmp_path / "a.zip", [(name, b"") for name in names]), "32 directories")
    refuse(write_tar(tmp_path / "a.tar", [(name, b"", tarfile.DIRTYPE) for name in names], "w"), "32 directories")


@pytest.mark.parametrize("kind", ["zip", "tar", "noise", "empty", "gzip"])
def test_what_is_cut_off_or_no_archive_is_refused(tmp_path, kind):
    path = tmp_path / "a"
    if kind == "zip":
        write_zip(path, FILES.items())
    elif kind == "tar":
        write_tar(path, [(name, data, tarfile.REGTYPE) for name, data in FILES.items()])
    content = {"noise": b"no archive at all", "empty": b"", "gzip": gzip.compress(b"text")}.get(kind)
    path.write_bytes(path.read_bytes()[:-1500] if content is None else content)
    assert is_archive(path) == (kind in ("tar", "zip"))
    refuse(path)


def test_nothing_is_left_behind_by_a_refusal(tmp_path, monkeypatch):
    monkeypatch.setattr(archives.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    refuse(write_tar(tmp_path / "a.tar.gz", [("a", b"1", tarfile.REGTYPE), ("l", b"", tarfile.SYMTYPE)]), "l")
    assert list(Path(tmp_path / "temporary").iterdir()) == []
