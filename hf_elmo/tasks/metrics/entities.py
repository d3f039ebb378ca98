"""Precision, recall and F1 by entity: an `evaluate` metric on seqeval that needs no network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import datasets
import evaluate

from ...model.modeling_elmo_tasks import Span
from .counts import score_counts

try:
    from seqeval.metrics import accuracy_score
    from seqeval.metrics.sequence_labeling import get_entities
except ImportError as error:
    raise ImportError("seqeval is not installed; install it with: pip install 'hf_elmo[tasks]'") from error

TAG_SCHEMES = ("auto", "spans", "words")

_PREFIXED = re.compile(r"[BIESLUM]-.+", flags=re.DOTALL)
_UNTYPED = ("O", "B", "I", "E", "S")
# BILOU and BMES say the same as IOBES in other letters.
_AS_IOBES = {"L": "E", "U": "S", "M": "I"}

_DESCRIPTION = "Precision, recall and F1 of the entities that tags mark, which seqeval reads."

_CITATION = """\
@misc{seqeval,
  title={{seqeval}: A Python framework for sequence labeling evaluation},
  url={https://github.com/chakki-works/seqeval},
  author={Hiroki Nakayama},
  year={2018},
}"""

_INPUTS = """
Args:
    predictions: Predicted tags, a list of strings per sentence.
    references: Gold tags, as long.
    tag_scheme: "spans" for tags with prefixes (IOB1, IOB2, IOBES, BILOU or BMES), "words" where each tag but `O` is an
        entity of its word alone (parts of speech), "auto" to tell from the tags.
Returns: `overall_precision`, `overall_recall`, `overall_f1` (micro averages over all entities), `overall_accuracy`
    (over words) and for each type of entity a dict of `precision`, `recall`, `f1` and `number`, its entities in the
    references. All but `number` lie in [0, 1]; what is not defined is 0.
"""


def tag_scheme_of(tags: Iterable[str]) -> str:
    """Tell how tags mark entities: "spans" if all but `O` have a prefix such as `B-`, "words" if none has.

    Raises: ValueError naming the odd ones where some tags have a prefix and some have not.
    """
    tags = set(tags)
    prefixed = {tag for tag in tags if _PREFIXED.fullmatch(tag)}
    odd = sorted(tags - prefixed - set(_UNTYPED))
    if not odd:
        return "spans"
    if prefixed:
        raise ValueError(
            f"The tags {odd[:5]} have no prefix such as B- or I-, but {sorted(prefixed)[:5]} have. Repair them, or "
            "pass tag_scheme='words' (--tag_scheme words) to score every word on its own."
        )
    return "words"


def read_any_spans(tags: Sequence[str]) -> list[Span]:
    """The spans that the tags of a sentence mark, read as the metric reads them: ill-formed ones count too."""
    found = get_entities([_as_iobes(tag) for tag in tags])
    return [Span(type_, start, last + 1) for type_, start, last in found]


class EntityMetric(evaluate.Metric):
    """The scores of conlleval (Tjong Kim Sang and De Meulder 2003), in the form of `evaluate`'s own seqeval metric.

    An entity counts where its type and both its ends are right. Spans are read in seqeval's default mode, as conlleval
    does: `I-X` after `O`, or after another type, begins an entity, so that IOB1 and IOB2 are both read rightly and
    ill-formed predictions still count. Make it directly, `EntityMetric(keep_in_memory=True)`; nothing is downloaded.
    """

    def _info(self) -> evaluate.MetricInfo:
        sentences = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": sentences, "references": sentences}),
            reference_urls=["https://github.com/chakki-works/seqeval"],
        )

    def _compute(
        self, predictions: Sequence[list[str]], references: Sequence[list[str]], tag_scheme: str = "auto"
    ) -> dict[str, Any]:
        predictions, references = list(predictions), list(references)
        _check_lengths(predictions, references)
        if tag_scheme not in TAG_SCHEMES:
            raise ValueError(f"tag_scheme is {tag_scheme!r}; it must be one of {TAG_SCHEMES}.")
        tags = {tag for sentences in (predictions, references) for sentence in sentences for tag in sentence}
        if tag_scheme != "words":
            # Asking for spans is no way round tags that mark none.
            found = tag_scheme_of(tags)
            if tag_scheme == "spans" and found != "spans":
                raise ValueError(
                    f"tag_scheme is 'spans', but the tags {sorted(tags)[:5]} have no prefix such as B- or I-; pass "
                    "'words'."
                )
            tag_scheme = found
        predicted, gold = (_entities(sentences, tag_scheme) for sentences in (predictions, references))
        counts = [_count_types(entities) for entities in (predicted & gold, predicted, gold)]
        # seqeval divides by the number of words.
        accuracy = float(accuracy_score(references, predictions)) if tags else 0.0
        return {**score_counts(*counts), "overall_accuracy": accuracy}


def _entities(sentences: list[list[str]], tag_scheme: str) -> set[tuple[str, int, int]]:
    """Type, first and last word of each; the words of all sentences are counted through."""
    if tag_scheme == "words":
        # A span of one word each, which need not be looked for: parts of speech have one for each word of a corpus.
        return {(tag, place, place) for place, tag in enumerate(chain.from_iterable(sentences)) if tag != "O"}
    return set(get_entities([[_as_iobes(tag) for tag in sentence] for sentence in sentences]))


def _count_types(entities: set[tuple[str, int, int]]) -> Counter[str]:
    return Counter(kind for kind, _, _ in entities)


def _as_iobes(tag: str) -> str:
    """The tag in the letters that seqeval reads."""
    return tag if tag == "O" else _AS_IOBES.get(tag[0], tag[0]) + tag[1:]


def _check_lengths(predictions: list[list[str]], references: list[list[str]]) -> None:
    for index, (predicted, gold) in enumerate(zip(predictions, references, strict=True)):
        if len(predicted) != len(gold):
            raise ValueError(
                f"predictions[{index}] has {len(predicted)} tags but references[{index}] has {len(gold)}; wanted one "
                "per word in both."
            )
