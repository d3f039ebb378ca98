"""Steps of the biLM are right before they are timed, and the loop's time is told from its model's."""

import pytest
from benchmark import models, training

FLAGS = ["--sizes", "tiny", "--loop_sizes", "tiny", "--num_lanes", "4", "--steps", "4", "--seconds_per_case", "0"]
FLAGS += ["--num_negative_samples", "20", "--max_vocab_size", "100", "--worker", "all"]


@pytest.fixture(scope="module", autouse=True)
def small_product():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "_MATRIX_SIZE", 64)
        yield


@pytest.fixture(scope="module")
def cells(small_product):
    return training.measure(training.parse_arguments([*FLAGS, "--objectives", "sampled"]))


def test_the_bilms_step_has_our_backends_and_the_peer(cells):
    step = cells[0]
    assert (step["case"], step["words"]) == (training.BILM_STEP, 32 * 20)
    names = {*models.find_backends(), training.AUTOCAST, training.NN_LSTM, models.FLOOR}
    assert set(step["seconds"]) == names
    assert 0 < step["deviations"]["plain"] < 1e-5 < step["deviations"][training.AUTOCAST] < 0.05


def test_the_loop_is_timed_in_both_precisions_and_its_model_takes_a_part_of_it(cells):
    assert [cell["case"].partition(", ")[2] for cell in cells[1:]] == ["sampled softmax", "sampled softmax, bf16"]
    for cell in cells[1:]:
        steps, model = cell["seconds"][training.STEP], cell["seconds"][training.FORWARD_BACKWARD]
        assert len(steps) == len(model) == 3
        assert all(0 < part < whole for part, whole in zip(model, steps, strict=True))
        # Words and closing tokens of four lanes of twenty, opening ones left out.
        assert 60 < cell["words"] <= 80
