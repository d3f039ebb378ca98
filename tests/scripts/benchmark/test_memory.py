"""The harness counts every word, tells a leak from noise, and finds the loop flat on a short text."""

import itertools
import json

import pytest
from benchmark.generated_text import generate_corpus
from benchmark.memory import (
    MEBIBYTE,
    MemoryCurve,
    MemorySettings,
    WatchedCorpus,
    growth_of_second_half,
    run_memory_benchmark,
)
from benchmark.report import render_memory_report
from conftest import ROOT
from refusals import assert_refused

NUM_WORDS = 120_000


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    directory = tmp_path_factory.mktemp("memory")
    settings = MemorySettings(num_words=NUM_WORDS, num_samples=40, max_words_in_memory=5000, output_dir=str(directory))
    found = run_memory_benchmark(settings)
    assert json.loads((directory / "memory.json").read_text(encoding="utf-8")) == found
    assert (directory / "memory.md").read_text(encoding="utf-8") == render_memory_report(found)
    return found


def test_both_phases_read_all_words_once(results):
    counting, training = results["counting"], results["training"]
    assert NUM_WORDS <= counting["words"] < NUM_WORDS + 40
    # The loop reads some sentences twice, to see that its lanes are full, and stops at the last whole window.
    assert abs(training["words"] - counting["words"]) < 2 * 128 * 20
    assert training["steps"] == pytest.approx(training["words_trained"] / (128 * 20), rel=0.1)


def test_memory_is_sampled_all_along(results):
    for phase in ("counting", "training"):
        samples = results[phase]["samples"]
        words = [place for place, _ in samples]
        assert 35 <= len(samples) <= 43 and words == sorted(words)
        assert all(later - earlier < 1.5 * NUM_WORDS / 40 for earlier, later in itertools.pairwise(words))
        assert all(50 < resident < 50_000 for _, resident in samples)


def test_words_beyond_the_memory_were_counted_on_disk(results):
    assert results["distinct_words"] > 5000


def test_the_report_says_where_the_figures_come_from(results):
    report = render_memory_report(results)
    assert results["command"] in report and f"{results['distinct_words']:,} of them distinct" in report
    assert {"commit", "date", "machine", "versions"} <= set(results)


def test_a_leak_is_seen_and_noise_is_not():
    noise = [3.0, -2.0, 1.0, 0.0, -1.0]
    flat = [500 + noise[index % 5] for index in range(200)]
    rising = [value + 0.3 * index for index, value in enumerate(flat)]
    assert growth_of_second_half(flat) == pytest.approx(0, abs=1)
    assert growth_of_second_half(rising) == pytest.approx(0.3 * 80, abs=2)
    # What rises at first only is a start and no leak.
    assert growth_of_second_half([*range(0, 500, 5), *flat[:100]]) == pytest.approx(0, abs=1)


@pytest.mark.parametrize(("growth_per_sample", "is_flat"), [(0.0, True), (0.3, False)])
def test_the_verdict_follows_from_the_growth(growth_per_sample, is_flat):
    readings = iter(range(10_000))
    curve = MemoryCurve(10, lambda: int((400 + growth_per_sample * next(readings)) * MEBIBYTE))
    for _ in range(500):
        curve.count(4)
    found = curve.describe()
    assert found["words"] == 2000 and len(found["samples"]) == 200 and found["is_flat"] is is_flat
    assert [words for words, _ in found["samples"][:3]] == [12, 20, 32]


def test_words_are_counted_as_they_are_read():
    counted = []
    corpus = WatchedCorpus(**vars(generate_corpus(500)), watch=counted.append)
    read = corpus.sentences(str.split)
    assert [len(next(read)), len(next(read))] == counted
    assert sum(map(len, read)) + sum(counted[:2]) == sum(counted)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_lanes": 0}, ("--num_lanes", "0")),
        ({"num_samples": 5}, ("--num_samples", "5", "20")),
        ({"num_words": 5000}, ("--num_words", "5000", "5120")),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, named):
    assert_refused(ValueError, named, run_memory_benchmark, MemorySettings(**settings))


def test_the_committed_figures_are_those_of_their_file():
    folder = ROOT / "model_cards" / "benchmark"
    if not (folder / "memory.json").exists():
        pytest.skip("model_cards/benchmark/memory.json is not there; see scripts/benchmark --part memory")
    found = json.loads((folder / "memory.json").read_text(encoding="utf-8"))
    assert (folder / "memory.md").read_text(encoding="utf-8") == render_memory_report(found)
