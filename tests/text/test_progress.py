"""Progress: every item passes, a file gets whole lines and few of them, a terminal gets a bar."""

import io
import sys

import pytest

from hf_elmo.text import progress
from hf_elmo.text.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
@pytest.mark.parametrize("shown", [True, False])
def test_every_item_passes_in_its_order(stream, shown, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    assert list(track(iter(range(5)), "counting", "words", shown=shown)) == list(range(5))
    assert shown or not sys.stderr.getvalue()


def test_a_file_gets_a_plain_line_each_time_the_interval_is_over(monkeypatch, capsys):
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    assert sum(1 for _ in track(range(8), "counting words", "sentences", total=8)) == 8
    assert capsys.readouterr().err.splitlines() == [
        "counting words: 3 of 8 sentences, 0 sentences/s, 00:50 left",
        "counting words: 6 of 8 sentences, 0 sentences/s, 00:20 left",
    ]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_items_of_many_words_count_as_many(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    seconds = iter(range(0, 1000, 20))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    sentences = ["a b c", "", "d e"]
    assert list(track(sentences, "embedding", "words", total=5, size=lambda line: len(line.split()))) == sentences
    shown = sys.stderr.getvalue()
    if stream is io.StringIO:
        assert shown == "embedding: 3 of 5 words, 0 words/s, 00:26 left\n"
    else:
        assert "embedding" in shown and "/5.00" in shown
