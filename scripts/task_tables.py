"""Train the rows of the tables of tasks that are not there yet, and write the tables from the results files.

python scripts/task_tables.py --models_dir model_cards --data_dir data --tables sst5 snli
python scripts/task_tables.py --render

A row is one command of `hf-elmo` with all of its seeds; results.json goes to model_cards/tasks, the model is not kept.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hf_elmo.hub.scores import markdown_table
from hf_elmo.hub.writing import files_written_aside

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "model_cards" / "tasks"
PAGES = (RESULTS / "README.md", ROOT / "README.md")

# What each row is called, and what it adds to the flags and to the settings of the head of its table.
ROWS = {
    "none": ("no ELMo", "", "use_elmo=false"),
    "random": ("random ELMo", "{mix} --from_scratch", ""),
    "top": ("top layer", "{mix} --layers top", ""),
    "mix": ("mix", "{mix}", ""),
    # Without normalization: beside an LSTM's output, whose numbers are small too, the layers would hide all else.
    "both": ("mix, also at the output", "", "mix_at_output=true"),
}
# All of the training data, and the tenth that a fixed hash picks.
SHARES = {"full": "", "tenth": "--train_fraction 0.1"}


@dataclass(frozen=True)
class Table:
    """One data set: what is trained on it, and how it is scored."""

    title: str  # what the page calls it
    command: str  # of hf-elmo train, with the flags that all rows share; {data} is the directory of the data sets
    head: str  # settings of the head
    epochs: tuple[int, int]  # passes over all of the training data, and over a tenth of it
    scores: Mapping[str, tuple[str, str]]  # the main one last: their titles, and the paper's, without ELMo and with it
    model: str = "elmo-base"  # the checkpoint that it starts from
    rows: tuple[str, ...] = ("none", "random", "top", "mix")
    folds: int = 0  # where each article is tested once: parts of the file, each with its own training
    seeds: int = 5
    # Layers of small models are small; normalized, a task's first layer can learn from them as fast as from its words.
    mix: str = "--mix_normalization word"


def _files(pattern: str, train: str = "train", validation: str | None = "dev", test: str = "test") -> str:
    parts = {"train": train, "validation": validation, "test": test}
    return " ".join(f"--{split}_file {{data}}/{pattern.format(part)}" for split, part in parts.items() if part)


_WORDS = "word_vector_size=100 character_filters=[[3,64]]"
_TEXTS = f"{_WORDS} hidden_size=100 dropout=0.3 hidden_dropout=0.1"
_PAIRS = f"{_WORDS} lower_case_words=true hidden_size=100 dropout=0.4 hidden_dropout=0.3 output_dropout=0.3"
_TAGS = f"{_WORDS} lstm_layers=1 lstm_size=100"
_MANY_FILTERS = "word_vector_size=100 character_filters=[[2,50],[3,100],[4,100]] lstm_layers=1 lstm_size=200"
_TAGGER = "token-classification --learning_rate 0.003"
_READER = "question-answering --pre_tokenizer penn --learning_rate 0.003 --validation_fraction 0.1"
_ACCURACY = {"accuracy": ("accuracy", "")}
_ENTITIES = {"f1": ("F1", "90.2 → 92.2 (news)")}
_ANSWERS = {"exact_match": ("exact match", "72.1 → 78.6"), "f1": ("F1", "81.1 → 85.8")}
_CLUSTERS = {"muc_f1": ("MUC", ""), "b_cubed_f1": ("B³", ""), "ceafe_f1": ("CEAFe", "")}
_ALL = tuple(ROWS)

TABLES = {
    "sst5": Table(
        "sentiment, five classes",
        f"text-classification {_files('sst5/{}.tsv.gz')}",
        _TEXTS,
        (8, 20),
        {"accuracy": ("accuracy", "51.4 → 54.7")},
        rows=_ALL,
    ),
    "snli": Table(
        "entailment, from 8,858 pairs",
        "text-classification --learning_rate 0.002 --validation_fraction 0.1 "
        + _files("snli/{}.tsv.gz", train="dev", validation=None),
        _PAIRS,
        (10, 20),
        {"accuracy": ("accuracy", "88.0 → 88.7")},
        rows=_ALL,
    ),
    "wnut17": Table(
        "entities, of the web",
        f"{_TAGGER} {_files('wnut17/{}.conll')}",
        f"{_TAGS} output_layer=crf",
        (15, 40),
        _ENTITIES,
    ),
    "litbank": Table(
        "entities, of novels",
        f"{_TAGGER} --label_column 1 {_files('litbank/entities/{}.tsv.gz')}",
        f"{_TAGS} output_layer=crf",
        (10, 40),
        _ENTITIES,
    ),
    "ewt": Table(
        "parts of speech, English",
        f"{_TAGGER} {_files('ud_english_ewt/{}', 'train.conllu.gz', 'dev.conllu', 'test.conllu')}",
        _MANY_FILTERS,
        (10, 25),
        _ACCURACY,
    ),
    "gsd": Table(
        "parts of speech, Korean",
        f"{_TAGGER} --validation_fraction 0.5 {_files('ud_korean_gsd/{}.conllu', train='dev', validation=None)}",
        _TAGS,
        (30, 60),
        _ACCURACY,
        "elmo-small-nsmc",
    ),
    "nsmc": Table(
        "sentiment, Korean",
        f"text-classification {_files('nsmc/sentiment-{}.tsv.gz')}",
        _TEXTS,
        (5, 12),
        _ACCURACY,
        "elmo-small-nsmc",
        rows=_ALL,
    ),
    "policyqa": Table(
        "answers, of privacy policies",
        f"{_READER} {_files('policyqa/{}.json.gz', train='dev', validation=None)}",
        f"{_WORDS} hidden_size=60 dropout=0.2",
        (10, 30),
        _ANSWERS,
        rows=_ALL,
        seeds=3,
        mix="",
    ),
    "xquad": Table(
        "answers, of an encyclopedia, from 810 questions",
        f"{_READER} --train_file {{data}}/xquad/xquad.en.json.gz",
        f"{_WORDS} hidden_size=60 dropout=0.2",
        (15, 40),
        _ANSWERS,
        folds=5,
        seeds=3,
        mix="",
    ),
    "propbank": Table(
        "semantic roles, of the web",
        f"semantic-roles {_files('propbank_ewt/{}.tsv.gz')}",
        f"{_WORDS} num_layers=4 hidden_size=128",
        (6, 20),
        {"f1": ("F1", "81.4 → 84.6")},
        seeds=3,
    ),
    "coreference": Table(
        "coreference, of novels",
        f"coreference {_files('litbank/coref/{}.conll.gz')}",
        f"{_WORDS} lstm_size=100 hidden_size=100 max_antecedents=50",
        (12, 40),
        {**_CLUSTERS, "mean_f1": ("mean F1", "67.2 → 70.4")},
        seeds=3,
    ),
}


def results_files(name: str, row: str, share: str) -> list[Path]:
    """The results files of a row, one for each fold."""
    stem, folds = row + "-tenth" * (share == "tenth"), TABLES[name].folds
    names = [f"{stem}-fold-{fold}" for fold in range(folds)] if folds else [stem]
    return [RESULTS / name / f"{each}.json" for each in names]


def missing_runs(name: str, arguments: argparse.Namespace) -> Iterator[tuple[Path, list[str]]]:
    """The results files of a table that are not there yet, each with its command; those that take longest come last."""
    table = TABLES[name]
    for share in reversed(SHARES):
        for row in table.rows:
            _, flags, head = ROWS[row]
            words = shlex.split(
                f"train {table.command.format(data=shlex.quote(arguments.data_dir))} --model_name_or_path "
                f"{shlex.quote(str(Path(arguments.models_dir, table.model)))} --learn_words --head {table.head} {head} "
                f"{flags.format(mix=table.mix)} {SHARES[share]} --num_seeds {table.seeds} "
                f"--num_train_epochs {table.epochs[share == 'tenth']} --load_best_model_at_end"
            )
            for fold, results in enumerate(results_files(name, row, share)):
                if not results.exists():
                    of_fold = ["--num_folds", str(table.folds), "--fold", str(fold)] if table.folds else []
                    yield results, [*words, *of_fold]


def train(results: Path, words: Sequence[str], model_dir: Path) -> None:
    """Train a row in a process of its own, whose command stands in its results, and keep these alone.

    Raises: CalledProcessError where the command fails.
    """
    # All rows of a table read the same layers; a row that was stopped goes on.
    flags = ["--layer_cache_dir", str(model_dir.parent / "layers"), "--output_dir", str(model_dir)]
    flags += ["--overwrite_output_dir", "--resume_from_checkpoint", "auto"]
    subprocess.run([sys.executable, "-m", "hf_elmo", *words, *flags], check=True)
    with files_written_aside(results) as (aside,):
        shutil.copyfile(model_dir / "results.json", aside)
    shutil.rmtree(model_dir)


def scores_of(name: str, row: str, share: str, score: str) -> list[float] | None:
    """The test score of each seed in percent, where there are folds their mean; None where a file is missing."""
    paths = results_files(name, row, share)
    if not all(path.exists() for path in paths):
        return None
    seeds = [json.loads(path.read_text(encoding="utf-8"))["seeds"] for path in paths]
    values = [[seed[f"predict_{score}"] for seed in its] for its in seeds]
    return [100 * statistics.fmean(of_all_folds) for of_all_folds in zip(*values, strict=True)]


def is_clearly_more(scores: Sequence[float], others: Sequence[float]) -> bool:
    """Whether a mean is above another by more than two deviations, the greater one of both."""
    deviation = max(statistics.stdev(scores), statistics.stdev(others))
    return statistics.fmean(scores) - statistics.fmean(others) > 2 * deviation


def render(share: str, is_short: bool = False) -> str:
    """The table of all data sets, a short one of their main scores alone, at one share of their training data.

    The mix is in bold where it is clearly more than no ELMo and than a random one.
    """
    lines = []
    for name, table in TABLES.items():
        for score, (title, paper) in list(table.scores.items())[-1 if is_short else 0 :]:
            found = {row: scores_of(name, row, share, score) for row in table.rows}
            if not any(found.values()):
                continue
            cells = {
                row: f"{statistics.fmean(scores):.1f} ± {statistics.stdev(scores):.1f}" if scores else "-"
                for row, scores in found.items()
            }
            mix, baselines = found["mix"], [found["none"], found["random"]]
            if mix and all(others and is_clearly_more(mix, others) for others in baselines):
                cells["mix"] = f"**{cells['mix']}**"
            line = [f"{table.title} (`{name}`)", table.model, title, *(cells.get(row, "") for row in ROWS)]
            lines.append([*line, paper] if share == "full" else line)
    head = ["task", "biLM", "measure", *(title for title, *_ in ROWS.values())]
    return markdown_table([*head, "the paper: without → with"] if share == "full" else head, lines, names=3)


def write_tables(page: Path) -> None:
    """Put the tables between their marks on a page: both shares, `<!-- full -->` ... `<!-- /full -->`; a short one."""
    text = page.read_text(encoding="utf-8")
    for mark, table in {**{share: render(share) for share in SHARES}, "tasks": render("full", is_short=True)}.items():
        start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
        before, found, rest = text.partition(start)
        if found:
            text = f"{before}{start}{table}\n{end}{rest.partition(end)[2]}"
    page.write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models_dir", default="model_cards", help="where checkpoints are (default: %(default)s)")
    parser.add_argument("--data_dir", default="data", help="where the data sets are (default: %(default)s)")
    parser.add_argument("--tables", nargs="+", choices=TABLES, help="which (default: all)", default=list(TABLES))
    parser.add_argument("--output_dir", default="output/tables", help="models while they train (default: %(default)s)")
    parser.add_argument("--render", action="store_true", help="only write the tables into the pages")
    arguments = parser.parse_args(argv)
    for name in arguments.tables if not arguments.render else ():
        for results, words in missing_runs(name, arguments):
            train(results, words, Path(arguments.output_dir, name, results.stem))
        shutil.rmtree(Path(arguments.output_dir, name, "layers"), ignore_errors=True)
    for page in PAGES:
        write_tables(page)


if __name__ == "__main__":
    main()
