"""The scheme in which a corpus marks its spans: told from its labels, checked, exchanged for another and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..model.configuration_elmo import TokenClassificationHead
from ..model.modeling_elmo_tasks import OUTSIDE, SCHEMES, can_follow, labels_of, write_spans
from .metrics.entities import read_any_spans
from .readers.columns import TaggedSentences

CorpusScheme = Literal["IOB1", "IOB2", "BIOES", "BILOU", "BMES"]

# These say the same as BIOES in other letters.
_IN_OTHER_LETTERS = {"BILOU": {"L": "E", "U": "S"}, "BMES": {"M": "I"}}


@dataclass(frozen=True)
class SchemeExchange:
    """The labels of a corpus in the scheme of a model, and those of the model as the corpus has them.

    Args:
        corpus: That of the data.
        model: "IOB1", "IOB2" or "BIOES".
    """

    corpus: CorpusScheme
    model: str

    def to_model(self, sentences: TaggedSentences) -> TaggedSentences:
        """Checked sentences with the model's labels, of which it shall know all."""
        labels = [self._write(row, self.model) for row in sentences.labels]
        known = self.labels_to_model({label for row in sentences.labels for label in row} | set(sentences.known_labels))
        return replace(sentences, labels=labels, known_labels=tuple(known))

    def labels_to_model(self, labels: Iterable[str]) -> list[str]:
        """The model's labels for the types that these labels of the corpus have."""
        return labels_of(sorted({label[2:] for label in labels if label != OUTSIDE}), self.model)

    def to_corpus(self, labels: Sequence[str]) -> list[str]:
        """The labels of a sentence as the corpus has them; what is ill-formed is read as the metric reads it."""
        letters = {old: new for new, old in _IN_OTHER_LETTERS.get(self.corpus, {}).items()}
        written = self._write(labels, "BIOES" if letters else self.corpus)
        return [letters.get(label[0], label[0]) + label[1:] for label in written]

    def _write(self, labels: Sequence[str], scheme: str) -> list[str]:
        return write_spans(read_any_spans(labels), len(labels), scheme)


def find_scheme(splits: Iterable[TaggedSentences]) -> CorpusScheme:
    """The scheme in which all splits mark their spans.

    Raises: ValueError naming the file, the line and the label that breaks the rules of the scheme that fits best.
    """
    splits = list(splits)
    letters = {label[0] for sentences in splits for row in sentences.labels for label in row if label != OUTSIDE}
    candidates: list[CorpusScheme]
    if letters & {"L", "U"}:
        candidates = ["BILOU"]
    elif "M" in letters:
        candidates = ["BMES"]
    else:
        candidates = ["BIOES"] if letters & {"E", "S"} else ["IOB2", "IOB1"]
    broken = {scheme: [place for sentences in splits for place in _broken(sentences, scheme)] for scheme in candidates}
    scheme = min(candidates, key=lambda candidate: len(broken[candidate]))
    if broken[scheme]:
        raise ValueError(
            f"{broken[scheme][0]}, which {scheme} does not allow, as which the labels are read (letters "
            f"{', '.join(sorted(letters))}); mend the labels, or train without convert_scheme and with "
            "--output_layer softmax, which has no rules."
        )
    return scheme


def settle_scheme(
    head: TokenClassificationHead,
    splits: Iterable[TaggedSentences],
    tag_scheme: str,
    asked: Literal["IOB1", "IOB2", "BIOES"] | None,
    has_classifier: bool,
) -> SchemeExchange | None:
    """Set the scheme of a model's labels, and say what has to be done with those of the data.

    Args:
        head: Its `scheme` is set: to what is asked for, or to the checkpoint's where there is a classifier, or to the
            data's; to None for labels of words, and where nothing wants to know it.
        splits: The data.
        tag_scheme: "spans" or "words".
        asked: The scheme that is asked for.
        has_classifier: Whether the checkpoint has a classifier.
    Returns: None where model and data have the same labels.
    Raises: ValueError naming the file, the line and the label that breaks the rules.
    """
    if tag_scheme == "words":
        if asked is not None:
            raise ValueError(f"convert_scheme is {asked!r}, but the labels mark no spans; leave it out.")
        head.scheme = None
        return None
    if asked is None and head.output_layer != "crf" and head.scheme is None:
        return None
    corpus = find_scheme(splits)
    wanted = (
        asked
        or (head.scheme if has_classifier else None)
        or (corpus if corpus == "IOB1" or corpus == "IOB2" else "BIOES")
    )
    head.scheme = wanted
    return None if wanted == corpus else SchemeExchange(corpus, wanted)


def _broken(sentences: TaggedSentences, scheme: str) -> Iterator[str]:
    """Where labels stand that the scheme does not allow there, and what they are."""
    letters = _IN_OTHER_LETTERS.get(scheme, {})
    known = scheme if scheme in SCHEMES else "BIOES"
    allowed: dict[tuple[str | None, str | None], bool] = {}
    for row, labels in enumerate(sentences.labels):
        previous: str | None = None
        for word, label in enumerate([*labels, None]):
            if (previous, label) not in allowed:
                allowed[previous, label] = _is_allowed(previous, label, known, letters)
            if not allowed[previous, label]:
                what = f"the label {label!r} stands behind {previous!r}" if label else f"{previous!r} stands last"
                yield f"{sentences.place(row, min(word, len(labels) - 1))}: {what}"
            previous = label


def _is_allowed(previous: str | None, label: str | None, scheme: str, letters: dict[str, str]) -> bool:
    pair = [each and letters.get(each[0], each[0]) + each[1:] for each in (previous, label)]
    try:
        return can_follow(pair[0], pair[1], scheme)
    except ValueError:
        # A label of another scheme, or without a type.
        return False
