"""Other programs' checkpoints: the format told by their files, archives of them, and what is written or refused."""

import io
import random
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from bilm_tf_files import are_equal, listing, make_options, write_checkpoint
from refusals import assert_refused

from hf_elmo import load_external
from hf_elmo.conversion import sources
from hf_elmo.conversion.sources import FORMATS, convert


@pytest.fixture
def source(tmp_path):
    """A directory with the files of a tiny bilm-tf model."""
    folder = tmp_path / "theirs"
    write_checkpoint(folder, make_options())
    return folder


def test_what_cannot_be_read_is_refused_by_name_and_leaves_nothing(tmp_path, source):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("no model\n")
    before = listing(tmp_path)
    for error, named, given, options in (
        (FileNotFoundError, "'nowhere'", "nowhere", {}),
        (ValueError, ("empty", *FORMATS), tmp_path / "empty", {}),
        (ValueError, ("softmax_fil", "softmax_file"), source, {"softmax_fil": "x"}),
        (FileNotFoundError, "softmax_file", source, {"softmax_file": "absent", "vocab_file": "absent"}),
        (ValueError, "vocab_file", source, {"vocab_file": "absent"}),
        (ValueError, "pre_tokenizer", source, {"tokenizer_options": {"pre_tokenizer": "spaces"}}),
    ):
        assert "\n" not in assert_refused(error, named, convert, given, tmp_path / "ours", **options)
        assert listing(tmp_path) == before and not (tmp_path / "ours").exists()


def test_what_is_there_is_never_lost(tmp_path, source):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "options.json").write_bytes((source / "options.json").read_bytes())
    before = listing(tmp_path)
    assert_refused(FileExistsError, "--overwrite_output_dir", convert, source, tmp_path / "full")
    # What is read would be replaced with what is written.
    for target, options, named in (
        (source, {}, "source"),
        (tmp_path, {}, "source"),
        (tmp_path / "full", {"options_file": tmp_path / "full" / "options.json"}, "options_file"),
    ):
        assert_refused(ValueError, named, convert, source, target, overwrite=True, **options)
    assert listing(tmp_path) == before
    (tmp_path / "full" / "options.json").rename(tmp_path / "full" / "precious")
    convert(source, tmp_path / "full", overwrite=True)
    assert not (tmp_path / "full" / "precious").exists() and (tmp_path / "full" / "config.json").exists()


# Archives


@pytest.mark.parametrize("kind", ["zip", "gztar", "xztar"])
def test_an_archive_may_hold_the_files_or_the_folder_that_they_lie_in(kind, tmp_path, source, monkeypatch):
    monkeypatch.setattr(sources.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    wanted = load_external(source)[0]
    (tmp_path / "around" / "__MACOSX").mkdir(parents=True)
    shutil.copytree(source, tmp_path / "around" / "elmo" / "theirs")
    for folder in (source, tmp_path / "around"):
        archive = shutil.make_archive(tmp_path / f"of-{folder.name}", kind, folder)
        assert are_equal(load_external(archive)[0], wanted)
    convert(archive, tmp_path / "ours")
    assert archive.rpartition("/")[2] in (tmp_path / "ours" / "README.md").read_text()
    Path(archive).write_bytes(Path(archive).read_bytes()[:1000])
    assert_refused(ValueError, archive, load_external, archive)
    (tmp_path / "around" / "elmo" / "theirs" / "options.json").unlink()
    archive = shutil.make_archive(tmp_path / "half", kind, tmp_path / "around")
    # The error names the archive, and not where it was unpacked to.
    assert_refused(ValueError, (f"{archive}/weights.hdf5", "options_file"), convert, archive, tmp_path / "new")
    assert not (tmp_path / "new").exists() and not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar", "xztar"])
def test_a_damaged_archive_is_not_read(kind, tmp_path, source):
    # Not to be compressed, so that it is the most of the archive.
    (source / "a").write_bytes(random.Random(0).randbytes(40_000))
    archive = Path(shutil.make_archive(tmp_path / "elmo", kind, source))
    data = bytearray(archive.read_bytes())
    # A tar without compression has no checksums but those of its headers.
    data[data.rindex(b"ustar") if kind == "tar" else len(data) // 2] ^= 1
    archive.write_bytes(data)
    assert_refused(ValueError, (archive.name, "cannot be unpacked"), load_external, archive)


def write_tar(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, target, len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def write_zip(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "..\\out"])
def test_nothing_leads_out_of_an_archive(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sources.tempfile, "tempdir", str(tmp_path / "a" / "b"))
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in (
        write_zip(tmp_path / "a.zip", (name, b"x")),
        write_tar(tmp_path / "a.tar.gz", (name, b"x", tarfile.REGTYPE, "")),
    ):
        assert_refused(ValueError, path.name, load_external, path)
    assert not list(tmp_path.rglob("*out*")) and not list((tmp_path / "a" / "b").iterdir())


def test_links_and_devices_of_an_archive_are_refused_or_plain_files(tmp_path):
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        members = ("config.json", b"{}", tarfile.REGTYPE, ""), ("evil", b"", kind, "config.json")
        path = write_tar(tmp_path / "a.tar.gz", *members)
        assert_refused(ValueError, ("a.tar.gz", "evil"), load_external, path)
    info = zipfile.ZipInfo("weights.hdf5")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = write_zip(tmp_path / "a.zip", (info, b"/etc/passwd"), ("options.json", b"{}"))
    # A file of eleven bytes, and not the one that it names.
    assert_refused(ValueError, ("a.zip/weights.hdf5", "not a readable hdf5"), load_external, path)


def test_bombs_are_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_SMALL", 1000)
    zeros = bytes(3_000_000)
    path = write_zip(tmp_path / "a.zip", ("weights.hdf5", zeros))
    assert_refused(ValueError, ("a.zip", "bytes"), load_external, path)
    # A size that lies: no more than it says is unpacked.
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = (50).to_bytes(4, "little")
    path.write_bytes(data)
    assert_refused(ValueError, "a.zip", load_external, path)
    path = write_tar(tmp_path / "a.tar.gz", ("weights.hdf5", zeros, tarfile.REGTYPE, ""))
    assert_refused(ValueError, ("a.tar.gz", "bytes"), load_external, path)
