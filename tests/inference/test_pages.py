"""Pages of marked texts: what is marked in them, that text stays text, and how a browser draws them."""

import re

from examples import examples
from html_reading import read_page
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.inference.pages import Mark, Passage, marks_of_words, render_spans

ELEMENTS = set("html head meta title style body header h1 p ul li main section div span bdi".split())
ATTRIBUTES = set("lang charset http-equiv content name class style title dir".split())
HOSTILE = (
    "</title></style><script>fetch('ADDRESS/u')</script> <img src=ADDRESS/x onerror=fetch('ADDRESS/v')> "
    "\"><link rel=stylesheet href=ADDRESS/y> '><iframe src=ADDRESS/z> &lt;b&gt; $title <style>@import 'ADDRESS/w';"
)


def render(text):
    """A page that has a text in all places."""
    half = len(text) // 2
    marks = [Mark(0, len(text), text, text), Mark(half, len(text), f"C-{text}", text), Mark(0, half, "", text)]
    return render_spans(text, [Passage(text, marks, [text])], [text])


@examples(25)
@given(st.one_of(st.just(HOSTILE), st.text(min_size=1).filter(lambda text: not text.isdigit())))
def test_text_stays_text(text):
    root, elements = read_page(render(text))
    assert {element.name for element in elements} <= ELEMENTS
    assert sum(element.name == "style" for element in elements) == 1
    for element in elements:
        assert set(element.attributes) <= ATTRIBUTES
        assert re.fullmatch(r"(--hue:\d+)?", element.attributes.get("style", ""))
    assert (
        [shown.own_text for shown in root.of_class("text")] == [text] == [note.text for note in root.of_class("note")]
    )
    policy = next(each.attributes["content"] for each in elements if "http-equiv" in each.attributes)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


@examples(50)
@given(st.data())
def test_marks_are_whole_however_they_lie_in_one_another_and_cross(data):
    text = data.draw(st.text(alphabet="ab <&", min_size=1, max_size=12))
    place = st.integers(0, len(text))
    spans = data.draw(st.lists(st.tuples(place, place).map(sorted), max_size=6))
    marks = [Mark(start, end, str(number), f"mark {number}") for number, (start, end) in enumerate(spans)]
    root, _ = read_page(render_spans("t", [Passage(text, marks)]))
    (shown,) = root.of_class("text")
    assert shown.own_text == text and not root.of_class("legend")[0].children
    for mark in marks:
        pieces = [piece for piece in shown.of_class("mark") if piece.attributes["title"] == mark.title]
        assert "".join(piece.own_text for piece in pieces) == text[mark.start : mark.end]
        labels = [[child.text for child in piece.children if child.name == "bdi"] for piece in pieces]
        assert labels == [[mark.label] if number == 0 else [] for number in range(len(pieces))]
        assert ["goes-on" in piece.classes for piece in pieces] == [number > 0 for number in range(len(pieces))]
        assert ["is-cut" in piece.classes for piece in pieces] == [True] * (len(pieces) - 1) + [False] * bool(pieces)


def test_labels_have_colors_and_are_counted():
    words = "Al who said he lost".split()
    spans = [("ARG0", 0, 1), ("R-ARG0", 1, 2), ("V", 2, 3), ("ARG1", 3, 5)]
    root, _ = read_page(render_spans("Roles", [Passage(" ".join(words), marks_of_words(words, spans))] * 2))
    marks = root.of_class("text")[1].of_class("mark")
    labeled = [(mark.own_text, mark.text.removesuffix(mark.own_text)) for mark in marks]
    assert labeled == [("Al", "ARG0"), ("who", "R-ARG0"), ("said", "V"), ("he lost", "ARG1")]
    hues = [mark.attributes["style"] for mark in marks]
    assert hues[0] == hues[1] and len(set(hues)) == 3
    legend = [entry.text for entry in root.of_class("legend")[0].children]
    assert legend == ["ARG0 (2)", "ARG1 (2)", "R-ARG0 (2)", "V (2)"]
    root, _ = read_page(render_spans("t", [Passage("a b", [Mark(0, 1, "", "once")])]))
    assert [once.text for once in root.of_class("unlabeled")] == ["a"]
