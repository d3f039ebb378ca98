"""Nearest uses and words, against brute force."""

import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from torch.nn import functional as F

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.inference.neighbours import Use, UseIndex, describe_neighbours, describe_query

SENTENCES = ["the play was good", "they play chess", "a good play", "the cat sat on a mat near the door"]


@pytest.fixture
def setup():
    model = ElmoModel(make_tiny_config()).eval()
    tokenizer = ElmoCharTokenizer()
    return model, tokenizer, UseIndex(model, tokenizer, SENTENCES, max_words_per_batch=20)


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


def test_table_shows_words_that_occur_and_says_which_do_not(setup):
    _, _, index = setup
    shown, not_found = describe_neighbours(index, ["play", "Play", "absent"]).split("'Play'")
    assert "'play'" in shown and "[play]" in shown and shown.count("nearest  ") == 2
    assert "but 'play'" in not_found and "'absent': not among" in not_found


@pytest.mark.parametrize("layer", [0, 1, -1])
def test_a_use_of_the_text_and_the_same_sentence_as_a_query_have_the_same_neighbours(setup, layer):
    model, tokenizer, _ = setup
    index = UseIndex(model, tokenizer, [sentence.split() for sentence in SENTENCES], layer=layer)
    wanted = index.nearest_uses(Use(1, 1, tuple(SENTENCES[1].split())), count=20)
    found = index.nearest_to("they play chess", 1, count=20)
    assert [use for _, use in found] == [use for _, use in wanted]
    assert [similarity for similarity, _ in found] == pytest.approx([similarity for similarity, _ in wanted], abs=1e-5)
    assert {use.sentence for _, use in found} == {0, 2, 3}


def test_the_layer_is_the_one_asked_for():
    model = ElmoModel(make_tiny_config()).eval()
    # Layer 0 knows no context: the other uses of the word are as near as can be.
    index = UseIndex(model, ElmoCharTokenizer(), SENTENCES, layer=0)
    nearest = index.nearest_to("play", 0, count=3)
    assert [use.word for _, use in nearest] == ["play"] * 3
    assert [similarity for similarity, _ in nearest] == pytest.approx([1.0] * 3, abs=1e-6)


def test_uses_of_the_same_word_in_upper_and_lower_case(setup):
    model, tokenizer, _ = setup
    index = UseIndex(model, tokenizer, [*SENTENCES, "Play it again"])
    found = index.nearest_to("they play chess", 1, count=9, same_word=True)
    assert sorted((use.sentence, use.word) for _, use in found) == [(0, "play"), (2, "play"), (4, "Play")]
    assert index.nearest_to("they play chess", 2, count=9, same_word=True) == []


def test_sentences_that_are_nearly_the_same_are_shown_once(setup):
    model, tokenizer, _ = setup
    copies = [f"On page {number} they play a game of chess" for number in range(5)]
    index = UseIndex(model, tokenizer, [*copies, "a good play", "they play a game of chess on the mat by the door"])
    found = [use.sentence for _, use in index.nearest_to("a play of Shakespeare", 1, count=20)]
    assert sorted(found)[1:] == [5, 6] and found.count(min(found)) == 1
    assert {use.sentence for _, use in index.nearest_to(copies[0], 4, count=20)} == {5, 6}


def test_a_query_shows_the_word_that_was_asked_for_or_all(setup):
    _, _, index = setup
    one = describe_query(index, "they play chess", "play", count=2).splitlines()
    assert one[0] == "they [play] chess" and len(one) == 3
    every = describe_query(index, "they play chess").splitlines()
    assert [line for line in every if line[0] != " "] == ["[they] play chess", "they [play] chess", "they play [chess]"]
    assert "no other use of 'chess'" in describe_query(index, "they play chess", "chess", same_word=True)
    with pytest.raises(ValueError, match="'mat'"):
        describe_query(index, "they play chess", "mat")


def test_words_are_looked_for_as_the_tokenizer_reads_them():
    model = ElmoModel(make_tiny_config()).eval()
    index = UseIndex(model, ElmoCharTokenizer(do_lower_case=True), SENTENCES)
    assert "[play]" in describe_neighbours(index, ["Play"])
    assert describe_query(index, "They PLAY chess", "Play").startswith("they [play] chess")


def test_texts_without_words_and_layers_that_are_not_there_are_refused():
    model, tokenizer = ElmoModel(make_tiny_config()), ElmoCharTokenizer()
    for sentences, layer, named in (
        ([], -1, "sentences"),
        (["", " "], -1, "sentences"),
        (SENTENCES, 3, "layers is 3"),
        (SENTENCES, "last", "layers is 'last'"),
    ):
        assert_refused(ValueError, named, UseIndex, model, tokenizer, sentences, layer=layer)


def test_snippet_marks_the_word_and_what_was_cut():
    use = Use(0, 6, tuple("a b c d e f g h i".split()))
    assert use.snippet(around=2) == "... e f [g] h i"
