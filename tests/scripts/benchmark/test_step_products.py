"""The products that a step is held against are those that its parts compute."""

import pytest
import torch
from benchmark.step_products import Product, bilm_products, encoder_products, run_alone, softmax_products
from conftest import make_tiny_config
from torch.utils.flop_counter import FlopCounterMode

from hf_elmo import ElmoForPreTraining
from hf_elmo.kernels import use_backend
from hf_elmo.pretraining.fused_losses import fused_sampled_cross_entropy
from hf_elmo.pretraining.sampling import LogUniformSampler

LANES, STEPS, WORDS, NEGATIVES = 3, 5, 11, 20


def operations(products):
    return sum(product.operations for product in products)


def count_in_place(_, left, right, **kwargs):
    return 2 * left[0] * left[1] * right[1]


def count(function):
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: count_in_place}) as counter:
        function()
    return counter.get_total_flops()


@pytest.fixture
def model():
    # In float64, of which no packed copies are made: all products are in sight.
    return ElmoForPreTraining(make_tiny_config(word_vocab_size=50)).double()


def test_products_of_the_bilm(model):
    vectors = torch.randn(LANES, STEPS, model.config.projection_size, dtype=torch.float64, requires_grad=True)

    def run():
        with use_backend("plain"):
            outputs, _ = model.elmo.bilm(vectors, vectors)
            sum(output.sum() for output in outputs[-1]).backward()

    assert count(run) == operations(bilm_products(model.config, LANES, STEPS))


def test_products_of_highways_and_projection(model):
    encoder = model.elmo.token_encoder
    size = encoder.projection.in_features
    vectors = torch.randn(WORDS, size, dtype=torch.float64, requires_grad=True)

    def run():
        found = vectors
        for highway in encoder.highways:
            found = highway(found)
        encoder.projection(found).sum().backward()

    assert count(run) == operations(encoder_products(model.config, WORDS))


def test_products_of_the_softmax(model):
    softmax, targets = model.word_softmax, torch.arange(WORDS)
    sample = LogUniformSampler(50, NEGATIVES).draw()
    hidden = torch.randn(WORDS, model.config.projection_size, dtype=torch.float64, requires_grad=True)

    def run():
        rows = [(softmax.weight[ids], softmax.bias[ids]) for ids in (targets, sample.ids)]
        fused_sampled_cross_entropy(hidden, targets, rows[0], sample, rows[1]).sum().backward()

    # One direction; the gradient of the biases is one column more.
    biases = Product(NEGATIVES, WORDS, 1).operations
    assert count(run) == operations(softmax_products(model.config, WORDS, NEGATIVES)) / 2 + biases


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_run_alone_is_as_many_operations(dtype):
    products = [Product(3, 4, 5), Product(2, 7, 1, count=4)]
    assert count(run_alone(products, dtype)) == operations(products) == 2 * (3 * 4 * 5 + 4 * 2 * 7)
