"""The benchmarks of others, on toy files of their formats."""

import json

import language_benchmarks as benchmarks
import numpy as np
import pandas as pd
import pytest
import torch
from conftest import make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoScorer
from hf_elmo.pretraining.corpus_stats import count_baselines
from hf_elmo.text.spelling import SpellingModel
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary

WORDS = WordVocabulary([*SPECIAL_WORDS, *"the cat cats sit sits . 's".split()])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(0)
    ElmoForPreTraining(make_tiny_config(word_vocab_size=len(WORDS))).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="penn").save_pretrained(directory)
    WORDS.save(directory)
    return str(directory)


def make_pairs(*pairs):
    rows = [(uid, "syntax", good, bad) for uid, good, bad in pairs]
    return pd.DataFrame(rows, columns=["UID", "field", "sentence_good", "sentence_bad"])


def test_pairs_count_by_direction_ties_as_half_and_unknown_words_apart(checkpoint):
    scorer = ElmoScorer(checkpoint, device="cpu")
    sentences = ["The cat sits.", "the cats sit", "cats the sit .", "the the cat"]
    pairs = make_pairs(
        ("a", sentences[0], sentences[1]), ("a", sentences[2], sentences[3]), ("b", "the cat", "the cat")
    )
    totals = [scorer.totals([sentence]) for sentence in sentences]
    expected = {
        "forward": [one.forward_sum for one in totals],
        "backward": [one.backward_sum for one in totals],
        "sum": [one.forward_sum + one.backward_sum for one in totals],
        "joint": [one.joint_sum for one in totals],
    }
    results = benchmarks.score_pairs(scorer, pairs)
    for direction, sums in expected.items():
        of_a = 50 * ((sums[0] > sums[1]) + (sums[2] > sums[3]))
        assert results["by_paradigm"]["a"][direction] == pytest.approx(of_a)
        assert results["by_paradigm"]["b"][direction] == 50
        # Paradigms count alike, however many pairs they have; "The" is unknown.
        assert results["accuracy"][direction] == pytest.approx((of_a + 50) / 2)
        known = 100 * (sums[2] > sums[3])
        assert results["accuracy_of_known_words"][direction] == pytest.approx((known + 50) / 2)
    assert (results["pairs"], results["pairs_with_unknown_words"], results["paradigms_of_known_words"]) == (3, 1, 2)


class Axes:
    """Instead of an embedder: a word's vector in layer 1 is an axis by the word before it, and in layer 0 by itself."""

    num_layers = 2

    def stream(self, sentences, layers):
        assert layers == "all"
        for words in sentences:
            vectors = np.zeros((2, len(words), 8))
            for index, word in enumerate(words):
                vectors[0, index, len(word)] = 3.0
                vectors[1, index, len(words[index - 1]) if index else 7] = 2.0
            yield vectors


def test_senses_go_by_the_nearest_mean_of_each_layer_among_those_of_the_lemma_and_its_part_of_speech(tmp_path):
    # "bank" behind "a" is sense 1, behind "the" sense 2, which is more frequent; "old_bank" is one word of two.
    semcor = [("a", ""), ("bank", "bank%1:01::"), ("the", ""), ("bank", "bank%1:02::;bank%1:01::")]
    semcor += [("the", ""), ("bank", "bank%1:02::"), ("the", ""), ("old_bank", "bank%2:03::")]
    rows = [f"f\t1\t{word}\t{word}\tNN\t{sense}" for word, sense in semcor]
    (tmp_path / "semcor.tsv").write_text("\n".join(rows) + "\n")
    instances = [
        {"index": 1, "lemma": "bank", "pos": "NOUN", "senses": ["bank%1:01::"]},
        {"index": 3, "lemma": "bank", "pos": "NOUN", "senses": ["bank%1:09::", "bank%1:02::"]},
        {"index": 3, "lemma": "bank", "pos": "VERB", "senses": ["bank%2:03::"]},
        {"index": 0, "lemma": "a", "pos": "ADV", "senses": ["a%4:01::"]},
    ]
    test = {"set": "toy", "words": ["a", "bank", "the", "bank"], "instances": instances}
    (tmp_path / "test.jsonl").write_text(json.dumps(test) + "\n")
    results = benchmarks.score_senses(Axes(), str(tmp_path / "semcor.tsv"), str(tmp_path / "test.jsonl"))
    expected = {"uses": 4, "unseen": 25.0, "first sense": 50.0, "layer 0": 50.0, "layer 1": 75.0}
    # In layer 0 both senses are alike: the more frequent one is taken.
    assert results["toy"] == results["all"] == pytest.approx(expected)
    assert results["words of SemCor"]["layer 1"] == 100 and results["words of SemCor"]["uses"] == 3


def test_surprisals_of_a_story_are_those_of_its_tokens_with_carried_states(checkpoint):
    scorer = ElmoScorer(checkpoint, device="cpu")
    words = "the cat's cats sit. The cat sits.".split()
    found = benchmarks.surprisals_of_story(scorer, words)
    first, second = scorer.score_sentences(["the cat's cats sit.", "The cat sits."], carry_state=True)
    assert first.words == ["the", "cat", "'s", "cats", "sit", "."]
    for name, bits in found.items():
        one, two = (scores.surprisal(name) for scores in (first, second))
        assert np.allclose(bits, [one[0], one[1] + one[2], one[3], one[4] + one[5], two[0], two[1], two[2] + two[3]])


def test_surprisals_of_pieces_are_summed_by_word(tmp_path):
    table = pd.DataFrame(
        {"token": ["The", " c", "at", " s", "its."], "logprob": ["", -1.0, -2.0, -3.0, -4.0], "offset": [0, 3, 5, 7, 9]}
    )
    table.assign(story=0).to_csv(tmp_path / "gpt3.csv", index=False)
    found = benchmarks.surprisals_of_gpt3(str(tmp_path / "gpt3.csv"), {1: ["The", "cat", "sits."]})
    assert np.allclose(found[1] * np.log(2), [0, 3, 7])


@pytest.mark.parametrize(("lag", "adds"), [(0, True), (1, True), (2, True), (3, False)])
def test_added_r2_is_what_surprisal_of_this_word_and_the_two_before_explains(lag, adds):
    generator = np.random.default_rng(0)
    rows = pd.DataFrame(generator.normal(size=(3000, 4)), columns=["length", "frequency", "bits", "noise"])
    rows["story"] = np.repeat([1, 2, 3], 1000)
    late = rows.groupby("story").bits.shift(lag)
    rows["time"] = 3 + 2 * rows.length - rows.groupby("story").frequency.shift(1) + 2 * late + rows.noise
    results = benchmarks.added_r2(rows, "bits")
    assert results["added_r2"] == pytest.approx(0.4 if adds else 0, abs=0.05)
    assert len(results["stories"]) == 3 and results["words"] == 3 * (1000 - max(lag, 2))
    assert results["standard_error"] == pytest.approx(np.std(results["stories"], ddof=1) / 3**0.5)


def test_a_command_writes_its_results_and_says_them(checkpoint, tmp_path, capsys):
    pairs = make_pairs(("a", "the cat sits", "the cat sit"), ("a", "cats sit", "cats sits"))
    pairs.to_json(tmp_path / "pairs.jsonl", orient="records", lines=True)
    words = ["--model_name_or_path", checkpoint, "--pairs_file", str(tmp_path / "pairs.jsonl")]
    benchmarks.main(["blimp", *words, "--output_file", str(tmp_path / "out.json")])
    results = json.loads((tmp_path / "out.json").read_text())
    assert results["benchmark"] == "blimp" and results["pairs"] == 2 and "command" in results
    assert "accuracy: " in capsys.readouterr().out


def test_texts_by_genre_have_the_perplexities_of_the_scorer_and_the_bigrams(checkpoint, tmp_path):
    text, train = tmp_path / "genre.txt", tmp_path / "train.txt"
    text.write_text("The cat sits.\nthe dogs sit\n\nthe cats sit\n")
    train.write_text("the cat sits\nthe cats sit\n")
    SpellingModel.fit(["dog", "dogs", "The", "Cat"], WORDS.words).save(checkpoint)
    results = benchmarks.score_texts(checkpoint, [str(text)], [str(train)])["texts"]["genre"]
    sentences = [["The", "cat", "sits", "."], ["the", "dogs", "sit"], ["the", "cats", "sit"]]
    assert (results["words"], results["unknown_words"]) == (10, 2)
    alone, spelled = ElmoScorer(checkpoint), ElmoScorer(checkpoint, spell_unknown=True)
    assert results["alone"]["mean"] == pytest.approx(alone.perplexity(sentences), rel=1e-4)
    # Each document is read from zeros.
    parts = [spelled.totals(part, carry_state=True) for part in (sentences[:2], sentences[2:])]
    nats = [-sum(part.forward_sum for part in parts) / 13, -sum(part.backward_sum for part in parts) / 13]
    assert results["spelled"]["mean"] == pytest.approx(np.exp(nats).mean(), rel=1e-4)
    # Characters of the words, and one behind each.
    assert results["spelled"]["bits_per_character"] == pytest.approx(13 * sum(nats) / 2 / np.log(2) / 41, rel=1e-4)
    assert results["baselines"] == count_baselines([["the", "cat", "sits"], ["the", "cats", "sit"]], sentences, WORDS)


def test_reading_times_of_each_direction_and_of_gpt3(checkpoint, tmp_path):
    words = ["the", "cat", "sits."] * 8
    lines = [f"{word}\t{zone}\t{story}" for story in (1, 2) for zone, word in enumerate(words, 1)]
    (tmp_path / "stories.tok").write_text("word\tzone\titem\n" + "\n".join(lines) + "\n")
    times = [f"{line}\t{300 + 7 * (index * index % 11)}" for index, line in enumerate(lines)]
    (tmp_path / "times.tsv").write_text("word\tzone\titem\tmeanItemRT\n" + "\n".join(times) + "\n")
    assert benchmarks.read_stories(str(tmp_path / "stories.tok")) == {1: words, 2: words}
    scorer = ElmoScorer(checkpoint, device="cpu")
    results = benchmarks.score_reading(scorer, str(tmp_path / "stories.tok"), str(tmp_path / "times.tsv"), None)
    assert list(results) == ["forward", "backward"] and results["forward"]["words"] == 2 * (len(words) - 2)
