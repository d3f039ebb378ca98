"""Numbers that mislead are marked: unknown words, held-out text that was trained on, words cut otherwise; baselines."""

import json
import math
from collections import Counter

import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from run_cases import LINES, make_arguments, write_lines

from hf_elmo import ElmoCharTokenizer
from hf_elmo.pretraining.corpus_stats import CONCENTRATIONS, check_sorted, count_baselines
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.text.spelling import SPELLING_FILE
from hf_elmo.text.vocabulary import SPECIAL_WORDS, WordVocabulary


@pytest.fixture
def run(tmp_path):
    """A tiny run over the lines, and the lines it printed."""
    write_lines(tmp_path)

    def start(**changes):
        printed = []
        results = run_pretraining(make_arguments(tmp_path, **{"max_steps": 2, **changes}), report=printed.append)
        return results, printed

    return start


def test_many_unknown_words_are_told_before_and_after_and_marked_in_results_and_card(run, tmp_path):
    (tmp_path / "words.txt").write_text("<S>\n</S>\n<UNK>\nthe\nsat\n")
    # A word that is written like the unknown one is not known.
    text = (tmp_path / "text.txt").read_text()
    (tmp_path / "text.txt").write_text(text.replace("mat", "<UNK>"))
    results, printed = run(vocab_file=str(tmp_path / "words.txt"))
    saved = json.loads((tmp_path / "out" / "results.json").read_text())
    card = (tmp_path / "out" / "README.md").read_text()
    # Of 17 words "sat" and "the" are known, twice each.
    assert saved["training_text"]["unknown_share"] == pytest.approx(1 - 4 / 17, abs=0.02)
    assert saved["perplexity"]["unknown_share"] == pytest.approx(1 - 4 / 17, abs=0.1)
    assert saved["perplexity"]["bits_per_character"] is saved["perplexity_cold"]["bits_per_character"] is None
    (caveat,) = results["caveats"]
    assert "training" in caveat and "held-out" in caveat and "unknown" in caveat
    assert all(caveat in card for caveat in saved["caveats"])
    assert "bits per character |" not in card
    warnings = [line for line in printed if line.startswith("warning:")]
    assert "%" in warnings[0] and "--max_vocab_size" in warnings[0]
    assert any("no bits per character" in line for line in printed)


def test_training_text_that_is_held_out_too_is_named(run, tmp_path):
    copy = tmp_path / "heldout.txt"
    copy.write_text((tmp_path / "text.txt").read_text())
    results, printed = run(validation_file=[str(copy)])
    assert any("heldout.txt" in caveat for caveat in results["caveats"])
    assert any(
        line.startswith("warning:") and "heldout.txt" in line and "--validation_file" in line for line in printed
    )


def test_a_vocabulary_of_another_cut_is_refused_before_any_file_is_written(run, tmp_path):
    folder = tmp_path / "vocabulary"
    folder.mkdir()
    (folder / "word_vocabulary.txt").write_text("<S>\n</S>\n<UNK>\nthe\nsat\n")
    (folder / "vocabulary.json").write_text(json.dumps({"pre_tokenizer": "unicode", "do_lower_case": False}))
    for name in (folder, folder / "word_vocabulary.txt"):
        with pytest.raises(ValueError, match=r"'unicode'.*'whitespace'.*--pre_tokenizer unicode"):
            run(vocab_file=str(name))
    assert not (tmp_path / "out").exists()
    # The spelling of other words goes along.
    (folder / SPELLING_FILE).write_bytes(b"spelling")
    run(vocab_file=str(folder), pre_tokenizer="unicode")
    assert (tmp_path / "out" / SPELLING_FILE).read_bytes() == b"spelling"
    assert json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())["pre_tokenizer"] == "unicode"


def test_a_text_of_one_line_is_refused_with_what_is_wrong(run, tmp_path):
    (tmp_path / "text.txt").write_text(" ".join(LINES * 200))
    with pytest.raises(ValueError, match=r"one sentence on each line.*--validation_file"):
        run(validation_file=None)


def test_all_settings_of_the_tokenizer_reach_it(run, tmp_path):
    (tmp_path / "text.txt").write_text("Don't stop, cafe\u0301 so\u00adft.\n" * 40)
    (tmp_path / "heldout.txt").write_text("So\u00adft.\n")
    run(pre_tokenizer="unicode", clean=["NFC", "invisible"], do_lower_case=True)
    assert ElmoCharTokenizer.from_pretrained(tmp_path / "out").drop_invisible
    words = (tmp_path / "out" / "word_vocabulary.txt").read_text(encoding="utf-8").split("\n")
    assert set(words[3:-1]) == {"don't", "stop", ",", "café", "soft", "."}


def test_one_split_for_both_texts_is_named(run, tmp_path):
    (tmp_path / "data").mkdir()
    Dataset.from_dict({"text": LINES * 20}).to_parquet(tmp_path / "data" / "train.parquet")
    results, _ = run(
        train_file=None, validation_file=None, dataset_name=str(tmp_path / "data"), validation_split="train"
    )
    assert any("'train'" in caveat for caveat in results["caveats"])


# Baselines

VOCABULARY = WordVocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
texts = st.lists(st.lists(st.sampled_from("abcx"), min_size=1, max_size=6), min_size=1, max_size=8)


def plain_perplexity(train, held_out, k):
    """Forward bigram perplexity, by counting with strings."""

    def known(words):
        return [word if word in VOCABULARY else "<UNK>" for word in words]

    unigrams, bigrams, contexts = Counter(), Counter(), Counter()
    for words in map(known, train):
        for context, word in zip(["<S>", *words], [*words, "</S>"], strict=True):
            unigrams[word] += 1
            bigrams[context, word] += 1
            contexts[context] += 1
    total, log_likelihood, count = unigrams.total(), 0.0, 0
    for words in map(known, held_out):
        for context, word in zip(["<S>", *words], [*words, "</S>"], strict=True):
            prior = (unigrams[word] + 1) / (total + len(VOCABULARY) - 1)
            posterior = prior if k is None else (bigrams[context, word] + k * prior) / (contexts[context] + k)
            log_likelihood += math.log(posterior)
            count += 1
    return math.exp(-log_likelihood / count)


@given(texts, texts)
def test_against_plain_counting(train, held_out):
    found = count_baselines(train, held_out, VOCABULARY)
    assert found["unigram"] == pytest.approx(plain_perplexity(train, held_out, None), rel=1e-6)
    for name in ("bigram_forward", "bigram_backward"):
        best = min(plain_perplexity(train, held_out, k) for k in CONCENTRATIONS)
        assert found[name] == pytest.approx(best, rel=1e-6)
        # Backward is forward of the reversed text.
        train, held_out = ([sentence[::-1] for sentence in text] for text in (train, held_out))
    words = [word for sentence in held_out for word in sentence]
    assert found["unknown_rate"] == pytest.approx(words.count("x") / len(words))
    assert found["bigram"] == pytest.approx((found["bigram_forward"] + found["bigram_backward"]) / 2)


def test_no_held_out_text():
    with pytest.raises(ValueError, match="held_out_sentences is empty"):
        count_baselines([["a"]], [], VOCABULARY)


# Sorted vocabularies


def zipf_counts(size: int, tokens: int, seed: int) -> Counter[str]:
    """How often each of the words w0, w1, ... is seen in a text of so many tokens."""
    weights = 1 / torch.arange(1, size + 1, dtype=torch.float64)
    drawn = torch.multinomial(weights, tokens, True, generator=torch.Generator().manual_seed(seed))
    return Counter(f"w{index}" for index in drawn.tolist())


def vocabulary_of(words) -> WordVocabulary:
    return WordVocabulary([*SPECIAL_WORDS, *words])


@pytest.mark.parametrize(("size", "tokens"), [(200, 1000), (2000, 500), (2000, 50_000)])
def test_a_sorted_vocabulary_passes_by_the_counts_of_any_text_of_its_kind_and_no_other(size, tokens):
    counts, words = zipf_counts(size, tokens, seed=1), [f"w{index}" for index in range(size)]
    check_sorted(WordVocabulary.from_counts(counts), counts)
    check_sorted(vocabulary_of(words), counts)
    check_sorted(WordVocabulary.from_counts(zipf_counts(size, tokens, seed=2)), counts)
    shuffled = torch.randperm(size, generator=torch.Generator().manual_seed(7)).tolist()
    alphabetical = sorted(words, key=lambda word: word[::-1])
    for order in (words[::-1], [words[index] for index in shuffled], alphabetical):
        assert_refused(ValueError, "frequency: 'w", check_sorted, vocabulary_of(order), counts)


def test_words_of_nearly_equal_counts_may_stand_in_any_order():
    for words in (["a"], ["a", "b", "c"], ["b", "c", "a"]):
        check_sorted(vocabulary_of(words), {"a": 6, "b": 5, "c": 5, "<UNK>": 100})


def test_the_first_word_out_of_order_is_named_and_a_vocabulary_without_the_texts_words_refused():
    counts = {"a": 2, "b": 1, "c": 4, "d": 3, "e": 5, "f": 6, "g": 3000}
    assert_refused(ValueError, ("'b'", "'c'", "--vocab_file"), check_sorted, vocabulary_of("abcdefg"), counts)
    assert_refused(ValueError, "vocabulary", check_sorted, vocabulary_of("ab"), {"A": 3, "<S>": 9})
