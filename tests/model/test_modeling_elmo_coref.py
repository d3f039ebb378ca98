"""Products of spans, spans, antecedents and clusters."""

import math

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import make_model, sentence_lists
from refusals import assert_refused
from tolerances import REORDERED_FLOAT64

from hf_elmo import CoreferenceHead, ElmoCharTokenizer, ElmoForCoreferenceResolution
from hf_elmo.model import modeling_elmo_coref
from hf_elmo.model.modeling_elmo_coref import read_clusters, weigh_pairs

# Products of spans


def draw(count, size=5, hidden=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(count)
    return [torch.randn(rows, size, generator=generator, dtype=dtype).requires_grad_() for rows in (count, hidden)]


def weigh_plainly(vectors, weight, width):
    """W (g_i * g_j) of each vector and those before it, pair by pair."""
    rows = [
        [weight @ (one * vectors[i - 1 - a]) if a < i else 0 * weight.sum(1) for a in range(width)]
        for i, one in enumerate(vectors)
    ]
    return torch.stack([torch.stack(row) for row in rows])


@given(count=st.integers(1, 40), width=st.integers(1, 50))
@examples(10)
def test_blocks_give_the_definitions_numbers_and_gradients(count, width):
    inputs = draw(count)
    wanted, found = (run(*inputs, width) for run in (weigh_plainly, weigh_pairs))
    torch.testing.assert_close(found, wanted, rtol=0, atol=REORDERED_FLOAT64)
    given_back = torch.randn(wanted.shape, dtype=wanted.dtype)
    pairs = (torch.autograd.grad(products, inputs, given_back, materialize_grads=True) for products in (found, wanted))
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=100 * REORDERED_FLOAT64)


def test_autocast_multiplies_in_its_precision():
    vectors, weight = draw(20, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = weigh_pairs(vectors, weight, 6)
    found.sum().backward()
    assert found.dtype == torch.bfloat16 and vectors.grad.dtype == weight.grad.dtype == torch.float32
    torch.testing.assert_close(found.float(), weigh_pairs(vectors, weight, 6), rtol=0.05, atol=0.1)


@pytest.mark.parametrize("count", [1, 40])
def test_memory_has_no_vector_for_each_pair(count):
    vectors, weight = draw(count, size=64)
    with torch.profiler.profile(profile_memory=True) as profile:
        weigh_pairs(vectors, weight, 30)
    largest = max(event.nbytes() for event in profile.profiler.kineto_results.events() if event.name() == "[memory]")
    # That of sixteen vectors' own weights; pairs would take 40 x 30 x 64.
    assert largest <= max(16 * 3 * 64, count * 30 * 3) * 8


# Coreference


SMALL = {"lstm_size": 3, "hidden_size": 4, "feature_size": 2, "max_span_width": 3}
HEADS = {
    "plain": {},
    "of the document, few antecedents": {"read_across_sentences": True, "max_antecedents": 3, "spans_per_word": 1.0},
    "crossing, speakers, mentions": {"allow_crossing": True, "use_speakers": True, "mention_loss": 0.5},
    "singletons, no ELMo": {
        **{"mention_loss": 1.0, "keep_singletons": True, "use_elmo": False},
        **{"character_filters": [[2, 3]], "character_embedding_size": 2},
    },
}
DOCUMENT = [["a", "bc", "a", "d"], ["bc"], ["e", "a", "b", "c", "d", "bc", "é"], ["a", "a"]]
LABELS = torch.tensor([[0, 1, 0], [2, 3, 0], [1, 3, 1], [5, 7, 0], [9, 11, 1], [12, 14, 2], [3, 6, 3], [5, 10, 4]])
each_head = pytest.mark.parametrize("name", HEADS)


def make_resolver(name="plain", dtype=torch.float64, head=None, **fields) -> ElmoForCoreferenceResolution:
    """In evaluation mode, with weights that show any mistake."""
    settings = CoreferenceHead(**{**SMALL, **HEADS[name], **(head or {})})
    return make_model(ElmoForCoreferenceResolution, dtype, head=settings, **fields)


@pytest.fixture(scope="module")
def resolvers() -> dict[str, ElmoForCoreferenceResolution]:
    """One of each head in float64, for tests that change none."""
    return {name: make_resolver(name) for name in HEADS}


def encode_document(sentences, **arguments) -> dict:
    batch = ElmoCharTokenizer()(sentences, is_split_into_words=True, padding=True, return_tensors="pt", **arguments)
    return dict(batch)


def assert_close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=REORDERED_FLOAT64, atol=REORDERED_FLOAT64)


def assert_same_output(found, wanted):
    for name in ("spans", "antecedents", "clusters"):
        assert torch.equal(found[name], wanted[name]), name
    for name in ("mention_scores", "antecedent_scores"):
        assert_close(found[name], wanted[name])


@each_head
def test_pairs_are_the_same_in_blocks_of_any_size(name, resolvers, monkeypatch):
    model, batch = resolvers[name], encode_document(DOCUMENT)
    outputs, gradients = [], []
    for size in (10**6, 7, 1):
        monkeypatch.setattr(modeling_elmo_coref, "_PAIRS_AT_A_TIME", size)
        output = model(**batch, labels=LABELS)
        parameters = [value for value in model.parameters() if value.requires_grad]
        outputs.append(output)
        gradients.append(torch.autograd.grad(output.loss, parameters, allow_unused=True))
    for output, its in zip(outputs[1:], gradients[1:], strict=True):
        assert_same_output(output, outputs[0])
        for one, two in zip(its, gradients[0], strict=True):
            torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7)


@each_head
@examples(5)
@given(sentences=sentence_lists, extra=st.integers(0, 3))
def test_padding_changes_nothing(name, resolvers, sentences, extra):
    # Spans of equal sentences have equal scores, and rounding would choose between them.
    sentences = [list(words) for words in dict.fromkeys(map(tuple, sentences))]
    model, batch = resolvers[name], encode_document(sentences)
    wanted = model(**batch)
    longer = {key: torch.nn.functional.pad(value, [0] * (2 * value.ndim - 3) + [extra]) for key, value in batch.items()}
    assert_same_output(model(**longer), wanted)
    assert_same_output(model(**encode_document(sentences, padding_side="left")), wanted)
    # A row without words is no sentence.
    empty = {key: torch.cat([torch.zeros_like(value[:1]), value]) for key, value in batch.items()}
    assert_same_output(model(**empty), wanted)


def test_a_word_that_looks_like_a_special_token_is_counted(resolvers):
    output = resolvers["plain"](**encode_document([["a", "<S>", "b"]]), labels=torch.tensor([[0, 3, 0]]))
    assert output.loss.isfinite()
    one = resolvers["plain"](**encode_document([["a"]]), labels=torch.zeros(1, 0, 3, dtype=torch.long))
    assert one.spans.tolist() == [[0, 1]] and one.antecedents.shape == (1, 0) and one.loss == 0


def linked(model, scores, mention_scores, antecedents=None):
    """The clusters that these scores make of spans of one word each."""
    count = len(scores)
    spans = modeling_elmo_coref.Spans(
        torch.arange(count), torch.arange(count), torch.zeros(count, 1), torch.tensor(mention_scores)
    )
    if antecedents is None:
        antecedents = [[number - 1 - place for place in range(count - 1)] for number in range(count)]
    rows = model._link(spans, torch.tensor(antecedents).clamp(min=-1), torch.tensor(scores))
    assert rows.shape[0] == 1
    return read_clusters(rows[0])


def test_best_antecedents_make_clusters_and_singletons_stay_where_they_are_wanted(resolvers):
    no = -math.inf
    scores = [[0, no, no, no], [0, -1.0, no, no], [0, -1.0, 2.0, no], [0, 1.0, 0.5, 0.2]]
    assert linked(resolvers["plain"], scores, [1.0, 1.0, -1.0, -1.0]) == [[(0, 1), (2, 3), (3, 4)]]
    keeps = resolvers["singletons, no ELMo"]
    assert linked(keeps, scores, [1.0, 1.0, -1.0, -1.0]) == [[(0, 1), (2, 3), (3, 4)], [(1, 2)]]
    assert linked(keeps, scores, [1.0, -1.0, -1.0, -1.0]) == [[(0, 1), (2, 3), (3, 4)]]
    assert linked(resolvers["plain"], [[0.0]], [5.0], [[]]) == []
    assert linked(keeps, [[0.0]], [5.0], [[]]) == [[(0, 1)]]


@examples(25)
@given(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=12), st.integers(1, 12))
def test_the_best_spans_are_kept_and_none_crosses(rows, count):
    scores = torch.tensor(rows).double()
    exists = torch.arange(len(rows)).unsqueeze(1) + torch.arange(3) < len(rows)
    for allow in (True, False):
        starts, places = modeling_elmo_coref.choose_spans(scores, exists, count / len(rows), allow)
        spans = list(zip(starts.tolist(), (starts + places).tolist(), strict=True))
        assert spans == sorted(set(spans)) and exists[starts, places].all()
        limit = max(1, int(count / len(rows) * len(rows)))
        left_out = scores.masked_fill(~exists, -math.inf).clone()
        left_out[starts, places] = -math.inf
        if allow:
            assert len(spans) == min(limit, int(exists.sum()))
            assert left_out.max() <= scores[starts, places].min()
        else:
            assert not any(s < start <= e < end for start, end in spans for s, e in spans)
            assert len(spans) == limit or len(spans) >= min(limit, len(rows))


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (torch.zeros(2, 1, 3, dtype=torch.long), ("labels", "(2, 1, 3)")),
        (torch.tensor([[3, 15, 0]]), ("labels", "15", "14")),
        (torch.tensor([[3, 3, 0]]), ("labels", "3")),
    ],
)
def test_labels_that_are_no_mentions_are_refused(resolvers, labels, names):
    assert_refused(ValueError, names, resolvers["plain"], **encode_document(DOCUMENT), labels=labels)


def test_documents_without_words_are_refused(resolvers):
    assert_refused(ValueError, "input_ids", resolvers["plain"], **encode_document([[]]))
