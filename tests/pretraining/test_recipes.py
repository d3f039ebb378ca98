"""The optimizers of the recipes: Adagrad takes bilm-tf's steps, and each one that a recipe names is there.

And the objective and the lanes, where neither flag nor recipe names them.
"""

from dataclasses import replace

import pytest
import torch
from tolerances import REORDERED_FLOAT32

from hf_elmo.pretraining.optimizers import build_optimizer
from hf_elmo.pretraining.recipes import RECIPES, OptimizationArguments


def test_adagrad_starts_its_sums_from_the_initial_accumulator():
    """w -= lr g / sqrt(1 + g^2 + ...), by hand."""
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = build_optimizer(
        "adagrad", [{"params": [weight], "lr": 0.2, "weight_decay": 0.0}], adagrad_initial_accumulator=1.0
    )
    expected, sums = weight.detach().clone(), torch.ones(2)
    for gradient in (torch.tensor([3.0, 0.5]), torch.tensor([-1.0, 4.0])):
        weight.grad = gradient
        optimizer.step()
        sums += gradient**2
        expected -= 0.2 * gradient / sums.sqrt()
        torch.testing.assert_close(weight.detach(), expected, rtol=0, atol=REORDERED_FLOAT32)


def test_each_recipe_names_an_optimizer_that_is_there():
    for recipe in RECIPES.values():
        groups = [{"params": [torch.nn.Parameter(torch.zeros(2))], "lr": recipe.learning_rate, "weight_decay": 0.0}]
        optimizer = build_optimizer(recipe.optim, groups, recipe.adam_beta2, recipe.adagrad_initial_accumulator)
        assert optimizer.param_groups[0]["lr"] == recipe.learning_rate
    with pytest.raises(ValueError, match="optim is 'sgd'"):
        build_optimizer("sgd", [{"params": [torch.nn.Parameter(torch.zeros(2))]}])


def test_where_no_objective_is_named_the_words_of_the_softmax_say_which():
    modern = OptimizationArguments().with_recipe()
    negatives = modern.num_negative_samples
    assert modern.objective is None
    assert modern.with_objective(4 * negatives).objective == "sampled"
    assert modern.with_objective(4 * negatives - 1).objective == "full"
    for objective in ("full", "adaptive"):
        assert replace(modern, objective=objective).with_objective(10**6).objective == objective
    assert replace(modern, recipe="paper", objective="sampled").with_objective(10).objective == "sampled"


def test_where_no_lanes_are_named_a_short_text_has_fewer():
    modern = OptimizationArguments().with_recipe()
    steps = modern.unroll_steps
    assert modern.per_device_train_batch_size is None
    for num_entries, num_processes, lanes in (
        (10**9, 1, 128),
        (128 * 100 * steps, 1, 128),
        (128 * 100 * steps, 4, 32),
        (7 * 100 * steps, 1, 7),
        (3, 1, 1),
    ):
        assert modern.with_lanes(num_entries, num_processes).per_device_train_batch_size == lanes
    assert replace(modern, per_device_train_batch_size=9).with_lanes(10**9, 1).per_device_train_batch_size == 9
