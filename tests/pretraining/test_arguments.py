"""What arguments default to, what follows from the text, and what contradicts: named before any file is read."""

import math
from dataclasses import replace

import pytest
from refusals import assert_refused

from hf_elmo.pretraining.arguments import RECIPES, PretrainingArguments


@pytest.fixture
def arguments(tmp_path):
    def make(**changes):
        return PretrainingArguments(
            **{"output_dir": str(tmp_path / "out"), "train_file": ["text.txt"], **changes}
        ).with_recipe()

    return make


@pytest.mark.parametrize("name", RECIPES)
def test_what_is_not_given_is_the_recipes(arguments, name):
    made = arguments(recipe=name)
    assert {field: getattr(made, field) for field in RECIPES[name]} == RECIPES[name]
    assert arguments(recipe=name, learning_rate=0.5).learning_rate == 0.5
    wanted = (0, 10, 20) if name == "paper" else (0.05, 1, 1)
    assert (made.warmup_ratio, made.max_grad_norm, made.loss_scale) == wanted
    made.check()


CONTRADICTIONS = [
    ({"recipe": "mine"}, ("--recipe", "'mine'", "paper", "modern")),
    ({"optim": "sgd"}, ("--optim", "'sgd'", "adamw", "adagrad")),
    ({"objective": "hierarchical"}, ("--objective", "'hierarchical'", "adaptive")),
    ({"reset_state": "always"}, ("--reset_state", "'always'")),
    ({"unroll_steps": 0}, "--unroll_steps is 0"),
    ({"num_negative_samples": 0}, "--num_negative_samples is 0"),
    ({"eval_steps": 0}, "--eval_steps is 0"),
    ({"max_steps": 0}, "--max_steps is 0"),
    ({"num_train_epochs": 0.0}, "--num_train_epochs is 0.0"),
    ({"save_steps": -1}, "--save_steps is -1"),
    ({"save_total_limit": -1}, "--save_total_limit is -1"),
    ({"shuffle_buffer_size": -5}, "--shuffle_buffer_size is -5"),
    ({"weight_decay": -0.5}, "--weight_decay is -0.5"),
    ({"learning_rate": 0.0}, "--learning_rate is 0.0"),
    ({"max_hours": 0.0}, "--max_hours is 0.0"),
    ({"reset_probability": 1.0}, "--reset_probability is 1.0"),
    ({"validation_split_percentage": 100.0}, "--validation_split_percentage is 100.0"),
    ({"model_name_or_path": "x", "preset": "small"}, ("--preset", "--model_name_or_path")),
    ({"model_name_or_path": "x", "do_lower_case": True}, ("--do_lower_case", "--model_name_or_path")),
    ({"model_name_or_path": "x", "word_vectors": "x"}, ("--word_vectors", "--model_name_or_path")),
    ({"config_overrides": "{cell_size: 2}"}, "--config_overrides"),
]


def test_contradictions(arguments):
    for changes, named in CONTRADICTIONS:
        assert_refused(ValueError, named, lambda changes: arguments(**changes).check(), changes)


def settle(arguments, num_words=10, num_entries=10**9, num_processes=1):
    return arguments.settled(num_words, num_entries, num_processes)


def test_where_no_objective_is_named_the_words_of_the_softmax_decide(arguments):
    modern = arguments()
    negatives = modern.num_negative_samples
    assert modern.objective is None
    assert settle(modern, 4 * negatives).objective == "sampled"
    assert settle(modern, 4 * negatives - 1).objective == "full"
    for objective in ("full", "adaptive"):
        assert settle(replace(modern, objective=objective), 10**6).objective == objective
    assert settle(arguments(recipe="paper")).objective == "sampled"


def test_where_no_lanes_are_named_a_short_text_has_fewer(arguments):
    modern = arguments()
    steps = modern.unroll_steps
    assert modern.per_device_train_batch_size is None
    for num_entries, num_processes, lanes in (
        (10**9, 1, 128),
        (128 * 100 * steps, 1, 128),
        (128 * 100 * steps, 4, 32),
        (7 * 100 * steps, 1, 7),
        (3, 1, 1),
    ):
        found = settle(modern, num_entries=num_entries, num_processes=num_processes)
        assert found.per_device_train_batch_size == lanes
    assert settle(replace(modern, per_device_train_batch_size=9)).per_device_train_batch_size == 9


def test_epochs_are_turned_into_steps_and_hours_bound_them(arguments):
    lanes = {"per_device_train_batch_size": 2, "unroll_steps": 5, "gradient_accumulation_steps": 3}

    def settle_short(num_processes=1, **changes):
        return settle(arguments(**changes), num_entries=1000, num_processes=num_processes)

    found = settle_short(**lanes, num_train_epochs=2.0)
    assert (found.max_steps, found.eval_steps, found.logging_steps, found.save_steps) == (67, 34, 4, 17)
    assert settle_short(**lanes, num_processes=2).max_steps == math.ceil(1000 / 60)
    assert settle_short(**lanes, num_train_epochs=0.5).max_steps == math.ceil(500 / 30)
    assert settle_short(**lanes, num_train_epochs=0.5, max_steps=5).max_steps == 5
    long = settle_short(max_steps=100_000)
    assert (long.save_steps, long.logging_steps) == (500, 50)
    assert settle_short(max_steps=100, early_stopping_patience=1).eval_steps == 10
    timed = settle_short(**lanes, max_hours=1.0)
    assert (timed.max_steps, timed.eval_steps, timed.logging_steps, timed.save_steps) == (-1, None, None, 500)
    assert settle_short(**lanes, max_hours=1.0, num_train_epochs=0.5).max_steps == math.ceil(500 / 30)
