"""What a run starts from: sizes, frequencies, word vectors, earlier checkpoints."""

import json
import math
from typing import get_args

import pytest
import torch
from run_cases import make_arguments, write_lines
from transformers import AutoModelForPreTraining

from hf_elmo import ElmoConfig
from hf_elmo.checkpoints.arguments import Preset
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.starting_model import Start
from hf_elmo.pretraining.text_facts import TextFacts
from hf_elmo.text.vocabulary import WordVocabulary

# With the dropout of the recipe.
SIZES = '{"projection_size": 8, "cell_size": 16, "filters": [[1, 4], [2, 4]]}'


@pytest.fixture
def arguments(tmp_path):
    write_lines(tmp_path, ["the cat sat on the mat .", "a dog ran to the park .", "it sat ."])
    return lambda **changes: make_arguments(tmp_path, **{"config_overrides": SIZES, "skip_baselines": True, **changes})


def train(arguments):
    lines = []
    return run_pretraining(arguments, report=lines.append), lines


def test_each_preset_is_a_size_of_the_config(arguments):
    sizes = []
    for name in get_args(Preset):
        config = Start.from_arguments(arguments(preset=name, config_overrides=None).with_recipe()).config
        assert config.to_dict() == getattr(ElmoConfig, name)(dropout=config.dropout).to_dict()
        sizes.append((config.projection_size, config.cell_size, config.filters, config.num_highway_layers))
    assert all(size not in sizes[:place] for place, size in enumerate(sizes))


def test_the_first_guesses_are_the_words_frequencies(arguments):
    made = arguments().with_recipe()
    words = WordVocabulary(["<S>", "</S>", "<UNK>", "the", "sat", "never"])
    facts = TextFacts(num_words=100, num_sentences=10, num_distinct=8)
    model = Start.from_arguments(made).build_model(made, words, {"the": 60, "sat": 20}, facts, print)
    frequencies = model.word_softmax.bias.detach().exp()
    expected = [10 + 1, 10 + 1, 20 + 1, 60 + 1, 20 + 1, 0 + 1]
    torch.testing.assert_close(frequencies, torch.tensor(expected) / (110 + 6))
    assert not Start.from_arguments(made).build_model(made, words, None, facts, print).word_softmax.bias.any()


def test_frequencies_make_the_untrained_model_a_unigram_model(arguments):
    modern, _ = train(arguments())
    paper, _ = train(
        arguments(recipe="paper", objective="full", output_dir=arguments().output_dir + "2", learning_rate=0.01)
    )
    untrained = [results["evaluations"][0]["mean"] for results in (modern, paper)]
    assert untrained[0] < 0.9 * untrained[1]
    assert untrained[1] == pytest.approx(modern["vocabulary_size"], rel=0.2)


def test_dropout_is_the_recipes_unless_it_is_given(arguments):
    made = arguments(recipe="paper").with_recipe()
    assert Start.from_arguments(made).config.dropout == 0.1
    made = arguments(recipe="paper", config_overrides='{"dropout": 0.3}').with_recipe()
    assert Start.from_arguments(made).config.dropout == 0.3


@pytest.mark.parametrize("token_inputs", ["words", "both"])
def test_word_vectors_of_a_file_are_in_the_checkpoint(arguments, tmp_path, token_inputs):
    vectors = {word: [float(place), 0.5, -1.0] for place, word in enumerate(["the", "cat", "sat", "elephant"])}
    (tmp_path / "vectors.txt").write_text(
        "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items())
    )
    _, lines = train(
        arguments(token_inputs=token_inputs, word_vectors=str(tmp_path / "vectors.txt"), freeze_word_vectors=True)
    )
    assert any("3 of" in line and "vector of size 3" in line for line in lines)
    model = AutoModelForPreTraining.from_pretrained(tmp_path / "out")
    assert (model.config.token_inputs, model.config.word_vector_size) == (token_inputs, 3)
    held = model.elmo.token_encoder.word_table.weight.detach()
    for word in ("the", "cat", "sat"):
        assert (held == torch.tensor(vectors[word])).all(dim=1).any()
    assert (len(model.elmo.token_encoder.convolutions or []) == 0) == (token_inputs == "words")


def test_a_learned_table_of_words(arguments, tmp_path):
    train(arguments(token_inputs="both", word_vector_size=5))
    model = AutoModelForPreTraining.from_pretrained(tmp_path / "out")
    assert model.config.word_vector_size == 5 and model.config.train_word_vectors


def test_going_on_with_old_words(arguments, tmp_path):
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


def test_going_on_with_new_words_layer_by_layer(arguments, tmp_path):
    train(arguments())
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\nzebra\n")
    (tmp_path / "more.txt").write_text("the the zebra sat on the park .\n" * 40)
    results, lines = train(
        arguments(
            model_name_or_path=str(tmp_path / "out"),
            output_dir=str(tmp_path / "second"),
            train_file=[str(tmp_path / "more.txt")],
            vocab_file=str(tmp_path / "words.txt"),
            config_overrides='{"dropout": 0.3}',
            unfreeze_steps=100,
            layer_learning_rate_decay=0.5,
            group_learning_rates='{"token_encoder": 1e-4}',
        )
    )
    assert any("4 of 5 words keep their rows" in line and "1 are new" in line for line in lines)
    assert any("not all layers join in 6 steps" in line for line in lines)
    old, new = (AutoModelForPreTraining.from_pretrained(tmp_path / name) for name in ("out", "second"))
    assert new.config.dropout == 0.3 and new.config.word_vocab_size == 5
    # Only the softmax was ever trained.
    theirs, ours = old.elmo.state_dict(), new.elmo.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs if "mixes" not in name)
    places = WordVocabulary.load(tmp_path / "out").ids
    assert not torch.equal(new.word_softmax.weight[3], old.word_softmax.weight[places["the"]])
    assert results["settings"]["group_learning_rates"] == {"token_encoder": 1e-4}


def test_the_source_of_a_run_is_not_written_over(arguments, tmp_path):
    train(arguments())
    with pytest.raises(ValueError, match=r"output_dir .*--model_name_or_path"):
        train(arguments(model_name_or_path=str(tmp_path / "out"), overwrite_output_dir=True, config_overrides=None))


def test_facts_survive_json():
    facts = TextFacts(5, 2, 3)
    assert TextFacts.from_dict(json.loads(json.dumps(facts.to_dict()))) == facts
    assert (facts.num_entries, facts.num_targets) == (9, 7)
    assert math.isclose(facts.num_targets / facts.num_entries, 7 / 9)
