"""The pictures have the curves, points and bars of their results."""

import math
import statistics

import numpy as np
import pytest

from hf_elmo.hub.plots import plot_layer_scores, plot_run
from hf_elmo.hub.scores import averaged

matplotlib = pytest.importorskip("matplotlib", reason="plots need hf_elmo[plots]")

RESULTS = {
    "history": [
        {"step": 50, "words": 1000, "loss": 6.0, "learning_rate": 0.1, "words_per_second": 400.0},
        {"step": 100, "words": 2000, "loss": 5.0, "learning_rate": 0.05, "words_per_second": 500.0},
    ],
    "evaluations": [
        {"step": 0, "words": 0, "forward": 900.0, "backward": 1100.0, "mean": 1000.0},
        {"step": 100, "words": 2000, "forward": 190.0, "backward": 210.0, "mean": 200.0},
    ],
    "baselines": {"bigram": 300.0, "unigram": 600.0},
    "words_trained": 2500,
}


def lines_of(axes):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}


def test_a_run_has_the_curves_of_its_results(tmp_path):
    results = {**RESULTS, "perplexity_cold": {"mean": 250.0}}
    perplexity, rate, speed = plot_run(results, tmp_path / "run.png").axes
    assert lines_of(perplexity) == {
        "training": ([1000, 2000], pytest.approx([math.exp(6), math.exp(5)])),
        "held-out, forward": ([0, 2000], [900, 190]),
        "held-out, backward": ([0, 2000], [1100, 210]),
        "held-out, mean": ([0, 2000], [1000, 200]),
        "held-out, mean, state from zeros": ([2500], [250]),
        "bigram baseline": ([0, 1], [300, 300]),
        "unigram baseline": ([0, 1], [600, 600]),
    }
    assert perplexity.get_yscale() == "log" and len(perplexity.figure.legends[0].get_texts()) == 7
    ((_, learning_rates),) = lines_of(rate).values()
    ((_, speeds),) = lines_of(speed).values()
    assert (learning_rates, speeds) == ([0.1, 0.05], [400, 500])
    assert all(axes.get_ylim()[0] == 0 for axes in (rate, speed))
    # What stands for the state from zeros was measured with the weights that were kept; a user's style changes nothing.
    width = perplexity.get_lines()[0].get_linewidth()
    with matplotlib.rc_context({"lines.linewidth": 9}):
        (perplexity, *_) = plot_run({**results, "kept_step": 0}, tmp_path / "run.png").axes
    assert perplexity.get_lines()[0].get_linewidth() == width
    assert lines_of(perplexity)["held-out, mean, state from zeros"] == ([0], [250])


def test_a_sampled_objective_has_both_losses_and_no_false_perplexity(tmp_path):
    history = [{**entry, "sampled_loss": 2.0, "full_loss": entry["loss"] + 1} for entry in RESULTS["history"]]
    lines = lines_of(plot_run({**RESULTS, "history": history, "baselines": None}, tmp_path / "run.png").axes[0])
    assert "training" not in lines and not any("baseline" in label for label in lines)
    assert lines["training, full softmax"][1] == pytest.approx([math.exp(7), math.exp(6)])
    assert lines["training, sampled softmax: exp(loss), no perplexity"][1] == pytest.approx([math.exp(2)] * 2)


@pytest.mark.parametrize("perplexities", [(21.5, 21.4), (30, 2e8, 1e24, 5)])
def test_ticks_are_some_few_and_a_loss_beyond_all_numbers_stops_nothing(tmp_path, recwarn, perplexities):
    evaluations = [
        {"step": step, "words": step, "forward": figure, "backward": 1.01 * figure, "mean": figure}
        for step, figure in enumerate(perplexities)
    ]
    history = [{**RESULTS["history"][0], "words": 1, "loss": loss} for loss in (1e4, math.log(perplexities[0]))]
    figure = plot_run({"history": history, "evaluations": evaluations}, tmp_path / "run.png")
    labels = [label.get_text() for label in figure.axes[0].yaxis.get_ticklabels()]
    assert 2 <= len(set(labels)) <= 16 and not recwarn.list


def test_layers_have_points_with_their_deviations(tmp_path):
    accuracies = {"most frequent tag": [0.8], "layer 0": [0.81, 0.83], "layer 1": [0.9, 0.94]}
    scores = averaged({name: {way: {"accuracy": each} for way, each in accuracies.items()} for name in "ab"})
    (axes,) = plot_layer_scores({"scores": scores}, tmp_path / "a.png").axes
    means, spread = (list(map(each, accuracies.values())) for each in (statistics.fmean, np.ptp))
    for drawn in axes.containers:
        bars = [bar[1, 1] - bar[0, 1] for bar in drawn.lines[2][0].get_segments()]
        assert list(drawn.lines[0].get_ydata()) == pytest.approx(means)
        assert bars == pytest.approx([2 * each / 2**0.5 for each in spread])
    assert [label.get_text() for label in axes.get_xticklabels()] == list(accuracies)
