"""Maps of a word's uses: where each lies in two dimensions in every layer, in which group, and beside which others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ..model.modeling_elmo import ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .use_projections import Projection, project, project_by_umap
from .word_uses import StaticWords, Use, WordUses, embed_uses, static_vectors, unit

CLUSTER = "cluster"

# More groups than these would share their colours: the smallest are one group.
MAX_GROUPS = 8
OTHERS = "others"
# Of the groups. They stay apart for colour-blind readers and in print (Okabe and Ito 2008).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a600", "#8a8f96")
# Words on either side of a use that are looked at to say what its group is about.
_AROUND = 5
# By this factor they must be more frequent than around other uses.
_TELLING = 1.25
_MAX_CLUSTERS = 6
# Words shown beside the commonest spelling and beside each other one, and spellings that are drawn.
_MOST_NEAREST_WORDS, _NEAREST_WORDS, _MAX_FORMS = 8, 2, 3


@dataclass(frozen=True)
class Group:
    """Uses that are drawn in one colour.

    Args:
        name: A sense, a part of speech, or which cluster it is.
        size: How many uses it has.
        words_around: What stands around its uses, and not around others.
    """

    name: str
    size: int
    words_around: list[str]


@dataclass(frozen=True)
class StaticForm:
    """One spelling of a word, which has one vector without context, however often it is used.

    Args:
        form: The spelling.
        uses: The numbers of the uses that have it.
        nearest: The most similar words of the text, with their cosines.
    """

    form: str
    uses: list[int]
    nearest: list[tuple[str, float]]


@dataclass(frozen=True)
class UseMap:
    """All that is drawn of the N uses of a word.

    Args:
        found: The uses, one group behind the other.
        grouped_by: What the groups are, "sense" for example, or "cluster".
        groups: By falling size, at most `MAX_GROUPS`.
        group_of: The number of each use's group, (N,).
        places: Where each use lies in each layer of the biLM, (L, N, 2).
        shown: The share of the variance that the two dimensions have in each layer, where they are principal
            components, not UMAP's.
        nearest: The numbers of the most similar other uses in each layer, nearest first, (L, N, K).
        similarities: Their cosines, (L, N, K).
        forms: The spellings, by falling number of uses.
        static_places: Where the forms and their nearest words lie by the token encoder's vectors.
    """

    found: WordUses
    grouped_by: str
    groups: list[Group]
    group_of: np.ndarray
    places: np.ndarray
    shown: list[float | None]
    nearest: np.ndarray
    similarities: np.ndarray
    forms: list[StaticForm]
    static_places: dict[str, tuple[float, float]]

    @property
    def uses(self) -> list[Use]:
        return self.found.uses

    def agreement(self) -> np.ndarray:
        """The share of the uses whose nearest use, in each layer, is of the same group, (L,); NaN for a single use."""
        if not self.nearest.shape[-1]:
            return np.full(len(self.nearest), math.nan)
        return (self.group_of[self.nearest[..., 0]] == self.group_of).mean(axis=1)

    def chance(self) -> float:
        """The share that neighbours drawn at random would have."""
        sizes = np.array([group.size for group in self.groups], dtype=float)
        return float((sizes * (sizes - 1)).sum() / max(sizes.sum() * (sizes.sum() - 1), 1))

    def caption(self, layer: int) -> str:
        """What is to be known of the drawing of a layer, from 0, in some words."""
        if not layer:
            return "one vector for all uses of a spelling, and the words most similar to it"
        share = self.shown[layer - 1]
        shown = "UMAP, nearest uses together" if share is None else f"two main components, {share:.0%} of the variance"
        if self.grouped_by == CLUSTER or len(self.uses) == 1:
            return shown
        return (
            f"{shown}; the nearest use has the same {self.grouped_by}: {self.agreement()[layer - 1]:.0%} "
            f"(by chance: {self.chance():.0%})"
        )


def map_uses(
    model: ElmoPreTrainedModel,
    tokenizer: ElmoCharTokenizer,
    found: WordUses,
    static: StaticWords,
    grouped_by: str = CLUSTER,
    clusters: int | None = None,
    cluster_layer: int = -1,
    count: int = 5,
    max_words_per_batch: int = 2048,
    projection: Projection = "pca",
) -> UseMap:
    """Lay a word's uses out.

    Args:
        model, tokenizer: A checkpoint's.
        found: The uses.
        static: The words of the text, among which the nearest ones to the word's spellings are looked for.
        grouped_by: What the labels of the uses are, which then make the groups; "cluster" groups by k-means.
        clusters: How many clusters; see `cluster`.
        cluster_layer: The layer whose vectors are clustered, from 0, or, backwards, from -1.
        count: Nearest uses of each.
        max_words_per_batch: Words computed at once.
        projection: How the biLM's layers come to two dimensions, "pca" or "umap"; layer 0 and very few uses are always
            drawn on principal components.
    Raises: ImportError or ValueError as `cluster` and `project_by_umap`; ValueError for a layer that the model lacks.
    """
    num_layers = model.config.num_hidden_layers + 1
    if not -num_layers <= cluster_layer < num_layers:
        raise ValueError(f"--cluster_layer is {cluster_layer}; this model has the layers 0 to {num_layers - 1}.")
    layers = embed_uses(model, tokenizer, found.uses, max_words_per_batch)
    if grouped_by == CLUSTER or found.labels is None:
        grouped_by = CLUSTER
        _, group_of = _number_groups([str(number) for number in cluster(unit(layers[cluster_layer]), clusters)])
        names = [f"cluster {number + 1}" for number in range(group_of.max() + 1)]
    else:
        names, group_of = _number_groups(found.labels)
    order = np.argsort(group_of, kind="stable")
    found, group_of, layers = found.select(order), group_of[order], layers[:, order]
    sizes, around = np.bincount(group_of), _words_around(found.uses, group_of)
    laid_out = [_lay_out(vectors, projection) for vectors in layers[1:]]
    ranked = [nearest_of(vectors, count) for vectors in unit(layers[1:])]
    forms, static_places = _static_forms(model, tokenizer, found.uses, static)
    return UseMap(
        found,
        grouped_by,
        [Group(name, int(size), words) for name, size, words in zip(names, sizes, around, strict=True)],
        group_of,
        np.stack([places for places, _ in laid_out]),
        [shown for _, shown in laid_out],
        np.stack([numbers for numbers, _ in ranked]),
        np.stack([similarities for _, similarities in ranked]),
        forms,
        static_places,
    )


def _lay_out(vectors: np.ndarray, projection: Projection) -> tuple[np.ndarray, float | None]:
    places = project_by_umap(vectors) if projection == "umap" else None
    return project(vectors) if places is None else (places, None)


def _static_forms(
    model: ElmoPreTrainedModel, tokenizer: ElmoCharTokenizer, uses: Sequence[Use], static: StaticWords
) -> tuple[list[StaticForm], dict[str, tuple[float, float]]]:
    """The spellings of a word with their nearest words, and where all of these lie."""
    numbers_of: dict[str, list[int]] = {}
    for number, use in enumerate(uses):
        numbers_of.setdefault(use.word, []).append(number)
    spellings = sorted(numbers_of, key=lambda form: (-len(numbers_of[form]), form))
    vectors = static_vectors(model, tokenizer, spellings)
    # Most words for the spelling that most uses have.
    counts = [_MOST_NEAREST_WORDS, *[_NEAREST_WORDS] * (len(spellings) - 1)]
    forms = [
        StaticForm(form, numbers_of[form], static.nearest(vector, spellings, count))
        for form, vector, count in zip(spellings, vectors, counts, strict=True)
    ]
    drawn = forms[:_MAX_FORMS]
    words = list(dict.fromkeys([*(form.form for form in drawn), *(word for form in drawn for word, _ in form.nearest)]))
    places, _ = project(static_vectors(model, tokenizer, words))
    return forms, {word: (float(x), float(y)) for word, (x, y) in zip(words, places, strict=True)}


def cluster(vectors: np.ndarray, clusters: int | None = None) -> np.ndarray:
    """The number of each vector's cluster, by k-means, (N,); the same each time.

    Args:
        vectors: (N, D).
        clusters: How many; None takes 2 to 6, whichever has the best silhouette (Rousseeuw 1987), and one for few uses.
    Raises: ImportError where scikit-learn is not installed; ValueError for more clusters than vectors.
    """
    try:
        from sklearn.cluster import KMeans
        from sklearn.metrics import silhouette_score
    except ImportError as error:
        raise ImportError("clusters need scikit-learn: pip install 'hf_elmo[look]'.") from error
    distinct = len(np.unique(vectors, axis=0))
    if clusters is not None and not 1 <= clusters <= distinct:
        raise ValueError(f"--clusters is {clusters} for {distinct} distinct uses; it must be 1 to {distinct}.")

    def divide(number: int) -> np.ndarray:
        return KMeans(number, n_init=4, random_state=0).fit(vectors).labels_

    if clusters is not None:
        return divide(clusters)
    divided = [divide(number) for number in range(2, min(_MAX_CLUSTERS, distinct // 2) + 1)]
    best = max(divided, key=lambda numbers: silhouette_score(vectors, numbers), default=None)
    return np.zeros(len(vectors), dtype=int) if best is None else best


def nearest_of(vectors: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers and the cosines of the vectors most similar to each, itself left out, (N, K) both.

    Args:
        vectors: Of length 1, (N, D).
        count: How many, K; fewer where there are not so many others.
    """
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, -np.inf)
    numbers = np.argsort(-similarities, axis=1, kind="stable")[:, : min(count, len(vectors) - 1)]
    return numbers, np.take_along_axis(similarities, numbers, axis=1)


def _number_groups(labels: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The names of the groups by falling size, and the number of the group of each label."""
    names = [name for name, _ in sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0]))]
    numbers = {name: min(number, MAX_GROUPS - 1) for number, name in enumerate(names)}
    group_of = np.array([numbers[label] for label in labels])
    return [*names[: MAX_GROUPS - 1], OTHERS] if len(names) > MAX_GROUPS else names, group_of


def _words_around(uses: Sequence[Use], group_of: np.ndarray, count: int = 5) -> list[list[str]]:
    """For each group the words that stand near many of its uses, and near few of the others."""
    forms = {use.word.casefold() for use in uses}
    near = [_context(use) - forms for use in uses]
    everywhere = Counter(chain.from_iterable(near))
    chosen = []
    for number, size in enumerate(np.bincount(group_of)):
        inside = Counter(chain.from_iterable(near[use] for use in np.flatnonzero(group_of == number)))
        outside = len(uses) - size
        # How much more often a word stands near these uses than near others; half a use keeps the rare ones in bounds.
        ratios = {
            word: (uses_of + 0.5) / (size + 1) * (outside + 1) / (everywhere[word] - uses_of + 0.5)
            for word, uses_of in inside.items()
            if uses_of > 1
        }
        weights = {word: inside[word] * math.log(ratio) for word, ratio in ratios.items() if ratio > _TELLING}
        telling = sorted(weights, key=lambda word: (-weights[word], word))
        chosen.append(telling[:count])
    return chosen


def _context(use: Use) -> set[str]:
    before, after = use.words[max(0, use.position - _AROUND) : use.position], use.words[use.position + 1 :][:_AROUND]
    return {word.casefold() for word in (*before, *after) if any(map(str.isalpha, word))}
