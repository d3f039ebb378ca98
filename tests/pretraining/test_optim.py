"""Groups of parameters, optimizers, schedules and the norm of gradients; Muon takes torch's steps for each map."""

import copy

import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import BFLOAT16, REORDERED_FLOAT32

from hf_elmo import ElmoForPreTraining
from hf_elmo.pretraining.arguments import PretrainingArguments
from hf_elmo.pretraining.optim import (
    Muon,
    build_optimizers,
    build_schedule,
    clip_gradient_norm,
    group_parameters,
    orthogonalize,
)

TABLE = {"token_inputs": "both", "word_table_size": 4, "word_vector_size": 3}


def make_model(**fields):
    return ElmoForPreTraining(make_tiny_config(word_vocab_size=7, **fields))


def make(**changes):
    return PretrainingArguments(output_dir="x", **changes).with_recipe()


def names_of(model, parameters):
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {names[parameter] for parameter in parameters}


def maps_of(model):
    """The names of the matrices between the layers, with how many maps each holds."""
    groups = group_parameters(model, 0.1)
    return {
        name: group["num_maps"] for group in groups if "num_maps" in group for name in names_of(model, group["params"])
    }


def test_matrices_are_those_between_the_layers():
    model = make_model(**TABLE, num_highway_layers=1, num_hidden_layers=1)
    lstms = [f"elmo.bilm.layers.0.{direction}_lstm" for direction in ("forward", "backward")]
    expected = {f"{lstm}.weight_{part}": 4 for lstm in lstms for part in ("ih", "hh")}
    expected |= {f"{lstm}.weight_hr": 1 for lstm in lstms}
    encoder = "elmo.token_encoder"
    expected |= {f"{encoder}.highways.0.{part}.weight": 1 for part in ("carry", "transform")}
    expected[f"{encoder}.projection.weight"] = 1
    assert maps_of(model) == expected


def test_each_trained_parameter_is_in_one_group_and_matrices_between_the_layers_alone_decay():
    model = make_model(**TABLE)
    groups = group_parameters(model, 0.1)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert sorted(id(p) for group in groups for p in group["params"]) == sorted(map(id, trained))
    assert all(group["weight_decay"] == (0.1 if "num_maps" in group else 0.0) for group in groups)


def test_adagrad_takes_bilm_tfs_steps():
    """w -= lr g / sqrt(1 + g^2 + ...), by hand."""
    model = make_model()
    (optimizer,) = build_optimizers(model, make(recipe="paper"))
    weight = model.word_softmax.bias
    expected, sums = weight.detach().clone(), torch.ones(7)
    for seed in range(2):
        gradient = torch.randn(7, generator=torch.Generator().manual_seed(seed))
        weight.grad = gradient
        optimizer.step()
        sums += gradient**2
        expected -= 0.2 * gradient / sums.sqrt()
        torch.testing.assert_close(weight.detach(), expected, rtol=0, atol=REORDERED_FLOAT32)


@pytest.mark.parametrize("optim", ["adamw", "adagrad", "muon"])
def test_each_optimizer_trains_all_weights_at_the_rate_and_decay_of_the_run(optim):
    model = make_model()
    optimizers = build_optimizers(model, make(optim=optim, learning_rate=0.5, weight_decay=0.1))
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    assert {(group["lr"], group["weight_decay"]) for group in groups} == {(0.5, 0.0), (0.5, 0.1)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    before = copy.deepcopy(trained)
    for parameter in trained:
        parameter.grad = torch.randn_like(parameter)
    for optimizer in optimizers:
        optimizer.step()
    assert not any(torch.equal(old, new) for old, new in zip(before, trained, strict=True))


def rates(num_steps, **changes):
    schedule = build_schedule(make(**changes), num_steps)
    return [schedule(step) for step in range(num_steps + 1)]


def test_a_stable_schedule_falls_in_its_last_fraction():
    found = rates(100, lr_scheduler_type="warmup_stable_decay")
    assert found[:6] == pytest.approx([step / 5 for step in range(6)])
    assert found[5:80] == [1.0] * 75
    assert found[82] < 1 and found[100] == pytest.approx(0, abs=1e-9)


def test_wrong_schedules_are_refused():
    for changes, named in (
        ({"lr_scheduler_type": "sawtooth"}, ("--lr_scheduler_type", "'sawtooth'")),
        ({"lr_scheduler_type": "reduce_lr_on_plateau"}, "'reduce_lr_on_plateau'"),
    ):
        assert_refused(ValueError, named, lambda changes: build_schedule(make(**changes), 100), changes)


@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_dense_gradients_is_torchs_clipping(max_norm):
    parameters = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5)), torch.nn.Parameter()]
    others = copy.deepcopy(parameters)
    for parameter, other in zip(parameters[:2], others[:2], strict=True):
        parameter.grad = torch.randn_like(parameter)
        other.grad = parameter.grad.clone()
    found = clip_gradient_norm(iter(parameters), max_norm)
    assert torch.equal(found, torch.nn.utils.clip_grad_norm_(others, max_norm))
    assert all(torch.equal(one.grad, other.grad) for one, other in zip(parameters[:2], others[:2], strict=True))


# Muon


def draw_gradients(parameters, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has its own Muon from 2.9 on")
def test_each_map_of_a_matrix_takes_the_steps_that_it_would_take_alone():
    matrix = torch.nn.Parameter(torch.randn(16, 6))
    maps = [torch.nn.Parameter(part.clone()) for part in matrix.detach().chunk(4)]
    optimizer = Muon([{"params": [matrix], "lr": 0.1, "weight_decay": 0.2, "num_maps": 4}], learning_rate=1.0)
    muon = torch.optim.Muon(maps, lr=0.1, weight_decay=0.2, adjust_lr_fn="match_rms_adamw")
    for step in range(3):
        draw_gradients([matrix], step)
        for part, gradient in zip(maps, matrix.grad.chunk(4), strict=True):
            part.grad = gradient.clone()
        optimizer.step()
        muon.step()
    # Three steps of about 0.02 in each number; torch rounds its products to bfloat16 on every processor.
    torch.testing.assert_close(matrix, torch.cat(list(maps)), rtol=0, atol=0.06 * BFLOAT16)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 12), st.integers(0, 40)),
    spread=st.floats(0, 2),
    seed=st.integers(0, 999),
)
def test_singular_values_become_alike_and_vectors_stay(shape, spread, seed):
    number, rows, more = shape
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(number, rows, rows, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(number, rows + more, rows, generator=generator))[0].mT
    matrices = left @ torch.diag(torch.logspace(0, -spread, rows)) @ right
    found = orthogonalize(matrices)
    kept = left.mT @ found @ right.mT
    values = torch.diagonal(kept, dim1=1, dim2=2)
    assert values.min() > 0.5 and values.max() < 1.5
    torch.testing.assert_close(kept, torch.diag_embed(values), rtol=0, atol=1e-3)


def test_parameters_without_a_gradient_rest():
    matrix, other = (torch.nn.Parameter(torch.ones(4, 2)) for _ in range(2))
    optimizer = Muon([{"params": [matrix, other], "weight_decay": 0.1, "num_maps": 1}], 0.1)
    draw_gradients([matrix], 0)
    optimizer.step()
    assert torch.equal(other, torch.ones(4, 2)) and not torch.equal(matrix, other)
    assert list(optimizer.state) == [matrix]
