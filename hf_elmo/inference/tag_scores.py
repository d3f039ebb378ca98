"""How well each layer tells the parts of speech of words: by a linear classifier on its vectors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..model.modeling_elmo import ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .embedding import embed

MOST_FREQUENT = "most frequent tag"
_WORDS_PER_STEP = 512


@dataclass(frozen=True)
class TaggedVectors:
    """The N words of some sentences, one after another.

    Args:
        words: The words.
        tags: Their tags.
        layers: Their vectors, (L + 1, N, D), halved; what they lose by that, no classifier sees.
    """

    words: list[str]
    tags: list[str]
    layers: Tensor


def embed_tagged(
    model: ElmoPreTrainedModel,
    tokenizer: ElmoCharTokenizer,
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str]],
    max_words_per_batch: int = 2048,
) -> TaggedVectors:
    """The vectors of all words of sentences, each read by itself."""
    words = [word for sentence in sentences for word in sentence]
    shape = (model.config.num_hidden_layers + 1, len(words), 2 * model.config.projection_size)
    layers = torch.empty(shape, dtype=torch.float16)
    start = 0
    for array in embed(model, tokenizer, sentences, layers="all", max_words_per_batch=max_words_per_batch):
        layers[:, start : start + array.shape[1]] = torch.from_numpy(array)
        start += array.shape[1]
    return TaggedVectors(words, [tag for row in tags for tag in row], layers)


def right_by_probe(
    train: TaggedVectors,
    validation: TaggedVectors,
    test: TaggedVectors,
    layer: int,
    seed: int = 0,
    epochs: int = 10,
    learning_rate: float = 1e-3,
) -> np.ndarray:
    """Whether the tag of each word of the test data is found, (N,), by softmax regression on a layer's vectors.

    The vectors are standardized by the training data, so that one learning rate does for all layers. The epoch that is
    kept is the best on the validation data.

    Args:
        train, validation, test: The words.
        layer: Which layer, from 0.
        seed: Of the order of the words.
        epochs: How often the training data is read.
        learning_rate: Of Adam.
    """
    generator = torch.Generator().manual_seed(seed)
    numbers = {tag: number for number, tag in enumerate(sorted(set(train.tags)))}
    wanted = torch.tensor([numbers[tag] for tag in train.tags])
    vectors = train.layers[layer]
    spread, mean = torch.std_mean(vectors.float(), dim=0)
    scale = 1 / spread.clamp(min=1e-6)
    weights = torch.zeros(len(numbers), vectors.shape[1], requires_grad=True)
    bias = torch.zeros(len(numbers), requires_grad=True)
    optimizer = torch.optim.Adam([weights, bias], lr=learning_rate)

    def classify(data: TaggedVectors) -> np.ndarray:
        with torch.inference_mode():
            pieces = data.layers[layer].split(1 << 14)
            return torch.cat(
                [((piece.float() - mean) * scale @ weights.T + bias).argmax(1) for piece in pieces]
            ).numpy()

    def is_right(data: TaggedVectors) -> np.ndarray:
        # A tag that training has not is never found.
        return classify(data) == np.array([numbers.get(tag, -1) for tag in data.tags])

    best, kept = -1.0, np.zeros(len(test.tags), dtype=bool)
    for _ in range(epochs):
        for chosen in torch.randperm(len(wanted), generator=generator).split(_WORDS_PER_STEP):
            logits = (vectors[chosen].float() - mean) * scale @ weights.T + bias
            optimizer.zero_grad()
            functional.cross_entropy(logits, wanted[chosen]).backward()
            optimizer.step()
        accuracy = float(is_right(validation).mean())
        if accuracy > best:
            best, kept = accuracy, is_right(test)
    return kept


def right_by_frequency(train: TaggedVectors, test: TaggedVectors) -> np.ndarray:
    """Whether the tag of each word of the test data is the one that it has most often in training, (N,).

    A word that is new there gets the tag that most words have that occur in training once.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(train.words, train.tags, strict=True):
        counts[word][tag] += 1
    rare = Counter(tag for tags in counts.values() for tag in tags if tags.total() == 1)
    of_new = (rare or Counter(train.tags)).most_common(1)[0][0]
    guesses = [counts[word].most_common(1)[0][0] if word in counts else of_new for word in test.words]
    return np.array(guesses) == np.array(test.tags)


def score_tags(
    train: TaggedVectors, test: TaggedVectors, right: dict[str, list[np.ndarray]]
) -> tuple[dict[str, dict], dict[str, dict[str, np.ndarray]]]:
    """The accuracy of each way of finding tags over all words, over words that training has with several tags, and
    over new ones, as a results file has it before it is averaged.

    Args:
        train, test: The words.
        right: By way, what is right with each seed.
    Returns: By set of words and way: a figure for each seed; and of each word the share of seeds with which it is
        right.
    """
    tags_of: defaultdict[str, set[str]] = defaultdict(set)
    for word, tag in zip(train.words, train.tags, strict=True):
        tags_of[word].add(tag)
    number_of_tags = np.array([len(tags_of.get(word, ())) for word in test.words])
    chosen = {"all words": number_of_tags >= 0, "several tags": number_of_tags > 1, "new words": number_of_tags == 0}
    chosen = {name: some for name, some in chosen.items() if some.any()}
    scores = {
        name: {way: {"accuracy": [float(each[some].mean()) for each in runs]} for way, runs in right.items()}
        for name, some in chosen.items()
    }
    shares = {way: np.mean(runs, axis=0) for way, runs in right.items()}
    return scores, {name: {way: share[some] for way, share in shares.items()} for name, some in chosen.items()}
