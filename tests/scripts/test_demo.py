"""The demo from its first line to its last, with a few steps in place of two minutes."""

import subprocess
import sys

import pytest
from conftest import ROOT


def run_demo(output_dir, *arguments):
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), "--output_dir", str(output_dir), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=540)


@pytest.mark.slow
def test_demo_runs_through(tmp_path):
    done = run_demo(tmp_path / "elmo", "--max_steps", "4")
    assert done.returncode == 0, done.stderr
    assert [f"step {step} of 4" in done.stdout for step in (0, 2, 4)] == [True] * 3
    assert "unigram" in done.stdout and "bigram" in done.stdout
    assert "nearest words by the static vector" in done.stdout
    assert f'model="{tmp_path / "elmo"}"' in done.stdout


@pytest.mark.slow
def test_demo_ends_below_its_bigram_baseline(tmp_path):
    import json

    done = run_demo(tmp_path / "elmo")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "elmo" / "results.json").read_text())
    assert results["perplexity"]["mean"] < results["baselines"]["bigram"]
