"""Where sentences end in running text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.text.sentence_ends import cut_sentences


def sentences_of(paragraph):
    return [paragraph[start:stop] for start, stop in cut_sentences(paragraph)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Alice slept.", "Bob did not!", "Why?", "3 men knew."],
        ["“Come in.”", "He came (he had to).", "'Sit down!' said Mr. Brown to Dr. J. R. Smith."],
        ["It rained... and rained.", "Then it stopped…", "So did I.", "We slept."],
        ["“Who is it?” she asked.", "No answer at 3.14 p.m. today."],
        ["她睡了。", "「你好！」", "他走了"],  # noqa: RUF001
    ],
    ids=lambda sentences: sentences[0],
)
def test_sentences_are_cut_by_the_rule(sentences):
    separator = "" if sentences[0].endswith("。") else " "
    assert sentences_of(separator.join(sentences)) == sentences
    assert sentences_of(f"  {separator.join(sentences)}\t") == sentences


def test_long_paragraphs_take_time_in_proportion():
    for unit, count in (("Alice slept. ", 20_000), ("a.", 1), (".", 1), ("Mr. ", 1), ('."', 1), ("她睡了。", 20_000)):
        assert len(sentences_of(unit * 20_000)) == count


@given(st.text("aB.!? \"'\t。", max_size=30))
def test_nothing_but_space_is_lost_and_no_sentence_is_empty(paragraph):
    spans = list(cut_sentences(paragraph))
    assert all(paragraph[start:stop].strip() == paragraph[start:stop] != "" for start, stop in spans)
    places = {place for start, stop in spans for place in range(start, stop)}
    assert sum(stop - start for start, stop in spans) == len(places) and spans == sorted(spans)
    assert not "".join(letter for place, letter in enumerate(paragraph) if place not in places).strip()
