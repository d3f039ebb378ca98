"""Where the dots and the words of a map of uses lie on a drawing, the same one in the page and in the picture."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .use_maps import UseMap

WIDTH, HEIGHT = 420, 360
RADIUS, WORD_RADIUS, FONT_SIZE, FORM_FONT_SIZE = 5.5, 3.5, 13, 15
_MARGIN = 22
# The width of a letter as a share of the size of its font, about.
_LETTER = 0.58
# The places that are tried for a word: right of its dot or left, and how many lines below.
_WAYS = [(is_right, lines) for lines in (0, 1, -1, 2, -2, 3, -3) for is_right in (True, False)]


class PlacedWord(NamedTuple):
    """A word on the drawing of layer 0.

    Args:
        word: The word.
        is_form: Whether it is a spelling of the word that is looked at.
        x, y: Its dot.
        left, base: Where its letters begin.
    """

    word: str
    is_form: bool
    x: float
    y: float
    left: float
    base: float


def place_dots(places: np.ndarray) -> np.ndarray:
    """Places (N, 2) of any size on the drawing, from its upper left corner, one unit of both axes as long."""
    return _fit(places, WIDTH - 2 * _MARGIN, HEIGHT - 2 * _MARGIN) + _MARGIN


def place_words(drawn: UseMap) -> list[PlacedWord]:
    """The words of layer 0, those that the word's spellings are first; none covers another one or its dot."""
    forms = {form.form for form in drawn.forms}
    words = sorted(drawn.static_places, key=lambda word: word not in forms)
    sizes = [FORM_FONT_SIZE if word in forms else FONT_SIZE for word in words]
    widths = [len(word) * _LETTER * size for word, size in zip(words, sizes, strict=True)]
    # Words stand to the right of their dots where there is room.
    room = WIDTH - 2 * _MARGIN - max(widths)
    dots = _fit(np.array([drawn.static_places[word] for word in words]), room, HEIGHT - 2 * _MARGIN) + _MARGIN
    taken = [_Box(x - RADIUS, x + RADIUS, y - RADIUS, y + RADIUS) for x, y in dots]
    placed = []
    for word, size, width, (x, y) in zip(words, sizes, widths, dots, strict=True):
        tried = [_letters(x, y, width, size, *way) for way in _WAYS]
        free = (box for box in tried if box.is_inside() and not any(map(box.covers, taken)))
        box = next(free, tried[0])
        taken.append(box)
        placed.append(
            PlacedWord(word, word in forms, float(x), float(y), float(box.left), float(box.bottom) - 0.2 * size)
        )
    return placed


class _Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float

    def covers(self, other: _Box) -> bool:
        """Whether the two have some place in common."""
        beside = self.left < other.right and other.left < self.right
        return beside and self.top < other.bottom and other.top < self.bottom

    def is_inside(self) -> bool:
        return self.left >= 0 and self.right <= WIDTH and self.top >= 0 and self.bottom <= HEIGHT


def _letters(x: float, y: float, width: float, size: float, is_right: bool, lines: float) -> _Box:
    """Where the letters of a word are that stands beside its dot, or some lines below."""
    left = x + RADIUS + 3 if is_right else x - RADIUS - 3 - width
    top = y - size / 2 + lines * size
    return _Box(left, left + width, top, top + size)


def _fit(places: np.ndarray, width: float, height: float) -> np.ndarray:
    """Places in a box of this size, as large as they fit in and in its middle; what is above is at smaller numbers."""
    lowest, highest = places.min(axis=0), places.max(axis=0)
    size = np.maximum(highest - lowest, 1e-9)
    scale = min(width / size[0], height / size[1])
    middle = (places - (lowest + highest) / 2) * np.array([scale, -scale])
    return middle + np.array([width / 2, height / 2])
