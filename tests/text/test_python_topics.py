"""The demo's text: prose of CPython's help, every paragraph once, held out by paragraphs."""

from hf_elmo.text.python_topics import paragraphs, split_topics, write_split


def test_paragraphs_are_distinct_prose():
    found = paragraphs()
    assert len({" ".join(sentences) for sentences in found}) == len(found) > 500
    assert not any("::=" in sentence or ">>>" in sentence for sentences in found for sentence in sentences)


def test_split_is_complete_and_shares_no_paragraph():
    train, held_out = split_topics(held_out_every=10)
    assert len(train) + len(held_out) == sum(map(len, paragraphs()))
    assert 0.05 < len(held_out) / len(train) < 0.2


def test_files_hold_a_sentence_a_line(tmp_path):
    train_file, held_out_file = write_split(tmp_path / "text")
    assert train_file.read_text(encoding="utf-8").splitlines() == split_topics()[0]
    assert held_out_file.read_text(encoding="utf-8").splitlines() == split_topics()[1]
