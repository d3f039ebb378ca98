"""The picture of a task's layers: the bars are the shares, over several seeds the means with their deviation."""

import numpy as np
import pytest
from refusals import assert_refused

from hf_elmo.checkpoints.layer_shares_plot import build_shares_figure, mean_shares, plot_layer_shares

ONE = {"layer_shares": [[0.2, 0.5, 0.3]]}
TWO_MIXES = [[[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], [[0.4, 0.3, 0.3], [0.2, 0.3, 0.5]]]
SEEDS = {"layer_shares": TWO_MIXES[1], "seeds": [{"seed": 1, "layer_shares": shares} for shares in TWO_MIXES]}


@pytest.mark.parametrize("results", [ONE, SEEDS])
def test_a_bar_for_each_layer_and_mix(results):
    (axes,) = build_shares_figure(results).axes
    mean, deviation = mean_shares(results)
    bars = [container for container in axes.containers if hasattr(container, "patches")]
    assert [[bar.get_height() for bar in container] for container in bars] == mean.tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["token encoder", "layer 1", "layer 2"]
    errors = [container.errorbar for container in bars]
    if deviation is None:
        assert errors == [None] and "seeds" not in axes.get_title()
    else:
        np.testing.assert_allclose(mean, np.mean(TWO_MIXES, axis=0))
        np.testing.assert_allclose(deviation, np.std(TWO_MIXES, axis=0, ddof=1))
        assert None not in errors and "2 seeds" in axes.get_title()


def test_equal_results_make_equal_files(tmp_path):
    for name in "ab":
        plot_layer_shares(SEEDS, tmp_path / name)
    plot_layer_shares(ONE, tmp_path / "c")
    first, second, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first.startswith(b"\x89PNG") and first == second != other


def test_a_task_without_elmo_has_no_picture(tmp_path):
    assert_refused(ValueError, "layer_shares", plot_layer_shares, {"layer_shares": []}, tmp_path / "a")
