"""What arguments default to, and what contradicts: named before any file is read."""

import pytest

from hf_elmo.pretraining.arguments import PretrainingArguments
from hf_elmo.pretraining.recipes import RECIPES


@pytest.fixture
def arguments(tmp_path):
    def make(**changes):
        return PretrainingArguments(
            **{"output_dir": str(tmp_path / "out"), "train_file": ["text.txt"], **changes}
        ).with_recipe()

    return make


@pytest.mark.parametrize("name", RECIPES)
def test_what_is_not_given_is_the_recipes(arguments, name):
    made, recipe = arguments(recipe=name), RECIPES[name]
    for field in ("learning_rate", "optim", "objective", "per_device_train_batch_size", "max_grad_norm"):
        assert getattr(made, field) == getattr(recipe, field)
    assert arguments(recipe=name, learning_rate=0.5, weight_decay=0.1).learning_rate == 0.5
    made.check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": "mine"}, "--recipe is 'mine'; it must be one of paper, modern"),
        ({"optim": "sgd"}, "--optim is 'sgd'; it must be one of adamw, adagrad"),
        ({"token_inputs": "bytes"}, "--token_inputs is 'bytes'; it must be one of characters, words, both"),
        ({"max_words": 0}, "--max_words is 0; it must be an integer >= 1"),
        ({"save_steps": -1}, "--save_steps is -1; it must be >= 0"),
        ({"save_total_limit": -1}, "--save_total_limit is -1; it must be >= 0"),
        ({"shuffle_buffer_size": -5}, "--shuffle_buffer_size is -5"),
        ({"unfreeze_steps": -5}, "--unfreeze_steps is -5"),
        ({"learning_rate": 0.0}, "--learning_rate is 0.0; it must be > 0"),
        ({"adam_beta2": 1.0}, r"--adam_beta2 is 1.0; it must lie in \[0, 1\)"),
        ({"model_name_or_path": "x", "preset": "small"}, "--preset and --model_name_or_path each name the sizes"),
        ({"model_name_or_path": "x", "do_lower_case": True}, "--do_lower_case is True, but --model_name_or_path"),
        ({"model_name_or_path": "x", "token_inputs": "both"}, "--token_inputs is 'both', but --model_name_or_path"),
        ({"word_vectors": "x", "token_inputs": "characters"}, "--word_vectors fills a table of words"),
        ({"freeze_word_vectors": True}, "--freeze_word_vectors keeps the vectors of --word_vectors"),
        ({"hub_model_id": "me/elmo"}, "--hub_model_id and --hub_private_repo are for --push_to_hub"),
        ({"group_learning_rates": "3"}, "--group_learning_rates is 3; wanted an object"),
        ({"group_learning_rates": "{layer_1: 2}"}, "--group_learning_rates is not JSON"),
    ],
)
def test_contradictions(arguments, changes, message):
    with pytest.raises(ValueError, match=message):
        arguments(**changes).check()
