"""Tag schemes, the CRF, the tasks' recurrences, and models that classify words and texts and answer questions."""

import functools
import itertools

import pytest
import torch
from class_cases import make_inputs, shared
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import LAYERS, assert_close, encode, make_model, sentence_lists
from refusals import assert_refused
from tolerances import BFLOAT16, LOSS_FLOAT32, REORDERED_FLOAT64
from torch import nn
from torch.nn import functional as F

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoCRF,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    QuestionAnsweringHead,
    SemanticRoleLabelingHead,
)
from hf_elmo.model.modeling_elmo_srl import ElmoHighwayLSTM, _HighwaySteps
from hf_elmo.model.modeling_elmo_tasks import (
    SCHEMES,
    ElmoTaskGRU,
    ElmoTaskLSTM,
    ElmoVariationalDropout,
    Span,
    best_spans,
    can_follow,
    labels_of,
    order_words,
    read_spans,
    split_label,
    write_spans,
)

# Tag schemes


@st.composite
def sentences(draw):
    """A number of words, and spans over some of them."""
    widths = draw(st.lists(st.tuples(st.sampled_from([None, "x", "y-z"]), st.integers(1, 3)), max_size=6))
    spans, place = [], 0
    for type_, width in widths:
        if type_ is not None:
            spans.append(Span(type_, place, place + width))
        place += width
    return place, spans


@pytest.mark.parametrize("scheme", SCHEMES)
@given(sentence=sentences())
def test_labels_of_spans_are_read_as_these_spans(scheme, sentence):
    length, spans = sentence
    labels = write_spans(spans, length, scheme)
    assert read_spans(labels, scheme) == spans
    assert set(labels) <= set(labels_of(["x", "y-z"], scheme))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_allowed_is_what_spans_can_give(scheme):
    """All sequences of four labels against the labels of all ways to mark four words."""
    labels = labels_of(["x", "y"], scheme)
    given_by_spans = set()
    for cuts in itertools.product([None, "x", "y"], [True, False], repeat=4):
        types, begins = cuts[::2], cuts[1::2]
        spans = []
        for place, (type_, is_new) in enumerate(zip(types, begins, strict=True)):
            if type_ is None:
                continue
            if spans and not is_new and spans[-1].stop == place and spans[-1].type == type_:
                spans[-1] = spans[-1]._replace(stop=place + 1)
            else:
                spans.append(Span(type_, place, place + 1))
        given_by_spans.add(tuple(write_spans(spans, 4, scheme)))
    allowed = {
        sequence
        for sequence in itertools.product(labels, repeat=4)
        if all(can_follow(*pair, scheme) for pair in itertools.pairwise([None, *sequence, None]))
    }
    assert allowed == given_by_spans


@pytest.mark.parametrize(
    ("call", "arguments", "named"),
    [
        (read_spans, (["O", "I-x"], "IOB2"), ("labels[1]", "I-x", "IOB2")),
        (read_spans, (["B-x"], "IOB1"), ("labels[0]", "B-x")),
        (read_spans, (["B-x", "O"], "BIOES"), ("labels[1]", "O")),
        (read_spans, (["B-x"], "BIOES"), ("labels[1]", "B-x")),
        (read_spans, (["B-x", "E-y"], "BIOES"), "E-y"),
        (split_label, ("E-x", "IOB2"), ("E-x", "IOB2")),
        (split_label, ("B", "IOB2"), "'B'"),
        (split_label, ("B-", "IOB2"), "'B-'"),
        (split_label, ("-x", "IOB2"), "'-x'"),
        (split_label, ("O", "IOB"), "'IOB'"),
    ],
)
def test_what_the_scheme_does_not_have_is_refused(call, arguments, named):
    assert_refused(ValueError, named, call, *arguments)


# The CRF


LABELS = {scheme: labels_of(["x", "y"], scheme) for scheme in SCHEMES}
masks = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=3)


def make_crf(labels=("O", "A", "B"), scheme=None, scale=2.0, dtype=torch.float64) -> ElmoCRF:
    crf = ElmoCRF(labels, scheme)
    for parameter in crf.parameters():
        nn.init.normal_(parameter, std=scale)
    return crf.to(dtype)


def every_score(crf, emissions):
    """All sequences of labels for one sentence, (sequences, words), and their scores, with emissions (words, K)."""
    sequences = torch.tensor(list(itertools.product(range(crf.num_labels), repeat=len(emissions))))
    scores = emissions[range(len(emissions)), sequences].sum(1)
    scores = scores + crf.transitions[sequences[:, :-1], sequences[:, 1:]].sum(1)
    return sequences, scores + crf.start[sequences[:, 0]] + crf.end[sequences[:, -1]]


def is_allowed(sequence, labels, scheme):
    marks = [None, *(labels[index] for index in sequence), None]
    return all(can_follow(*pair, scheme) for pair in itertools.pairwise(marks))


@examples(15)
@given(masks=masks, seed=st.integers(0, 9))
def test_likelihoods_and_marginals_are_those_of_all_sequences(masks, seed):
    """Wherever the masked words stand: left, right, or between the others."""
    torch.manual_seed(seed)
    crf, mask = make_crf(), torch.tensor(masks)
    emissions, labels = 3 * torch.randn(*mask.shape, 3, dtype=torch.float64), torch.randint(3, mask.shape)
    likelihoods = crf(emissions, labels.masked_fill(~mask, -100), mask)
    marginals = crf.marginals(emissions, mask)
    assert not marginals[~mask].any()
    for row, words in enumerate(mask):
        if not words.any():
            assert likelihoods[row] == 0
            continue
        sequences, values = every_score(crf, emissions[row][words])
        (gold,) = values[(sequences == labels[row][words]).all(1)]
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


# Recurrences


D, H = 3, 4


RECURRENCES = {"LSTM": ElmoTaskLSTM, "GRU": ElmoTaskGRU, "highway": ElmoHighwayLSTM}
masks_of_rnn = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4).map(torch.tensor)
each_kind = pytest.mark.parametrize("kind", RECURRENCES)


def make_encoder(kind, dropout=0.0, dtype=torch.float64):
    torch.manual_seed(1)
    encoder = RECURRENCES[kind](D, H, 2, dropout).to(dtype)
    for parameter in encoder.parameters():
        nn.init.uniform_(parameter, -0.7, 0.7)
    return encoder


def outputs_and_gradients(run, encoder, vectors):
    torch.manual_seed(3)
    inputs = vectors.clone().requires_grad_()
    outputs = run(inputs)
    weights = torch.arange(outputs.numel(), dtype=outputs.dtype).view_as(outputs).cos()
    return [outputs, *torch.autograd.grad((outputs * weights).sum(), [inputs, *encoder.parameters()])]


def assert_all_close(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@each_kind
@examples(10)
@given(mask=masks_of_rnn, dropout=st.sampled_from([0.0, 0.4]))
def test_the_fast_run_is_the_readable_one_with_its_gradients(kind, mask, dropout):
    """With the same draws of dropout too, where that is drawn for a sentence and not for each word."""
    encoder = make_encoder(kind, dropout if kind == "highway" else 0.0)
    vectors = torch.randn(*mask.shape, D, dtype=torch.float64)
    fast, readable = (
        outputs_and_gradients(lambda inputs, run=run: run(inputs, mask), encoder, vectors)
        for run in (encoder, encoder.run_reference)
    )
    assert_all_close(fast, readable, 10 * REORDERED_FLOAT64)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_what_runs_on_a_gpu_is_what_runs_here(kind):
    encoder = make_encoder(kind)
    mask = torch.tensor([[True, True, False, True], [False, True, False, False]])
    order = order_words(mask, min_words=1)
    words = torch.randn(len(order.indices), D, dtype=torch.float64)
    runs = (encoder._run_packed, encoder._run_by_library)
    fast, library = (outputs_and_gradients(lambda inputs, run=run: run(inputs, order), encoder, words) for run in runs)
    assert_all_close(fast, library, 10 * REORDERED_FLOAT64)


@each_kind
def test_dropout_is_that_of_training_alone(kind):
    encoder, mask = make_encoder(kind, dropout=0.5), torch.ones(2, 6, dtype=torch.bool)
    vectors = torch.randn(2, 6, D, dtype=torch.float64)
    assert not torch.equal(encoder(vectors, mask), encoder(vectors, mask))
    encoder.eval()
    assert torch.equal(encoder(vectors, mask), encoder(vectors, mask))


@each_kind
def test_autocast_leaves_the_steps_in_the_weights_precision(kind):
    encoder, mask = make_encoder(kind, dtype=torch.float32), torch.ones(2, 6, dtype=torch.bool)
    vectors = torch.randn(2, 6, D)
    plain = encoder(vectors, mask)
    with torch.autocast("cpu", torch.bfloat16):
        cast = encoder(vectors.bfloat16(), mask)
        cast.sum().backward()
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, plain, rtol=0, atol=BFLOAT16)


@pytest.mark.parametrize("kept", [None, torch.tensor([[1.0, 0, 2, 1]] * 3, dtype=torch.float64)])
def test_the_written_gradients_are_those_of_finite_differences(kept):
    order = order_words(torch.tensor([[1, 1, 1], [0, 1, 1], [1, 0, 0]]).bool())
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((6, 5 * H), (6, H), (5 * H, H))]
    assert torch.autograd.gradcheck(lambda *inputs: _HighwaySteps.apply(*inputs, kept, order), inputs)


def test_recurrent_dropout_is_one_for_all_words_and_leaves_what_goes_up():
    layer, inputs = ElmoHighwayLSTM(D, H, 1, 0.0).double().layers[0], torch.randn(1, 1, D, dtype=torch.float64)
    for parameter in layer.parameters():
        torch.nn.init.uniform_(parameter, -0.7, 0.7)
    one = torch.ones(1, 1, dtype=torch.bool)
    # The first word has nothing that comes back: its output is whole.
    assert torch.equal(layer.scan(inputs, one, torch.zeros(1, H, dtype=torch.float64)), layer.scan(inputs, one))


# Token classification


def test_the_loss_is_the_mean_over_words_with_a_label():
    model = make_model(ElmoForTokenClassification, dtype=torch.float64, num_labels=3)
    batch = encode([["a", "b", "c"], ["d"]])
    labels = torch.tensor([[2, -100, 0], [1, -100, -100]])
    output = model(**batch, labels=labels, output_hidden_states=True)
    assert output.logits.shape == (2, 3, 3) and len(output.hidden_states) == LAYERS + 1
    chosen = output.logits[labels != -100]
    wanted = nn.functional.cross_entropy(chosen, labels[labels != -100])
    # The loss is computed in float32 whatever the model's precision.
    assert output.loss.item() == pytest.approx(wanted.item(), rel=LOSS_FLOAT32)
    assert torch.equal(model(**batch, labels=labels.int()).loss, output.loss)


NAMES = labels_of(["x", "y"], "BIOES")


def crf_fields(names=NAMES, scheme="BIOES", **head):
    """Fields of a config whose labels are chosen together."""
    settings = {"type": "token_classification", "output_layer": "crf", "scheme": scheme, **head}
    return {
        "head": settings,
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


@functools.cache
def shared_crf_model():
    """For the many examples of a property, none of which changes it; it prefers no label."""
    model = make_model(ElmoForTokenClassification, **crf_fields())
    with torch.no_grad():
        model.classifier.bias.zero_()
        model.classifier.weight *= 2
        for scores in model.crf.parameters():
            scores *= 0.3
    return model


def scores_of(model, batch):
    """What the CRF is given: what `logits` are in training mode, without dropout."""
    model.train()
    model.dropout.eval()
    scores = model(**batch).logits
    model.eval()
    return scores


@pytest.mark.parametrize("lstm_layers", [0, 1])
def test_the_loss_of_a_crf_is_the_mean_over_words_with_a_label(lstm_layers):
    model = make_model(ElmoForTokenClassification, **crf_fields(lstm_layers=lstm_layers, lstm_size=5))
    batch = encode([["a", "b", "c"], ["d"]])
    labels = torch.tensor([[0, -100, 2], [4, -100, -100]])
    wanted = -model.crf(scores_of(model, batch), labels, labels != -100).sum() / 3
    assert model(**batch, labels=labels).loss.item() == pytest.approx(wanted.item(), rel=LOSS_FLOAT32)
    assert model(**batch, labels=torch.full((2, 3), -100)).loss.item() == 0


@examples(25)
@given(sentences=sentence_lists, side=st.sampled_from(["left", "right"]), special=st.booleans())
def test_the_largest_logits_are_the_best_sequence_and_most_are_its_probabilities(sentences, side, special):
    model = shared_crf_model()
    tokenizer = ElmoCharTokenizer(padding_side=side)
    batch = tokenizer(
        sentences,
        is_split_into_words=True,
        padding=True,
        return_tensors="pt",
        add_special_tokens=special,
        return_special_tokens_mask=True,
    )
    is_word = batch.pop("special_tokens_mask") == 0
    logits, scores = model(**batch).logits, scores_of(model, batch)
    best, _ = model.crf.decode(scores, is_word)
    assert torch.equal(logits.argmax(-1)[is_word], best[is_word])
    for labels in best:
        read_spans([NAMES[label] for label in labels.tolist() if label >= 0], "BIOES")
    marginals = model.crf.marginals(scores, is_word)
    agrees = is_word & (marginals.argmax(-1) == best)
    assert_close(logits.softmax(-1)[agrees], marginals[agrees], torch.float32)
    assert logits.isfinite().all()


def test_a_word_that_looks_like_a_special_token_has_a_label():
    model = make_model(ElmoForTokenClassification, **crf_fields())
    batch = ElmoCharTokenizer()([["a", "<S>", "b"]], is_split_into_words=True, return_tensors="pt")
    is_word = torch.tensor([[False, True, True, True, False]])
    best, _ = model.crf.decode(scores_of(model, batch), is_word)
    assert torch.equal(model(**batch).logits.argmax(-1)[is_word], best[is_word])


def test_labels_that_are_none_of_the_scheme_are_refused():
    fields = crf_fields(names=["O", "B-x", "I-x"], scheme="BIOES")
    ElmoForTokenClassification(make_tiny_config(**fields))
    fields = crf_fields(names=["NN", "VB"], scheme="IOB2")
    assert_refused(ValueError, ("'NN'", "IOB2"), ElmoForTokenClassification, make_tiny_config(**fields))


# Texts, pairs, and answers in a context


def test_variational_dropout_leaves_out_the_same_features_of_all_words_of_a_row():
    vectors = torch.rand(6, 4, 50) + 1
    dropped = ElmoVariationalDropout(0.5)(vectors)
    kept = dropped != 0
    assert (kept == kept[:, :1]).all() and 0.3 < kept.float().mean() < 0.7
    assert (kept[0] != kept[1]).any()
    torch.testing.assert_close(dropped[kept], 2 * vectors[kept])
    assert torch.equal(ElmoVariationalDropout(0.5).eval()(vectors), vectors)
    # As Chen et al. (2017) have it on all that they read.
    assert isinstance(shared("pairs").dropout, ElmoVariationalDropout)


@pytest.mark.parametrize(
    ("labels", "num_labels", "kind", "loss"),
    [
        (torch.tensor([2, 0]), 3, "single_label_classification", nn.functional.cross_entropy),
        (torch.tensor([2, 0], dtype=torch.int32), 3, "single_label_classification", nn.functional.cross_entropy),
        (torch.tensor([[1.0, 0, 1], [0, 0, 0]]), 3, "multi_label_classification", None),
        (torch.tensor([0.25, -3.0]), 1, "regression", nn.functional.mse_loss),
        (torch.tensor([[0.25], [-3.0]]), 1, "regression", nn.functional.mse_loss),
        (torch.tensor([[1.5, -2.0, 0.0], [0.5, 7.0, 1.0]]), 3, "asked for regression", nn.functional.mse_loss),
    ],
)
def test_the_loss_is_that_of_the_kind_of_labels(labels, num_labels, kind, loss):
    asked_for, _, kind = kind.rpartition(" ")
    fields = {"num_labels": num_labels, "problem_type": kind if asked_for else None}
    model = make_model(ElmoForSequenceClassification, **fields)
    output = model(**encode([["a", "b", "c"], ["d"]]), labels=labels)
    if loss is None:
        loss = nn.functional.binary_cross_entropy_with_logits
    elif kind == "single_label_classification":
        labels = labels.long()
    wanted = loss(output.logits.view_as(labels) if kind == "regression" else output.logits, labels)
    assert output.loss.item() == pytest.approx(wanted.item(), rel=LOSS_FLOAT32)
    # Pipelines read it.
    assert model.config.problem_type == kind


@pytest.mark.parametrize(("name", "named"), [("pooled pairs", "pooled_pairs"), ("pairs", "esim"), ("answers", "pairs")])
def test_single_texts_are_refused_where_pairs_are_read(name, named):
    assert_refused(ValueError, ("token_type_ids", "text_pair", named), shared(name), **encode([["a", "b"]]))


def test_the_loss_of_answers_is_the_mean_over_the_rows_with_one_and_no_other_places_are_taken():
    model, batch = shared("answers"), make_inputs("answers")
    is_context = batch["token_type_ids"].bool() & batch["attention_mask"].bool()
    places = [row.nonzero().flatten().tolist()[1:-1] for row in is_context]  # between the two last special tokens
    start, end = torch.tensor([places[0][0], -100, places[2][0]]), torch.tensor([places[0][1], -100, places[2][0]])
    output = model(**batch, start_positions=start, end_positions=end)
    for logits in (output.start_logits, output.end_logits):
        assert [row.nonzero().flatten().tolist() for row in logits > torch.finfo(logits.dtype).min] == places
    wanted = [F.cross_entropy(output.start_logits, start), F.cross_entropy(output.end_logits, end)]
    assert_close(output.loss, torch.stack(wanted).mean(), torch.float32)
    nothing = torch.full((3,), -100)
    assert model(**batch, start_positions=nothing, end_positions=nothing).loss == 0
    assert model(**batch).loss is None
    for wrong in (0, 99):
        given = {"start_positions": start, "end_positions": torch.tensor([wrong, -100, -100])}
        assert_refused(ValueError, ("positions", str(wrong)), model, **batch, **given)
    # A word that looks like a special token can be an answer.
    texts = ([["a", "</S>"]], [["<S>", "b", "</S>"]])
    alike = ElmoCharTokenizer()(*texts, is_split_into_words=True, return_tensors="pt")
    logits = model(**alike).start_logits[0]
    assert (logits > torch.finfo(logits.dtype).min).nonzero().flatten().tolist() == [5, 6, 7]


scores = st.floats(-5, 5, width=32)


@given(data=st.data(), rows=st.integers(1, 3), length=st.integers(1, 8), bound=st.one_of(st.none(), st.integers(1, 10)))
def test_the_best_spans_are_those_of_brute_force(data, rows, length, bound):
    table = st.lists(st.lists(scores, min_size=length, max_size=length), min_size=rows, max_size=rows)
    start, end = torch.tensor(data.draw(table)), torch.tensor(data.draw(table))
    allowed = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=length, max_size=length), min_size=rows, max_size=rows))
    )
    allowed[:, data.draw(st.integers(0, length - 1))] = True
    lowest = torch.finfo(torch.float32).min
    start, end = start.masked_fill(~allowed, lowest), end.masked_fill(~allowed, lowest)
    spans = best_spans(start, end, bound)
    start_shares, end_shares = start.double().softmax(dim=1), end.double().softmax(dim=1)
    for row in range(rows):
        first, last = int(spans.starts[row]), int(spans.ends[row])
        every = [
            float(start_shares[row, i] * end_shares[row, j])
            for i in range(length)
            for j in range(i, min(length, length if bound is None else i + bound))
            if allowed[row, i] and allowed[row, j]
        ]
        assert allowed[row, first] and allowed[row, last]
        assert 0 <= last - first < (bound or length)
        assert float(start_shares[row, first] * end_shares[row, last]) == pytest.approx(max(every), rel=1e-5)
        assert float(spans.probabilities[row]) == pytest.approx(max(every), rel=1e-5)


def test_the_model_keeps_to_its_settings_bound():
    start, end = torch.zeros(1, 6), torch.tensor([[0.0, 0.1, 0.2, 0.3, 0.4, 9.0]])
    start[0, 0] = 5.0
    model = make_model(ElmoForQuestionAnswering, head=QuestionAnsweringHead(max_answer_words=2))
    assert [int(place) for place in model.best_spans(start, end)[:2]] == [4, 5]
    assert [int(place) for place in best_spans(start, end)[:2]] == [0, 5]


# Semantic roles


ROLES = ["O", "B-V", "I-V", "B-ARG0", "I-ARG0"]
SMALL_ROLES = {"predicate_size": 2, "hidden_size": 3, "num_layers": 3, "finder_size": 4}


def make_labeler(head=None, **fields) -> ElmoForSemanticRoleLabeling:
    head = SemanticRoleLabelingHead(**{**SMALL_ROLES, **(head or {})})
    return make_model(ElmoForSemanticRoleLabeling, head=head, id2label=dict(enumerate(ROLES)), **fields)


def encode_predicates(sentences) -> dict:
    """Sentences with the last word of each as its predicate."""
    batch = ElmoCharTokenizer()(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    batch["predicate_mask"] = torch.zeros_like(batch["attention_mask"])
    for row, words in enumerate(sentences):
        batch["predicate_mask"][row, len(words)] = 1
    return dict(batch)


def test_the_loss_is_the_mean_over_labeled_words_and_that_of_the_finder_beside_it():
    model = make_labeler({"find_predicates": True})
    batch = encode_predicates([["a", "b"], ["c"]])
    labels = torch.tensor([[-100, 3, 1, -100], [-100, 1, -100, -100]])
    output = model(**batch, labels=labels)
    log_probs = output.logits.log_softmax(-1)
    assert_close(output.loss, -(log_probs[0, 1, 3] + log_probs[0, 2, 1] + log_probs[1, 1, 1]) / 3, torch.float32)
    both = model(**batch, labels=labels, all_predicates=batch["predicate_mask"])
    odds = output.predicate_logits
    of_finder = -(odds[0, 2].sigmoid().log() + odds[1, 1].sigmoid().log() + (-odds[0, 1]).sigmoid().log()) / 3
    assert_close(both.loss, output.loss + of_finder, torch.float32)
    assert torch.isneginf(odds[:, [0, 3]]).all() and torch.isneginf(odds[1, 2])


def test_the_best_labels_are_those_of_a_crf_that_has_the_rules_of_the_scheme_alone():
    model = make_labeler()
    batch = ElmoCharTokenizer(padding_side="left")(["a b c", "d"], padding=True, return_tensors="pt")
    logits = 3 * torch.randn(20, 2, 5, len(ROLES))
    is_word = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 0, 1, 0]]).bool()
    for each in logits:
        found = model.decode(each, batch["input_ids"], batch["attention_mask"])
        assert torch.equal(found, ElmoCRF(ROLES, "IOB2").decode(each, is_word)[0])


def test_what_makes_no_sense_is_refused_by_name():
    model, batch = make_labeler(), encode_predicates([["a"]])
    del batch["predicate_mask"]
    assert_refused(ValueError, "predicate_mask", model, **batch)
    config = make_tiny_config(head=SemanticRoleLabelingHead(**SMALL_ROLES), id2label={0: "O", 1: "PER"})
    assert_refused(ValueError, "PER", ElmoForSemanticRoleLabeling, config)
