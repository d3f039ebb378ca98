# ruff: noqa: RUF001 (words of many scripts)
"""ElmoCharTokenizer: the compatible ids for every string, and transformers' contract for all around them."""

import copy
import itertools
import pickle
import sys
import traceback
import tracemalloc
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pytest
import regex
import torch
from examples import examples
from hypothesis import assume, example, given
from hypothesis import strategies as st
from refusals import assert_refused
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from hf_elmo import ElmoCharTokenizer
from hf_elmo.model.configuration_elmo import DICTIONARY_MARKS
from hf_elmo.model.tokenization_elmo import (
    PENN_RULES,
    PRE_TOKENIZERS,
    UNICODE_RULES,
    ByteCharacters,
    CharIdCache,
    DictionaryCharacters,
    TextCutter,
)

# Ids, padding and truncation


BOS, EOS = "<S>", "</S>"
NO_WORD = [0] * 50


def row_of(word: str, width: int = 50) -> list[int]:
    """The compatible scheme (bilm-tf), written once more and on its own."""
    if word == "<S>":
        middle = [256]
    elif word == "</S>":
        middle = [257]
    else:
        middle = list(word.encode("utf-8", errors="ignore")[: width - 2])
    characters = [258, *middle, 259]
    return [character + 1 for character in characters + [260] * (width - len(characters))]


def rows_of(words, special: bool = True) -> list[list[int]]:
    return [row_of(word) for word in ([BOS, *words, EOS] if special else words)]


# Every kind of string: all code points, lone surrogates, control characters, combining marks, four-byte code points,
# and words too long for a row.
hard_characters = st.characters(categories=["Cs", "Cc", "Mn", "Mc", "So", "Lo", "Zs"])
any_word = (
    st.text()
    | st.text(hard_characters)
    | st.sampled_from(
        ["", BOS, EOS, "<s>", "<PAD>", "<S>\ud800", "\ud800" * 60 + "a", "\0", "\U0001f468\u200d\U0001f469", "e\u0301"]
    )
    | st.text(hard_characters, min_size=1).map(lambda word: word * (10_000 // len(word)))
)
any_sentence = st.lists(any_word, max_size=8)
simple_sentence = st.lists(st.text("abcdé", max_size=6), max_size=12)


@pytest.mark.parametrize("width", [3, 6, 50])
@given(words=any_sentence)
@example(words=["\ud800" * 60 + letter for letter in "ab"])
def test_every_string_has_the_compatible_row(width, words):
    tokenizer = ElmoCharTokenizer("punctuation", max_characters_per_word=width)
    rows = [row_of(word, width) for word in (BOS, *words, EOS)]
    # The second time, every row comes out of the table.
    for _ in range(2):
        encoded = tokenizer(words, is_split_into_words=True, return_offsets_mapping=True)
        assert encoded["input_ids"] == rows
    # Lists of words are never cut further; as with other models, their offsets count within each word.
    assert encoded["offset_mapping"] == [(0, 0), *((0, len(word)) for word in words), (0, 0)]
    assert tokenizer(words, is_split_into_words=True, add_special_tokens=False)["input_ids"] == rows[1:-1]
    assert tokenizer.convert_tokens_to_ids(words) == rows[1:-1]


def test_lower_casing_leaves_the_special_tokens_alone():
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    assert tokenizer("The CAT <S> </S>")["input_ids"] == rows_of(["the", "cat", BOS, EOS])
    assert tokenizer("The CAT").tokens() == [BOS, "The", "CAT", EOS]


def test_threads_can_share_a_tokenizer(monkeypatch):
    tokenizer = ElmoCharTokenizer()
    sentences = [[f"word{(number * step) % 997}" for number in range(300)] for step in range(1, 9)]
    wanted = [rows_of(words) for words in sentences]
    interval = sys.getswitchinterval()
    # As many changes of thread, and of the table, as can be had.
    monkeypatch.setattr(CharIdCache, "max_characters", 25000)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda words: tokenizer(words, is_split_into_words=True)["input_ids"], sentences * 3)
            assert list(found) == wanted * 3
        assert len(tokenizer._cache) * 50 <= 25000
    finally:
        sys.setswitchinterval(interval)


def test_words_of_a_million_letters_are_not_kept(tokenizer):
    tracemalloc.start()
    try:
        for number in range(100):
            tokenizer.encode_words([f"{number}" + "é" * 1_000_000])
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


def test_punctuation_stands_alone_and_marks_stay_with_their_letter():
    tokenizer = ElmoCharTokenizer(pre_tokenizer="punctuation")
    assert tokenizer.tokenize("don't stop_it (now)...") == "don ' t stop_it ( now ) . . .".split()
    words = ["हिन्दी", "e\u0301te\u0301", "naïve", "3", ".", "5", "€"]
    assert tokenizer.tokenize("हिन्दी e\u0301te\u0301 naïve 3.5€") == words


@pytest.mark.parametrize(
    ("text", "is_split_into_words", "shape"),
    [
        ("a b c", False, (5, 50)),
        ("", False, (2, 50)),
        (["a b c", "d"], False, (2, 5, 50)),
        (("a b c", "d"), False, (2, 5, 50)),
        (np.array(["a b c", "d"]), False, (2, 5, 50)),
        (["a", "b c"], True, (4, 50)),
        ([], True, (2, 50)),
        ([["a", "b c"], []], True, (2, 4, 50)),
        ([[], ["a", "b c"]], True, (2, 4, 50)),
        ((("a",), ("b", "c")), True, (2, 4, 50)),
    ],
)
def test_text_words_and_batches_are_told_apart(tokenizer, text, is_split_into_words, shape):
    encoded = tokenizer(text, is_split_into_words=is_split_into_words, padding=True)
    assert np.shape(encoded["input_ids"]) == shape
    assert np.shape(encoded["attention_mask"]) == shape[:-1]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("width", "settings"),
    [(4, {}), (8, {"pad_to_multiple_of": 4, "max_length": 5}), (5, {"max_length": 5}), (4, {"pad_to_multiple_of": 2})],
)
def test_padding_adds_rows_of_zeros_on_the_side_that_is_asked_for(side, width, settings):
    sentences = [["a", "é"], ["b"], []]
    how = {"padding": "max_length" if "max_length" in settings else True, **settings}
    encoded = ElmoCharTokenizer(padding_side=side)(
        sentences, is_split_into_words=True, return_special_tokens_mask=True, **how
    )
    for index, words in enumerate(sentences):
        row = {"input_ids": rows_of(words), "attention_mask": [1] * (len(words) + 2)}
        row["special_tokens_mask"] = [1, *[0] * len(words), 1]
        for key, filler in (("input_ids", NO_WORD), ("attention_mask", 0), ("special_tokens_mask", 1)):
            padding = [filler] * (width - len(words) - 2)
            assert encoded[key][index] == (padding + row[key] if side == "left" else row[key] + padding)
    # The same in two steps, as a data collator does it; and the tokenizer's side gives way to the call's.
    tokenizer = ElmoCharTokenizer()
    features = [tokenizer(words, is_split_into_words=True, return_special_tokens_mask=True) for words in sentences]
    assert tokenizer.pad(features, padding_side=side, **how).data == encoded.data


@given(
    sentences=st.lists(st.lists(st.text("abcé.\U0001f600", min_size=1, max_size=8), max_size=6), min_size=1, max_size=4)
)
def test_decoding_gives_back_the_words(sentences):
    tokenizer = ElmoCharTokenizer()
    encoded = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")["input_ids"]
    plain = [" ".join(words) for words in sentences]
    marked = [" ".join([BOS, *words, EOS]) for words in sentences]
    for ids in (encoded, encoded.numpy(), encoded.tolist(), list(encoded)):
        assert tokenizer.batch_decode(ids, skip_special_tokens=True) == plain
        assert tokenizer.batch_decode(ids) == marked
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == plain[0]
        assert tokenizer.convert_ids_to_tokens(ids[0], skip_special_tokens=True) == sentences[0]
    for some, wanted in ((sentences, plain), ([[], *sentences], ["", *plain]), ([[], []], ["", ""])):
        unmarked = tokenizer(some, is_split_into_words=True, add_special_tokens=False)["input_ids"]
        assert tokenizer.batch_decode(unmarked) == wanted


def test_single_rows_and_ids_have_names(tokenizer):
    assert tokenizer.decode(row_of("cat")) == "cat"
    assert tokenizer.convert_ids_to_tokens(row_of("cat")) == "cat"
    assert tokenizer.convert_ids_to_tokens(ord("c") + 1) == "c"
    assert tokenizer.decode([]) == ""


def test_special_tokens_have_the_character_ids_of_the_scheme(tokenizer):
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 257, 258)
    assert tokenizer.all_special_tokens == [BOS, EOS, "<PAD>"]
    assert tokenizer.all_special_ids == [257, 258, 0]
    assert len(tokenizer) == tokenizer.vocab_size == len(tokenizer.get_vocab()) == 262
    assert tokenizer.num_special_tokens_to_add() == 2


def test_map_finds_its_cache_after_the_tokenizer_was_used(tmp_path, tokenizer):
    # On disk: what is only in memory has no cache to hit.
    datasets.Dataset.from_dict({"text": ["a b c", "d", "", "e f"]}).save_to_disk(tmp_path / "data")
    datasets.disable_progress_bars()
    stored_dataset = datasets.load_from_disk(tmp_path / "data")

    def encode(rows, tokenizer):
        return tokenizer(rows["text"])

    def run(tokenizer):
        return stored_dataset.map(encode, batched=True, fn_kwargs={"tokenizer": tokenizer})

    first = run(tokenizer)
    tokenizer("many other words", padding="max_length", max_length=9, return_tensors="pt")
    second = run(tokenizer)
    assert first._fingerprint == second._fingerprint
    assert first.cache_files and first.cache_files == second.cache_files
    assert run(ElmoCharTokenizer())._fingerprint == first._fingerprint
    assert run(ElmoCharTokenizer(do_lower_case=True))._fingerprint != first._fingerprint


any_text = (
    st.text()
    | any_sentence
    | st.lists(any_sentence, max_size=3)
    | st.lists(st.tuples(st.text(), st.text()), max_size=3)
    | st.sampled_from([None, 5, [None], [["a"], "b"], {"a": "b"}, b"a", [[]]])
)
strategies = ["longest_first", "only_first", "only_second", "do_not_truncate"]
any_settings = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("add_special_tokens", "is_split_into_words", "return_attention_mask"), st.booleans()),
        **dict.fromkeys(("return_overflowing_tokens", "return_special_tokens_mask"), st.booleans()),
        **dict.fromkeys(("return_offsets_mapping", "return_length", "return_token_type_ids"), st.booleans()),
        "padding": st.sampled_from([True, False, "longest", "max_length", "do_not_pad"]),
        "truncation": st.sampled_from([True, False, *strategies]),
        "max_length": st.integers(-2, 12),
        "stride": st.integers(-1, 5),
        "pad_to_multiple_of": st.integers(1, 5),
        "padding_side": st.sampled_from(["left", "right"]),
        "return_tensors": st.sampled_from([None, "np", "pt"]),
    },
)


@given(text=any_text, pair=st.none() | any_text, settings=any_settings, pre_tokenizer=st.sampled_from(PRE_TOKENIZERS))
def test_any_call_is_answered_or_refused(text, pair, settings, pre_tokenizer):
    tokenizer = ElmoCharTokenizer(pre_tokenizer)
    try:
        encoded = tokenizer(text, pair, **settings)
    except (ValueError, TypeError) as error:
        # transformers checks some of what it is asked for itself.
        folders = Path(traceback.extract_tb(error.__traceback__)[-1].filename).parts
        assert {"hf_elmo", "transformers"} & {*folders} and str(error)
        return
    ids = encoded["input_ids"]
    is_batch = len(ids) > 0 and (np.ndim(ids[0]) > 1 or len(ids[0]) == 0)
    lengths = list(map(len, ids if is_batch else [ids]))
    for key in ("attention_mask", "special_tokens_mask", "offset_mapping", "token_type_ids"):
        if key in encoded:
            assert list(map(len, encoded[key] if is_batch else [encoded[key]])) == lengths
    rows = itertools.chain.from_iterable(ids if is_batch else [ids])
    assert all(len(row) == 50 and 0 <= min(row) <= max(row) < 262 for row in rows)


def test_pad_refuses_what_are_no_words_of_its_width(tokenizer):
    assert_refused(ValueError, "input_ids", tokenizer.pad, {"labels": [1]})
    # Two rows of 25 characters are not one of 50.
    assert_refused(ValueError, (), tokenizer.pad, [{"input_ids": [[1] * 25, [1] * 25]}])


@pytest.mark.parametrize("name", ["</S>", "c"])
def test_padding_stays_zeros_whatever_names_it(name):
    # As scripts have it that were written for GPT-2: tokenizer.pad_token = tokenizer.eos_token.
    tokenizer = ElmoCharTokenizer(max_characters_per_word=5)
    tokenizer.pad_token = name
    padded = tokenizer.pad([tokenizer("a"), tokenizer("a b")])["input_ids"]
    assert padded == tokenizer(["a", "a b"], padding=True)["input_ids"] and padded[0][-1] == [0] * 5
    assert tokenizer.pad_token_id == 0 and tokenizer.all_special_ids == [257, 258, 0]


def test_there_is_no_vocabulary_to_add_to(tokenizer):
    assert_refused(ValueError, "cat", tokenizer.add_tokens, ["cat"])
    assert_refused(ValueError, "[CLS]", tokenizer.add_special_tokens, {"cls_token": "[CLS]"})
    assert_refused(ValueError, "[PAD]", ElmoCharTokenizer, pad_token="[PAD]")
    # What is there already is not added, and not refused either.
    assert tokenizer.add_tokens([BOS]) == 0 and len(tokenizer) == 262


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "named"),
    [
        (([5],), {}, TypeError, ("text", "5")),
        ((["a", None],), {}, TypeError, "text"),
        (([["a"]],), {}, TypeError, "is_split_into_words"),
        (("a b",), {"is_split_into_words": True}, TypeError, "is_split_into_words"),
        (([["a"], [5]],), {"is_split_into_words": True}, TypeError, "text"),
        (([["a"], "b"],), {"is_split_into_words": True}, TypeError, "text"),
        ((["a"], "b"), {}, ValueError, "text_pair"),
        ((["a"], ["b", "c"]), {}, ValueError, ("text_pair", "2")),
        ((["a b", "c"],), {"return_tensors": "pt"}, ValueError, ("3", "4", "padding=True")),
        (("a b",), {"truncation": True, "max_length": 2}, ValueError, "max_length is 2"),
        (
            ("a b c d e",),
            {"truncation": True, "max_length": 4, "stride": 2, "return_overflowing_tokens": True},
            ValueError,
            "stride is 2",
        ),
        ((["a b", "c"],), {"padding": True, "padding_side": "middle"}, ValueError, "padding_side is 'middle'"),
        (("a b c",), {"truncation": "only_second", "max_length": 4}, ValueError, "only_second"),
        (("a", "b c d"), {"truncation": "only_first", "max_length": 6}, ValueError, ("only_first", "too short")),
    ],
)
def test_bad_input_is_refused_by_name(tokenizer, arguments, settings, error, named):
    assert_refused(error, named, tokenizer, *arguments, **settings)


def test_bad_settings_are_refused_by_name():
    for name, value in (("pre_tokenizer", "spaces"), ("normalization", "NFD"), ("max_characters_per_word", 1001)):
        assert_refused(ValueError, (name, str(value)), ElmoCharTokenizer, **{name: value})


# Characters


@given(word=st.text())
def test_decoding_gives_back_each_word_that_fits(word):
    scheme = ByteCharacters()
    decoded = scheme.decode(scheme.encode(word, 50))
    # The cut may fall inside a code point, whose first bytes are then no character.
    assert decoded == word if len(word.encode()) <= 48 else word.startswith(decoded)
    assert not scheme.is_special(scheme.encode(f"x{word}", 50))


@given(word=st.text("ab나<>/Seosb", max_size=12), width=st.integers(3, 10))
def test_a_dictionary_gives_back_what_it_holds(word, width):
    scheme = DictionaryCharacters(["a", *DICTIONARY_MARKS, *"b나<>/Seo", "s"])
    char_ids = scheme.encode(word, width)
    assert len(char_ids) <= width and scheme.decode(char_ids) == scheme.normalize(word, width)
    assert scheme.is_special(char_ids) == (word in ("<bos>", "<eos>", "<S>", "</S>"))
    if not scheme.is_special(char_ids):
        assert scheme.decode(char_ids) == word[: width - 2]


def test_each_character_id_has_one_name_and_what_a_dictionary_lacks_is_unknown():
    scheme = DictionaryCharacters([*"ab", *DICTIONARY_MARKS])
    for each in (scheme, ByteCharacters()):
        assert sorted(each.vocabulary().values()) == list(range(len(each.vocabulary())))
        assert each.decode([]) == each.decode([0] * 10) == each.decode([each.begin_word, each.end_word]) == ""
    names = scheme.vocabulary()
    char_ids = scheme.encode("aç", 10)
    assert char_ids == [names["<eow>"], names["a"], names["<oov>"], names["<bow>"]]
    assert scheme.decode([*char_ids, scheme.padding]) == "a<oov>"
    for characters, named in ((["a", *DICTIONARY_MARKS[:-1]], "<oov>"), (["a", *DICTIONARY_MARKS, "a"], "'a'")):
        assert_refused(ValueError, ("characters", named), DictionaryCharacters, characters)


# Raw text into words


FAMILY, ENGLAND = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f3f4\U000e0067\U000e0062\U000e007f"
KOREA, AMERICA = "\U0001f1f0\U0001f1f7", "\U0001f1fa\U0001f1f8"


# What is joined, composed, dropped or cut in every way; combining marks of several classes in any order.
hard = (
    "aB1é'’\".,:;-_@/ \t\u3000"
    "e\u0301\u0323\u0338=\u200b\u200c\u200d\u00ad\ufeff\u202e한\u1112\u1161\u11ab日のカกำ\u0958"
    "\u05d0\u0939\u093f\u2adc\U0001f468\U0001f44d\U0001f3fd\ufe0f\u20e3\U0001f1f0\U0001f1f7\ud800"
)
english = st.lists(
    st.sampled_from(
        "don't can’t n't cannot Gonna Mr. mr. I. J. U.S. e.g. etc. Alice's 's boys' cat's-eye they'd've o'clock 3.14 "
        "1,234 08/16/2000 -- ... !! “ ” \" ' - , . ; well-known a/b na not A.B x@y.org".split()
    )
).flatmap(
    lambda words: st.lists(st.sampled_from(["", " ", "  "]), min_size=len(words), max_size=len(words)).map(
        lambda spaces: "".join(word + space for word, space in zip(words, spaces, strict=True))
    )
)
texts = english | st.text() | st.text(hard, max_size=24) | st.text("ab.@1' ", max_size=16)
cutters = st.builds(
    TextCutter, st.sampled_from(PRE_TOKENIZERS), st.sampled_from([None, "NFC"]), *(st.booleans() for _ in "ab")
)
unicode_words, penn_words = TextCutter("unicode").pre_tokenize, TextCutter("penn").pre_tokenize


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't; they’ve gone.", ["I", "don't", ";", "they’ve", "gone", "."]),
        ("'tis the dogs' 'home'", ["'", "tis", "the", "dogs", "'", "'", "home", "'"]),
        ("In the U.S. (i.e. here), J. Doe.", "In|the|U.S.|(|i.e.|here|)|,|J|.|Doe|.".split("|")),
        ("3.14 1,234.5 50% $5 12:30 a:b", "3.14|1,234.5|50|%|$|5|12|:|30|a|:|b".split("|")),
        ("state-of-the-art well... no--yes", "state|-|of|-|the|-|art|well|.|.|.|no|-|-|yes".split("|")),
        ("a_b __init__ C++ #tag @me", "a_b|__init__|C|+|+|#|tag|@|me".split("|")),
        (
            "(see https://x.org/a_(b)?c=d#e, or www.y.net).",
            "(|see|https://x.org/a_(b)?c=d#e|,|or|www.y.net|)|.".split("|"),
        ),
        ("mail a.b+c@d.co.uk, <x@y.org>.", "mail|a.b+c@d.co.uk|,|<|x@y.org|>|.".split("|")),
        (f"{FAMILY}{KOREA}{AMERICA}1\ufe0f\u20e3{ENGLAND}", [FAMILY, KOREA, AMERICA, "1\ufe0f\u20e3", ENGLAND]),
        ("\U0001f44d\U0001f3fd\U0001f44d ❤️!", ["\U0001f44d\U0001f3fd", "\U0001f44d", "❤️", "!"]),
        ("나는 학교에 3점 갔다ㅋㅋ..", ["나는", "학교에", "3점", "갔다ㅋㅋ", ".", "."]),
        ("日本のカタカナとABC。", ["日", "本", "の", "カタカナ", "と", "ABC", "。"]),
        ("ไทย น้ำ", ["ไ", "ท", "ย", "น้ำ"]),
        ('می\u200cخواهم हिन्दी צה"ל e\u0301te\u0301', ["می\u200cخواهم", "हिन्दी", 'צה"ל', "e\u0301te\u0301"]),
        ("", []),
        (" \x1c\u3000", []),
    ],
)
def test_unicode_words_are_what_a_reader_would_call_words(text, words):
    assert unicode_words(text) == words
    assert ElmoCharTokenizer("unicode").tokenize(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't go: I can’t, it's Alice's.", "Do|n't|go|:|I|ca|n’t|,|it|'s|Alice|'s|.".split("|")),
        ("They'd've, cannot; WANNA but nota", "They|'d|'ve|,|can|not|;|WAN|NA|but|nota".split("|")),
        ("the dogs' o'clock, 'tis a cat's-eye", "the|dogs|'|o'clock|,|'|tis|a|cat's-eye".split("|")),
        ("Mr. J. R. Roe (U.S.) and I. Am I? etc.", "Mr.|J.|R.|Roe|(|U.S.|)|and|I|.|Am|I|?|etc.".split("|")),
        ("well-known, 3.14 1,234 12:30 5/6/99 $5 a/b", "well-known|,|3.14|1,234|12:30|5/6/99|$|5|a|/|b".split("|")),
        ("no -- never--ever... what?! Oh!!", "no|--|never|--|ever|...|what|?|!|Oh|!!".split("|")),
        ("do n't 's can not ca n't Mr. -- U.S. ,", "do|n't|'s|can|not|ca|n't|Mr.|--|U.S.|,".split("|")),
    ],
)
def test_penn_words_are_those_of_the_treebank(text, words):
    assert penn_words(text) == words
    assert penn_words(" ".join(words)) == words
    assert ElmoCharTokenizer("penn").tokenize(text) == words


def test_typographic_marks_are_read_as_those_of_a_keyboard():
    tokenizer = ElmoCharTokenizer("penn", ascii_marks=True)
    typographic, plain = "“Don’t…” – he—said", '"Don\'t..." - he--said'
    first, second = (tokenizer(text, return_offsets_mapping=True) for text in (typographic, plain))
    assert first["input_ids"] == second["input_ids"]
    assert tokenizer.tokenize(typographic) == ['"', "Do", "n't", "...", '"', "-", "he", "--", "said"]
    spans = first["offset_mapping"][1:-1]
    assert [typographic[start:end] for start, end in spans] == ["“", "Do", "n’t", "…", "”", "–", "he", "—", "said"]
    assert tokenizer.normalize_words(["’s", "—"]) == ["'s", "--"]


@given(text=texts)
def test_the_short_cuts_find_what_the_rules_find(text):
    assert unicode_words(text) == regex.findall("|".join(UNICODE_RULES), text, regex.V1)
    assert penn_words(text) == regex.findall("|".join(PENN_RULES), text, regex.V1)


@given(text=texts, cutter=cutters)
def test_spans_are_where_the_words_stand_in_the_text_as_given(text, cutter):
    words, spans = cutter.pre_tokenize(text), cutter.spans(text)
    assert len(words) == len(spans)
    for word, (start, end) in zip(words, spans, strict=True):
        assert 0 <= start < end <= len(text)
        assert word and not any(character.isspace() for character in word)
        # A letter and its marks may be one character in one form and two words in the other.
        assert word in "".join(replace(cutter, pre_tokenizer="whitespace").pre_tokenize(text[start:end]))
        if not cutter.changes_words:
            assert word == text[start:end]
    for edges in zip(*spans, strict=True):
        assert list(edges) == sorted(edges)
    if not cutter.changes_words:
        assert "".join(words) == "".join(text.split())
    settings = {key: getattr(cutter, key) for key in ("normalization", "drop_invisible", "ascii_marks")}
    encoded = ElmoCharTokenizer(cutter.pre_tokenizer, **settings)(text, return_offsets_mapping=True)
    assert encoded["input_ids"] == rows_of(words) and encoded.tokens() == [BOS, *words, EOS]
    assert encoded["offset_mapping"] == [(0, 0), *spans, (0, 0)]


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
@given(text=texts)
def test_texts_that_look_alike_give_the_same_words(pre_tokenizer, text):
    cutter = TextCutter(pre_tokenizer, "NFC")
    forms = [cutter.pre_tokenize(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")]
    assert cutter.pre_tokenize(text) == forms[0] == forms[1]
    for words in forms:
        assert [cutter.normalize_word(word) for word in words] == words


def test_what_nobody_sees_is_dropped_and_what_joins_is_kept():
    text = f"\ufeffso\u00adft \u202bword\u202c {FAMILY} می\u200cخواهم zero\u200bwidth \u2060"
    kept = ["soft", "word", FAMILY, "می\u200cخواهم", "zero", "width"]
    for pre_tokenizer in ("whitespace", "unicode"):
        tokenizer = ElmoCharTokenizer(pre_tokenizer, drop_invisible=True)
        encoded = tokenizer(text, return_offsets_mapping=True)
        assert encoded.tokens()[1:-1] == tokenizer.tokenize(text) == kept
        spans = encoded["offset_mapping"][1:-1]
        assert [text[start:end] for start, end in spans] == ["so\u00adft", *kept[1:]]
        assert encoded.char_to_token(text.index("ft")) == 1
    assert len(ElmoCharTokenizer("unicode").tokenize(text)) > len(kept)


def test_a_setting_that_is_changed_is_obeyed_and_saved(tmp_path):
    tokenizer = ElmoCharTokenizer()
    tokenizer.pre_tokenizer, tokenizer.normalization = "unicode", "NFC"
    tokenizer.save_pretrained(tmp_path)
    for each in (tokenizer, ElmoCharTokenizer.from_pretrained(tmp_path)):
        assert each.tokenize("cafe\u0301!") == ["café", "!"]


def test_text_without_any_space_takes_time_in_proportion():
    for unit in ("a.", "a@", "www.", "http://(", "a'", "-", "日", "é\u0301", "can't", "a's.", "1/", "gon"):
        for words in (unicode_words, penn_words):
            assert "".join(words(unit * 20_000)) == unit * 20_000


# Pairs


@pytest.mark.parametrize(
    ("arguments", "is_split"),
    [
        ((["a b", "d"], ["c", "e f"]), False),
        (([("a b", "c"), ("d", "e f")],), False),
        (([["a b", "c"], ["d", "e f"]],), False),
        (([["a", "b"], ["d"]], [["c"], ["e", "f"]]), True),
        (([(["a", "b"], ["c"]), (["d"], ["e", "f"])],), True),
        (("a b", "c"), False),
        ((["a", "b"], ["c"]), True),
        ((("a", "b"), ("c",)), True),
    ],
)
def test_pairs_come_alone_as_two_lists_or_as_a_list_of_pairs(tokenizer, arguments, is_split):
    encoded = tokenizer(*arguments, is_split_into_words=is_split)
    wanted = ["<S> a b </S> <S> c </S>".split(), "<S> d </S> <S> e f </S>".split()]
    assert [encoded.tokens(index) for index in range(len(encoded.encodings))] == wanted[: len(encoded.encodings)]
    assert np.ndim(encoded["token_type_ids"]) == (1 if len(encoded.encodings) == 1 else 2)


WORDS = ["a", "bb", "ccc", "dd", "e"]
texts_of_truncation = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)


def make_bert(truncation_side="right"):
    """A fast tokenizer with BERT's special tokens and a token for each of WORDS."""
    vocabulary = {token: index for index, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", truncation_side=truncation_side
    )


BERTS = {side: make_bert(side) for side in ("right", "left")}
ELMOS = {side: ElmoCharTokenizer(truncation_side=side) for side in ("right", "left")}


def words_of(encoded, index):
    """(sentence, its word, where that stands in the text, the word) of each row that is a word."""
    columns = (encoded.sequence_ids(index), encoded.word_ids(index), encoded[index].offsets, encoded.tokens(index))
    rows = zip(*columns, strict=True)
    return [row for row in rows if row[0] is not None]


def places_of(encoded, index):
    """The row of each word of each sentence, and of each character, counted in rows that are words."""
    sequences = encoded.sequence_ids(index)
    ranks = {row: rank for rank, row in enumerate(row for row, found in enumerate(sequences) if found is not None)}
    answers = []
    for sequence in (0, 1):
        for word in range(8):
            span = encoded.word_to_tokens(index, word, sequence)
            chars = None if span is None else encoded.word_to_chars(index, word, sequence)
            answers.append((None if span is None else ranks[span.start], chars and tuple(chars)))
        answers += [ranks.get(encoded.char_to_token(index, place, sequence)) for place in range(30)]
        answers += [encoded.char_to_word(index, place, sequence) for place in range(30)]
    return answers, [encoded.token_to_chars(index, row) for row in ranks]


def encode_both(pairs, max_length, side, **arguments):
    """The same call of both tokenizers; ours has a marker more."""
    calls = []
    for tokenizer, length in ((BERTS[side], max_length), (ELMOS[side], max_length + 1)):
        try:
            calls.append(tokenizer(pairs, max_length=length, padding=True, return_token_type_ids=True, **arguments))
        except Exception as error:  # the Rust library raises what is nothing else, PanicException apart
            calls.append(error)
    return calls


@pytest.mark.parametrize("strategy", ["longest_first", "only_first", "only_second"])
@pytest.mark.parametrize("side", ["left", "right"])
@examples(40)
@given(
    pairs=st.lists(st.tuples(texts_of_truncation, texts_of_truncation), min_size=1, max_size=3),
    limit=st.integers(2, 12),
    padding_side=st.sampled_from(["left", "right"]),
    stride=st.none() | st.integers(0, 3),
)
@example(pairs=[("a bb ccc dd e a bb", "e dd ccc bb a")], limit=6, padding_side="right", stride=1)
def test_pairs_are_cut_and_answer_as_with_bert(side, strategy, pairs, limit, padding_side, stride):
    """With a stride, windows of what is cut off too."""
    windows = {} if stride is None else {"return_overflowing_tokens": True, "stride": stride}
    for first, second in [[len(text.split()) for text in pair] for pair in pairs] if windows else ():
        # The library ends the process's thread where a stride fills a window, so that it is not asked for that.
        halves = min(first, second, limit // 2)
        kept = {"longest_first": halves, "only_first": limit - second, "only_second": limit - first}[strategy]
        assume(first + second <= limit or kept <= 0 or kept > stride)
        assume(strategy != "longest_first" or min(first, second) > 0)
    bert, elmo = encode_both(pairs, limit + 3, side, padding_side=padding_side, truncation=strategy, **windows)
    assert isinstance(bert, Exception) == isinstance(elmo, Exception)
    if isinstance(elmo, Exception):
        assert isinstance(elmo, ValueError) and (windows or ("too short" in str(bert) and "too short" in str(elmo)))
        return
    elmo = pickle.loads(pickle.dumps(elmo))
    for index in range(len(bert["input_ids"])):
        assert words_of(elmo, index) == words_of(bert, index)
        assert places_of(elmo, index) == places_of(bert, index)
        # BERT's second sentence has a marker behind it alone.
        for column in ("token_type_ids", "attention_mask"):
            assert sum(elmo[column][index]) == sum(bert[column][index]) + 1
    if windows:
        assert elmo["overflow_to_sample_mapping"] == bert["overflow_to_sample_mapping"]
    if windows and limit > stride:
        # And of their first sentences alone, which have a special token less beside BERT's.
        how = {"truncation": True, "max_length": limit + 2, **windows}
        alone = [tokenizer([first for first, _ in pairs], **how) for tokenizer in (ELMOS[side], BERTS[side])]
        for index in range(len(alone[1]["input_ids"])):
            assert words_of(alone[0], index) == words_of(alone[1], index)


# Copies, and ways of reading


FORMS = {
    "bytes": {},
    "raw text": {"pre_tokenizer": "unicode", "normalization": "NFC", "drop_invisible": True, "ascii_marks": True},
    "narrow, lower case": {"do_lower_case": True, "max_characters_per_word": 8, "pre_tokenizer": "penn"},
    "dictionary": {"characters": ["<bos>", "<eos>", "<bow>", "<eow>", "<oov>", "<pad>", *"abcdé"]},
    "left": {"padding_side": "left", "truncation_side": "left", "model_max_length": 7},
}
each_form = pytest.mark.parametrize("form", FORMS)
TEXTS = ["a b abc", "d", "", "é dab <S> c b a ca"]
PAIRS = ["c d", "", "a b", "b"]
PADDINGS = [False, True, "max_length"]
TRUNCATIONS = [False, True, "only_first"]


def make(form: str) -> ElmoCharTokenizer:
    return ElmoCharTokenizer(**FORMS[form])


@each_form
def test_every_copy_reads_alike_and_is_saved_alike(form, tmp_path):
    tokenizer = make(form)
    wanted = tokenizer(TEXTS, PAIRS, padding=True, truncation=True, max_length=9)
    tokenizer.save_pretrained(tmp_path / "outer" / "inner")
    files = {file.name: file.read_bytes() for file in (tmp_path / "outer" / "inner").iterdir()}
    for number, other in enumerate(
        (
            copy.copy(tokenizer),
            copy.deepcopy(tokenizer),
            pickle.loads(pickle.dumps(tokenizer)),
            ElmoCharTokenizer.from_pretrained(tmp_path / "outer", subfolder="inner"),
            AutoTokenizer.from_pretrained(tmp_path / "outer", subfolder="inner"),
            AutoTokenizer.from_pretrained(tmp_path / "outer" / "inner"),
        )
    ):
        assert type(other) is ElmoCharTokenizer
        assert other(TEXTS, PAIRS, padding=True, truncation=True, max_length=9).data == wanted.data
        other.save_pretrained(tmp_path / str(number))
        assert {file.name: file.read_bytes() for file in (tmp_path / str(number)).iterdir()} == files


@each_form
def test_its_ways_of_reading_agree(form):
    tokenizer = make(form)
    for text in TEXTS:
        words = tokenizer.tokenize(text)
        rows = tokenizer.convert_tokens_to_ids(words)
        marked = tokenizer.build_inputs_with_special_tokens(rows)
        assert tokenizer.encode(text, add_special_tokens=False) == rows
        assert tokenizer.encode(text) == tokenizer(text)["input_ids"] == marked
        assert len(marked) - len(rows) == tokenizer.num_special_tokens_to_add() == 2
        mask = tokenizer.get_special_tokens_mask(rows)
        assert tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"] == mask
        whole = tokenizer.get_special_tokens_mask([*marked, [0] * len(marked[0])], already_has_special_tokens=True)
        assert whole[0] == whole[-2] == whole[-1] == 1
        # What comes back is what was read: lower-cased, cut, and with the characters that there are.
        read = tokenizer.convert_ids_to_tokens(rows)
        assert tokenizer.convert_tokens_to_ids(read) == rows
        assert tokenizer.decode(rows) == tokenizer.convert_tokens_to_string(read) == " ".join(read)
        assert tokenizer.convert_ids_to_tokens(marked) == ["<S>", *read, "</S>"]
        pair = tokenizer(text, "b", return_special_tokens_mask=True)
        second = tokenizer.convert_tokens_to_ids(["b"])
        assert tokenizer.build_inputs_with_special_tokens(rows, second) == pair["input_ids"]
        assert tokenizer.create_token_type_ids_from_sequences(rows, second) == pair["token_type_ids"]
        assert tokenizer.get_special_tokens_mask(rows, second) == pair["special_tokens_mask"]
    assert tokenizer.num_special_tokens_to_add(pair=True) == 4
    assert tokenizer.batch_decode(tokenizer(TEXTS)["input_ids"]) == [
        tokenizer.decode(row) for row in map(tokenizer.encode, TEXTS)
    ]


@each_form
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@pytest.mark.parametrize("with_pairs", [False, True])
def test_a_batch_is_its_rows_by_every_padding_truncation_and_kind_of_tensor(form, with_pairs):
    tokenizer = make(form)
    inputs = (TEXTS, PAIRS) if with_pairs else (TEXTS,)
    columns = ("special_tokens_mask", "token_type_ids", "offsets_mapping", "length")
    for padding, truncation in itertools.product(PADDINGS, TRUNCATIONS):
        how = {"padding": padding, "truncation": truncation, "max_length": 8}
        how |= {f"return_{column}": True for column in columns}
        batch = tokenizer(*inputs, **how)
        singles = [tokenizer(*row, **how) for row in zip(*inputs, strict=True)]
        if padding is True:
            kept = [key for key in batch if key not in ("offset_mapping", "length")]
            singles = tokenizer.pad({key: [single[key] for single in singles] for key in kept})
            assert all(batch[key] == singles[key] for key in kept)
        else:
            assert all(batch[key] == [single[key] for single in singles] for key in batch)
        if len(set(map(len, batch["input_ids"]))) > 1:
            assert_refused(ValueError, "padding=True", tokenizer, *inputs, return_tensors="np", **how)
            continue
        for kind, container in (("pt", torch.Tensor), ("np", np.ndarray)):
            tensors = tokenizer(*inputs, return_tensors=kind, **how)
            assert tensors.keys() == batch.keys()
            for key, value in tensors.items():
                assert isinstance(value, container) and value.tolist() == np.array(batch[key]).tolist()


def test_an_argument_that_another_version_of_transformers_passes_changes_nothing(tokenizer):
    assert tokenizer(["a", "b"], something=None, pack_sequences=True) == tokenizer(["a", "b"])
