"""The encoders of texts and pairs against plain twins: a sentence at a time, word by word, without batches or masks."""

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tolerances import REORDERED_FLOAT64
from torch import nn

from hf_elmo import SequenceClassificationHead
from hf_elmo.model.modeling_elmo_tasks import TEXT_ENCODERS, ElmoDense, ElmoVariationalDropout

D, M, SIZE = 4, 3, 5
both_mixes = pytest.mark.parametrize("mix_size", [0, M])


def make_encoder(name: str, mix_size: int = 0) -> nn.Module:
    """In evaluation mode and float64, with weights large enough for any mistake to show."""
    head = SequenceClassificationHead(encoder=name, hidden_size=SIZE, mix_at_output=bool(mix_size))
    encoder = TEXT_ENCODERS[name](D, mix_size, head).double().eval()
    for parameter in encoder.parameters():
        nn.init.uniform_(parameter, -1, 1)
    return encoder


# The twins


def run_lstm(lstm: nn.Module, words: list[torch.Tensor]) -> list[torch.Tensor]:
    """Both directions of a biLSTM, by the equations of an LSTM."""
    outputs = []
    for suffix, order in (("l0", words), ("l0_reverse", words[::-1])):
        weights = {name: getattr(lstm, f"{name}_{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        hidden = cell = torch.zeros(SIZE, dtype=torch.float64)
        found = []
        for word in order:
            gates = (
                weights["weight_ih"] @ word + weights["bias_ih"] + weights["weight_hh"] @ hidden + weights["bias_hh"]
            )
            i, f, g, o = gates.reshape(4, SIZE)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            found.append(hidden)
        outputs.append(found)
    forward, backward = outputs[0], outputs[1][::-1]
    return [torch.cat(pair) for pair in zip(forward, backward, strict=True)]


def look(word: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    """What a word finds in a sentence, which may be empty."""
    weights = [torch.exp(word @ other) for other in others]
    return sum((weight / sum(weights) * other for weight, other in zip(weights, others, strict=True)), 0 * word)


def apply(dense: ElmoDense, word: torch.Tensor) -> torch.Tensor:
    return (dense.weight @ word + dense.bias).clamp(min=0)


def mean_of(words: list[torch.Tensor], size: int) -> torch.Tensor:
    return sum(words) / len(words) if words else torch.zeros(size, dtype=torch.float64)


def max_of(words: list[torch.Tensor], size: int) -> torch.Tensor:
    """By pairs of numbers, so that a gradient goes to the larger one."""
    largest = words[0] if words else torch.zeros(size, dtype=torch.float64)
    for word in words[1:]:
        largest = torch.where(word > largest, word, largest)
    return largest


def join(words: list[torch.Tensor], mixes: list[torch.Tensor] | None) -> list[torch.Tensor]:
    return words if mixes is None else [torch.cat(pair) for pair in zip(words, mixes, strict=True)]


def pooled_twin(encoder, words, mixes):
    return torch.cat([mean_of(words, D), max_of(words, D)])


def biattentive_twin(encoder, words, mixes):
    encoded = join(run_lstm(encoder.lstm, [apply(encoder.dense, word) for word in words]), mixes)
    joined = []
    for word in encoded:
        context = look(word, encoded)
        joined.append(torch.cat([word, word - context, word * context]))
    integrated = run_lstm(encoder.integrator, joined)
    scores = [torch.exp(encoder.pool_scores.weight[0] @ word + encoder.pool_scores.bias[0]) for word in integrated]
    attentive = sum(
        (score / sum(scores) * word for score, word in zip(scores, integrated, strict=True)), torch.zeros(10)
    )
    largest, negated = (max_of([sign * word for word in integrated], 2 * SIZE) for sign in (1, -1))
    return torch.cat([largest, -negated, mean_of(integrated, 2 * SIZE), attentive])


def pooled_pairs_twin(encoder, pair, mixes):
    first, second = (pooled_twin(encoder, words, None) for words in pair)
    return torch.cat([first, second, (first - second).abs(), first * second])


def inference_twin(encoder, pair, mixes):
    both = [join(run_lstm(encoder.lstm, words), mixes and mix) for words, mix in zip(pair, mixes or pair, strict=True)]
    pools = []
    for words, others in (both, both[::-1]):
        enhanced = []
        for word in words:
            found = look(word, others)
            enhanced.append(apply(encoder.dense, torch.cat([word, found, word - found, word * found])))
        composed = run_lstm(encoder.composition, enhanced)
        pools += [mean_of(composed, 2 * SIZE), max_of(composed, 2 * SIZE)]
    return torch.cat(pools)


TWINS = {
    "pooled": pooled_twin,
    "pooled_pairs": pooled_pairs_twin,
    "bcn": biattentive_twin,
    "esim": inference_twin,
}
CASES = [("pooled", 0), ("pooled_pairs", 0), ("bcn", 0), ("bcn", M), ("esim", 0), ("esim", M)]


def gradients(encoder, inputs, outputs) -> list[torch.Tensor]:
    weights = torch.linspace(0.5, 2.0, outputs.numel(), dtype=torch.float64).view_as(outputs)
    wanted = [*inputs, *encoder.parameters()]
    # Where no sentence has a word the twin's outputs depend on nothing.
    total = (weights * outputs).sum() + 0 * inputs[0].sum()
    return torch.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize(("name", "mix_size"), CASES)
@examples(12)
@given(masks=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=4, max_size=4), seed=st.integers(0, 99))
def test_a_batch_gives_what_each_sentence_gives_word_by_word(name, mix_size, masks, seed):
    """Outputs and all gradients, the words anywhere in their rows; sentences of one word and of none among them."""
    torch.manual_seed(seed)
    encoder, mask = make_encoder(name, mix_size), torch.tensor(masks)
    vectors = torch.randn(4, 5, D, dtype=torch.float64, requires_grad=True)
    mix = torch.randn(4, 5, mix_size, dtype=torch.float64, requires_grad=True) if mix_size else None
    inputs = [vectors] if mix is None else [vectors, mix]
    found = encoder(vectors, mask, mix)

    words = [list(row[places]) for row, places in zip(vectors, mask, strict=True)]
    mixes = mix if mix is None else [list(row[places]) for row, places in zip(mix, mask, strict=True)]
    if encoder.reads_pairs:
        rows = [(words[row], words[row + 2]) for row in range(2)]
        mixes_of_rows = [None if mixes is None else (mixes[row], mixes[row + 2]) for row in range(2)]
    else:
        rows, mixes_of_rows = words, [None] * 4 if mixes is None else mixes
    twin = TWINS[name]
    wanted = torch.stack([twin(encoder, row, mix) for row, mix in zip(rows, mixes_of_rows, strict=True)])
    assert found.shape[1] == encoder.output_size
    torch.testing.assert_close(found, wanted, rtol=REORDERED_FLOAT64, atol=REORDERED_FLOAT64)
    for ours, theirs in zip(gradients(encoder, inputs, found), gradients(encoder, inputs, wanted), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=REORDERED_FLOAT64, atol=REORDERED_FLOAT64)


def test_a_maxout_layer_takes_the_largest_of_four_units():
    layer, vectors = ElmoDense(3, 2, "maxout").double(), torch.randn(7, 3, dtype=torch.float64)
    units = (vectors @ layer.weight.T + layer.bias).tolist()
    wanted = [[max(row[:4]), max(row[4:])] for row in units]
    torch.testing.assert_close(layer(vectors).tolist(), wanted, rtol=0, atol=REORDERED_FLOAT64)


def test_variational_dropout_leaves_out_the_same_features_of_all_words_of_a_row():
    vectors = torch.rand(6, 4, 50) + 1
    dropped = ElmoVariationalDropout(0.5)(vectors)
    kept = dropped != 0
    assert (kept == kept[:, :1]).all() and 0.3 < kept.float().mean() < 0.7
    assert (kept[0] != kept[1]).any()
    torch.testing.assert_close(dropped[kept], 2 * vectors[kept])
    assert torch.equal(ElmoVariationalDropout(0.5).eval()(vectors), vectors)
