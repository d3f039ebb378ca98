"""The scores of the tasks, as plain functions; all fractions lie in [0, 1], and what is not defined is 0."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
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

Clusters = Sequence[Sequence[Hashable]]

_PREFIXED = re.compile(r"[BIESLUM]-.+", flags=re.DOTALL)
_UNTYPED = ("O", "B", "I", "E", "S")
# BILOU and BMES say the same as IOBES in other letters.
_AS_IOBES = {"L": "E", "U": "S", "M": "I"}
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The predicate itself is given.
_PREDICATE = "V"
_CONTINUED = "C-"


def score_counts(right: Counter[str], predicted: Counter[str], gold: Counter[str]) -> dict[str, Any]:
    """The scores of each type, and over all of them.

    Args:
        right, predicted, gold: How many there are of each type.
    Returns: For each type a dict of `precision`, `recall`, `f1` and `number`, its things in the references; and
        `overall_precision`, `overall_recall` and `overall_f1`, micro averages. What is not defined is 0.
    """
    by_type = {kind: score_matches(right[kind], predicted[kind], gold[kind]) for kind in sorted({*predicted, *gold})}
    overall = score_matches(right.total(), predicted.total(), gold.total())
    return {**by_type, **{f"overall_{name}": overall[name] for name in ("precision", "recall", "f1")}}


def score_matches(right: int, predicted: int, gold: int) -> dict[str, float]:
    """Precision, recall, F1 and, as `number`, how many there are in the references."""
    return {
        "precision": right / predicted if predicted else 0.0,
        "recall": right / gold if gold else 0.0,
        "f1": 2 * right / (predicted + gold) if right else 0.0,
        "number": gold,
    }


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


def score_spans(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tag_scheme: str = "auto"
) -> dict[str, Any]:
    """The scores of conlleval (Tjong Kim Sang and De Meulder 2003): a span counts if its type and both ends are right.

    Spans are read in seqeval's default mode, as conlleval does: `I-X` after `O`, or after another type, begins one, so
    that IOB1 and IOB2 are both read rightly and ill-formed predictions still count.

    Args:
        predictions: Predicted tags of each sentence.
        references: Gold tags, as many.
        tag_scheme: "spans" for tags with prefixes (IOB1, IOB2, IOBES, BILOU or BMES), "words" where each tag but `O` is
            a span of its word alone (parts of speech), "auto" to tell from the tags.
    Returns: As `score_counts`, and `overall_accuracy` over words.
    Raises: ValueError naming the argument, or tags that are odd or too few.
    """
    predictions, references = list(predictions), list(references)
    _check_lengths(predictions, references)
    if tag_scheme not in ("auto", "spans", "words"):
        raise ValueError(f"tag_scheme is {tag_scheme!r}; it must be 'auto', 'spans' or 'words'.")
    tags = {tag for sentences in (predictions, references) for sentence in sentences for tag in sentence}
    if tag_scheme != "words":
        # Asking for spans is no way round tags that mark none.
        found = tag_scheme_of(tags)
        if tag_scheme == "spans" and found != "spans":
            raise ValueError(
                f"tag_scheme is 'spans', but the tags {sorted(tags)[:5]} have no prefix such as B- or I-; pass 'words'."
            )
        tag_scheme = found
    predicted, gold = (_entities(sentences, tag_scheme) for sentences in (predictions, references))
    counts = [Counter(kind for kind, _, _ in entities) for entities in (predicted & gold, predicted, gold)]
    words = [
        (a, b) for row, other in zip(predictions, references, strict=True) for a, b in zip(row, other, strict=True)
    ]
    accuracy = sum(a == b for a, b in words) / len(words) if words else 0.0
    return {**score_counts(*counts), "overall_accuracy": accuracy}


def _entities(sentences: Sequence[Sequence[str]], tag_scheme: str) -> set[tuple[str, int, int]]:
    """Type, first and last word of each; the words of all sentences are counted through."""
    if tag_scheme == "words":
        # A span of one word each, which need not be looked for: parts of speech have one for each word of a corpus.
        return {(tag, place, place) for place, tag in enumerate(chain.from_iterable(sentences)) if tag != "O"}
    return set(get_entities([[_as_iobes(tag) for tag in sentence] for sentence in sentences]))


def _as_iobes(tag: str) -> str:
    """The tag in the letters that seqeval reads."""
    return tag if tag == "O" else _AS_IOBES.get(tag[0], tag[0]) + tag[1:]


def _check_lengths(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> None:
    for index, (predicted, gold) in enumerate(zip(predictions, references, strict=True)):
        if len(predicted) != len(gold):
            raise ValueError(
                f"predictions[{index}] has {len(predicted)} tags but references[{index}] has {len(gold)}; wanted one "
                "per word in both."
            )


def score_classes(
    predictions: Sequence[str], references: Sequence[str], labels: Sequence[str] | None = None
) -> dict[str, Any]:
    """Accuracy, and precision, recall and F1 by class, as scikit-learn has them.

    Args:
        predictions: Predicted classes.
        references: Gold classes, as many.
        labels: The classes in the order of the confusion matrix; by default those that occur, sorted.
    Returns: `accuracy`; `macro_f1`, the mean F1 of the classes that occur in either; `by_class`, for each class a dict
        of `precision`, `recall`, `f1` and `number`, how often it is the gold one; `labels`, and `confusion`, a row per
        gold class and a column per predicted one.
    Raises: ValueError naming a class that occurs and is none of the labels.
    """
    occurring = {*predictions, *references}
    labels = sorted(occurring) if labels is None else list(labels)
    unknown = sorted(occurring - set(labels))
    if unknown:
        raise ValueError(f"labels is {labels[:20]}, but {unknown[0]!r} occurs; name all classes.")
    confusion = confusion_matrix(references, predictions, labels=labels)
    columns = precision_recall_fscore_support(references, predictions, labels=labels, zero_division=0)
    names = ("precision", "recall", "f1", "number")
    rows = (dict(zip(names, (column.item() for column in row), strict=True)) for row in zip(*columns, strict=True))
    return {
        "accuracy": float(confusion.trace() / confusion.sum()),
        "macro_f1": float(columns[2][confusion.sum(axis=0) + confusion.sum(axis=1) > 0].mean()),
        "by_class": dict(zip(labels, rows, strict=True)),
        "labels": labels,
        "confusion": confusion.tolist(),
    }


def score_answers(predictions: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Exact match and F1 by SQuAD 1.1 (Rajpurkar et al. 2016, sec. 6.1), means over the questions of the references.

    For each question the answer counts that is most like the prediction; a question without a prediction scores 0.

    Args:
        predictions: The predicted answer by the question's id.
        references: The right answers by the question's id.
    Returns: `exact_match` and `f1`, in [0, 1].
    Raises: ValueError naming a prediction of a question that there is not, or a question without right answers.
    """
    unknown = predictions.keys() - references.keys()
    if unknown:
        raise ValueError(f"predictions has the id {min(unknown)!r}, which no reference has; give those of one file.")
    if not references:
        raise ValueError("references is empty; give at least one question.")
    matches = f1 = 0.0
    for name, answers in references.items():
        if not len(answers):
            raise ValueError(f"references has no answers for the id {name!r}; leave questions without any out.")
        predicted = predictions.get(name)
        if predicted is not None:
            matches += max(float(normalize_answer(predicted) == normalize_answer(answer)) for answer in answers)
            f1 += max(score_words(predicted, answer) for answer in answers)
    return {"exact_match": matches / len(references), "f1": f1 / len(references)}


def normalize_answer(text: str) -> str:
    """An answer without case, ASCII punctuation, articles and superfluous spaces; "A-1" is "a1"."""
    text = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def score_words(predicted: str, answer: str) -> float:
    """F1 of the words of two answers as bags; 0 where none is shared, be both of them empty once normalised."""
    words, wanted = (normalize_answer(text).split() for text in (predicted, answer))
    shared = (Counter(words) & Counter(wanted)).total()
    return 2 * shared / (len(words) + len(wanted)) if shared else 0.0


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
    roles: list[str] = []
    pieces: list[list[tuple[int, int]]] = []
    begun = [
        tag if can_follow(before, tag, "IOB2") else f"B{tag[1:]}"
        for before, tag in zip([None, *tags], tags, strict=False)
    ]
    for type_, start, stop in read_spans(begun, "IOB2"):
        role = type_.removeprefix(_CONTINUED)
        earlier = [place for place, known in enumerate(roles) if known == role]
        if role != type_ and earlier:
            pieces[earlier[-1]].append((start, stop))
        else:
            roles.append(role)
            pieces.append([(start, stop)])
    found = (Argument(role, tuple(spans)) for role, spans in zip(roles, pieces, strict=True))
    return [argument for argument in found if argument.role != _PREDICATE]


def score_roles(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The scores of CoNLL-2005's own script (Carreras and Màrquez 2005, sec. 3.2), over predicates that are given.

    An argument counts where its role and all its pieces are right; one with a wrong role is one too many and one that
    is missed.

    Args:
        predictions: For each predicate the predicted tags of its sentence's words, by IOB2 (`B-ARG0`, `I-ARG0`, `O`);
            all `O` for a predicate that was not found.
        references: For each predicate the right tags, as long.
    Returns: As `score_counts`, by role.
    Raises: ValueError naming a predicate with too few tags, or what is no tag.
    """
    right, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
    _check_lengths(predictions, references)
    for found, wanted in zip(predictions, references, strict=True):
        sides = [Counter(read_arguments(tags)) for tags in (found, wanted)]
        for counts, arguments in ((predicted, sides[0]), (gold, sides[1]), (right, sides[0] & sides[1])):
            for argument, times in arguments.items():
                counts[argument.role] += times
    return score_counts(right, predicted, gold)


class _Sums(NamedTuple):
    """Numerators and denominators over documents, which are divided at the end."""

    recall: float
    gold: float
    precision: float
    predicted: float


def score_clusters(predictions: Sequence[Clusters], references: Sequence[Clusters]) -> dict[str, Any]:
    """MUC, B-cubed and CEAFe by the reference scorer, version 8.01 (Pradhan et al. 2014), over all documents together.

    Clusters of one mention count in B-cubed and CEAFe as any other; leave them out where the data mark none.

    Args:
        predictions, references: For each document its clusters of mentions, which can be anything with a hash.
    Raises: ValueError naming the document where a mention stands twice or a cluster is empty, or where their numbers
        differ.
    """
    if len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} documents, but references has {len(references)}; give one for each."
        )
    places: list[tuple[dict[Hashable, int], dict[Hashable, int]]] = [
        (_places("references", number, gold), _places("predictions", number, predicted))
        for number, (gold, predicted) in enumerate(zip(references, predictions, strict=True))
    ]
    scores: dict[str, Any] = {}
    for name, count in (("muc", _count_muc), ("b_cubed", _count_b_cubed), ("ceafe", _count_ceafe)):
        counts = [
            count(gold, predicted, *place)
            for gold, predicted, place in zip(references, predictions, places, strict=True)
        ]
        sums = _Sums(*(float(sum(column)) for column in zip(*counts, strict=True))) if counts else _Sums(0, 0, 0, 0)
        recall, precision = _share(sums.recall, sums.gold), _share(sums.precision, sums.predicted)
        f1 = _share(2 * precision * recall, precision + recall)
        scores[name] = {"precision": precision, "recall": recall, "f1": f1}
    return {**scores, "mean_f1": sum(row["f1"] for row in scores.values()) / 3}


def _places(argument: str, number: int, clusters: Clusters) -> dict[Hashable, int]:
    """The number of the cluster of each mention."""
    places: dict[Hashable, int] = {}
    for place, cluster in enumerate(clusters):
        if not cluster:
            raise ValueError(f"{argument}, document {number}: a cluster is empty; leave it out.")
        for mention in cluster:
            if mention in places:
                raise ValueError(
                    f"{argument}, document {number}: the mention {mention!r} stands twice; join its clusters."
                )
            places[mention] = place
    return places


def _count_muc(
    gold: Clusters, predicted: Clusters, gold_places: Mapping[Hashable, int], predicted_places: Mapping[Hashable, int]
) -> _Sums:
    """Links that a side lacks to hold the other's clusters together (Vilain et al. 1995)."""

    def links(clusters: Clusters, places: Mapping[Hashable, int]) -> tuple[int, int]:
        kept = wanted = 0
        for cluster in clusters:
            # Each mention that the other side lacks is a part of its own.
            parts = {places.get(mention, (mention,)) for mention in cluster}
            kept += len(cluster) - len(parts)
            wanted += len(cluster) - 1
        return kept, wanted

    return _Sums(*links(gold, predicted_places), *links(predicted, gold_places))


def _count_b_cubed(
    gold: Clusters, predicted: Clusters, gold_places: Mapping[Hashable, int], predicted_places: Mapping[Hashable, int]
) -> _Sums:
    """For each mention the share of its cluster that the other side has beside it too (Bagga and Baldwin 1998)."""
    shared = _count_shared(gold, predicted, predicted_places).astype(float) ** 2
    gold_sizes, predicted_sizes = _sizes(gold), _sizes(predicted)
    recall = float((shared / gold_sizes[:, None]).sum()) if shared.size else 0.0
    precision = float((shared / predicted_sizes).sum()) if shared.size else 0.0
    return _Sums(recall, len(gold_places), precision, len(predicted_places))


def _count_ceafe(
    gold: Clusters, predicted: Clusters, gold_places: Mapping[Hashable, int], predicted_places: Mapping[Hashable, int]
) -> _Sums:
    """The best matching of clusters one to one, by twice the mentions shared over those of both (Luo 2005)."""
    shared = _count_shared(gold, predicted, predicted_places)
    similarity = 0.0
    if shared.size:
        alike = 2 * shared / (_sizes(gold)[:, None] + _sizes(predicted))
        similarity = float(alike[linear_sum_assignment(alike, maximize=True)].sum())
    return _Sums(similarity, len(gold), similarity, len(predicted))


def _count_shared(gold: Clusters, predicted: Clusters, predicted_places: Mapping[Hashable, int]) -> np.ndarray:
    """How many mentions each gold cluster (rows) shares with each predicted one (columns)."""
    shared = np.zeros((len(gold), len(predicted)), dtype=np.int64)
    for row, cluster in enumerate(gold):
        for mention in cluster:
            if mention in predicted_places:
                shared[row, predicted_places[mention]] += 1
    return shared


def _sizes(clusters: Clusters) -> np.ndarray:
    return np.array([len(cluster) for cluster in clusters], dtype=np.int64)


def _share(part: float, of: float) -> float:
    return part / of if of else 0.0
