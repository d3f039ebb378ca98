"""Pages of predictions: what is marked in them, that text stays text, and how a browser draws them."""

import colorsys
import os
import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from examples import examples
from html_reading import read_page
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.inference.coreference import ResolvedText
from hf_elmo.inference.html_pages import (
    Drawing,
    Markup,
    draw_answers,
    draw_classes,
    draw_clusters,
    draw_entities,
    draw_labels,
    draw_roles,
    render_page,
)
from hf_elmo.inference.reader import FoundAnswer
from hf_elmo.inference.role_labeller import Frame
from hf_elmo.inference.tagger import TaggedWord
from hf_elmo.model.modeling_elmo_tasks import Span

ELEMENTS = set("html head meta title style body header h1 p ul ol li a main section div span bdi i".split())
ATTRIBUTES = set("lang charset http-equiv content name class style title id href dir".split())
HOSTILE = (
    "</title></style><script>fetch('ADDRESS/u')</script> <img src=ADDRESS/x onerror=fetch('ADDRESS/v')> "
    "\"><link rel=stylesheet href=ADDRESS/y> '><iframe src=ADDRESS/z> &lt;b&gt; $title <style>@import 'ADDRESS/w';"
)


def read(drawing, **others):
    return read_page(render_page(drawing, ["model a<b", "2026-11-22"], **others))


def all_drawings(words):
    """A page of each kind over the same words."""
    text, inside = " ".join(words), Span(words[-1], 0, len(words))
    tags = ["B-V", *["B-" + words[0]] * (len(words) - 1)]
    return [
        draw_answers([(text, text, FoundAnswer(text, 0, len(text), 0.5))]),
        draw_clusters(ResolvedText(text, [words], [(0, len(text))] * len(words), [[(0, 1), (0, 1)], [(1, 2)]])),
        draw_roles([(words, [Frame(words, 0, tags)])]),
        draw_entities([(words, [inside])]),
        draw_labels([[TaggedWord(word, word, 0.5) for word in words]]),
        draw_classes([((text, text), {word: 0.5 for word in words})]),
    ]


@examples(15)
@given(st.lists(st.text(min_size=1).filter(lambda text: text != "V"), min_size=2, max_size=4))
def test_no_text_becomes_markup(words):
    for drawing in all_drawings(words):
        root, elements = read(drawing, note=words[0])
        assert {element.name for element in elements} <= ELEMENTS
        for element in elements:
            assert set(element.attributes) <= ATTRIBUTES
            assert element.attributes.get("href", "#").startswith("#")
            assert re.fullmatch(r"((width:[\d.]+%;)?--hue:\d+)?", element.attributes.get("style", ""))
        shown = [text.own_text for text in root.of_class("text")] or [word.own_text for word in root.of_class("word")]
        assert shown and set(shown) <= {" ".join(words), *words}


def test_hostile_text_stays_text():
    for drawing in all_drawings(HOSTILE.split()):
        _, elements = read(drawing)
        assert {element.name for element in elements} <= ELEMENTS
        assert sum(element.name == "style" for element in elements) == 1
        policy = next(each.attributes["content"] for each in elements if "http-equiv" in each.attributes)
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


@given(st.data())
def test_mentions_are_whole_however_they_lie_in_one_another_and_cross(data):
    words = data.draw(st.lists(st.text(alphabet="ab<&", min_size=1, max_size=3), min_size=1, max_size=8))
    text = " ".join(words)
    starts = [sum(len(word) + 1 for word in words[:place]) for place in range(len(words))]
    offsets = [(start, start + len(word)) for start, word in zip(starts, words, strict=True)]
    place = st.integers(0, len(words) - 1)
    spans = data.draw(st.lists(st.tuples(place, place).map(lambda ends: (min(ends), max(ends) + 1)), max_size=6))
    clusters = [[span, span] for span in spans]
    resolved = ResolvedText(text, [words], offsets, clusters)
    root, _ = read(draw_clusters(resolved))
    (shown,) = root.of_class("text")
    assert shown.own_text == text
    for number, (mention, _) in enumerate(resolved.clusters, start=1):
        title = f"{number}: {mention.text}, mention 1 of 2"
        pieces = [mark for mark in shown.of_class("mark") if mark.attributes["title"] == title]
        assert "".join(piece.own_text for piece in pieces) == mention.text
        tags = [child.text for piece in pieces for child in piece.children if "tag" in child.classes]
        assert tags == [str(number)]
        assert ["comes-from" in piece.classes for piece in pieces] == [False] + [True] * (len(pieces) - 1)
        assert ["goes-on" in piece.classes for piece in pieces] == [True] * (len(pieces) - 1) + [False]


def test_clusters_have_numbers_and_mentions_that_stand_alone_have_none():
    text = "Al saw his cat. He fed it."
    offsets = [(0, 2), (3, 6), (7, 10), (11, 14), (16, 18), (19, 22), (23, 25)]
    clusters = [[(0, 1), (2, 3), (4, 5)], [(1, 2)], [(2, 4), (6, 7)]]
    root, elements = read(draw_clusters(ResolvedText(text, [], offsets, clusters)))
    (body,), (legend,) = root.of_class("text"), root.of_class("legend")
    marks = [(mark.of_class("tag")[0].text, mark.own_text) for mark in body.of_class("mark")]
    assert marks == [("1", "Al"), ("2", "his cat"), ("1", "his"), ("1", "He"), ("2", "it")]
    assert [once.text for once in body.of_class("once")] == ["saw"]
    assert [entry.text for entry in legend.children] == ["1 Al (3)", "2 his cat (2)", "mentioned once"]
    linked = [element.attributes["href"][1:] for element in elements if "href" in element.attributes]
    assert linked == [element.attributes["id"] for element in elements if "id" in element.attributes]
    assert "no clusters" in read(draw_clusters(ResolvedText("a", [], [(0, 1)], [])))[0].of_class("legend")[0].text


def test_roles_stand_above_their_words_in_a_row_for_each_predicate():
    words = "Al who said he lost won".split()
    frames = [
        Frame(words, 2, ["B-ARG0", "B-R-ARG0", "B-V", "B-ARG1", "I-ARG1", "O"]),
        Frame(words, 5, ["B-C-ARG0", "O", "O", "O", "O", "B-V"]),
    ]
    root, _ = read(draw_roles([(words, frames), ([], []), (["Hm"], [])]))
    first, second = root.of_class("words")
    columns = first.of_class("column")
    assert [column.of_class("word")[0].text for column in columns] == words
    cells = [column.of_class("cell") for column in columns]
    # Rows are counted from the words up: there is nothing above the first that is filled.
    assert [[cell.text.strip() for cell in column] for column in cells] == [
        *(["ARG0", "C-ARG0"], ["R-ARG0", ""], ["V", ""], ["ARG1", ""], ["", ""], ["V"])
    ]
    hue = cells[0][0].attributes["style"]
    assert cells[1][0].attributes["style"] == cells[0][1].attributes["style"] == hue != cells[3][0].attributes["style"]
    assert cells[3][0].attributes["title"] == cells[4][0].attributes["title"] == "ARG1 of said: he lost"
    assert ("first" in cells[3][0].classes, "last" in cells[3][0].classes) == (True, False)
    assert [word.text for word in first.of_class("word") if "predicate" in word.classes] == ["said", "won"]
    assert second.text == "Hm" and not second.of_class("cell")
    legend = [entry.text for entry in root.of_class("legend")[0].children]
    assert legend == ["Vthe predicate of the row", "ARG0", "ARG1"]


def test_questions_of_one_context_share_it():
    asked = [("Who?", "Al sat.", FoundAnswer("Al", 0, 2, 0.25)), ("What?", "Al sat.", FoundAnswer("sat", 3, 6, 0.5))]
    root, _ = read(draw_answers([*asked, ("Why?", "", FoundAnswer("", 0, 0, 0.0))]))
    assert [text.own_text for text in root.of_class("text")] == ["Al sat.", ""]
    assert [(mark.of_class("tag")[0].text, mark.own_text) for mark in root.of_class("text")[0].of_class("mark")] == [
        ("1", "Al"),
        ("2", "sat"),
    ]
    assert [answer.text for answer in root.of_class("answer")] == ["Al", "sat", "no answer"]
    assert [score.text for score in root.of_class("score")] == ["0.250", "0.500", "0.000"]
    assert sum(element.name == "li" for element in root.of_class("questions")[0].children) == 2


def test_labels_entities_and_classes():
    root, _ = read(draw_entities([(["Al", "Ly", "ran"], [Span("PER", 0, 2)]), (["a"], [])]))
    assert [text.own_text for text in root.of_class("text")] == ["Al Ly ran", "a"]
    assert [mark.text for mark in root.of_class("text")[0].of_class("mark")] == ["PERAl Ly"]
    assert root.of_class("legend")[0].text == "PER (1)"
    root, _ = read(draw_labels([[TaggedWord("Al", "NN", 0.5), TaggedWord("?", "O", 0.75)]]))
    assert [column.text for column in root.of_class("column")] == ["NNAl", "?"]
    assert [cell.attributes["title"] for cell in root.of_class("cell")] == [
        "NN, probability 0.500",
        "O, probability 0.750",
    ]
    root, _ = read(draw_classes([(("a", "b"), {"no": 0.25, "yes": 0.75})]))
    assert [text.text for text in root.of_class("text")] == ["a", "b"]
    assert [chosen.text for chosen in root.of_class("chosen")] == ["yes 0.750"]
    assert [bar.children[0].attributes["style"].split(";")[0] for bar in root.of_class("bar")] == [
        "width:25.0%",
        "width:75.0%",
    ]


@pytest.fixture
def chrome():
    """A browser that photographs pages, by the variable CHROME or one of its usual names."""
    names = [os.environ.get("CHROME"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
    found = next(filter(None, (shutil.which(name) for name in names if name)), None)
    return found or pytest.skip("there is no Chromium; set CHROME to one")


@pytest.fixture
def asked():
    """The paths that a server of this machine was asked for, and its address in front of them."""
    paths = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield paths, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# Of page.html: the ground's colour, and what every hue is filled with, in saturation and lightness.
SCHEMES = {"light": ((255, 255, 255), (0.72, 0.88)), "dark": ((21, 23, 26), (0.42, 0.25))}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_browser_draws_all_colours_and_asks_for_nothing(scheme, chrome, asked, tmp_path):
    images = pytest.importorskip("PIL.Image", reason="the picture is read with Pillow")
    paths, address = asked
    ground, (saturation, lightness) = SCHEMES[scheme]
    drawings = all_drawings(HOSTILE.replace("ADDRESS", address).split())
    page = render_page(Drawing("All kinds", Markup(), Markup("".join(each.body for each in drawings))), [address])
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    flags = ["--headless", "--disable-gpu", "--hide-scrollbars", "--window-size=900,3000"]
    if os.geteuid() == 0:
        flags.append("--no-sandbox")
    flags += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}", f"--user-data-dir={tmp_path / 'user'}"]
    flags += [f"--screenshot={tmp_path / 'page.png'}", (tmp_path / "page.html").as_uri()]
    done = subprocess.run([chrome, *flags], capture_output=True, text=True, timeout=60)
    assert (tmp_path / "page.png").exists(), done.stderr
    assert paths == []
    with images.open(tmp_path / "page.png") as picture:
        pixels = picture.convert("RGB")
    assert pixels.getpixel((0, 0)) == ground
    colours = [colour for _, colour in pixels.getcolors(maxcolors=2**24)]
    for hue in set(re.findall(r'class="(?:mark|cell filled)[^"]*" style="--hue:(\d+)', page)):
        drawn = colorsys.hls_to_rgb(int(hue) / 360, lightness, saturation)
        assert any(
            all(abs(255 * wanted - found) <= 1 for wanted, found in zip(drawn, colour, strict=True))
            for colour in colours
        ), f"nothing has the colour of hue {hue}"
