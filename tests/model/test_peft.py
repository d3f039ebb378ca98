"""Low-rank adapters by the peft library's standard recipe."""

import pytest
import torch
from conftest import make_tiny_config
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoForTokenClassification, ElmoModel

peft = pytest.importorskip("peft")

TARGETS = ["carry", "transform", "projection"]


def make_tagger() -> ElmoForTokenClassification:
    torch.manual_seed(0)
    return ElmoForTokenClassification(make_tiny_config(num_labels=3, classifier_lstm_layers=1, dropout=0.0)).eval()


def test_a_tagger_is_adapted_saved_and_loaded(tmp_path):
    batch = ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt")
    labels = torch.tensor([[-100, 0, 2, -100], [-100, 1, -100, -100]])
    plain = make_tagger()(**batch).logits
    config = peft.LoraConfig(task_type="TOKEN_CLS", target_modules=TARGETS, r=2, init_lora_weights=False)
    model = peft.get_peft_model(make_tagger(), config)
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
    assert any("lora_A" in name for name in trained) and any("classifier" in name for name in trained)
    assert all("lora_" in name or "modules_to_save" in name for name in trained)
    model.save_pretrained(tmp_path)
    wanted = model.eval()(**batch).logits
    again = peft.PeftModel.from_pretrained(make_tagger(), tmp_path).eval()
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
