"""Measure what each layer knows: the senses of words, or their parts of speech."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..given import check_least, flag
from .command_line import run_command
from .text_input import CheckpointArguments

_SENSES_EXAMPLES = """
examples:
  hf-elmo probe senses --model_name_or_path output/my-elmo --input_file "senseval/*.jsonl" --output_dir output/my-elmo
"""
_TAGS_EXAMPLES = """
examples:
  hf-elmo probe tags --model_name_or_path output/my-elmo --train_file train.conllu.gz --validation_file dev.conllu \\
      --test_file test.conllu --output_dir output/my-elmo
"""


@dataclass(kw_only=True)
class ProbeArguments(CheckpointArguments):
    """The output."""

    output_dir: str | None = flag(
        "Directory to write the figures and their picture into; a checkpoint's card shows those in its own. "
        "Default: show them on the screen alone.",
        default=None,
    )
    overwrite_output_file: bool = flag("Replace an existing output file or page, at the end of the run.", default=False)


@dataclass(kw_only=True)
class SensesArguments(ProbeArguments):
    """What is measured."""

    input_file: list[str] = flag(
        "Files of uses, one for each word, .jsonl with tokens, index and sense in each record; quoted globs too."
    )


@dataclass(kw_only=True)
class TagsArguments(ProbeArguments):
    """What is measured."""

    train_file: str = flag("Sentences to train on: CoNLL-U, or columns, the word first and its tag last.")
    validation_file: str = flag("Sentences to choose the best epoch by.")
    test_file: str = flag("Sentences to test on.")
    max_train_sentences: int | None = flag("Most sentences to train on, chosen by a hash.", default=None)
    num_seeds: int = flag("Number of classifiers of each layer, each with its own order of the data.", default=5)


def main_senses(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    description = "Measure how well each layer tells the senses of words apart."
    run_command(SensesArguments, run_senses, argv, prog, description, _SENSES_EXAMPLES)


def main_tags(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    description = "Measure how well a linear classifier on each layer tells the parts of speech of words."
    run_command(TagsArguments, run_tags, argv, prog, description, _TAGS_EXAMPLES)


def run_senses(arguments: SensesArguments) -> dict[str, Any]:
    """Print the table and write the figures; returns them, too."""
    from ..hub.scores import SENSES
    from ..inference.probes import NUM_FOLDS, assign_folds, probe_senses, score_senses
    from ..inference.senses import read_senses
    from ..inference.word_uses import embed_uses, gather_uses
    from ..text.corpora import expand_patterns
    from ..text.progress import track

    files = _output_files(arguments, SENSES)
    data, words = {}, []
    for file in expand_patterns(arguments.input_file, "input_file"):
        uses = read_senses(file, "input_file")
        (found,), _ = gather_uses(uses, len(uses))
        if found.word in data:
            raise ValueError(f"input_file has the word {found.word!r} in two files; put its uses into one.")
        senses = dict(Counter(found.labels or ()).most_common())
        data[found.word] = {"source": Path(file).name, "uses": len(found.uses), "senses": senses}
        words.append((found, assign_folds(found)))
    embedder = arguments.embedder()
    probed = []
    for found, folds in track(words, "measuring", "words", len(words)):
        probed.append((found, folds, probe_senses(found, embed_uses(embedder, found.uses), folds)))
    return _report(SENSES, embedder.name, {"data": data, "repeats": NUM_FOLDS}, *score_senses(probed), files)


def run_tags(arguments: TagsArguments) -> dict[str, Any]:
    """Print the table and write the figures; returns them, too."""
    from ..hub.scores import TAGS
    from ..inference.probes import (
        EPOCHS,
        LEARNING_RATE,
        MOST_FREQUENT_TAG,
        embed_tagged,
        most_frequent_tags,
        probe_tags,
        score_tags,
    )
    from ..inference.word_uses import sentence_digest
    from ..tasks.readers.columns import read_tagged_file
    from ..text.progress import track

    check_least(arguments, ("max_train_sentences", "num_seeds"), 1)
    files = _output_files(arguments, TAGS)
    splits, data = {}, {}
    for split in ("train", "validation", "test"):
        file = getattr(arguments, f"{split}_file")
        read = read_tagged_file(file, name=f"{split}_file")
        if read.note:
            print(f"note: {read.note}", file=sys.stderr)
        chosen = list(zip(read.words, read.labels, strict=True))
        if split == "train" and arguments.max_train_sentences is not None:
            order = sorted(range(len(chosen)), key=lambda number: sentence_digest(chosen[number][0]))
            chosen = [chosen[number] for number in sorted(order[: arguments.max_train_sentences])]
        splits[split] = chosen
        words = sum(len(sentence) for sentence, _ in chosen)
        data[split] = {"source": Path(file).name, "sentences": len(chosen), "words": words}
    embedder = arguments.embedder()
    train, validation, test = (
        embed_tagged(embedder, each) for each in track(splits.values(), "embedding", "files", len(splits))
    )
    correct = {MOST_FREQUENT_TAG: [most_frequent_tags(train, test)]}
    runs = [(layer, seed) for layer in range(embedder.num_layers) for seed in range(arguments.num_seeds)]
    for layer, seed in track(runs, "training", "classifiers", len(runs)):
        correct.setdefault(f"layer {layer}", []).append(probe_tags(train, validation, test, layer, seed))
    settings = {"settings": {"num_train_epochs": EPOCHS, "learning_rate": LEARNING_RATE}}
    about = {"data": data, "repeats": arguments.num_seeds, **settings}
    return _report(TAGS, embedder.name, about, *score_tags(train, test, correct), files)


def _output_files(arguments: ProbeArguments, kind: str) -> list[Path]:
    """The figures and, where matplotlib is installed, their picture. Raises: FileExistsError where one is there."""
    from ..hub.writing import check_output_file

    if arguments.output_dir is None:
        return []
    suffixes = (".json", ".png") if importlib.util.find_spec("matplotlib") else (".json",)
    paths = [Path(arguments.output_dir) / f"{kind}{suffix}" for suffix in suffixes]
    return [check_output_file(path, arguments.overwrite_output_file) for path in paths]


def _report(
    kind: str, model: str, about: dict[str, Any], scores: dict[str, Any], correct: dict[str, Any], files: Sequence[Path]
) -> dict[str, Any]:
    from ..hub.plots import plot_layer_scores
    from ..hub.provenance import describe_run, write_json
    from ..hub.scores import averaged, paired_errors, scores_table, what_leads
    from ..hub.writing import files_written_aside

    results = {"kind": kind, "model": Path(model).name, **about}
    results |= {"scores": averaged(scores), "standard_errors": paired_errors(correct), **describe_run()}
    print(f"{scores_table(results)}\n\n{what_leads(results)}")
    with files_written_aside(*files) as aside:
        for file in aside:
            write_json(file, results) if file.suffix == ".json" else plot_layer_scores(results, file)
    if files:
        print(f"Wrote {' and '.join(map(str, files))}.")
    return results
