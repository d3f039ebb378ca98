"""The README's Python blocks run and print what they say; its commands have no flag that the scripts lack."""

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys

import pytest
from benchmark.report import render_report, render_targets
from conftest import ROOT, make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification, ElmoModel

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line
    for language, block in BLOCKS
    if language == "bash"
    for line in block.splitlines()
    if re.search(r"scripts/\w+\.py", line)
]


def test_python_blocks_run(tmp_path, monkeypatch):
    """In one namespace and in their order; a text block right after a Python block is what that one prints."""
    monkeypatch.chdir(tmp_path)
    for name, model in (
        ("output/elmo-tiny-pydoc", ElmoModel(make_tiny_config(projection_size=64))),
        ("output/my-tagger", ElmoForTokenClassification(make_tiny_config(id2label={0: "O", 1: "B-PER", 2: "I-PER"}))),
    ):
        model.save_pretrained(name)
        ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(name)
    namespace = {}
    printed = None
    num_run = num_compared = 0
    for language, block in BLOCKS:
        if language == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(block, "README.md", "exec"), namespace)
            printed = stream.getvalue()
            num_run += 1
        elif language == "text" and printed is not None:
            assert printed.strip() == block.strip()
            num_compared += 1
    assert num_run >= 4 and num_compared >= 1


def test_the_first_block_is_eight_lines():
    language, block = BLOCKS[0]
    assert language == "python" and len([line for line in block.splitlines() if line.strip()]) == 8


@pytest.mark.parametrize("script", sorted({re.search(r"scripts/\w+\.py", command).group() for command in COMMANDS}))
def test_flags_exist(script):
    done = subprocess.run([sys.executable, str(ROOT / script), "--help"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    known = set(re.findall(r"--\w+", done.stdout))
    for command in COMMANDS:
        if script in command:
            # What stands before the script is the launcher's.
            words = shlex.split(command.partition(script)[2])
            assert set(word for word in words if word.startswith("--")) <= known, command


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def figures(path):
    return json.loads((ROOT / "model_cards" / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("recipe", ["elmo-tiny-pydoc", "elmo-small-reviews"])
def test_perplexities_are_those_of_the_results_files(recipe):
    results = figures(f"{recipe}/results.json")
    row = next(line for line in README.splitlines() if line.startswith(f"| `{recipe}` |"))
    wanted = (results["perplexity"]["mean"], results["baselines"]["bigram"], results["baselines"]["unigram"])
    assert all(f"| {figure:,.1f} " in row for figure in wanted), row


@pytest.mark.parametrize("biLM", ["frozen", "trained"])
def test_f1_is_that_of_the_results_files(biLM):
    row = next(line for line in README.splitlines() if line.startswith(f"| biLM {biLM}"))
    for start in ("pretrained", "random"):
        results = figures(f"elmo-small-reviews/wnut17-{biLM}-{start}.json")
        assert f"{100 * results['predict_f1']:.2f}" in row, row


def test_the_speed_table_is_that_of_the_benchmark():
    results = figures("benchmark/benchmark.json")
    table = README.split("<!-- benchmark -->")[1].split("<!-- /benchmark -->")[0]
    assert table.strip() == render_targets(results).strip()
    for folder in ("benchmark", "benchmark/again"):
        written = (ROOT / "model_cards" / folder / "benchmark.md").read_text(encoding="utf-8")
        assert written.strip() == render_report(figures(f"{folder}/benchmark.json")).strip()


@pytest.mark.parametrize("recipe", ["paper", "modern"])
def test_the_recipes_figures_are_those_of_their_results_files(recipe):
    results = figures(f"recipes/{recipe}.json")
    assert results["recipe"] == recipe
    table = README.split("<!-- recipes -->")[1].split("<!-- /recipes -->")[0]
    row = next(line for line in table.splitlines() if line.startswith(f"| `{recipe}` |"))
    wanted = [results["perplexity"]["mean"], results["perplexity_cold"]["mean"]]
    assert all(f"| {figure:,.1f} " in row for figure in wanted), row
    assert f"| {results['words_trained'] / 1e6:.2f} M " in row


def test_the_modern_recipe_is_better_by_what_is_said():
    """The same number of words, but for a window's."""
    paper, modern = (figures(f"recipes/{name}.json") for name in ("paper", "modern"))
    assert modern["words_trained"] == pytest.approx(paper["words_trained"], rel=0.01)
    assert paper["training_text"] == modern["training_text"]
    assert paper["vocabulary_size"] == modern["vocabulary_size"]
    assert modern["perplexity"]["mean"] < 0.85 * paper["perplexity"]["mean"]


def test_what_was_tried_is_in_the_table():
    tried = figures("recipes/tried.json")
    page = (ROOT / "model_cards" / "recipes" / "README.md").read_text(encoding="utf-8")
    for run in tried["runs"]:
        row = f"| {run['optim']} | {run['learning_rate']:g} | {run['num_lanes']} | {run['dropout']:g} |"
        assert any(line.startswith(row) and f"| {run['perplexity']:.1f} |" in line for line in page.splitlines()), run


def test_the_training_figures_are_those_of_their_results_files():
    paragraph = next(line for line in README.splitlines() if line.startswith("The loop reaches "))
    report = (ROOT / "model_cards" / "benchmark" / "training.md").read_text(encoding="utf-8")
    share = re.search(r"^\| training loop, full softmax \| forward \+ backward \| ([\d.]+) \|", report, re.MULTILINE)[1]
    assert paragraph.startswith(f"The loop reaches {share} of")
    assert figures("benchmark/memory.json")["training"]["is_flat"] is True
