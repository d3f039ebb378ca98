"""Maps of a word's uses, where each lies in every layer and beside which others, and the page that shows them.

Letters in shapes: N uses, D numbers of a vector, L biLM layers, K nearest uses.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..given import require
from .embedder import ElmoEmbedder
from .pages import fill_page
from .word_uses import StaticWords, Use, WordUses, embed_uses, static_vectors, unit

CLUSTER = "cluster"
# Colors of the groups. They stay apart for color-blind readers and in print (Okabe and Ito 2008).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b8a600", "#8a8f96")
# More groups would share colors: the smallest are one group.
MAX_GROUPS = len(COLORS)
OTHERS = "others"
# Words on either side of a use from which the words around a group are taken, and by which factor these must be more
# frequent there than around other uses.
_AROUND, _LEAST_RATIO = 5, 1.25
_MAX_CLUSTERS = 6
# Words shown beside the commonest spelling and beside each other one, and spellings that are drawn.
_MOST_NEAREST_WORDS, _NEAREST_WORDS, _MAX_FORMS = 8, 2, 3
# Size of a drawing, of its dots and of its letters.
WIDTH, HEIGHT, _MARGIN = 420, 360, 22
_RADIUS, _WORD_RADIUS, _FONT_SIZE, _FORM_FONT_SIZE = 5.5, 3.5, 13, 15
# The width of a letter as a fraction of the size of its font, about.
_LETTER = 0.58
# How many lines below its dot a word is tried to stand.
_LINES = (0, 1, -1, 2, -2, 3, -3)
# Words shown on either side of a use.
_SHOWN_AROUND = 16


class Group(NamedTuple):
    """Uses in one color: a sense, a part of speech or a cluster, its size, and words that stand around its uses."""

    name: str
    size: int
    words_around: list[str]


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
    forms: dict[str, list[tuple[str, float]]]  # the spellings, by falling number of uses: nearest words, their cosines
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
        sizes, count = np.array([group.size for group in self.groups], dtype=float), len(self.uses)
        return float((sizes * (sizes - 1)).sum() / max(count * (count - 1), 1))

    def caption(self, layer: int) -> str:
        """What a reader of the drawing of a layer of the biLM, from 1, should know."""
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
    found = replace(found, uses=[found.uses[index] for index in order])
    group_of, layers = group_of[order], layers[:, order]
    around = _words_around(found.uses, group_of)
    projected = [project(each) for each in layers[1:]]
    ranked = [nearest_of(vectors, count) for vectors in unit(layers[1:])]
    forms = _spellings(found.uses, static)
    shown = list(forms)[:_MAX_FORMS]
    words = list(dict.fromkeys(shown + [word for form in shown for word, _ in forms[form]]))
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


def _spellings(uses: Sequence[Use], static: StaticWords) -> dict[str, list[tuple[str, float]]]:
    """The spellings of a word, the commonest first, with their nearest other words, most of these for the first."""
    forms: dict[str, list[tuple[str, float]]] = {}
    counts = Counter(use.word for use in uses)
    folded = {form.casefold() for form in counts}
    for form, _ in counts.most_common():
        count = _NEAREST_WORDS if forms else _MOST_NEAREST_WORDS
        nearest = [each for each in static.nearest(form, count + len(folded)) if each[0].casefold() not in folded]
        forms[form] = nearest[:count]
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
    centered = (vectors - vectors.mean(axis=0)).astype(np.float64)
    # Beside a row of zeros a single vector has two components, too.
    left, lengths, _ = np.linalg.svd(np.pad(centered, ((0, 1), (0, 0))), full_matrices=False)
    points = (left * lengths)[:-1, :2]
    # An axis may point either way: the farthest point, the first of several, is at the right, or at the top.
    is_farthest = np.abs(points) >= 0.999 * np.abs(points).max(axis=0)
    points *= np.where(points[is_farthest.argmax(axis=0), [0, 1]] < 0, -1, 1)
    total = float((lengths**2).sum())
    return points, float((lengths[:2] ** 2).sum()) / total if total else 1.0


def _number_groups(labels: Sequence[str]) -> tuple[list[str], np.ndarray]:
    names = [name for name, _ in sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0]))]
    group_of = np.array([min(names.index(label), MAX_GROUPS - 1) for label in labels])
    return [*names[: MAX_GROUPS - 1], OTHERS] if len(names) > MAX_GROUPS else names, group_of


def _words_around(uses: Sequence[Use], group_of: np.ndarray, count: int = 5) -> list[list[str]]:
    """For each group the words that stand near many of its uses, and near few of the others."""
    forms = {use.word.casefold() for use in uses}
    near = [
        {word.casefold() for word in chain(*use.around(_AROUND)) if any(map(str.isalpha, word))} - forms for use in uses
    ]
    everywhere = Counter(chain.from_iterable(near))
    chosen = []
    for group, size in enumerate(np.bincount(group_of)):
        inside = Counter(chain.from_iterable(near[use] for use in np.flatnonzero(group_of == group)))
        weights = {}
        for word, number in inside.items():
            # How much more often it stands near these uses than near others; half a use keeps rare ones in bounds.
            others = (everywhere[word] - number + 0.5) / (len(uses) - size + 1)
            ratio = (number + 0.5) / (size + 1) / others
            if number > 1 and ratio > _LEAST_RATIO:
                weights[word] = number * math.log(ratio)
        chosen.append(sorted(weights, key=lambda word: (-weights[word], word))[:count])
    return chosen


# The page


def render_page(maps: Sequence[UseMap], facts: Sequence[str]) -> str:
    """One HTML file, which needs nothing beside it, of some words, a map for each; facts stand below its heading.

    A click on a use shows its nearest ones.
    """
    names = [each.found.word for each in maps]
    links = "".join(f'<a href="#word-{number}">{escape(name)}</a>' for number, name in enumerate(names))
    return fill_page(
        "uses.html",
        f"Uses of {', '.join(names)}",
        facts,
        scripts=True,
        contents=f"<nav>{links}</nav>" if len(maps) > 1 else "",
        sections="\n".join(_section(each, number) for number, each in enumerate(maps)),
    )


def _section(drawn: UseMap, number: int) -> str:
    found, ids = drawn.found, [f"use-{number}-{use}" for use in range(len(drawn.uses))]
    of_all = f", of {found.num_found:,} in the text" if found.num_found > len(found.uses) else ""
    without_context = "one vector for all uses of a spelling, and the words most similar to it"
    figures = [_figure("layer 0: no context", without_context, draw_static(drawn))]
    for layer in range(1, len(drawn.points) + 1):
        figures.append(_figure(f"layer {layer}", drawn.caption(layer), _draw_layer(drawn, layer, ids)))
    colors = [COLORS[group] for group in drawn.group_of]
    lines = (_line(use, id_, color) for use, id_, color in zip(drawn.uses, ids, colors, strict=True))
    return f"""<section id="word-{number}">
<h2 lang="">{escape(found.word)}</h2>
<p class="faint">{len(found.uses):,} uses{of_all}, colored by {escape(drawn.grouped_by)}</p>
<ul class="legend">{"".join(map(_legend_entry, drawn.groups, COLORS))}</ul>
<div class="panels">
{"".join(figures)}</div>
<p class="hint faint">Click a use, a dot or a line, to see its nearest uses in each layer.</p>
<p class="choice" lang="" hidden></p>
<div class="answers" lang=""></div>
<ol class="uses" lang="">
{"".join(lines)}</ol>
<script type="application/json">{_data(drawn)}</script>
</section>"""


def _legend_entry(group: Group, color: str) -> str:
    around = f"; around it: <i>{escape(', '.join(group.words_around))}</i>" if group.words_around else ""
    return f'<li><span class="chip" style="--color:{color}"></span>{escape(group.name)} ({group.size:,}){around}</li>'


def _figure(title: str, caption: str, drawing: str) -> str:
    return f"<figure><figcaption>{title}<small>{escape(caption)}</small></figcaption>\n{drawing}</figure>\n"


def draw_static(drawn: UseMap) -> str:
    """Layer 0, the word's spellings first; no word covers another one, where there is room."""
    words = sorted(drawn.static_points, key=lambda word: word not in drawn.forms)
    sizes = [_FORM_FONT_SIZE if word in drawn.forms else _FONT_SIZE for word in words]
    widths = [len(word) * _LETTER * size for word, size in zip(words, sizes, strict=True)]
    # Words stand to the right of their dots, where there is room for each.
    dots = _fit(np.array([drawn.static_points[word] for word in words]), max(widths)).tolist()
    taken: list[tuple[float, float, float, float]] = []  # boxes: left, top, right, bottom
    parts = []
    for word, size, width, (x, y) in zip(words, sizes, widths, dots, strict=True):
        left = x + _RADIUS + 3
        tops = [y + (lines - 0.5) * size for lines in _LINES]
        free = (
            top
            for top in tops
            if 0 <= top <= HEIGHT - size
            and not any(a < left + width and left < c and b < top + size and top < d for a, b, c, d in taken)
        )
        top = next(free, tops[0])
        taken.append((left, top, left + width, top + size))
        kind, radius = ("form", _RADIUS) if word in drawn.forms else ("word", _WORD_RADIUS)
        parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
            f'<text class="{kind}" x="{left:.1f}" y="{top + 0.8 * size:.1f}">{escape(word)}</text>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" lang="">{"".join(parts)}</svg>\n'


def _draw_layer(drawn: UseMap, layer: int, ids: Sequence[str]) -> str:
    parts = []
    dots = _fit(drawn.points[layer - 1])
    for use, group, id_, (x, y) in zip(drawn.uses, drawn.group_of, ids, dots, strict=True):
        title = f"{drawn.groups[group].name}: {use.snippet()}"
        parts.append(
            f'<a href="#{id_}"><circle class="use" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" '
            f'style="--color:{COLORS[group]}"><title>{escape(title)}</title></circle></a>'
        )
    return f'<svg class="layer" viewBox="0 0 {WIDTH} {HEIGHT}" lang="">{"".join(parts)}</svg>\n'


def _line(use: Use, id_: str, color: str) -> str:
    left, right = map(" ".join, use.around(_SHOWN_AROUND))
    return (
        f'<li id="{id_}"><a href="#{id_}" style="--color:{color}"><span class="left">{escape(left)}</span>'
        f"<b>{escape(use.word)}</b><span>{escape(right)}</span></a></li>\n"
    )


def _data(drawn: UseMap) -> str:
    """What the page's script reads: the nearest words by spelling, and the nearest uses by layer and use."""
    cosines = drawn.similarities.astype(float).round(3).tolist()
    content = {
        "forms": {form: [(word, round(cosine, 3)) for word, cosine in near] for form, near in drawn.forms.items()},
        "nearest": [
            [list(zip(*each, strict=True)) for each in zip(*rows, strict=True)]
            for rows in zip(drawn.nearest.tolist(), cosines, strict=True)
        ],
    }
    # No text may end the element that it stands in.
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _fit(points: np.ndarray, room_at_right: float = 0) -> np.ndarray:
    """Points (N, 2) in the middle of the drawing, as large as they fit in; what is above is at smaller numbers."""
    room = np.array([WIDTH - 2 * _MARGIN - room_at_right, HEIGHT - 2 * _MARGIN])
    lowest, highest = points.min(axis=0), points.max(axis=0)
    scale = (room / np.maximum(highest - lowest, 1e-9)).min()
    return (points - (lowest + highest) / 2) * np.array([scale, -scale]) + room / 2 + _MARGIN
