"""What a run starts from: sizes, frequencies, word vectors; and checkpoints, what is kept of them bit by bit."""

import json
import math

import pytest
import torch
from conftest import make_tiny_config
from huggingface_hub.errors import StrictDataclassError
from refusals import assert_refused
from run_cases import make_arguments, write_lines
from tolerances import REORDERED_FLOAT32
from transformers import AutoModelForPreTraining

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForTokenClassification,
    TokenClassificationHead,
)
from hf_elmo.pretraining.corpus_stats import CorpusStats
from hf_elmo.pretraining.init import build_model, open_start
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.text.vocabulary import WordVocabulary

OLD = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on"])
# Other places for words that are known, one known word left out, two new ones.
NEW = WordVocabulary(["<S>", "</S>", "<UNK>", "sat", "zebra", "the", "cat", "quagga"])
ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4], "adaptive_softmax_div_value": 2}
TOKENIZER = ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True)
STATS = CorpusStats(words=100, sentences=10, distinct_words=8, unknown_share=0.2)
# With the dropout of the recipe.
SIZES = {"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]]}


def save(directory, model, vocabulary=OLD):
    """A checkpoint with other numbers than any initialization gives, also where that gives zeros."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    model.save_pretrained(directory)
    TOKENIZER.save_pretrained(directory)
    if vocabulary is not None:
        vocabulary.save(directory)
    return model


@pytest.fixture
def build(tmp_path):
    """Build a model over words, from a checkpoint where there is one, and say what the user is told."""

    def build(words, overrides=None, counts=None, **changes):
        if (tmp_path / "old").exists():
            changes["model_name_or_path"] = str(tmp_path / "old")
        arguments = make_arguments(tmp_path, config_overrides=json.dumps(overrides or {}), **changes).with_recipe()
        said = []
        return build_model(open_start(arguments), arguments, words, counts, STATS, said.append), said

    return build


@pytest.fixture
def old(tmp_path):
    def old(vocabulary=OLD, **fields):
        return save(
            tmp_path / "old", ElmoForPreTraining(make_tiny_config(word_vocab_size=len(OLD), **fields)), vocabulary
        )

    return old


def assert_same_bilm(found, wanted):
    """Bit by bit, but for the scalar mixes."""
    found, wanted = found.base_model.state_dict(), wanted.base_model.state_dict()
    names = [name for name in wanted if not name.startswith("mixes.")]
    assert names and all(torch.equal(found[name], wanted[name]) for name in names)


@pytest.mark.parametrize("word_vocab_size", [None, len(OLD)])
def test_of_a_tagger_the_bilm_is_taken_and_the_task_forgotten(tmp_path, build, word_vocab_size):
    head = TokenClassificationHead(lstm_layers=1, dropout=0.3)
    fields = {"num_labels": 5, "num_mixes": 2, "head": head, "mix_normalization": "word", "mix_l2": 0.1}
    config = make_tiny_config(**fields, word_vocab_size=word_vocab_size, freeze_bilm=False)
    tagger = save(tmp_path / "old", ElmoForTokenClassification(config), vocabulary=None)
    model, said = build(NEW)
    assert_same_bilm(model, tagger)
    assert "0 of 8 words keep their rows" in said[0]
    model.save_pretrained(tmp_path / "new")
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(NEW))).save_pretrained(tmp_path / "plain")
    found, wanted = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("new", "plain"))
    assert found == wanted
    assert [mix.weight.tolist() for mix in model.elmo.mixes] == [[0.0, 0.0, 0.0]]


def test_words_that_are_not_the_softmaxs_are_refused(tmp_path, old, build):
    old()
    for content, named in (("<S>\n</S>\n<UNK>\na\n", "over 7 words"), ("a\nb\nc\nd\ne\nf\ng\n", "<S>")):
        (tmp_path / "old" / "word_vocabulary.txt").write_text(content)
        message = assert_refused(ValueError, (named, "word_vocabulary.txt"), build, NEW)
        assert str(tmp_path / "old") in message


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}, ADAPTIVE], ids=["shared", "two", "adaptive"])
def test_with_the_same_words_everything_but_the_mixes_is_kept_in_float32(tmp_path, old, build, fields):
    model = old(**fields).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "old")
    carried, said = build(WordVocabulary(OLD.words), objective=model.config.softmax_type)
    found, wanted = carried.state_dict(), model.state_dict()
    assert found.keys() == wanted.keys() and {tensor.dtype for tensor in found.values()} == {torch.float32}
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor.float()) != (".mixes." in name), name
    assert carried.elmo.mixes[0].scale.tolist() == [1.0]
    assert "7 of 7 words keep their rows" in said[0]
    assert all(getattr(carried.config, name) == getattr(model.config, name) for name in ElmoConfig.__annotations__)


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}], ids=["shared", "two"])
def test_new_words_leave_the_rows_of_known_ones_and_the_bilm_and_share_what_the_unknown_word_had(old, build, fields):
    model = old(**fields)
    carried, said = build(NEW)
    assert_same_bilm(carried, model)
    ours, theirs = (torch.tensor([words.ids[word] for word in NEW.words if word in OLD]) for words in (NEW, OLD))
    new = torch.tensor([index for word, index in NEW.ids.items() if word not in OLD])
    for softmax, other in zip(carried.word_softmaxes, model.word_softmaxes, strict=True):
        assert torch.equal(softmax.weight[ours], other.weight[theirs])
        assert torch.equal(softmax.bias[ours], other.bias[theirs])
        assert torch.equal(softmax.weight[new], other.weight[[OLD.unk_id] * 2])
        shared = other.bias[[OLD.unk_id] * 2] - math.log(3)
        torch.testing.assert_close(softmax.bias[new], shared, rtol=0, atol=REORDERED_FLOAT32)
    assert "6 of 8 words keep their rows" in said[0]


@pytest.mark.parametrize(
    ("fields", "old_words", "words", "softmax_type", "overrides"),
    [
        (ADAPTIVE, OLD, NEW, "adaptive", {}),
        (ADAPTIVE, OLD, OLD, "adaptive", {"adaptive_softmax_cutoffs": [3]}),
        (ADAPTIVE, OLD, OLD, "full", {}),
        ({}, OLD, OLD, "adaptive", {"adaptive_softmax_div_value": 2}),
        ({}, None, OLD, "full", {}),
    ],
    ids=["other words", "other clusters", "adaptive to full", "full to adaptive", "words that nobody knows"],
)
def test_rows_that_fit_no_other_softmax_are_left_out_and_said_to_be(
    old, build, fields, old_words, words, softmax_type, overrides
):
    model = old(old_words, **fields)
    carried, said = build(words, overrides, objective=softmax_type)
    assert_same_bilm(carried, model)
    assert carried.config.softmax_type == softmax_type
    assert all(getattr(carried.config, name) == value for name, value in overrides.items())
    assert f"0 of {len(words)} words keep their rows" in said[0]


def test_overrides_change_nothing_of_what_the_weights_mean(old, build):
    old()
    for overrides, named in (
        ({"cell_size": 11}, ("cell_size to 11", "--model_name_or_path", "10")),
        ({"num_hidden_layers": 3}, "num_hidden_layers to 3"),
        ({"token_inputs": "words", "word_table_size": 3, "word_vector_size": 2}, "token_inputs to 'words'"),
        ({"word_vocab_size": 99}, "word_vocab_size to 99"),
        ({"share_word_softmax": False}, "share_word_softmax to False"),
        ({"drop_out": 0.1}, ("'drop_out'", "'dropout'")),
    ):
        assert_refused(ValueError, named, build, NEW, overrides)
    model, _ = build(NEW, {"dropout": 0.4, "cell_clip": None, "cell_size": 10, "num_mixes": 2})
    assert (model.config.dropout, model.elmo.bilm.layers[0].dropout.p) == (0.4, 0.4)
    assert model.elmo.bilm.layers[0].forward_lstm.cell_clip is None
    assert len(model.elmo.mixes) == 2


# Tables of words

TABLE_WORDS = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "dog", "né"])


def look_up(model, *words):
    return model.elmo.token_encoder.word_table(torch.from_numpy(TOKENIZER.encode_words(words))).tolist()


@pytest.mark.parametrize("fields", [{"token_inputs": "words"}, {"train_word_vectors": False}])
def test_the_table_is_filled_with_the_vocabularys_words_of_the_file(tmp_path, build, fields):
    (tmp_path / "vectors.txt").write_text("The 1 2\nthe 3 4\nné -3 0\ncat 7 8\n")
    model, (line,) = build(TABLE_WORDS, SIZES | fields, do_lower_case=True, word_vectors=str(tmp_path / "vectors.txt"))
    config = model.config
    assert (config.token_inputs, config.word_table_size) == (fields.get("token_inputs", "both"), 4)
    assert config.train_word_vectors == model.elmo.token_encoder.word_table.weight.requires_grad
    assert config.train_word_vectors == ("token_inputs" in fields)
    # Of words that are read in lower case the first one counts; the others are not in both lists.
    assert look_up(model, "THE", "né", "dog", "cat", "<UNK>") == [[1, 2], [-3, 0], *[[-1, 1]] * 3]
    assert len(set(map(tuple, look_up(model, "<S>", "</S>", "dog")))) == 3
    assert "2 of 5 words of the vocabulary have a vector of size 2" in line


def test_a_table_is_learned_for_all_words_of_the_vocabulary(build):
    model, said = build(TABLE_WORDS, {**SIZES, "token_inputs": "both", "word_vector_size": 7})
    assert (model.config.word_table_size, model.config.word_vector_size) == (5, 7)
    assert len(set(map(tuple, look_up(model, *TABLE_WORDS.words)))) == 6
    assert look_up(model, "<UNK>") == look_up(model, "zebra")
    assert said == ["word table: 5 words of the vocabulary, vectors of size 7 to be learned"]
    assert build(TABLE_WORDS, {**SIZES, "token_inputs": "words"})[0].config.word_vector_size == 8


def test_tables_that_contradict_are_refused_by_name(build):
    for overrides, file, named in (
        ({"token_inputs": "characters"}, "x.txt", ("word_vectors", "token_inputs")),
        ({"word_vector_size": 3}, None, ("word_vector_size", "token_inputs")),
        ({"token_inputs": "both", "word_vector_size": 0}, None, "word_vector_size"),
        ({"token_inputs": "word"}, None, "token_inputs"),
    ):
        errors = (ValueError, StrictDataclassError)
        assert_refused(errors, named, build, TABLE_WORDS, SIZES | overrides, word_vectors=file)


# Runs


def test_the_first_guesses_are_the_words_frequencies(build):
    words = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "sat", "never"])
    model, _ = build(words, SIZES, {"the": 60, "sat": 20})
    expected = [10 + 1, 10 + 1, 20 + 1, 60 + 1, 20 + 1, 0 + 1]
    torch.testing.assert_close(model.word_softmax.bias.detach().exp(), torch.tensor(expected) / (110 + 6))
    assert not build(words, SIZES)[0].word_softmax.bias.any()
    assert model.config.dropout == 0.1 and build(words, {**SIZES, "dropout": 0.3})[0].config.dropout == 0.3


def test_a_run_continues_from_one_with_a_table_of_words_and_from_that_with_other_words(tmp_path):
    write_lines(tmp_path, ["the cat sat on the mat .", "a dog ran to the park .", "it sat ."])

    def run(**changes):
        lines = []
        arguments = make_arguments(tmp_path, **{"skip_baselines": True, **changes})
        return run_pretraining(arguments, report=lines.append), lines

    overrides = json.dumps({**SIZES, "token_inputs": "words"})
    first, _ = run(do_lower_case=True, config_overrides=overrides)
    # With its words it starts where the other one ended.
    more = {"model_name_or_path": str(tmp_path / "out"), "output_dir": str(tmp_path / "more"), "config_overrides": None}
    second, lines = run(**more)
    assert WordVocabulary.load(tmp_path / "more").words == WordVocabulary.load(tmp_path / "out").words
    assert any("words keep their rows" in line for line in lines)
    assert second["evaluations"][0]["mean"] == pytest.approx(first["perplexity"]["mean"], rel=1e-5)
    assert second["perplexity"]["mean"] != pytest.approx(first["perplexity"]["mean"], rel=1e-3)
    assert json.loads((tmp_path / "more" / "tokenizer_config.json").read_text())["do_lower_case"] is True
    # Other words and fields.
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\nzebra\n")
    changes = {"vocab_file": str(tmp_path / "words.txt"), "config_overrides": '{"dropout": 0.3}'}
    _, lines = run(**more | changes, overwrite_output_dir=True)
    assert any("4 of 5 words keep their rows" in line for line in lines)
    new = AutoModelForPreTraining.from_pretrained(tmp_path / "more")
    assert new.config.dropout == 0.3 and new.config.word_vocab_size == 5
    with pytest.raises(ValueError, match=r"output_dir .*--model_name_or_path"):
        run(**more | {"output_dir": str(tmp_path / "out"), "overwrite_output_dir": True})
