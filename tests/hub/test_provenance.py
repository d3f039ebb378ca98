"""What is kept of a run can be run again."""

import re
import subprocess
import sys

import psutil
import torch

from hf_elmo.hub.provenance import _commit, command_to_resume, describe_run, peak_memory_bytes


def test_the_commit_is_that_of_a_source_tree_and_of_no_installed_package(tmp_path):
    installed = tmp_path / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    (tmp_path / "file.py").touch()
    settings = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "file.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *settings, *words], cwd=tmp_path, check=True)
    assert re.fullmatch(r"[0-9a-f]{12}", _commit(tmp_path)) and _commit(installed) is None


def test_the_peak_of_memory_is_in_bytes():
    # The kernel counts the peak a little late.
    used = 0.9 * psutil.Process().memory_info().rss
    assert used <= peak_memory_bytes(torch.device("cpu")) < psutil.virtual_memory().total


def test_the_command_goes_on_with_the_same_flags_and_shows_no_token(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    token = "hf_" + "aBcDeFgHiJ" * 3 + "kLmN"
    for words, wanted in (
        (["run.py", "--train_file", "a b.txt"], "python run.py --train_file 'a b.txt'"),
        (["/bin/hf-elmo", "pretrain", "--train-file=x"], "hf-elmo pretrain --train-file=x"),
        (["/x/hf_elmo/__main__.py", "pretrain", "--dataset_name", "x"], "python -m hf_elmo pretrain --dataset_name x"),
        (["/bin/hf-elmo", "train", "coreference", "my recipe.yaml"], "hf-elmo train coreference 'my recipe.yaml'"),
        (["run.py", "--train_file", "x", "--note", token], "python run.py --train_file x --note <token>"),
    ):
        monkeypatch.setattr(sys, "argv", words)
        assert describe_run()["command"] == wanted
        resumed = f"{wanted} --resume_from_checkpoint auto"
        assert command_to_resume() == resumed
        monkeypatch.setattr(sys, "argv", [*words, "--resume_from_checkpoint", "auto"])
        assert command_to_resume() == resumed
    monkeypatch.setattr(sys, "argv", ["pytest", "-q"])
    assert "pytest" not in command_to_resume()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(sys, "argv", ["run.py", "--train_file", "x"])
    assert command_to_resume().startswith("torchrun --nproc_per_node 2 run.py ")
