"""What is timed is right, what is wrong is not timed, and the files say what was measured."""

import json
import os
import sys

import pytest
import torch
from benchmark import inference, models, report
from benchmark.peers import TorchBiLM
from conftest import make_tiny_config
from refusals import assert_refused

from hf_elmo import ElmoModel

TINY = ["--sizes", "tiny", "--batch_sizes", "3", "1", "--seconds_per_case", "0"]


def parse(*flags):
    arguments = inference.parse_arguments([*TINY, "--worker", "all", *flags])
    arguments.rounds = 1
    return arguments


@pytest.fixture(scope="module", autouse=True)
def small_product():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "_MATRIX_SIZE", 64)
        yield


@pytest.fixture(scope="module")
def cells(small_product):
    return inference.measure(parse())


@pytest.fixture
def allennlp():
    folder = os.environ.get("HF_ELMO_ALLENNLP")
    if not folder:
        pytest.skip("HF_ELMO_ALLENNLP is not set; it names the folder of AllenNLP's unzipped wheel")
    return folder


def test_each_cell_has_our_backends_the_peer_and_the_floor(cells):
    assert [(cell["case"], cell["batch_size"]) for cell in cells] == [
        (case, batch_size) for batch_size in (3, 1) for case in (inference.WORDS_TO_VECTORS, inference.BILM)
    ]
    backends = set(models.find_backends())
    assert {models.REFERENCE, models.PLAIN} <= backends
    for cell in cells:
        peers = {inference.NN_LSTM} if cell["case"] == inference.BILM else {inference.BFLOAT16, inference.AUTOCAST}
        assert set(cell["seconds"]) == backends | peers | {models.FLOOR}
        assert all(min(seconds) > 0 for seconds in cell["seconds"].values())
        assert all(0 <= deviation < 0.05 for deviation in cell["deviations"].values())
    assert cells[0]["words"] == cells[0]["batch"]["words"] + 2 * 3


def test_a_wrong_result_is_not_timed(monkeypatch):
    right = inference._mix
    calls = iter(range(100))
    # The second call is the first one that is held against the reference.
    monkeypatch.setattr(inference, "_mix", lambda *given: right(*given) * (1 + 1e-3 * (next(calls) > 0)))
    with pytest.raises(SystemExit, match="differs from the reference"):
        inference.measure(parse())
    with pytest.raises(SystemExit, match="nan"):
        models.check("plain", torch.tensor([float("nan")]), torch.ones(1))


def test_the_files_hold_what_was_measured(cells, tmp_path, monkeypatch, capsys):
    measured = {"this": [cells, cells]}
    monkeypatch.setattr(report.timing, "measure_checkouts", lambda *_: measured)
    argv = ["inference.py", "--output_dir", str(tmp_path), "--other_checkout", str(report.timing.ROOT)]
    monkeypatch.setattr(sys, "argv", argv[:3])
    report.main("inference.py", inference.parse_arguments, inference.measure, "benchmark")
    results = json.loads((tmp_path / "benchmark.json").read_text(encoding="utf-8"))
    text = (tmp_path / "benchmark.md").read_text(encoding="utf-8")
    assert text == report.render_report(results) and text in capsys.readouterr().out
    assert {"command", "commit", "machine", "versions"} <= set(results) and str(tmp_path) in results["command"]
    timed = results["timings"][0]["functions"]["plain"]
    share = results["timings"][0]["functions"]["floor"]["median"] / timed["median"]
    assert f"{1000 * timed['median']:,.1f} ms, {timed['words_per_second']:,.0f}/s, {share:.2f} |" in text
    speed = report.render_words_per_second(results)
    assert speed.splitlines()[0] == "| words per second | tiny, 3 at a time | tiny, 1 at a time |"
    assert f"| plain | {timed['words_per_second']:,.0f} |" in speed and inference.AUTOCAST not in speed
    # And of two checkouts, of which this one is slower here.
    twice = [{name: [2 * value for value in each] for name, each in cell["seconds"].items()} for cell in cells]
    slower = [{**cell, "seconds": seconds} for cell, seconds in zip(cells, twice, strict=True)]
    measured |= {"this": [slower], "other": [cells]}
    monkeypatch.setattr(sys, "argv", argv)
    report.main("inference.py", inference.parse_arguments, inference.measure, "benchmark")
    results = json.loads((tmp_path / "compared.json").read_text(encoding="utf-8"))
    assert {row["ratio"] for row in results["ratios"]} == {0.5}
    assert "Slower by more than a tenth: words to vectors, reference, tiny, 3: 0.50;" in capsys.readouterr().out
    assert (tmp_path / "compared.md").read_text(encoding="utf-8") == report.render_report(results)


def test_sentences_are_of_ordinary_length_and_always_the_same(tmp_path):
    sentences = models.read_sentences(None, 0)
    assert len(sentences) > 500 and sentences == models.read_sentences(None, 0) != models.read_sentences(None, 1)
    assert {len(words) for words in sentences} <= set(range(10, 41))
    assert len(models.pick_batch(sentences, 1)[0]) == 27
    (tmp_path / "text.txt").write_text("too short.\n" + "word " * 11 + "end. " + "more " * 12 + "\n")
    assert sorted(map(len, models.read_sentences(str(tmp_path / "text.txt"), 0))) == [12, 12]
    for call, named in (
        (lambda: models.pick_batch(sentences[:3], 4), "--batch_sizes"),
        (lambda: models.read_sentences(os.devnull, 0), "--text_file"),
    ):
        assert_refused(SystemExit, named, call)


def test_the_floor_is_the_work_at_the_rate_of_the_product_and_no_step_beats_the_reading():
    config = make_tiny_config(num_hidden_layers=3)
    model = ElmoModel(config)
    weights = sum(weight.numel() for weight in model.bilm.parameters() if weight.ndim == 2)
    encoder = sum(
        weight.numel()
        for part in (*model.token_encoder.highways, model.token_encoder.projection)
        for weight in part.parameters()
        if weight.ndim == 2
    )

    def floor(product, reading, distinct_words=0):
        seconds = {models.MATRIX_PRODUCT: [product], models.READING: [reading]}
        return models.floor_seconds(seconds, config, [3, 2, 1], distinct_words)

    operation = 0.5 / (2 * models._MATRIX_SIZE**3)
    assert floor(0.5, 0.0) == pytest.approx(operation * 2 * 6 * weights)
    assert floor(0.5, 0.0, 7) == pytest.approx(operation * 2 * (6 * weights + 7 * encoder))
    # Three steps in each direction of each layer, each with one of eight readings.
    assert floor(0.0, 0.8) == pytest.approx(6 * 3 * 0.1)


@pytest.mark.parametrize("lengths", [[5, 2, 4], [5, 5, 5]])
def test_torchs_lstms_are_the_same_bilm_where_nothing_is_clipped(lengths):
    model = ElmoModel(make_tiny_config(cell_clip=None, projection_clip=None, dropout=0.0)).eval()
    mask = torch.arange(5) < torch.tensor(lengths).unsqueeze(1)
    ids = torch.randint(1, 200, (3, 5, model.config.max_characters_per_word)) * mask[..., None]
    with torch.no_grad():
        layers = model(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
        found = TorchBiLM(model)(layers[0][..., : model.config.projection_size], mask)
    assert models.check("nn.LSTM", found[mask], layers[-1][mask]) < 1e-5


def test_allennlp_computes_the_same(allennlp):
    cell = inference.measure(parse("--allennlp", allennlp))[0]
    assert cell["deviations"][inference.ALLENNLP] < 1e-5 and min(cell["seconds"][inference.ALLENNLP]) > 0
