"""Measure what each layer knows: the senses of words, or their parts of speech."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..given import check_least, flag
from .text_input import CheckpointArguments

EXAMPLES = """
examples:
  hf-elmo probe senses --model_name_or_path output/my-elmo --input_file "senseval/*.jsonl" --output_dir output/my-elmo
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

    def output_files(self, kind: str) -> list[Path]:
        """The figures and, where matplotlib is there, their picture; raises FileExistsError where one is there."""
        from ..hub.writing import check_output_file

        suffixes = (".json", ".png") if importlib.util.find_spec("matplotlib") else (".json",)
        paths = [Path(self.output_dir) / f"{kind}{suffix}" for suffix in suffixes if self.output_dir is not None]
        return [check_output_file(path, self.overwrite_output_file) for path in paths]

    def report(self, kind: str, about: Mapping[str, Any], scores: Any, correct: Any) -> dict[str, Any]:
        """Print the table, and write the figures and their picture."""
        from ..hub.plots import plot_layer_scores
        from ..hub.provenance import describe_run, write_json
        from ..hub.scores import averaged, paired_errors, scores_table, what_leads
        from ..hub.writing import files_written_aside

        results = {"kind": kind, "model": Path(self.model_name_or_path).name, **about, "scores": averaged(scores)}
        results |= {"standard_errors": paired_errors(correct), **describe_run()}
        print(f"{scores_table(results)}\n\n{what_leads(results)}")
        files = self.output_files(kind)
        with files_written_aside(*files) as aside:
            for file in aside:
                write_json(file, results) if file.suffix == ".json" else plot_layer_scores(results, file)
        if files:
            print(f"Wrote {' and '.join(map(str, files))}.")
        return results


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


def measure_senses(arguments: SensesArguments) -> dict[str, Any]:
    """Measure how well each layer tells the senses of words apart; the figures, printed and written too."""
    from ..hub.scores import SENSES
    from ..inference import probes
    from ..inference.word_uses import embed_uses, gather_uses, read_senses
    from ..text.corpora import expand_patterns
    from ..text.progress import track

    arguments.output_files(SENSES)
    data, words = {}, []
    for file in expand_patterns(arguments.input_file, "input_file"):
        uses = read_senses(file, "input_file")
        (found,), _ = gather_uses(uses, len(uses))
        if found.word in data:
            raise ValueError(f"input_file has the word {found.word!r} in two files; put its uses into one.")
        senses = dict(Counter(found.labels or ()).most_common())
        data[found.word] = {"source": Path(file).name, "uses": len(found.uses), "senses": senses}
        words.append((found, probes.assign_folds(found)))
    embedder, probed = arguments.embedder(), []
    for found, folds in track(words, "measuring", "words", len(words)):
        probed.append((found, folds, probes.probe_senses(found, embed_uses(embedder, found.uses), folds)))
    return arguments.report(SENSES, {"data": data, "repeats": probes.NUM_FOLDS}, *probes.score_senses(probed))


def measure_tags(arguments: TagsArguments) -> dict[str, Any]:
    """Measure how well each layer tells the parts of speech of words; the figures, printed and written too."""
    from ..hub.scores import TAGS
    from ..inference import probes
    from ..inference.word_uses import sentence_digest
    from ..tasks.readers.columns import read_tagged_file
    from ..text.progress import track

    check_least(arguments, ("max_train_sentences", "num_seeds"), 1)
    arguments.output_files(TAGS)
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
        probes.embed_tagged(embedder, each) for each in track(splits.values(), "embedding", "files", len(splits))
    )
    correct = {probes.MOST_FREQUENT_TAG: [probes.most_frequent_tags(train, test)]}
    runs = [(layer, seed) for layer in range(embedder.num_layers) for seed in range(arguments.num_seeds)]
    for layer, seed in track(runs, "training", "classifiers", len(runs)):
        correct.setdefault(f"layer {layer}", []).append(probes.probe_tags(train, validation, test, layer, seed))
    settings = {"num_train_epochs": probes.EPOCHS, "learning_rate": probes.LEARNING_RATE}
    about = {"data": data, "repeats": arguments.num_seeds, "settings": settings}
    return arguments.report(TAGS, about, *probes.score_tags(train, test, correct))
