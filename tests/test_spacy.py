"""The component elmo in spaCy's own pipelines: vectors, sentences, similarity, batches, files."""

import shutil
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from conftest import ROOT
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

spacy = pytest.importorskip("spacy", reason="it is the library itself that is tried")

from hf_elmo.spacy import ElmoComponent, create_elmo  # noqa: E402

TEXT = "Call it! The  call returns\none value."
SENTENCES = [["Call", "it", "!"], ["The", "call", "returns", "one", "value", "."]]
WORDS = [*SENTENCES[0], *SENTENCES[1]]


def make_pipeline(embedder, with_sentences=True, **settings):
    nlp = spacy.blank("en")
    if with_sentences:
        nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model_name_or_path": embedder.name, "device": "cpu", **settings})
    return nlp


def words_of(doc):
    return [token for token in doc if not token.is_space]


def assert_near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=REORDERED_FLOAT32)


@pytest.mark.parametrize("with_sentences", [True, False])
@pytest.mark.parametrize("layers", ["mix", "all", 1])
def test_a_token_has_the_vector_of_its_word_in_its_sentence(embedder, layers, with_sentences):
    doc = make_pipeline(embedder, with_sentences, layers=layers)(TEXT)
    # Without sentences a document is one; all layers stand side by side.
    arrays = embedder.embed_sentences(SENTENCES if with_sentences else [WORDS], layers)
    wanted = np.concatenate([np.concatenate(each, axis=-1) if layers == "all" else each for each in arrays])
    assert [token.text for token in words_of(doc)] == WORDS
    assert_near([token.vector for token in words_of(doc)], wanted)
    assert doc.tensor.shape == (len(doc), wanted.shape[1]) and doc.tensor.dtype == np.float32
    spaces = [token for token in doc if token.is_space]
    assert len(spaces) == 2 and not any(token.has_vector or token.vector.any() for token in spaces)


@pytest.mark.filterwarnings("error:.*W00:UserWarning")  # spaCy's warnings of pipelines without vectors
def test_spans_and_documents_have_the_mean_of_their_words_and_similarity_is_the_cosine(embedder):
    nlp = make_pipeline(embedder)
    doc, vectors = nlp(TEXT), np.concatenate(embedder.embed_sentences(SENTENCES))
    assert_near(doc.vector, vectors.mean(axis=0))
    span = doc[3:7]  # three words and the space between
    assert_near(span.vector, vectors[3:6].mean(axis=0))
    np.testing.assert_allclose(span.vector_norm, np.linalg.norm(vectors[3:6].mean(axis=0)), rtol=1e-5)
    empty = nlp("")
    assert not empty.has_vector and empty.vector.shape == (embedder.vector_size,)
    doc, other = nlp("The call returns"), nlp("Call the call")
    for one, two in [(doc[1], other[2]), (doc[:2], other[1:]), (doc, other), (doc[1], other), (doc[0], nlp(" ")[0])]:
        norms = np.linalg.norm(one.vector) * np.linalg.norm(two.vector)
        wanted = one.vector @ two.vector / norms if norms else 0.0
        assert one.similarity(two) == pytest.approx(wanted, abs=1e-5)
    # Of one word in two contexts.
    assert doc[1].text == other[2].text and doc[1].similarity(other[2]) < 0.9999


def test_the_vectors_of_a_vocabulary_give_way(embedder):
    nlp = make_pipeline(embedder)
    nlp.vocab.vectors = spacy.vectors.Vectors(shape=(2, 5))
    nlp.vocab.set_vector("call", np.ones(5, np.float32))
    doc = nlp("a call")
    vectors = embedder.embed_sentence(["a", "call"])
    assert_near(doc[1].vector, vectors[1])
    assert_near(doc.vector, vectors.mean(axis=0))


def test_a_stream_is_computed_in_batches(embedder, monkeypatch):
    nlp = make_pipeline(embedder)
    texts = [TEXT, "", "one value", "\n", "Call!", TEXT]
    calls = []
    stream = type(embedder).stream
    monkeypatch.setattr(type(embedder), "stream", lambda *given: calls.append(len(given[1])) or stream(*given))
    nlp("")  # reads the checkpoint
    calls.clear()
    docs = list(nlp.pipe(texts, batch_size=4))
    assert calls == [4, 3]
    assert [doc.text for doc in docs] == texts
    for doc, text in zip(docs, texts, strict=True):
        assert_near(doc.tensor, nlp(text).tensor)


def test_a_saved_pipeline_has_its_own_checkpoint(embedder, tmp_path):
    given = tmp_path / "given"
    shutil.copytree(embedder.name, given)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", name="contextual", config={"model_name_or_path": str(given), "layers": "top"})
    wanted = nlp(TEXT).tensor
    nlp.to_disk(tmp_path / "saved")
    shutil.rmtree(given)
    loaded = spacy.load(tmp_path / "saved")
    assert loaded.pipe_names == ["sentencizer", "contextual"]
    np.testing.assert_array_equal(loaded(TEXT).tensor, wanted)
    # Also onto itself.
    loaded.to_disk(tmp_path / "saved")
    np.testing.assert_array_equal(spacy.load(tmp_path / "saved")(TEXT).tensor, wanted)
    assert spacy.load(tmp_path / "saved", exclude=["contextual"]).pipe_names == ["sentencizer"]
    # Without the checkpoint the one of its config is taken.
    nlp = make_pipeline(embedder, layers=1)
    nlp.to_disk(tmp_path / "without", exclude=["elmo"])
    assert not (tmp_path / "without" / "elmo").exists()
    np.testing.assert_array_equal(spacy.load(tmp_path / "without")(TEXT).tensor, nlp(TEXT).tensor)


def test_what_is_wrong_is_said_when_the_first_text_comes(embedder, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    assert_refused(ValueError, ("model_name_or_path", "nlp.add_pipe"), nlp, "Call")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model_name_or_path": str(tmp_path / "absent")})
    assert_refused(FileNotFoundError, ("model_name_or_path", str(tmp_path / "absent")), nlp, "Call")
    assert_refused(ValueError, ("layers", "upper"), make_pipeline(embedder, layers="upper"), "Call")


def test_spacy_finds_it_by_an_entry_point():
    tomllib = pytest.importorskip("tomllib", reason="in the standard library from Python 3.11 on")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((name, place),) = project["entry-points"]["spacy_factories"].items()
    assert EntryPoint(name, place, "spacy_factories").load() is create_elmo
    assert isinstance(spacy.blank("en").add_pipe(name), ElmoComponent)
