"""Numbers of every class, as they have been since they were checked against its definition: none changes unnoticed."""

import json
from pathlib import Path

import pytest
import torch
from class_cases import CASES, VARIANTS, build, config_of, loss_of, make_batch, tensors_of, without_dropout
from test_contract import NOT_DRAWN
from tolerances import GOLDEN

FILE = Path(__file__).with_name("golden_numbers.json")
ON_RECORD = json.loads(FILE.read_text())


def weigh(tensors) -> float:
    """One number, in which every one of all tensors' has a part of its own."""
    numbers = torch.cat([tensor.detach().double().flatten() for tensor in tensors]).clamp(-1e6, 1e6)
    return float((numbers * (torch.arange(len(numbers)).double() + 1).cos()).sum())


def numbers_of(name: str) -> dict[str, float]:
    """What a case gives: outputs, gradients in training, and the weights of a new model that are not drawn."""
    case, changes = VARIANTS[name]
    model = without_dropout(build(name, torch.float64, freeze_bilm=False, mix_l2=0.5))
    with torch.no_grad():
        for number, mix in enumerate(model.base_model.mixes, start=1):
            mix.weight.copy_(torch.arange(len(mix.weight)) / number)
            mix.scale.fill_(number)
    outputs = model(**make_batch(name, extra=1), output_hidden_states=True)
    loss_of(model.train()(**make_batch(name, side="left"))).backward()
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
    FILE.write_text(json.dumps({name: numbers_of(name) for name in VARIANTS}, indent=1) + "\n")
