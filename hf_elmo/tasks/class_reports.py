"""What a classifier predicted, as files and as a table for the screen.

Letters in shapes: N texts, K labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .readers.labelled_texts import LabelledTexts
from .score_tables import score_lines


def write_table(path: Path, texts: LabelledTexts, labels: Sequence[str], probabilities: np.ndarray) -> None:
    """Write a line for each text between tabs: its id or number, the gold label, the predicted one, all probabilities.

    Args:
        path: The file.
        texts: The texts, N of them.
        labels: The labels in the order of their ids, K of them; titles of the last columns.
        probabilities: (N, K).
    """
    ids = texts.ids or list(map(str, range(len(texts))))
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("\t".join(["id", "gold", "predicted", *(f"p({label})" for label in labels)]) + "\n")
        for name, gold, row in zip(ids, texts.labels, probabilities, strict=True):
            numbers = (f"{probability:.6f}" for probability in row)
            file.write("\t".join([" ".join(name.split()), gold, labels[row.argmax()], *numbers]) + "\n")


def write_records(path: Path, texts: LabelledTexts, labels: Sequence[str], probabilities: np.ndarray) -> None:
    """Write pairs as SNLI has them, an object per line, with the predicted label and the probabilities beside it."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for index, row in enumerate(probabilities):
            record: dict[str, Any] = {
                "gold_label": texts.labels[index],
                "predicted_label": labels[row.argmax()],
                "sentence1": texts.texts[index],
                "sentence2": texts.second_texts[index] if texts.second_texts else None,
                "probabilities": {label: round(float(p), 6) for label, p in zip(labels, row, strict=True)},
            }
            if texts.ids is not None:
                record["pairID"] = texts.ids[index]
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def format_report(title: str, report: Mapping[str, Any]) -> str:
    """The scores in percent, a line per class, and how often each class was taken for which other."""
    classes = report["by_class"]
    width = max(map(len, [*classes, "gold"]))
    lines = score_lines(title, [*classes.items()], width)
    frequent = max(classes, key=lambda name: classes[name]["number"])
    share = classes[frequent]["number"] / sum(row["number"] for row in classes.values())
    lines.append(
        f"accuracy {100 * report['accuracy']:.2f}, macro F1 {100 * report['macro_f1']:.2f}; always {frequent!r}: "
        f"accuracy {100 * share:.2f}"
    )
    widths = [max(len(name), 6) for name in classes]
    lines += ["", f"{'gold':{width}}  predicted as"]
    lines.append(" ".join([f"{'':{width}} ", *(f"{name:>{size}}" for name, size in zip(classes, widths, strict=True))]))
    for name, row in zip(classes, report["confusion"], strict=True):
        counts = (f"{count:{size}}" for count, size in zip(row, widths, strict=True))
        lines.append(" ".join([f"{name:{width}} ", *counts]))
    return "\n".join(lines)
