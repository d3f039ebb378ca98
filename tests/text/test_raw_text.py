"""What is told before a text is read: raw text, and lines that are no sentences; where sentences end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.text.raw_text import cut_sentences, look_at

TOKENIZED = [
    "Mr. Holmes , who was usually very late , did n't go to the U.S. in 1.5 days .",
    "No ! `` It sat . ''",
] * 20
RAW = ["Mr. Holmes, who was usually very late, didn't go to the U.S. in 1.5 days.", 'No! "It sat."'] * 20
LONG = " ".join(TOKENIZED * 2)
PLAIN = ["no marks at all in this text", "as a recogniser of speech writes it"] * 20


@pytest.mark.parametrize(
    "lines",
    [RAW, ["이 영화는 정말 좋았다.", "글쎄, 나는 별로..."], ["यह अच्छा है।", "वह गया।"], ["これは本です。", "はい。"]],
)
def test_raw_text_in_any_language_is_told_with_what_to_pass(lines):
    (warning,) = look_at([*lines, ["words"], LONG], "--train_file", "whitespace")
    assert "--train_file" in warning and "--pre_tokenizer unicode" in warning
    assert any(repr(word) in warning for word in lines[0].split())
    assert "--pre_tokenizer" not in next(look_at(lines, "x", "whitespace", can_choose=False))
    assert not [*look_at(lines, "x", "unicode"), *look_at(lines, "x", "punctuation")]


def test_one_mark_in_ten_words_is_raw_text_and_one_in_fifty_an_abbreviation():
    for count, is_raw in ((9, True), (49, False)):
        assert bool(list(look_at([f"it rained. {'on ' * count}"], "x", "whitespace"))) == is_raw


@pytest.mark.parametrize("lines", [TOKENIZED, PLAIN, ["one"], [""]])
def test_text_that_is_cut_raises_no_alarm_but_where_it_is_all_on_one_line(lines):
    assert list(look_at(lines, "x", "whitespace")) == []
    (warning,) = look_at(["", LONG], "x", "whitespace")
    assert "lines of 3,920" in warning and "one sentence" in warning


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
    assert sentences_of(f"  {separator.join(sentences)}\t") == sentences


def test_long_paragraphs_take_time_in_proportion():
    for unit, count in (("Alice slept. ", 20_000), ("a.", 1), (".", 1), ("Mr. ", 1), ('."', 1), ("她睡了。", 20_000)):
        assert len(sentences_of(unit * 20_000)) == count


@given(st.text("aB.!? \"'\t。", max_size=30))
def test_nothing_but_space_is_lost_and_no_sentence_is_empty(paragraph):
    spans = list(cut_sentences(paragraph))
    assert all(paragraph[start:stop].strip() == paragraph[start:stop] != "" for start, stop in spans)
    places = [place for start, stop in spans for place in range(start, stop)]
    assert places == sorted({*places}) and spans == sorted(spans)
    assert not "".join(letter for place, letter in enumerate(paragraph) if place not in places).strip()
