"""The token encoder against its equations written out over whole rows: vectors and gradients."""

import pytest
import torch
from conftest import make_tiny_config
from test_modeling_elmo import assert_close_of_layers as assert_close
from test_modeling_elmo import randomize

from hf_elmo.model.modeling_elmo import ElmoTokenEncoder
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer


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
        gate = torch.sigmoid(vectors @ highway.carry.weight.T + highway.carry.bias)
        transformed = (vectors @ highway.transform.weight.T + highway.transform.bias).clamp(min=0)
        vectors = gate * transformed + (1 - gate) * vectors
    return vectors @ encoder.projection.weight.T + encoder.projection.bias


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("filters", [[[1, 3], [2, 5], [7, 6]], [[50, 4]], [[3, 2], [48, 4]]])
def test_padding_characters_that_are_cut_off_change_nothing(filters, activation):
    encoder = randomize(ElmoTokenEncoder(make_tiny_config(filters=filters, filter_activation=activation)))
    words = ["x" * length for length in range(52)] + ["<S>", "</S>", "né", "\U0001f600"]
    every_row = torch.from_numpy(ElmoCharTokenizer().encode_words(words))
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


TABLES = {
    token_inputs: {"token_inputs": token_inputs, "word_table_size": 3, "word_vector_size": 5}
    for token_inputs in ("words", "both")
}


@pytest.mark.parametrize("fields", [{}, *TABLES.values()], ids=["characters", *TABLES])
def test_no_words_give_no_vectors(fields):
    encoder = ElmoTokenEncoder(make_tiny_config(**fields))
    assert encoder(torch.zeros(0, 50, dtype=torch.long)).shape == (0, 6)


def make_encoder_with_table(token_inputs, **fields):
    """An encoder that knows three words, and the rows of these and of others."""
    encoder = randomize(ElmoTokenEncoder(make_tiny_config(**TABLES[token_inputs], **fields)))
    rows = torch.from_numpy(ElmoCharTokenizer().encode_words(("cat", "<S>", "né", "dog", "", "cat")))
    encoder.word_table.fill(rows[:3])
    return encoder, rows


@pytest.mark.parametrize("token_inputs", TABLES)
def test_gradients_reach_the_rows_of_the_table_that_were_looked_up(token_inputs):
    encoder, rows = make_encoder_with_table(token_inputs)
    encoder(rows[[0, 3]]).square().sum().backward()
    found = encoder.word_table.weight.grad.any(dim=1).nonzero().flatten().tolist()
    assert found == sorted([0, int(encoder.word_table.indices(rows[:1]))])
    assert all(parameter.grad.any() for parameter in encoder.parameters())


@pytest.mark.parametrize("token_inputs", TABLES)
def test_words_that_occur_twice_are_encoded_once(token_inputs, monkeypatch):
    encoder, rows = make_encoder_with_table(token_inputs)
    wanted, seen = encoder(rows), []
    encoder.projection.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    assert_close(encoder.encode_distinct(rows), wanted)
    assert seen == [5]


def test_gradients_of_repeated_words_are_the_same_every_time():
    """To the last bit, on several threads too."""
    encoder = randomize(ElmoTokenEncoder(make_tiny_config(projection_size=64)), torch.float32)
    rows = torch.from_numpy(ElmoCharTokenizer().encode_words([chr(97 + number) for number in range(20)]))[
        torch.randint(20, (20_000,))
    ]
    weights = torch.randn(len(rows), 64)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gradients = [
            torch.autograd.grad((encoder.encode_distinct(rows) * weights).sum(), encoder.projection.bias)[0]
            for _ in range(10)
        ]
    finally:
        torch.set_num_threads(num_threads)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)
