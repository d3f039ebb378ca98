"""The CRF against sums and maxima over every sequence of labels, one by one."""

import itertools

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn

from hf_elmo import ElmoCRF
from hf_elmo.model.modeling_elmo_tasks import SCHEMES, can_follow, labels_of

LABELS = {scheme: labels_of(["x", "y"], scheme) for scheme in SCHEMES}
masks = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=3)


def make_crf(labels=("O", "A", "B"), scheme=None, has_ends=True, scale=2.0, dtype=torch.float64) -> ElmoCRF:
    crf = ElmoCRF(labels, scheme, has_ends)
    for parameter in crf.parameters():
        nn.init.normal_(parameter, std=scale)
    return crf.to(dtype)


def every_score(crf, emissions):
    """All sequences of labels for one sentence, (sequences, words), and their scores, with emissions (words, K)."""
    sequences = torch.tensor(list(itertools.product(range(crf.num_labels), repeat=len(emissions))))
    scores = emissions[range(len(emissions)), sequences].sum(1)
    scores = scores + crf.transitions[sequences[:, :-1], sequences[:, 1:]].sum(1)
    if crf.start is not None:
        scores = scores + crf.start[sequences[:, 0]] + crf.end[sequences[:, -1]]
    return sequences, scores


def is_allowed(sequence, labels, scheme):
    marks = [None, *(labels[index] for index in sequence), None]
    return all(can_follow(*pair, scheme) for pair in itertools.pairwise(marks))


@pytest.mark.parametrize("has_ends", [True, False])
@examples(15)
@given(masks=masks, seed=st.integers(0, 9))
def test_likelihoods_and_marginals_are_those_of_all_sequences(has_ends, masks, seed):
    """Wherever the masked words stand: left, right, or between the others."""
    torch.manual_seed(seed)
    crf, mask = make_crf(has_ends=has_ends), torch.tensor(masks)
    emissions, labels = 3 * torch.randn(*mask.shape, 3, dtype=torch.float64), torch.randint(3, mask.shape)
    likelihoods = crf(emissions, labels.masked_fill(~mask, -100), mask)
    partitions, marginals = crf.log_partition(emissions, mask), crf.marginals(emissions, mask)
    assert not marginals[~mask].any()
    for row, words in enumerate(mask):
        if not words.any():
            assert likelihoods[row] == partitions[row] == 0
            continue
        sequences, values = every_score(crf, emissions[row][words])
        (gold,) = values[(sequences == labels[row][words]).all(1)]
        torch.testing.assert_close(partitions[row], values.logsumexp(0), rtol=0, atol=REORDERED_FLOAT64)
        torch.testing.assert_close(likelihoods[row], gold - values.logsumexp(0), rtol=0, atol=REORDERED_FLOAT64)
        wanted = torch.zeros_like(marginals[row][words])
        for label in range(3):
            wanted[:, label] = ((sequences == label) * values.softmax(0)[:, None]).sum(0)
        torch.testing.assert_close(marginals[row][words], wanted, rtol=0, atol=REORDERED_FLOAT64)


@pytest.mark.parametrize("scheme", [*SCHEMES, None])
@examples(7)
@given(seed=st.integers(0, 20), length=st.integers(1, 4), side=st.sampled_from(["left", "right"]))
def test_the_best_sequence_is_the_best_that_is_allowed(scheme, seed, length, side):
    torch.manual_seed(seed)
    labels = LABELS[scheme] if scheme in ("IOB1", "IOB2") else ["O", "B-x", "I-x", "E-x", "S-x"]
    crf = make_crf(labels, scheme)
    emissions = torch.randn(2, 5, len(labels), dtype=torch.float64)
    mask = torch.zeros(2, 5, dtype=torch.bool)
    mask[0] = True
    words = slice(0, length) if side == "right" else slice(5 - length, 5)
    mask[1, words] = True
    found, scores = crf.decode(emissions, mask)
    assert (found[~mask] == -100).all()
    sequences, values = every_score(crf, emissions[1, words])
    if scheme is not None:
        allowed = [is_allowed(sequence, labels, scheme) for sequence in sequences.tolist()]
        sequences, values = sequences[allowed], values[allowed]
    assert torch.equal(found[1, words], sequences[values.argmax()])
    torch.testing.assert_close(scores[1], values.max(), rtol=0, atol=REORDERED_FLOAT64)


def test_rules_hold_however_large_the_scores_are():
    labels = LABELS["BIOES"]
    crf = make_crf(labels, "BIOES", scale=1e3, dtype=torch.float32)
    emissions = 1e4 * torch.randn(20, 30, len(labels))
    found, _ = crf.decode(emissions, torch.ones(20, 30, dtype=torch.bool))
    assert all(is_allowed(row, labels, "BIOES") for row in found.tolist())


def test_where_nothing_is_allowed_as_few_rules_as_can_be_are_broken():
    """One word, and no label for a span of one."""
    crf = make_crf(["B-x", "I-x", "E-x"], "BIOES", scale=5.0)
    found, _ = crf.decode(torch.tensor([[[0.0, 50.0, 0.0]]], dtype=torch.float64), torch.ones(1, 1, dtype=torch.bool))
    assert found.item() in (0, 2)  # I-x would break two


def test_gradients_are_those_of_the_definition():
    crf, mask = make_crf(), torch.tensor([[1, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()
    emissions = torch.randn(4, 4, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(3, (4, 4))
    parameters = dict(crf.named_parameters())

    def likelihood(emissions, *values):
        return torch.func.functional_call(crf, dict(zip(parameters, values, strict=True)), (emissions, labels, mask))

    assert torch.autograd.gradcheck(likelihood, (emissions, *parameters.values()))


@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_float32_is_near_float64(scale):
    torch.manual_seed(1)
    crf, mask = make_crf(scale=scale, dtype=torch.float32), torch.ones(3, 40, dtype=torch.bool)
    emissions, labels = scale * torch.randn(3, 40, 3), torch.randint(3, (3, 40))
    found = crf(emissions, labels, mask)
    wanted = crf.double()(emissions.double(), labels, mask)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=40 * (1 + scale) * REORDERED_FLOAT32)
    assert (found <= 40 * (1 + scale) * REORDERED_FLOAT32).all()


def test_half_precision_is_summed_in_float32():
    crf, mask = make_crf(dtype=torch.float32), torch.ones(2, 30, dtype=torch.bool)
    emissions, labels = torch.randn(2, 30, 3).bfloat16(), torch.randint(3, (2, 30))
    assert torch.equal(crf(emissions, labels, mask), crf(emissions.float(), labels, mask))


def test_it_learns_what_follows_what():
    """Labels that alternate, under words that say nothing."""
    crf, mask = ElmoCRF(["a", "b"]), torch.ones(2, 6, dtype=torch.bool)
    labels, emissions = torch.tensor([[0, 1] * 3, [0, 1] * 3]), torch.zeros(2, 6, 2)
    optimizer = torch.optim.Adam(crf.parameters(), lr=0.3)
    for _ in range(60):
        optimizer.zero_grad()
        (-crf(emissions, labels, mask).mean()).backward()
        optimizer.step()
    assert torch.equal(crf.decode(emissions, mask)[0], labels)
    assert crf(emissions, labels, mask).exp().min() > 0.9


def test_a_traced_crf_gives_the_same():
    crf, mask = make_crf(LABELS["IOB2"], "IOB2", dtype=torch.float32), torch.tensor([[1, 1, 0, 1], [0, 0, 1, 1]]).bool()
    emissions, labels = torch.randn(2, 4, 5), torch.randint(5, (2, 4))
    torch._dynamo.reset()
    for method, arguments in (("forward", (emissions, labels, mask)), ("decode", (emissions, mask))):
        function = getattr(crf, method)
        found = torch.compile(function, fullgraph=True, backend="eager")(*arguments)
        torch.testing.assert_close(found, function(*arguments), rtol=0, atol=10 * REORDERED_FLOAT32)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"emissions": torch.zeros(2, 3, 4)}, "emissions"),
        ({"mask": torch.ones(2, 2).bool()}, "mask"),
        ({"mask": torch.ones(2, 3)}, "mask"),
        ({"labels": torch.zeros(2, 2).long()}, "labels"),
        ({"labels": torch.full((2, 3), -100)}, ("labels", "-100")),
        ({"labels": torch.full((2, 3), 3)}, ("labels", "3")),
    ],
)
def test_bad_input_is_refused_by_name(change, named):
    arguments = {"emissions": torch.zeros(2, 3, 3), "labels": torch.zeros(2, 3).long(), "mask": torch.ones(2, 3).bool()}
    assert_refused(ValueError, named, ElmoCRF(["a", "b", "c"]), **{**arguments, **change})


def test_labels_that_are_none_of_the_scheme_are_refused():
    assert_refused(ValueError, ("E-x", "IOB2"), ElmoCRF, ["O", "E-x"], "IOB2")
    assert_refused(ValueError, "IOB3", ElmoCRF, ["O"], "IOB3")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_crf_in_half_precision_sums_in_float32(dtype):
    """Its weights are rounded, and nothing else: all is as with the rounded weights in float32."""
    half = make_crf(LABELS["IOB2"], "IOB2", dtype=dtype)
    full = make_crf(LABELS["IOB2"], "IOB2", dtype=torch.float32)
    full.load_state_dict({name: value.float() for name, value in half.state_dict().items()})
    mask = torch.ones(3, 40, dtype=torch.bool)
    emissions, labels = 3 * torch.randn(3, 40, len(LABELS["IOB2"])), torch.randint(len(LABELS["IOB2"]), (3, 40))
    emissions = emissions.to(dtype)
    torch.testing.assert_close(half(emissions, labels, mask), full(emissions.float(), labels, mask))
    assert torch.equal(half.decode(emissions, mask)[0], full.decode(emissions.float(), mask)[0])
    half(emissions, labels, mask).sum().backward()
    full(emissions.float(), labels, mask).sum().backward()
    # Of the two places that use them the gradients are rounded each.
    unit = 2 * torch.finfo(dtype).eps * float(full.transitions.grad.abs().max())
    torch.testing.assert_close(half.transitions.grad.float(), full.transitions.grad, rtol=0, atol=unit)
    assert half.transitions.grad.dtype == half.start.grad.dtype == dtype
