"""What stands beside ELMo: the head's settings from the flags, and the words that a table is filled with."""

from types import SimpleNamespace

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.model.configuration_elmo import TokenClassificationHead
from hf_elmo.tasks.inputs import TaskArguments, fill_word_table, read_settings, set_word_inputs
from hf_elmo.tasks.readers.texts import LabeledTexts
from hf_elmo.tasks.task import Task

VECTORS = "the 1 2\ncat 3 4\nsat 5 6\nother 7 8\n"


def build(args, train=("the", "the", "Cat", "cat"), other=("sat",), tokenizer=None, **fields):
    """A tagger with what the flags ask for, and how it reads a word."""
    flags = {name: args.pop(name) for name in ("word_vectors", "learn_words") if name in args}
    config, tokenizer = (
        make_tiny_config(head=TokenClassificationHead(**args), **fields),
        tokenizer or ElmoCharTokenizer(),
    )
    size = args.get("word_vector_size")
    table = set_word_inputs(config, TaskArguments("x", **flags), tokenizer, train, other, size)
    model = ElmoForTokenClassification(config).eval()
    if table is not None:
        fill_word_table(model, table)

    def vector(word):
        return model.features.word_table(torch.from_numpy(tokenizer.encode_words([word]))).squeeze(0).tolist()

    return model, vector


def test_vectors_of_a_file_for_the_words_of_all_data(tmp_path):
    (tmp_path / "vectors.txt").write_text(VECTORS)
    model, vector = build({"word_vectors": str(tmp_path / "vectors.txt"), "train_word_vectors": False})
    assert (vector("the"), vector("cat"), vector("sat")) == ([1, 2], [3, 4], [5, 6])
    # Not in the data, or not in this case: the mean.
    assert vector("other") == vector("Cat") == [3, 4]
    assert not model.features.word_table.weight.requires_grad and model.config.head.word_vector_size == 2
    assert build({"word_vectors": str(tmp_path / "vectors.txt")})[0].features.word_table.weight.requires_grad


@pytest.mark.parametrize("by", ["flag", "tokenizer"])
def test_lower_cased_words_are_found(by, tmp_path):
    (tmp_path / "vectors.txt").write_text(VECTORS)
    args = {"word_vectors": str(tmp_path / "vectors.txt"), "lower_case_words": by == "flag"}
    tokenizer = ElmoCharTokenizer(do_lower_case=by == "tokenizer")
    model, _ = build(args, train=["THE", "Cat"], other=(), tokenizer=tokenizer)
    assert model.config.head.lower_case_words == (by == "flag")
    batch = tokenizer([["Cat", "tHe"]], is_split_into_words=True, return_tensors="pt", add_special_tokens=False)
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert model.features(batch["input_ids"], mask).tolist() == [[[3, 4], [1, 2]]]


def test_learned_words_are_those_that_occur_often_enough():
    model, vector = build({"learn_words": True, "word_vector_size": 3, "word_table_size": 1})
    assert model.config.head.word_table_size == 3  # `the` and the special tokens
    assert len({tuple(vector(word)) for word in ("cat", "Cat", "sat")}) == 1 != vector("the")
    model, vector = build({"learn_words": True}, train=("the", "cat", "Cat") * 2)
    assert model.config.head.word_table_size == 5 and vector("cat") != vector("Cat")
    assert len(vector("cat")) == 50 and vector("sat") == vector("never")


def test_new_words_replace_those_of_a_checkpoint(tmp_path):
    model, vector = build({"learn_words": True}, train=["old", "old"])
    model.save_pretrained(tmp_path)
    before = vector("old")
    loaded = ElmoForTokenClassification.from_pretrained(tmp_path)
    args = TaskArguments("x", learn_words=True)
    table = set_word_inputs(loaded.config, args, ElmoCharTokenizer(), ["new", "new"])
    fill_word_table(loaded, table)
    row = torch.from_numpy(ElmoCharTokenizer().encode_words(["new", "old"]))
    found = loaded.features.word_table(row).tolist()
    assert before not in found and loaded.features.word_table.indices(row).tolist()[1] == 0


def test_settings_of_a_head_are_json_or_words():
    given = ["dropout=0.25", "output_layer=crf", "character_filters=[[3, 5]]", "scheme=null", "use_elmo=false"]
    wanted = {"dropout": 0.25, "output_layer": "crf", "character_filters": [[3, 5]], "scheme": None, "use_elmo": False}
    assert (
        read_settings(given, TokenClassificationHead) == wanted and read_settings(None, TokenClassificationHead) == {}
    )
    for wrong in ("drpout=0.25", "dropout", "word_table_size=3"):
        assert_refused(ValueError, (repr(wrong), "dropout"), read_settings, [wrong], TokenClassificationHead)


def test_a_table_must_not_stay_empty():
    assert_refused(ValueError, "learn_words", build, {"learn_words": True}, train=["once"])
    config = make_tiny_config(head=TokenClassificationHead(word_table_size=3, word_vector_size=2))
    given = (config, TaskArguments("x", from_scratch=True), ElmoCharTokenizer(), [])
    assert_refused(ValueError, ("from_scratch", "--learn_words"), set_word_inputs, *given)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_labels_that_are_numbers_are_in_the_order_of_their_size(numbers):
    train = LabeledTexts("x", labels=["none", *map(str, numbers)], places=["line 1"] * (1 + len(numbers)))
    assert Task.choose_labels(SimpleNamespace(splits={"train": train}), None) == [*map(str, sorted(numbers)), "none"]
