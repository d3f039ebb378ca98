"""Measure how well each layer tells the parts of speech of words, by a linear classifier on its vectors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..given.flags import check_least, flag
from .command_line import run_command
from .look_arguments import MeasuringArguments, report

if TYPE_CHECKING:
    from ..tasks.readers.columns import TaggedSentences

_EXAMPLES = """
examples:
  hf-elmo look tags --model_name_or_path output/my-elmo --train_file train.conllu.gz --validation_file dev.conllu \\
      --test_file test.conllu --output_dir output/my-elmo
"""


@dataclass(kw_only=True)
class TagsArguments(MeasuringArguments):
    """What is measured."""

    train_file: str = flag("Sentences to learn from, a word and its tag on each line: columns or CoNLL-U.")
    validation_file: str = flag("Sentences to choose the best epoch by.")
    test_file: str = flag("Sentences to test on.")
    label_column: str | None = flag("Column of the tags, by its name or its number from 0.", default=None)
    max_train_sentences: int | None = flag("Sentences learned from; of more, some are chosen by a hash.", default=None)
    num_seeds: int = flag("Classifiers of each layer, which differ by the order of their training data.", default=5)
    num_train_epochs: int = flag("How often each of them reads the training data.", default=10)
    learning_rate: float = flag("Of Adam.", default=1e-3)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return super().shown_defaults() | {
            "label_column": "the last one, and UPOS of CoNLL-U",
            "max_train_sentences": "all of them",
        }


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(TagsArguments, look_at_tags, argv, prog, __doc__, _EXAMPLES)


def look_at_tags(arguments: TagsArguments) -> dict[str, Any]:
    """Print the table and write the figures; gives them, too.

    Raises: ValueError, OSError or ImportError naming the argument, or what is not installed.
    """
    from ..checkpoints.file_names import TAGS_FILE, TAGS_PLOT_FILE
    from ..checkpoints.scores import TAGS, averaged, paired_errors
    from ..inference.embedder import ElmoEmbedder
    from ..inference.tag_scores import (
        MOST_FREQUENT,
        embed_tagged,
        right_by_frequency,
        right_by_probe,
        score_tags,
    )
    from ..tasks.readers.columns import read_tagged_file
    from ..text.progress import track

    check_least(arguments, ("max_train_sentences", "num_seeds", "num_train_epochs"), 1)
    if not arguments.learning_rate > 0:
        raise ValueError(f"--learning_rate is {arguments.learning_rate}; it must be > 0.")
    names = (TAGS_FILE, TAGS_PLOT_FILE)
    arguments.check_output(names)
    splits = {
        split: read_tagged_file(file, label_column=arguments.label_column, name=f"{split}_file")
        for split, file in (
            ("train", arguments.train_file),
            ("validation", arguments.validation_file),
            ("test", arguments.test_file),
        )
    }
    for note in filter(None, (each.note for each in splits.values())):
        print(f"note: {note}", file=sys.stderr)
    splits["train"] = _shortened(splits["train"], arguments.max_train_sentences)
    embedder = ElmoEmbedder(
        arguments.model_name_or_path, arguments.device, max_words_per_batch=arguments.max_words_per_batch
    )
    data = {
        split: {
            "source": Path(getattr(arguments, f"{split}_file")).name,
            "sentences": len(each),
            "words": sum(map(len, each.words)),
        }
        for split, each in splits.items()
    }
    train, validation, test = (
        embed_tagged(embedder.model, embedder.tokenizer, each.words, each.labels, arguments.max_words_per_batch)
        for each in track(splits.values(), "embedding", "files", len(splits))
    )
    right = {MOST_FREQUENT: [right_by_frequency(train, test)]}
    runs = [(layer, seed) for layer in range(embedder.num_layers) for seed in range(arguments.num_seeds)]
    for layer, seed in track(runs, "training", "classifiers", len(runs)):
        learned = right_by_probe(
            train, validation, test, layer, seed, arguments.num_train_epochs, arguments.learning_rate
        )
        right.setdefault(f"layer {layer}", []).append(learned)
    scores, shares = score_tags(train, test, right)
    results = {
        "kind": TAGS,
        "model": Path(embedder.name).name,
        "data": data,
        "repeats": arguments.num_seeds,
        "settings": {"num_train_epochs": arguments.num_train_epochs, "learning_rate": arguments.learning_rate},
        "scores": averaged(scores),
        "standard_errors": paired_errors(shares),
    }
    report(results, arguments, names)
    return results


def _shortened(train: TaggedSentences, count: int | None) -> TaggedSentences:
    """As many of the sentences as are wanted, the same ones each time."""
    if count is None or count >= len(train):
        return train
    from ..inference.word_uses import sentence_digest

    chosen = sorted(range(len(train)), key=lambda place: sentence_digest(train.words[place]))[:count]
    return train.pick(sorted(chosen))
