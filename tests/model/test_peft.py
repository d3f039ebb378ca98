"""Low-rank adapters by the peft library's standard recipe."""

import pytest
import torch
from conftest import make_tiny_config
from tolerances import REORDERED_FLOAT32

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    SequenceClassificationHead,
)

peft = pytest.importorskip("peft")

TARGETS = ["carry", "transform", "projection"]


def make_tagger() -> ElmoForTokenClassification:
    torch.manual_seed(0)
    return ElmoForTokenClassification(make_tiny_config(num_labels=3, classifier_lstm_layers=1, dropout=0.0)).eval()


def make_classifier() -> ElmoForSequenceClassification:
    torch.manual_seed(0)
    silent = {"dropout": 0.0, "hidden_dropout": 0.0, "output_dropouts": [0.0, 0.0]}
    head = SequenceClassificationHead(encoder="esim", hidden_size=4, **silent)
    return ElmoForSequenceClassification(make_tiny_config(num_labels=3, head=head)).eval()


@pytest.mark.parametrize("task", ["TOKEN_CLS", "SEQ_CLS"])
def test_a_model_of_a_task_is_adapted_saved_and_loaded(task, tmp_path):
    if task == "TOKEN_CLS":
        make, trained_too = make_tagger, []
        batch = ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt")
        labels = torch.tensor([[-100, 0, 2, -100], [-100, 1, -100, -100]])
    else:
        make, trained_too = make_classifier, ["text_encoder", "output"]
        batch = ElmoCharTokenizer()(["a b", "c"], ["d", "e f g"], padding=True, return_tensors="pt")
        labels = torch.tensor([2, 0])
    plain = make()(**batch).logits
    config = peft.LoraConfig(
        task_type=task, target_modules=TARGETS, r=2, init_lora_weights=False, modules_to_save=[*trained_too]
    )
    model = peft.get_peft_model(make(), config)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    losses = []
    for _ in range(3):
        output = model(**batch, labels=labels)
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        losses.append(output.loss.item())
    assert losses[2] < losses[0]
    trained = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert all(any(part in name for name in trained) for part in ("lora_A", "classifier", *trained_too))
    assert all("lora_" in name or "modules_to_save" in name for name in trained)
    model.save_pretrained(tmp_path)
    wanted = model.eval()(**batch).logits
    again = peft.PeftModel.from_pretrained(make(), tmp_path).eval()
    torch.testing.assert_close(again(**batch).logits, wanted, rtol=0, atol=REORDERED_FLOAT32)
    assert not torch.allclose(wanted, plain, atol=1e-3)
    merged = again.merge_and_unload()
    torch.testing.assert_close(merged(**batch).logits, wanted, rtol=0, atol=10 * REORDERED_FLOAT32)


def test_a_base_model_is_adapted():
    batch = ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt")
    config = peft.LoraConfig(task_type="FEATURE_EXTRACTION", target_modules=TARGETS, r=2)
    model = ElmoModel(make_tiny_config()).eval()
    wanted = model(**batch).last_hidden_state
    # New adapters change nothing until they are trained.
    found = peft.get_peft_model(model, config).eval()(**batch).last_hidden_state
    torch.testing.assert_close(found, wanted, rtol=0, atol=REORDERED_FLOAT32)
