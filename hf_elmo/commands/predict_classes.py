"""What `hf-elmo predict` does with a classifier of texts or of pairs: a label for each line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING

from .delivery import deliver
from .prediction_arguments import PredictionArguments
from .text_input import warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.classifier import ElmoClassifier
    from ..inference.html_pages import Drawing

# A line's number, from 0, its text or its two texts, and the probability of each label.
Prediction = tuple[int, tuple[str, ...], dict[str, float]]
_LONGEST_SHOWN = 100


def predict_classes(arguments: PredictionArguments) -> None:
    """Show or write the label of each text or pair.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..inference.classifier import ElmoClassifier

    if arguments.convert_scheme is not None:
        raise ValueError(
            f"convert_scheme is {arguments.convert_scheme!r}, but the checkpoint labels whole texts; leave it out."
        )
    lines = arguments.lines()
    classifier = ElmoClassifier(
        arguments.model_name_or_path, arguments.device, arguments.max_words_per_batch, arguments.pre_tokenizer
    )
    if arguments.input_file is not None:
        warn_of_raw_text(arguments, classifier.tokenizer.pre_tokenizer)
    predictions = _predictions(arguments, classifier, lines)
    unit = "pairs" if classifier.reads_pairs else "texts"
    deliver(arguments, predictions, unit, _show, partial(_write, arguments, classifier.labels, unit), _draw)


def _show(prediction: Prediction) -> list[str]:
    _, texts, probabilities = prediction
    label = max(probabilities, key=probabilities.__getitem__)
    shown = " | ".join(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..." for text in texts)
    return [f"{label} {probabilities[label]:.3f}  {shown}"]


def _write(
    arguments: PredictionArguments,
    labels: Sequence[str],
    unit: str,
    file: IO[str],
    predictions: Iterable[Prediction],
) -> str:
    """Write SNLI's lines where the name of the output file ends in .jsonl, else columns between tabs."""
    write = _write_record if arguments.output_ending == ".jsonl" else _write_row
    if write is _write_row:
        file.write("\t".join(["id", "predicted", *(f"p({label})" for label in labels)]) + "\n")
    count = 0
    for count, prediction in enumerate(predictions, start=1):  # noqa: B007
        write(file, prediction)
    if not count:
        raise ValueError(f"input_file {arguments.input_file!r} holds no text; give one with text in it.")
    return f"{count:,} {unit} with their labels"


def _draw(predictions: Sequence[Prediction]) -> Drawing:
    from ..inference.html_pages import draw_classes

    return draw_classes((texts, probabilities) for _, texts, probabilities in predictions)


def _predictions(
    arguments: PredictionArguments, classifier: ElmoClassifier, lines: Iterator[str]
) -> Iterator[Prediction]:
    """The prediction for each line that holds more than white space."""

    def cut(text: str) -> str | list[str]:
        return text.split() if arguments.text_is_tokenized else text

    kept, read = itertools.tee(_texts(arguments, classifier.reads_pairs, lines))
    if classifier.reads_pairs:
        found = classifier.classify_pairs((cut(texts[0]), cut(texts[1])) for _, texts in read)
    else:
        found = classifier.classify(cut(texts[0]) for _, texts in read)
    # The probabilities first: the texts are those that have been computed.
    for probabilities, (number, texts) in zip(found, kept, strict=False):
        yield number, texts, probabilities


def _texts(
    arguments: PredictionArguments, reads_pairs: bool, lines: Iterator[str]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The text, or the two texts, of each line with its number."""
    if arguments.text_pair is not None and not reads_pairs:
        raise ValueError(
            f"text_pair is {arguments.text_pair!r}, but the checkpoint classifies single texts; leave it out."
        )
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        if not reads_pairs:
            yield number, (line,)
            continue
        texts = tuple(line.split("\t")) if arguments.text_pair is None else (line, arguments.text_pair)
        if len(texts) != 2 or not all(map(str.strip, texts)):
            where = f"input_file {arguments.input_file!r}, line" if arguments.text is None else "text"
            raise ValueError(
                f"{where} {number + 1} is {line[:_LONGEST_SHOWN]!r}; the checkpoint classifies pairs, so wanted two "
                "texts with a tab between them, or --text_pair for the second one."
            )
        yield number, texts


def _write_row(file: IO[str], prediction: Prediction) -> None:
    number, _, probabilities = prediction
    label = max(probabilities, key=probabilities.__getitem__)
    file.write("\t".join([str(number), label, *(f"{each:.6f}" for each in probabilities.values())]) + "\n")


def _write_record(file: IO[str], prediction: Prediction) -> None:
    number, texts, probabilities = prediction
    names = ("sentence",) if len(texts) == 1 else ("sentence1", "sentence2")
    record = {
        "id": number,
        "predicted_label": max(probabilities, key=probabilities.__getitem__),
        **dict(zip(names, texts, strict=True)),
        "probabilities": {label: round(probability, 6) for label, probability in probabilities.items()},
    }
    file.write(json.dumps(record, ensure_ascii=False) + "\n")
