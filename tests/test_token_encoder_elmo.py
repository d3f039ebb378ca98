"""The token encoder against its equations written out over whole rows: vectors and gradients."""

import pytest
import torch
from conftest import make_tiny_config
from test_layers_elmo import assert_close, randomise

from hf_elmo.characters_elmo import encode_word
from hf_elmo.token_encoder_elmo import ElmoHighway, ElmoTokenEncoder


def encode_plainly(encoder: ElmoTokenEncoder, rows: torch.Tensor, activation) -> torch.Tensor:
    """The token encoder's equations over every window of the whole rows."""
    characters = encoder.character_embedding.weight[rows]
    features = []
    for convolution in encoder.convolutions:
        windows = characters.unfold(1, convolution.kernel_size[0], 1)
        scores = torch.einsum("npdw,fdw->npf", windows, convolution.weight) + convolution.bias
        features.append(scores.max(dim=1).values)
    vectors = activation(torch.cat(features, dim=-1))
    for highway in encoder.highways:
        vectors = highway(vectors)
    return vectors @ encoder.projection.weight.T + encoder.projection.bias


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("filters", [[[1, 3], [2, 5], [7, 6]], [[50, 4]], [[3, 2], [48, 4]]])
def test_padding_characters_that_are_cut_off_change_nothing(filters, activation):
    encoder = randomise(ElmoTokenEncoder(make_tiny_config(filters=filters, filter_activation=activation)))
    words = ["x" * length for length in range(52)] + ["<S>", "</S>", "né", "\U0001f600"]
    every_row = torch.tensor([encode_word(word) for word in words])
    # Each word alone, whose row is cut as short as can be, then all of them with the longest.
    for rows in [*every_row.split(1), every_row, every_row[:5]]:
        found = encoder(rows)
        wanted = encode_plainly(encoder, rows, getattr(torch, activation))
        assert_close(found, wanted)
        parameters = list(encoder.parameters())
        weights = torch.randn_like(found)
        for gradient, wanted_gradient in zip(
            torch.autograd.grad((found * weights).sum(), parameters),
            torch.autograd.grad((wanted * weights).sum(), parameters),
            strict=True,
        ):
            # autograd leaves the padding row of an embedding out of its gradient.
            skipped = 1 if gradient.shape == encoder.character_embedding.weight.shape else 0
            assert_close(gradient[skipped:], wanted_gradient[skipped:])


def test_no_words_give_no_vectors():
    encoder = ElmoTokenEncoder(make_tiny_config())
    assert encoder(torch.zeros(0, 50, dtype=torch.long)).shape == (0, 6)


def test_highway_carries_or_transforms_as_its_gate_says():
    highway = randomise(ElmoHighway(7))
    x = torch.randn(3, 5, 7, dtype=torch.float64)
    gate = torch.sigmoid(x @ highway.carry.weight.T + highway.carry.bias)
    transformed = (x @ highway.transform.weight.T + highway.transform.bias).clamp(min=0)
    assert_close(highway(x), gate * transformed + (1 - gate) * x)
    with torch.no_grad():
        highway.carry.bias.fill_(-1e6)
        assert_close(highway(x), x)
        highway.carry.bias.fill_(1e6)
        assert_close(highway(x), transformed)
