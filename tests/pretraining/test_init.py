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
    ElmoForPreTraining,
    ElmoForTokenClassification,
    ElmoModel,
    TokenClassificationHead,
)
from hf_elmo.pretraining.corpus_stats import CorpusStats
from hf_elmo.pretraining.init import Start, carry_over, set_token_inputs
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import build_word_table

OLD = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on"])
# Other places for words that are known, one known word left out, two new ones.
NEW = WordVocabulary(["<S>", "</S>", "<UNK>", "sat", "zebra", "the", "cat", "quagga"])
ADAPTIVE = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4], "adaptive_softmax_div_value": 2}
TOKENIZER = ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True)


def randomize(model):
    """Other numbers than any initialization gives, also where that gives zeros."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    return model


def make_start(vocabulary=OLD, **fields):
    model = randomize(ElmoForPreTraining(make_tiny_config(word_vocab_size=len(OLD), **fields)))
    return Start(model.config, TOKENIZER, "old", model, vocabulary)


def save(directory, model, vocabulary=OLD):
    model.save_pretrained(directory)
    TOKENIZER.save_pretrained(directory)
    if vocabulary is not None:
        vocabulary.save(directory)
    return str(directory)


def assert_same_bilm(found, wanted):
    """Bit by bit, but for the scalar mixes."""
    found, wanted = found.base_model.state_dict(), wanted.base_model.state_dict()
    names = [name for name in wanted if not name.startswith("mixes.")]
    assert names and all(torch.equal(found[name], wanted[name]) for name in names)


# Checkpoints


def test_a_pre_trained_checkpoint_comes_with_its_softmax_words_and_tokenizer_in_float32(tmp_path):
    model = make_start().model.to(torch.bfloat16)
    start = Start.from_checkpoint(save(tmp_path / "old", model))
    found = start.model.state_dict()
    assert all(torch.equal(found[name], tensor.float()) for name, tensor in model.state_dict().items())
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}
    assert start.vocabulary.words == OLD.words and start.config.word_vocab_size == len(OLD)
    assert (start.tokenizer.pre_tokenizer, start.tokenizer.do_lower_case) == ("punctuation", True)


@pytest.mark.parametrize("word_vocab_size", [None, len(OLD)])
def test_of_a_tagger_the_bilm_is_taken_and_the_task_forgotten(tmp_path, word_vocab_size):
    head = TokenClassificationHead(lstm_layers=1, dropout=0.3)
    fields = {"num_labels": 5, "num_mixes": 2, "head": head, "mix_normalization": "word", "mix_l2": 0.1}
    config = make_tiny_config(**fields, word_vocab_size=word_vocab_size, freeze_bilm=False)
    tagger = randomize(ElmoForTokenClassification(config))
    start = Start.from_checkpoint(save(tmp_path / "tagger", tagger, vocabulary=None))
    model, description = carry_over(start, NEW)
    assert_same_bilm(model, tagger)
    assert "softmax: new" in description and "has none" in description and start.vocabulary is None
    model.save_pretrained(tmp_path / "new")
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(NEW))).save_pretrained(tmp_path / "plain")
    found, wanted = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("new", "plain"))
    assert found == wanted
    assert [mix.weight.tolist() for mix in model.elmo.mixes] == [[0.0, 0.0, 0.0]]


def test_what_a_checkpoint_lacks_is_named(tmp_path):
    config = {**make_start().config.to_dict(), "model_type": "bert"}
    for number, (name, content, error, named) in enumerate(
        (
            ("config.json", None, FileNotFoundError, ("model_name_or_path", "config.json")),
            ("config.json", json.dumps(config), ValueError, ("model_name_or_path", "'bert'")),
            ("word_vocabulary.txt", "<S>\n</S>\n<UNK>\na\n", ValueError, ("over 7 words", "word_vocabulary.txt")),
            ("word_vocabulary.txt", "a\nb\nc\nd\ne\nf\ng\n", ValueError, "word_vocabulary.txt"),
        )
    ):
        directory = save(tmp_path / f"old-{number}", make_start().model)
        (tmp_path / f"old-{number}" / name).unlink()
        if content is not None:
            (tmp_path / f"old-{number}" / name).write_text(content)
        assert f"old-{number}" in assert_refused(error, named, Start.from_checkpoint, directory)


# What is carried over


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}, ADAPTIVE], ids=["shared", "two", "adaptive"])
def test_with_the_same_words_everything_but_the_mixes_is_kept(fields):
    start = make_start(**fields)
    carried, description = carry_over(start, WordVocabulary(OLD.words), start.config.softmax_type)
    found, wanted = carried.state_dict(), start.model.state_dict()
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor) != (".mixes." in name), name
    assert carried.elmo.mixes[0].scale.tolist() == [1.0]
    assert "7 words keep their rows" in description or "7 of 7 words keep their rows" in description
    assert carried.config.to_dict() == {**start.config.to_dict(), "word_vocab_size": len(OLD)}


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}], ids=["shared", "two"])
def test_new_words_leave_the_rows_of_known_ones_and_the_bilm_as_they_are(fields):
    start = make_start(**fields)
    before = {name: tensor.clone() for name, tensor in start.model.state_dict().items()}
    carried, description = carry_over(start, NEW)
    assert_same_bilm(carried, start.model)
    ours, theirs = (torch.tensor([words.ids[word] for word in NEW.words if word in OLD]) for words in (NEW, OLD))
    for softmax, other in zip(carried.word_softmaxes, start.model.word_softmaxes, strict=True):
        assert torch.equal(softmax.weight[ours], other.weight[theirs])
        assert torch.equal(softmax.bias[ours], other.bias[theirs])
    assert "6 of 8 words keep their rows from old, 2 are new, 1 are left out" in description
    with torch.no_grad():
        carried.word_softmax.weight += 1
    assert all(torch.equal(start.model.state_dict()[name], tensor) for name, tensor in before.items())


def test_new_words_share_the_probability_of_the_unknown_word():
    start = make_start()
    words = WordVocabulary([*OLD.words, "zebra", "quagga", "okapi"])
    batch = TOKENIZER("the cat sat on", return_tensors="pt")
    with torch.no_grad():
        before = start.model.eval()(**batch)
        after = carry_over(start, words)[0].eval()(**batch)
    for old, new in ((before.forward_logits, after.forward_logits), (before.backward_logits, after.backward_logits)):
        torch.testing.assert_close(new[..., :7], old, rtol=0, atol=REORDERED_FLOAT32)
        share = old[..., [OLD.unk_id]] - math.log(4)
        torch.testing.assert_close(new[..., 7:], share.expand(-1, -1, 3), rtol=0, atol=REORDERED_FLOAT32)


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
def test_rows_that_fit_no_other_softmax_are_left_out_and_said_to_be(fields, old_words, words, softmax_type, overrides):
    start = make_start(old_words, **fields)
    carried, description = carry_over(start, words, softmax_type, overrides)
    assert_same_bilm(carried, start.model)
    assert carried.config.softmax_type == softmax_type
    assert f"softmax: new, over {len(words)} words; old" in description


def test_overrides_that_would_change_the_weights_are_refused():
    for overrides, named in (
        ({"cell_size": 11}, ("cell_size to 11", "--model_name_or_path", "10")),
        ({"num_hidden_layers": 3}, "num_hidden_layers to 3"),
        ({"token_inputs": "words", "word_table_size": 3, "word_vector_size": 2}, "token_inputs to 'words'"),
        ({"word_vocab_size": 99}, "word_vocab_size to 99"),
        ({"share_word_softmax": False}, "share_word_softmax to False"),
        ({"drop_out": 0.1}, ("'drop_out'", "'dropout'")),
    ):
        assert_refused(ValueError, named, carry_over, make_start(), NEW, overrides=overrides)


def test_overrides_that_leave_the_weights_are_taken():
    overrides = {"dropout": 0.4, "cell_clip": None, "cell_size": 10, "num_mixes": 2}
    model, _ = carry_over(make_start(), NEW, overrides=overrides)
    assert (model.config.dropout, model.elmo.bilm.layers[0].dropout.p) == (0.4, 0.4)
    assert model.elmo.bilm.layers[0].forward_lstm.cell_clip is None
    assert len(model.elmo.mixes) == 2


# Tables of words

TABLE_WORDS = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "dog", "né"])


def set_up(lines=None, folder=None, **arguments):
    """A config, a model that was filled with its table, and what the user was told."""
    config, said = make_tiny_config(), []
    if lines is not None:
        (folder / "vectors.txt").write_text("".join(f"{line}\n" for line in lines))
        arguments["word_vectors"] = str(folder / "vectors.txt")
    table = set_token_inputs(config, TOKENIZER, TABLE_WORDS, report=said.append, **arguments)
    model = ElmoModel(config)
    if table is not None:
        table.fill(model)
    return config, model, said


def look_up(model, *words):
    return model.token_encoder.word_table(torch.from_numpy(TOKENIZER.encode_words(words))).tolist()


@pytest.mark.parametrize("token_inputs", ["words", "both", None])
def test_the_table_is_filled_with_the_vocabularys_words_of_the_file(tmp_path, token_inputs):
    lines = ["The 1 2", "the 3 4", "né -3 0", "cat 7 8"]
    config, model, (line,) = set_up(lines, tmp_path, token_inputs=token_inputs)
    assert (config.token_inputs, config.word_table_size, config.word_vector_size) == (token_inputs or "both", 4, 2)
    assert config.train_word_vectors
    # Of words that are read in lower case the first one counts; the others are not in both lists.
    assert look_up(model, "THE", "né", "dog", "cat", "<UNK>") == [[1, 2], [-3, 0], *[[-1, 1]] * 3]
    assert len(set(map(tuple, look_up(model, "<S>", "</S>", "dog")))) == 3
    assert "2 of 5 words of the vocabulary have a vector of size 2" in line
    assert not set_up(lines, tmp_path, train_word_vectors=False)[0].train_word_vectors


def test_a_table_is_learned_for_all_words_of_the_vocabulary():
    config, model, said = set_up(token_inputs="both", word_vector_size=7)
    assert (config.word_table_size, config.word_vector_size) == (5, 7)
    assert len(set(map(tuple, look_up(model, *TABLE_WORDS.words)))) == 6
    assert look_up(model, "<UNK>") == look_up(model, "zebra")
    assert said == ["word table: 5 words of the vocabulary, vectors of size 7 to be learned"]
    assert set_up(token_inputs="words")[0].word_vector_size == 6


def test_characters_alone_have_no_table():
    config, model, said = set_up()
    assert config.to_dict() == make_tiny_config().to_dict()
    assert model.token_encoder.word_table is None and not said
    assert_refused(ValueError, "token_inputs", build_word_table(TOKENIZER, ["a"]).fill, model)


def test_tables_that_contradict_are_refused_by_name():
    for arguments, named in (
        ({"token_inputs": "characters", "word_vectors": "x.txt"}, ("word_vectors", "token_inputs")),
        ({"word_vector_size": 3}, ("word_vector_size", "token_inputs")),
        ({"token_inputs": "both", "train_word_vectors": False}, "train_word_vectors"),
        ({"token_inputs": "both", "word_vector_size": 0}, "word_vector_size is 0"),
        ({"token_inputs": "word"}, "token_inputs"),
    ):
        assert_refused((ValueError, StrictDataclassError), named, set_up, **arguments)


# Runs

# With the dropout of the recipe.
SIZES = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]]}'


@pytest.fixture
def arguments(tmp_path):
    write_lines(tmp_path, ["the cat sat on the mat .", "a dog ran to the park .", "it sat ."])
    return lambda **changes: make_arguments(tmp_path, **{"config_overrides": SIZES, "skip_baselines": True, **changes})


def test_the_first_guesses_are_the_words_frequencies(arguments):
    made = arguments().with_recipe()
    words = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "sat", "never"])
    stats = CorpusStats(num_words=100, num_sentences=10, num_distinct=8, unknown_share=0.2)
    start = Start.from_arguments(made)
    frequencies = start.build_model(made, words, {"the": 60, "sat": 20}, stats, print).word_softmax.bias.detach().exp()
    expected = [10 + 1, 10 + 1, 20 + 1, 60 + 1, 20 + 1, 0 + 1]
    torch.testing.assert_close(frequencies, torch.tensor(expected) / (110 + 6))
    assert not start.build_model(made, words, None, stats, print).word_softmax.bias.any()
    assert start.config.dropout == 0.1
    assert Start.from_arguments(arguments(config_overrides='{"dropout": 0.3}')).config.dropout == 0.3


def test_a_run_with_word_vectors_of_a_file_and_one_that_continues_from_it(arguments, tmp_path):
    vectors = {word: [float(place), 0.5, -1.0] for place, word in enumerate(["the", "cat", "sat", "elephant"])}
    text = "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items())
    (tmp_path / "vectors.txt").write_text(text)
    overrides = json.dumps({**json.loads(SIZES), "train_word_vectors": False, "token_inputs": "words"})
    flags = {"word_vectors": str(tmp_path / "vectors.txt"), "do_lower_case": True, "config_overrides": overrides}
    first = run_pretraining(arguments(**flags), report=lambda line: None)
    old = AutoModelForPreTraining.from_pretrained(tmp_path / "out")
    assert (old.config.token_inputs, old.config.word_vector_size) == ("words", 3)
    held = old.elmo.token_encoder.word_table.weight.detach()
    for word in ("the", "cat", "sat"):
        assert (held == torch.tensor(vectors[word])).all(dim=1).any()
    # With its words it starts where the other one ended.
    more = {"model_name_or_path": str(tmp_path / "out"), "output_dir": str(tmp_path / "more"), "config_overrides": None}
    lines = []
    second = run_pretraining(arguments(**more), report=lines.append)
    assert WordVocabulary.load(tmp_path / "more").words == WordVocabulary.load(tmp_path / "out").words
    assert any("words keep their rows" in line for line in lines)
    assert second["evaluations"][0]["mean"] == pytest.approx(first["perplexity"]["mean"], rel=1e-5)
    assert second["perplexity"]["mean"] != pytest.approx(first["perplexity"]["mean"], rel=1e-3)
    assert json.loads((tmp_path / "more" / "tokenizer_config.json").read_text())["do_lower_case"] is True
    # Other words and fields.
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\nzebra\n")
    changes = {"vocab_file": str(tmp_path / "words.txt"), "config_overrides": '{"dropout": 0.3}'}
    run_pretraining(arguments(**more | changes, overwrite_output_dir=True), report=lines.append)
    assert any("4 of 5 words keep their rows" in line and "1 are new" in line for line in lines)
    new = AutoModelForPreTraining.from_pretrained(tmp_path / "more")
    assert new.config.dropout == 0.3 and new.config.word_vocab_size == 5
    changes = {"output_dir": str(tmp_path / "out"), "overwrite_output_dir": True}
    with pytest.raises(ValueError, match=r"output_dir .*--model_name_or_path"):
        run_pretraining(arguments(**more | changes), report=lines.append)
