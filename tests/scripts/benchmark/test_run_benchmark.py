"""The script from its flags to its files, on a model of nobody's size."""

import importlib.util
import json

import pytest
from benchmark import cases, floor, gate, run
from benchmark.memory import MemorySettings
from benchmark.report import render_comparisons, render_report, render_targets
from benchmark.run import BenchmarkSettings, choose_backends
from benchmark.training_loop import TrainingBenchmarkSettings
from conftest import ROOT
from refusals import assert_refused

FLAGS = ["--sizes", "tiny", "--batch_sizes", "3", "1", "--rounds", "2", "--backends", "plain"]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("benchmark_script", ROOT / "scripts" / "benchmark" / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(script, tmp_path_factory):
    directory = tmp_path_factory.mktemp("benchmark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floor, "MATRIX_SIZE", 64)
        script.main([*FLAGS, "--output_dir", str(directory)])
    content = json.loads((directory / "benchmark.json").read_text(encoding="utf-8"))
    assert (directory / "benchmark.md").read_text(encoding="utf-8") == render_report(content)
    return content


def test_json_says_where_the_figures_come_from(results):
    assert {"command", "commit", "date", "versions", "machine", "device", "text", "batches", "not_run"} <= set(results)
    assert results["machine"]["threads"] >= 1 and results["versions"]["torch"]
    assert [batch["sentences"] for batch in results["batches"]] == [3, 1]
    assert results["tokenizer"]["words_per_second"] > 0


def test_json_holds_all_timings(results):
    functions = {(timing["case"], timing["batch_size"]): list(timing["functions"]) for timing in results["timings"]}
    others = ["whole model, auto", "floor", "floor with weights read", "whole model, floor with weights read"]
    assert functions == {
        ("words to vectors", 3): ["readable", "plain", "bf16", "bf16 autocast"],
        ("biLM alone", 3): ["readable", "plain", "nn.LSTM padded", "nn.LSTM packed", *others],
        ("words to vectors", 1): ["readable", "plain", "bf16", "bf16 autocast"],
        ("biLM alone", 1): ["readable", "plain", "nn.LSTM padded", *others],
        ("training step of the biLM", 32): ["readable", "plain", "nn.LSTM padded"],
    }
    for timing in results["timings"]:
        assert timing["rounds"] == 2 and timing["size"] == "tiny" and timing["bilm_operations"] > 0
        for values in timing["functions"].values():
            assert 0 < values["fastest"] <= values["median"] <= values["slowest"]
            assert values["words_per_second"] == pytest.approx(timing["words"] / values["median"])


@pytest.mark.parametrize(
    ("half_products", "wanted"),
    [("native", "bf16 was multiplied by the processor's own"), ("float32", "bf16 was multiplied in float32")],
)
def test_the_report_says_how_bf16_was_multiplied(results, half_products, wanted):
    settings = BenchmarkSettings(half_products=half_products)
    with run.kernels.half_products(half_products):
        found = run.describe_bf16_products(settings)
    assert wanted in render_report({**results, "bf16_products": found})
    assert results["bf16_products"]["dtype"] in ("bfloat16", "float32")


def test_words_are_counted_with_their_markers(results):
    batch, timing = results["batches"][0], results["timings"][0]
    assert timing["words"] == batch["words"] + 2 * batch["sentences"]


def test_every_deviation_stands_beside_its_bound(results):
    for deviation in results["deviations"]:
        assert deviation["bound"] is None or 0 <= deviation["maximum"] <= deviation["bound"]
    assert {deviation["name"] for deviation in results["deviations"] if deviation["bound"] is None} == {
        "bf16",
        "bf16 autocast",
    }


def test_tables_have_as_many_cells_in_every_row(results):
    outcome = {
        "row": "a row",
        "size": "small",
        "batch_size": 32,
        "target": 2.0,
        "measured": 3.456,
        "ours": "plain",
        "peer": "AllenNLP",
        "reached": True,
    }
    missed = {**outcome, "batch_size": 1, "measured": 1.0, "reached": False}
    unknown = {**outcome, "row": "another", "measured": None, "reached": None}
    reported = {**outcome, "row": "others", "target": None, "reached": None}
    table = render_targets({"targets": [outcome, missed, unknown, reported]})
    assert "others" not in table
    compared = render_comparisons({"targets": [outcome, reported]})
    assert "| others | 3.46 by plain |" in compared and "a row" not in compared
    assert "3.46 by plain (≥ 2: reached)" in table and "1.00 by plain (≥ 2: missed)" in table
    assert "| another | not measured (≥ 2) | - |" in table
    assert render_targets(results) == ""
    for block in (table, *render_report(results).split("\n\n")):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_nothing_is_timed_when_the_gate_fails(script, tmp_path, monkeypatch, capsys):
    def scan(inputs, mask, weights, state, **settings):
        outputs, states = gate.scan_projected_lstm(inputs, mask, weights, state, **settings)
        return outputs * 1.001, states

    monkeypatch.setattr(gate, "run_projected_lstm", scan)
    monkeypatch.setattr(run, "time_interleaved", lambda *_: pytest.fail("timed"))
    with pytest.raises(SystemExit) as ended:
        script.main([*FLAGS, "--output_dir", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert "error: 'plain' differs from the readable scan by" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_defaults_of_the_flags_are_those_of_the_settings(script):
    assert script.parse_arguments([]) == script.parse_arguments(["--part", "kernels"]) == BenchmarkSettings()
    assert script.parse_arguments(["--part", "training"]) == TrainingBenchmarkSettings()
    assert script.parse_arguments(["--part", "memory"]) == MemorySettings()


def test_each_part_runs_alone(script, monkeypatch):
    ran = []
    for settings_class in script.RUNS:
        monkeypatch.setitem(script.RUNS, settings_class, ran.append)
    script.main(["--part", "memory", "--num_words", "30000"])
    script.main(["--part", "training", "--sizes", "tiny", "small", "--rounds", "2"])
    script.main(FLAGS)
    assert ran[:2] == [
        MemorySettings(num_words=30_000),
        TrainingBenchmarkSettings(sizes=["tiny", "small"], rounds=2),
    ]
    assert ran[2].backends == ["plain"] and len(ran) == 3


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sizes": ["huge"]}, ("--sizes", "'huge'", "tiny, small")),
        ({"backends": ["fast"]}, ("--backends", "'fast'", "readable, plain")),
        ({"half_products": "slow"}, ("--half_products", "'slow'", "auto, native, float32")),
        ({"device": "tpu"}, ("--device", "'tpu'", "cpu, cuda")),
        ({"batch_sizes": [0]}, ("--batch_sizes", "0")),
        ({"rounds": 0}, "--rounds is 0"),
        ({"threads": 0}, "--threads is 0"),
    ],
)
def test_impossible_settings_are_refused(settings, named):
    assert_refused(ValueError, named, BenchmarkSettings(**settings).check)


def test_a_backend_asked_for_by_name_runs_or_raises(monkeypatch):
    monkeypatch.setattr(run.kernels, "why_not", lambda: {"compiled": "there is no compiler", "packed": "old"})
    assert choose_backends(None) == (["readable", "plain", "int8"], {"compiled": "there is no compiler"})
    assert choose_backends(["int8"]) == (["readable", "int8"], {})
    assert_refused(ValueError, ("--backends", "'compiled'", "there is no compiler"), choose_backends, ["compiled"])


def test_every_backend_of_the_table_is_one_of_the_kernels():
    assert set(cases.BACKENDS) <= set(run.kernels.BACKENDS)
