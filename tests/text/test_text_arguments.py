"""A vocabulary's words and a run's text are cut alike, or the run is refused by the names of the flags."""

import json

import pytest

from hf_elmo import ElmoCharTokenizer
from hf_elmo.text.arguments import CorpusArguments, check_cutting, cutting_of, read_cutting
from hf_elmo.text.vocabulary import WordVocabulary

PLAIN = {
    "pre_tokenizer": "whitespace",
    "do_lower_case": False,
    "normalization": None,
    "drop_invisible": False,
    "ascii_marks": False,
}
RAW = {
    "pre_tokenizer": "unicode",
    "do_lower_case": True,
    "normalization": "NFC",
    "drop_invisible": True,
    "ascii_marks": True,
}


@pytest.fixture
def vocab_file(tmp_path):
    return WordVocabulary(["<S>", "</S>", "<UNK>", "a"]).save(tmp_path)


def test_a_word_list_alone_says_nothing_and_is_taken(vocab_file):
    assert read_cutting(vocab_file) is None
    check_cutting(vocab_file, RAW)


RAW_FLAGS = {"pre_tokenizer": "unicode", "do_lower_case": True, "clean": ["marks", "NFC", "invisible"]}


@pytest.mark.parametrize(("flags", "settings"), [({}, PLAIN), (RAW_FLAGS, RAW)])
def test_flags_tokenizers_and_files_say_the_same(flags, settings, vocab_file):
    arguments = CorpusArguments(train_file=["x"], **flags)
    tokenizer = ElmoCharTokenizer(**arguments.cutting)
    tokenizer.save_pretrained(vocab_file.parent)
    assert arguments.cutting == cutting_of(tokenizer) == read_cutting(vocab_file) == settings
    assert read_cutting(vocab_file.parent) == settings
    check_cutting(vocab_file, settings)


def test_what_differs_is_named_with_both_values_and_flags(vocab_file):
    (vocab_file.parent / "vocabulary.json").write_text(json.dumps(RAW))
    with pytest.raises(ValueError, match="--vocab_file") as raised:
        check_cutting(vocab_file, {**RAW, "pre_tokenizer": "punctuation", "drop_invisible": False})
    message = str(raised.value)
    built = "--pre_tokenizer unicode --do_lower_case --clean NFC invisible marks"
    for part in ("'unicode'", "'punctuation'", built, "--pre_tokenizer punctuation --do_lower_case --clean NFC marks"):
        assert part in message
    assert "do_lower_case was" not in message


def test_what_no_count_has_written_says_nothing(vocab_file):
    for content in ("[1]", "no json", '{"words": 3}'):
        (vocab_file.parent / "vocabulary.json").write_text(content)
        assert read_cutting(vocab_file) is None
    (vocab_file.parent / "vocabulary.json").write_text(json.dumps(RAW))
    assert read_cutting(vocab_file.rename(vocab_file.with_name("words.txt"))) is None
