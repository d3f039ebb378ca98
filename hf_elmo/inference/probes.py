"""Probes: how well each layer tells the senses of a word apart, and the parts of speech of words.

Letters in shapes: N uses or words, M tested ones, D numbers of a vector, L biLM layers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..given import require
from .embedder import ElmoEmbedder
from .word_uses import WordUses, sentence_digest, unit

MOST_FREQUENT_SENSE, BAG_OF_WORDS = "most frequent sense", "bag of words"
MOST_FREQUENT_TAG = "most frequent tag"
# Similarities that differ by less are equal: without context all uses of a spelling have one vector.
_EQUAL = 1e-6
NUM_FOLDS = 5
EPOCHS, LEARNING_RATE, _WORDS_PER_STEP = 10, 1e-3, 512
_WORDS_AT_A_TIME = 1 << 14

# By method, "layer 0" for example, 1 for each use or word that is classified correctly, else 0, (N,).
Correct = dict[str, np.ndarray]
# By set of words and method: by measure a figure for each fold or seed; and as above, on the average of the seeds.
Scores = tuple[dict[str, Any], dict[str, Correct]]


# Senses


def assign_folds(found: WordUses) -> np.ndarray:
    """The fold in which each use is tested, (N,), from 0; ValueError for fewer sentences than folds.

    Stratified by sense, in the order of a hash of the sentences: the folds are the same for every model and in every
    order of the file. Uses of one sentence go together.
    """
    sentences: defaultdict[tuple[str, bytes], list[int]] = defaultdict(list)
    for number, (use, sense) in enumerate(zip(found.uses, found.labels or (), strict=True)):
        sentences[sense, sentence_digest(use.words)].append(number)
    if len(sentences) < NUM_FOLDS:
        raise ValueError(
            f"input_file has {len(sentences)} sentences with {found.word!r}; wanted {NUM_FOLDS}, one for each fold."
        )
    # A sense goes on in the fold after the last one of the sense before: rare ones do not all begin with the first.
    folds = np.zeros(len(found.uses), dtype=int)
    for place, (_, uses) in enumerate(sorted(sentences.items())):
        folds[uses] = place % NUM_FOLDS
    return folds


def probe_senses(found: WordUses, layers: np.ndarray, folds: np.ndarray) -> Correct:
    """Whether the sense of each use is found from the uses of the other folds, by each method.

    A layer, of vectors (L + 1, N, D), gives a use the sense whose mean vector has the largest cosine with its own
    (Peters et al. 2018, sec. 5.3, say nothing of the distance); of equal ones the most frequent sense. The bag of words
    does the same with the words of the sentence, weighted by tf-idf, in place of a vector.
    """
    text = require("sklearn.feature_extraction.text", "bags of words", "look")
    senses = np.array(found.labels)
    bags = [[word.casefold() for at, word in enumerate(use.words) if at != use.position] for use in found.uses]
    methods = [MOST_FREQUENT_SENSE, BAG_OF_WORDS, *(f"layer {layer}" for layer in range(len(layers)))]
    correct = {method: np.zeros(len(senses)) for method in methods}
    for fold in range(folds.max() + 1):
        test, train = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        vectorizer = text.TfidfVectorizer(analyzer=list)
        trained = vectorizer.fit_transform([bags[number] for number in train])
        features = [(trained, vectorizer.transform([bags[number] for number in test]))]
        features += [(vectors[train], unit(vectors[test])) for vectors in layers]
        known = [sense for sense, _ in Counter(senses[train]).most_common()]
        guesses = [np.full(len(test), known[0])]
        guesses += [nearest_sense(before, senses[train], known, now) for before, now in features]
        for method, guess in zip(methods, guesses, strict=True):
            correct[method][test] = guess == senses[test]
    return correct


def nearest_sense(train: Any, senses: np.ndarray, known: Sequence[str], test: Any) -> np.ndarray:
    """The sense of each row of `test`, (M, F), whose mean row in `train`, (N, F), has the largest cosine with it."""
    belongs = (senses[:, None] == np.array(known)).astype(np.float64)
    means = (train.T @ belongs) / belongs.sum(axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=0), 1e-12)
    cosines = np.asarray(test @ means)
    return np.array(known)[(cosines >= cosines.max(axis=1, keepdims=True) - _EQUAL).argmax(axis=1)]


def score_senses(words: Sequence[tuple[WordUses, np.ndarray, Correct]]) -> Scores:
    """ "accuracy" and "by sense", the mean of the accuracies of the senses, for each fold, of each word and of all."""
    parts = {
        found.word: (folds, np.array([f"{found.word} {sense}" for sense in found.labels or ()]), correct)
        for found, folds, correct in words
    }
    if len(parts) > 1:
        folds, senses, each = zip(*parts.values(), strict=True)
        joined = {method: np.concatenate([correct[method] for correct in each]) for method in each[0]}
        parts["all words"] = np.concatenate(folds), np.concatenate(senses), joined
    scores = {
        name: {method: _by_fold(folds, senses, answers) for method, answers in correct.items()}
        for name, (folds, senses, correct) in parts.items()
    }
    return scores, {name: correct for name, (_, _, correct) in parts.items()}


def _by_fold(folds: np.ndarray, senses: np.ndarray, correct: np.ndarray) -> dict[str, list[float]]:
    measures: dict[str, list[float]] = {"accuracy": [], "by sense": []}
    for fold in range(folds.max() + 1):
        tested = folds == fold
        measures["accuracy"].append(float(correct[tested].mean()))
        each = [correct[tested & (senses == sense)].mean() for sense in np.unique(senses[tested])]
        measures["by sense"].append(float(np.mean(each)))
    return measures


# Parts of speech


class TaggedVectors(NamedTuple):
    """The N words of some sentences one after another, their tags, and their vectors, (L + 1, N, D), in float16."""

    words: list[str]
    tags: list[str]
    layers: Tensor


def embed_tagged(embedder: ElmoEmbedder, sentences: Sequence[tuple[Sequence[str], Sequence[str]]]) -> TaggedVectors:
    """The vectors of all words of sentences, each read by itself and given with its tags."""
    words = [word for sentence, _ in sentences for word in sentence]
    layers = torch.empty(embedder.num_layers, len(words), embedder.vector_size, dtype=torch.float16)
    start = 0
    for array in embedder.stream((sentence for sentence, _ in sentences), "all"):
        layers[:, start : start + array.shape[1]] = torch.from_numpy(array)
        start += array.shape[1]
    return TaggedVectors(words, [tag for _, tags in sentences for tag in tags], layers)


def probe_tags(
    train: TaggedVectors,
    validation: TaggedVectors,
    test: TaggedVectors,
    layer: int,
    seed: int = 0,
    learning_rate: float = LEARNING_RATE,
) -> np.ndarray:
    """Whether softmax regression on a layer's vectors finds the tag of each word of the test data, (M,).

    The vectors are standardized by the training data, so that one learning rate does for all layers. The epoch that is
    best on the validation data is taken. The seed is for the order of the words.
    """
    generator = torch.Generator().manual_seed(seed)
    numbers = {tag: number for number, tag in enumerate(sorted(set(train.tags)))}
    labels = torch.tensor([numbers[tag] for tag in train.tags])
    vectors = train.layers[layer]
    deviation, mean = torch.std_mean(vectors.float(), dim=0)
    scale = 1 / deviation.clamp(min=1e-6)
    weights = torch.zeros(len(numbers), vectors.shape[1], requires_grad=True)
    bias = torch.zeros(len(numbers), requires_grad=True)
    optimizer = torch.optim.Adam([weights, bias], lr=learning_rate)

    def logits_of(some: Tensor) -> Tensor:
        return (some.float() - mean) * scale @ weights.T + bias

    def correct(data: TaggedVectors) -> np.ndarray:
        with torch.inference_mode():
            found = torch.cat([logits_of(some).argmax(1) for some in data.layers[layer].split(_WORDS_AT_A_TIME)])
        # A tag that training does not have is never found.
        return found.numpy() == np.array([numbers.get(tag, -1) for tag in data.tags])

    best, result = -1.0, np.zeros(len(test.tags), dtype=bool)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(labels), generator=generator).split(_WORDS_PER_STEP):
            optimizer.zero_grad()
            functional.cross_entropy(logits_of(vectors[chosen]), labels[chosen]).backward()
            optimizer.step()
        accuracy = float(correct(validation).mean())
        if accuracy > best:
            best, result = accuracy, correct(test)
    return result


def most_frequent_tags(train: TaggedVectors, test: TaggedVectors) -> np.ndarray:
    """Whether the tag of each word of the test data is its most frequent one in training, (M,).

    A new word gets the tag that most words have that occur in training once.
    """
    counts = _tags_by_word(train)
    rare = Counter(tag for tags in counts.values() for tag in tags if tags.total() == 1)
    of_new = (rare or Counter(train.tags)).most_common(1)[0][0]
    guesses = [counts[word].most_common(1)[0][0] if word in counts else of_new for word in test.words]
    return np.array(guesses) == np.array(test.tags)


def score_tags(train: TaggedVectors, test: TaggedVectors, correct: Mapping[str, Sequence[np.ndarray]]) -> Scores:
    """The accuracies, by method and seed, over all words, over those of several tags in training, and over new ones."""
    counts = _tags_by_word(train)
    num_tags = np.array([len(counts.get(word, ())) for word in test.words])
    sets = {"all words": num_tags >= 0, "several tags": num_tags > 1, "new words": num_tags == 0}
    sets = {name: some for name, some in sets.items() if some.any()}
    scores = {
        name: {method: {"accuracy": [float(each[some].mean()) for each in runs]} for method, runs in correct.items()}
        for name, some in sets.items()
    }
    means = {method: np.mean(runs, axis=0) for method, runs in correct.items()}
    return scores, {name: {method: mean[some] for method, mean in means.items()} for name, some in sets.items()}


def _tags_by_word(data: TaggedVectors) -> dict[str, Counter[str]]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(data.words, data.tags, strict=True):
        counts[word][tag] += 1
    return counts
