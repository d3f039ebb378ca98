"""The paper's recipe is bilm-tf's, figure by figure, and its optimizer takes bilm-tf's steps."""

from dataclasses import replace

import pytest
import torch
from tolerances import REORDERED_FLOAT32

from hf_elmo.pretraining.optimizers import build_optimizer
from hf_elmo.pretraining.recipes import RECIPES


def test_the_papers_figures():
    paper = RECIPES["paper"]
    assert (paper.optim, paper.learning_rate, paper.adagrad_initial_accumulator) == ("adagrad", 0.2, 1.0)
    assert (paper.unroll_steps, paper.per_device_train_batch_size) == (20, 128)
    assert paper.scales_loss_by_unroll and paper.max_grad_norm == 10.0
    assert (paper.objective, paper.num_negative_samples, paper.dropout) == ("sampled", 8192, 0.1)
    assert (paper.lr_scheduler_type, paper.warmup_ratio, paper.weight_decay) == ("constant", 0.0, 0.0)
    assert not paper.starts_from_frequencies


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
    with pytest.raises(ValueError, match="optim is 'sgd'; it must be one of adamw, adagrad"):
        build_optimizer("sgd", [{"params": [torch.nn.Parameter(torch.zeros(2))]}])


def test_recipes_are_fixed():
    with pytest.raises(AttributeError):
        RECIPES["paper"].learning_rate = 1.0
    assert replace(RECIPES["paper"], dropout=0.2).dropout == 0.2
