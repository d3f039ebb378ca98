"""A profile names the operators of every piece of work that turns words into vectors."""

import re

from benchmark.cases import Contestants, words_to_vectors
from benchmark.profiles import render_profiles


def test_a_profile_adds_up():
    sentences = [["A", "call", "returns", "a", "value", "."]] * 2
    report = render_profiles([words_to_vectors(Contestants("tiny", ["readable", "plain"]), sentences, 2)])
    assert report.startswith("## words to vectors, tiny, 2, plain\n")
    assert "`aten::addmm_`" in report or "`aten::mm`" in report
    shares = [int(share) for share in re.findall(r"\| (\d+)% \|", report)]
    assert 90 <= sum(shares) <= 110
