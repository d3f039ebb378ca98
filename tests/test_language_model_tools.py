"""Tools that others made for causal language models, by the examples of docs/language_models.md, where installed."""

import gzip
import json
import re

import numpy as np
import pytest
import torch
from conftest import ROOT, shared_data
from transformers import AutoModelForCausalLM, AutoProcessor

from hf_elmo import ElmoForCausalLM, ElmoScorer, ElmoWordTokenizer

PAGE = (ROOT / "docs" / "language_models.md").read_text(encoding="utf-8")
CHECKPOINT = ROOT / "model_cards" / "elmo-base"
SENTENCES = ["The old woman sat down.", "The zyzzyva sat down.", "He said nothing to the children in the garden."]
# Their sums are of float32 in another order.
NATS = 1e-4


def example(tool: str) -> str:
    """The block of the page that imports a tool."""
    (block,) = [block for block in re.findall(r"```py\n(.*?)```", PAGE, flags=re.DOTALL) if f"from {tool}" in block]
    return block


@pytest.fixture(scope="module")
def scorer():
    return ElmoScorer(str(CHECKPOINT), device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the examples run, with the directory that they name."""
    folder = tmp_path_factory.mktemp("tools")
    ElmoForCausalLM.from_pretrained(CHECKPOINT).save_pretrained(folder / "output" / "elmo-forward")
    ElmoWordTokenizer.from_pretrained(CHECKPOINT).save_pretrained(folder / "output" / "elmo-forward")
    return folder


def test_minicons_gives_the_scorers_bits(folder, scorer, monkeypatch):
    pytest.importorskip("minicons")
    monkeypatch.chdir(folder)
    namespace = {}
    exec(example("minicons"), namespace)
    ((first, *found),) = namespace["bits"]
    expected = scorer.score_sentence("The old woman sat down.")
    assert first == ("<S>", 0.0) and [word for word, _ in found] == expected.words
    np.testing.assert_allclose([bits for _, bits in found], expected.surprisal(), atol=NATS)
    # Unknown words too, which are read by their characters.
    sums = namespace["scorer"].sequence_score(SENTENCES, reduction=lambda row: row.sum().item())
    expected = [scorer.score_sentence(sentence) for sentence in SENTENCES]
    assert expected[1].is_unknown.any()
    np.testing.assert_allclose(sums, [scores.forward.sum() for scores in expected], atol=NATS)


@pytest.mark.slow
def test_minicons_blimp_is_the_scorers(folder, scorer, monkeypatch):
    """1,000 pairs: the sums, and so which sentence of each is the more probable."""
    pytest.importorskip("minicons")
    with gzip.open(shared_data("bench/blimp/blimp.jsonl.gz"), "rt") as lines:
        pairs = [json.loads(line) for number, line in enumerate(lines) if number % 67 == 0]
    assert len(pairs) == 1000
    sentences = [pair[kind] for pair in pairs for kind in ("sentence_good", "sentence_bad")]
    monkeypatch.chdir(folder)
    namespace = {}
    exec(example("minicons"), namespace)
    sums = []
    for start in range(0, len(sentences), 50):
        sums += namespace["scorer"].sequence_score(
            sentences[start : start + 50], reduction=lambda row: row.sum().item()
        )
    expected = [scores.forward.sum() for scores in scorer.stream(sentences)]
    np.testing.assert_allclose(sums, expected, atol=10 * NATS)


def test_surprisal_reads_the_directory(folder, scorer, monkeypatch):
    pytest.importorskip("surprisal")
    monkeypatch.chdir(folder)
    namespace = {}
    exec(example("surprisal"), namespace)
    scores = namespace["scores"]
    expected = scorer.score_sentence("The old woman sat down.")
    found = np.array(scores.surprisals)[1 : len(expected.words) + 1]
    # It leaves out `</S>`, which takes a part of each word's probability.
    gain = -expected.forward - found
    assert (gain > 0).all() and gain.max() < 0.1


def test_lm_evaluation_harness_gives_the_scorers_sums(folder, scorer):
    pytest.importorskip("lm_eval")
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    (task,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    pairs = [
        {"sentence_good": "The old woman sat down.", "sentence_bad": "The old woman sat the."},
        {"sentence_good": "He was here.", "sentence_bad": "He were here."},
    ]
    (folder / "blimp.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "tasks").mkdir()
    (folder / "tasks" / "blimp_local.yaml").write_text(task.replace("blimp.jsonl", str(folder / "blimp.jsonl")))
    results = simple_evaluate(
        model="hf",
        model_args={"pretrained": str(folder / "output" / "elmo-forward")},
        tasks=["blimp_local"],
        task_manager=TaskManager(include_path=str(folder / "tasks")),
        device="cpu",
        batch_size=4,
        bootstrap_iters=0,
    )
    for pair, sample in zip(pairs, results["samples"]["blimp_local"], strict=True):
        found = [score for score, _ in sample["filtered_resps"]]
        expected = [scorer.score_sentence(pair[kind]).forward.sum() for kind in ("sentence_good", "sentence_bad")]
        np.testing.assert_allclose(found, expected, atol=NATS)


def test_the_way_of_babylm(folder, scorer):
    """A processor that is the tokenizer, texts padded on the right, ids and masks to the model."""
    name = folder / "output" / "elmo-forward"
    tokenizer = AutoProcessor.from_pretrained(name, padding_side="right")
    model = AutoModelForCausalLM.from_pretrained(name)
    encoded = tokenizer([SENTENCES[0], SENTENCES[2]], padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits
    scores = logits.log_softmax(-1)[:, :-1].gather(2, encoded["input_ids"][:, 1:, None])[..., 0]
    sums = (scores * encoded["attention_mask"][:, 1:]).sum(1)
    expected = [scorer.score_sentence(sentence).forward.sum() for sentence in (SENTENCES[0], SENTENCES[2])]
    np.testing.assert_allclose(sums, expected, atol=NATS)


def test_reading_times_in_twenty_lines(tmp_path, monkeypatch, capsys):
    """The page's example explains more by surprisal than by length alone, on two of the stories."""
    pytest.importorskip("sklearn")
    import pandas as pd

    page = (ROOT / "docs" / "reading_times.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```py\n(.*?)```", page, flags=re.DOTALL)
    stories = pd.read_csv(shared_data("bench/reading/all_stories.tok"), sep="\t", quoting=3, keep_default_na=False)
    some = stories[stories.item.isin([1, 6]) & (stories.zone <= 300)]
    some.to_csv(tmp_path / "all_stories.tok", sep="\t", index=False, quoting=3)
    times = "processed_wordinfo.tsv.gz"
    (tmp_path / times).symlink_to(shared_data(f"bench/reading/{times}"))
    (tmp_path / "model_cards").mkdir()
    (tmp_path / "model_cards" / "elmo-base").symlink_to(CHECKPOINT)
    monkeypatch.chdir(tmp_path)
    namespace = {}
    exec(block, namespace)
    assert len(namespace["table"]) == 600 and (namespace["table"].bits > 0).all()
    length, with_surprisal = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert with_surprisal > length
