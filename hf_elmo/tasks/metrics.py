"""The scores of the tasks, as plain functions; all fractions lie in [0, 1], and what is not defined is 0."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from ..model.modeling_elmo_tasks import Span, can_follow, read_spans

try:
    from scipy.optimize import linear_sum_assignment
    from seqeval.metrics.sequence_labeling import get_entities
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
except ImportError as error:
    missing = (error.name or "seqeval").partition(".")[0]
    raise ImportError(f"{missing} is not installed; install it with: pip install 'hf_elmo[tasks]'") from error

# A mention is a pair of numbers, or another sequence.
Clusters = Sequence[Sequence[Sequence]]

_PREFIXED = re.compile(r"[BIESLUM]-.+", flags=re.DOTALL)
_UNTYPED = ("O", "B", "I", "E", "S")
# BILOU and BMES say the same as IOBES in other letters.
_AS_IOBES = {"L": "E", "U": "S", "M": "I"}
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The predicate itself is given.
_PREDICATE = "V"
_CONTINUED = "C-"
_MEASURES = ("muc", "b_cubed", "ceafe", "mention")


def _score_kinds(predicted: Set[tuple], gold: Set[tuple]) -> dict[str, Any]:
    """The scores of things whose kind stands first, by kind, and over all of them: micro averages."""
    right, found, wanted = (Counter(kind for kind, *_ in its) for its in (predicted & gold, predicted, gold))
    by_kind = {kind: score_matches(right[kind], found[kind], wanted[kind]) for kind in sorted({*found, *wanted})}
    overall = score_matches(right.total(), found.total(), wanted.total())
    return {"by_type": by_kind, **{f"overall_{name}": overall[name] for name in ("precision", "recall", "f1")}}


def score_matches(right: int, predicted: int, gold: int) -> dict[str, float]:
    """Precision, recall, F1 and, as `number`, how many there are in the references."""
    return {
        "precision": _ratio(right, predicted),
        "recall": _ratio(right, gold),
        "f1": _ratio(2 * right, predicted + gold),
        "number": gold,
    }


def _ratio(part: float, of: float) -> float:
    return part / of if of else 0.0


def tag_scheme_of(tags: Iterable[str]) -> str:
    """Tell how tags mark entities: "spans" if all but `O` have a prefix such as `B-`, "words" if none has.

    Raises: ValueError naming the odd ones where some tags have a prefix and some have not.
    """
    tags = set(tags)
    prefixed = {tag for tag in tags if _PREFIXED.fullmatch(tag)}
    odd = sorted(tags - prefixed - set(_UNTYPED))
    if odd and prefixed:
        raise ValueError(
            f"The tags {odd[:5]} have no prefix such as B- or I-, but {sorted(prefixed)[:5]} have. Repair them, or "
            "pass tag_scheme='words' (--tag_scheme words) to score every word on its own."
        )
    return "words" if odd else "spans"


def read_any_spans(tags: Sequence[str]) -> list[Span]:
    """The spans that the tags of a sentence mark, read as the metric reads them: ill-formed ones count too."""
    found = get_entities([tag if tag == "O" else _AS_IOBES.get(tag[0], tag[0]) + tag[1:] for tag in tags])
    return [Span(type_, start, last + 1) for type_, start, last in found]


def _read_words(tags: Sequence[str]) -> list[Span]:
    return [Span(tag, place, place + 1) for place, tag in enumerate(tags) if tag != "O"]


def score_spans(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tag_scheme: str = "spans"
) -> dict[str, Any]:
    """The scores of conlleval (Tjong Kim Sang and De Meulder 2003): a span counts if its type and both ends are right.

    Spans are read in seqeval's default mode, as conlleval does: `I-X` after `O`, or after another type, begins one, so
    that IOB1 and IOB2 are both read rightly and ill-formed predictions still count.

    Args:
        predictions: Predicted tags of each sentence.
        references: Gold tags, as many.
        tag_scheme: "spans" for tags with prefixes (IOB1, IOB2, IOBES, BILOU or BMES), "words" where each tag but `O` is
            a span of its word alone (parts of speech).
    Returns: `by_type`, for each type a dict of `precision`, `recall`, `f1` and `number`, its spans in the references;
        `overall_precision`, `overall_recall` and `overall_f1`, micro averages; and `overall_accuracy` over words.
    """
    words, gold_words = (list(chain.from_iterable(sentences)) for sentences in (predictions, references))
    read = read_any_spans if tag_scheme == "spans" else _read_words
    predicted, gold = (
        {(*span, row) for row, tags in enumerate(sentences) for span in read(tags)}
        for sentences in (predictions, references)
    )
    right = sum(map(eq, words, gold_words))
    return {**_score_kinds(predicted, gold), "overall_accuracy": _ratio(right, len(words))}


def score_classes(predictions: Sequence[str], references: Sequence[str], labels: Sequence[str] = ()) -> dict[str, Any]:
    """Accuracy, and precision, recall and F1 by class, as scikit-learn has them.

    Args:
        predictions: Predicted classes.
        references: Gold classes, as many.
        labels: All classes, in the order of the confusion matrix; without them those that occur, sorted.
    Returns: `accuracy`; `macro_f1`, the mean F1 of the classes that occur in either; `by_class`, for each class a dict
        of `precision`, `recall`, `f1` and `number`, how often it is the gold one; and `confusion`, a row per gold class
        and a column per predicted one.
    """
    labels = labels or sorted({*predictions, *references})
    confusion = confusion_matrix(references, predictions, labels=labels)
    columns = precision_recall_fscore_support(references, predictions, labels=labels, zero_division=0)
    names = ("precision", "recall", "f1", "number")
    rows = (dict(zip(names, (column.item() for column in row), strict=True)) for row in zip(*columns, strict=True))
    return {
        "accuracy": float(confusion.trace() / confusion.sum()),
        "macro_f1": float(columns[2][confusion.sum(axis=0) + confusion.sum(axis=1) > 0].mean()),
        "by_class": dict(zip(labels, rows, strict=True)),
        "confusion": confusion.tolist(),
    }


def score_answers(predictions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Exact match and F1 by SQuAD 1.1 (Rajpurkar et al. 2016, sec. 6.1), means over the questions of the references.

    For each question the answer counts that is most like the prediction; a question without a prediction scores 0.

    Args:
        predictions: The predicted answer by the question's id.
        references: The right answers, at least one, by the question's id.
    Returns: `exact_match` and `f1`, in [0, 1].
    """
    matches = f1 = 0.0
    for name, predicted in predictions.items():
        answers = references[name]
        matches += any(normalize_answer(predicted) == normalize_answer(answer) for answer in answers)
        f1 += max(score_words(predicted, answer) for answer in answers)
    return {"exact_match": matches / len(references), "f1": f1 / len(references)}


def normalize_answer(text: str) -> str:
    """An answer without case, ASCII punctuation, articles and superfluous spaces; "A-1" is "a1"."""
    text = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def score_words(predicted: str, answer: str) -> float:
    """F1 of the words of two answers as bags; 0 where none is shared, be both of them empty once normalized."""
    words, wanted = (normalize_answer(text).split() for text in (predicted, answer))
    return _ratio(2 * (Counter(words) & Counter(wanted)).total(), len(words) + len(wanted))


class Argument(NamedTuple):
    """An argument of a predicate: its role, and the first word and the one behind the last of each of its pieces."""

    role: str
    pieces: tuple[tuple[int, int], ...]


def read_arguments(tags: Sequence[str]) -> list[Argument]:
    """The arguments that the tags of a predicate's sentence mark, in the order of their first words.

    A piece `C-x` belongs to the argument `x` before it, or is one itself where there is none; `R-x`, a word that refers
    to an argument, has a role of its own. The predicate's own tag `V` is left out.

    Args:
        tags: By IOB2, one for each word; an `I-x` that continues nothing begins a piece.
    Raises: ValueError naming a tag that is none.
    """
    found: list[Argument] = []
    begun = [
        tag if can_follow(before, tag, "IOB2") else f"B{tag[1:]}"
        for before, tag in zip([None, *tags], tags, strict=False)
    ]
    for type_, start, stop in read_spans(begun, "IOB2"):
        role = type_.removeprefix(_CONTINUED)
        earlier = [place for place, argument in enumerate(found) if argument.role == role]
        if role != type_ and earlier:
            found[earlier[-1]] = Argument(role, (*found[earlier[-1]].pieces, (start, stop)))
        else:
            found.append(Argument(role, ((start, stop),)))
    return [argument for argument in found if argument.role != _PREDICATE]


def score_roles(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The scores of CoNLL-2005's own script (Carreras and Màrquez 2005, sec. 3.2), over predicates that are given.

    An argument counts where its role and all its pieces are right; one with a wrong role is one too many and one that
    is missed.

    Args:
        predictions: For each predicate the predicted tags of its sentence's words, by IOB2 (`B-ARG0`, `I-ARG0`, `O`);
            all `O` for a predicate that was not found.
        references: For each predicate the right tags, as long.
    Returns: As `score_spans`, by role and without the accuracy.
    """
    predicted, gold = (
        {(*argument, row) for row, tags in enumerate(side) for argument in read_arguments(tags)}
        for side in (predictions, references)
    )
    return _score_kinds(predicted, gold)


def score_clusters(predictions: Sequence[Clusters], references: Sequence[Clusters]) -> dict[str, float]:
    """MUC, B-cubed and CEAFe by the reference scorer, version 8.01 (Pradhan et al. 2014), over all documents together.

    Clusters of one mention count in B-cubed and CEAFe as any other; leave them out where the data mark none.

    Args:
        predictions, references: For each document its clusters of mentions.
    Returns: `muc_precision`, `muc_recall` and `muc_f1`, the like of `b_cubed`, of `ceafe` and, for the mentions alone,
        of `mention`; and `mean_f1`, of the first three.
    """
    # Of each measure the numerators and denominators of recall and of precision, which are divided at the end.
    sums = np.zeros((4, 4))
    for predicted, gold in zip(predictions, references, strict=True):
        sums += _count_shared(gold, predicted)
    scores: dict[str, float] = {}
    for name, (found, of_gold, right, of_predicted) in zip(_MEASURES, sums.tolist(), strict=True):
        recall, precision = _ratio(found, of_gold), _ratio(right, of_predicted)
        f1 = _ratio(2 * precision * recall, precision + recall)
        scores |= {f"{name}_precision": precision, f"{name}_recall": recall, f"{name}_f1": f1}
    return {**scores, "mean_f1": sum(scores[f"{name}_f1"] for name in _MEASURES[:3]) / 3}


def _count_shared(gold: Clusters, predicted: Clusters) -> list[tuple[float, float, float, float]]:
    """The sums of a document, a row for each measure."""
    columns = {tuple(mention): column for column, cluster in enumerate(predicted) for mention in cluster}
    # How many mentions each gold cluster (rows) shares with each predicted one (columns).
    shared = np.zeros((len(gold), len(predicted)))
    for row, cluster in enumerate(gold):
        for mention in map(tuple, cluster):
            if mention in columns:
                shared[row, columns[mention]] += 1
    gold_sizes, sizes = (np.array([len(cluster) for cluster in side], dtype=float) for side in (gold, predicted))
    num_gold, num_predicted = gold_sizes.sum(), sizes.sum()
    # Links that hold a cluster together in both; each part of it in the other side's clusters costs one, and each
    # mention that this one lacks is a part of its own (Vilain et al. 1995).
    links = shared.sum() - np.count_nonzero(shared)
    # For each mention the share of its cluster that the other side has beside it too (Bagga and Baldwin 1998).
    recall, precision = (shared**2 / gold_sizes[:, None]).sum(), (shared**2 / sizes).sum()
    # The best matching of clusters one to one, by twice the mentions shared over those of both (Luo 2005).
    alike = 2 * shared / (gold_sizes[:, None] + sizes)
    matched = alike[linear_sum_assignment(alike, maximize=True)].sum()
    return [
        (links, num_gold - len(gold), links, num_predicted - len(predicted)),
        (recall, num_gold, precision, num_predicted),
        (matched, len(gold), matched, len(predicted)),
        (shared.sum(), num_gold, shared.sum(), num_predicted),
    ]
