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
def test_a_file_gets_a_line_each_time_the_interval_is_over_and_a_terminal_a_bar(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    seconds = iter(range(0, 1000, 20))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    lines, size = ["a b c", "", "d e"], {"total": 5, "size": lambda line: len(line.split())}
    assert list(track(lines, "embedding", "words", shown=False, **size)) == lines and not sys.stderr.getvalue()
    assert list(track(lines, "embedding", "words", **size)) == lines
    shown = sys.stderr.getvalue()
    if stream is io.StringIO:
        assert shown.count("\n") == 1 and all(part in shown for part in ("embedding:  60%", "3/5", "00:40<00:26"))
    else:
        assert "embedding" in shown and "/5.00" in shown and "\n" not in shown
