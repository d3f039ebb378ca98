"""The page of uses holds every use as text and as dots, runs nothing of the text, and shows neighbors when clicked."""

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from hf_elmo.inference.use_maps import map_uses
from hf_elmo.inference.use_page import HEIGHT, WIDTH, render_page
from hf_elmo.inference.word_uses import StaticWords, UseGatherer

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
EVIL = "</script><script>alert(1)</script>"
SENTENCES = [f"they {form} {what} & {EVIL} $x$".split() for what in "abcde" for form in ("play", "Play")]


@pytest.fixture(scope="module")
def maps(embedder):
    gatherer = UseGatherer([["play", "Play"], ["they"]])
    gatherer.read((words, None) for words in SENTENCES)
    static = StaticWords(embedder, gatherer.counts)
    return [map_uses(embedder, found, static, num_clusters=2) for found in gatherer.found(100)]


@pytest.fixture(scope="module")
def page(maps):
    return render_page(maps, ["model <a>", "text b"])


def test_every_use_is_a_line_and_a_dot_in_each_layer(page, maps):
    for number, drawn in enumerate(maps):
        for use in range(len(drawn.uses)):
            assert page.count(f'<li id="use-{number}-{use}">') == 1
            assert page.count(f'<a href="#use-{number}-{use}"><circle') == 2
    for drawing in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
        for dot in ElementTree.fromstring(drawing).iter("circle"):
            assert 0 <= float(dot.get("cx")) <= WIDTH and 0 <= float(dot.get("cy")) <= HEIGHT
    data = [json.loads(each) for each in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert [len(each["nearest"]) for each in data] == [2, 2]
    assert data[0]["nearest"][1][3] == [
        [int(other), round(float(cosine), 3)]
        for other, cosine in zip(maps[0].nearest[1, 3], maps[0].similarities[1, 3], strict=True)
    ]
    forms = [form.form for form in maps[0].forms]
    assert [forms[number] for number in data[0]["form_of"]] == [use.word for use in maps[0].uses]


def test_the_page_needs_nothing_beside_it_and_runs_nothing_of_the_text(page):
    assert "alert(1)" in page and EVIL not in page and "model &lt;a&gt;" in page
    assert page.count("<script") == 3 and "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|import)\s*[=(]", page)


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
    assert "layer 0: nearest words" in shown and maps[0].forms[0].nearest[0][0] in shown
