"""The tables of tasks: every row's command is one that hf-elmo takes, and what is shown is what the files say."""

import json
import re
import shlex
import statistics

import pytest
import task_tables
from conftest import make_tiny_config
from task_tables import (
    PAGES,
    ROWS,
    SHARES,
    TABLES,
    Table,
    all_tables,
    is_clearly_more,
    main,
    render,
    scores_of,
    write_tables,
)

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.commands import command_line

TINY = Table(
    "a task",
    "train-sentiment",
    "--train_file {data}/train.tsv --validation_file {data}/train.tsv --test_file {data}/train.tsv",
    "--learn_words --min_word_count 1 --hidden_size 4 --max_steps 1",
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
    seeds = [{"seed": place, "predict_accuracy": value, "predict_macro_f1": 0.5} for place, value in enumerate(values)]
    path.write_text(json.dumps({"seeds": seeds}))


@pytest.mark.parametrize("name", TABLES)
def test_each_row_of_a_table_is_a_command_with_flags_that_exist(name, capsys):
    table = TABLES[name]
    assert set(table.rows) <= set(ROWS)
    with pytest.raises(SystemExit):
        command_line.main([table.command, "--help"])
    known = set(re.findall(r"--\w+", capsys.readouterr().out))
    flags = " ".join([table.files, table.flags, *(ROWS[row] for row in table.rows), *SHARES.values()])
    assert {word for word in shlex.split(flags) if word.startswith("--")} <= known


def test_a_table_shows_means_deviations_and_what_is_clearly_more(one_table, tmp_path):
    write_seeds(tmp_path, "none", 0.40, 0.42)
    write_seeds(tmp_path, "random", 0.41, 0.41)
    write_seeds(tmp_path, "mix", 0.50, 0.52)
    write_seeds(tmp_path, "top", 0.60)  # of which one seed is still to come
    accuracy, f1 = render("full", tmp_path).splitlines()[2:]
    name = "| a task (`tiny`) | accuracy "
    assert accuracy == name + "| 41.0 ± 1.4 | 41.0 ± 0.0 | - | **51.0 ± 1.4** |  | 50.0 → 60.0 |"
    assert "**" not in f1 and "| 50.0 ± 0.0 |" in f1
    assert len(render("tenth", tmp_path).splitlines()) == 2
    assert render("full", tmp_path, is_short=True).splitlines()[2:] == [f1]


def test_a_score_that_is_not_above_every_baseline_is_not_bold(one_table, tmp_path):
    for run, values in {"none": (0.40, 0.42), "mix": (0.50, 0.52), "random": (0.48, 0.50)}.items():
        write_seeds(tmp_path, run, *values)
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
def test_rows_are_trained_once_and_leave_their_results_alone(one_table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(task_tables, "write_tables", lambda page, tables: None)
    (tmp_path / "train.tsv").write_text("label\tsentence\n" + "good\ta call\nbad\ta return\n" * 4)
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo-tiny")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo-tiny")
    argv = [f"--models_dir={tmp_path}", f"--data_dir={tmp_path}", "--tables=tiny", "--rows", "none", "mix"]
    argv += [f"--output_dir={tmp_path / 'out'}", f"--layer_cache_dir={tmp_path / 'layers'}", "--shares=full"]
    argv += [f"--results_dir={tmp_path / 'results'}"]
    main(argv)
    assert capsys.readouterr().out.count("done") == 4
    assert {path.name for path in (tmp_path / "results" / "tiny").iterdir()} == {"none.json", "mix.json"}
    logs = {f"{row}-{seed}.log" for row in ("none", "mix") for seed in (42, 43)}
    assert {path.name for path in (tmp_path / "out" / "tiny").iterdir()} == logs
    assert scores_of("tiny", "mix", "full", "accuracy", tmp_path / "results")
    main(argv)
    assert "done" not in capsys.readouterr().out
    # What is lacking is trained, and comes to the same.
    path = tmp_path / "results" / "tiny" / "mix.json"
    whole = json.loads(path.read_text())
    assert whole["mean"]["predict_accuracy"] == pytest.approx(
        statistics.fmean(score for _, score in _accuracies(whole))
    )
    path.write_text(json.dumps({**whole, "seeds": whole["seeds"][1:]}))
    main(argv)
    assert capsys.readouterr().out.split(":")[0] == "tiny/mix, seed 42"
    assert _accuracies(json.loads(path.read_text())) == _accuracies(whole)
    (tmp_path / "train.tsv").unlink()
    with pytest.raises(SystemExit):
        main([*argv, "--shares=tenth", "--rows=none"])
    assert re.search(r"none-tenth-4[23]\.log", capsys.readouterr().err)


def _accuracies(results):
    return [(seed["seed"], seed["predict_accuracy"]) for seed in results["seeds"]]
