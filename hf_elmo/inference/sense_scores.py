"""How well each layer tells the senses of a word apart: by the nearest of the senses' mean vectors, in splits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from .word_uses import WordUses, sentence_digest, unit

MOST_FREQUENT, BAG_OF_WORDS = "most frequent sense", "bag of words"
# Similarities that differ by less are equal: without context all uses of a spelling have one vector.
_EQUAL = 1e-6


def deal(found: WordUses, splits: int = 5) -> np.ndarray:
    """The number of the split that each use is tested in, (N,), from 0.

    Each sense is dealt evenly, in the order of a hash of its sentences, so that the splits are the same for every model
    and in every order of the file. Uses of one sentence go together.

    Args:
        found: The uses, with their senses.
        splits: How many.
    Raises: ValueError where there are more splits than distinct sentences.
    """
    assert found.labels is not None
    sentences: defaultdict[str, defaultdict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, (use, sense) in enumerate(zip(found.uses, found.labels, strict=True)):
        sentences[sense][sentence_digest(use.words)].append(number)
    numbers = [uses for sense in sorted(sentences) for _, uses in sorted(sentences[sense].items())]
    if not 2 <= splits <= len(numbers):
        raise ValueError(
            f"--splits is {splits} for {len(numbers)} sentences with {found.word!r}; it must be 2 to {len(numbers)}."
        )
    # A sense goes on where the one before it ended: the rare ones do not all begin with the first split.
    split_of = np.zeros(len(found.uses), dtype=int)
    for place, uses in enumerate(numbers):
        split_of[uses] = place % splits
    return split_of


def right_by_layer(found: WordUses, layers: np.ndarray, split_of: np.ndarray) -> dict[str, np.ndarray]:
    """Whether the sense of each use is found by the uses of the other splits, (N,), by each way of finding it.

    A layer gives a use the sense whose mean vector has the largest cosine with its own (Peters et al. 2018, sec. 5.3,
    say nothing of the distance); of equal ones it is the most frequent sense. The bag of words does the same with the
    words of the sentence, weighted by tf-idf, in place of a vector.

    Args:
        found: The uses, with their senses.
        layers: Their vectors, (L + 1, N, D).
        split_of: The number of each use's split, (N,).
    Returns: By the names of `ways`.
    Raises: ImportError where scikit-learn is not installed.
    """
    assert found.labels is not None
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise ImportError("the bag of words needs scikit-learn: pip install 'hf_elmo[look]'.") from error
    senses = np.array(found.labels)
    bags = [[word.casefold() for place, word in enumerate(use.words) if place != use.position] for use in found.uses]
    right = {way: np.zeros(len(senses), dtype=bool) for way in ways(len(layers))}
    for split in range(split_of.max() + 1):
        test = np.flatnonzero(split_of == split)
        train = np.flatnonzero(split_of != split)
        vectorizer = TfidfVectorizer(analyzer=list)
        trained = vectorizer.fit_transform([bags[number] for number in train])
        features = [(trained, vectorizer.transform([bags[number] for number in test]))]
        features += [(vectors[train], unit(vectors[test])) for vectors in layers]
        known = [sense for sense, _ in Counter(senses[train]).most_common()]
        guesses = [np.full(len(test), known[0])]
        guesses += [nearest_sense(before, senses[train], known, now) for before, now in features]
        for answers, guess in zip(right.values(), guesses, strict=True):
            answers[test] = guess == senses[test]
    return right


def ways(num_layers: int) -> list[str]:
    """The ways of finding a sense: two that need no model, and the layers."""
    return [MOST_FREQUENT, BAG_OF_WORDS, *(f"layer {layer}" for layer in range(num_layers))]


def nearest_sense(train: Any, senses: np.ndarray, known: Sequence[str], test: Any) -> np.ndarray:
    """The sense of each row of `test`, (M,), whose mean row in `train` has the largest cosine with it.

    Args:
        train: Features of uses, (N, F), an array or sparse.
        senses: Their senses, (N,).
        known: The senses, by falling preference among equally near ones.
        test: Features of other uses, of length 1, (M, F).
    """
    belongs = (senses[:, None] == np.array(known)).astype(np.float64)
    means = (train.T @ belongs) / belongs.sum(axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=0), 1e-12)
    cosines = np.asarray(test @ means)
    return np.array(known)[(cosines >= cosines.max(axis=1, keepdims=True) - _EQUAL).argmax(axis=1)]


def score_senses(
    words: Sequence[tuple[WordUses, np.ndarray, dict[str, np.ndarray]]],
) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    """The scores of each split, of each word and of all together, as a results file has them before they are averaged.

    Args:
        words: The uses of each, their splits and what is right.
    Returns: By word, way and measure: "accuracy", and "by sense", the mean over the senses of the share that is found;
        and what is right by word and way.
    """
    scores: dict[str, Any] = {}
    items = {found.word: right for found, _, right in words}
    for found, split_of, right in words:
        senses = np.array([f"{found.word} {sense}" for sense in found.labels or ()])
        scores[found.word] = {way: _measure(split_of, senses, answers) for way, answers in right.items()}
    if len(words) > 1:
        split_of = np.concatenate([each for _, each, _ in words])
        senses = np.concatenate([[f"{found.word} {sense}" for sense in found.labels or ()] for found, _, _ in words])
        items["all words"] = {way: np.concatenate([right[way] for _, _, right in words]) for way in words[0][2]}
        scores["all words"] = {way: _measure(split_of, senses, right) for way, right in items["all words"].items()}
    as_numbers = {name: {way: each.astype(float) for way, each in ways.items()} for name, ways in items.items()}
    return scores, as_numbers


def _measure(split_of: np.ndarray, senses: np.ndarray, right: np.ndarray) -> dict[str, list[float]]:
    measures: dict[str, list[float]] = {"accuracy": [], "by sense": []}
    for split in range(split_of.max() + 1):
        tested = split_of == split
        measures["accuracy"].append(float(right[tested].mean()))
        shares = [right[tested & (senses == sense)].mean() for sense in np.unique(senses[tested])]
        measures["by sense"].append(float(np.mean(shares)))
    return measures
