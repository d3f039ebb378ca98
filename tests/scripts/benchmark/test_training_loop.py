"""The loop and its peers train on the same words, and the report holds what was measured."""

import json

import pytest
import torch
from benchmark.report import render_training_report
from benchmark.targets import (
    COLLATOR_WORDS_PER_SECOND,
    FORWARD_BACKWARD,
    LOOP,
    WITH_OPTIMIZER,
    judge,
    training_loop,
)
from benchmark.training_loop import (
    TrainingBenchmarkSettings,
    TrainingCase,
    build_case,
    run_training_benchmark,
)
from benchmark.training_text import open_text
from conftest import ROOT
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer
from hf_elmo.text.vocabulary import WordVocabulary, count_words

OBJECTIVES = ["full", "sampled", "adaptive"]
SETTINGS = {
    "sizes": ["tiny"],
    "num_words": 600,
    "max_vocab_size": 60,
    "num_negative_samples": 20,
    "num_lanes": 2,
    "unroll_steps": 5,
    "steps": 3,
    "rounds": 2,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    directory = tmp_path_factory.mktemp("training")
    text = directory / "text.txt"
    text.write_text("the cat sat on the mat .\na dog ran to the park and back .\n" * 30, encoding="utf-8")
    settings = TrainingBenchmarkSettings(
        **SETTINGS, objectives=OBJECTIVES[::2], text_file=str(text), output_dir=str(directory / "out")
    )
    found = run_training_benchmark(settings)
    assert json.loads((directory / "out" / "training.json").read_text(encoding="utf-8")) == found
    assert (directory / "out" / "training.md").read_text(encoding="utf-8") == render_training_report(found)
    return found


@pytest.fixture
def make_case():
    def make(objective):
        settings = TrainingBenchmarkSettings(**SETTINGS)
        corpus, tokenizer = open_text(settings), ElmoCharTokenizer()
        counts, _ = count_words(corpus.sentences(tokenizer.tokenize))
        vocabulary = WordVocabulary.from_counts(counts, settings.max_vocab_size)
        return build_case(settings, "tiny", objective, corpus, tokenizer, vocabulary)

    return make


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_loop_trains_on_the_words_of_its_peers(make_case, objective):
    case = make_case(objective)
    case.functions[LOOP]()
    assert case.num_trained == case.num_targets > 0
    case.check()


def test_only_what_has_an_optimizer_moves_the_weights(make_case):
    case = make_case("full")
    weight = next(
        argument.model for argument in case.functions[FORWARD_BACKWARD].args if hasattr(argument, "model")
    ).word_softmax.weight
    before = weight.clone()
    case.functions[FORWARD_BACKWARD]()
    assert torch.equal(weight, before)
    case.functions[WITH_OPTIMIZER]()
    assert not torch.equal(weight, before)


def test_other_windows_are_no_peers():
    assert_refused(ValueError, ("3", "4"), TrainingCase("training loop", "tiny", num_targets=4, num_trained=3).check)


def test_results_hold_every_time_and_share(results):
    assert [case["case"] for case in results["timings"]] == [training_loop(name) for name in OBJECTIVES[::2]]
    for case in results["timings"]:
        assert list(case["functions"]) == [LOOP, FORWARD_BACKWARD, WITH_OPTIMIZER] and case["rounds"] == 2
        assert list(case["share_of"]) == [FORWARD_BACKWARD, WITH_OPTIMIZER]
        assert all(share > 0 for share in case["share_of"].values())
        for timing in case["functions"].values():
            assert timing["words_per_second"] == pytest.approx(case["words"] / timing["median"])


def test_the_collator_is_timed_from_words_lines_and_the_stream(results):
    collator = results["collator"]
    assert list(collator["functions"]) == ["words to windows", "lines to windows", "stream to windows"]
    assert collator["words"] == 30 * (7 + 9) and collator["target"] == COLLATOR_WORDS_PER_SECOND
    assert collator["reached"] is (collator["measured"] >= collator["target"])


def test_json_says_where_the_figures_come_from_and_holds_no_path(results):
    assert {"command", "commit", "date", "versions", "machine"} <= set(results) and results["text"] == "text.txt"
    assert "output_dir" not in results["settings"] and "text_file" not in results["settings"]
    assert results["targets"] == []


def test_a_share_is_judged_at_the_published_sizes():
    seconds = {LOOP: [2.0, 2.2], FORWARD_BACKWARD: [1.8, 1.98], WITH_OPTIMIZER: [1.9, 2.0]}
    (outcome,) = judge(training_loop("full"), "small", 32, seconds)
    assert outcome.measured == pytest.approx(0.9) and outcome.target == 0.85 and outcome.reached
    assert judge(training_loop("full"), "tiny", 32, seconds) == judge(training_loop("full"), "small", 2, seconds) == []


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sizes": ["huge"]}, ("--sizes", "'huge'", "tiny, small")),
        ({"objectives": ["half"]}, ("--objectives", "'half'", "full, sampled, adaptive")),
        ({"steps": 0}, ("--steps", "0")),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, named):
    assert_refused(ValueError, named, run_training_benchmark, TrainingBenchmarkSettings(**settings))


def test_the_committed_figures_are_those_of_their_file():
    folder = ROOT / "model_cards" / "benchmark"
    if not (folder / "training.json").exists():
        pytest.skip("model_cards/benchmark/training.json is not there; see scripts/benchmark --part training")
    found = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    assert (folder / "training.md").read_text(encoding="utf-8") == render_training_report(found)
