"""Figures of layers are averaged, tabled, drawn, and stand in the card of the checkpoint that they were measured on."""

import statistics

import pytest
from refusals import assert_refused

from hf_elmo.checkpoints.layer_scores import averaged, best_layer, layers_section, scores_table
from hf_elmo.checkpoints.layer_scores_plot import build_layer_scores_figure, plot_layer_scores

ACCURACIES = {"most frequent tag": [0.8], "layer 0": [0.81, 0.83], "layer 1": [0.9, 0.94], "layer 2": [0.91, 0.89]}
RESULTS = {
    "kind": "tags",
    "data": {"train": {"source": "a.conllu", "words": 1200}},
    "repeats": 2,
    "scores": averaged(
        {name: {way: {"accuracy": values} for way, values in ACCURACIES.items()} for name in ("all words", "new words")}
    ),
}


def test_averages_keep_what_they_are_of():
    figures = RESULTS["scores"]["new words"]["layer 1"]["accuracy"]
    assert figures["values"] == [0.9, 0.94] and figures["mean"] == pytest.approx(0.92)
    assert figures["deviation"] == pytest.approx(statistics.stdev([0.9, 0.94]))
    assert RESULTS["scores"]["all words"]["most frequent tag"]["accuracy"]["deviation"] is None


def test_the_table_has_a_row_for_each_way():
    rows = [line.split(" | ") for line in scores_table(RESULTS).splitlines()]
    assert len(rows) == 2 + len(ACCURACIES) and all(len(row) == 3 for row in rows[2:])
    assert "| layer 1 | 92.00 ± 2.83 | 92.00 ± 2.83 |" in scores_table(RESULTS)
    assert "| most frequent tag | 80.00 | 80.00 |" in scores_table(RESULTS)


@pytest.mark.parametrize(("second", "words"), [([0.91, 0.89], "no more"), ([0.85, 0.85], ", more")])
def test_the_leading_layer_is_named_with_what_its_lead_means(second, words):
    ways = {**ACCURACIES, "layer 2": second}
    scores = averaged({"all words": {way: {"accuracy": values} for way, values in ways.items()}})
    sentence = best_layer({"scores": scores})
    assert sentence.startswith("Layer 1 leads") and "layer 2" in sentence and words in sentence


def test_the_section_has_all_that_was_measured_and_nothing_else():
    assert layers_section([]) is None
    section = layers_section([(RESULTS, "tags.png")])
    assert scores_table(RESULTS) in section and "(tags.png)" in section and "a.conllu, 1,200 words" in section
    assert "](" not in layers_section([(RESULTS, None)])
    assert_refused(KeyError, "data", layers_section, [({key: RESULTS[key] for key in RESULTS if key != "data"}, None)])


def test_the_picture_has_a_point_for_each_figure(tmp_path):
    (axes,) = build_layer_scores_figure(RESULTS).axes
    drawn = {container.get_label(): container.lines[0].get_ydata().tolist() for container in axes.containers}
    assert drawn == {way: pytest.approx([statistics.fmean(values)] * 2) for way, values in ACCURACIES.items()}
    for name in "ab":
        plot_layer_scores(RESULTS, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
