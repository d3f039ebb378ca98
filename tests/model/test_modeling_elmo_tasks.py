"""Tag schemes, the CRF, the tasks' recurrences, and models that classify words and texts and answer questions."""

import functools
import itertools
import random

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import (
    LAYERS,
    P,
    assert_close,
    both_dtypes,
    encode,
    make_model,
    random_rows,
    sentence_lists,
)
from refusals import assert_refused
from tolerances import BFLOAT16, LOSS_FLOAT32, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn
from torch.nn import functional as F
from transformers import (
    pipeline,
)

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoCRF,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    QuestionAnsweringHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)
from hf_elmo.model.modeling_elmo import pack_layers
from hf_elmo.model.modeling_elmo_tasks import (
    SCHEMES,
    TEXT_ENCODERS,
    ElmoDense,
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


EXAMPLES = {
    "IOB1": ["I-x", "I-x", "B-x", "I-y", "O", "I-x"],
    "IOB2": ["B-x", "I-x", "B-x", "B-y", "O", "B-x"],
    "BIOES": ["B-x", "E-x", "S-x", "S-y", "O", "S-x"],
}


SPANS = [Span("x", 0, 2), Span("x", 2, 3), Span("y", 3, 4), Span("x", 5, 6)]


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
        (labels_of, (["x"], "IOB"), "'IOB'"),
        (write_spans, ([Span("x", 0, 2), Span("y", 1, 3)], 3, "IOB2"), "start=1"),
        (write_spans, ([Span("x", 2, 4)], 3, "IOB2"), "stop=4"),
        (write_spans, ([Span("x", 1, 1)], 3, "IOB2"), "stop=1"),
        (write_spans, ([], 1, "IOB"), "'IOB'"),
    ],
)
def test_what_the_scheme_does_not_have_is_refused(call, arguments, named):
    assert_refused(ValueError, named, call, *arguments)


# The CRF


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


# Recurrences


D, H = 3, 4


LIBRARY = {ElmoTaskLSTM: nn.LSTM, ElmoTaskGRU: nn.GRU}


masks_of_rnn = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4).map(torch.tensor)


both_kinds = pytest.mark.parametrize("kind", LIBRARY, ids=lambda kind: kind.kind)


def make_encoder(kind, num_layers=2, dropout=0.0, dtype=torch.float64):
    torch.manual_seed(1)
    return kind(D, H, num_layers, dropout).to(dtype)


def outputs_and_gradients(run, encoder, vectors):
    torch.manual_seed(3)
    inputs = vectors.clone().requires_grad_()
    outputs = run(inputs)
    weights = torch.arange(outputs.numel(), dtype=outputs.dtype).view_as(outputs).cos()
    return [outputs, *torch.autograd.grad((outputs * weights).sum(), [inputs, *encoder.parameters()])]


def assert_all_close(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@both_kinds
@examples(10)
@given(mask=masks_of_rnn)
def test_the_fast_run_is_the_readable_one_with_its_gradients(kind, mask):
    encoder = make_encoder(kind)
    vectors = torch.randn(*mask.shape, D, dtype=torch.float64)
    fast, readable = (
        outputs_and_gradients(lambda inputs, run=run: run(inputs, mask), encoder, vectors)
        for run in (encoder, encoder.run_reference)
    )
    assert_all_close(fast, readable, 10 * REORDERED_FLOAT64)


@both_kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_and_gradients_are_those_of_the_library(kind, dtype):
    encoder = make_encoder(kind, dtype=dtype)
    library = LIBRARY[kind](D, H, num_layers=2, batch_first=True, bidirectional=True).to(dtype)
    library.load_state_dict(encoder.state_dict())
    mask = torch.ones(3, 7, dtype=torch.bool)
    vectors = torch.randn(3, 7, D, dtype=dtype)
    assert_all_close(
        outputs_and_gradients(lambda inputs: encoder(inputs, mask), encoder, vectors),
        outputs_and_gradients(lambda inputs: library(inputs)[0], library, vectors),
        10 * (REORDERED_FLOAT64 if dtype == torch.float64 else REORDERED_FLOAT32),
    )


@both_kinds
def test_what_runs_on_a_gpu_is_what_runs_here(kind):
    encoder = make_encoder(kind)
    mask = torch.tensor([[True, True, False, True], [False, True, False, False]])
    order = order_words(mask, min_words=1)
    words = torch.randn(len(order.indices), D, dtype=torch.float64)
    runs = (encoder._run_packed, encoder._run_by_library)
    fast, library = (outputs_and_gradients(lambda inputs, run=run: run(inputs, order), encoder, words) for run in runs)
    assert_all_close(fast, library, 10 * REORDERED_FLOAT64)


@both_kinds
def test_dropout_lies_between_layers_while_training_alone(kind):
    encoder, mask = make_encoder(kind, dropout=0.5), torch.ones(2, 6, dtype=torch.bool)
    vectors = torch.randn(2, 6, D, dtype=torch.float64)
    assert not torch.equal(encoder(vectors, mask), encoder(vectors, mask))
    encoder.eval()
    assert torch.equal(encoder(vectors, mask), encoder(vectors, mask))


@both_kinds
def test_autocast_leaves_the_steps_in_the_weights_precision(kind):
    encoder, mask = make_encoder(kind, dtype=torch.float32), torch.ones(2, 6, dtype=torch.bool)
    vectors = torch.randn(2, 6, D)
    plain = encoder(vectors, mask)
    with torch.autocast("cpu", torch.bfloat16):
        cast = encoder(vectors.bfloat16(), mask)
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, plain, rtol=0, atol=BFLOAT16)


@given(mask=masks_of_rnn)
def test_words_come_step_by_step_and_mirrored_twice_are_themselves(mask):
    order = order_words(mask, min_words=1)
    lengths = mask.sum(dim=1).clamp(min=1)
    assert sum(order.sizes) == lengths.sum() == len(order.indices)
    assert order.sizes == sorted(order.sizes, reverse=True) and order.sizes[0] == len(mask)
    assert order.mirrored[order.mirrored].tolist() == list(range(len(order.indices)))
    real = mask.flatten()[order.indices]
    assert real.sum() == mask.sum()
    # The word before is of the same sentence, and lies further left.
    here, before = order.indices[len(mask) :], order.indices[order.before]
    assert torch.equal(here // mask.shape[1], before // mask.shape[1]) and (before < here).all()


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


def test_the_state_of_the_bilm_can_be_carried_into_the_head():
    model, batch = make_model(ElmoForTokenClassification), encode([["a", "b"], ["c"]])
    state = model.elmo(**batch).state
    logits = model.classifier(model.elmo(**batch, state=state).last_hidden_state)
    assert torch.equal(model(**batch, state=state).logits, logits)
    assert torch.equal(model(**batch, return_dict=False)[0], model(**batch).logits)


@functools.cache
def shared_tagger(dtype, lstm_layers):
    head = TokenClassificationHead(lstm_layers=lstm_layers, lstm_size=5)
    return make_model(ElmoForTokenClassification, dtype, head=head, num_labels=3)


@examples(25)
@both_dtypes
@pytest.mark.parametrize("lstm_layers", [0, 1, 2])
@given(sentences=sentence_lists, side=st.sampled_from(["left", "right"]), extra=st.integers(0, 3))
def test_logits_depend_on_the_sentence_alone(dtype, lstm_layers, sentences, side, extra):
    model = shared_tagger(dtype, lstm_layers)
    longest = max(map(len, sentences))
    batch = encode(sentences, padding_side=side, pad_to_multiple_of=longest + extra)
    mask = batch["attention_mask"].bool()
    together = model(**batch).logits
    for row, sentence in enumerate(sentences):
        assert_close(together[row][mask[row]], model(**encode([sentence])).logits[0], dtype)


def test_a_row_without_words_passes_the_bilstm():
    model = make_model(ElmoForTokenClassification, head=TokenClassificationHead(lstm_layers=1, lstm_size=5))
    ids = random_rows(2, 3)
    full = model(ids[:1]).logits
    half = model(ids, torch.tensor([[1, 1, 1], [0, 0, 0]])).logits
    assert_close(half[:1], full, torch.float32)
    # Zeros went into the classifier where there is no word.
    assert torch.equal(half[1], model.classifier.bias.expand(3, -1))
    assert torch.equal(model(ids, torch.zeros(2, 3).long()).logits, model.classifier.bias.expand(2, 3, -1))


@pytest.mark.parametrize("lstm_layers", [0, 1])
def test_masked_words_change_no_logits_whatever_their_characters(lstm_layers):
    model = make_model(ElmoForTokenClassification, head=TokenClassificationHead(lstm_layers=lstm_layers, lstm_size=5))
    ids, mask = random_rows(2, 5), torch.tensor([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]])
    others = torch.where(mask.bool().unsqueeze(-1), ids, random_rows(2, 5))
    assert torch.equal(model(ids, mask).logits, model(others, mask).logits)
    assert_close(model(ids, mask).logits[:1, :3], model(ids[:1, :3]).logits, torch.float32)


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
@given(sentences=sentence_lists, side=st.sampled_from(["left", "right"]), markers=st.booleans())
def test_the_largest_logits_are_the_best_sequence_and_most_are_its_probabilities(sentences, side, markers):
    model = shared_crf_model()
    tokenizer = ElmoCharTokenizer(padding_side=side)
    batch = tokenizer(
        sentences,
        is_split_into_words=True,
        padding=True,
        return_tensors="pt",
        add_special_tokens=markers,
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


def test_raised_labels_are_met():
    """Else the property above would only ever see words whose likeliest label is the best sequence's."""
    model, batch = shared_crf_model(), {"input_ids": random_rows(4, 30), "attention_mask": torch.ones(4, 30).long()}
    mask = batch["attention_mask"].bool()
    scores = scores_of(model, batch)
    likeliest = model.crf.marginals(scores, mask).argmax(-1)
    assert (likeliest != model.crf.decode(scores, mask)[0]).any()


def test_a_word_that_looks_like_a_marker_has_a_label():
    model = make_model(ElmoForTokenClassification, **crf_fields())
    batch = ElmoCharTokenizer()([["a", "<S>", "b"]], is_split_into_words=True, return_tensors="pt")
    is_word = torch.tensor([[False, True, True, True, False]])
    best, _ = model.crf.decode(scores_of(model, batch), is_word)
    assert torch.equal(model(**batch).logits.argmax(-1)[is_word], best[is_word])


def test_gold_labels_do_not_change_what_is_predicted():
    model, batch = make_model(ElmoForTokenClassification, **crf_fields()), encode([["a", "b", "c"]])
    labelled = model(**batch, labels=torch.tensor([[-100, 0, -100]])).logits
    assert torch.equal(labelled, model(**batch).logits)


def test_labels_that_are_none_of_the_scheme_are_refused():
    fields = crf_fields(names=["O", "B-x", "I-x"], scheme="BIOES")
    ElmoForTokenClassification(make_tiny_config(**fields))
    fields = crf_fields(names=["NN", "VB"], scheme="IOB2")
    assert_refused(ValueError, ("'NN'", "IOB2"), ElmoForTokenClassification, make_tiny_config(**fields))


def test_a_second_mix_is_read_at_the_output():
    head = {"type": "token_classification", "mix_at_output": True, "lstm_layers": 1, "lstm_size": 5, "dropout": 0.0}
    model, batch = make_model(ElmoForTokenClassification, head=head, num_labels=3), encode([["a", "b"]])
    assert model.classifier.in_features == 2 * 5 + model.mix_size
    before = model(**batch).logits
    with torch.no_grad():
        model.elmo.mixes[1].scale.zero_()
    mix = model.elmo(**batch).elmo_representations
    words = torch.cat([model.lstm(mix[0], batch["attention_mask"].bool()), mix[1]], dim=-1)
    assert_close(model(**batch).logits, model.classifier(words), torch.float32)
    assert not torch.equal(model(**batch).logits, before)
    model.train()(**batch, labels=torch.tensor([[0, 1]])).loss.backward()
    assert all(mix.scale.grad is not None for mix in model.elmo.mixes)


def test_the_bilstm_can_read_the_words_without_their_markers():
    head = {"type": "token_classification", "lstm_layers": 2, "lstm_size": 3, "lstm_reads_special_tokens": False}
    model = make_model(ElmoForTokenClassification, num_labels=4, head=head)
    sentences = [["a", "bc", "def"], ["<S>", "g"], []]
    batch = ElmoCharTokenizer()(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).logits
        mix = model.elmo(**batch).last_hidden_state
        for row, words in enumerate(sentences[:2]):
            alone = mix[row : row + 1, 1 : 1 + len(words)]
            wanted = model.classifier(model.lstm(alone, torch.ones(1, len(words), dtype=torch.bool)))
            assert_close(logits[row : row + 1, 1 : 1 + len(words)], wanted, torch.float32)
        model.lstm_reads_special_tokens = True
        assert (model(**batch).logits - logits)[0, 1:4].abs().max() > 1e-4


# Encoders of texts


D_OF_ENCODERS, M, SIZE = 4, 3, 5


both_mixes = pytest.mark.parametrize("mix_size", [0, M])


def make_encoder_of_encoders(name: str, mix_size: int = 0) -> nn.Module:
    """In evaluation mode and float64, with weights large enough for any mistake to show."""
    head = SequenceClassificationHead(encoder=name, hidden_size=SIZE, mix_at_output=bool(mix_size))
    encoder = TEXT_ENCODERS[name](D_OF_ENCODERS, mix_size, head).double().eval()
    for parameter in encoder.parameters():
        nn.init.uniform_(parameter, -1, 1)
    return encoder


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
    return torch.cat([mean_of(words, D_OF_ENCODERS), max_of(words, D_OF_ENCODERS)])


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
    encoder, mask = make_encoder_of_encoders(name, mix_size), torch.tensor(masks)
    vectors = torch.randn(4, 5, D_OF_ENCODERS, dtype=torch.float64, requires_grad=True)
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


# Sequence classification


SMALL = {"hidden_size": 3, "character_filters": ((2, 3),), "character_embedding_size": 2}


HEADS = {
    "pooled": {},
    "pooled_pairs": {},
    "bcn": {},
    "bcn, two mixes": {"encoder": "bcn", "mix_at_output": True, "output_activation": "relu"},
    "esim": {},
    "esim, two mixes": {"encoder": "esim", "mix_at_output": True},
    "esim, no ELMo": {"encoder": "esim", "use_elmo": False},
}


each_head = pytest.mark.parametrize("name", HEADS)


def head_of(name: str, **changes) -> SequenceClassificationHead:
    return SequenceClassificationHead(**{"encoder": name, **SMALL, **HEADS[name], **changes})


def make_classifier(name="pooled", cls=ElmoForSequenceClassification, settings=None, **fields):
    """In evaluation mode, with weights that show any mistake."""
    return make_model(cls, head=head_of(name, **(settings or {})), **{"num_labels": 3, **fields})


@pytest.fixture(scope="module")
def classifiers() -> dict[str, ElmoForSequenceClassification]:
    """One of each head in float64, for tests that change none."""
    return {name: make_classifier(name, dtype=torch.float64) for name in HEADS}


def encode_all(model, texts, others=None, **arguments) -> dict:
    """Texts, or pairs where the model reads them, as words; of each pair the second text is made of the first's."""
    pairs = None
    if model.text_encoder.reads_pairs:
        pairs = others or [text[1:][::-1] for text in texts]
    return dict(
        ElmoCharTokenizer()(texts, pairs, is_split_into_words=True, padding=True, return_tensors="pt", **arguments)
    )


def labels_for(model, count: int) -> torch.Tensor:
    return torch.arange(count) % model.num_labels


def assert_close_of_texts(found, wanted, tolerance=REORDERED_FLOAT64):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def scatter_words(batch: dict, length: int, seed: int) -> dict:
    """The same words at other places: padding anywhere, the words of a pair's sentences mixed, each in its order."""
    draw = random.Random(seed)
    types = batch.get("token_type_ids", torch.zeros_like(batch["attention_mask"]))
    moved = {key: value.new_zeros(value.shape[0], length, *value.shape[2:]) for key, value in batch.items()}
    for row, mask in enumerate(batch["attention_mask"].bool()):
        sentences = [torch.nonzero(mask & (types[row] == kind)).flatten().tolist() for kind in (0, 1)]
        order = draw.sample([0] * len(sentences[0]) + [1] * len(sentences[1]), int(mask.sum()))
        for place, kind in zip(sorted(draw.sample(range(length), len(order))), order, strict=True):
            source = sentences[kind].pop(0)
            for key, value in batch.items():
                moved[key][row, place] = value[row, source]
    return moved


@each_head
@examples(10)
@given(texts=sentence_lists, extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_scores_depend_on_the_words_and_their_order_alone(name, classifiers, texts, extra, seed):
    model = classifiers[name]
    batch = encode_all(model, texts)
    together = model(**batch).logits
    moved = scatter_words(batch, batch["input_ids"].shape[1] + extra, seed)
    assert_close_of_texts(model(**moved).logits, together)
    assert_close_of_texts(model(**encode_all(model, texts, padding_side="left")).logits, together)
    for row, text in enumerate(texts):
        assert_close_of_texts(together[row], model(**encode_all(model, [text])).logits[0])


@each_head
def test_texts_without_words_and_of_one_word_are_scored(name, classifiers):
    model, others = classifiers[name], [["a"], [], ["c", "d"], []]
    batch = encode_all(model, [["a"], ["b"], [], []], others)
    output = model(**batch, labels=labels_for(model, 4))
    assert output.logits.isfinite().all() and output.logits.shape == (4, 3)
    wanted = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(output.loss, wanted, allow_unused=True)
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_the_pooled_heads_read_mean_and_maximum_of_the_words_without_their_markers(classifiers):
    texts = [["a", "bc", "é"], ["d"]]
    model = classifiers["pooled"]
    batch = encode_all(model, texts)
    words = model.embed(**batch).last_hidden_state
    pools = [torch.cat([row.mean(dim=0), row.amax(dim=0)]) for row in (words[0, 1:4], words[1, 1:2])]
    assert_close_of_texts(model(**batch).logits, torch.stack([model.classifier(pool) for pool in pools]))
    pairs = classifiers["pooled_pairs"]
    batch = encode_all(pairs, texts[:1], [["c", "d"]])
    words = pairs.embed(**batch).last_hidden_state[0]
    first, second = (torch.cat([part.mean(dim=0), part.amax(dim=0)]) for part in (words[1:4], words[6:8]))
    features = torch.cat([first, second, (first - second).abs(), first * second])
    assert_close_of_texts(pairs(**batch).logits[0], pairs.classifier(pairs.output(features)))


@pytest.mark.parametrize("name", ["bcn, two mixes", "esim, two mixes"])
def test_the_second_mix_is_read_behind_the_lowest_bilstm(name, classifiers):
    model = classifiers[name]
    batch = encode_all(model, [["a", "b", "c"]])
    seen = {}
    hooks = [
        model.text_encoder.register_forward_hook(lambda _, inputs, __: seen.update(inputs=inputs)),
        model.text_encoder.lstm.register_forward_hook(lambda _, inputs, output: seen.update(lstm=(inputs[0], output))),
    ]
    with torch.no_grad():
        model.elmo.mixes[1].weight.copy_(torch.tensor([0.0, 5.0, -1.0]))
        first, second = model.elmo(**batch).elmo_representations
        model(**batch)
        model.elmo.mixes[1].weight.zero_()
    for hook in hooks:
        hook.remove()
    vectors, mask, mix = seen["inputs"]
    # The words of the first text, without its markers.
    assert_close_of_texts(vectors[0][mask[0]][:, : 2 * P], first[0, 1:4])
    assert_close_of_texts(mix[0][mask[0]], second[0, 1:4])
    read = model.text_encoder.integrator if "bcn" in name else model.text_encoder.dense
    read_size = read.input_size / 3 if "bcn" in name else read.in_features / 4
    assert read_size == seen["lstm"][1].shape[-1] + 2 * P


@each_head
def test_layers_computed_before_give_the_same(name, classifiers):
    model = classifiers[name]
    batch = encode_all(model, [["a", "bc", "é"], ["d"]])
    _, layers, _ = model.elmo.run_layers(**batch)
    model.elmo.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))
    try:
        found = model(**batch, packed_layers=pack_layers(layers)).logits
    finally:
        model.elmo.bilm._forward_hooks.clear()
    assert_close_of_texts(found, model(**batch).logits)


@pytest.mark.parametrize(
    ("labels", "num_labels", "kind", "loss"),
    [
        (torch.tensor([2, 0]), 3, "single_label_classification", nn.functional.cross_entropy),
        (torch.tensor([2, 0], dtype=torch.int32), 3, "single_label_classification", nn.functional.cross_entropy),
        (torch.tensor([[1.0, 0, 1], [0, 0, 0]]), 3, "multi_label_classification", None),
        (torch.tensor([0.25, -3.0]), 1, "regression", nn.functional.mse_loss),
        (torch.tensor([[0.25], [-3.0]]), 1, "regression", nn.functional.mse_loss),
    ],
)
def test_the_loss_is_that_of_the_kind_of_labels(labels, num_labels, kind, loss):
    model = make_classifier(num_labels=num_labels)
    batch = encode_all(model, [["a", "b", "c"], ["d"]])
    assert model.config.problem_type is None
    output = model(**batch, labels=labels)
    if loss is None:
        loss = nn.functional.binary_cross_entropy_with_logits
    elif kind == "single_label_classification":
        labels = labels.long()
    wanted = loss(output.logits.view_as(labels) if kind == "regression" else output.logits, labels)
    assert output.loss.item() == pytest.approx(wanted.item(), rel=LOSS_FLOAT32)
    # Pipelines read it.
    assert model.config.problem_type == kind


def test_several_numbers_for_each_text_are_asked_for_by_the_config():
    model = make_classifier(problem_type="regression")
    batch, labels = encode_all(model, [["a", "b", "c"], ["d"]]), torch.tensor([[1.5, -2.0, 0.0], [0.5, 7.0, 1.0]])
    output = model(**batch, labels=labels)
    assert output.loss.item() == pytest.approx((output.logits - labels).square().mean().item(), rel=LOSS_FLOAT32)


@each_head
@pytest.mark.parametrize("loaded", [False, True])
def test_every_parameter_that_wants_a_gradient_gets_one(name, loaded, tmp_path):
    model = make_classifier(name, num_mixes=3, freeze_bilm=False)
    if loaded:
        model.save_pretrained(tmp_path)
        model = ElmoForSequenceClassification.from_pretrained(tmp_path)
    batch = encode_all(model, [["a", "b", "c"]])
    model.train()(**batch, labels=torch.tensor([1])).loss.backward()
    assert all((parameter.grad is not None) == parameter.requires_grad for parameter in model.parameters())
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert any(name.startswith("elmo.bilm") for name in trained) == model.uses_elmo


def test_a_fresh_head_starts_by_the_rules_of_its_source():
    torch.manual_seed(0)
    model = ElmoForSequenceClassification(make_tiny_config(head=SequenceClassificationHead(encoder="esim")))
    size = model.config.head.hidden_size
    for lstm in (model.text_encoder.lstm, model.text_encoder.composition):
        recurrent = lstm.weight_hh_l0_reverse
        assert_close_of_texts(recurrent.T @ recurrent, torch.eye(size), 100 * REORDERED_FLOAT32)
        bias = (lstm.bias_ih_l0 + lstm.bias_hh_l0).view(4, size)
        assert torch.equal(bias, torch.tensor([0.0, 1.0, 0.0, 0.0])[:, None].expand_as(bias))
    dense = model.text_encoder.dense.weight
    bound = (6 / sum(dense.shape)) ** 0.5
    assert 0.99 * bound < dense.abs().max() <= bound and not model.text_encoder.dense.bias.any()
    biattentive = ElmoForSequenceClassification(make_tiny_config(head=SequenceClassificationHead(encoder="bcn")))
    assert not biattentive.text_encoder.lstm.bias_hh_l0.any()


def test_pipelines_classify_texts_and_pairs():
    tokenizer = ElmoCharTokenizer()
    model = make_classifier("bcn", id2label={0: "bad", 1: "fair", 2: "good"})
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    texts = ["a b c", "d", "the cat sat on a mat"]
    for text, found in zip(texts, classify(texts, batch_size=2), strict=True):
        wanted = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(dim=0)
        assert found == {
            "label": model.config.id2label[int(wanted.argmax())],
            "score": pytest.approx(wanted.max().item(), abs=REORDERED_FLOAT32),
        }
    model = make_classifier("esim", id2label={0: "entailment", 1: "neutral", 2: "contradiction"})
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    pairs = [{"text": "a b c", "text_pair": "d e"}, {"text": "a", "text_pair": "d e f g"}]
    for pair, found in zip(pairs, classify(pairs, batch_size=2, top_k=None), strict=True):
        wanted = model(**tokenizer(**pair, return_tensors="pt")).logits[0].softmax(dim=0)
        scores = {model.config.id2label[index]: score for index, score in enumerate(wanted.tolist())}
        assert {row["label"]: row["score"] for row in found} == pytest.approx(scores, abs=REORDERED_FLOAT32)


def test_an_entailment_model_sorts_texts_into_classes_named_afterwards():
    tokenizer = ElmoCharTokenizer()
    model = make_classifier("esim", id2label={0: "contradiction", 1: "neutral", 2: "entailment"})
    classify = pipeline("zero-shot-classification", model=model, tokenizer=tokenizer, device="cpu")
    labels = ["a b", "c", "d e f"]
    found = classify("the cat sat", candidate_labels=labels, hypothesis_template="this is {} .")
    scores = torch.stack(
        [model(**tokenizer("the cat sat", f"this is {label} .", return_tensors="pt")).logits[0, 2] for label in labels]
    ).softmax(dim=0)
    wanted = dict(zip(labels, scores.tolist(), strict=True))
    assert dict(zip(found["labels"], found["scores"], strict=True)) == pytest.approx(wanted, abs=REORDERED_FLOAT32)


@pytest.mark.parametrize("name", ["pooled", "bcn"])
def test_pairs_are_refused_by_an_encoder_of_single_texts(name):
    model = make_classifier(name)
    batch = dict(ElmoCharTokenizer()("a b", "c", return_tensors="pt"))
    assert_refused(ValueError, "token_type_ids", model, **batch)
    assert torch.equal(
        model(**{**batch, "token_type_ids": torch.zeros_like(batch["token_type_ids"])}).logits,
        model(batch["input_ids"], batch["attention_mask"]).logits,
    )


@pytest.mark.parametrize("name", ["pooled_pairs", "esim"])
def test_single_texts_are_refused_by_an_encoder_of_pairs(name):
    batch = dict(ElmoCharTokenizer()("a b", return_tensors="pt"))
    assert_refused(ValueError, ("token_type_ids", name, "text_pair"), make_classifier(name), **batch)


def test_what_is_left_out_of_the_settings_is_as_published():
    biattentive = SequenceClassificationHead(encoder="bcn")
    assert (biattentive.output_sizes, biattentive.output_dropouts) == ([1200, 600], [0.1, 0.2, 0.3])
    assert (biattentive.hidden_dropout, biattentive.output_activation) == (0.25, "maxout")
    assert SequenceClassificationHead(encoder="bcn", hidden_size=50).output_sizes == [200, 100]
    own = SequenceClassificationHead(encoder="esim", output_sizes=(7, 6), output_activation="maxout")
    assert (own.output_sizes, own.output_dropouts, own.output_activation) == ([7, 6], [0.5, 0.5, 0.5], "maxout")
    assert SequenceClassificationHead(**{k: v for k, v in own.to_dict().items() if k != "type"}) == own


# Question answering


HEADS_OF_ANSWERS = {
    "self_attention": {},
    "self_attention, two mixes": {"mix_at_output": True},
    "bidaf": {"reader": "bidaf"},
    "bidaf, two mixes": {"reader": "bidaf", "mix_at_output": True, "modeling_layers": 1, "highway_layers": 1},
    "bidaf, no ELMo": {"reader": "bidaf", "use_elmo": False},
}


each_reader = pytest.mark.parametrize("name", HEADS_OF_ANSWERS)


QUESTIONS = [["a", "bc"], ["é", "a", "b", "c"], ["d"]]


CONTEXTS = [["d", "e", "f", "aa", "b"], ["c"], ["a", "bb", "c"]]


def make_reader(name="self_attention", **fields) -> ElmoForQuestionAnswering:
    """In evaluation mode, with weights that show any mistake."""
    return make_model(
        ElmoForQuestionAnswering, head=QuestionAnsweringHead(**{**SMALL, **HEADS_OF_ANSWERS[name]}), **fields
    )


@pytest.fixture(scope="module")
def readers() -> dict[str, ElmoForQuestionAnswering]:
    """One of each head in float64, for tests that change none."""
    return {name: make_reader(name, dtype=torch.float64) for name in HEADS_OF_ANSWERS}


def encode_pairs(questions, contexts, **arguments) -> dict:
    return dict(
        ElmoCharTokenizer()(
            questions, contexts, is_split_into_words=True, padding=True, return_tensors="pt", **arguments
        )
    )


def context_places(batch: dict) -> list[list[int]]:
    """Of each row, the places of the context's words: between the two last markers."""
    places = []
    for types, mask in zip(batch["token_type_ids"], batch["attention_mask"], strict=True):
        places.append(torch.nonzero(types.bool() & mask.bool()).flatten().tolist()[1:-1])
    return places


def scores_of_words(model, batch) -> list[torch.Tensor]:
    """The logits of each row's context words, (words, 2), in their order."""
    output = model(**batch)
    both = torch.stack([output.start_logits, output.end_logits], dim=-1)
    return [both[row, places] for row, places in enumerate(context_places(batch))]


def run_plainly(recurrence, vectors):
    kind = {"LSTM": nn.LSTM, "GRU": nn.GRU}[recurrence.mode]
    plain = kind(
        recurrence.input_size,
        recurrence.hidden_size,
        recurrence.num_layers,
        bidirectional=True,
        batch_first=True,
        dtype=vectors.dtype,
    )
    weights = dict(recurrence.named_parameters())
    return torch.func.functional_call(plain, weights, (vectors.unsqueeze(0),))[0][0]


def score_plainly(module, h, q):
    one, two, three = module.weight[0].chunk(3)
    return one @ h + two @ q + three @ (h * q)


def attend_plainly(module, context, question):
    scores = torch.stack([torch.stack([score_plainly(module.scores, h, q) for q in question]) for h in context])
    best = torch.softmax(scores.max(dim=1).values, dim=0)
    summary = sum(weight * h for weight, h in zip(best, context, strict=True))
    rows = []
    for h, row in zip(context, scores, strict=True):
        found = sum(weight * q for weight, q in zip(torch.softmax(row, dim=0), question, strict=True))
        rows.append(torch.cat([h, found, h * found, h * summary]))
    return torch.stack(rows)


def attend_to_itself_plainly(module, words):
    rows = []
    for place, x in enumerate(words):
        weights = [torch.exp(score_plainly(module.scores, x, y)) for y in words]
        total = module.score_of_none.exp() + sum(weight for other, weight in enumerate(weights) if other != place)
        found = sum(
            (weights[other] / total * y for other, y in enumerate(words) if other != place), torch.zeros_like(x)
        )
        rows.append(torch.cat([found, x, found * x]))
    return torch.stack(rows)


def read_plainly(reader, question, context, question_mix, context_mix):
    """Start and end scores of one pair's context, (words, 2)."""

    def encode(vectors, mix):
        for highway in getattr(reader, "highways", ()):
            gate = torch.sigmoid(highway.carry(vectors))
            vectors = gate * F.relu(highway.transform(vectors)) + (1 - gate) * vectors
        encoded = run_plainly(reader.encoder, vectors)
        return encoded if mix is None else torch.cat([encoded, mix], dim=1)

    attended = attend_plainly(reader.attention, encode(context, context_mix), encode(question, question_mix))
    if hasattr(reader, "modeling"):
        modeled = run_plainly(reader.modeling, attended)
        start = reader.start_scores(torch.cat([attended, modeled], dim=1))
        expected = (torch.softmax(start, dim=0) * modeled).sum(dim=0).expand_as(modeled)
        ends = run_plainly(reader.end_encoder, torch.cat([attended, modeled, expected, modeled * expected], dim=1))
        return torch.cat([start, reader.end_scores(torch.cat([attended, ends], dim=1))], dim=1)
    merged = F.relu(F.linear(attended, reader.merge.weight, reader.merge.bias))
    inner = attend_to_itself_plainly(reader.self_attention, run_plainly(reader.inner_encoder, merged))
    merged = merged + F.relu(F.linear(inner, reader.inner_merge.weight, reader.inner_merge.bias))
    start = run_plainly(reader.start_encoder, merged)
    end = run_plainly(reader.end_encoder, torch.cat([merged, start], dim=1))
    return torch.cat([reader.start_scores(start), reader.end_scores(end)], dim=1)


@each_reader
def test_a_plain_twin_gives_the_same_scores_and_gradients(name, readers):
    model = readers[name]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    words = model.embed(**batch)
    vectors = words.last_hidden_state
    mixes = words.elmo_representations
    plain = []
    for row, (question, context) in enumerate(zip(QUESTIONS, CONTEXTS, strict=True)):
        asked = slice(1, 1 + len(question))
        read = slice(len(question) + 3, len(question) + 3 + len(context))
        mix = (mixes[1][row, asked], mixes[1][row, read]) if model.output_mix_size else (None, None)
        plain.append(read_plainly(model.reader, vectors[row, asked], vectors[row, read], *mix))
    found = scores_of_words(model, batch)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    factors = [torch.randn_like(scores) for scores in plain]
    gradients = [
        torch.autograd.grad(sum((a * b).sum() for a, b in zip(scores, factors, strict=True)), parameters)
        for scores in (found, plain)
    ]
    for one, other in zip(found, plain, strict=True):
        assert_close_of_texts(one, other)
    for one, other in zip(*gradients, strict=True):
        assert_close_of_texts(one, other, 100 * REORDERED_FLOAT64)
    assert any(gradient.abs().max() > 0 for gradient in gradients[0])


def scatter_words_of_answers(batch: dict, length: int, seed: int) -> dict:
    """The same words at other places: padding anywhere, question and context mixed, each in its order."""
    draw = random.Random(seed)
    moved = {key: value.new_zeros(value.shape[0], length, *value.shape[2:]) for key, value in batch.items()}
    for row, mask in enumerate(batch["attention_mask"].bool()):
        texts = [torch.nonzero(mask & (batch["token_type_ids"][row] == kind)).flatten().tolist() for kind in (0, 1)]
        order = draw.sample([0] * len(texts[0]) + [1] * len(texts[1]), int(mask.sum()))
        for place, kind in zip(sorted(draw.sample(range(length), len(order))), order, strict=True):
            source = texts[kind].pop(0)
            for key, value in batch.items():
                moved[key][row, place] = value[row, source]
    return moved


@each_reader
@examples(7)
@given(texts=sentence_lists, extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_scores_depend_on_the_words_and_their_order_alone_of_answers(name, readers, texts, extra, seed):
    model, questions = readers[name], [text[1:][::-1] for text in texts]
    batch = encode_pairs(questions, texts)
    together = scores_of_words(model, batch)
    moved = scatter_words_of_answers(batch, batch["input_ids"].shape[1] + extra, seed)
    left = encode_pairs(questions, texts, padding_side="left")
    for row, scores in enumerate(together):
        assert_close_of_texts(scores_of_words(model, moved)[row], scores)
        assert_close_of_texts(scores_of_words(model, left)[row], scores)
        assert_close_of_texts(
            scores_of_words(model, encode_pairs(questions[row : row + 1], texts[row : row + 1]))[0], scores
        )


@each_reader
def test_everything_but_the_words_of_the_context_is_masked_out(name, readers):
    model = readers[name]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    output = model(**batch)
    lowest = torch.finfo(torch.float64).min
    for logits in (output.start_logits, output.end_logits):
        for row, places in enumerate(context_places(batch)):
            assert (logits[row] > lowest).nonzero().flatten().tolist() == places


def test_a_word_that_looks_like_a_marker_can_be_an_answer(readers):
    batch = encode_pairs([["a", "</S>"]], [["<S>", "b", "</S>", "c"]])
    logits = readers["self_attention"](**batch).start_logits[0]
    assert (logits > torch.finfo(torch.float64).min).nonzero().flatten().tolist() == [5, 6, 7, 8]


@each_reader
def test_texts_without_words_are_read(name, readers):
    model = readers[name]
    batch = encode_pairs([[], ["a"], []], [["a", "b"], [], []])
    positions = torch.tensor([3, -100, -100])
    output = model(**batch, start_positions=positions, end_positions=positions)
    assert output.loss.isfinite()
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(output.loss, wanted)
    assert all(gradient.isfinite().all() for gradient in gradients)


@each_reader
def test_layers_computed_before_give_the_same_of_answers(name, readers):
    model = readers[name]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    _, layers, _ = model.elmo.run_layers(**batch)
    packed = pack_layers(layers)
    assert packed.shape[-1] == P * (1 + 2 * LAYERS)
    for logits in ("start_logits", "end_logits"):
        assert_close_of_texts(model(**batch, packed_layers=packed)[logits], model(**batch)[logits])


def test_the_loss_is_transformers_mean_over_the_rows_with_an_answer(readers):
    model = readers["self_attention"]
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    places = context_places(batch)
    start, end = torch.tensor([places[0][1], -100, places[2][0]]), torch.tensor([places[0][3], -100, places[2][2]])
    output = model(**batch, start_positions=start, end_positions=end)
    wanted = [F.cross_entropy(output.start_logits, start), F.cross_entropy(output.end_logits, end)]
    assert_close_of_texts(output.loss.double(), torch.stack(wanted).mean(), REORDERED_FLOAT32)
    nothing = torch.full((3,), -100)
    assert model(**batch, start_positions=nothing, end_positions=nothing).loss == 0
    assert model(**batch).loss is None


def test_the_mixes_are_drawn_together_in_training_alone():
    model = make_reader("self_attention, two mixes", mix_l2=0.5)
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    places = torch.tensor([row[0] for row in context_places(batch)])
    with torch.no_grad():
        for mix in model.elmo.mixes:
            mix.weight.copy_(torch.tensor([1.0, 2.0, 0.0]))
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout1d)):
            module.p = 0.0
    losses = [model.train(mode)(**batch, start_positions=places, end_positions=places).loss for mode in (True, False)]
    assert_close_of_texts(losses[0] - losses[1], torch.tensor(0.5 * 2 * 5.0), REORDERED_FLOAT32)


def test_what_cannot_be_read_is_refused(readers):
    batch = encode_pairs(QUESTIONS, CONTEXTS)
    positions = torch.tensor([row[0] for row in context_places(batch)])
    for wrong in (0, 99):
        given = {"start_positions": positions, "end_positions": torch.tensor([*positions[:2].tolist(), wrong])}
        assert_refused(ValueError, ("positions", str(wrong)), readers["self_attention"], **batch, **given)
    del batch["token_type_ids"]
    assert_refused(ValueError, ("token_type_ids", "text_pair"), readers["self_attention"], **batch)


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
    model = make_reader()
    model.max_answer_words = 2
    assert [int(place) for place in model.best_spans(start, end)[:2]] == [4, 5]
    assert [int(place) for place in best_spans(start, end)[:2]] == [0, 5]


def test_sizes_are_as_published_unless_they_are_given():
    heads = [QuestionAnsweringHead(reader=reader) for reader in ("self_attention", "bidaf")]
    assert [(head.hidden_size, head.highway_layers) for head in heads] == [(90, 0), (100, 2)]
    model = ElmoForQuestionAnswering(make_tiny_config(head=heads[0]))
    assert model.reader.merge.out_features == 180
    assert model.reader.self_attention.score_of_none.item() == -1
