"""ElmoCharTokenizer: the compatible ids for every string, and transformers' contract for everything around them."""

import itertools
import pickle
import sys
import traceback
import tracemalloc
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import assert_refused
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    BatchEncoding,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.model.tokenization_elmo import PRE_TOKENIZERS, RowTable, encode_word

BOS, EOS = "<S>", "</S>"
NO_WORD = [0] * 50


def row_of(word: str) -> list[int]:
    """The compatible scheme (bilm-tf), written once more and on its own."""
    if word == "<S>":
        middle = [256]
    elif word == "</S>":
        middle = [257]
    else:
        middle = list(word.encode("utf-8", errors="ignore")[:48])
    characters = [258, *middle, 259]
    return [character + 1 for character in characters + [260] * (50 - len(characters))]


def rows_of(words, markers: bool = True) -> list[list[int]]:
    return [row_of(word) for word in ([BOS, *words, EOS] if markers else words)]


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


# Ids


@given(words=any_sentence)
def test_every_string_has_the_compatible_row(words):
    tokenizer = ElmoCharTokenizer()
    assert tokenizer(words, is_split_into_words=True)["input_ids"] == rows_of(words)
    assert tokenizer(words, is_split_into_words=True, add_special_tokens=False)["input_ids"] == rows_of(words, False)
    assert tokenizer.convert_tokens_to_ids(words) == rows_of(words, False)
    # The second time, every row comes out of the table.
    assert tokenizer(words, is_split_into_words=True)["input_ids"] == rows_of(words)


@given(sentences=st.lists(any_sentence, min_size=1, max_size=4))
def test_every_sentence_of_a_batch_has_its_own_rows(sentences):
    encoded = ElmoCharTokenizer()(sentences, is_split_into_words=True)
    assert encoded["input_ids"] == [rows_of(words) for words in sentences]
    assert encoded["attention_mask"] == [[1] * (len(words) + 2) for words in sentences]


@given(text=st.text())
def test_raw_text_is_cut_at_white_space(text):
    assert ElmoCharTokenizer()(text)["input_ids"] == rows_of(text.split())
    assert ElmoCharTokenizer().tokenize(text) == text.split()


def test_a_word_of_ten_thousand_bytes_costs_one_row(tokenizer):
    long = "ü" * 5_000
    assert tokenizer(f"a {long} b")["input_ids"] == rows_of(["a", long, "b"])
    assert tokenizer.decode(tokenizer(long)["input_ids"], skip_special_tokens=True) == "ü" * 24


@pytest.mark.parametrize("width", [3, 10, 51])
def test_rows_have_the_width_that_was_asked_for(width):
    rows = ElmoCharTokenizer(max_characters_per_word=width)("some words incomprehensibilities")["input_ids"]
    assert {len(row) for row in rows} == {width}
    assert rows[-2][: width - 1] == row_of("incomprehensibilities"[: width - 2])[: width - 1]


def test_lower_casing_leaves_the_markers_alone():
    tokenizer = ElmoCharTokenizer(do_lower_case=True)
    assert tokenizer("The CAT <S> </S>")["input_ids"] == rows_of(["the", "cat", BOS, EOS])
    assert tokenizer("The CAT").tokens() == [BOS, "The", "CAT", EOS]


@given(sentences=st.lists(st.lists(st.sampled_from("abcdefghijklmnop"), max_size=12), min_size=2, max_size=6))
def test_rows_stay_right_when_the_table_of_known_words_overflows(sentences):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowTable, "max_words", 7)
        tokenizer = ElmoCharTokenizer()
        for words in sentences:
            assert tokenizer(words, is_split_into_words=True)["input_ids"] == rows_of(words)


def test_threads_can_share_a_tokenizer(monkeypatch):
    tokenizer = ElmoCharTokenizer()
    sentences = [[f"word{(number * step) % 997}" for number in range(300)] for step in range(1, 9)]
    wanted = [rows_of(words) for words in sentences]
    interval = sys.getswitchinterval()
    # As many changes of thread, and of the table, as can be had.
    monkeypatch.setattr(RowTable, "max_words", 500)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda words: tokenizer(words, is_split_into_words=True)["input_ids"], sentences * 3)
            assert list(found) == wanted * 3
    finally:
        sys.setswitchinterval(interval)


def test_a_call_of_more_words_than_the_table_may_keep_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(RowTable, "max_words", 5)
    tokenizer = ElmoCharTokenizer()
    words = [f"word{number}" for number in range(2_000)]
    assert tokenizer(words, is_split_into_words=True)["input_ids"] == rows_of(words)
    assert len(tokenizer._table) <= 5
    assert tokenizer.encode_words(["a", None, ""]).tolist() == [row_of("a"), NO_WORD, row_of("")]
    assert len(tokenizer._table) == 2


@given(words=st.lists(st.text("ab\ud800é", max_size=14) | st.sampled_from([BOS, EOS, BOS + "x"]), max_size=20))
@pytest.mark.parametrize("width", [3, 5, 7])
def test_words_that_are_too_long_for_a_row_have_the_row_of_their_beginning(width, words):
    rows = ElmoCharTokenizer(max_characters_per_word=width).encode_words(words)
    assert rows.tolist() == [encode_word(word, width) for word in words]


def test_words_of_a_million_letters_are_not_kept(tokenizer):
    tracemalloc.start()
    try:
        for number in range(100):
            tokenizer.encode_words([f"{number}" + "é" * 1_000_000])
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


def test_the_table_of_wide_rows_is_bounded_too(monkeypatch):
    monkeypatch.setattr(RowTable, "max_characters", 5_000)
    tokenizer = ElmoCharTokenizer(max_characters_per_word=1000)
    for number in range(30):
        assert tokenizer.encode_words([f"word{number}"]).tolist() == [encode_word(f"word{number}", 1000)]
        assert len(tokenizer._table) <= 5


def test_what_is_no_word_does_not_spoil_the_table(tokenizer):
    with pytest.raises(AttributeError):
        tokenizer.encode_words(["a", 5, "b"])
    assert tokenizer.encode_words(["a", "b", "c"]).tolist() == rows_of(["a", "b", "c"], markers=False)


def test_the_table_of_known_words_grows_past_its_first_size(tokenizer):
    words = [f"word{number}" for number in range(3_000)]
    assert tokenizer(words, is_split_into_words=True)["input_ids"] == rows_of(words)


# Words of raw text


def is_word_character(character: str) -> bool:
    return character == "_" or unicodedata.category(character)[0] in "LMN"


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
@given(text=st.text() | st.text(" \t\na1.,-_'\u0301\u0939\u093f\U0001f468\u200d!é", max_size=30))
def test_offsets_point_at_the_words_in_the_text(pre_tokenizer, text):
    assume(not any(unicodedata.category(character) == "Cn" for character in text))
    encoded = ElmoCharTokenizer(pre_tokenizer=pre_tokenizer)(text, return_offsets_mapping=True)
    spans = encoded["offset_mapping"]
    words = [text[start:end] for start, end in spans[1:-1]]
    assert encoded["input_ids"] == rows_of(words)
    assert encoded.tokens() == [BOS, *words, EOS]
    assert spans[0] == spans[-1] == (0, 0)
    # In order, apart from one another, and between them nothing but white space is left out.
    edges = [0, *(edge for span in spans[1:-1] for edge in span), len(text)]
    assert edges == sorted(edges)
    assert not "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)).strip()
    for word in words:
        assert word and not any(character.isspace() for character in word)
        if pre_tokenizer == "punctuation" and len(word) > 1:
            assert all(map(is_word_character, word))


def test_punctuation_stands_alone_and_marks_stay_with_their_letter():
    tokenizer = ElmoCharTokenizer(pre_tokenizer="punctuation")
    assert tokenizer.tokenize("don't stop_it (now)...") == "don ' t stop_it ( now ) . . .".split()
    assert tokenizer.tokenize("हिन्दी e\u0301te\u0301 naïve 3.5€") == [
        "हिन्दी",
        "e\u0301te\u0301",
        "naïve",
        "3",
        ".",
        "5",
        "€",
    ]


def test_lists_of_words_are_never_cut_further():
    words = ["New York", "don't", " ", ""]
    tokenizer = ElmoCharTokenizer(pre_tokenizer="punctuation")
    encoded = tokenizer(words, is_split_into_words=True, return_offsets_mapping=True)
    assert encoded["input_ids"] == rows_of(words)
    # As with the tokenizers of other models, the offsets of a list of words count within each word.
    assert encoded["offset_mapping"] == [(0, 0), (0, 8), (0, 5), (0, 1), (0, 0), (0, 0)]


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


# Padding


def padded(sentence, filler, width, side):
    padding = [filler] * (width - len(sentence))
    return padding + sentence if side == "left" else sentence + padding


@pytest.mark.parametrize("side", ["left", "right"])
@given(
    sentences=st.lists(simple_sentence, min_size=1, max_size=4),
    strategy=st.sampled_from(["longest", "max_length"]),
    multiple=st.sampled_from([None, 4]),
)
def test_padding_adds_rows_of_zeros_on_the_side_that_is_asked_for(side, sentences, strategy, multiple):
    tokenizer = ElmoCharTokenizer(padding_side=side)
    width = 16 if strategy == "max_length" else max(len(words) + 2 for words in sentences)
    width = width if multiple is None else (width + multiple - 1) // multiple * multiple
    settings = {"padding": strategy, "max_length": 16 if strategy == "max_length" else None}
    settings["pad_to_multiple_of"] = multiple
    encoded = tokenizer(sentences, is_split_into_words=True, return_special_tokens_mask=True, **settings)
    for index, words in enumerate(sentences):
        length = len(words) + 2
        assert encoded["input_ids"][index] == padded(rows_of(words), NO_WORD, width, side)
        assert encoded["attention_mask"][index] == padded([1] * length, 0, width, side)
        mask = [1, *[0] * len(words), 1]
        assert encoded["special_tokens_mask"][index] == padded(mask, 1, width, side)
        assert encoded.word_ids(index) == padded([None, *range(len(words)), None], None, width, side)
    # The same in two steps, as a data collator does it; and the tokenizer's side gives way to the call's.
    features = [
        tokenizer(words, is_split_into_words=True, return_special_tokens_mask=True, return_token_type_ids=True)
        for words in sentences
    ]
    for call_tokenizer in (tokenizer, ElmoCharTokenizer()):
        later = call_tokenizer.pad(features, padding_side=side, **settings)
        for key in ("input_ids", "attention_mask", "special_tokens_mask"):
            assert later[key] == encoded[key]
        assert later["token_type_ids"] == [[0] * width] * len(sentences)


def windows_of(words: list[str], limit: int | None, stride: int) -> list[range]:
    """The places of the words in each overflow window, read from the left."""
    if limit is None or len(words) <= limit:
        return [range(len(words))]
    starts = range(0, len(words) - stride, limit - stride)
    return [range(start, min(start + limit, len(words))) for start in starts]


@pytest.mark.parametrize("side", ["left", "right"])
@given(
    sentences=st.lists(any_sentence, min_size=1, max_size=4),
    markers=st.booleans(),
    limit=st.sampled_from([None, 2, 3]),
    stride=st.sampled_from([0, 1]),
)
def test_a_padded_tensor_call_is_encode_word_word_by_word(side, sentences, markers, limit, stride):
    """The fast path against its readable twin."""
    encoded = ElmoCharTokenizer()(
        sentences,
        is_split_into_words=True,
        add_special_tokens=markers,
        padding=True,
        padding_side=side,
        truncation=limit is not None,
        max_length=None if limit is None else limit + 2 * markers,
        stride=stride,
        return_overflowing_tokens=True,
        return_special_tokens_mask=True,
        return_offsets_mapping=True,
        return_token_type_ids=True,
        return_length=True,
        return_tensors="pt",
    )
    cuts = [(sample, cut) for sample, words in enumerate(sentences) for cut in windows_of(words, limit, stride)]
    width = max(len(cut) for _, cut in cuts) + 2 * markers
    wanted = {key: [] for key in encoded}
    for sample, cut in cuts:
        words = [sentences[sample][place] for place in cut]
        rows = [encode_word(word) for word in ([BOS, *words, EOS] if markers else words)]
        offsets = [*[(0, 0)] * markers, *[(0, len(word)) for word in words], *[(0, 0)] * markers]
        wanted["input_ids"].append(padded(rows, NO_WORD, width, side))
        wanted["attention_mask"].append(padded([1] * len(rows), 0, width, side))
        wanted["special_tokens_mask"].append(
            padded([*[1] * markers, *[0] * len(words), *[1] * markers], 1, width, side)
        )
        wanted["offset_mapping"].append(padded(offsets, (0, 0), width, side))
        wanted["token_type_ids"].append([0] * width)
        wanted["length"].append(width)
        wanted["overflow_to_sample_mapping"].append(sample)
    assert encoded["input_ids"].dtype == encoded["attention_mask"].dtype == torch.int64
    assert encoded["input_ids"].shape == (len(cuts), width, 50)
    for key, values in wanted.items():
        assert encoded[key].tolist() == np.array(values).tolist(), key


@pytest.mark.parametrize("kind", ["encoding", "list of dicts", "tensors", "arrays"])
def test_pad_takes_what_it_is_given(tokenizer, kind):
    sentences = ["a b c", "d", ""]
    wanted = tokenizer(sentences, padding=True)
    features = [dict(tokenizer(sentence)) for sentence in sentences]
    if kind == "encoding":
        given_features, container = tokenizer(sentences), list
    elif kind == "list of dicts":
        given_features, container = features, list
    else:
        make, container = (torch.tensor, torch.Tensor) if kind == "tensors" else (np.array, np.ndarray)
        given_features = [{key: make(value) for key, value in feature.items()} for feature in features]
    result = tokenizer.pad(given_features)
    assert isinstance(result, BatchEncoding)
    for key in ("input_ids", "attention_mask"):
        assert isinstance(result[key], container)
        assert np.array_equal(result[key], wanted[key])


def test_pad_of_one_sentence_keeps_it_single(tokenizer):
    result = tokenizer.pad(tokenizer("a b"), padding="max_length", max_length=6)
    assert result["input_ids"] == [*rows_of(["a", "b"]), NO_WORD, NO_WORD]
    assert result["attention_mask"] == [1, 1, 1, 1, 0, 0]


def test_pad_leaves_the_entries_of_others_alone(tokenizer):
    features = [{**tokenizer("a b c"), "labels": [1, 2], "id": "x"}, {**tokenizer("d"), "labels": [3], "id": "y"}]
    result = tokenizer.pad(features)
    assert result["labels"] == [[1, 2], [3]]
    assert result["id"] == ["x", "y"]


def test_pad_can_do_without_the_attention_mask(tokenizer):
    features = [{"input_ids": tokenizer(sentence)["input_ids"]} for sentence in ("a b c", "d")]
    assert tokenizer.pad(features)["attention_mask"] == [[1] * 5, [1, 1, 1, 0, 0]]
    assert "attention_mask" not in tokenizer.pad(features, return_attention_mask=False)


@pytest.mark.parametrize(("return_tensors", "container"), [("pt", torch.Tensor), ("np", np.ndarray)])
def test_tensors_hold_what_lists_hold(tokenizer, return_tensors, container):
    asked = {
        "padding": True,
        "return_offsets_mapping": True,
        "return_special_tokens_mask": True,
        "return_token_type_ids": True,
        "return_length": True,
    }
    for text in (["a b c", "d"], "a b c"):
        lists = tokenizer(text, **asked)
        tensors = tokenizer(text, return_tensors=return_tensors, **asked)
        assert set(tensors) == set(lists)
        for key, value in tensors.items():
            assert isinstance(value, container)
            assert str(value.dtype).endswith("int64")
            # A single sentence becomes a batch of one, as with every tokenizer.
            assert value.tolist() == np.array(lists[key]).reshape(value.shape).tolist()
            assert len(value) == (2 if isinstance(text, list) else 1)


# Truncation


@pytest.mark.parametrize("side", ["left", "right"])
@given(words=simple_sentence, limit=st.integers(1, 6), markers=st.booleans())
def test_truncation_keeps_the_markers(side, words, limit, markers):
    tokenizer = ElmoCharTokenizer(truncation_side=side)
    max_length = limit + 2 if markers else limit
    encoded = tokenizer(
        words, is_split_into_words=True, truncation=True, max_length=max_length, add_special_tokens=markers
    )
    kept = words[:limit] if side == "right" else words[max(0, len(words) - limit) :]
    assert encoded["input_ids"] == rows_of(kept, markers)
    assert len(encoded["attention_mask"]) == len(encoded["input_ids"]) <= max_length


@pytest.mark.parametrize("side", ["left", "right"])
@given(
    lengths=st.lists(st.integers(0, 15), min_size=1, max_size=3),
    limit=st.integers(1, 6),
    stride=st.integers(0, 5),
)
def test_overflowing_windows_cover_the_sentence_and_share_the_stride(side, lengths, limit, stride):
    assume(stride < limit)
    tokenizer = ElmoCharTokenizer(truncation_side=side)
    sentences = [[f"{index}-{place}" for place in range(length)] for index, length in enumerate(lengths)]
    encoded = tokenizer(
        sentences,
        is_split_into_words=True,
        truncation=True,
        max_length=limit + 2,
        stride=stride,
        return_overflowing_tokens=True,
    )
    for index, words in enumerate(sentences):
        windows = [
            [place for place in encoded.word_ids(row) if place is not None]
            for row, sample in enumerate(encoded["overflow_to_sample_mapping"])
            if sample == index
        ]
        rows = [
            encoded["input_ids"][i] for i, sample in enumerate(encoded["overflow_to_sample_mapping"]) if sample == index
        ]
        assert rows == [rows_of([words[place] for place in window]) for window in windows]
        if side == "left":
            windows = windows[::-1]
        assert all(window == list(range(window[0], window[-1] + 1)) for window in windows if window)
        assert all(len(window) <= limit for window in windows)
        assert sorted(set().union(*windows)) == list(range(len(words)))
        for first, second in itertools.pairwise(windows):
            assert len(set(first) & set(second)) == stride
        # No window more than it takes: only the last one read may be short.
        short = [len(window) < limit for window in windows]
        assert sum(short) <= 1
        assert not any(short[1:] if side == "left" else short[:-1])


def test_the_models_longest_length_is_the_default_limit():
    tokenizer = ElmoCharTokenizer(model_max_length=5)
    assert tokenizer("a b c d e f", truncation=True)["input_ids"] == rows_of(["a", "b", "c"])
    assert len(tokenizer("a", padding="max_length")["input_ids"]) == 5


# What a BatchEncoding answers


def test_words_tokens_and_characters_are_linked(tokenizer):
    text = "Hello  big world"
    encoded = tokenizer([text, "x"], padding=True, padding_side="left")
    assert encoded.is_fast
    assert encoded.n_sequences == 1
    assert encoded.tokens(0) == [BOS, "Hello", "big", "world", EOS]
    assert encoded.word_ids(0) == [None, 0, 1, 2, None]
    assert encoded.word_ids(1) == [None, None, None, 0, None]
    assert encoded.sequence_ids(1) == [None, None, None, 0, None]
    assert encoded.char_to_token(0, 0) == 1
    assert encoded.char_to_token(0, 6) is None
    assert encoded.char_to_token(0, 15) == 3
    assert encoded.char_to_token(0, 16) is None
    assert encoded.char_to_token(1, 0) == 3
    assert encoded.char_to_word(0, 8) == 1
    assert encoded.char_to_word(0, 5) is None
    assert encoded.token_to_chars(0, 0) is None
    assert tuple(encoded.token_to_chars(0, 2)) == (7, 10)
    assert encoded.token_to_word(0, 3) == 2
    assert encoded.token_to_sequence(0, 3) == 0
    assert encoded.token_to_sequence(0, 0) is None
    assert tuple(encoded.word_to_tokens(1, 0)) == (3, 4)
    assert encoded.word_to_tokens(1, 1) is None
    assert tuple(encoded.word_to_chars(0, 2)) == (11, 16)
    assert len(encoded[0]) == 5


def test_an_encoding_survives_pickling(tokenizer):
    encoded = pickle.loads(pickle.dumps(tokenizer(["a b", "c"], padding=True, return_tensors="pt")))
    assert encoded.word_ids(1) == [None, 0, None, None]


# Back to words


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
    assert_refused(ValueError, ("ids", "262"), tokenizer.convert_ids_to_tokens, 262)


def test_special_tokens_have_the_character_ids_of_the_scheme(tokenizer):
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 257, 258)
    assert tokenizer.all_special_tokens == [BOS, EOS, "<PAD>"]
    assert tokenizer.all_special_ids == [257, 258, 0]
    assert len(tokenizer) == tokenizer.vocab_size == len(tokenizer.get_vocab()) == 262
    assert tokenizer.num_special_tokens_to_add() == 2


def test_markers_can_be_added_and_found_again(tokenizer):
    rows = rows_of(["a", "b"], markers=False)
    assert tokenizer.build_inputs_with_special_tokens(rows) == rows_of(["a", "b"])
    assert tokenizer.get_special_tokens_mask(rows) == [1, 0, 0, 1]
    assert tokenizer.get_special_tokens_mask([*rows_of(["a"]), NO_WORD], already_has_special_tokens=True) == [
        1,
        0,
        1,
        1,
    ]


# Copies, files, data sets, trainers


def test_a_pickle_does_not_grow_with_the_words_seen(tokenizer):
    before = pickle.dumps(tokenizer)
    tokenizer([f"word{number}" for number in range(100)], is_split_into_words=True)
    assert pickle.dumps(tokenizer) == before


@pytest.fixture
def stored_dataset(tmp_path):
    columns = {
        "text": ["a b c", "d", "", "e f"],
        "words": [["a", "b", "c"], ["d"], [], ["e", "f"]],
        "tags": [[0, 1, 2], [1], [], [2, 0]],
    }
    # On disk: what is only in memory has no cache to hit.
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / "data")
    datasets.disable_progress_bars()
    return datasets.load_from_disk(tmp_path / "data")


def test_map_gives_the_same_batched_or_not(stored_dataset, tokenizer):
    single = stored_dataset.map(lambda row: tokenizer(row["text"]))
    batched = stored_dataset.map(lambda rows: tokenizer(rows["words"], is_split_into_words=True), batched=True)
    for column in ("input_ids", "attention_mask"):
        assert list(single[column]) == list(batched[column])
    assert list(single["input_ids"]) == [rows_of(words) for words in stored_dataset["words"]]


def test_a_column_of_a_data_set_is_a_batch(stored_dataset, tokenizer):
    assert tokenizer(stored_dataset["text"])["input_ids"] == [rows_of(words) for words in stored_dataset["words"]]


def test_map_finds_its_cache_after_the_tokenizer_was_used(stored_dataset, tokenizer):
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


@pytest.mark.parametrize("side", ["left", "right"])
def test_data_collators_pad_rows_and_labels_alike(side):
    tokenizer = ElmoCharTokenizer(padding_side=side)
    sentences = [["a", "b", "c"], ["d"]]
    wanted = [padded(rows_of(words), NO_WORD, 5, side) for words in sentences]
    features = [tokenizer(words, is_split_into_words=True) for words in sentences]

    batch = DataCollatorWithPadding(tokenizer)([{**feature, "labels": 1} for feature in features])
    assert batch["input_ids"].tolist() == wanted
    assert batch["labels"].tolist() == [1, 1]

    labels = [[-100, 1, 2, 3, -100], [-100, 4, -100]]
    batch = DataCollatorForTokenClassification(tokenizer)(
        [{**feature, "labels": tags} for feature, tags in zip(features, labels, strict=True)]
    )
    assert batch["input_ids"].tolist() == wanted
    assert batch["labels"].tolist() == [padded(tags, -100, 5, side) for tags in labels]
    assert batch["attention_mask"].sum(dim=1).tolist() == [5, 3]


def test_trainer_trains_evaluates_and_saves_what_loads_again(stored_dataset, tokenizer, tmp_path):
    def encode(rows):
        encoded = tokenizer(rows["words"], is_split_into_words=True)
        encoded["labels"] = [
            [-100 if word is None else tags[word] for word in encoded.word_ids(index)]
            for index, tags in enumerate(rows["tags"])
        ]
        return encoded

    data = stored_dataset.map(encode, batched=True, remove_columns=stored_dataset.column_names)
    model = ElmoForTokenClassification(make_tiny_config(num_labels=3, freeze_bilm=False, classifier_dropout=0.0))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    arguments = TrainingArguments(
        tmp_path / "out", max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True, disable_tqdm=True
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=data,
        eval_dataset=data,
        data_collator=DataCollatorForTokenClassification(tokenizer),
        processing_class=tokenizer,
    )
    trainer.train()
    assert all(not torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    predictions = trainer.predict(data)
    assert predictions.predictions.shape == (4, 5, 3)
    assert np.isfinite(predictions.metrics["test_loss"])

    trainer.save_model(tmp_path / "saved")
    loaded = AutoModelForTokenClassification.from_pretrained(tmp_path / "saved")
    batch = AutoTokenizer.from_pretrained(tmp_path / "saved")(["a b c", "d"], padding=True, return_tensors="pt")
    assert torch.equal(loaded.eval()(**batch).logits, model.eval()(**batch).logits)


# Bad input


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "named"),
    [
        ((5,), {}, TypeError, "text"),
        (([5],), {}, TypeError, "text[0]"),
        (([["a"]],), {}, TypeError, "is_split_into_words"),
        ((["a", None],), {}, TypeError, "text[1]"),
        (("a b",), {"is_split_into_words": True}, TypeError, ("text", "is_split_into_words")),
        ((["a", 5],), {"is_split_into_words": True}, TypeError, "text[1]"),
        (([["a"], [5]],), {"is_split_into_words": True}, TypeError, "text[1][0]"),
        (([["a"], "b"],), {"is_split_into_words": True}, TypeError, "text[1]"),
        (([[["a"]]],), {"is_split_into_words": True}, TypeError, "text[0][0]"),
        ((["a b", "c"],), {"return_tensors": "pt"}, ValueError, ("3", "4", "padding=True")),
        (
            (["a b c", "d"],),
            {"return_tensors": "np", "padding": "max_length", "max_length": 4, "truncation": False},
            ValueError,
            ("truncation=True", "max_length"),
        ),
        (([],), {"return_tensors": "pt"}, ValueError, "text"),
        (("a b",), {"truncation": True, "max_length": 2}, ValueError, "max_length is 2"),
        (
            ("a b",),
            {"truncation": True, "max_length": 0, "add_special_tokens": False},
            ValueError,
            "max_length is 0",
        ),
        *(
            (
                ("a b c d e",),
                {"truncation": True, "max_length": 4, "stride": stride, "return_overflowing_tokens": True},
                ValueError,
                f"stride is {stride}",
            )
            for stride in (2, -1)
        ),
        ((["a b", "c"],), {"padding": True, "padding_side": "middle"}, ValueError, "padding_side is 'middle'"),
        (("a",), {"return_tensors": "tf"}, ValueError, "tf"),
    ],
)
def test_bad_input_is_refused_by_name(tokenizer, arguments, settings, error, named):
    assert_refused(error, named, tokenizer, *arguments, **settings)


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
        "pad_to_multiple_of": st.integers(-2, 5),
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


@pytest.mark.parametrize(
    ("encoded", "settings", "named"),
    [
        ({"labels": [1]}, {}, "input_ids"),
        ([], {}, "encoded_inputs"),
        ([{"input_ids": [[1, 2, 3]]}], {}, ("(1, 3)", "50")),
        # Two rows of 25 characters are not one of 50.
        ([{"input_ids": [[1] * 25, [1] * 25]}], {}, ("(2, 25)", "50")),
        ([{"input_ids": rows_of(["a"])}], {"padding_side": "top"}, "padding_side is 'top'"),
        ([{"input_ids": rows_of(["a"])}], {"pad_to_multiple_of": 0}, "pad_to_multiple_of is 0"),
        (
            [{"input_ids": rows_of(["a"])}, {"input_ids": rows_of([])}],
            {"padding": False, "return_tensors": "pt"},
            ("2", "3", "words"),
        ),
    ],
)
def test_pad_refuses_what_it_cannot_pad(tokenizer, encoded, settings, named):
    assert_refused(ValueError, named, tokenizer.pad, encoded, **settings)


@pytest.mark.parametrize(
    ("settings", "error", "named"),
    [
        (
            {"pre_tokenizer": "spaces"},
            ValueError,
            ("'spaces'", *PRE_TOKENIZERS),
        ),
        ({"max_characters_per_word": 2}, ValueError, "max_characters_per_word is 2"),
        ({"max_characters_per_word": "50"}, ValueError, "max_characters_per_word is '50'"),
        ({"max_characters_per_word": 1001}, ValueError, "max_characters_per_word is 1001"),
        ({"do_lower_case": "yes"}, TypeError, "do_lower_case is 'yes'"),
        ({"bos_token": "[CLS]"}, ValueError, ("bos_token", "[CLS]", "<S>")),
        ({"pad_token": "[PAD]"}, ValueError, ("pad_token", "<PAD>")),
        ({"unk_token": "<UNK>"}, ValueError, "unk_token"),
        ({"padding_side": "middle"}, ValueError, "middle"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, error, named):
    assert_refused(error, named, ElmoCharTokenizer, **settings)


def test_there_is_no_vocabulary_to_add_to(tokenizer):
    assert_refused(ValueError, "cat", tokenizer.add_tokens, ["cat"])
    assert_refused(ValueError, "[CLS]", tokenizer.add_special_tokens, {"cls_token": "[CLS]"})
    # What is there already is not added, and not refused either.
    assert tokenizer.add_tokens([BOS]) == 0


def refused_additions():
    yield lambda tokenizer: tokenizer.add_tokens([BOS, "cat"])
    yield lambda tokenizer: tokenizer.add_tokens("cat", special_tokens=True)
    for tokens in (
        {"cls_token": BOS, "sep_token": "[SEP]"},
        {"pad_token": EOS},
        {"extra_special_tokens": ["<PAD>", "[E]"]},
        {"additional_special_tokens": ["[E]"]},
        {"bos_token": "a"},
    ):
        yield lambda tokenizer, tokens=tokens: tokenizer.add_special_tokens(tokens)
    for name, value in (("cls_token", "[CLS]"), ("pad_token", EOS), ("pad_token", None), ("eos_token_id", 5)):
        yield lambda tokenizer, name=name, value=value: setattr(tokenizer, name, value)


@pytest.mark.parametrize("add", refused_additions())
def test_a_refused_addition_leaves_a_tokenizer_that_loads(add, tokenizer, tmp_path):
    before = (
        tokenizer.special_tokens_map,
        tokenizer.extra_special_tokens,
        len(tokenizer),
        tokenizer.added_tokens_encoder,
    )
    with pytest.raises(ValueError):
        add(tokenizer)
    after = (
        tokenizer.special_tokens_map,
        tokenizer.extra_special_tokens,
        len(tokenizer),
        tokenizer.added_tokens_encoder,
    )
    assert after == before
    tokenizer.save_pretrained(tmp_path)
    assert ElmoCharTokenizer.from_pretrained(tmp_path)("a cat").data == tokenizer("a cat").data


def test_names_for_tokens_that_exist_are_taken_and_saved(tokenizer, tmp_path):
    tokenizer.add_special_tokens({"cls_token": BOS, "sep_token": EOS})
    tokenizer.pad_token_id = tokenizer.pad_token_id
    tokenizer.save_pretrained(tmp_path)
    loaded = ElmoCharTokenizer.from_pretrained(tmp_path)
    assert (loaded.cls_token, loaded.sep_token, loaded.pad_token) == (BOS, EOS, "<PAD>")
    assert loaded("a cat").data == tokenizer("a cat").data


def test_tokenize_takes_one_string(tokenizer):
    assert_refused(TypeError, "text", tokenizer.tokenize, ["a b"])
