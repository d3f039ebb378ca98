"""What arguments default to, and what contradicts: named before any file is read."""

import pytest
from refusals import assert_refused

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


CONTRADICTIONS = [
    ({"recipe": "mine"}, ("--recipe", "'mine'", "paper", "modern")),
    ({"optim": "sgd"}, ("--optim", "'sgd'", "adamw", "adagrad")),
    ({"token_inputs": "bytes"}, ("--token_inputs", "'bytes'")),
    ({"max_words": 0}, "--max_words is 0"),
    ({"save_steps": -1}, "--save_steps is -1"),
    ({"save_total_limit": -1}, "--save_total_limit is -1"),
    ({"shuffle_buffer_size": -5}, "--shuffle_buffer_size is -5"),
    ({"unfreeze_steps": -5}, "--unfreeze_steps is -5"),
    ({"learning_rate": 0.0}, "--learning_rate is 0.0"),
    ({"adam_beta2": 1.0}, "--adam_beta2 is 1.0"),
    ({"model_name_or_path": "x", "preset": "small"}, ("--preset", "--model_name_or_path")),
    ({"model_name_or_path": "x", "do_lower_case": True}, ("--do_lower_case", "--model_name_or_path")),
    ({"model_name_or_path": "x", "token_inputs": "both"}, ("--token_inputs", "--model_name_or_path")),
    ({"word_vectors": "x", "token_inputs": "characters"}, "--word_vectors"),
    ({"freeze_word_vectors": True}, ("--freeze_word_vectors", "--word_vectors")),
    ({"hub_model_id": "me/elmo"}, ("--hub_model_id", "--push_to_hub")),
    ({"group_learning_rates": "3"}, "--group_learning_rates"),
    ({"group_learning_rates": "{layer_1: 2}"}, "--group_learning_rates"),
]


def test_contradictions(arguments):
    for changes, named in CONTRADICTIONS:
        assert_refused(ValueError, named, lambda changes: arguments(**changes).check(), changes)
