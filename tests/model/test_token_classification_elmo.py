"""The token classifier: its losses, its biLSTM over the real words and what of it is trained."""

import functools

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import LAYERS, assert_close, both_dtypes, encode, make_model, random_rows, sentence_lists, shared_model
from refusals import assert_refused
from tolerances import LOSS_FLOAT32
from torch import nn
from transformers import AutoModelForTokenClassification

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification
from hf_elmo.model.modeling_elmo_tasks import labels_of, read_spans


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


def test_a_batch_without_labels_costs_nothing_rather_than_nan():
    model = make_model(ElmoForTokenClassification).train()
    loss = model(**encode([["a", "b"]]), labels=torch.full((1, 2), -100)).loss
    assert loss.item() == 0
    loss.backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_the_state_of_the_bilm_can_be_carried_into_the_head():
    model, batch = make_model(ElmoForTokenClassification), encode([["a", "b"], ["c"]])
    state = model.elmo(**batch).state
    logits = model.classifier(model.elmo(**batch, state=state).last_hidden_state)
    assert torch.equal(model(**batch, state=state).logits, logits)
    assert torch.equal(model(**batch, return_dict=False)[0], model(**batch).logits)


@examples(25)
@both_dtypes
@pytest.mark.parametrize("lstm_layers", [0, 1, 2])
@given(sentences=sentence_lists, side=st.sampled_from(["left", "right"]), extra=st.integers(0, 3))
def test_logits_depend_on_the_sentence_alone(dtype, lstm_layers, sentences, side, extra):
    model = shared_model(
        ElmoForTokenClassification, dtype, classifier_lstm_layers=lstm_layers, classifier_lstm_size=5, num_labels=3
    )
    longest = max(map(len, sentences))
    batch = encode(sentences, padding_side=side, pad_to_multiple_of=longest + extra)
    mask = batch["attention_mask"].bool()
    together = model(**batch).logits
    for row, sentence in enumerate(sentences):
        assert_close(together[row][mask[row]], model(**encode([sentence])).logits[0], dtype)


def test_a_row_without_words_passes_the_bilstm():
    model = make_model(ElmoForTokenClassification, classifier_lstm_layers=1, classifier_lstm_size=5)
    ids = random_rows(2, 3)
    full = model(ids[:1]).logits
    half = model(ids, torch.tensor([[1, 1, 1], [0, 0, 0]])).logits
    assert_close(half[:1], full, torch.float32)
    # Zeros went into the classifier where there is no word.
    assert torch.equal(half[1], model.classifier.bias.expand(3, -1))
    assert torch.equal(model(ids, torch.zeros(2, 3).long()).logits, model.classifier.bias.expand(2, 3, -1))


@pytest.mark.parametrize("lstm_layers", [0, 1])
def test_masked_words_change_no_logits_whatever_their_characters(lstm_layers):
    model = make_model(ElmoForTokenClassification, classifier_lstm_layers=lstm_layers, classifier_lstm_size=5)
    ids, mask = random_rows(2, 5), torch.tensor([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]])
    others = torch.where(mask.bool().unsqueeze(-1), ids, random_rows(2, 5))
    assert torch.equal(model(ids, mask).logits, model(others, mask).logits)
    assert_close(model(ids, mask).logits[:1, :3], model(ids[:1, :3]).logits, torch.float32)


def test_the_penalty_on_the_mix_is_added_in_training_only():
    fields = {"classifier_dropout": 0.0, "num_labels": 3}
    batch, labels = encode([["a", "b"]]), torch.tensor([[0, 1]])
    plain, penalised = (make_model(ElmoForTokenClassification, mix_l2=value, **fields) for value in (0.0, 0.5))
    for model in (plain, penalised):
        with torch.no_grad():
            model.elmo.mixes[0].weight.copy_(torch.tensor([1.0, -2.0, 3.0]))
    assert torch.equal(penalised(**batch, labels=labels).loss, plain(**batch, labels=labels).loss)
    added = penalised.train()(**batch, labels=labels).loss - plain.train()(**batch, labels=labels).loss
    assert added.item() == pytest.approx(0.5 * (1 + 4 + 9), rel=LOSS_FLOAT32)


def test_classifier_dropout_works_in_training_only():
    model, batch = make_model(ElmoForTokenClassification, classifier_dropout=0.5), encode([["a", "b"]])
    assert torch.equal(model(**batch).logits, model(**batch).logits)
    model.train()
    assert not torch.equal(model(**batch).logits, model(**batch).logits)


# With a CRF

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


def test_a_crf_is_saved_with_its_labels_and_trained_from_zero(tmp_path):
    model = make_model(ElmoForTokenClassification, **crf_fields(mix_at_output=True, lstm_layers=1, lstm_size=5))
    model.save_pretrained(tmp_path)
    loaded = AutoModelForTokenClassification.from_pretrained(tmp_path)
    batch = encode([["a", "b", "c"], ["d"]])
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)
    assert loaded.config.head == model.config.head and loaded.config.num_mixes == 2
    fresh = ElmoForTokenClassification(make_tiny_config(**crf_fields()))
    assert not any(parameter.any() for parameter in fresh.crf.parameters())


def test_labels_that_are_none_of_the_scheme_are_refused():
    fields = crf_fields(names=["O", "B-x", "I-x"], scheme="BIOES")
    ElmoForTokenClassification(make_tiny_config(**fields))
    fields = crf_fields(names=["NN", "VB"], scheme="IOB2")
    assert_refused(ValueError, ("'NN'", "IOB2"), ElmoForTokenClassification, make_tiny_config(**fields))
    assert_refused(ValueError, ("output_layer", "CRF"), make_tiny_config, **crf_fields(output_layer="CRF"))
    assert_refused(ValueError, "mix_at_output", make_tiny_config, **crf_fields(mix_at_output=True))


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
    head = {"type": "token_classification", "lstm_layers": 2, "lstm_size": 3, "lstm_reads_markers": False}
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
        model.lstm_reads_markers = True
        assert (model(**batch).logits - logits)[0, 1:4].abs().max() > 1e-4
