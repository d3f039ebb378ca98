"""Batches of real sentences, the same ones every time."""

from benchmark.sentences import describe_batch, pick_batch, read_sentences
from refusals import assert_refused


def test_help_texts_give_different_sentences_of_ordinary_length():
    sentences = read_sentences()
    assert len(sentences) > 500 and len(set(map(tuple, sentences))) == len(sentences)
    assert all(10 <= len(sentence) <= 40 for sentence in sentences)
    assert read_sentences() == sentences != read_sentences(seed=1)


def test_a_text_file_is_cut_at_full_stops_and_line_ends(tmp_path):
    file = tmp_path / "text.txt"
    ten, twelve, long = "one " * 9 + "two.", "three " * 11 + ".", "four " * 41
    file.write_text(f"{ten} too short . {twelve}\n{long}\n{'five ' * 10}\n{ten}\n", encoding="utf-8")
    wanted = [ten.split(), twelve.split(), ["five"] * 10]
    assert sorted(read_sentences(file)) == sorted(wanted)


def test_a_text_without_sentences_is_refused(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("too short.\n", encoding="utf-8")
    assert_refused(ValueError, ("--text_file", "text.txt"), read_sentences, file)


def test_batches():
    sentences = [["a"] * 12, ["b"] * 26, ["c", *"d" * 28], ["e"] * 26]
    assert pick_batch(sentences, 3) == sentences[:3]
    assert pick_batch(sentences, 1) == [sentences[1]]
    assert_refused(ValueError, ("--batch_sizes", "5", "4"), pick_batch, sentences, 5)
    assert describe_batch(sentences[:3]) == {
        "sentences": 3,
        "words": 67,
        "distinct_words": 4,
        "longest_sentence": 29,
    }
