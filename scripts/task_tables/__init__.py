"""Train every seed of the tables of tasks that is not there yet, and write the tables from the results files.

python scripts/task_tables --models_dir model_cards --data_dir data --tables sst5 snli
python scripts/task_tables --render

A seed of a row is one command of `hf-elmo`; its scores go into the row's file in model_cards/tasks, the model is not
kept. What was interrupted is trained again, what is there is not: any number of calls come to the same tables.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_elmo.checkpoints.provenance import write_json
from hf_elmo.checkpoints.tables import markdown_table
from hf_elmo.commands.command_line import readable_errors
from hf_elmo.tasks.seeds import summarize

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "model_cards" / "tasks"
PAGES = (RESULTS / "README.md", ROOT / "README.md")

FIRST_SEED = 42
# Floats of a results file that say how long it took.
_NOT_SCORES = ("_runtime", "_per_second")
# What each row adds to the flags of its table.
ROWS = {
    "none": "--no_use_elmo",
    "random": "{mix} --from_scratch",
    "top": "{mix} --layers top",
    "mix": "{mix}",
    # As they are: beside an LSTM's output, whose numbers are small too, normalised layers leave nothing else to see.
    "both": "--mix_at_output",
}
HEADS = {
    "none": "no ELMo",
    "random": "random ELMo",
    "top": "top layer",
    "mix": "mix",
    "both": "mix, also at the output",
}
# All of the training data, and the tenth that a fixed hash picks.
SHARES = {"full": "", "tenth": "--train_share 0.1"}
_WORDS = "--learn_words --word_vector_size 100 --character_filters 3:64"
_TAGS = "--classifier_lstm_layers 1 --classifier_lstm_size 100 --learning_rate 0.003"
_SPANS = f"--output_layer crf {_TAGS}"


@dataclass(frozen=True)
class Table:
    """One data set: what is trained on it, and how it is scored.

    Args:
        task: What the page calls it.
        command: Of hf-elmo.
        files: Flags of the data, with {data} for its directory.
        flags: The rest, for all rows alike.
        epochs: Passes over all of the training data, and over a tenth of it.
        scores: The names of the scores that the table shows, the main one last, what they are called there, and the
            paper's own figures on its own data, without ELMo and with it.
        model: The checkpoint that it starts from.
        rows: Which of ROWS it has.
        folds: Where each article is tested once: parts of the file, each with its own training.
        seeds: Trainings per row.
        mix: What the rows say of their one mix. Layers of small models are small; normalised, a task's first layer can
            learn from them as fast as from its own words.
    """

    task: str
    command: str
    files: str
    flags: str
    epochs: tuple[int, int]
    scores: Mapping[str, tuple[str, str]]
    model: str = "elmo-small-novels"
    rows: tuple[str, ...] = ("none", "random", "top", "mix")
    folds: int = 0
    seeds: int = 5
    mix: str = "--mix_normalization word"

    @property
    def parts(self) -> Sequence[int | None]:
        """The folds that are trained, or None alone where the data have a test file."""
        return range(self.folds) if self.folds else [None]


def _three_files(folder: str, ending: str, train_ending: str | None = None) -> str:
    names = {"train": train_ending or ending, "validation": ending, "test": ending}
    return " ".join(
        f"--{split}_file {{data}}/{folder}/{'dev' if split == 'validation' else split}{its}"
        for split, its in names.items()
    )


_NER = {"f1": ("F1", "90.2 → 92.2 (news)")}
_ANSWERS = {"exact_match": ("exact match", "72.1 → 78.6"), "f1": ("F1", "81.1 → 85.8")}
_READER = "--pre_tokenizer penn --hidden_size 60 --dropout 0.2 --learning_rate 0.003"
_KOREAN = "elmo-small-nsmc"

TABLES = {
    "sst5": Table(
        "sentiment, five classes",
        "train-sentiment",
        _three_files("sst5", ".tsv.gz"),
        f"{_WORDS} --hidden_size 100 --dropout 0.3 --hidden_dropout 0.1",
        (8, 20),
        {"accuracy": ("accuracy", "51.4 → 54.7")},
        rows=(*ROWS,),
    ),
    "snli": Table(
        "entailment, from 8,858 pairs",
        "train-entailment",
        "--train_file {data}/snli/dev.tsv.gz --validation_share 0.1 --test_file {data}/snli/test.tsv.gz",
        f"{_WORDS} --lower_case_words --hidden_size 100 --dropout 0.4 --hidden_dropout 0.3 "
        "--output_dropouts 0.3 0.3 --learning_rate 0.002",
        (10, 20),
        {"accuracy": ("accuracy", "88.0 → 88.7")},
        rows=(*ROWS,),
    ),
    "wnut17": Table(
        "entities, of the web",
        "train-tagger",
        _three_files("wnut17", ".conll"),
        f"{_WORDS} {_SPANS}",
        (15, 40),
        _NER,
    ),
    "litbank": Table(
        "entities, of novels",
        "train-tagger",
        _three_files("litbank/entities", ".tsv.gz"),
        f"{_WORDS} {_SPANS} --label_column 1",
        (10, 40),
        _NER,
    ),
    "ewt": Table(
        "parts of speech, English",
        "train-tagger",
        _three_files("ud_english_ewt", ".conllu", ".conllu.gz"),
        "--learn_words --word_vector_size 100 --character_filters 2:50 3:100 4:100 "
        "--classifier_lstm_layers 1 --classifier_lstm_size 200 --learning_rate 0.003",
        (10, 25),
        {"accuracy": ("accuracy", "")},
    ),
    "gsd": Table(
        "parts of speech, Korean",
        "train-tagger",
        "--train_file {data}/ud_korean_gsd/dev.conllu --validation_share 0.5 "
        "--test_file {data}/ud_korean_gsd/test.conllu",
        f"{_WORDS} {_TAGS}",
        (30, 60),
        {"accuracy": ("accuracy", "")},
        _KOREAN,
    ),
    "nsmc": Table(
        "sentiment, Korean",
        "train-sentiment",
        "--train_file {data}/nsmc/sentiment-train.tsv.gz --validation_file {data}/nsmc/sentiment-dev.tsv.gz "
        "--test_file {data}/nsmc/sentiment-test.tsv.gz",
        f"{_WORDS} --hidden_size 100 --dropout 0.3 --hidden_dropout 0.1",
        (5, 12),
        {"accuracy": ("accuracy", "")},
        _KOREAN,
        rows=(*ROWS,),
    ),
    "policyqa": Table(
        "answers, of privacy policies",
        "train-question-answering",
        "--train_file {data}/policyqa/dev.json.gz --validation_share 0.1 --test_file {data}/policyqa/test.json.gz",
        f"{_WORDS} {_READER}",
        (10, 30),
        _ANSWERS,
        rows=(*ROWS,),
        seeds=3,
        mix="",
    ),
    "xquad": Table(
        "answers, of an encyclopedia, from 810 questions",
        "train-question-answering",
        "--train_file {data}/xquad/xquad.en.json.gz --validation_share 0.1",
        f"{_WORDS} {_READER}",
        (15, 40),
        _ANSWERS,
        folds=5,
        seeds=3,
        mix="",
    ),
    "propbank": Table(
        "semantic roles, of the web",
        "train-semantic-roles",
        _three_files("propbank_ewt", ".tsv.gz"),
        f"{_WORDS} --num_layers 4 --hidden_size 128",
        (6, 20),
        {"f1": ("F1", "81.4 → 84.6")},
        seeds=3,
    ),
    "coreference": Table(
        "coreference, of novels",
        "train-coreference",
        _three_files("litbank/coref", ".conll.gz"),
        f"{_WORDS} --lstm_size 100 --hidden_size 100 --max_antecedents 50",
        (12, 40),
        {
            "muc_f1": ("MUC", ""),
            "b_cubed_f1": ("B³", ""),
            "ceafe_f1": ("CEAFe", ""),
            "mean_f1": ("mean F1", "67.2 → 70.4"),
        },
        seeds=3,
    ),
}


@dataclass(frozen=True)
class Run:
    """One seed of one row of one table at one share: its words for hf-elmo, and where its results go."""

    words: tuple[str, ...]
    seed: int
    model_dir: Path
    results: Path


def runs_of(name: str, rows: Sequence[str], shares: Sequence[str], arguments: argparse.Namespace) -> Iterator[Run]:
    """The runs of a table that are not there yet, row by row, those that take longest last.

    Args:
        name: Of the table.
        rows: Which rows; those that the table does not have are left out.
        shares: "full", "tenth" or both.
        arguments: As parsed.
    """
    table = TABLES[name]
    for share in sorted(shares, reverse=True):
        for row in [row for row in table.rows if row in rows]:
            for fold in table.parts:
                run = _name_run(row, share, fold)
                results = Path(arguments.results_dir, name, f"{run}.json")
                row_flags = ROWS[row].format(mix=table.mix)
                flags = (
                    f"{table.files.format(data=arguments.data_dir)} {table.flags} {row_flags} {SHARES[share]} "
                    f"--num_train_epochs {table.epochs[share == 'tenth']} --load_best_model_at_end"
                )
                if fold is not None:
                    flags += f" --num_folds {table.folds} --fold {fold}"
                model = str(Path(arguments.models_dir, table.model))
                words = [table.command, "--model_name_or_path", model, *shlex.split(flags)]
                if row != "none":
                    words += ["--layer_cache_dir", arguments.layer_cache_dir]
                trained = {row["seed"] for row in _seeds_in(results)}
                for seed in sorted({*range(FIRST_SEED, FIRST_SEED + table.seeds)} - trained):
                    model_dir = Path(arguments.output_dir, name, f"{run}-{seed}")
                    its = ["--seed", str(seed), "--output_dir", str(model_dir), "--overwrite_output_dir"]
                    yield Run((*words, *its), seed, model_dir, results)


def _name_run(row: str, share: str, fold: int | None) -> str:
    return row + ("-tenth" if share == "tenth" else "") + ("" if fold is None else f"-fold-{fold}")


def _seeds_in(results: Path) -> list[dict[str, Any]]:
    return json.loads(results.read_text(encoding="utf-8"))["seeds"] if results.exists() else []


def train(run: Run, threads: int) -> None:
    """Train a seed in a process of its own; its lines go to a file beside its model.

    Raises: ChildProcessError where the command fails.
    """
    run.model_dir.parent.mkdir(parents=True, exist_ok=True)
    log = run.model_dir.with_suffix(".log")
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    with log.open("w", encoding="utf-8") as lines:
        command = [sys.executable, "-m", "hf_elmo", *run.words]
        ended = subprocess.run(command, stdout=lines, stderr=subprocess.STDOUT, env=environment, check=False)
    if ended.returncode:
        raise ChildProcessError(f"hf-elmo {shlex.join(run.words)} ended with {ended.returncode}; {log} says why.")


def keep(run: Run) -> None:
    """Put the scores of a trained seed beside those of the others, and remove its model.

    The file is written aside. What else it says is of the seed that was the first to be there.
    """
    found = json.loads((run.model_dir / "results.json").read_text(encoding="utf-8"))
    before = json.loads(run.results.read_text(encoding="utf-8")) if run.results.exists() else found
    seeds = {row["seed"]: row for row in [*before.get("seeds", []), {"seed": run.seed, **found}]}
    scores = [key for key in found if key.startswith(("eval_", "predict_")) and isinstance(found[key], float)]
    summary = summarize(dict(sorted(seeds.items())), [key for key in scores if not key.endswith(_NOT_SCORES)])
    run.results.parent.mkdir(parents=True, exist_ok=True)
    aside = run.results.with_suffix(".aside")
    write_json(aside, {**before, **summary})
    aside.rename(run.results)
    shutil.rmtree(run.model_dir)


def scores_of(name: str, row: str, share: str, score: str, results_dir: Path = RESULTS) -> list[float] | None:
    """The test score of each seed in percent, the mean of all folds where there are some; None before all are there.

    Args:
        name: Of the table.
        row: Of ROWS.
        share: "full" or "tenth".
        score: Its name.
        results_dir: Where the results files lie.
    """
    paths = [results_dir / name / f"{_name_run(row, share, fold)}.json" for fold in TABLES[name].parts]
    seeds = [_seeds_in(path) for path in paths]
    if any(len(its) < TABLES[name].seeds for its in seeds):
        return None
    values = [[seed[f"predict_{score}"] for seed in its] for its in seeds]
    return [100 * statistics.fmean(of_all_folds) for of_all_folds in zip(*values, strict=True)]


def is_clearly_more(scores: Sequence[float], others: Sequence[float]) -> bool:
    """Whether a mean is above another by more than two deviations, the greater one of both."""
    deviation = max(statistics.stdev(scores), statistics.stdev(others))
    return statistics.fmean(scores) - statistics.fmean(others) > 2 * deviation


def render(share: str, results_dir: Path = RESULTS, is_short: bool = False) -> str:
    """The table of all data sets at one share of their training data, in Markdown.

    The mix is in bold where it is clearly more than no ELMo and than a random one.

    Args:
        share: "full" or "tenth".
        results_dir: Where the results files lie.
        is_short: Whether each data set shows its main score alone.
    """
    papers = ["the paper: without → with"] if share == "full" else []
    rows = []
    for name, table in TABLES.items():
        for score, (title, paper) in list(table.scores.items())[-1 if is_short else 0 :]:
            found = {row: scores_of(name, row, share, score, results_dir) for row in table.rows}
            if not any(found.values()):
                continue
            cells = {row: _cell(scores) for row, scores in found.items()}
            mix, baselines = found["mix"], [found["none"], found["random"]]
            if mix and all(others and is_clearly_more(mix, others) for others in baselines):
                cells["mix"] = f"**{cells['mix']}**"
            rows.append(
                [f"{table.task} (`{name}`)", title, *(cells.get(row, "") for row in ROWS), *([paper] if papers else [])]
            )
    return markdown_table(["task", "measure", *HEADS.values(), *papers], rows, names=2)


def _cell(scores: Sequence[float] | None) -> str:
    return f"{statistics.fmean(scores):.1f} ± {statistics.stdev(scores):.1f}" if scores else "-"


def all_tables() -> dict[str, str]:
    """The tables by their marks: both shares, and the short one of the README."""
    return {**{share: render(share) for share in SHARES}, "tasks": render("full", is_short=True)}


def write_tables(page: Path, tables: Mapping[str, str]) -> None:
    """Put tables between their marks on the page, `<!-- full -->` ... `<!-- /full -->`; a mark may be missing."""
    text = page.read_text(encoding="utf-8")
    for mark, table in tables.items():
        start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
        before, found, rest = text.partition(start)
        if found:
            text = f"{before}{start}{table}\n{end}{rest.partition(end)[2]}"
    page.write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models_dir", default="model_cards", help="where checkpoints lie (default: %(default)s)")
    parser.add_argument("--data_dir", default="data", help="where the data sets lie (default: %(default)s)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, help="which (default: all)", default=list(TABLES))
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="which (default: all)", default=list(ROWS))
    parser.add_argument("--shares", nargs="+", choices=SHARES, help="which (default: both)", default=list(SHARES))
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of each (default: %(default)s)")
    parser.add_argument("--output_dir", default="output/tables", help="models and lines (default: %(default)s)")
    parser.add_argument("--layer_cache_dir", default="output/layers", help="of the biLM (default: %(default)s)")
    parser.add_argument("--results_dir", default=str(RESULTS), help="default: model_cards/tasks")
    parser.add_argument("--render", action="store_true", help="only write the tables into the pages")
    arguments = parser.parse_args(argv)
    with readable_errors():
        if not arguments.render:
            _train_all(arguments)
        tables = all_tables()
        for page in PAGES:
            write_tables(page, tables)


def _train_all(arguments: argparse.Namespace) -> None:
    """Train what is not there yet, some seeds at a time.

    Raises: ChildProcessError where one failed, after the others.
    """
    runs = [run for name in arguments.tables for run in runs_of(name, arguments.rows, arguments.shares, arguments)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {pool.submit(train, run, arguments.threads): run for run in runs}
        errors = []
        for job in as_completed(jobs):
            run = jobs[job]
            error = job.exception()
            if not error:
                keep(run)
            print(f"{run.results.parent.name}/{run.results.stem}, seed {run.seed}: {error or 'done'}", flush=True)
            errors += [error] if error else []
    if errors:
        raise ChildProcessError(f"{len(errors)} of {len(runs)} trainings failed; the first one: {errors[0]}")
