"""Measure how well each layer tells the senses of words apart, beside the most frequent sense and a bag of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..given.flags import check_least, flag
from .command_line import run_command
from .look_arguments import MeasuringArguments, report

_EXAMPLES = """
examples:
  hf-elmo look senses --model_name_or_path output/my-elmo --input_file hard.jsonl interest.jsonl
  hf-elmo look senses --model_name_or_path output/my-elmo --input_file "senseval/*.jsonl" --output_dir output/my-elmo
"""


@dataclass(kw_only=True)
class SensesArguments(MeasuringArguments):
    """What is measured."""

    input_file: list[str] = flag(
        "Files of uses, one for each word, .jsonl with tokens, index and sense in each record; quoted globs too."
    )
    splits: int = flag("Parts that the uses are dealt into; each is tested with what the others teach.", default=5)
    max_uses: int | None = flag("Uses of each word; of more, some are chosen by a hash.", default=None)

    @classmethod
    def shown_defaults(cls) -> dict[str, str]:
        """What --help says of flags whose default is worked out later."""
        return super().shown_defaults() | {"max_uses": "all of them"}


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(SensesArguments, look_at_senses, argv, prog, __doc__, _EXAMPLES)


def look_at_senses(arguments: SensesArguments) -> dict[str, Any]:
    """Print the table and write the figures; gives them, too.

    Raises: ValueError, OSError or ImportError naming the argument, or what is not installed.
    """
    from ..checkpoints.file_names import SENSES_FILE, SENSES_PLOT_FILE
    from ..checkpoints.scores import SENSES, averaged, paired_errors
    from ..inference.embedder import ElmoEmbedder
    from ..inference.sense_scores import deal, right_by_layer, score_senses
    from ..inference.word_uses import UseGatherer, embed_uses
    from ..tasks.readers.senses import read_senses
    from ..text.corpora import expand_patterns
    from ..text.progress import track

    check_least(arguments, ("splits", "max_uses"), 1)
    names = (SENSES_FILE, SENSES_PLOT_FILE)
    arguments.check_output(names)
    data, found = {}, []
    for file in expand_patterns(arguments.input_file, "input_file"):
        gatherer, uses = UseGatherer(), read_senses(file, "input_file")
        gatherer.read((use.words, use.labels) for use in uses)
        (word,) = gatherer.found(arguments.max_uses or len(uses))
        if word.word in data:
            raise ValueError(f"input_file has the word {word.word!r} in two files; put its uses into one.")
        senses = dict(Counter(word.labels or ()).most_common())
        data[word.word] = {"source": Path(file).name, "uses": len(word.uses), "senses": senses}
        found.append((word, deal(word, arguments.splits)))
    embedder = ElmoEmbedder(
        arguments.model_name_or_path, arguments.device, max_words_per_batch=arguments.max_words_per_batch
    )
    measured = []
    for word, split_of in track(found, "measuring", "words", len(found)):
        layers = embed_uses(embedder.model, embedder.tokenizer, word.uses, arguments.max_words_per_batch)
        measured.append((word, split_of, right_by_layer(word, layers, split_of)))
    scores, right = score_senses(measured)
    results = {
        "kind": SENSES,
        "model": Path(embedder.name).name,
        "data": data,
        "repeats": arguments.splits,
        "scores": averaged(scores),
        "standard_errors": paired_errors(right),
    }
    report(results, arguments, names)
    return results
