"""Probes: folds are stratified and alike for all models, and a probe finds what a layer tells; the commands."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.cli import command_line
from hf_elmo.cli.probe import SensesArguments, measure_senses
from hf_elmo.hub.cards import write_card
from hf_elmo.hub.provenance import describe_run, write_json
from hf_elmo.inference import probes
from hf_elmo.inference.probes import (
    BAG_OF_WORDS,
    MOST_FREQUENT_SENSE,
    TaggedVectors,
    assign_folds,
    embed_tagged,
    most_frequent_tags,
    nearest_sense,
    probe_senses,
    probe_tags,
    score_senses,
    score_tags,
)
from hf_elmo.inference.word_uses import Use, WordUses

# Senses


def uses_of(senses, sentences=None):
    sentences = sentences or [["play", f"w{number}"] for number in range(len(senses))]
    each = enumerate(zip(sentences, senses, strict=True))
    return WordUses("play", [Use(number, 0, tuple(words), sense) for number, (words, sense) in each], len(senses))


@given(st.lists(st.sampled_from("abc"), min_size=5, max_size=40), st.randoms())
def test_folds_are_stratified_and_alike_in_every_order(senses, random):
    found = uses_of(senses)
    folds = assign_folds(found)
    for sense in set(senses):
        counts = np.bincount(folds[np.array(senses) == sense], minlength=5)
        assert counts.max() - counts.min() <= 1
    order = random.sample(range(len(senses)), len(senses))
    mixed = WordUses("play", [found.uses[place] for place in order], len(order))
    assert assign_folds(mixed).tolist() == folds[order].tolist()


def test_uses_of_one_sentence_are_tested_together():
    found = uses_of("aaaaaaaaaaaa", [["play", str(number // 2)] for number in range(12)])
    folds = assign_folds(found)
    assert folds[::2].tolist() == folds[1::2].tolist()


@given(st.integers(0, 50))
def test_the_nearest_mean_is_that_with_the_largest_cosine(seed):
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(seed)
    train, test, senses = rng.normal(size=(12, 4)), rng.normal(size=(5, 4)), np.array([*"aabbbcccccab"])
    test /= np.linalg.norm(test, axis=1, keepdims=True)
    means = {sense: train[senses == sense].mean(axis=0) for sense in "cba"}
    expected = [max(means, key=lambda sense: row @ means[sense] / np.linalg.norm(means[sense])) for row in test]
    assert nearest_sense(train, senses, [*"cba"], test).tolist() == expected
    rows = [sparse.csr_matrix(each) for each in (train, test)]
    assert nearest_sense(rows[0], senses, [*"cba"], rows[1]).tolist() == expected


def test_what_a_layer_does_not_tell_apart_has_the_most_frequent_sense():
    pytest.importorskip("sklearn")
    senses = "aaaaaabbb" * 3
    found = uses_of(senses, [["play", f"on{sense}", str(number)] for number, sense in enumerate(senses)])
    same = np.ones((len(senses), 3)) + np.random.default_rng(0).normal(size=(len(senses), 3)) * 1e-9
    telling = np.eye(3)[[int(sense == "b") for sense in senses]]
    folds = assign_folds(found)
    correct = probe_senses(found, np.stack([same, telling]), folds)
    assert list(correct) == [MOST_FREQUENT_SENSE, BAG_OF_WORDS, "layer 0", "layer 1"]
    is_frequent = np.array([*senses]) == "a"
    for method in (MOST_FREQUENT_SENSE, "layer 0"):
        assert correct[method].tolist() == is_frequent.tolist()
    # The sentences themselves say which sense it is.
    assert correct[BAG_OF_WORDS].all() and correct["layer 1"].all()
    scores = score_senses([(found, folds, correct)])[0]["play"]
    tested = [np.array([*senses])[folds == fold] for fold in range(5)]
    np.testing.assert_allclose(scores["layer 0"]["accuracy"], [Counter(each)["a"] / len(each) for each in tested])
    assert scores["layer 0"]["by sense"] == [0.5] * 5 and scores["layer 1"]["by sense"] == [1.0] * 5


def test_all_words_are_counted_together_and_their_senses_apart():
    first, second = uses_of("aabb"), WordUses("bank", uses_of("ab").uses, 2)
    words = [
        (first, np.array([0, 1, 0, 1]), {"layer 0": np.array([True, True, False, True])}),
        (second, np.array([0, 1]), {"layer 0": np.array([True, False])}),
    ]
    scores, correct = score_senses(words)
    assert correct["all words"]["layer 0"].tolist() == [1, 1, 0, 1, 1, 0]
    assert scores["play"]["layer 0"] == {"accuracy": [0.5, 1.0], "by sense": [0.5, 1.0]}
    np.testing.assert_allclose(scores["all words"]["layer 0"]["accuracy"], [2 / 3, 2 / 3])
    np.testing.assert_allclose(scores["all words"]["layer 0"]["by sense"], [2 / 3, 2 / 3])


# Parts of speech


def drawn(count, seed):
    """Words whose tags layer 1 tells, far from zero and on a scale of its own, and layer 0 does not."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 3, count)
    noise = rng.normal(size=(count, 4))
    telling = 50 + 0.01 * (np.eye(4)[numbers] * 5 + rng.normal(size=(count, 4)) * 0.5) * 10
    layers = torch.from_numpy(np.stack([noise, telling])).half()
    return TaggedVectors([f"w{number}" for number in numbers], [f"T{number}" for number in numbers], layers)


def test_a_probe_finds_what_a_layer_tells(monkeypatch):
    train, validation, test = drawn(3000, 0), drawn(300, 1), drawn(1000, 2)
    correct = [probe_tags(train, validation, test, layer, learning_rate=0.01) for layer in (0, 1)]
    assert correct[0].mean() < 0.45 and correct[1].mean() > 0.95
    again = probe_tags(train, validation, test, 0, learning_rate=0.01)
    other = probe_tags(train, validation, test, 0, seed=1, learning_rate=0.01)
    assert (again == correct[0]).all() and (other != correct[0]).any()
    # A tag that training does not have is never found.
    assert not probe_tags(train, test, test._replace(tags=["T9"] * 1000), 1).any()
    # The epoch that is best on the validation data is taken.
    accuracies = []
    for epochs in (1, 2, 4, 8):
        monkeypatch.setattr(probes, "EPOCHS", epochs)
        accuracies.append(probe_tags(train, test, test, 0, learning_rate=0.01).mean())
    assert accuracies == sorted(accuracies) and accuracies[0] < accuracies[-1]


def words(*pairs):
    each = [pair.split("/") for pair in pairs]
    return TaggedVectors([word for word, _ in each], [tag for _, tag in each], torch.empty(0))


def test_the_most_frequent_tag_and_the_sets_of_words():
    train = words("a/D", "a/D", "a/X", "dog/N", "cat/N", "go/V", "go/V")
    test = words("a/D", "a/X", "go/V", "go/N", "fox/N", "run/V")
    correct = most_frequent_tags(train, test)
    assert correct.tolist() == [True, False, True, False, True, False]
    scores, means = score_tags(train, test, {"w": [correct, ~correct], "v": [correct, correct]})
    assert means["several tags"]["w"].tolist() == [0.5, 0.5] and means["new words"]["v"].tolist() == [1, 0]
    assert all(scores[name]["w"]["accuracy"] == [0.5, 0.5] for name in ("all words", "several tags", "new words"))
    assert "new words" not in score_tags(train, words("a/D"), {"w": [np.array([True])]})[0]


def test_words_have_the_vectors_of_their_sentences(embedder):
    sentences = [["they", "play"], [], ["a", "good", "play"]]
    tagged = embed_tagged(embedder, list(zip(sentences, ["PV", "", "DAN"], strict=True)))
    assert (tagged.words, tagged.tags) == (["they", "play", "a", "good", "play"], [*"PVDAN"])
    expected = np.concatenate(embedder.embed_sentences(sentences, "all"), axis=1)
    np.testing.assert_allclose(tagged.layers.float().numpy(), expected, atol=1e-3)
    assert pytest.approx(0) != float(np.abs(expected).max())


# The commands

WORDS = {"they": "PRON", "play": "VERB", "the": "DET", "game": "NOUN", "well": "ADV"}


@pytest.fixture
def folder(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo")
    for word in ("hard", "line"):
        uses = [
            {"tokens": [word, "as" if number % 3 else "of", str(number)], "index": 0, "sense": f"S{number % 3 > 0}"}
            for number in range(12)
        ]
        (tmp_path / f"{word}.jsonl").write_text("\n".join(map(json.dumps, uses)))
    rows = [[str(n), word, "_", tag, *"______"] for n, (word, tag) in enumerate(WORDS.items(), start=1)]
    (tmp_path / "a.conllu").write_text(("\n".join(map("\t".join, rows)) + "\n\n") * 4)
    return tmp_path


def test_figures_are_shown_and_written_and_stand_in_the_card(folder, capsys):
    elmo, tagged = str(folder / "elmo"), str(folder / "a.conllu")
    given = ["--model_name_or_path", elmo, "--output_dir", elmo]
    command_line.main(["probe", "senses", *given, "--input_file", str(folder / "*.jsonl")])
    printed = capsys.readouterr().out
    assert "| in percent | hard |" in printed and "| bag of words |" in printed
    senses = json.loads((folder / "elmo" / "senses.json").read_text())
    assert senses["repeats"] == 5 and set(senses["scores"]) == {"hard", "line", "all words"}
    assert senses["data"]["hard"]["senses"] == {"STrue": 8, "SFalse": 4}
    assert len(senses["scores"]["line"]["layer 2"]["accuracy"]["values"]) == 5 and "command" in senses
    sizes = ["--num_seeds", "2", "--max_train_sentences", "3"]
    files = ["--train_file", tagged, "--validation_file", tagged, "--test_file", tagged]
    command_line.main(["probe", "tags", *given, *files, *sizes])
    results = json.loads((folder / "elmo" / "tags.json").read_text())
    assert results["data"]["train"]["words"] == 15 and results["data"]["test"]["words"] == 20
    assert results["scores"]["all words"]["most frequent tag"]["accuracy"]["mean"] == 1
    facts = {"format": "bilm-tf", "files": {}, "options": {}, "license": "Free.", "notes": []}
    write_json(folder / "elmo" / "conversion.json", facts | describe_run())
    write_card(elmo)
    text = (folder / "elmo" / "README.md").read_text(encoding="utf-8")
    assert "## Which layer knows what" in text and "| bag of words |" in text and "| most frequent tag |" in text
    assert "(senses.png)" in text and "(tags.png)" in text and (folder / "elmo" / "tags.png").is_file()


def test_what_cannot_be_measured_is_refused_and_what_is_there_is_kept(folder):
    (folder / "few.jsonl").write_text("\n".join((folder / "hard.jsonl").read_text().splitlines()[:2]))
    (folder / "elmo" / "senses.json").write_text("mine")
    for file, output, *named in (
        ("none.jsonl", "out", "none.jsonl"),
        ("few.jsonl", "out", "input_file", "2 sentences", "'hard'"),
        ("hard.jsonl", "elmo", "senses.json"),
    ):
        given = {"input_file": [str(folder / file)], "output_dir": str(folder / output)}
        arguments = SensesArguments(model_name_or_path=str(folder / "elmo"), **given)
        assert_refused((ValueError, OSError), tuple(named), measure_senses, arguments)
    assert not (folder / "out").exists() and (folder / "elmo" / "senses.json").read_text() == "mine"
