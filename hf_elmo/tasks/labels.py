"""The labels of a classifier: those of its training data, its checkpoint and its user, and which data have others."""

from __future__ import annotations

import shlex
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
    Raises: ValueError where another split has a label that is not known, with its place.
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
    others = [examples for split, examples in splits.items() if split != "train"]
    _check_labels_known(others, labels, is_trained="train" in splits)
    return labels


def _sorted(labels: Iterable[str]) -> list[str]:
    """In the order of the alphabet; numbers, before them, by their size."""
    return sorted(labels, key=lambda label: (0, int(label), "") if label.isdecimal() else (1, 0, label))


def _check_labels_known(splits: Iterable[Labelled], known: Sequence[str], is_trained: bool) -> None:
    places: dict[str, str] = {}
    for examples in splits:
        found = examples.label_places()
        places |= {label: place for label, place in found.items() if label not in known and label not in places}
    if not places:
        return
    (label, place), *others = places.items()
    what = f"{place}: the label {label!r}" + (f" (nor {len(others)} more)" if others else "")
    if is_trained:
        raise ValueError(
            f"{what} does not occur in the training data; correct it, or make it known with --labels "
            f"{shlex.join(places)}"
        )
    raise ValueError(
        f"{what} is not one that the checkpoint knows, {list(known[:20])}; correct it, or give training data."
    )
