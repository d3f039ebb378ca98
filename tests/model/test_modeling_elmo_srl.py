"""Highway LSTMs and semantic roles."""

import itertools

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from model_cases import make_model, sentence_lists
from refusals import assert_refused
from tolerances import REORDERED_FLOAT64

from hf_elmo import ElmoCharTokenizer, ElmoCRF, ElmoForSemanticRoleLabeling, SemanticRoleLabelingHead
from hf_elmo.model.modeling_elmo import order_words
from hf_elmo.model.modeling_elmo_srl import ElmoHighwayLSTM, _HighwaySteps

# Highway LSTMs


D, H = 3, 4


def make_stack(num_layers=3, dropout=0.0, dtype=torch.float64) -> ElmoHighwayLSTM:
    stack = ElmoHighwayLSTM(D, H, num_layers, dropout)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.uniform_(-0.7, 0.7)
    return stack.to(dtype)


masks = st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4).map(torch.tensor)


def run_both(stack, vectors, mask):
    """Outputs and all gradients of the fast run and of the readable one, by the same draws of dropout."""
    found = []
    for run in (stack, stack.run_reference):
        torch.manual_seed(3)
        inputs = vectors.clone().requires_grad_()
        outputs = run(inputs, mask)
        weights = torch.arange(outputs.numel(), dtype=outputs.dtype).view_as(outputs).cos()
        found.append([outputs, *torch.autograd.grad((outputs * weights).sum(), [inputs, *stack.parameters()])])
    return found


def assert_all_close(found, wanted, tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@examples(15)
@given(mask=masks, dropout=st.sampled_from([0.0, 0.4]))
def test_the_fast_run_is_the_readable_one_with_its_gradients(mask, dropout):
    torch.manual_seed(1)
    stack = make_stack(dropout=dropout)
    vectors = torch.randn(*mask.shape, D, dtype=torch.float64)
    assert_all_close(*run_both(stack, vectors, mask), REORDERED_FLOAT64 * 10)


@pytest.mark.parametrize("kept", [None, torch.tensor([[1.0, 0, 2, 1]] * 3, dtype=torch.float64)])
def test_the_written_gradients_are_those_of_finite_differences(kept):
    order = order_words(torch.tensor([[1, 1, 1], [0, 1, 1], [1, 0, 0]]).bool())
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((6, 5 * H), (6, H), (5 * H, H))]
    assert torch.autograd.gradcheck(lambda *inputs: _HighwaySteps.apply(*inputs, kept, order), inputs)


def test_recurrent_dropout_is_one_for_all_words_and_leaves_what_goes_up():
    layer, inputs = make_stack().layers[0], torch.randn(1, 1, D, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.bool)
    # The first word has nothing that comes back: its output is whole.
    assert torch.equal(layer.scan(inputs, one, torch.zeros(1, H, dtype=torch.float64)), layer.scan(inputs, one))
    stack = make_stack(dropout=0.5).train()
    vectors, mask = torch.randn(8, 4, D, dtype=torch.float64), torch.ones(8, 4, dtype=torch.bool)
    assert not torch.equal(stack(vectors, mask), stack(vectors, mask))
    assert torch.equal(stack.eval()(vectors, mask), stack(vectors, mask))


def test_autocast_leaves_the_states_as_they_are():
    stack, mask = make_stack(dtype=torch.float32), torch.ones(2, 3, dtype=torch.bool)
    vectors = torch.randn(2, 3, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = stack(vectors, mask)
        found.sum().backward()
    assert torch.equal(found, stack(vectors, mask))


# Semantic roles


LABELS = ["O", "B-V", "I-V", "B-ARG0", "I-ARG0"]
SMALL = {"predicate_size": 2, "hidden_size": 3, "num_layers": 3, "finder_size": 4}


def make_labeller(head=None, **fields) -> ElmoForSemanticRoleLabeling:
    head = SemanticRoleLabelingHead(**{**SMALL, **(head or {})})
    return make_model(ElmoForSemanticRoleLabeling, head=head, id2label=dict(enumerate(LABELS)), **fields)


def encode(sentences, places=None, **arguments) -> dict:
    """Sentences with the predicate at a place of each, the last word's by default."""
    batch = ElmoCharTokenizer()(sentences, is_split_into_words=True, padding=True, return_tensors="pt", **arguments)
    batch["predicate_mask"] = torch.zeros_like(batch["attention_mask"])
    for row, words in enumerate(sentences):
        start = int(batch["attention_mask"][row].argmax()) + 1
        place = len(words) - 1 if places is None else places[row]
        if words:
            batch["predicate_mask"][row, start + place] = 1
    return dict(batch)


def assert_close(found, wanted, tolerance=REORDERED_FLOAT64):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


HEADS = {
    "plain": {},
    "finder, two mixes": {"find_predicates": True, "mix_at_output": True},
    "no ELMo": {"use_elmo": False, "character_filters": ((2, 3),), "character_embedding_size": 2},
}


@pytest.mark.parametrize("name", HEADS)
@examples(7)
@given(sentences=sentence_lists)
def test_scores_depend_on_the_words_and_the_predicate_alone(name, sentences):
    model = make_labeller(HEADS[name], dtype=torch.float64)
    left, right = (encode(sentences, padding_side=side) for side in ("left", "right"))
    outputs = [model(**batch) for batch in (left, right)]
    for key in ("logits", "predicate_logits"):
        found = [
            output[key][batch["attention_mask"].bool()]
            for output, batch in zip(outputs, (left, right), strict=True)
            if key in output
        ]
        for one, other in itertools.pairwise(found):
            assert_close(one, other)
    for row, words in enumerate(sentences):
        assert_close(outputs[1].logits[row, : len(words) + 2], model(**encode([words])).logits[0])


def test_the_loss_is_the_mean_over_labelled_words_and_that_of_the_finder_beside_it():
    model = make_labeller({"find_predicates": True})
    batch = encode([["a", "b"], ["c"]])
    labels = torch.tensor([[-100, 3, 1, -100], [-100, 1, -100, -100]])
    output = model(**batch, labels=labels)
    log_probs = output.logits.log_softmax(-1)
    assert_close(output.loss, -(log_probs[0, 1, 3] + log_probs[0, 2, 1] + log_probs[1, 1, 1]) / 3, 1e-6)
    both = model(**batch, labels=labels, all_predicates=batch["predicate_mask"])
    odds = output.predicate_logits
    of_finder = -(odds[0, 2].sigmoid().log() + odds[1, 1].sigmoid().log() + (-odds[0, 1]).sigmoid().log()) / 3
    assert_close(both.loss, output.loss + of_finder, 1e-6)
    assert torch.isneginf(odds[:, [0, 3]]).all() and torch.isneginf(odds[1, 2])


def test_the_best_labels_are_those_of_a_crf_that_has_the_rules_of_the_scheme_alone():
    model, batch = make_labeller(), encode([["a", "b", "c"], ["d"]], padding_side="left")
    logits = 3 * torch.randn(20, 2, 5, len(LABELS))
    is_word = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 0, 1, 0]]).bool()
    for each in logits:
        found = model.decode(each, batch["input_ids"], batch["attention_mask"])
        assert torch.equal(found, ElmoCRF(LABELS, "IOB2").decode(each, is_word)[0])


def test_what_makes_no_sense_is_refused_by_name():
    model, batch = make_labeller(), encode([["a"]])
    marks = batch.pop("predicate_mask")
    assert_refused(ValueError, "predicate_mask", model, **batch)
    assert_refused(ValueError, "token_type_ids", model, **batch, predicate_mask=marks, token_type_ids=marks)
    assert_refused(Exception, "num_layers", SemanticRoleLabelingHead, num_layers=0)
    config = make_tiny_config(head=SemanticRoleLabelingHead(**SMALL), id2label={0: "O", 1: "PER"})
    assert_refused(ValueError, "PER", ElmoForSemanticRoleLabeling, config)
