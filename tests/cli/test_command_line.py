"""A user's mistake is one line and exit code 2; a bug keeps its traceback."""

import contextlib
import io
import os

import pytest

from hf_elmo.cli.command_line import main, readable_errors


@pytest.mark.parametrize("error", [ValueError("bad"), FileNotFoundError("bad"), ImportError("bad")])
def test_mistakes_are_one_line(capsys, error):
    with pytest.raises(SystemExit) as stopped, readable_errors():
        raise error
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: bad\n"


def test_an_interrupt_is_one_line_and_the_shells_exit_code(capsys):
    with pytest.raises(SystemExit) as stopped, readable_errors():
        raise KeyboardInterrupt
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "stopped\n"


@contextlib.contextmanager
def nobody_reading(is_buffered):
    """Standard output behind which `head` has ended, with or without PYTHONUNBUFFERED."""
    reading, writing = os.pipe()
    os.close(reading)
    raw = io.FileIO(writing, "w")
    buffer = io.BufferedWriter(raw) if is_buffered else raw
    with io.TextIOWrapper(buffer, write_through=not is_buffered) as file, contextlib.redirect_stdout(file):
        yield


both_ways = pytest.mark.parametrize("is_buffered", [True, False])


@both_ways
def test_a_command_that_nobody_reads_any_more_ends_quietly(is_buffered, embedder, tmp_path, capfd):
    """Also where all of the output waits in the buffer until the end."""
    (tmp_path / "text.txt").write_text("we play\n")
    looked_for = ["--input_file", str(tmp_path / "text.txt"), "--sentence", "They play", "--device", "cpu"]
    neighbors = ["neighbors", "--model_name_or_path", embedder.name, *looked_for]
    for words in (["--help"], ["probe", "--help"], ["score", "--help"], neighbors):
        with nobody_reading(is_buffered), pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0
        assert capfd.readouterr() == ("", "")


@both_ways
def test_a_reader_that_has_gone_ends_a_command_at_once(is_buffered, capfd):
    with nobody_reading(is_buffered), pytest.raises(SystemExit) as stopped, readable_errors():
        for number in range(10**6):
            print(number)
    assert stopped.value.code == 0 and number < 10**6 - 1
    assert capfd.readouterr() == ("", "")


def test_other_broken_pipes_are_errors(capfd):
    with pytest.raises(BrokenPipeError), readable_errors():
        raise BrokenPipeError("to a process")


def test_bugs_are_raised():
    with pytest.raises(KeyError), readable_errors():
        raise KeyError("bug")


def test_the_traceback_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("HF_ELMO_TRACEBACK", "1")
    with pytest.raises(ValueError, match="bad"), readable_errors():
        raise ValueError("bad")
