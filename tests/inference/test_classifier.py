"""The classifier gives each text, and each pair, what the model says of it alone."""

import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from tolerances import PARITY

from hf_elmo import ElmoCharTokenizer, ElmoForSequenceClassification, SequenceClassificationHead
from hf_elmo.inference.classifier import ElmoClassifier

TEXTS = ["a b c d e f g", "a", "", "It 's fun .", "b c"]


def save(directory, encoder):
    head = SequenceClassificationHead(encoder=encoder, hidden_size=4)
    names = {0: "no", 1: "yes", 2: "so"}
    ElmoForSequenceClassification(make_tiny_config(head=head, id2label=names)).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="penn").save_pretrained(directory)
    return str(directory)


@pytest.mark.parametrize("max_words_per_batch", [1, 12, 2048])
def test_texts(tmp_path, max_words_per_batch):
    classifier = ElmoClassifier(save(tmp_path, "bcn"), max_words_per_batch=max_words_per_batch)
    found = list(classifier.classify(TEXTS))
    assert classifier.labels == ["no", "yes", "so"] and len(found) == len(TEXTS)
    for text, probabilities in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            logits = classifier.model(**classifier.tokenizer(text, return_tensors="pt")).logits[0]
        assert list(probabilities) == classifier.labels
        assert list(probabilities.values()) == pytest.approx(logits.softmax(-1).tolist(), abs=PARITY)
    words = list(classifier.classify([["It", "'s", "fun", "."], ["It's fun."]]))
    assert words[0] == pytest.approx(found[3], abs=PARITY) and words[1] != words[0]
    assert next(classifier.classify(["It's fun."])) == pytest.approx(found[3], abs=PARITY)


def test_pairs(tmp_path):
    classifier = ElmoClassifier(save(tmp_path, "esim"), max_words_per_batch=16)
    pairs = [("a b", "c"), ("c", "a b"), (["a", "b"], "c"), ("", "a b c d e f g")]
    found = list(classifier.classify_pairs(pairs))
    with torch.no_grad():
        logits = classifier.model(**classifier.tokenizer("c", "a b", return_tensors="pt")).logits[0]
    assert list(found[1].values()) == pytest.approx(logits.softmax(-1).tolist(), abs=PARITY)
    assert found[2] == pytest.approx(found[0], abs=PARITY) and found[0] != found[1]


def test_what_is_refused(tmp_path):
    texts, pairs = (save(tmp_path / encoder, encoder) for encoder in ("pooled", "pooled_pairs"))
    assert_refused(ValueError, "max_words_per_batch", ElmoClassifier, texts, max_words_per_batch=0)
    assert_refused(ValueError, "classify_pairs", ElmoClassifier(pairs).classify, ["a"])
    assert_refused(ValueError, "classify", ElmoClassifier(texts).classify_pairs, [("a", "b")])
