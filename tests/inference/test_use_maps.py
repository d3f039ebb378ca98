"""Maps of uses: clusters are found, neighbors are the nearest, projections keep distances, and words are legible."""

import functools
import itertools
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo.inference.use_maps import MAX_GROUPS, OTHERS, cluster, map_uses, nearest_of, project
from hf_elmo.inference.use_page import HEIGHT, WIDTH, draw_static, render_page
from hf_elmo.inference.word_uses import StaticWords, UseGatherer

SENTENCES = [f"they play {what} here".split() for what in "chess cards ball harp flute drums piano tennis".split()]


@pytest.fixture
def map_of(embedder):
    return functools.partial(draw, embedder)


def draw(embedder, labels=None, sentences=SENTENCES, **options):
    gatherer = UseGatherer([["play"]])
    tags = [None if labels is None else [labels[row]] * len(words) for row, words in enumerate(sentences)]
    gatherer.read(zip(sentences, tags, strict=True))
    (found,) = gatherer.found(100)
    return map_uses(embedder, found, StaticWords(embedder, gatherer.counts), **options)


def test_clusters_are_found_and_counted():
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(3, 5)) * 10
    vectors = np.repeat(middles, 8, axis=0) + rng.normal(size=(24, 5)) * 0.1
    numbers = cluster(vectors)
    assert len(set(numbers)) == 3
    assert all(len(set(numbers[start : start + 8])) == 1 for start in (0, 8, 16))
    assert len(set(cluster(vectors, 5))) == 5
    assert cluster(vectors[:2]).tolist() == [0, 0]
    assert_refused(ValueError, ("--num_clusters", "9"), cluster, vectors[:8], 9)


def test_the_nearest_have_the_largest_cosines():
    unit = np.eye(4)[[0, 0, 1, 2]] + 0.1
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    numbers, cosines = nearest_of(unit, 2)
    assert numbers[:2, 0].tolist() == [1, 0]
    np.testing.assert_allclose(cosines, np.take_along_axis(unit @ unit.T, numbers, axis=1))
    assert nearest_of(unit, 9)[0].shape == (4, 3)


def test_labels_make_the_groups_one_behind_the_other(map_of):
    drawn = map_of([*"bacbabca"], grouped_by="sense")
    assert [(group.name, group.size) for group in drawn.groups] == [("a", 3), ("b", 3), ("c", 2)]
    assert drawn.group_of.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert drawn.found.labels == [*"aaabbbcc"]
    # A use keeps its vector when it moves: the one place in layer 0, and its own in each other one.
    assert drawn.points.shape == (2, 8, 2) and drawn.nearest.shape == (2, 8, 5)
    again = map_of([*"abcdefgh"], grouped_by="sense")
    for one, other in itertools.product(range(8), repeat=2):
        if drawn.uses[one].words == again.uses[other].words:
            np.testing.assert_allclose(drawn.points[:, one], again.points[:, other], atol=1e-6)
    chance = (3 * 2 + 3 * 2 + 2) / (8 * 7)
    assert drawn.chance() == pytest.approx(chance)
    groups = drawn.group_of
    same = [[groups[rows[use][0]] == groups[use] for use in range(8)] for rows in drawn.nearest]
    np.testing.assert_allclose(drawn.agreement(), np.mean(same, axis=1))
    assert f"{chance:.0%}" in drawn.caption(1) and "sense" in drawn.caption(1)


def test_many_labels_share_the_last_group(map_of):
    sentences = [["play", f"w{number}"] for number in range(20)]
    drawn = map_of([f"s{min(number, 11):02}" for number in range(20)], sentences, grouped_by="sense")
    assert len(drawn.groups) == MAX_GROUPS and drawn.groups[-1].name == OTHERS
    assert sum(group.size for group in drawn.groups) == 20


def test_the_words_around_a_group_are_its_own(map_of):
    sentences = [["play", tool, "now", str(number)] for number, tool in enumerate(["harp"] * 4 + ["ball"] * 3)]
    drawn = map_of([*"aaaabbb"], sentences, grouped_by="sense")
    assert [group.words_around for group in drawn.groups] == [["harp"], ["ball"]]


def test_a_single_use_can_be_drawn(map_of):
    drawn = map_of(sentences=SENTENCES[:1])
    assert drawn.nearest.shape == (2, 1, 0) and np.isnan(drawn.agreement()).all() and len(drawn.groups) == 1
    assert "nan" not in render_page([drawn], [])


def test_words_of_layer_0_are_on_the_drawing_and_the_spelling_comes_first(map_of):
    # Letters do not cover others where dots lie close together, beside one far away.
    close = {"play": (0, 0), "plays": (0.1, 0), "game": (0, 0.1), "chess": (0.1, 0.1), "far": (30, 20)}
    drawn = replace(map_of(), static_points={word: np.array(point) for word, point in close.items()})
    texts = list(ElementTree.fromstring(draw_static(drawn)).iter("text"))
    assert [(text.text, text.get("class")) for text in texts] == [
        (word, "form" if word == "play" else "word") for word in close
    ]
    boxes = []
    for text in texts:
        size = 15 if text.get("class") == "form" else 13
        left, bottom = float(text.get("x")), float(text.get("y")) + 0.2 * size
        boxes.append((left, bottom - size, left + 0.58 * size * len(text.text), bottom))
        assert min(boxes[-1]) >= 0 and boxes[-1][2] <= WIDTH and boxes[-1][3] <= HEIGHT
    for one, other in itertools.combinations(boxes, 2):
        assert any(one[side + 2] <= other[side] + 0.11 or other[side + 2] <= one[side] + 0.11 for side in (0, 1))


# Projections


@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 100))
def test_what_lies_in_a_plane_keeps_its_distances(count, dims, seed):
    rng = np.random.default_rng(seed)
    flat = rng.normal(size=(count, 2))
    turned = flat @ np.linalg.qr(rng.normal(size=(dims, 2)))[0].T + rng.normal(size=dims)
    places, shown = project(turned)

    def distances(points):
        return np.linalg.norm(points[:, None] - points, axis=-1)

    np.testing.assert_allclose(distances(places), distances(flat), atol=1e-6)
    assert shown == pytest.approx(1)


def test_which_way_an_axis_points_is_no_accident_of_the_computation():
    vectors = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_allclose(project(vectors[:, ::-1])[0], project(vectors)[0], atol=1e-6)
