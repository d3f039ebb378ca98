"""Precision, recall and F1 of predicates' arguments, as CoNLL-2005 counts them: an `evaluate` metric of our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import datasets
import evaluate

from ...model.modeling_elmo_tasks import can_follow, read_spans
from .counts import score_counts

_DESCRIPTION = "How many of the arguments of given predicates are found whole and with their role."

_CITATION = """\
@inproceedings{carreras-marquez-2005-introduction,
  title={Introduction to the {CoNLL}-2005 Shared Task: Semantic Role Labeling},
  author={Carreras, Xavier and M{\\`a}rquez, Llu{\\'i}s},
  booktitle={Proceedings of CoNLL},
  year={2005},
}"""

_INPUTS = """
Args:
    predictions: For each predicate the predicted tags of its sentence's words, by IOB2 (`B-ARG0`, `I-ARG0`, `O`); all
        `O` for a predicate that was not found.
    references: For each predicate the right tags, as long.
Returns: `overall_precision`, `overall_recall` and `overall_f1`, micro averages over all arguments, and for each role a
    dict of `precision`, `recall`, `f1` and `number`, its arguments in the references. All but `number` lie in [0, 1];
    what is not defined is 0.
"""

# The predicate itself is given.
_PREDICATE = "V"
_CONTINUED = "C-"


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


class SemanticRoleMetric(evaluate.Metric):
    """The scores of CoNLL-2005's own script (Carreras and Màrquez 2005, sec. 3.2), over predicates that are given.

    An argument counts where its role and all its pieces are right; one with a wrong role is one too many and one that
    is missed. Make it directly, `SemanticRoleMetric(keep_in_memory=True)`; nothing is downloaded.
    """

    def _info(self) -> evaluate.MetricInfo:
        tags = datasets.Sequence(datasets.Value("string"))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": tags, "references": tags}),
            reference_urls=["https://www.cs.upc.edu/~srlconll/soft.html"],
        )

    def _compute(self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> dict[str, Any]:
        right, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
        for number, (found, wanted) in enumerate(zip(predictions, references, strict=True)):
            if len(found) != len(wanted):
                raise ValueError(
                    f"predictions[{number}] has {len(found)} tags, but references[{number}] has {len(wanted)}; give "
                    "one for each word."
                )
            sides = [Counter(read_arguments(tags)) for tags in (found, wanted)]
            for counts, arguments in ((predicted, sides[0]), (gold, sides[1]), (right, sides[0] & sides[1])):
                for argument, times in arguments.items():
                    counts[argument.role] += times
        return score_counts(right, predicted, gold)
