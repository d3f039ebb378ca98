"""A user's mistake is one line and exit code 2; a bug keeps its traceback."""

import pytest

from hf_elmo.training.command_line import readable_errors


@pytest.mark.parametrize("error", [ValueError("bad"), FileNotFoundError("bad"), ImportError("bad")])
def test_mistakes_are_one_line(capsys, error):
    with pytest.raises(SystemExit) as stopped, readable_errors():
        raise error
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: bad\n"


def test_bugs_are_raised():
    with pytest.raises(KeyError), readable_errors():
        raise KeyError("bug")


def test_the_traceback_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("HF_ELMO_TRACEBACK", "1")
    with pytest.raises(ValueError, match="bad"), readable_errors():
        raise ValueError("bad")
