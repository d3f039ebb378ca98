"""Ids of the softmax's words for a text, and the text back from them."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from transformers import AutoTokenizer, DataCollatorForLanguageModeling

from hf_elmo import ElmoCharTokenizer, ElmoWordTokenizer
from hf_elmo.model.tokenization_elmo import PRE_TOKENIZERS, write_words

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "do", "n't", ".", "naïve", "日本"]
BOS, EOS, UNK = range(3)


@pytest.fixture(scope="module")
def words_file(tmp_path_factory):
    return write_words(tmp_path_factory.mktemp("words"), WORDS)


@pytest.fixture
def make(words_file):
    return lambda **settings: ElmoWordTokenizer(words_file, **{"pre_tokenizer": "penn", **settings})


def test_words_get_their_ids_and_offsets(make):
    encoded = make()("the cat don't purr.", return_offsets_mapping=True)
    assert encoded.input_ids == [BOS, 3, 4, 6, 7, UNK, 8]
    assert encoded.offset_mapping == [(0, 0), (0, 3), (4, 7), (8, 10), (10, 13), (14, 18), (18, 19)]
    assert encoded.tokens() == ["<S>", "the", "cat", "do", "n't", "purr", "."]
    assert encoded.word_ids() == [None, 0, 1, 2, 3, 4, 5]


def test_the_backward_direction_reads_from_the_end(make):
    tokenizer = make(direction="backward", add_eos_token=True)
    encoded = tokenizer("the cat sat", return_offsets_mapping=True)
    assert encoded.input_ids == [EOS, 5, 4, 3, BOS]
    assert encoded.offset_mapping == [(0, 0), (8, 11), (4, 7), (0, 3), (0, 0)] and encoded.char_to_token(4) == 2
    assert encoded.word_ids() == [None, 2, 1, 0, None]
    assert tokenizer.tokenize("the cat sat") == ["sat", "cat", "the"]
    assert tokenizer.decode(encoded.input_ids) == "<S> the cat sat </S>"
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("</S>", "<S>")
    # What is cut off is what the model would come to last.
    assert tokenizer("the cat sat", truncation=True, max_length=4).input_ids == [EOS, 5, 4, BOS]


@given(
    words=st.lists(st.sampled_from(WORDS[3:]), max_size=6),
    direction=st.sampled_from(["forward", "backward"]),
    end=st.booleans(),
    pre_tokenizer=st.sampled_from(PRE_TOKENIZERS),
)
def test_known_words_come_back(words_file, words, direction, end, pre_tokenizer):
    tokenizer = ElmoWordTokenizer(words_file, direction, add_eos_token=end, pre_tokenizer=pre_tokenizer)
    ids = tokenizer(words, is_split_into_words=True).input_ids
    text = tokenizer.decode(ids, skip_special_tokens=True)
    assert text.split() == words and tokenizer.batch_decode([ids, ids], skip_special_tokens=True) == [text, text]
    assert tokenizer.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(ids)) == ids
    special = tokenizer.get_special_tokens_mask(ids, already_has_special_tokens=True)
    assert special == [1, *[0] * len(words), *[1] * end]
    plain = [index for index, is_special in zip(ids, special, strict=True) if not is_special]
    assert tokenizer.build_inputs_with_special_tokens(plain) == ids
    assert tokenizer.get_special_tokens_mask(plain) == special


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
@pytest.mark.parametrize("lower", [False, True])
def test_special_tokens_in_a_text_are_these(make, pre_tokenizer, lower):
    tokenizer = make(pre_tokenizer=pre_tokenizer, do_lower_case=lower)
    encoded = tokenizer("<S>the <UNK> cat</S>", add_special_tokens=False, return_offsets_mapping=True)
    assert encoded.input_ids == [BOS, 3, UNK, 4, EOS]
    assert encoded.offset_mapping == [(0, 3), (3, 6), (7, 12), (13, 16), (16, 20)]
    # The characters' tokenizer takes a text for what it is.
    assert "S" in "".join(ElmoCharTokenizer(pre_tokenizer=pre_tokenizer).tokenize("<S>"))


def test_padding_is_the_end_of_a_sentence_and_masked(make):
    tokenizer = make()
    for side, expected in (("right", [[0, 3, 4], [0, 3, 1]]), ("left", [[0, 3, 4], [1, 0, 3]])):
        tokenizer.padding_side = side
        batch = tokenizer(["the cat", "the"], padding=True, return_tensors="pt")
        assert batch.input_ids.tolist() == expected
        padded = tokenizer.pad([tokenizer("the cat"), tokenizer("the")], return_tensors="pt")
        assert padded.input_ids.tolist() == expected and padded.attention_mask.equal(batch.attention_mask)
    collated = DataCollatorForLanguageModeling(tokenizer, mlm=False)([tokenizer("the cat"), tokenizer("the")])
    assert collated["labels"].tolist() == [[0, 3, 4], [-100, 0, 3]]


def test_it_has_the_words_of_the_softmax_and_no_others(make):
    tokenizer = make()
    assert len(tokenizer) == tokenizer.vocab_size == len(WORDS)
    assert tokenizer.get_vocab() == {word: index for index, word in enumerate(WORDS)}
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.all_special_ids) == (EOS, UNK, [BOS, EOS])
    assert tokenizer.convert_ids_to_tokens(4) == "cat" and tokenizer.convert_tokens_to_ids("cat") == 4
    assert_refused(ValueError, ("new_tokens", "dog", "ElmoWordTokenizer"), tokenizer.add_tokens, ["dog"])
    # What goes on with a text is parted from it; a text has no space before it.
    assert tokenizer.decode([3, 4]) == " the cat" and tokenizer.decode([BOS, 3, 4]) == "<S> the cat"
    assert tokenizer.decode(4) == " cat" and tokenizer.decode([]) == ""


def test_characters_come_with_the_ids_where_they_are_asked_for(make):
    tokenizer = make(return_character_ids=True, do_lower_case=True)
    batch = tokenizer(["the Zebra", "the"], padding=True, return_tensors="pt")
    expected = ElmoCharTokenizer(do_lower_case=True)(["the Zebra", "the"], padding=True, return_tensors="pt")
    assert batch["character_ids"].equal(expected.input_ids[:, [0, 1, 2]] * batch.attention_mask[..., None])
    tokenizer.return_character_ids = False
    assert set(tokenizer("the")) == {"input_ids", "attention_mask"}


def test_it_is_saved_with_its_words_and_settings(make, tmp_path):
    settings = {"direction": "backward", "return_character_ids": True}
    tokenizer = make(**settings, do_lower_case=True, normalization="NFC", max_characters_per_word=20)
    tokenizer.save_pretrained(tmp_path)
    for loaded in (
        AutoTokenizer.from_pretrained(tmp_path),
        ElmoWordTokenizer.from_pretrained(tmp_path),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert type(loaded) is ElmoWordTokenizer and loaded.words == WORDS
        assert {name: getattr(loaded, name) for name in settings} == settings
        assert (loaded.cutter, loaded.max_characters_per_word) == (tokenizer.cutter, 20)
        assert loaded("The cat").input_ids == tokenizer("The cat").input_ids == [EOS, 4, 3]


def test_what_is_no_word_list_or_direction_is_named(make, tmp_path):
    assert_refused(ValueError, ("words_file is None", "word_vocabulary.txt"), ElmoWordTokenizer)
    assert_refused(ValueError, ("direction", "'up'", "'backward'"), make, direction="up")
    words_file = write_words(tmp_path, ["<S>", "</S>", "a"])
    assert_refused(ValueError, ("words_file", "<UNK>"), ElmoWordTokenizer, words_file)
