"""The floor's arithmetic against a count from the modules."""

import timeit

import pytest
import torch
from benchmark.floor import (
    READINGS,
    count_bilm_operations,
    count_encoder_operations,
    count_matrix_product_operations,
    floor_seconds,
    matrix_product,
    read_recurrent_weights,
    reading_floor_seconds,
)
from conftest import make_tiny_config

from hf_elmo.model.modeling_elmo import ElmoBiLM, ElmoTokenEncoder


@pytest.mark.parametrize("layers", [1, 3])
def test_operations_are_two_for_each_weight_of_a_matrix_and_word(layers):
    config = make_tiny_config(num_hidden_layers=layers)
    weights = sum(parameter.numel() for parameter in ElmoBiLM(config).parameters() if parameter.ndim == 2)
    assert count_bilm_operations(config, words=7) == 2 * 7 * weights


@pytest.mark.parametrize("highways", [0, 2])
def test_the_encoders_operations_are_those_of_its_highways_and_projection(highways):
    config = make_tiny_config(num_highway_layers=highways)
    encoder = ElmoTokenEncoder(config)
    parts = (*encoder.highways, encoder.projection)
    weights = sum(weight.numel() for part in parts for weight in part.parameters() if weight.ndim == 2)
    assert count_encoder_operations(config, words=7) == 2 * 7 * weights


def test_floor_is_the_work_at_the_rate_of_the_product():
    assert floor_seconds([2.0, 4.0], count_matrix_product_operations() // 2) == [1.0, 2.0]


def test_the_product_is_of_the_size_that_is_counted():
    result = matrix_product(torch.device("cpu"))()
    assert 2 * result.shape[0] ** 3 == count_matrix_product_operations()


def test_no_step_takes_less_than_reading_its_weights():
    config = make_tiny_config()
    rows = [3, 2, 1]
    # Reading for nothing leaves the floor of the products; nothing but reading leaves the reading of every step.
    products = floor_seconds([0.5], count_bilm_operations(config, sum(rows)))
    assert reading_floor_seconds([0.5], [0.0], config, rows) == pytest.approx(products)
    scans = 2 * config.num_hidden_layers
    assert reading_floor_seconds([0.0], [0.1], config, rows) == pytest.approx([scans * len(rows) * 0.1 / READINGS])
    assert reading_floor_seconds([0.5], [0.1], config, rows) > products


def test_a_reading_takes_time_as_the_weights_are_many():
    small, large = (make_tiny_config(cell_size=size, projection_size=size) for size in (16, 1024))
    cpu = torch.device("cpu")
    assert read_recurrent_weights(small, cpu)() is None
    fastest = [min(timeit.repeat(read_recurrent_weights(config, cpu), number=1)) for config in (small, large)]
    assert fastest[0] < fastest[1]
