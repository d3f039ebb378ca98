"""What is timed is right, what is wrong is not timed, and the files say what was measured."""

import argparse
import json
import sys

import pytest
import torch
from benchmark import inference, models, report, timing, training
from benchmark.timing import MOST_ROUNDS
from conftest import make_tiny_config

from hf_elmo import ElmoModel
from hf_elmo.pretraining.train import LaneTrainer

FLAGS = ["--sizes", "tiny", "--seconds_per_case", "0.01", "--worker"]
LOOP = ["--loop_sizes", "tiny", "--num_lanes", "4", "--steps", "4"]
# In place of a benchmark: what PYTHONPATH and its flags were.
STUB = """
import json, os, sys
print("chatter")
print(json.dumps([{"python_path": os.environ["PYTHONPATH"], "flags": sys.argv[1:]}]))
"""


def run_inference(*flags):
    return inference.measure(inference.parse_arguments([*FLAGS, "--batch_sizes", "3", "1", *flags]))


@pytest.fixture(scope="module", autouse=True)
def small_product():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "_MATRIX_SIZE", 64)
        yield


@pytest.fixture(scope="module")
def cells(small_product):
    return run_inference()


def test_each_cell_has_our_backends_and_the_floor(cells):
    assert [(cell["case"], cell["batch_size"]) for cell in cells] == [
        (case, batch_size) for batch_size in (3, 1) for case in (inference.WORDS_TO_VECTORS, inference.BILM)
    ]
    backends = set(models.find_backends("cpu"))
    assert {models.REFERENCE, "plain"} <= backends
    for cell in cells:
        halves = set() if cell["case"] == inference.BILM else {models.BFLOAT16, models.AUTOCAST}
        assert set(cell["seconds"]) == backends | halves | {models.FLOOR}
        assert all(min(seconds) > 0 for seconds in cell["seconds"].values())
        assert all(0 <= cell["deviations"][name] < 1e-5 for name in backends - {models.REFERENCE})
        assert all(1e-5 < cell["deviations"][name] < 0.05 for name in halves)
    batch = models.pick_batch(models.read_sentences(None), 3)
    assert cells[0]["words"] == sum(map(len, batch)) + 2 * 3


def test_the_bilms_step_and_the_loop_are_timed_and_the_loops_model_takes_a_part_of_it(monkeypatch):
    monkeypatch.setattr(training, "VOCABULARY", 100)
    monkeypatch.setattr(training, "NEGATIVES", 20)
    logged, log = [], LaneTrainer._log
    monkeypatch.setattr(
        LaneTrainer, "_log", lambda trainer, *given: logged.append(trainer.step) or log(trainer, *given)
    )
    step, *loops = training.measure(training.parse_arguments([*FLAGS, *LOOP]))
    assert (step["case"], step["words"]) == (training.BILM_STEP, 32 * 20)
    assert set(step["seconds"]) == {*models.find_backends("cpu"), models.AUTOCAST, models.FLOOR}
    assert 0 < step["deviations"]["plain"] < 1e-5 < step["deviations"][models.AUTOCAST] < 0.05
    assert [cell["case"].partition(", ")[2] for cell in loops] == ["sampled softmax", "sampled softmax, bf16"]
    assert logged == [4, 4]  # behind the last step, which ends there
    for cell in loops:
        steps, model = cell["seconds"][training.STEP], cell["seconds"][training.FORWARD_BACKWARD]
        assert len(steps) == len(model) == 3
        assert all(0 < part < whole for part, whole in zip(model, steps, strict=True))
        # Words and closing tokens of four lanes of twenty, opening ones left out.
        assert 60 < cell["words"] <= 80


def test_a_wrong_result_is_not_timed(monkeypatch):
    right, calls = inference._mix, iter(range(100))
    # The second call is the first one that is held against the reference.
    monkeypatch.setattr(inference, "_mix", lambda *given: right(*given) * (1 + 1e-3 * (next(calls) > 0)))
    with pytest.raises(SystemExit, match="'plain' differs from the reference"):
        run_inference()
    with pytest.raises(SystemExit, match="nan"):
        models.check("plain", torch.tensor([float("nan")]), torch.ones(1))


def test_the_files_hold_what_was_measured(cells, tmp_path, monkeypatch, capsys):
    # Of two checkouts this one is slower here.
    twice = [{name: [2 * value for value in each] for name, each in cell["seconds"].items()} for cell in cells]
    slower = [{**cell, "seconds": seconds} for cell, seconds in zip(cells, twice, strict=True)]

    def run(name, measured, *flags):
        monkeypatch.setattr(timing, "measure_checkouts", lambda *_: measured)
        monkeypatch.setattr(sys, "argv", ["inference.py", "--output_dir", str(tmp_path), *flags])
        report.main("inference.py", inference.parse_arguments, inference.measure, "benchmark")
        results = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert text == report.render_report(results) and text in capsys.readouterr().out
        assert {"command", "commit", "machine", "versions"} <= set(results) and str(tmp_path) in text
        return results, text

    results, text = run("benchmark", {"this": [cells, cells]})
    timed, floor = (results["timings"][0]["functions"][name] for name in ("plain", "floor"))
    share = floor["median"] / timed["median"]
    assert f"{1000 * timed['median']:,.1f} ms, {timed['words_per_second']:,.0f}/s, {share:.2f} |" in text
    speed = report.render_words_per_second(results)
    assert speed.splitlines()[0] == "| words per second | tiny, 3 at a time | tiny, 1 at a time |"
    assert f"| plain | {timed['words_per_second']:,.0f} |" in speed and models.AUTOCAST not in speed
    results, text = run("compared", {"this": [slower], "other": [cells]}, "--other_checkout", str(timing.ROOT))
    assert {row["ratio"] for row in results["ratios"]} == {0.5}
    assert "Slower by more than a tenth: words to vectors, reference, tiny, 3: 0.50;" in text


def test_the_floor_is_the_work_at_the_rate_of_the_product_and_no_step_beats_the_reading():
    config = make_tiny_config(num_hidden_layers=3)
    model = ElmoModel(config)
    of_encoder = (*model.token_encoder.highways, model.token_encoder.projection)
    weights, encoder = (
        sum(weight.numel() for module in modules for weight in module.parameters() if weight.ndim == 2)
        for modules in ([model.bilm], of_encoder)
    )

    def floor(product, reading, distinct_words=0):
        seconds = {models.MATRIX_PRODUCT: [product], models.READING: [reading]}
        return models.floor_seconds(seconds, config, [3, 2, 1], distinct_words)

    operation = 0.5 / (2 * models._MATRIX_SIZE**3)
    assert floor(0.5, 0.0) == pytest.approx(operation * 2 * 6 * weights)
    assert floor(0.5, 0.0, 7) == pytest.approx(operation * 2 * (6 * weights + 7 * encoder))
    # Three steps in each direction of each layer, each with one of eight readings.
    assert floor(0.0, 0.8) == pytest.approx(6 * 3 * 0.1)
    assert models.rows_per_step(torch.arange(5) < torch.tensor([[5], [2], [4]])) == [3, 3, 2, 2, 1]


def test_each_round_calls_all_and_each_comes_behind_each_other():
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "abc"}
    timing.time_interleaved(functions, 60.0)
    rounds = ["".join(calls[start : start + 3]) for start in range(0, len(calls), 3)]
    assert len(rounds) == MOST_ROUNDS and {"".join(sorted(order)) for order in rounds} == {"abc"}
    neighbors = [order[place : place + 2] for order in rounds for place in (0, 1)]
    assert all(neighbors.count(pair) >= 15 for pair in ("ab", "ba", "bc", "cb", "ac", "ca"))


def test_checkouts_take_turns_each_with_its_own_package(tmp_path, capsys):
    (tmp_path / "stub.py").write_text(STUB)
    arguments = argparse.Namespace(rounds=2, other_checkout=str(tmp_path))
    cells = timing.measure_checkouts(str(tmp_path / "stub.py"), ["--sizes", "tiny"], arguments)
    flags = ["--sizes", "tiny", "--worker"]
    assert cells == {
        "this": [[{"python_path": str(timing.ROOT), "flags": flags}]] * 2,
        "other": [[{"python_path": str(tmp_path), "flags": flags}]] * 2,
    }
    said = [line.split(", ")[1] for line in capsys.readouterr().err.splitlines()]
    assert said == ["this checkout", "other checkout", "other checkout", "this checkout"]
