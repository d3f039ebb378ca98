"""The pictures have the curves, points and bars of their results."""

import builtins
import json
import math
import statistics

import numpy as np
import pytest

from hf_elmo.hub.plots import (
    draw_layer_scores,
    draw_layer_shares,
    draw_run,
    plot_layer_scores,
    plot_layer_shares,
    plot_run,
)
from hf_elmo.hub.scores import averaged, mean_shares

RESULTS = {
    "history": [
        {"step": 50, "words": 1000, "loss": 6.0, "learning_rate": 0.1, "words_per_second": 400.0},
        {"step": 100, "words": 2000, "loss": 5.0, "learning_rate": 0.05, "words_per_second": 500.0},
    ],
    "evaluations": [
        {"step": 0, "words": 0, "forward": 900.0, "backward": 1100.0, "mean": 1000.0},
        {"step": 100, "words": 2000, "forward": 190.0, "backward": 210.0, "mean": 200.0},
    ],
    "perplexity": {"forward": 190.0, "backward": 210.0, "mean": 200.0},
    "baselines": {"bigram": 300.0, "unigram": 600.0},
    "words_trained": 2000,
}


matplotlib = pytest.importorskip("matplotlib", reason="plots need hf_elmo[plots]")


def figure_of(results, draw=draw_run):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 7.5), layout="constrained")
    draw(figure, results)
    return figure


def lines_of(axes):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}


def legend_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_the_curves_are_those_of_the_results():
    perplexity, rate, speed = figure_of(RESULTS).axes
    lines = lines_of(perplexity)
    assert lines["training"] == ([1000, 2000], pytest.approx([math.exp(6), math.exp(5)]))
    assert lines["held-out, forward"] == ([0, 2000], [900, 190])
    assert lines["held-out, backward"] == ([0, 2000], [1100, 210])
    assert lines["held-out, mean"] == ([0, 2000], [1000, 200])
    assert lines["bigram baseline"][1] == [300, 300] and lines["unigram baseline"][1] == [600, 600]
    assert len(lines) == 6 and perplexity.get_yscale() == "log"
    ((_, learning_rates),) = lines_of(rate).values()
    ((_, speeds),) = lines_of(speed).values()
    assert (learning_rates, speeds) == ([0.1, 0.05], [400, 500])
    assert [axes.get_ylabel() for axes in (perplexity, rate, speed)] == ["perplexity", "learning rate", "words/s"]
    for axes, highest in ((rate, 0.1), (speed, 500)):
        bottom, top = axes.get_ylim()
        assert bottom == 0 and highest < top < 1.2 * highest
    assert speed.get_xlabel() == "words trained on"
    assert set(legend_of(perplexity.figure)) == set(lines)


def test_a_sampled_objective_has_both_losses_and_no_false_perplexity():
    history = [{**entry, "sampled_loss": 2.0, "full_loss": entry["loss"] + 1} for entry in RESULTS["history"]]
    lines = lines_of(figure_of({**RESULTS, "history": history}).axes[0])
    assert "training" not in lines
    assert lines["training, full softmax"][1] == pytest.approx([math.exp(7), math.exp(6)])
    assert lines["training, sampled softmax: exp(loss), no perplexity"][1] == pytest.approx([math.exp(2)] * 2)


def test_cold_state_and_resumptions_are_marked():
    results = {**RESULTS, "perplexity_cold": {"mean": 250.0}, "resumed_from_steps": [25, 75]}
    figure = figure_of(results)
    lines = lines_of(figure.axes[0])
    assert lines["held-out, mean, each sentence alone"] == ([2000], [250])
    for axes in figure.axes:
        resumed = [line.get_xdata()[0] for line in axes.get_lines() if line.get_label() == "resumed"]
        assert resumed == [500, 1500]
    assert legend_of(figure).count("resumed") == 1


def test_what_was_not_measured_is_not_drawn():
    lines = lines_of(figure_of({**RESULTS, "baselines": None}).axes[0])
    assert not any("baseline" in label for label in lines)
    bare = figure_of({"history": [], "evaluations": RESULTS["evaluations"]})
    assert set(lines_of(bare.axes[0])) == {"held-out, forward", "held-out, backward", "held-out, mean"}
    assert not bare.axes[1].get_lines()


def test_the_picture_opens_and_equal_results_make_equal_files(tmp_path):
    from matplotlib import image

    first, again, other = (tmp_path / f"{name}.png" for name in ("first", "again", "other"))
    plot_run(RESULTS, first)
    with matplotlib.rc_context({"lines.linewidth": 9, "savefig.facecolor": "red", "font.size": 20}):
        plot_run(json.loads(json.dumps(RESULTS)), again)
    plot_run({**RESULTS, "baselines": None}, other)
    height, width, _ = image.imread(first).shape
    assert width > height > 500
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


def test_a_loss_beyond_all_perplexities_does_not_stop_the_plot(tmp_path, recwarn):
    history = [{**RESULTS["history"][0], "loss": 1e4}, RESULTS["history"][1]]
    plot_run({**RESULTS, "history": history}, tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size and not recwarn.list


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    def no_matplotlib(name, *arguments, real=builtins.__import__):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    with pytest.raises(ImportError, match=r"pip install 'hf_elmo\[plots\]'"):
        plot_run(RESULTS, tmp_path / "run.png")


def results_of(*perplexities):
    """A run of a few steps, an evaluation at each."""
    evaluations = [
        {"step": step, "words": 10 * step, "forward": figure, "backward": 1.01 * figure, "mean": figure}
        for step, figure in enumerate(perplexities)
    ]
    last = {"step": len(perplexities) - 1, "words": evaluations[-1]["words"]}
    history = [{**last, "loss": 3.0, "learning_rate": 0.1, "words_per_second": 100.0}]
    return {"history": history, "evaluations": evaluations, "words_trained": last["words"]}


def test_one_step_is_seen_in_each_part_of_the_picture():
    for axes in figure_of(results_of(21.5, 21.4)).axes:
        assert all(line.get_marker() not in ("", "None", None) for line in axes.get_lines()) and axes.get_lines()


@pytest.mark.parametrize("perplexities", [(21.5, 21.4), (900, 40, 20), (150, 140), (80_000, 12), (30, 2e8, 1e24, 5)])
def test_ticks_are_some_few_of_one_kind(perplexities):
    figure = figure_of(results_of(*perplexities))
    figure.canvas.draw()
    axis = figure.axes[0].yaxis
    labels = [label.get_text() for label in axis.get_ticklabels()]
    assert 3 <= len(labels) <= 12 and len(set(labels)) == len(labels)
    # All with as many decimals, or all in powers of ten.
    assert len({("e" in label, len(label.partition(".")[2])) for label in labels}) == 1
    assert all(any(sign.isdigit() for sign in label) for label in labels)
    assert [label for label in axis.get_ticklabels(minor=True) if label.get_text()] == []


def test_the_legend_hides_no_point():
    figure = figure_of(results_of(900, 40, 20))
    figure.canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)


def test_minutes_stand_where_their_words_were_trained_on(tmp_path):
    """A minute of evaluation in the middle, and half of the speed behind it."""
    evaluations = [{**entry, "seconds": entry["words"] / 10 + 60} for entry in RESULTS["evaluations"]]
    history = [
        {**RESULTS["history"][0], "seconds": 160.0},
        {**RESULTS["history"][0], "step": 51, "seconds": 220.0},
        {**RESULTS["history"][1], "seconds": 420.0},
    ]
    evaluations[1]["seconds"] = 480.0
    results = {**RESULTS, "history": history, "evaluations": evaluations}
    figure = figure_of(results)
    figure.draw_without_rendering()
    (above,) = figure.axes[0].child_axes
    minutes = {float(label.get_text()): label.get_position()[0] for label in above.get_xticklabels()}
    for minute, words in ((1, 0), (2, 600), (3, 1000), (4, 1100), (8, 2000)):
        assert minutes[minute] == pytest.approx(words)
    # The last evaluation lasts from before the seventh to the eighth, of which one can be read.
    assert 7 not in minutes
    assert "minutes" in above.get_xlabel()
    (legend,) = figure.legends
    assert not legend.get_window_extent().overlaps(above.get_tightbbox())
    longer = [{**entry, "seconds": 100 * entry["seconds"]} for entry in history]
    (above,) = figure_of({**results, "history": longer}).axes[0].child_axes
    assert "hours" in above.get_xlabel()


def test_the_kept_evaluation_is_marked_where_it_is_not_the_last():
    results = {**results_of(900, 20, 40), "kept_step": 1, "perplexity_cold": {"mean": 25.0}}
    lines = lines_of(figure_of(results).axes[0])
    assert lines["kept, the best evaluation"] == ([10], [20])
    assert lines["held-out, mean, each sentence alone"] == ([10], [25])
    assert "kept, the best evaluation" not in lines_of(figure_of({**results, "kept_step": 2}).axes[0])


ACCURACIES = {"most frequent tag": [0.8], "layer 0": [0.81, 0.83], "layer 1": [0.9, 0.94]}
SCORES = {"scores": averaged({name: {way: {"accuracy": each} for way, each in ACCURACIES.items()} for name in "ab"})}
ONE = {"layer_shares": [[0.2, 0.5, 0.3]]}
TWO_MIXES = [[[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], [[0.4, 0.3, 0.3], [0.2, 0.3, 0.5]]]
SEEDS = {"layer_shares": TWO_MIXES[1], "seeds": [{"seed": 1, "layer_shares": shares} for shares in TWO_MIXES]}


def test_the_scores_of_layers_have_a_point_for_each_figure():
    (axes,) = figure_of(SCORES, draw_layer_scores).axes
    drawn = {container.get_label(): container.lines[0].get_ydata().tolist() for container in axes.containers}
    assert drawn == {way: pytest.approx([statistics.fmean(values)] * 2) for way, values in ACCURACIES.items()}


@pytest.mark.parametrize("results", [ONE, SEEDS])
def test_the_shares_of_layers_have_a_bar_for_each_layer_and_mix(results):
    (axes,) = figure_of(results, draw_layer_shares).axes
    mean, deviation = mean_shares(results)
    bars = [container for container in axes.containers if hasattr(container, "patches")]
    assert [[bar.get_height() for bar in container] for container in bars] == mean.tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["token encoder", "layer 1", "layer 2"]
    assert lines_of(axes)["even shares"][1] == pytest.approx([1 / 3] * 2)
    errors = [container.errorbar for container in bars]
    if deviation is None:
        assert errors == [None] and "seeds" not in axes.get_title()
    else:
        np.testing.assert_allclose(mean, np.mean(TWO_MIXES, axis=0))
        np.testing.assert_allclose(deviation, np.std(TWO_MIXES, axis=0, ddof=1))
        assert None not in errors and "2 seeds" in axes.get_title()


@pytest.mark.parametrize(("plot", "results"), [(plot_layer_scores, SCORES), (plot_layer_shares, SEEDS)])
def test_the_pictures_of_layers_are_written(tmp_path, plot, results):
    plot(results, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
