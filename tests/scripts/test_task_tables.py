"""The tables of tasks: every row's command is one that hf-elmo takes, and what is shown is what the files say."""

import argparse
import dataclasses
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import task_tables
from conftest import make_tiny_config
from task_tables import PAGES, SHARES, TABLES, Table, render, results_files, scores_of, write_tables

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.cli import command_line

TINY = Table(
    "a task",
    "text-classification --train_file {data}/train.tsv --validation_file {data}/train.tsv "
    "--test_file {data}/train.tsv --max_steps 1",
    "hidden_size=4",
    (1, 1),
    {"accuracy": ("accuracy", "50.0 → 60.0"), "macro_f1": ("F1", "")},
    "elmo-tiny",
    seeds=2,
)


@pytest.fixture
def use(monkeypatch, tmp_path):
    """A call that makes a tiny table the only one, whose results are written to a folder of the test."""
    monkeypatch.setattr(task_tables, "RESULTS", tmp_path / "results")
    return lambda **changes: monkeypatch.setattr(task_tables, "TABLES", {"tiny": dataclasses.replace(TINY, **changes)})


def write_seeds(run, *values):
    path = task_tables.RESULTS / "tiny" / f"{run}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"seeds": [{"predict_accuracy": value, "predict_macro_f1": 0.5} for value in values]}))


@pytest.mark.parametrize("name", TABLES)
def test_each_row_of_a_table_is_a_command_with_flags_that_exist(name, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(task_tables, "RESULTS", tmp_path)
    runs = list(task_tables.missing_runs(name, argparse.Namespace(models_dir="m", data_dir="d")))
    assert len({path for path, _ in runs}) == len(runs) == 2 * len(TABLES[name].rows) * (TABLES[name].folds or 1)
    with pytest.raises(SystemExit):
        command_line.main([*runs[0][1][:2], "--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out))
    for _, words in runs:
        assert {word for word in words if word.startswith("--")} <= known
        assert words[words.index("--num_seeds") + 1] == str(TABLES[name].seeds)


def test_a_table_shows_means_deviations_and_what_is_clearly_more(use):
    use()
    write_seeds("none", 0.40, 0.42)
    write_seeds("random", 0.41, 0.41)
    write_seeds("mix", 0.50, 0.52)
    accuracy, f1 = render("full").splitlines()[2:]
    name = "| a task (`tiny`) | elmo-tiny | accuracy "
    assert accuracy == name + "| 41.0 ± 1.4 | 41.0 ± 0.0 | - | **51.0 ± 1.4** |  | 50.0 → 60.0 |"
    assert "**" not in f1 and "| 50.0 ± 0.0 |" in f1
    assert len(render("tenth").splitlines()) == 2 and render("full", is_short=True).splitlines()[2:] == [f1]
    write_seeds("random", 0.48, 0.50)
    assert "**" not in render("full")  # not above every baseline
    # Of folds each seed has its mean.
    use(folds=2)
    write_seeds("mix-tenth-fold-0", 0.2, 0.4)
    assert scores_of("tiny", "mix", "tenth", "accuracy") is None
    write_seeds("mix-tenth-fold-1", 0.4, 0.8)
    assert scores_of("tiny", "mix", "tenth", "accuracy") == pytest.approx([30.0, 60.0])


@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_the_repository_are_of_the_bilm_that_their_table_names(name):
    rows = [row for row in TABLES[name].rows if row in ("mix", "top", "both")]
    for path in (path for row in rows for share in SHARES for path in results_files(name, row, share)):
        words = shlex.split(json.loads(path.read_text(encoding="utf-8"))["command"])
        assert Path(words[words.index("--model_name_or_path") + 1]).name == TABLES[name].model, path


def test_the_pages_show_what_the_results_files_say_between_their_marks(tmp_path):
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        (tmp_path / "page.md").write_text(
            re.sub(r"(<!-- (full|tenth|tasks) -->\n).*?(<!-- /\2 -->)", r"\1\3", text, flags=re.DOTALL)
        )
        write_tables(tmp_path / "page.md")
        assert (tmp_path / "page.md").read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_rows_are_trained_once_and_leave_their_results_alone(use, tmp_path, monkeypatch):
    use(rows=("none", "mix"))
    monkeypatch.setattr(task_tables, "write_tables", lambda page: None)
    monkeypatch.setattr(task_tables, "SHARES", {"full": ""})
    (tmp_path / "train.tsv").write_text("label\tsentence\n" + "good\ta call\nbad\ta return\n" * 4)
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo-tiny")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo-tiny")
    argv = [f"--models_dir={tmp_path}", f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'out'}", "--tables=tiny"]
    task_tables.main(argv)
    assert {path.name for path in (tmp_path / "results" / "tiny").iterdir()} == {"none.json", "mix.json"}
    assert not list((tmp_path / "out" / "tiny").iterdir())
    assert len(scores_of("tiny", "mix", "full", "accuracy")) == 2
    (tmp_path / "train.tsv").unlink()
    task_tables.main(argv)
    (tmp_path / "results" / "tiny" / "mix.json").unlink()
    with pytest.raises(subprocess.CalledProcessError):
        task_tables.main(argv)
