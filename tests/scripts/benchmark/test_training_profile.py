"""The report on a training step holds what was measured, for sizes by name and by overrides."""

import json

import pytest
from benchmark.report import render_training_profile
from benchmark.training_profile import (
    BILM,
    DATA,
    ENCODER,
    GIVEN,
    OPTIMIZER,
    PLAIN,
    PLAIN_DISTINCT,
    SOFTMAX,
    STEP,
    TrainingProfileSettings,
    products_of,
    run_training_profile,
)
from conftest import ROOT
from refusals import assert_refused

TINY = {
    "sizes": ["tiny"],
    "num_words": 600,
    "max_vocab_size": 60,
    "num_negative_samples": 20,
    "num_lanes": 2,
    "unroll_steps": 5,
    "steps": 2,
    "rounds": 2,
}
OVERRIDES = {"projection_size": 8, "cell_size": 12, "filters": [[1, 4], [2, 4]], "character_embedding_size": 4}


@pytest.fixture(scope="module", params=[False, True], ids=["float32", "bf16"])
def results(tmp_path_factory, request):
    directory = tmp_path_factory.mktemp("training_profile")
    found = run_training_profile(
        TrainingProfileSettings(
            **TINY, bf16=request.param, config_overrides=json.dumps(OVERRIDES), output_dir=str(directory)
        )
    )
    assert json.loads((directory / "training_profile.json").read_text(encoding="utf-8")) == found
    assert (directory / "training_profile.md").read_text(encoding="utf-8") == render_training_profile(found)
    return found


def test_each_case_has_times_shares_and_verdicts(results):
    assert [case["size"] for case in results["cases"]] == ["tiny", GIVEN]
    for case in results["cases"]:
        parts = [ENCODER, BILM, SOFTMAX]
        assert list(case["functions"]) == [
            *(STEP, PLAIN_DISTINCT, PLAIN, *parts, OPTIMIZER, DATA),
            *map(products_of, parts),
        ]
        assert list(case["parts"]) == [*parts, OPTIMIZER, DATA] and case["rounds"] == 2
        assert all(part["share"] > 0 for part in case["parts"].values())
        assert 0 < case["products_share"]["measured"] < 1
        for verdict in (case["products_share"], *case["times_plain"].values()):
            assert verdict["reached"] is (verdict["measured"] >= verdict["target"])
    assert results["cases"][1]["cell_size"] == OVERRIDES["cell_size"]


def test_json_says_where_the_figures_come_from_and_holds_no_path(results):
    assert {"command", "commit", "date", "versions", "machine"} <= set(results)
    assert "output_dir" not in results["settings"] and "text_file" not in results["settings"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sizes": ["huge"]}, ("sizes", "huge")),
        ({"steps": 0}, ("steps", "0")),
        ({"config_overrides": "[1]"}, "config_overrides"),
        ({"config_overrides": '{"cel_size": 3}'}, "cel_size"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, named):
    assert_refused(ValueError, named, run_training_profile, TrainingProfileSettings(**{**TINY, **changes}))


def test_the_committed_figures_are_those_of_their_file():
    folder = ROOT / "model_cards" / "benchmark"
    if not (folder / "training_profile.json").exists():
        pytest.skip("model_cards/benchmark has no training_profile.json; see scripts/benchmark --part training_profile")
    found = json.loads((folder / "training_profile.json").read_text(encoding="utf-8"))
    assert (folder / "training_profile.md").read_text(encoding="utf-8") == render_training_profile(found)
