"""The token classifier: its losses, its biLSTM over the real words and what of it is trained."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import LAYERS, assert_close, both_dtypes, encode, make_model, random_rows, sentence_lists, shared_model
from tolerances import LOSS_FLOAT32
from torch import nn

from hf_elmo import ElmoForTokenClassification


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


@settings(max_examples=50)
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


@pytest.mark.parametrize("loaded", [False, True])
def test_every_parameter_of_the_head_that_wants_a_gradient_gets_one(loaded, tmp_path):
    model = make_model(ElmoForTokenClassification, num_mixes=3, freeze_bilm=False)
    if loaded:
        model.save_pretrained(tmp_path)
        model = ElmoForTokenClassification.from_pretrained(tmp_path)
    model.train()(**encode([["a", "b"]]), labels=torch.tensor([[0, 1]])).loss.backward()
    assert all((parameter.grad is not None) == parameter.requires_grad for parameter in model.parameters())
