"""ElmoEmbeddings in the real flair: vectors, stacks, a tagger that is trained, saved and loaded."""

import importlib.util
import shutil

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

if importlib.util.find_spec("flair") is None:
    pytest.skip("it is flair itself that is tried", allow_module_level=True)

# First: flair's own import needs what it sets.
from hf_elmo.flair import ElmoEmbeddings  # isort: skip
from flair.data import Corpus, Dictionary, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import CharacterEmbeddings, StackedEmbeddings
from flair.embeddings.base import load_embeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer

from hf_elmo import ElmoCharTokenizer, ElmoModel

TEXTS = [["Call", "it", "!"], ["one"], ["a", "call", "returns", "one", "value"]]
TAGS = [["VERB", "PRON", "PUNCT"], ["NUM"], ["DET", "NOUN", "VERB", "NUM", "NOUN"]]


def sentences():
    return [Sentence(words) for words in TEXTS]


def tagged_sentences():
    found = sentences()
    for sentence, tags in zip(found, TAGS, strict=True):
        for token, tag in zip(sentence, tags, strict=True):
            token.add_label("pos", tag)
    return found


def make_character_embeddings():
    """flair's own, of no files, with 4 numbers."""
    characters = Dictionary()
    for character in "acelnortuv!":
        characters.add_item(character)
    return CharacterEmbeddings(characters, char_embedding_dim=3, hidden_size_char=2)


def vectors_of(sentence):
    return np.stack([token.get_embedding().detach().cpu().numpy() for token in sentence])


def assert_near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=REORDERED_FLOAT32)


def make_tagger(embeddings):
    corpus = Corpus(FlairDatapointDataset(tagged_sentences()), sample_missing_splits=False)
    dictionary = corpus.make_label_dictionary(label_type="pos")
    return SequenceTagger(embeddings, dictionary, "pos", hidden_size=8, use_crf=True, allow_unk_predictions=False)


def predictions(tagger):
    found = sentences()
    tagger.predict(found)
    return [[(token.tag, token.score) for token in sentence] for sentence in found]


@pytest.mark.parametrize("layers", ["all", "top", "average", "mix", 1])
def test_vectors_are_the_embedders(embedder, layers):
    elmo = ElmoEmbeddings(embedder.name, layers)
    found = sentences()
    elmo.embed(found)
    for sentence, array in zip(found, embedder.embed_sentences(TEXTS, layers), strict=True):
        wanted = array.transpose(1, 0, 2).reshape(len(sentence), -1) if layers == "all" else array
        assert vectors_of(sentence).shape == (len(sentence), elmo.embedding_length)
        assert_near(vectors_of(sentence), wanted)
    assert [name for name, each in elmo.named_parameters() if each.requires_grad] == (
        ["model.mixes.0.weight", "model.mixes.0.scale"] if layers == "mix" else []
    )


def test_it_stacks_with_flairs_own_and_is_saved_in_the_stack(embedder):
    stack = StackedEmbeddings([make_character_embeddings(), ElmoEmbeddings(embedder.name, "top")])
    found = sentences()
    stack.embed(found)
    assert stack.embedding_length == 4 + embedder.vector_size
    for sentence, array in zip(found, embedder.embed_sentences(TEXTS, "top"), strict=True):
        assert_near(vectors_of(sentence)[:, 4:], array)
    loaded = load_embeddings(stack.save_embeddings(use_state_dict=True))
    again = sentences()
    loaded.embed(again)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(vectors_of(one), vectors_of(other))


@pytest.mark.parametrize("layers", ["all", "mix"])
def test_a_trained_tagger_is_saved_with_its_checkpoint(tmp_path, layers):
    checkpoint = tmp_path / "checkpoint"
    ElmoModel(make_tiny_config()).save_pretrained(checkpoint)
    ElmoCharTokenizer(do_lower_case=True).save_pretrained(checkpoint)
    elmo = ElmoEmbeddings(str(checkpoint), layers)
    stack = StackedEmbeddings([make_character_embeddings(), elmo])
    before = {name: weight.clone() for name, weight in elmo.state_dict().items()}
    tagger = make_tagger(stack)
    data = FlairDatapointDataset(tagged_sentences())
    trainer = ModelTrainer(tagger, Corpus(data, data, data, sample_missing_splits=False))
    trainer.train(tmp_path / "run", max_epochs=2, mini_batch_size=2, learning_rate=0.5)
    changed = {name for name, weight in elmo.state_dict().items() if not torch.equal(weight, before[name])}
    assert changed == ({"model.mixes.0.weight", "model.mixes.0.scale"} if layers == "mix" else set())

    wanted = predictions(tagger)
    tagger.save(tmp_path / "tagger.pt")
    shutil.rmtree(checkpoint)
    loaded = SequenceTagger.load(tmp_path / "tagger.pt")
    assert predictions(loaded) == wanted
    assert loaded.embeddings.embeddings[1].tokenizer.do_lower_case
    assert predictions(SequenceTagger.load(tmp_path / "run" / "best-model.pt")) == wanted  # which flair goes back to


def test_a_trained_mix_embeds_anew_what_flair_has_stored(embedder):
    elmo, stored = ElmoEmbeddings(embedder.name, "mix"), Sentence(TEXTS[0])
    with torch.no_grad():
        elmo.embed(stored)
        before = vectors_of(stored)
        elmo.model.mixes[0].scale.mul_(2)
        elmo.embed(stored)
    assert_near(vectors_of(stored), 2 * before)


def test_a_wrong_argument_is_named(embedder, tmp_path):
    assert_refused(ValueError, ("layers", "upper"), ElmoEmbeddings, embedder.name, "upper")
    assert_refused(FileNotFoundError, ("model_name_or_path", "absent"), ElmoEmbeddings, tmp_path / "absent")
