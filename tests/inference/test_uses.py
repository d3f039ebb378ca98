"""Uses of words: found once each and labeled, mapped by their own vectors, and drawn on a page that answers clicks."""

import functools
import gzip
import itertools
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from conftest import shared_data
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

from hf_elmo.inference.use_maps import (
    HEIGHT,
    MAX_GROUPS,
    OTHERS,
    WIDTH,
    cluster,
    draw_static,
    map_uses,
    nearest_of,
    project,
    render_page,
)
from hf_elmo.inference.word_uses import StaticWords, embed_uses, gather_uses, holds_senses, read_senses, static_vectors

SENTENCES = [line.split() for line in ("they play chess", "a good play", "they play chess", "Play on , play !", "no")]
MANY = [f"they play {what} here".split() for what in "chess cards ball harp flute drums piano tennis".split()]


def gather(sentences, asked=None, max_uses=100, labels=None):
    return gather_uses(zip(sentences, labels or [None] * len(sentences), strict=True), max_uses, asked)


def places(found):
    return [(use.sentence, use.position) for use in found.uses]


# In a text


def test_each_form_is_found_once_and_as_it_stands():
    (play, both, no), counts = gather(SENTENCES, [["play"], ["Play", "chess"], ["no"]])
    assert (play.word, play.labels, play.num_found, places(play)) == ("play", None, 3, [(0, 1), (1, 2), (3, 3)])
    assert (both.word, places(both), places(no)) == ("Play", [(0, 2), (3, 0)], [(4, 0)])
    assert counts["play"] == 4 and counts.total() == 15
    assert_refused(ValueError, ("--words", "'go,goes'"), gather, SENTENCES, [["play"], ["go", "goes"]])


def test_of_many_uses_the_same_ones_are_taken_in_the_texts_order():
    sentences = [["play", str(number)] for number in range(50)]
    ((some,), _), ((fewer,), _) = (gather(sentences, [["play"]], count) for count in (20, 10))
    assert (some.num_found, len(some.uses)) == (50, 20)
    assert places(some) == sorted(places(some)) and set(places(fewer)) < set(places(some))
    # Which ones does not hang on what else is in the text.
    (again,), _ = gather([*sentences[::-1], ["more"]], [["play"]], 20)
    assert {use.words for use in again.uses} == {use.words for use in some.uses}


def test_labels_go_with_the_uses_and_say_which_words_are_meant():
    tags = [["PRON", "VERB", "NOUN"], ["DET", "ADJ", "NOUN"]]
    assert gather(SENTENCES[:2], [["play"]], labels=tags)[0][0].labels == ["VERB", "NOUN"]
    senses = [[None, "do", None], [None, None, "drama"]]
    for asked in (None, [["play"]]):
        (play,), _ = gather(SENTENCES[:2], asked, labels=senses)
        assert (play.word, play.labels, places(play)) == ("play", ["do", "drama"], [(0, 1), (1, 2)])
    # The same sentence with a label at another of its words is another use.
    (play,), _ = gather([["play", "to", "play"]] * 3, labels=[["a", None, None], [None, None, "b"], ["a", None, None]])
    assert (play.labels, places(play)) == (["a", "b"], [(0, 0), (1, 2)])


def test_vectors_are_those_of_the_sentences_and_without_context_those_of_the_words(embedder):
    (play,), counts = gather(SENTENCES, [["play"]])
    vectors = embed_uses(embedder, play.uses)
    assert vectors.shape == (3, 3, 12)
    for number, use in enumerate(play.uses):
        alone = embedder.embed_sentence(use.words, "all")
        np.testing.assert_allclose(vectors[:, number], alone[:, use.position], atol=REORDERED_FLOAT32)
    others = ["they", "chess", "a", "good", "on", "no"]  # without marks, and other spellings of the word
    cosines = static_vectors(embedder, others) @ static_vectors(embedder, ["play"])[0]
    wanted = sorted(zip(others, cosines.tolist(), strict=True), key=lambda item: -item[1])
    for (word, cosine), nearest in zip(wanted[:3], StaticWords(embedder, counts).nearest("play", 3), strict=True):
        assert nearest == (word, pytest.approx(cosine, rel=1e-5))


# In a file of senses

RECORD = {"id": "1", "sense": "S", "index": 1, "tokens": ["a", "word"], "pos": ["DT", "NN"]}


def test_senses_are_read_packed_or_not_and_other_files_hold_none(tmp_path):
    text = "\n".join([json.dumps(RECORD), "", json.dumps({**RECORD, "index": 0, "sense": "T"})])
    (tmp_path / "a.jsonl").write_text(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for path in (tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"):
        assert holds_senses(str(path))
        assert read_senses(str(path)) == [(["a", "word"], [None, "S"]), (["a", "word"], ["T", None])]
    for name, content in (("b.jsonl", '{"text": "a word"}'), ("b.txt", text), ("empty.jsonl", "")):
        (tmp_path / name).write_text(content)
        assert not holds_senses(str(tmp_path / name))
    assert_refused(ValueError, ("file", "empty.jsonl"), read_senses, str(tmp_path / "empty.jsonl"))


def test_a_record_that_is_no_use_is_named_by_its_line(tmp_path):
    for change in (
        *({"tokens": tokens} for tokens in ("a word", [], ["a", 1], ["a", ""], None)),
        *({"index": index} for index in (2, -1, True, "1", None)),
        *({"sense": sense} for sense in ("", 3, None, "\ud800")),
    ):
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [RECORD, {**RECORD, **change}])))
        assert_refused(ValueError, ("line 2", "a.jsonl"), read_senses, str(tmp_path / "a.jsonl"))


def test_real_files_of_senses_are_read_whole():
    uses = read_senses(str(shared_data("senseval/interest.jsonl")))
    labeled = {word for words, labels in uses for word, label in zip(words, labels, strict=True) if label is not None}
    assert len(uses) == 2368 and labeled <= {"interest", "interests", "interest-", "interest's"}


# Maps


@pytest.fixture(scope="module")
def map_of(embedder):
    return functools.partial(draw, embedder)


def draw(embedder, labels=None, sentences=MANY, **options):
    tags = None if labels is None else [[label] * len(words) for label, words in zip(labels, sentences, strict=True)]
    (found,), counts = gather(sentences, [["play"]], labels=tags)
    return map_uses(embedder, found, StaticWords(embedder, counts), **options)


def test_clusters_are_found_and_counted():
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.normal(size=(3, 5)) * 10, 8, axis=0) + rng.normal(size=(24, 5)) * 0.1
    numbers = cluster(vectors)
    assert len(set(numbers)) == 3
    assert all(len(set(numbers[start : start + 8])) == 1 for start in (0, 8, 16))
    assert len(set(cluster(vectors, 5))) == 5 and cluster(vectors[:2]).tolist() == [0, 0]
    assert_refused(ValueError, ("--num_clusters", "9"), cluster, vectors[:8], 9)


def test_the_nearest_have_the_largest_cosines():
    unit = np.eye(4)[[0, 0, 1, 2]] + 0.1
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    numbers, cosines = nearest_of(unit, 2)
    assert numbers[:2, 0].tolist() == [1, 0] and nearest_of(unit, 9)[0].shape == (4, 3)
    np.testing.assert_allclose(cosines, np.take_along_axis(unit @ unit.T, numbers, axis=1))


def test_labels_make_the_groups_one_behind_the_other(map_of):
    drawn = map_of([*"bacbabca"], grouped_by="sense")
    assert [(group.name, group.size) for group in drawn.groups] == [("a", 3), ("b", 3), ("c", 2)]
    assert drawn.group_of.tolist() == [0, 0, 0, 1, 1, 1, 2, 2] and drawn.found.labels == [*"aaabbbcc"]
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


def test_many_labels_share_the_last_group_and_a_group_has_words_around_it(map_of):
    sentences = [["play", f"w{number}"] for number in range(20)]
    drawn = map_of([f"s{min(number, 11):02}" for number in range(20)], sentences, grouped_by="sense")
    assert len(drawn.groups) == MAX_GROUPS and drawn.groups[-1].name == OTHERS
    assert sum(group.size for group in drawn.groups) == 20
    sentences = [["play", tool, "now", str(number)] for number, tool in enumerate(["harp"] * 4 + ["ball"] * 3)]
    drawn = map_of([*"aaaabbb"], sentences, grouped_by="sense")
    assert [group.words_around for group in drawn.groups] == [["harp"], ["ball"]]


@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 100))
def test_what_lies_in_a_plane_keeps_its_distances(count, dims, seed):
    rng = np.random.default_rng(seed)
    flat = rng.normal(size=(count, 2))
    turned = flat @ np.linalg.qr(rng.normal(size=(dims, 2)))[0].T + rng.normal(size=dims)
    points, shown = project(turned)
    distances = [np.linalg.norm(each[:, None] - each, axis=-1) for each in (points, flat)]
    np.testing.assert_allclose(*distances, atol=1e-6)
    assert shown == pytest.approx(1)
    # Which way an axis points is no accident of the computation.
    np.testing.assert_allclose(project(turned[:, ::-1])[0], points, atol=1e-6)


# The page

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def maps(embedder):
    sentences = [f"they {form} {what} & {EVIL} $x$".split() for what in "abcde" for form in ("play", "Play")]
    words, counts = gather(sentences, [["play", "Play"], ["they"]])
    return [map_uses(embedder, found, StaticWords(embedder, counts), num_clusters=2) for found in words]


@pytest.fixture(scope="module")
def page(maps):
    return render_page(maps, ["model <a>", "text b"])


def test_words_of_layer_0_are_on_the_drawing_and_the_spelling_comes_first(map_of):
    # Letters do not cover others where dots lie close together, beside one far away.
    close = {"game": (0, 0.1), "plays": (0.1, 0), "play": (0, 0), "chess": (0.1, 0.1), "far": (30, 20)}
    drawn = replace(map_of(), static_points={word: np.array(point) for word, point in close.items()})
    boxes = []
    for text in ElementTree.fromstring(draw_static(drawn)).iter("text"):
        assert text.get("class") == ("word" if boxes else "form") and (boxes or text.text == "play")
        size = 13 if boxes else 15
        left, bottom = float(text.get("x")), float(text.get("y")) + 0.2 * size
        boxes.append((left, bottom - size, left + 0.58 * size * len(text.text), bottom))
        assert min(boxes[-1]) >= 0 and boxes[-1][2] <= WIDTH and boxes[-1][3] <= HEIGHT
    for one, other in itertools.combinations(boxes, 2):
        assert any(one[side + 2] <= other[side] + 0.11 or other[side + 2] <= one[side] + 0.11 for side in (0, 1))


def test_every_use_is_a_line_and_a_dot_in_each_layer(page, maps, map_of):
    for number, drawn in enumerate(maps):
        for use in range(len(drawn.uses)):
            assert page.count(f'<li id="use-{number}-{use}">') == 1
            assert page.count(f'<a href="#use-{number}-{use}"><circle') == 2
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        for dot in ElementTree.fromstring(drawing).iter("circle"):
            assert 0 <= float(dot.get("cx")) <= WIDTH and 0 <= float(dot.get("cy")) <= HEIGHT
    data = [json.loads(each) for each in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert [len(each["nearest"]) for each in data] == [2, 2]
    cosines = maps[0].similarities[1, 3].astype(float).round(3).tolist()
    assert data[0]["nearest"][1][3] == list(map(list, zip(maps[0].nearest[1, 3].tolist(), cosines, strict=True)))
    assert data[0]["forms"] == {"play": [[word, round(cosine, 3)] for word, cosine in maps[0].forms["play"]]}
    alone = map_of(sentences=MANY[:1])
    assert np.isnan(alone.agreement()).all() and "nan" not in render_page([alone], [])


def test_the_page_needs_nothing_beside_it_and_runs_nothing_of_the_text(page):
    assert "alert(1)" in page and EVIL not in page and "model &lt;a&gt;" in page
    assert page.count("<script") == 3 and "default-src 'none'" in page
    assert "://" not in page and not re.search(r"\b(src|import)\s*[=(]", page)


def test_a_use_that_is_chosen_shows_its_nearest_ones_in_each_layer(page, maps, tmp_path):
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser that runs without a window: none of {', '.join(BROWSERS)}")
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]
    words.append((tmp_path / "page.html").resolve().as_uri() + "#use-0-3")
    shown = subprocess.run(words, check=True, capture_output=True, timeout=120).stdout.decode("utf-8")
    lists = re.findall(r"<h3>layer (\d): nearest uses</h3><ol>(.*?)</ol>", shown)
    assert [int(layer) for layer, _ in lists] == [1, 2]
    for (_, items), numbers, cosines in zip(lists, maps[0].nearest[:, 3], maps[0].similarities[:, 3], strict=True):
        assert re.findall(r'href="#use-0-(\d+)"', items) == [str(number) for number in numbers]
        assert re.findall(r'class="cosine">([\d.-]+)<', items) == [f"{round(float(x), 3):.2f}" for x in cosines]
    assert "layer 0: nearest words" in shown and maps[0].forms[maps[0].uses[3].word][0][0] in shown
