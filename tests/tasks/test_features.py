"""What stands beside ELMo: the head's settings from the flags, and the words that a table is filled with."""

import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.model.configuration_elmo import TokenClassificationHead
from hf_elmo.tasks.arguments import FeatureArguments
from hf_elmo.tasks.inputs import check_features, check_table, fill_word_table, set_word_inputs

VECTORS = "the 1 2\ncat 3 4\nsat 5 6\nother 7 8\n"


def build(args, train=("the", "the", "Cat", "cat"), other=("sat",), tokenizer=None, **fields):
    """A tagger with what the flags ask for, and how it reads a word."""
    config, tokenizer = make_tiny_config(**fields), tokenizer or ElmoCharTokenizer()
    table = set_word_inputs(config, TokenClassificationHead, FeatureArguments(**args), tokenizer, train, other)
    model = ElmoForTokenClassification(config).eval()
    fill_word_table(model, table)

    def vector(word):
        return model.features.word_table(torch.from_numpy(tokenizer.encode_words([word]))).squeeze(0).tolist()

    return model, vector


def test_vectors_of_a_file_for_the_words_of_all_data(tmp_path):
    (tmp_path / "vectors.txt").write_text(VECTORS)
    model, vector = build({"word_vectors": str(tmp_path / "vectors.txt"), "no_train_word_vectors": True})
    assert (vector("the"), vector("cat"), vector("sat")) == ([1, 2], [3, 4], [5, 6])
    # Not in the data, or not in this case: the mean.
    assert vector("other") == vector("Cat") == [3, 4]
    assert not model.features.word_table.weight.requires_grad and model.config.head.word_vector_size == 2
    model, vector = build({"word_vectors": str(tmp_path / "vectors.txt"), "more_word_vectors": 4})
    assert model.features.word_table.weight.requires_grad
    assert [vector(word) for word in ("the", "cat", "sat", "other")] == [[1, 2], [3, 4], [5, 6], [7, 8]]
    model, vector = build({"word_vectors": str(tmp_path / "vectors.txt"), "more_word_vectors": 3}, other=())
    assert vector("sat") == [5, 6] and vector("other") == vector("never")


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
    model, vector = build({"learn_words": True, "word_vector_size": 3})
    assert model.config.head.word_table_size == 3  # `the` and the two markers
    assert len({tuple(vector(word)) for word in ("cat", "Cat", "sat")}) == 1 != vector("the")
    model, vector = build({"learn_words": True, "min_word_count": 1})
    assert model.config.head.word_table_size == 5 and vector("cat") != vector("Cat")
    assert len(vector("cat")) == 50 and vector("sat") == vector("never")


def test_a_baseline_without_elmo_never_runs_it():
    model, _ = build({"no_use_elmo": True, "character_filters": ["3:5", "2:4"], "character_embedding_size": 7})
    model.elmo.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))
    ids = torch.from_numpy(ElmoCharTokenizer().encode_words(["a", "b"])).unsqueeze(0)
    assert model(ids).logits.shape == (1, 2, 2) and model.input_size == 9
    assert not any(parameter.requires_grad for parameter in model.elmo.parameters())


def test_new_words_replace_those_of_a_checkpoint(tmp_path):
    model, vector = build({"learn_words": True, "min_word_count": 1}, train=["old"])
    model.save_pretrained(tmp_path)
    before = vector("old")
    loaded = ElmoForTokenClassification.from_pretrained(tmp_path)
    args = FeatureArguments(learn_words=True, min_word_count=1)
    table = set_word_inputs(loaded.config, TokenClassificationHead, args, ElmoCharTokenizer(), ["new"])
    fill_word_table(loaded, table)
    row = torch.from_numpy(ElmoCharTokenizer().encode_words(["new", "old"]))
    found = loaded.features.word_table(row).tolist()
    assert before not in found and loaded.features.word_table.indices(row).tolist()[1] == 0


@pytest.mark.parametrize(
    "args, named",
    [
        ({"word_vectors": "x", "learn_words": True}, ("word_vectors", "learn_words")),
        ({"learn_words": True, "no_train_word_vectors": True}, ("learn_words", "no_train_word_vectors")),
        ({"min_word_count": 2}, ("min_word_count", "learn_words")),
        ({"word_vector_size": 2}, "word_vector_size"),
        ({"more_word_vectors": 2}, "more_word_vectors is 2"),
        ({"more_word_vectors": -1, "word_vectors": "x"}, "more_word_vectors is -1"),
        ({"lower_case_words": True}, "lower_case_words"),
        ({"learn_words": True, "word_vector_size": 0}, "word_vector_size is 0"),
        ({"no_use_elmo": True, "mix_at_output": True}, ("no_use_elmo", "mix_at_output")),
    ],
)
def test_flags_that_contradict_each_other(args, named):
    assert_refused(ValueError, named, check_features, FeatureArguments(**args))


@pytest.mark.parametrize(
    "args, named",
    [
        ({"no_use_elmo": True}, "no_use_elmo"),
        ({"character_filters": ["3x5"]}, ("character_filters", "'3x5'")),
        ({"character_filters": ["0:5"]}, "character_filters"),
        ({"mix_at_output": True}, "mix_at_output"),
        ({"learn_words": True, "min_word_count": 9}, ("learn_words", "min_word_count")),
    ],
)
def test_settings_that_leave_nothing_to_read(args, named):
    assert_refused(ValueError, named, build, args)


def test_a_table_must_not_stay_empty():
    config = make_tiny_config(head=TokenClassificationHead(word_table_size=3, word_vector_size=2))
    check_table(config, None, is_random=False)
    assert_refused(ValueError, ("from_scratch", "--learn_words"), check_table, config, None, True)
