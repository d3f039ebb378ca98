"""Every item passes; a terminal gets a bar, a file a line now and then, and nothing of a short pass."""

import io
import sys

import pytest

from hf_elmo.text import progress
from hf_elmo.text.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "seconds"), [(io.StringIO, 30), (io.StringIO, 0), (Terminal, 30)])
@pytest.mark.parametrize("shown", [True, False])
def test_every_item_passes_in_its_order(stream, seconds, shown, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", seconds)
    lines = ["a b c", "", "d e"]
    found = track(iter(lines), "counting", "words", total=5, shown=shown, size=lambda line: len(line.split()))
    assert list(found) == lines
    said = sys.stderr.getvalue()
    assert bool(said) is (shown and (stream is Terminal or not seconds))
    assert not said or ("counting" in said and "/5.00" in said)
    assert ("5.00/5.00" in said) is (shown and not seconds)
