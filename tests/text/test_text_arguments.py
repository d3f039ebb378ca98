"""A vocabulary's words and a run's text are cut alike, or the run is refused by the names of the flags."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer
from hf_elmo.cli.flags import FlagParser
from hf_elmo.text.arguments import CuttingArguments, check_cutting, cutting_of, flags_of, read_cutting
from hf_elmo.text.vocabulary import WordVocabulary

CLEANING = {"NFC": ("normalization", "NFC"), "invisible": ("drop_invisible", True), "marks": ("ascii_marks", True)}
RAW = CuttingArguments(pre_tokenizer="unicode", do_lower_case=True, clean=list(CLEANING)).cutting


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    return WordVocabulary(["<S>", "</S>", "<UNK>", "a"]).save(tmp_path_factory.mktemp("words"))


@given(st.sampled_from(["whitespace", "penn"]), st.booleans(), st.lists(st.sampled_from(sorted(CLEANING)), unique=True))
def test_flags_tokenizers_and_files_say_the_same(vocab_file, pre_tokenizer, do_lower_case, clean):
    cutting = CuttingArguments(pre_tokenizer=pre_tokenizer, do_lower_case=do_lower_case, clean=clean).cutting
    plain = {"normalization": None, "drop_invisible": False, "ascii_marks": False}
    settings = plain | dict(CLEANING[name] for name in clean)
    assert cutting == {"pre_tokenizer": pre_tokenizer, "do_lower_case": do_lower_case, **settings}
    tokenizer = ElmoCharTokenizer(**cutting)
    tokenizer.save_pretrained(vocab_file.parent)
    assert cutting == cutting_of(tokenizer) == read_cutting(vocab_file) == read_cutting(vocab_file.parent)
    check_cutting(vocab_file, cutting)
    (parsed,) = FlagParser(CuttingArguments, "x", None).parse(flags_of(cutting).split())
    assert parsed.cutting == cutting


def test_what_differs_is_named_with_both_values_and_flags(tmp_path):
    vocab_file = WordVocabulary(["<S>", "</S>", "<UNK>"]).save(tmp_path)
    for content in (None, "[1]", "no json", '{"words": 3}'):
        if content is not None:
            (tmp_path / "vocabulary.json").write_text(content)
        assert read_cutting(vocab_file) is None
        check_cutting(vocab_file, RAW)
    (tmp_path / "vocabulary.json").write_text(json.dumps(RAW))
    built = "--pre_tokenizer unicode --do_lower_case --clean NFC invisible marks"
    wanted = "--pre_tokenizer punctuation --do_lower_case --clean NFC marks"
    other = {**RAW, "pre_tokenizer": "punctuation", "drop_invisible": False}
    named = ("--vocab_file", "'unicode'", "'punctuation'", built, wanted)
    assert "do_lower_case was" not in assert_refused(ValueError, named, check_cutting, vocab_file, other)
    # Under another name it may lie anywhere.
    check_cutting(vocab_file.rename(tmp_path / "words.txt"), other)
