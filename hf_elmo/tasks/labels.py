"""The labels of a classifier: those of its training data, of its checkpoint and of its user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol


class Labelled(Protocol):
    """What a split holds, as far as its labels go."""

    known_labels: tuple[str, ...]

    def label_places(self) -> dict[str, str]:
        """Each label that occurs, and where it stands first, for errors."""


def choose_labels(
    splits: Mapping[str, Labelled], extra: Sequence[str] = (), checkpoint_labels: Sequence[str] | None = None
) -> list[str]:
    """The labels of the classifier, in the order of their ids.

    A checkpoint's labels, in its own order, where it has a classifier that knows all that are wanted (or nothing is to
    be trained); else those of the training data, what the corpus declares and the extra ones, sorted.

    Args:
        splits: The examples with their labels.
        extra: Labels to know besides.
        checkpoint_labels: Labels of the checkpoint's classifier; None where it has none.
    Raises: ValueError where there is neither training data nor a checkpoint's classifier, or where the extra labels
        are none of that.
    """
    if "train" in splits:
        wanted = {*splits["train"].label_places(), *splits["train"].known_labels, *extra}
        labels = _sorted(wanted)
        if checkpoint_labels is not None and wanted <= set(checkpoint_labels):
            labels = list(checkpoint_labels)
    elif checkpoint_labels is None:
        raise ValueError(
            "do_train is off, but the checkpoint has no classifier of this task to evaluate; name one that has with "
            "--model_name_or_path, or give training data."
        )
    else:
        labels = list(checkpoint_labels)
        if not set(extra) <= set(labels):
            raise ValueError(
                f"labels names {sorted(set(extra) - set(labels))}, but nothing is trained and the checkpoint knows "
                f"only {labels[:20]}; leave --labels out, or give training data."
            )
    return labels


def _sorted(labels: Iterable[str]) -> list[str]:
    """In the order of the alphabet; numbers, before them, by their size."""
    return sorted(labels, key=lambda label: (0, int(label), "") if label.isdecimal() else (1, 0, label))
