"""The exported page in a browser: its vectors, its views, what it asks for, and what it says where it cannot work."""

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from browser import browser, served
from conftest import ROOT, make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.cli import command_line
from hf_elmo.inference import onnx_export
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.scoring import ElmoScorer
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary
from hf_elmo.web import export
from hf_elmo.web.export import quantize

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
BASE = ROOT / "model_cards" / "elmo-base"
# Where onnxruntime-web's npm package lies unpacked.
RUNTIME = os.environ.get("HF_ELMO_ONNXRUNTIME_WEB")
TEXTS = ["The actors will play two acts .", "He went to bed", "eye", "눈 이 온다 , I can't ."]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """A folder that stands for the npm package where nothing is computed by it."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in export.RUNTIME_FILES:
        (folder / name).write_text("")
    return folder


def test_rounded_rows_are_near_their_own():
    weights = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)
    for most in (31, 127):
        codes, scales = quantize(weights, most)
        assert codes.dtype == np.int8 and np.abs(codes).max() == most
        assert (np.abs(codes * scales - weights) <= 0.5001 * np.abs(weights).max(axis=1, keepdims=True) / most).all()
    assert not quantize(np.zeros((2, 3), np.float32))[0].any()


def test_what_cannot_be_exported_is_refused_in_one_line(tmp_path, monkeypatch, capsys, runtime):
    model, output = str(tmp_path / "elmo"), str(tmp_path / "page")
    ElmoForPreTraining(make_tiny_config(word_vocab_size=9)).save_pretrained(model)
    ElmoCharTokenizer().save_pretrained(model)
    (runtime.parent / "empty").mkdir()
    monkeypatch.setattr(export.shutil, "which", lambda _: None)
    capsys.readouterr()
    for argv, said in (
        (["--format", "web"], "there is no npm"),
        (["--format", "web", "--runtime_dir", str(runtime.parent / "empty")], "lacks ort.wasm.min.mjs"),
        (["--format", "web", "--output_hidden_states"], "no meaning with --format web"),
        (["--runtime_dir", str(runtime)], "no meaning with --format onnx"),
    ):
        with pytest.raises(SystemExit):
            command_line.main(["export", model, output, *argv])
        error = capsys.readouterr().err.strip()
        assert said in error and "\n" not in error
    assert not Path(output).exists()


@pytest.mark.slow
@pytest.mark.skipif(not onnx_export.CAN_RECORD_STEPS, reason="this torch records no steps")
@pytest.mark.parametrize("shared", [True, False])
def test_the_folder_has_all_it_needs(tmp_path, capsys, runtime, shared):
    """Of a model with one softmax and of one with two; and of one whose softmax has no list of words."""
    torch.manual_seed(0)
    words = WordVocabulary([*SPECIAL_WORDS, "The", "play", "."])
    config = make_tiny_config(word_vocab_size=len(words), share_word_softmax=shared)
    ElmoForPreTraining(config).save_pretrained(tmp_path / "elmo")
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(tmp_path / "elmo")
    argv = ["export", str(tmp_path / "elmo"), str(tmp_path / "page"), "--format", "web", "--runtime_dir", str(runtime)]
    command_line.main(argv)
    assert "It shows no surprise" in capsys.readouterr().out
    words.save(tmp_path / "elmo")
    command_line.main([*argv, "--overwrite_output_dir"])
    assert "surprisals differ by 0." in capsys.readouterr().out
    assert (tmp_path / "page" / "README.md").read_text(encoding="utf-8").startswith("---\ntitle: elmo in the page\n")
    assert "sdk: static" in (tmp_path / "page" / "README.md").read_text(encoding="utf-8")
    for path in (tmp_path / "page").glob("*.*s*"):
        assert "http" not in path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "").replace(
            "by http,", ""
        )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The folder of elmo-base, and a tab that has opened it."""
    if not (BASE / "model.safetensors").exists():
        pytest.skip("the weights of elmo-base are not here")
    if RUNTIME is None and shutil.which("npm") is None:
        pytest.skip("neither npm nor HF_ELMO_ONNXRUNTIME_WEB is here")
    folder = tmp_path_factory.mktemp("base") / "page"
    try:
        export.export_web(str(BASE), str(folder), RUNTIME)
    except ValueError as error:
        pytest.skip(str(error))
    with served(folder) as address, browser(tmp_path_factory.mktemp("profile")) as tab:
        tab.address, tab.folder = address, folder
        tab.set_size(1280, 1300)
        tab.open(address)
        tab.wait_for("document.querySelectorAll('#layers svg').length === 3")
        yield tab


@pytest.mark.slow
@pytest.mark.skipif(not onnx_export.CAN_RECORD_STEPS, reason="this torch records no steps")
class TestInBrowser:
    def test_vectors_are_those_of_python_but_for_the_rounding(self, page):
        found = page.run(f"import('./app.js').then(({{ ask }}) => ask('vectors', {{ texts: {TEXTS} }}))")
        embedder = ElmoEmbedder(str(BASE), device="cpu")
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        graph = gzip.decompress((page.folder / "model" / "graph.bin").read_bytes())
        session = onnxruntime.InferenceSession(graph, options)
        for text, layers in zip(TEXTS, found, strict=True):
            own, layers = embedder.embed_sentence(text, "all"), np.array(layers)
            rounded = session.run(None, dict(embedder.tokenizer([text], return_tensors="np")))
            np.testing.assert_allclose(layers, np.concatenate(rounded)[:, 1:-1], atol=1e-4)
            error = np.linalg.norm(layers - own, axis=-1) / np.linalg.norm(own, axis=-1)
            assert error.mean() < 0.03 and np.median(error) < 0.02

    def test_surprisals_and_what_was_expected_are_those_of_python(self, page):
        scores = page.run(
            f"import('./app.js').then(async ({{ ask }}) => {{ await ask('read', {{ texts: {TEXTS} }});"
            f" return Promise.all([0, 1, 2, 3].map((sentence) => ask('surprise', {{ sentence }}))); }})"
        )
        scorer = ElmoScorer(str(BASE), device="cpu")
        for text, words in zip(TEXTS, scores, strict=True):
            own = scorer.score_sentence(text)
            assert [word["word"] for word in words] == own.words
            assert [word["isUnknown"] for word in words] == own.is_unknown.tolist()
            for key, wanted in (("forward", own.forward), ("backward", own.backward), ("both", own.joint)):
                np.testing.assert_allclose([word[key] for word in words], -wanted / np.log(2), atol=0.6)
        (best, *_), ((word, probability), *_) = scorer.substitutes(TEXTS[1], 3, 1), scores[1][3]["expected"]["both"]
        assert word == best.word and probability == pytest.approx(np.exp(best.joint), rel=0.2)

    def test_views_tell_what_they_show_and_nothing_leaves_the_origin(self, page):
        page.open(page.address + "?views#example=1")
        page.wait_for("document.querySelector('#sentences [aria-pressed=true]').textContent === 'bank'")
        page.wait_for("document.querySelector('#layers').innerText.includes('grassy bank of the river')")
        # By the keyboard: the next tab, the next word.
        press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{}', bubbles: true }}))"
        page.run("document.getElementById('tab-context').focus()")
        page.run(press.format("ArrowRight"))
        page.wait_for("!document.getElementById('mix').hidden && document.querySelector('#mixed svg')")
        # The mix with the token encoder alone has one vector for all uses.
        page.run("const s = document.getElementById('s0'); s.value = 1; s.dispatchEvent(new Event('input'))")
        page.wait_for(
            "[...document.querySelectorAll('#mixed .number')].slice(0, 6).every((each) => each.textContent === '1.00')"
        )
        assert (
            page.run("document.querySelector('#mixed h2').textContent") == "ELMo = 1.00 · (1.00 h₀ + 0.00 h₁ + 0.00 h₂)"
        )
        page.run(press.format("ArrowRight"))
        page.wait_for("document.querySelectorAll('#heat table').length === 8")
        page.run("document.querySelector('#heat [aria-pressed=true]').focus()")
        page.run(press.format("ArrowRight"))
        page.wait_for("document.activeElement.textContent === 'of'")
        page.wait_for("document.querySelector('#expected p').textContent.startsWith('“of”')")
        page.set_size(390, 844, dark=True)
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), "a phone has to scroll sideways"
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
        assert page.errors == [] and len(page.requests) > 10
        assert {each for each in page.requests if not each.startswith((page.address, "data:"))} == set()

    def test_a_failure_is_told_in_one_line(self, page):
        page.set_size(1280, 1300)
        worker = "setTimeout(() => this.onmessage({ data: { id: 1, error: 'out of memory' } }))"
        for break_it, said in (
            ("delete globalThis.WebAssembly", "no WebAssembly"),
            (f"globalThis.Worker = class {{ postMessage() {{ {worker} }} }}", "not enough memory"),
        ):
            with page.changed_by(break_it):
                page.open(f"{page.address}?{said.split()[-1]}")
                page.wait_for("document.querySelector('.failure')?.id === 'status'")
                assert said in page.run("document.getElementById('status').textContent")
