"""Nearest uses and words, against brute force."""

import pytest
import torch
from conftest import make_tiny_config
from torch.nn import functional as F

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.inference.neighbours import Use, UseIndex, describe_neighbours

SENTENCES = ["the play was good", "they play chess", "a good play", "the cat sat on a mat near the door"]


@pytest.fixture
def setup():
    model = ElmoModel(make_tiny_config()).eval()
    tokenizer = ElmoCharTokenizer()
    return model, tokenizer, UseIndex(model, tokenizer, SENTENCES, batch_size=2)


def test_every_word_is_a_use(setup):
    _, _, index = setup
    assert len(index.uses) == sum(len(sentence.split()) for sentence in SENTENCES)
    assert sorted(index.words) == sorted({word for sentence in SENTENCES for word in sentence.split()})
    assert {(use.sentence, use.place) for use in index.uses_of("play")} == {(0, 1), (1, 1), (2, 2)}


def test_nearest_use_is_brute_forces(setup):
    model, tokenizer, index = setup
    vectors, owners = [], []
    for number, sentence in enumerate(SENTENCES):
        with torch.no_grad():
            layers = model(**tokenizer(sentence, return_tensors="pt"), output_hidden_states=True).hidden_states
        vectors.extend(layers[-1][0, 1:-1])
        owners.extend((number, place) for place in range(len(sentence.split())))
    vectors = torch.stack(vectors)
    similarities = F.cosine_similarity(vectors[owners.index((1, 1))], vectors, dim=-1)
    allowed = [place for place, owner in enumerate(owners) if owner[0] != 1]
    best = max(allowed, key=lambda place: similarities[place])
    ((similarity, use),) = index.nearest_uses(Use(1, 1, tuple(SENTENCES[1].split())))
    assert (use.sentence, use.place) == owners[best]
    assert similarity == pytest.approx(float(similarities[best]), abs=1e-5)


def test_nearest_words_leave_out_the_word_itself(setup):
    _, _, index = setup
    assert "play" not in index.nearest_words("play", count=4)
    assert len(index.nearest_words("play", count=4)) == 4


def test_table_shows_words_that_occur_and_skips_others(setup):
    _, _, index = setup
    table = describe_neighbours(index, ["play", "absent"])
    assert "'play'" in table and "[play]" in table and "absent" not in table
    assert table.count("nearest  ") == 2


def test_snippet_marks_the_word_and_what_was_cut():
    use = Use(0, 6, tuple("a b c d e f g h i".split()))
    assert use.snippet(around=2) == "... e f [g] h i"
