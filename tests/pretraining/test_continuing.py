"""Going on from a checkpoint: what is kept bit by bit, what starts anew."""

import json
import math

import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32
from transformers import AutoModelForPreTraining

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.pretraining.continuing import (
    Source,
    carry_over,
    load_source,
)
from hf_elmo.text.vocabulary import WordVocabulary

OLD = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on"])
# Other places for words that are known, one known word left out, two new ones.
NEW = WordVocabulary(["<S>", "</S>", "<UNK>", "sat", "zebra", "the", "cat", "quagga"])
ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4], "adaptive_softmax_div_value": 2}
TOKENIZER = ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True)


def randomize(model):
    """Other numbers than any initialisation gives, also where that gives zeros."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    return model


def make_model(**fields):
    return randomize(ElmoForPreTraining(make_tiny_config(word_vocab_size=len(OLD), **fields)))


def make_source(**fields):
    return Source("old", make_model(**fields), OLD, TOKENIZER)


def save(directory, model, vocabulary=OLD, tokenizer=TOKENIZER):
    model.save_pretrained(directory)
    if tokenizer is not None:
        tokenizer.save_pretrained(directory)
    if vocabulary is not None:
        vocabulary.save(directory)
    return str(directory)


def assert_same_bilm(found, wanted):
    """Bit by bit, but for the scalar mixes."""
    found, wanted = found.base_model.state_dict(), wanted.base_model.state_dict()
    names = [name for name in wanted if not name.startswith("mixes.")]
    assert names and all(torch.equal(found[name], wanted[name]) for name in names)


def is_copied(model, source, word, vocabulary):
    """For each direction, whether a word's row is the source's."""
    return [
        torch.equal(ours.weight[vocabulary.ids[word]], theirs.weight[OLD.ids[word]])
        and torch.equal(ours.bias[vocabulary.ids[word]], theirs.bias[OLD.ids[word]])
        for ours, theirs in zip(model.word_softmaxes, source.model.word_softmaxes, strict=True)
    ]


# Sources


def test_a_pre_trained_checkpoint_comes_with_its_softmax_words_and_tokenizer(tmp_path):
    model = make_model()
    source = load_source(save(tmp_path / "old", model))
    assert isinstance(source.model, ElmoForPreTraining)
    assert all(torch.equal(source.model.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert source.vocabulary.words == OLD.words
    assert (source.tokenizer.pre_tokenizer, source.tokenizer.do_lower_case) == ("punctuation", True)
    assert source.config.word_vocab_size == len(OLD)


def test_of_a_checkpoint_without_a_softmax_the_bilm_is_taken(tmp_path):
    model = randomize(ElmoModel(make_tiny_config()))
    source = load_source(save(tmp_path / "old", model, vocabulary=None))
    carried = carry_over(source, NEW)
    assert (type(source.model), source.vocabulary) == (ElmoModel, None)
    assert_same_bilm(carried.model, model)
    assert carried.num_kept_words == 0 and "has none" in carried.description
    assert carried.model.config.word_vocab_size == len(NEW)


@pytest.mark.parametrize("word_vocab_size", [None, len(OLD)])
def test_of_a_tagger_the_bilm_is_taken_and_the_task_forgotten(tmp_path, word_vocab_size):
    fields = {"num_labels": 5, "num_mixes": 2, "classifier_lstm_layers": 1, "mix_normalization": "word", "mix_l2": 0.1}
    config = make_tiny_config(**fields, word_vocab_size=word_vocab_size, classifier_dropout=0.3, freeze_bilm=False)
    tagger = randomize(ElmoForTokenClassification(config))
    source = load_source(save(tmp_path / "tagger", tagger, vocabulary=None))
    model = carry_over(source, NEW).model
    assert_same_bilm(model, tagger)
    model.save_pretrained(tmp_path / "new")
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(NEW))).save_pretrained(tmp_path / "plain")
    found, wanted = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("new", "plain"))
    assert found == wanted
    assert [mix.weight.tolist() for mix in model.elmo.mixes] == [[0.0, 0.0, 0.0]]


def test_what_was_saved_in_half_precision_goes_on_in_float32(tmp_path):
    model = make_model().to(torch.bfloat16)
    carried = carry_over(load_source(save(tmp_path / "old", model)), OLD).model
    assert {parameter.dtype for parameter in carried.parameters()} == {torch.float32}
    assert torch.equal(carried.word_softmax.weight, model.word_softmax.weight.float())


def edit_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


BAD_SOURCES = {
    "no checkpoint": (
        lambda folder: (folder / "config.json").unlink(),
        FileNotFoundError,
        ("model_name_or_path", "config.json"),
    ),
    "another model": (
        lambda folder: edit_json(folder / "config.json", model_type="bert"),
        ValueError,
        ("model_name_or_path", "'bert'"),
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), FileNotFoundError, "model_name_or_path"),
    "a softmax of another size": (
        lambda folder: edit_json(folder / "config.json", word_vocab_size=9),
        ValueError,
        ("model_name_or_path", "'word_softmax.bias'"),
    ),
    "words of another model": (
        lambda folder: NEW.save(folder),
        ValueError,
        ("model_name_or_path", "7 words", "word_vocabulary.txt"),
    ),
    "words without the special ones": (
        lambda folder: (folder / "word_vocabulary.txt").write_text("a\nb\nc\nd\ne\nf\ng\n"),
        ValueError,
        ("model_name_or_path", "word_vocabulary.txt"),
    ),
    "no tokenizer": (
        lambda folder: (folder / "tokenizer_config.json").unlink(),
        FileNotFoundError,
        ("model_name_or_path", "tokenizer_config.json"),
    ),
    "a tokenizer of shorter rows": (
        lambda folder: ElmoCharTokenizer(max_characters_per_word=20).save_pretrained(folder),
        ValueError,
        ("max_characters_per_word=20", "50"),
    ),
}


def test_what_a_source_lacks_is_named(tmp_path):
    for name, (spoil, error, named) in BAD_SOURCES.items():
        directory = save(tmp_path / name / "old", make_model())
        spoil(tmp_path / name / "old")
        assert "old" in assert_refused(error, named, load_source, directory)


# What is carried over


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}, ADAPTIVE], ids=["shared", "two", "adaptive"])
def test_with_the_same_words_everything_but_the_mixes_is_kept(fields):
    source = make_source(**fields)
    carried = carry_over(source, WordVocabulary(OLD.words), source.config.softmax_type)
    found, wanted = carried.model.state_dict(), source.model.state_dict()
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor) != (".mixes." in name), name
    assert carried.model.elmo.mixes[0].scale.tolist() == [1.0]
    assert carried.num_kept_words == len(OLD) and "7" in carried.description
    assert carried.model.config.to_dict() == {**source.config.to_dict(), "word_vocab_size": len(OLD)}


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}], ids=["shared", "two"])
def test_new_words_leave_the_rows_of_known_ones_and_the_bilm_as_they_are(fields):
    source = make_source(**fields)
    before = {name: tensor.clone() for name, tensor in source.model.state_dict().items()}
    carried = carry_over(source, NEW)
    assert_same_bilm(carried.model, source.model)
    for word in ("<S>", "</S>", "<UNK>", "the", "cat", "sat"):
        assert is_copied(carried.model, source, word, NEW) == [True, True]
    assert carried.num_kept_words == 6
    assert "6 of 8 words keep their rows from old, 2 are new, 1 are left out" in carried.description
    assert all(torch.equal(source.model.state_dict()[name], tensor) for name, tensor in before.items())
    with torch.no_grad():
        carried.model.word_softmax.weight += 1
    assert torch.equal(source.model.word_softmax.weight, before["word_softmax.weight"])


def test_new_words_share_the_probability_of_the_unknown_word():
    source = make_source()
    words = WordVocabulary([*OLD.words, "zebra", "quagga", "okapi"])
    batch = TOKENIZER("the cat sat on", return_tensors="pt")
    with torch.no_grad():
        before = source.model.eval()(**batch)
        after = carry_over(source, words).model.eval()(**batch)
    for old, new in ((before.forward_logits, after.forward_logits), (before.backward_logits, after.backward_logits)):
        torch.testing.assert_close(new[..., :7], old, rtol=0, atol=REORDERED_FLOAT32)
        share = old[..., [OLD.unk_id]] - math.log(4)
        torch.testing.assert_close(new[..., 7:], share.expand(-1, -1, 3), rtol=0, atol=REORDERED_FLOAT32)


def test_one_softmax_can_become_two_but_not_two_one():
    source = make_source()
    carried = carry_over(source, NEW, overrides={"share_word_softmax": False})
    forward, backward = carried.model.word_softmaxes
    assert forward is not backward and torch.equal(forward.weight, backward.weight)
    assert is_copied(carried.model, source, "cat", NEW) == [True, True]
    with pytest.raises(ValueError, match=r"share_word_softmax .*--model_name_or_path"):
        carry_over(make_source(share_word_softmax=False), NEW, overrides={"share_word_softmax": True})


@pytest.mark.parametrize(
    ("fields", "words", "softmax_type", "overrides"),
    [
        (ADAPTIVE, NEW, "adaptive", {}),
        (ADAPTIVE, OLD, "adaptive", {"adaptive_softmax_cutoffs": [3]}),
        (ADAPTIVE, OLD, "full", {}),
        ({}, OLD, "adaptive", {"adaptive_softmax_div_value": 2}),
    ],
    ids=["other words", "other clusters", "adaptive to full", "full to adaptive"],
)
def test_rows_that_fit_no_other_clusters_are_left_out_and_said_to_be(fields, words, softmax_type, overrides):
    source = make_source(**fields)
    carried = carry_over(source, words, softmax_type, overrides)
    assert_same_bilm(carried.model, source.model)
    assert carried.model.config.softmax_type == softmax_type
    assert carried.num_kept_words == 0
    assert f"softmax: new, over {len(words)} words; the rows of old" in carried.description


def test_a_softmax_whose_words_nobody_knows_starts_anew():
    source = Source("old", make_model(), None, TOKENIZER)
    carried = carry_over(source, OLD)
    assert carried.num_kept_words == 0 and "holds no word_vocabulary.txt" in carried.description
    assert not torch.equal(carried.model.word_softmax.weight, source.model.word_softmax.weight)


def test_overrides_that_would_change_the_weights_are_refused():
    for overrides, named in (
        ({"cell_size": 11}, ("cell_size to 11", "--model_name_or_path", "10")),
        ({"filters": [[1, 3]]}, "filters"),
        ({"num_hidden_layers": 3}, "num_hidden_layers to 3"),
        ({"use_skip_connections": False}, "use_skip_connections to False"),
        ({"token_inputs": "words", "word_table_size": 3, "word_vector_size": 2}, "token_inputs to 'words'"),
        ({"word_vocab_size": 99}, "word_vocab_size to 99"),
        ({"drop_out": 0.1}, ("'drop_out'", "'dropout'")),
    ):
        assert_refused(ValueError, named, carry_over, make_source(), NEW, overrides=overrides)


def test_overrides_that_leave_the_weights_are_taken(tmp_path):
    overrides = {"dropout": 0.4, "cell_clip": None, "cell_size": 10, "num_mixes": 2}
    model = carry_over(make_source(), NEW, overrides=overrides).model
    assert (model.config.dropout, model.elmo.bilm.layers[0].dropout.p) == (0.4, 0.4)
    assert model.elmo.bilm.layers[0].forward_lstm.cell_clip is None
    assert len(model.elmo.mixes) == 2
    model.save_pretrained(tmp_path / "new")
    back, loading = AutoModelForPreTraining.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert not any(loading.values())
    assert torch.equal(back.word_softmax.weight, model.word_softmax.weight)
