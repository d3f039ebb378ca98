"""The tables of tasks: every row's command is one that hf-elmo takes, and what is shown is what the files say."""

import argparse
import json
import re
import subprocess

import pytest
import task_tables
from conftest import make_tiny_config
from task_tables import PAGES, SHARES, TABLES, Table, all_tables, is_clearly_more, render, scores_of, write_tables

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.cli import command_line

TINY = Table(
    "a task",
    "train text-classification --train_file {data}/train.tsv "
    "--validation_file {data}/train.tsv --test_file {data}/train.tsv "
    "--max_steps 1",
    "hidden_size=4",
    (1, 1),
    {"accuracy": ("accuracy", "50.0 → 60.0"), "macro_f1": ("F1", "")},
    "elmo-tiny",
    seeds=2,
)


@pytest.fixture
def one_table(monkeypatch):
    monkeypatch.setattr(task_tables, "TABLES", {"tiny": TINY})


def write_seeds(folder, run, *values):
    path = folder / "tiny" / f"{run}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"seeds": [{"predict_accuracy": value, "predict_macro_f1": 0.5} for value in values]}))


@pytest.mark.parametrize("name", TABLES)
def test_each_row_of_a_table_is_a_command_with_flags_that_exist(name, capsys, tmp_path):
    arguments = argparse.Namespace(models_dir="m", data_dir="d", output_dir="o", results_dir=str(tmp_path))
    runs = list(task_tables.missing_runs(name, arguments))
    assert len({path for path, _ in runs}) == len(runs) == 2 * len(TABLES[name].rows) * (TABLES[name].folds or 1)
    command = runs[0][1][: runs[0][1].index(next(word for word in runs[0][1] if word.startswith("--")))]
    with pytest.raises(SystemExit):
        command_line.main([*command, "--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out))
    for _, words in runs:
        assert words[: len(command)] == command and {word for word in words if word.startswith("--")} <= known
        assert words[words.index("--num_seeds") + 1] == str(TABLES[name].seeds)


def test_a_table_shows_means_deviations_and_what_is_clearly_more(one_table, tmp_path):
    write_seeds(tmp_path, "none", 0.40, 0.42)
    write_seeds(tmp_path, "random", 0.41, 0.41)
    write_seeds(tmp_path, "mix", 0.50, 0.52)
    accuracy, f1 = render("full", tmp_path).splitlines()[2:]
    name = "| a task (`tiny`) | accuracy "
    assert accuracy == name + "| 41.0 ± 1.4 | 41.0 ± 0.0 | - | **51.0 ± 1.4** |  | 50.0 → 60.0 |"
    assert "**" not in f1 and "| 50.0 ± 0.0 |" in f1
    assert len(render("tenth", tmp_path).splitlines()) == 2
    assert render("full", tmp_path, is_short=True).splitlines()[2:] == [f1]
    # Not above every baseline, or not every baseline there.
    write_seeds(tmp_path, "random", 0.48, 0.50)
    assert "**" not in render("full", tmp_path)
    (tmp_path / "tiny" / "random.json").unlink()
    assert "**" not in render("full", tmp_path)
    assert is_clearly_more([50.0, 52.0], [40.0, 42.0]) and not is_clearly_more([50.0, 52.0], [48.0, 50.0])


def test_a_seeds_score_over_folds_is_the_mean_of_its_folds(monkeypatch, tmp_path):
    monkeypatch.setattr(task_tables, "TABLES", {"tiny": Table(**{**vars(TINY), "folds": 2})})
    write_seeds(tmp_path, "mix-tenth-fold-0", 0.2, 0.4)
    assert scores_of("tiny", "mix", "tenth", "accuracy", tmp_path) is None
    write_seeds(tmp_path, "mix-tenth-fold-1", 0.4, 0.8)
    assert scores_of("tiny", "mix", "tenth", "accuracy", tmp_path) == pytest.approx([30.0, 60.0])


def test_tables_are_written_between_their_marks(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- tenth -->\n<!-- /tenth -->\nb <!-- full --> stays\n")
    for _ in range(2):
        write_tables(page, {share: f"| {share} |" for share in SHARES})
        assert page.read_text() == "a\n<!-- tenth -->\n| tenth |\n<!-- /tenth -->\nb <!-- full --> stays\n"


def test_the_pages_show_what_the_results_files_say(tmp_path):
    for page in PAGES:
        copy = tmp_path / "page.md"
        copy.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
        write_tables(copy, all_tables())
        assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_rows_are_trained_once_and_leave_their_results_alone(one_table, tmp_path, monkeypatch):
    monkeypatch.setattr(task_tables, "write_tables", lambda page, tables: None)
    monkeypatch.setattr(task_tables, "TABLES", {"tiny": Table(**{**vars(TINY), "rows": ("none", "mix")})})
    (tmp_path / "train.tsv").write_text("label\tsentence\n" + "good\ta call\nbad\ta return\n" * 4)
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo-tiny")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo-tiny")
    argv = [f"--models_dir={tmp_path}", f"--data_dir={tmp_path}", "--tables=tiny"]
    argv += [f"--output_dir={tmp_path / 'out'}", f"--results_dir={tmp_path / 'results'}"]
    monkeypatch.setattr(task_tables, "SHARES", {"full": ""})
    task_tables.main(argv)
    assert {path.name for path in (tmp_path / "results" / "tiny").iterdir()} == {"none.json", "mix.json"}
    assert not list((tmp_path / "out" / "tiny").iterdir())
    assert len(scores_of("tiny", "mix", "full", "accuracy", tmp_path / "results")) == 2
    (tmp_path / "train.tsv").unlink()
    task_tables.main(argv)
    (tmp_path / "results" / "tiny" / "mix.json").unlink()
    with pytest.raises(subprocess.CalledProcessError):
        task_tables.main(argv)
