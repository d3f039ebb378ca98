"""A word between white space has the sum over its pieces, however the tokenizer cuts it; page and picture show it."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from browser import dump_page, photograph
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo import ElmoCharTokenizer
from hf_elmo.inference.scoring import SentenceScores
from hf_elmo.inference.surprisal import SpacedWord, sum_by_spaces
from hf_elmo.inference.surprisal_page import MOST_BITS, cut_rows, plot_surprisals, render_surprisals
from hf_elmo.inference.word_places import place_words

EVIL = "<script>alert(1)</script>"


def scored(words, bits):
    nats = -np.array(bits, dtype=float) * math.log(2)
    unknown = np.array([word == "xyz" for word in words])
    return SentenceScores(list(words), unknown, nats, 2 * nats, nats / 2, 0.0, 0.0)


@given(st.text("ab,. \txyz'", max_size=30), st.sampled_from(["whitespace", "punctuation", "penn"]))
def test_the_sums_are_those_of_the_pieces(line, pre_tokenizer):
    placed = place_words(line, ElmoCharTokenizer(pre_tokenizer=pre_tokenizer))
    bits = [number + 1.0 for number in range(len(placed.words))]
    words = sum_by_spaces(line, placed, scored(placed.words, bits))
    assert [word.word for word in words] == line.split()
    assert sum(word.pieces for word in words) == len(placed.words)
    assert sum(word.unknown for word in words) == placed.words.count("xyz")
    np.testing.assert_allclose([sum(word.forward for word in words)], [sum(bits)])
    for number, word in enumerate(words):
        own = [each for each, place in zip(bits, placed.spaced_words, strict=True) if place == number]
        np.testing.assert_allclose([word.forward, word.backward, word.both], [sum(own), 2 * sum(own), sum(own) / 2])


def words_of(*pairs):
    return [SpacedWord(word, bits, bits / 2, 0.0, 1, int(word == "xyz")) for word, bits in pairs]


LINES = [words_of(("a", 0.0), ("rare", 19.0), (EVIL, 99.0)), words_of(("xyz", 10.0), ("$x$", -1.0))]


@pytest.fixture
def page(tmp_path):
    text = render_surprisals(LINES, "backward", ["model <a>"])
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    return tmp_path / "page.html"


def test_the_page_has_each_word_with_its_bits_and_needs_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<p><span") == 2 and text.count('class="unknown"') == 1
    shares = [float(share) for share in re.findall(r"--forward:([\d.]+)", text)]
    assert shares == [0, round(19 / MOST_BITS, 2), 1, 10 / MOST_BITS, 0]
    assert 'id="backward" checked' in text and text.count(" checked>") == 1
    assert EVIL not in text and "model &lt;a&gt;" in text and "<script" not in text and "://" not in text


def test_a_photograph_is_dark_where_the_text_surprises(page, tmp_path):
    assert "alert(1)" in dump_page(page)
    photograph(page, tmp_path / "page.png", size=(900, 600))
    image = pytest.importorskip("matplotlib.image").imread(tmp_path / "page.png")
    pixels = {tuple(row) for row in (image[..., :3] * 255).round().astype(int).reshape(-1, 3)}
    # Backward, the last word of the first line has all of the colour.
    assert (0xD5, 0x5E, 0x00) in pixels


def test_rows_of_the_picture_begin_with_lines_and_keep_to_their_width(tmp_path):
    long = [words_of(*((f"word{number}", 1.0) for number in range(40))), words_of(("a", 1.0))]
    rows = cut_rows(long)
    assert [word for row in rows for _, word in row] == [word for words in long for word in words]
    assert all(column + len(word.word) <= 100 for row in rows for column, word in row)
    assert all(row[0][0] == 0 for row in rows) and rows[-1][0][1].word == "a" and len(rows[-1]) == 1
    for name in "ab":
        plot_surprisals([*LINES, *long], "both", tmp_path / name)
    assert (tmp_path / "a").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_picture_marks_what_the_softmax_lacks(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    known = [replace(word, unknown=0) for word in LINES[0]]
    unknown = [replace(word, unknown=1) for word in known]
    for name, words in (("known", known), ("unknown", unknown)):
        plot_surprisals([words], "both", tmp_path / name)
    pictures = [image.imread(tmp_path / name) for name in ("known", "unknown")]
    assert pictures[0].shape == pictures[1].shape
    # Dots below the words, in the middle of a picture of three lines, and in the last of them what they mean.
    changed = (pictures[0] != pictures[1]).any(axis=(1, 2))
    thirds = [bool(part.any()) for part in np.array_split(changed, 3)]
    assert thirds == [False, True, True]
