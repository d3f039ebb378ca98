"""Vocabularies: special words first, then falling frequency, the same file back; text is cut as they were."""

import json
from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer
from hf_elmo.cli.command_line import FlagParser
from hf_elmo.text.arguments import CuttingArguments, check_cutting, cutting_of, flags_of, read_cutting
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordCounter, WordVocabulary

words = st.one_of(
    st.sampled_from([*SPECIAL_WORDS, "a", "b", "c", "d"]),
    st.text(st.characters(blacklist_characters="\n\r"), min_size=1, max_size=3),
)


def counted(sentences, max_words_in_memory, directory=None):
    counter = WordCounter(directory, max_words_in_memory)
    for sentence in sentences:
        counter.add(sentence)
    return counter


@given(st.lists(st.lists(words, max_size=6), max_size=20), st.integers(1, 8), st.integers(4, 12), st.integers(1, 3))
def test_counts_and_vocabulary_are_those_of_counting_in_memory(sentences, max_words_in_memory, max_size, min_count):
    counter = counted(sentences, max_words_in_memory)
    counts = Counter(chain.from_iterable(sentences))
    found = list(counter.items())
    assert dict(found) == counts and len(found) == len(counts)
    assert (counter.num_words, counter.num_sentences) == (counts.total(), len(sentences))
    kept = sorted(
        (word for word, count in counts.items() if count >= min_count and word not in SPECIAL_WORDS),
        key=lambda word: (-counts[word], word),
    )
    for size in (800_000, max_size):
        if not kept:
            assert_refused(ValueError, f"{min_count} times", WordVocabulary.from_counts, counter, size, min_count)
            continue
        vocabulary = WordVocabulary.from_counts(counter, size, min_count)
        assert vocabulary.words == [*SPECIAL_WORDS, *kept][:size]
        known = {word: count for word, count in counts.items() if word in vocabulary}
        assert counter.count_known(vocabulary) == (len(counts), known)


def test_files_of_counts_lie_in_the_directory_and_have_no_names_in_it(tmp_path):
    counter = counted(([str(index)] for index in range(20)), 1, tmp_path)
    assert len(counter._files) > 5 and len(counter._in_memory) <= 1 and list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        counted([["a", "b"]], 1, tmp_path / "nowhere")


printable = st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"])


@given(st.lists(st.text(printable, min_size=1).filter(lambda word: word not in SPECIAL_WORDS), unique=True))
def test_file_round_trip(tmp_path_factory, chosen):
    directory = tmp_path_factory.getbasetemp()
    vocabulary = WordVocabulary([*SPECIAL_WORDS, *chosen])
    path = vocabulary.save(directory)
    assert WordVocabulary.load(path).words == WordVocabulary.load(directory).words == vocabulary.words
    assert vocabulary.encode([*vocabulary.words, "\n"]) == [*range(len(vocabulary)), vocabulary.unk_id]


def test_files_that_are_no_vocabulary_are_named(tmp_path):
    path = tmp_path / "words.txt"
    for content, named in (
        (b"the\nof\n", ("'the', 'of'",)),
        (b"<S>\n</S>\n<UNK>\na\na\n", ("'a'",)),
        (b"<S>\n</S>\n<UNK>\ncaf\xe9\n", ("UTF-8", "line 4")),
    ):
        path.write_bytes(content)
        assert_refused(ValueError, (str(path), *named), WordVocabulary.load, path)
    assert_refused(FileNotFoundError, "vocab_file", WordVocabulary.load, tmp_path / "none.txt")


# How words were cut

CLEANING = {"NFC": ("normalization", "NFC"), "invisible": ("drop_invisible", True), "marks": ("ascii_marks", True)}
RAW = CuttingArguments(pre_tokenizer="unicode", do_lower_case=True, clean=list(CLEANING)).cutting


@given(st.sampled_from(["whitespace", "penn"]), st.booleans(), st.lists(st.sampled_from(sorted(CLEANING)), unique=True))
def test_flags_tokenizers_and_files_say_the_same(tmp_path_factory, pre_tokenizer, do_lower_case, clean):
    vocab_file = WordVocabulary([*SPECIAL_WORDS, "a"]).save(tmp_path_factory.getbasetemp())
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
    vocab_file = WordVocabulary(SPECIAL_WORDS).save(tmp_path)
    for content in (None, "[1]", "no json", '{"words": 3}'):
        if content is not None:
            (tmp_path / "vocabulary.json").write_text(content)
        check_cutting(vocab_file, RAW)
    (tmp_path / "vocabulary.json").write_text(json.dumps(RAW))
    built = "--pre_tokenizer unicode --do_lower_case --clean NFC invisible marks"
    wanted = "--pre_tokenizer punctuation --do_lower_case --clean NFC marks"
    other = {**RAW, "pre_tokenizer": "punctuation", "drop_invisible": False}
    named = ("--vocab_file", "'unicode'", "'punctuation'", built, wanted)
    assert "do_lower_case was" not in assert_refused(ValueError, named, check_cutting, vocab_file, other)
    # Under another name it may lie anywhere.
    check_cutting(vocab_file.rename(tmp_path / "words.txt"), other)
