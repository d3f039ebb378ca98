"""`hf-elmo push`: one line per mistake, no token on the screen; checkpoints/test_sharing.py uploads by it."""

import os

import fresh_process
import pytest
from conftest import ROOT, make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.commands import command_line

SECRET = "NobodyMayReadThis0123456789"
TOKEN = f"hf_{SECRET}AbCdEfGh"


@pytest.fixture
def checkpoint(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo")
    (tmp_path / "elmo" / "README.md").write_text("---\nlibrary_name: transformers\n---\n# elmo\n")
    return tmp_path / "elmo"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process, which is offline."""

    def run(*arguments):
        # It would quieten the libraries for the tests to come.
        monkeypatch.setattr(command_line, "quiet_libraries", lambda: None)
        capsys.readouterr()
        with pytest.raises(SystemExit) as raised:
            command_line.main(["push", *map(str, arguments)])
        captured = capsys.readouterr()
        assert SECRET not in captured.out + captured.err
        return raised.value.code, captured.out, captured.err

    return run


def run_online(tmp_path, *arguments, **environment):
    """Run the command in a process whose Hub is a port of this machine that nobody listens at."""
    done = fresh_process.run(
        ["-m", "hf_elmo", "push", *arguments],
        modules=fresh_process.LIBRARIES,
        env={
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            **environment,
        },
    )
    assert SECRET not in done.stdout + done.stderr
    return done


def test_help_names_the_arguments_and_none_for_a_token(run):
    code, out, _ = run("--help")
    assert code == 0
    assert {"--model_name_or_path", "--hub_model_id", "--private"} <= set(out.split()) and "--token" not in out


def test_mistakes_are_one_line(run, checkpoint):
    for changes, named in (
        ({"--checkpoint": "nowhere"}, "'nowhere'"),
        ({"--hub_model_id": "a/b/c"}, "hub_model_id 'a/b/c'"),
        ({"--token": TOKEN}, "access token"),
        ({"--hub_model_id": TOKEN}, "access token"),
        ({}, "HF_HUB_OFFLINE"),
    ):
        arguments = {"--checkpoint": checkpoint, "--hub_model_id": "elmo-x", **changes}
        code, out, err = run(*(word for pair in arguments.items() for word in pair))
        assert (code, out) == (2, "") and err.count("\n") == 1, changes
        assert err.startswith("error: ") and named in err and TOKEN not in err, err


def test_a_directory_that_is_no_checkpoint_is_refused(run, checkpoint):
    (checkpoint / "modeling_elmo.py").unlink()
    code, _, err = run("--checkpoint", checkpoint, "--hub_model_id", "elmo-x")
    assert code == 2 and "modeling_elmo.py, which the auto_map needs, is missing" in err


def test_without_a_login_and_without_a_hub(checkpoint, tmp_path):
    arguments = ("--checkpoint", checkpoint, "--hub_model_id", "elmo-x")
    nobody = run_online(tmp_path, *arguments)
    assert nobody.returncode == 2 and nobody.stderr.startswith(
        "error: push_to_hub needs a login, but there is no token"
    )
    alone = run_online(tmp_path, *arguments, HF_TOKEN=TOKEN)
    assert alone.returncode == 2 and "Connection refused" in alone.stderr
    for done in (nobody, alone):
        assert done.stderr.count("\n") == 1
        assert f"upload it later: hf-elmo push --model_name_or_path {checkpoint}" in done.stderr
