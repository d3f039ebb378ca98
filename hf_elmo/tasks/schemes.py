"""The scheme in which a corpus marks its spans: told from its labels, exchanged for another and back."""

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
        """Sentences with the model's labels, of which it shall know all; read as the metric reads them."""
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


def find_scheme(splits: Iterable[TaggedSentences]) -> tuple[CorpusScheme, list[str]]:
    """The scheme that fits the labels of all splits best, and each place where a label breaks its rules.

    CoNLL-2003 and CoNLL-2002 have such labels; they mark spans nevertheless, as conlleval and the metric read them.

    Raises: ValueError naming a label that marks a span of no type.
    """
    splits = list(splits)
    labels = {label for sentences in splits for row in sentences.labels for label in row if label != OUTSIDE}
    untyped = sorted(label for label in labels if not label[2:])
    if untyped:
        raise ValueError(
            f"{', '.join(sentences.source for sentences in splits)}: the label {untyped[0]!r} has no type, as B-X has; "
            "give it one, or train without convert_scheme and with --output_layer softmax, which knows no schemes."
        )
    letters = {label[0] for label in labels}
    candidates: list[CorpusScheme]
    if letters & {"L", "U"}:
        candidates = ["BILOU"]
    elif "M" in letters:
        candidates = ["BMES"]
    else:
        candidates = ["BIOES"] if letters & {"E", "S"} else ["IOB2", "IOB1"]
    broken = {scheme: [place for sentences in splits for place in _broken(sentences, scheme)] for scheme in candidates}
    scheme = min(candidates, key=lambda candidate: len(broken[candidate]))
    return scheme, broken[scheme]


def settle_scheme(
    head: TokenClassificationHead,
    splits: Iterable[TaggedSentences],
    tag_scheme: str,
    asked: Literal["IOB1", "IOB2", "BIOES"] | None,
    has_classifier: bool,
) -> tuple[SchemeExchange | None, str | None]:
    """Set the scheme of a model's labels, and say what has to be done with those of the data.

    Args:
        head: Its `scheme` is set: to what is asked for, or to the checkpoint's where there is a classifier, or to the
            data's; to None for labels of words, and where nothing wants to know it.
        splits: The data.
        tag_scheme: "spans" or "words".
        asked: The scheme that is asked for.
        has_classifier: Whether the checkpoint has a classifier.
    Returns: What exchanges the labels, None where model and data have the same; and a line for the user that counts
        those that break the rules of the data's scheme, None where all keep them.
    Raises: ValueError naming convert_scheme where labels mark no spans, or a label without a type.
    """
    if tag_scheme == "words":
        if asked is not None:
            raise ValueError(f"convert_scheme is {asked!r}, but the labels mark no spans; leave it out.")
        head.scheme = None
        return None, None
    if asked is None and head.output_layer != "crf" and head.scheme is None:
        return None, None
    corpus, broken = find_scheme(splits)
    wanted = (
        asked
        or (head.scheme if has_classifier else None)
        or (corpus if corpus == "IOB1" or corpus == "IOB2" else "BIOES")
    )
    head.scheme = wanted
    if broken:
        count = "1 label breaks" if len(broken) == 1 else f"{len(broken):,} labels break"
        note = f"{count} the rules of {corpus} (the first: {broken[0]}); all are read as conlleval reads them"
        return SchemeExchange(corpus, wanted), note
    return (None if wanted == corpus else SchemeExchange(corpus, wanted)), None


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
