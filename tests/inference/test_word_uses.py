"""Uses of a word are found once each and labelled, and their vectors are those of their sentences."""

import numpy as np
import tolerances
from refusals import assert_refused

from hf_elmo.inference.word_uses import StaticWords, UseGatherer, embed_uses, static_vectors

SENTENCES = [line.split() for line in ("they play chess", "a good play", "they play chess", "Play on , play !", "no")]


def found_in(sentences, asked, max_uses=100, labels=None):
    gatherer = UseGatherer(asked)
    gatherer.read(zip(sentences, labels or [None] * len(sentences), strict=True))
    return gatherer.found(max_uses)


def places(uses):
    return [(use.sentence, use.position) for use in uses.uses]


def test_each_form_is_found_once_and_as_it_stands():
    play, both, no = found_in(SENTENCES, [["play"], ["Play", "chess"], ["no"]])
    assert (play.word, play.labels, play.num_found) == ("play", None, 3)
    assert places(play) == [(0, 1), (1, 2), (3, 3)]
    assert (both.word, places(both), places(no)) == ("Play", [(0, 2), (3, 0)], [(4, 0)])


def test_of_many_uses_the_same_ones_are_taken_in_the_texts_order():
    sentences = [["play", str(number)] for number in range(50)]
    (some,), (fewer,) = (found_in(sentences, [["play"]], count) for count in (20, 10))
    assert (some.num_found, len(some.uses)) == (50, 20)
    assert places(some) == sorted(places(some)) and set(places(fewer)) < set(places(some))
    # Which ones does not hang on what else is in the text.
    (again,) = found_in([*sentences[::-1], ["more"]], [["play"]], 20)
    assert {use.words for use in again.uses} == {use.words for use in some.uses}
    assert places(some.select([3, 1])) == [places(some)[3], places(some)[1]]


def test_labels_go_with_the_uses_and_say_which_words_are_meant():
    tags = [["PRON", "VERB", "NOUN"], ["DET", "ADJ", "NOUN"]]
    (play,) = found_in(SENTENCES[:2], [["play"]], labels=tags)
    assert play.labels == ["VERB", "NOUN"]
    senses = [[None, "do", None], [None, None, "drama"]]
    for asked in (None, [["play"]]):
        (play,) = found_in(SENTENCES[:2], asked, labels=senses)
        assert (play.word, play.labels, places(play)) == ("play", ["do", "drama"], [(0, 1), (1, 2)])
    # The same sentence with a label at another of its words is another use.
    twice = [["play", "to", "play"]] * 3
    (play,) = found_in(twice, None, labels=[["a", None, None], [None, None, "b"], ["a", None, None]])
    assert (play.labels, places(play)) == (["a", "b"], [(0, 0), (1, 2)])


def test_a_word_that_is_not_there_is_named_with_its_other_spellings():
    assert_refused(ValueError, ("--words", "'CHESS'", "'chess'"), found_in, SENTENCES, [["play"], ["CHESS"]])
    assert_refused(ValueError, ("--words", "'go,goes'"), found_in, SENTENCES, [["go", "goes"]])


def test_vectors_are_those_of_the_sentences(embedder):
    (play,) = found_in(SENTENCES, [["play"]])
    vectors = embed_uses(embedder, play.uses)
    assert vectors.shape == (3, 3, 12)
    for number, use in enumerate(play.uses):
        alone = embedder.embed_sentence(use.words, "all")
        np.testing.assert_allclose(vectors[:, number], alone[:, use.position], atol=tolerances.REORDERED_FLOAT32)


def test_nearest_words_without_context_are_those_with_the_largest_cosines(embedder):
    gatherer = UseGatherer([["play"]])
    gatherer.read((sentence, None) for sentence in SENTENCES)
    static = StaticWords(embedder, gatherer.counts)
    assert "," not in static.words and "!" not in static.words
    (vector,) = static_vectors(embedder, ["play"])
    nearest = static.nearest("play", 3)
    others = ["they", "chess", "a", "good", "on", "no"]
    cosines = dict(zip(others, static_vectors(embedder, others) @ vector, strict=True))
    wanted = sorted(cosines.items(), key=lambda item: -item[1])[:3]
    assert [word for word, _ in nearest] == [word for word, _ in wanted]
    np.testing.assert_allclose([cosine for _, cosine in nearest], [cosine for _, cosine in wanted], rtol=1e-5)
