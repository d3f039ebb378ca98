"""`hf-elmo card` from the command line: one folder is taken in, all folders are rendered in place."""

import os
import shutil

import fresh_process
import pytest
from conftest import ROOT

from hf_elmo.checkpoints.cards import render_recipe
from hf_elmo.commands import command_line

RECIPES = ("elmo-small-novels", "elmo-small-nsmc", "elmo-small-reviews", "elmo-tiny-pydoc")


@pytest.fixture
def model_cards(tmp_path):
    """The committed folders, without what is rendered."""
    for name in RECIPES:
        (tmp_path / "model_cards" / name).mkdir(parents=True)
        for file in (ROOT / "model_cards" / name).iterdir():
            if file.suffix in (".json", ".yaml"):
                shutil.copyfile(file, tmp_path / "model_cards" / name / file.name)
    return tmp_path / "model_cards"


@pytest.fixture
def run_script(capsys):
    """Runs the command in this process, which saves its imports; gives the exit code and what it printed."""

    def run(*arguments):
        try:
            command_line.main(["card", *map(str, arguments)])
        except SystemExit as end:
            return end.code, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


def test_all_folders_are_rendered_in_place(model_cards):
    pytest.importorskip("matplotlib", reason="plots need hf_elmo[plots]")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = fresh_process.run(["-m", "hf_elmo", "card", "--model_cards", model_cards], env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [str(model_cards / name / "README.md") for name in RECIPES]
    for name in RECIPES:
        card = (model_cards / name / "README.md").read_text(encoding="utf-8")
        assert "(run.png)" in card and (model_cards / name / "run.png").stat().st_size
        assert card == (ROOT / "model_cards" / name / "README.md").read_text(encoding="utf-8")


def test_a_run_is_taken_in_and_the_other_folders_stay(tmp_path, model_cards, run_script):
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(model_cards / "elmo-small-reviews", checkpoint)
    folder = model_cards / "elmo-x"
    done = run_script("--model_cards", model_cards, "--checkpoint", checkpoint, "--name", "elmo-x", "--skip_plots")
    assert done == (0, f"{folder / 'README.md'}\n", "")
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card == render_recipe(folder) and '"elmo-x"' in card
    assert not (folder / "run.png").exists()
    assert not any((model_cards / name / "README.md").exists() for name in RECIPES)


def test_mistakes_are_told_in_a_line(model_cards, run_script):
    code, _, error = run_script("--model_cards", model_cards, "--checkpoint", "anything")
    assert code == 2 and "--name" in error
    (model_cards / RECIPES[0] / "results.json").unlink()
    for skip_plots in ([], ["--skip_plots"]):
        code, _, error = run_script("--model_cards", model_cards, "--name", RECIPES[0], *skip_plots)
        assert code == 2 and error.count("\n") == 1
        assert error.startswith("error: ") and f"{RECIPES[0]} holds no results.json" in error
