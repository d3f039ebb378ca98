"""A user's mistake is one line and exit code 2; a bug keeps its traceback."""

import sys

import pytest

from hf_elmo.checkpoints.provenance import describe_run
from hf_elmo.commands.command_line import readable_errors, run_command
from hf_elmo.pretraining.arguments import PretrainingArguments


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


def test_bugs_are_raised():
    with pytest.raises(KeyError), readable_errors():
        raise KeyError("bug")


def test_the_traceback_can_be_asked_for(monkeypatch):
    monkeypatch.setenv("HF_ELMO_TRACEBACK", "1")
    with pytest.raises(ValueError, match="bad"), readable_errors():
        raise ValueError("bad")


@pytest.mark.parametrize("flag", ["--hub_token", "--no_such_flag"])
def test_a_token_on_the_command_line_is_refused_and_not_shown(monkeypatch, capsys, flag):
    token = "hf_" + "aBcDeFgHiJ" * 3 + "kLmN"
    monkeypatch.setattr(sys, "argv", ["run.py", "--output_dir", "out", flag, token])
    with pytest.raises(SystemExit) as stopped:
        run_command(PretrainingArguments, print)
    shown = capsys.readouterr()
    assert stopped.value.code == 2
    assert "the command line holds an access token" in shown.err
    assert token not in shown.out + shown.err
    assert token not in describe_run()["command"]
