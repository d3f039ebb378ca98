"""A user's mistake is one line and exit code 2; a bug keeps its traceback."""

import contextlib
import io
import os

import pytest

from hf_elmo.cli.command_line import main, readable_errors


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        *((kind("bad"), 2, "error: bad\n") for kind in (ValueError, FileNotFoundError, ImportError)),
        (KeyboardInterrupt(), 130, "stopped\n"),
    ],
)
def test_mistakes_and_interrupts_are_one_line(error, code, line, capsys, monkeypatch):
    with pytest.raises(SystemExit) as stopped, readable_errors():
        raise error
    assert stopped.value.code == code and capsys.readouterr().err == line
    monkeypatch.setenv("HF_ELMO_TRACEBACK", "1")
    with pytest.raises(type(error)), readable_errors():
        raise error


def test_bugs_are_raised():
    with pytest.raises(KeyError), readable_errors():
        raise KeyError("bug")


@contextlib.contextmanager
def nobody_reading(is_buffered):
    """Standard output behind which `head` has ended, with or without PYTHONUNBUFFERED."""
    reading, writing = os.pipe()
    os.close(reading)
    raw = io.FileIO(writing, "w")
    buffer = io.BufferedWriter(raw) if is_buffered else raw
    with io.TextIOWrapper(buffer, write_through=not is_buffered) as file, contextlib.redirect_stdout(file):
        yield


@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_command_that_nobody_reads_any_more_ends_quietly(is_buffered, embedder, tmp_path, capfd):
    """Also where all of the output waits in the buffer until the end."""
    (tmp_path / "text.txt").write_text("we play\n")
    looked_for = ["--input_file", str(tmp_path / "text.txt"), "--sentence", "They play", "--device", "cpu"]
    neighbors = ["neighbors", "--model_name_or_path", embedder.name, *looked_for]
    for words in (["--help"], ["probe", "--help"], ["score", "--help"], neighbors):
        with nobody_reading(is_buffered), pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0 and capfd.readouterr() == ("", "")
    with nobody_reading(is_buffered), pytest.raises(SystemExit) as stopped, readable_errors():
        for number in range(10**6):
            print(number)
    assert stopped.value.code == 0 and number < 10**6 - 1 and capfd.readouterr() == ("", "")
