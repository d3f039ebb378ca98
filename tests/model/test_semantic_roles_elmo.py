"""The semantic role model: what its scores depend on, its losses, its best labels, and how it is saved and loaded."""

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
from transformers import AutoModel

from hf_elmo import ElmoCharTokenizer, ElmoForSemanticRoleLabeling, ElmoModel, SemanticRoleLabelingHead
from hf_elmo.model.modeling_elmo import pack_layers
from hf_elmo.model.modeling_elmo_tasks import can_follow

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


def test_the_predicate_says_whose_arguments_are_scored():
    model = make_labeller(dtype=torch.float64)
    words = ["a", "b", "c"]
    first, last = model(**encode([words] * 2, [0, 2])).logits
    assert not torch.allclose(first, last)


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


def test_all_that_is_trained_gets_gradients_also_beside_sentences_without_words():
    model = make_labeller({"find_predicates": True, "mix_at_output": True}, mix_l2=0.1).train()
    batch = encode([["a", "b"], []])
    labels = torch.tensor([[-100, 3, 1, -100], [-100, -100, -100, -100]])
    model(**batch, labels=labels, all_predicates=batch["predicate_mask"]).loss.backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None and bool(parameter.grad.isfinite().all())) is parameter.requires_grad, name


def test_kept_layers_give_the_same_scores():
    model = make_labeller()
    batch = encode([["a", "b"], ["c"]])
    layers = pack_layers(model.elmo.run_layers(batch["input_ids"], batch["attention_mask"])[1])
    assert_close(model(**batch, packed_layers=layers).logits, model(**batch).logits, 1e-6)


@given(seed=st.integers(0, 50))
@examples(7)
def test_the_best_labels_are_the_likeliest_that_the_scheme_allows(seed):
    torch.manual_seed(seed)
    model = make_labeller()
    batch = encode([["a", "b", "c"], ["d"]], padding_side="left")
    logits = 3 * torch.randn(2, 5, len(LABELS))
    found = model.decode(logits, batch["input_ids"], batch["attention_mask"])
    log_probs = logits.log_softmax(-1)
    for row, places in enumerate(([1, 2, 3], [3])):
        allowed = [
            path
            for path in itertools.product(range(len(LABELS)), repeat=len(places))
            if all(
                can_follow(None if before is None else LABELS[before], LABELS[label], "IOB2")
                for before, label in zip([None, *path], path, strict=False)
            )
        ]
        best = max(
            allowed,
            key=lambda path: sum(
                log_probs[row, place, label].item() for place, label in zip(places, path, strict=True)
            ),
        )
        assert found[row, places].tolist() == list(best)
    assert (found == -100).sum() == 6


def test_it_is_saved_and_loaded_by_its_class_and_by_auto_model(tmp_path):
    model = make_labeller({"find_predicates": True})
    model.save_pretrained(tmp_path)
    batch = encode([["a", "b"]])
    for cls in (ElmoForSemanticRoleLabeling, AutoModel):
        loaded, report = cls.from_pretrained(tmp_path, output_loading_info=True)
        assert type(loaded) is ElmoForSemanticRoleLabeling and not any(report.values())
        assert torch.equal(loaded(**batch).logits, model(**batch).logits)
    assert type(ElmoModel.from_pretrained(tmp_path)) is ElmoModel
    ElmoModel.from_pretrained(tmp_path).save_pretrained(tmp_path / "base")
    assert type(AutoModel.from_pretrained(tmp_path / "base")) is ElmoModel


def test_fresh_recurrences_are_orthogonal_and_loaded_ones_stay(tmp_path):
    config = make_tiny_config(head=SemanticRoleLabelingHead(**SMALL), id2label=dict(enumerate(LABELS)))
    model = ElmoForSemanticRoleLabeling(config)
    for layer in model.lstm.layers:
        for block in layer.weight_hh.split(3):
            torch.testing.assert_close(block @ block.t(), torch.eye(3))
        assert layer.bias[3:6].eq(1).all() and layer.bias.sum() == 3
    ElmoModel(config).save_pretrained(tmp_path)
    torch.testing.assert_close(
        ElmoForSemanticRoleLabeling.from_pretrained(tmp_path).lstm.layers[0].bias, model.lstm.layers[0].bias
    )


def test_what_makes_no_sense_is_refused_by_name():
    model, batch = make_labeller(), encode([["a"]])
    marks = batch.pop("predicate_mask")
    for wanted, arguments in (
        ("predicate_mask", {}),
        ("predicate_mask", {"predicate_mask": marks[:, :2]}),
        ("predicate_mask", {"predicate_mask": 2 * marks}),
        ("all_predicates", {"predicate_mask": marks, "all_predicates": marks}),
    ):
        assert_refused(ValueError, wanted, model, **batch, **arguments)
    assert_refused(Exception, "num_layers", SemanticRoleLabelingHead, num_layers=0)
    config = make_tiny_config(head=SemanticRoleLabelingHead(**SMALL), id2label={0: "O", 1: "PER"})
    assert_refused(ValueError, "PER", ElmoForSemanticRoleLabeling, config)


@pytest.mark.slow
def test_it_compiles_to_a_graph_of_any_batch():
    model = make_labeller(dtype=torch.float64)
    batch = encode([["a", "b"], ["c"]])
    exported = torch.export.export(model, (), dict(batch), strict=False)
    assert_close(exported.module()(**batch).logits, model(**batch).logits)
