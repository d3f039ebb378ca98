"""Numbers of every class, as they have been since they were checked against its definition: none changes unnoticed."""

import json
from pathlib import Path

import pytest
import torch
from class_cases import CASES, build, config_of, loss_of, make_batch, tensors_of, without_dropout
from test_contract import NOT_DRAWN
from tolerances import GOLDEN

FILE = Path(__file__).with_name("golden_numbers.json")
ON_RECORD = json.loads(FILE.read_text())
TABLE = {"token_inputs": "words", "word_table_size": 3, "word_vector_size": 5}
TWO_MIXES = {"hidden_size": 3, "mix_at_output": True}
SINGLETONS = {"max_span_width": 3, "read_across_sentences": True, "allow_crossing": True, "keep_singletons": True}
# By name the case, and what is changed of it.
GOLDEN_CASES = {
    **{name: (name, {}) for name in CASES},
    "words alone": ("base", {**TABLE, "mixed_layers": "top", "mix_normalization": "batch"}),
    "aligned": ("base", {"align_layers": True, "mixed_layers": "average", "filter_activation": "tanh"}),
    "no skips": ("base", {"num_hidden_layers": 3, "use_skip_connections": False, "forget_bias": 0.3}),
    "pooled": ("texts", {"head": {"type": "sequence_classification"}}),
    "pooled pairs": ("pairs", {"head": {"type": "sequence_classification", "encoder": "pooled_pairs"}}),
    "pairs, two mixes": ("pairs", {"head": {"type": "sequence_classification", "encoder": "esim", **TWO_MIXES}}),
    "texts, one mix": ("texts", {"head": {"type": "sequence_classification", "encoder": "bcn", "hidden_size": 3}}),
    "answers by self-attention": ("answers by BiDAF", {"head": {"type": "question_answering", "hidden_size": 3}}),
    "answers, 2 mixes": ("answers by BiDAF", {"head": {"type": "question_answering", "reader": "bidaf", **TWO_MIXES}}),
    "tags": ("tokens", {"head": {"type": "token_classification", "lstm_layers": 2, "mix_at_output": True}}),
    "singletons": ("coreference", {"head": {"type": "coreference", "mention_loss": 2.0, **SINGLETONS}}),
    "roles, two mixes": ("roles", {"head": {"type": "semantic_role_labeling", "find_predicates": True, **TWO_MIXES}}),
}


def weigh(tensors) -> float:
    """One number, in which every one of all tensors' has a part of its own."""
    numbers = torch.cat([tensor.detach().double().flatten() for tensor in tensors]).clamp(-1e6, 1e6)
    return float((numbers * (torch.arange(len(numbers)).double() + 1).cos()).sum())


def numbers_of(name: str) -> dict[str, float]:
    """What a case gives: outputs, gradients in training, and the weights of a new model that are not drawn."""
    case, changes = GOLDEN_CASES[name]
    model = without_dropout(build(case, torch.float64, freeze_bilm=False, mix_l2=0.5, **changes))
    with torch.no_grad():
        for number, mix in enumerate(model.base_model.mixes, start=1):
            mix.weight.copy_(torch.arange(len(mix.weight)) / number)
            mix.scale.fill_(number)
    outputs = model(**make_batch(case, extra=1), output_hidden_states=True)
    loss_of(model.train()(**make_batch(case, side="left"))).backward()
    new = CASES[case].cls(config_of(case, **changes))
    return {
        **{key: weigh([tensor]) for key, tensor in tensors_of(outputs)},
        "gradients": weigh(each.grad for each in model.parameters() if each.grad is not None),
        "start": weigh(weight for key, weight in new.state_dict().items() if NOT_DRAWN.search(key)),
    }


@pytest.mark.parametrize("name", ON_RECORD)
def test_outputs_gradients_and_starting_values_are_the_same_numbers_as_ever(name):
    """Where one changes on purpose, `PYTHONPATH=tests python tests/model/test_golden_numbers.py` writes the file."""
    assert numbers_of(name) == pytest.approx(ON_RECORD[name], rel=GOLDEN, abs=GOLDEN)


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: numbers_of(name) for name in GOLDEN_CASES}, indent=1) + "\n")
