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
from hf_elmo.pretraining.init import Source, Start, carry_over, load_source, set_token_inputs
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import build_word_table

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
    carried, description = carry_over(source, NEW)
    assert (type(source.model), source.vocabulary) == (ElmoModel, None)
    assert_same_bilm(carried, model)
    assert "softmax: new" in description and "has none" in description
    assert carried.config.word_vocab_size == len(NEW)


@pytest.mark.parametrize("word_vocab_size", [None, len(OLD)])
def test_of_a_tagger_the_bilm_is_taken_and_the_task_forgotten(tmp_path, word_vocab_size):
    fields = {
        "num_labels": 5,
        "num_mixes": 2,
        "head": TokenClassificationHead(lstm_layers=1, dropout=0.3),
        "mix_normalization": "word",
        "mix_l2": 0.1,
    }
    config = make_tiny_config(**fields, word_vocab_size=word_vocab_size, freeze_bilm=False)
    tagger = randomize(ElmoForTokenClassification(config))
    source = load_source(save(tmp_path / "tagger", tagger, vocabulary=None))
    model, _ = carry_over(source, NEW)
    assert_same_bilm(model, tagger)
    model.save_pretrained(tmp_path / "new")
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(NEW))).save_pretrained(tmp_path / "plain")
    found, wanted = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("new", "plain"))
    assert found == wanted
    assert [mix.weight.tolist() for mix in model.elmo.mixes] == [[0.0, 0.0, 0.0]]


def test_what_was_saved_in_half_precision_continues_in_float32(tmp_path):
    model = make_model().to(torch.bfloat16)
    carried, _ = carry_over(load_source(save(tmp_path / "old", model)), OLD)
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
    carried, description = carry_over(source, WordVocabulary(OLD.words), source.config.softmax_type)
    found, wanted = carried.state_dict(), source.model.state_dict()
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor) != (".mixes." in name), name
    assert carried.elmo.mixes[0].scale.tolist() == [1.0]
    assert "7 words keep their rows" in description or "7 of 7 words keep their rows" in description
    assert carried.config.to_dict() == {**source.config.to_dict(), "word_vocab_size": len(OLD)}


@pytest.mark.parametrize("fields", [{}, {"share_word_softmax": False}], ids=["shared", "two"])
def test_new_words_leave_the_rows_of_known_ones_and_the_bilm_as_they_are(fields):
    source = make_source(**fields)
    before = {name: tensor.clone() for name, tensor in source.model.state_dict().items()}
    carried, description = carry_over(source, NEW)
    assert_same_bilm(carried, source.model)
    for word in ("<S>", "</S>", "<UNK>", "the", "cat", "sat"):
        assert is_copied(carried, source, word, NEW) == [True, True]
    assert "6 of 8 words keep their rows from old, 2 are new, 1 are left out" in description
    assert all(torch.equal(source.model.state_dict()[name], tensor) for name, tensor in before.items())
    with torch.no_grad():
        carried.word_softmax.weight += 1
    assert torch.equal(source.model.word_softmax.weight, before["word_softmax.weight"])


def test_new_words_share_the_probability_of_the_unknown_word():
    source = make_source()
    words = WordVocabulary([*OLD.words, "zebra", "quagga", "okapi"])
    batch = TOKENIZER("the cat sat on", return_tensors="pt")
    with torch.no_grad():
        before = source.model.eval()(**batch)
        after = carry_over(source, words)[0].eval()(**batch)
    for old, new in ((before.forward_logits, after.forward_logits), (before.backward_logits, after.backward_logits)):
        torch.testing.assert_close(new[..., :7], old, rtol=0, atol=REORDERED_FLOAT32)
        share = old[..., [OLD.unk_id]] - math.log(4)
        torch.testing.assert_close(new[..., 7:], share.expand(-1, -1, 3), rtol=0, atol=REORDERED_FLOAT32)


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
    carried, description = carry_over(source, words, softmax_type, overrides)
    assert_same_bilm(carried, source.model)
    assert carried.config.softmax_type == softmax_type
    assert f"softmax: new, over {len(words)} words; the rows of old" in description


def test_a_softmax_whose_words_nobody_knows_starts_anew():
    source = Source("old", make_model(), None, TOKENIZER)
    carried, description = carry_over(source, OLD)
    assert "softmax: new" in description and "holds no word_vocabulary.txt" in description
    assert not torch.equal(carried.word_softmax.weight, source.model.word_softmax.weight)


def test_overrides_that_would_change_the_weights_are_refused():
    for overrides, named in (
        ({"cell_size": 11}, ("cell_size to 11", "--model_name_or_path", "10")),
        ({"filters": [[1, 3]]}, "filters"),
        ({"num_hidden_layers": 3}, "num_hidden_layers to 3"),
        ({"use_skip_connections": False}, "use_skip_connections to False"),
        ({"token_inputs": "words", "word_table_size": 3, "word_vector_size": 2}, "token_inputs to 'words'"),
        ({"word_vocab_size": 99}, "word_vocab_size to 99"),
        ({"share_word_softmax": False}, "share_word_softmax to False"),
        ({"drop_out": 0.1}, ("'drop_out'", "'dropout'")),
    ):
        assert_refused(ValueError, named, carry_over, make_source(), NEW, overrides=overrides)


def test_overrides_that_leave_the_weights_are_taken(tmp_path):
    overrides = {"dropout": 0.4, "cell_clip": None, "cell_size": 10, "num_mixes": 2}
    model, _ = carry_over(make_source(), NEW, overrides=overrides)
    assert (model.config.dropout, model.elmo.bilm.layers[0].dropout.p) == (0.4, 0.4)
    assert model.elmo.bilm.layers[0].forward_lstm.cell_clip is None
    assert len(model.elmo.mixes) == 2
    model.save_pretrained(tmp_path / "new")
    back, loading = AutoModelForPreTraining.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert not any(loading.values())
    assert torch.equal(back.word_softmax.weight, model.word_softmax.weight)


# Tables of words

TABLE_WORDS = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "dog", "né"])


def set_up(tokenizer=TOKENIZER, lines=None, folder=None, **arguments):
    """A config, a model that was filled with its table, and what the user was told."""
    config, said = make_tiny_config(), []
    if lines is not None:
        (folder / "vectors.txt").write_text("".join(f"{line}\n" for line in lines))
        arguments["word_vectors"] = str(folder / "vectors.txt")
    table = set_token_inputs(config, tokenizer, TABLE_WORDS, report=said.append, **arguments)
    model = ElmoModel(config)
    if table is not None:
        table.fill(model)
    return config, model, said


def look_up(model, *words):
    return model.token_encoder.word_table(torch.from_numpy(TOKENIZER.encode_words(words))).tolist()


@pytest.mark.parametrize("token_inputs", ["words", "both", None])
def test_the_table_is_filled_with_the_vocabularys_words_of_the_file(tmp_path, token_inputs):
    lines = ["The 1 2", "the 3 4", "né -3 0", "cat 7 8"]
    config, model, (line,) = set_up(lines=lines, folder=tmp_path, token_inputs=token_inputs)
    assert (config.token_inputs, config.word_table_size, config.word_vector_size) == (token_inputs or "both", 4, 2)
    assert config.train_word_vectors
    # Of words that are read in lower case the first one counts; the others are not in both lists.
    assert look_up(model, "THE", "né", "dog", "cat", "<UNK>") == [[1, 2], [-3, 0], *[[-1, 1]] * 3]
    assert len(set(map(tuple, look_up(model, "<S>", "</S>", "dog")))) == 3
    assert "2 of 5 words of the vocabulary have a vector of size 2" in line
    assert not set_up(lines=lines, folder=tmp_path, train_word_vectors=False)[0].train_word_vectors


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
    with pytest.raises(ValueError, match="token_inputs"):
        build_word_table(TOKENIZER, ["a"]).fill(model)


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


def train(arguments):
    lines = []
    return run_pretraining(arguments, report=lines.append), lines


def test_the_first_guesses_are_the_words_frequencies(arguments):
    made = arguments().with_recipe()
    words = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "sat", "never"])
    stats = CorpusStats(num_words=100, num_sentences=10, num_distinct=8, unknown_share=0.2)
    model = Start.from_arguments(made).build_model(made, words, {"the": 60, "sat": 20}, stats, print)
    frequencies = model.word_softmax.bias.detach().exp()
    expected = [10 + 1, 10 + 1, 20 + 1, 60 + 1, 20 + 1, 0 + 1]
    torch.testing.assert_close(frequencies, torch.tensor(expected) / (110 + 6))
    assert not Start.from_arguments(made).build_model(made, words, None, stats, print).word_softmax.bias.any()


def test_dropout_is_the_recipes_unless_it_is_given(arguments):
    made = arguments(recipe="paper").with_recipe()
    assert Start.from_arguments(made).config.dropout == 0.1
    made = arguments(recipe="paper", config_overrides='{"dropout": 0.3}').with_recipe()
    assert Start.from_arguments(made).config.dropout == 0.3


def test_word_vectors_of_a_file_are_in_the_checkpoint(arguments, tmp_path):
    vectors = {word: [float(place), 0.5, -1.0] for place, word in enumerate(["the", "cat", "sat", "elephant"])}
    (tmp_path / "vectors.txt").write_text(
        "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items())
    )
    overrides = json.dumps({**json.loads(SIZES), "train_word_vectors": False, "token_inputs": "words"})
    _, lines = train(arguments(config_overrides=overrides, word_vectors=str(tmp_path / "vectors.txt")))
    assert any("3 of" in line and "vector of size 3" in line for line in lines)
    model = AutoModelForPreTraining.from_pretrained(tmp_path / "out")
    assert (model.config.token_inputs, model.config.word_vector_size) == ("words", 3)
    held = model.elmo.token_encoder.word_table.weight.detach()
    for word in ("the", "cat", "sat"):
        assert (held == torch.tensor(vectors[word])).all(dim=1).any()
    assert not model.elmo.token_encoder.convolutions


def test_continuing_with_old_words(arguments, tmp_path):
    first, _ = train(arguments(do_lower_case=True))
    changes = {"model_name_or_path": str(tmp_path / "out"), "output_dir": str(tmp_path / "second")}
    second, lines = train(arguments(**changes, config_overrides=None))
    assert WordVocabulary.load(tmp_path / "second").words == WordVocabulary.load(tmp_path / "out").words
    assert any("words keep their rows" in line for line in lines)
    # It starts where the other one ended.
    assert second["evaluations"][0]["mean"] == pytest.approx(first["perplexity"]["mean"], rel=1e-5)
    assert second["perplexity"]["mean"] != pytest.approx(first["perplexity"]["mean"], rel=1e-3)
    tokenizer = json.loads((tmp_path / "second" / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is True


def test_continuing_with_new_words(arguments, tmp_path):
    train(arguments())
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\nzebra\n")
    (tmp_path / "more.txt").write_text("the the zebra sat on the park .\n" * 40)
    _, lines = train(
        arguments(
            model_name_or_path=str(tmp_path / "out"),
            output_dir=str(tmp_path / "second"),
            train_file=[str(tmp_path / "more.txt")],
            vocab_file=str(tmp_path / "words.txt"),
            config_overrides='{"dropout": 0.3}',
        )
    )
    assert any("4 of 5 words keep their rows" in line and "1 are new" in line for line in lines)
    old, new = (AutoModelForPreTraining.from_pretrained(tmp_path / name) for name in ("out", "second"))
    assert new.config.dropout == 0.3 and new.config.word_vocab_size == 5
    places = WordVocabulary.load(tmp_path / "out").ids
    assert not torch.equal(new.word_softmax.weight[3], old.word_softmax.weight[places["the"]])


def test_the_source_of_a_run_is_not_written_over(arguments, tmp_path):
    train(arguments())
    with pytest.raises(ValueError, match=r"output_dir .*--model_name_or_path"):
        train(arguments(model_name_or_path=str(tmp_path / "out"), overwrite_output_dir=True, config_overrides=None))
