"""Maps of a word's uses: where each lies in two dimensions in every layer, in which group, and beside which others.

Letters in shapes: N uses, D numbers of a vector, L biLM layers, K nearest uses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..hub.extras import require
from .embedder import ElmoEmbedder
from .word_uses import StaticWords, Use, WordUses, embed_uses, static_vectors, unit

CLUSTER = "cluster"
# More groups than these would share their colors: the smallest are one group.
MAX_GROUPS = 8
OTHERS = "others"
# Words on either side of a use from which the words around a group are taken, and by which factor these must be more
# frequent there than around other uses.
_AROUND, _LEAST_RATIO = 5, 1.25
_MAX_CLUSTERS = 6
# Words shown beside the commonest spelling and beside each other one, and spellings that are drawn.
_MOST_NEAREST_WORDS, _NEAREST_WORDS, _MAX_FORMS = 8, 2, 3


class Group(NamedTuple):
    """Uses in one color: a sense, a part of speech or a cluster, its size, and words that stand around its uses."""

    name: str
    size: int
    words_around: list[str]


class StaticForm(NamedTuple):
    """A spelling, which has one vector without context, the indices of its uses, and its nearest words with cosines."""

    form: str
    uses: list[int]
    nearest: list[tuple[str, float]]


@dataclass(frozen=True)
class UseMap:
    """All that is drawn of the N uses of a word."""

    found: WordUses  # one group behind the other
    grouped_by: str  # what the groups are, "sense" for example, or "cluster"
    groups: list[Group]  # by falling size, at most `MAX_GROUPS`
    group_of: np.ndarray  # the index of each use's group, (N,)
    points: np.ndarray  # where each use lies in each layer of the biLM, (L, N, 2)
    explained: list[float]  # the fraction of the variance that the two dimensions have in each layer
    nearest: np.ndarray  # the indices of the most similar other uses in each layer, nearest first, (L, N, K)
    similarities: np.ndarray  # their cosines, (L, N, K)
    forms: list[StaticForm]  # the spellings, by falling number of uses
    static_points: dict[str, np.ndarray]  # where these and their nearest words lie by the token encoder's vectors

    @property
    def uses(self) -> list[Use]:
        return self.found.uses

    def agreement(self) -> np.ndarray:
        """The fraction of the uses whose nearest use is of the same group, by layer, (L,); NaN for a single use."""
        if not self.nearest.shape[-1]:
            return np.full(len(self.nearest), math.nan)
        return (self.group_of[self.nearest[..., 0]] == self.group_of).mean(axis=1)

    def chance(self) -> float:
        """The fraction for neighbors drawn at random."""
        sizes = np.array([group.size for group in self.groups], dtype=float)
        return float((sizes * (sizes - 1)).sum() / max(sizes.sum() * (sizes.sum() - 1), 1))

    def caption(self, layer: int) -> str:
        """What a reader of the drawing of a layer, from 0, should know."""
        if not layer:
            return "one vector for all uses of a spelling, and the words most similar to it"
        drawn = f"two principal components, {self.explained[layer - 1]:.0%} of the variance"
        if self.grouped_by == CLUSTER or len(self.uses) == 1:
            return drawn
        same, chance = f"{self.agreement()[layer - 1]:.0%}", f"{self.chance():.0%}"
        return f"{drawn}; the nearest use has the same {self.grouped_by}: {same} (by chance: {chance})"


def map_uses(
    embedder: ElmoEmbedder,
    found: WordUses,
    static: StaticWords,
    grouped_by: str = CLUSTER,
    num_clusters: int | None = None,
    count: int = 5,
) -> UseMap:
    """Lay a word's uses out with the `count` nearest ones of each, and its spellings with their nearest words.

    The labels of the uses, which are what `grouped_by` says, make the groups; "cluster" groups by the top layer.
    """
    layers = embed_uses(embedder, found.uses)
    if grouped_by == CLUSTER or found.labels is None:
        grouped_by = CLUSTER
        _, group_of = _number_groups([str(number) for number in cluster(unit(layers[-1]), num_clusters)])
        names = [f"cluster {number + 1}" for number in range(group_of.max() + 1)]
    else:
        names, group_of = _number_groups(found.labels)
    order = np.argsort(group_of, kind="stable")
    found, group_of, layers = found.select(order), group_of[order], layers[:, order]
    around = _words_around(found.uses, group_of)
    projected = [project(each) for each in layers[1:]]
    ranked = [nearest_of(vectors, count) for vectors in unit(layers[1:])]
    forms = _static_forms(found.uses, static)
    shown = forms[:_MAX_FORMS]
    words = list(dict.fromkeys([form.form for form in shown] + [word for form in shown for word, _ in form.nearest]))
    return UseMap(
        found,
        grouped_by,
        [Group(*each) for each in zip(names, np.bincount(group_of).tolist(), around, strict=True)],
        group_of,
        np.stack([points for points, _ in projected]),
        [explained for _, explained in projected],
        np.stack([indices for indices, _ in ranked]),
        np.stack([similarities for _, similarities in ranked]),
        forms,
        dict(zip(words, project(static_vectors(embedder, words))[0], strict=True)),
    )


def _static_forms(uses: Sequence[Use], static: StaticWords) -> list[StaticForm]:
    """The spellings of a word with their nearest words, most of these for the spelling that most uses have."""
    uses_of: dict[str, list[int]] = {}
    for index, use in enumerate(uses):
        uses_of.setdefault(use.word, []).append(index)
    folded = {form.casefold() for form in uses_of}
    forms: list[StaticForm] = []
    for form in sorted(uses_of, key=lambda form: (-len(uses_of[form]), form)):
        count = _NEAREST_WORDS if forms else _MOST_NEAREST_WORDS
        nearest = [each for each in static.nearest(form, count + len(folded)) if each[0].casefold() not in folded]
        forms.append(StaticForm(form, uses_of[form], nearest[:count]))
    return forms


def cluster(vectors: np.ndarray, num_clusters: int | None = None) -> np.ndarray:
    """The index of each vector's cluster, by k-means, (N,); the same each time.

    Without a number there are 2 to 6, whichever has the best silhouette (Rousseeuw 1987), and one for few uses.
    """
    kmeans, metrics = (require(f"sklearn.{name}", "clusters", "look") for name in ("cluster", "metrics"))
    distinct = len(np.unique(vectors, axis=0))
    numbers = range(2, min(_MAX_CLUSTERS, distinct // 2) + 1) if num_clusters is None else [num_clusters]
    if num_clusters is not None and num_clusters > distinct:
        raise ValueError(f"--num_clusters is {num_clusters} for {distinct} distinct uses; it must be 1 to {distinct}.")
    divided = [kmeans.KMeans(number, n_init=4, random_state=0).fit(vectors).labels_ for number in numbers]
    if len(divided) < 2:
        return divided[0] if divided else np.zeros(len(vectors), dtype=int)
    return max(divided, key=lambda labels: metrics.silhouette_score(vectors, labels))


def nearest_of(vectors: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices and the cosines of the `count` vectors of length 1 most similar to each, others than itself."""
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, -np.inf)
    indices = np.argsort(-similarities, axis=1, kind="stable")[:, : min(count, len(vectors) - 1)]
    return indices, np.take_along_axis(similarities, indices, axis=1)


def project(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """Vectors (N, D) on their two principal components, (N, 2), and the fraction of the variance that those have."""
    centered = vectors - vectors.mean(axis=0)
    left, lengths, _ = np.linalg.svd(centered.astype(np.float64), full_matrices=False)
    points = np.zeros((len(vectors), 2))
    axes = min(2, len(lengths))
    points[:, :axes] = left[:, :axes] * lengths[:axes]
    # An axis may point either way: the farthest point, the first of several, is at the right, or at the top.
    is_farthest = np.abs(points) >= 0.999 * np.abs(points).max(axis=0)
    farthest = points[is_farthest.argmax(axis=0), [0, 1]]
    points *= np.where(farthest < 0, -1, 1)
    total = float((lengths**2).sum())
    return points, float((lengths[:axes] ** 2).sum()) / total if total else 1.0


def _number_groups(labels: Sequence[str]) -> tuple[list[str], np.ndarray]:
    names = [name for name, _ in sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0]))]
    indices = {name: min(index, MAX_GROUPS - 1) for index, name in enumerate(names)}
    group_of = np.array([indices[label] for label in labels])
    return [*names[: MAX_GROUPS - 1], OTHERS] if len(names) > MAX_GROUPS else names, group_of


def _words_around(uses: Sequence[Use], group_of: np.ndarray, count: int = 5) -> list[list[str]]:
    """For each group the words that stand near many of its uses, and near few of the others."""
    forms = {use.word.casefold() for use in uses}
    near = [_context(use) - forms for use in uses]
    everywhere = Counter(chain.from_iterable(near))
    chosen = []
    for group, size in enumerate(np.bincount(group_of)):
        inside = Counter(chain.from_iterable(near[use] for use in np.flatnonzero(group_of == group)))
        outside = len(uses) - size
        # How much more often a word stands near these uses than near others; half a use keeps the rare ones in bounds.
        ratios = {
            word: (uses_of + 0.5) / (size + 1) * (outside + 1) / (everywhere[word] - uses_of + 0.5)
            for word, uses_of in inside.items()
            if uses_of > 1
        }
        weights = {word: inside[word] * math.log(ratio) for word, ratio in ratios.items() if ratio > _LEAST_RATIO}
        chosen.append(sorted(weights, key=lambda word: (-weights[word], word))[:count])
    return chosen


def _context(use: Use) -> set[str]:
    return {word.casefold() for word in chain(*use.around(_AROUND)) if any(map(str.isalpha, word))}
