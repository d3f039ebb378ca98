"""What is told before a text is read: raw text, lines that are no sentences, files in both texts."""

import gzip
import shutil

import pytest

from hf_elmo.text.first_look import files_in_both, look_at

TOKENISED = [
    "Mr. Holmes , who was usually very late , did n't go to the U.S. in 1.5 days .",
    "No ! `` It sat . ''",
] * 20
RAW = ["Mr. Holmes, who was usually very late, didn't go to the U.S. in 1.5 days.", 'No! "It sat."'] * 20
LONG = " ".join(TOKENISED * 2)
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


@pytest.mark.parametrize("lines", [TOKENISED, PLAIN, ["one"], [""]])
def test_text_that_is_cut_raises_no_alarm_but_where_it_is_all_on_one_line(lines):
    assert list(look_at(lines, "x", "whitespace")) == []
    (warning,) = look_at(["", LONG], "x", "whitespace")
    assert "lines of 3,920" in warning and "one sentence" in warning


def test_files_in_both_texts_are_found_by_name_and_by_content(tmp_path):
    for name, content in (("a", "x y\n"), ("b", "x z\n"), ("c", "x y z\n")):
        (tmp_path / name).write_text(content)
    shutil.copy(tmp_path / "b", tmp_path / "copy")
    (tmp_path / "link").symlink_to(tmp_path / "c")
    with gzip.open(tmp_path / "packed.gz", "wt") as stream:
        stream.write("x y\n")
    names = [str(tmp_path / name) for name in ("a", "b", "c", "copy", "link", "packed.gz")]
    assert files_in_both(names[:3], names[3:]) == names[3:5]
    assert files_in_both(names[:2], [names[2]]) == files_in_both([], names) == []
