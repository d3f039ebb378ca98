"""Pairs, truncation and windows against a BERT tokenizer of the Rust library, row by row."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from refusals import assert_refused
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_elmo import ElmoCharTokenizer

WORDS = ["a", "bb", "ccc", "dd", "e"]
texts = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
STRATEGIES = ["longest_first", "only_first", "only_second"]


def make_bert(truncation_side="right"):
    """A fast tokenizer with BERT's markers and a token for each of WORDS."""
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
    rows = zip(
        encoded.sequence_ids(index),
        encoded.word_ids(index),
        encoded[index].offsets,
        encoded.tokens(index),
        strict=True,
    )
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


def encode_both(pairs, max_length, side, padding_side="right", **arguments):
    """The same call of both tokenizers; ours has a marker more."""
    arguments = {"padding": True, "padding_side": padding_side, "truncation": "longest_first", **arguments}
    arguments["return_token_type_ids"] = True
    calls = []
    for tokenizer, length in ((BERTS[side], max_length), (ELMOS[side], max_length + 1)):
        try:
            calls.append(tokenizer(pairs, max_length=length, **arguments))
        except Exception as error:  # the Rust library raises what is nothing else, PanicException apart
            calls.append(error)
    return calls


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("side", ["left", "right"])
@given(
    pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
    limit=st.integers(2, 12),
    padding_side=st.sampled_from(["left", "right"]),
)
def test_pairs_are_cut_and_answer_as_with_bert(side, strategy, pairs, limit, padding_side):
    bert, elmo = encode_both(pairs, limit + 3, side, padding_side, truncation=strategy)
    assert isinstance(bert, Exception) == isinstance(elmo, Exception)
    if isinstance(elmo, Exception):
        assert isinstance(elmo, ValueError) and "too short" in str(bert) and "too short" in str(elmo)
        return
    for index in range(len(pairs)):
        assert words_of(elmo, index) == words_of(bert, index)
        assert places_of(elmo, index) == places_of(bert, index)
        # BERT's second sentence has a marker behind it alone.
        assert sum(elmo["token_type_ids"][index]) == sum(bert["token_type_ids"][index]) + 1
        assert sum(elmo["attention_mask"][index]) == sum(bert["attention_mask"][index]) + 1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("side", ["left", "right"])
@given(
    pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=2),
    limit=st.integers(2, 10),
    stride=st.integers(0, 3),
)
@example(pairs=[("a bb ccc dd e a bb", "e dd ccc bb a")], limit=6, stride=1)
def test_windows_of_pairs_overflow_as_with_bert(side, strategy, pairs, limit, stride):
    lengths = [[len(text.split()) for text in pair] for pair in pairs]
    for first, second in lengths:
        # The library ends the process's thread where a stride fills a window, so that it is not asked for that.
        kept = {
            "longest_first": min(first, second, limit // 2),
            "only_first": limit - second,
            "only_second": limit - first,
        }[strategy]
        assume(first + second <= limit or kept <= 0 or kept > stride)
        assume(strategy != "longest_first" or min(first, second) > 0)
    bert, elmo = encode_both(
        pairs, limit + 3, side, truncation=strategy, return_overflowing_tokens=True, stride=stride, padding=False
    )
    assert isinstance(bert, Exception) == isinstance(elmo, Exception)
    if isinstance(elmo, Exception):
        return
    assert elmo["overflow_to_sample_mapping"] == bert["overflow_to_sample_mapping"]
    for index in range(len(bert["input_ids"])):
        assert words_of(elmo, index) == words_of(bert, index)


@pytest.mark.parametrize("side", ["left", "right"])
@given(text=texts, limit=st.integers(2, 8), stride=st.integers(0, 1))
def test_windows_of_single_sentences_overflow_as_with_bert(side, text, limit, stride):
    arguments = {"truncation": True, "max_length": limit + 2, "stride": stride, "return_overflowing_tokens": True}
    bert, elmo = BERTS[side]([text], **arguments), ELMOS[side]([text], **arguments)
    assert [words_of(elmo, row) for row in range(len(elmo["input_ids"]))] == [
        words_of(bert, row) for row in range(len(bert["input_ids"]))
    ]


def test_a_pair_is_two_marked_sentences(tokenizer):
    encoded = tokenizer("a bb", "ccc", return_special_tokens_mask=True, return_length=True)
    assert encoded.tokens() == ["<S>", "a", "bb", "</S>", "<S>", "ccc", "</S>"]
    assert encoded["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    assert encoded["special_tokens_mask"] == [1, 0, 0, 1, 1, 0, 1]
    assert encoded.sequence_ids() == [None, 0, 0, None, None, 1, None]
    assert encoded.n_sequences == 2
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a bb", "ccc")]
    assert tokenizer.build_inputs_with_special_tokens(*rows) == encoded["input_ids"]
    assert tokenizer.create_token_type_ids_from_sequences(*rows) == encoded["token_type_ids"]
    assert tokenizer.get_special_tokens_mask(*rows) == encoded["special_tokens_mask"]
    assert tokenizer.num_special_tokens_to_add(pair=True) == 4
    assert tokenizer.decode(encoded["input_ids"], skip_special_tokens=True) == "a bb ccc"


def test_pairs_have_types_and_single_sentences_where_asked_for(tokenizer):
    assert "token_type_ids" not in tokenizer("a") and "token_type_ids" not in tokenizer(["a", "b"])
    assert tokenizer("a", return_token_type_ids=True)["token_type_ids"] == [0, 0, 0]
    assert "token_type_ids" not in tokenizer("a", "b", return_token_type_ids=False)
    bare = tokenizer("a b", "c", add_special_tokens=False)
    assert bare["token_type_ids"] == [0, 0, 1]


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_later_is_padding_at_once(tokenizer, side):
    pairs = [("a bb ccc", "dd"), ("e", "a"), ("", "")]
    at_once = tokenizer(pairs, padding=True, padding_side=side, return_tensors="pt")
    one_by_one = [tokenizer(*pair) for pair in pairs]
    later = tokenizer.pad(one_by_one, padding_side=side, return_tensors="pt")
    assert at_once.keys() == later.keys()
    assert all((at_once[key] == later[key]).all() for key in at_once)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"text": "a b c", "truncation": "only_second", "max_length": 4}, "only_second"),
        ({"text": "a", "text_pair": "b c d", "truncation": "only_first", "max_length": 6}, ("only_first", "too short")),
        ({"text": "a", "text_pair": "b", "truncation": True, "max_length": 4}, ("max_length", "4")),
        (
            {"text": "a b c d", "text_pair": "b", "truncation": True, "max_length": 7, "stride": 2}
            | {"return_overflowing_tokens": True},
            ("stride", "2"),
        ),
    ],
)
def test_a_cut_that_cannot_be_made_is_refused(tokenizer, arguments, named):
    assert_refused(ValueError, named, tokenizer, **arguments)
