"""ELMoForManyLangs models give the numbers of their own program, and whatever is wrong with them is refused by name."""

import json

import numpy as np
import pytest
import torch
from bilm_tf_files import listing
from conftest import shared_data
from elmoformanylangs_files import SETTINGS, WORDS, make_settings, word_vector, write_model
from foreign_vectors import run_batches
from refusals import Code, assert_refused
from tolerances import FOREIGN_VECTORS
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoForPreTraining, ElmoScorer, load_external
from hf_elmo.conversion.sources import convert

FIXTURES = {"char_word": "char_word.zip", "char_only": "char_only.zip", "word_only": "word_only"}
TEXT = ["the boat", "나무 ñ ñandú q", "abcdefghij abcdef <S>", ""]


def fixture_of(name):
    folder = shared_data("zoo/efml")
    return (
        folder / FIXTURES.get(name, name),
        np.load(folder / f"{name}.npz"),
        json.loads((folder / "sentences.json").read_text()),
    )


def layers_of(model, tokenizer, sentences):
    """The layers of each sentence."""
    return [layers for layers, _ in run_batches(model, tokenizer, [sentences])]


@pytest.mark.parametrize("name", FIXTURES)
def test_every_layer_of_the_program_is_given(name):
    source, expected, sentences = fixture_of(name)
    model, tokenizer = load_external(source)
    for number, layers in enumerate(layers_of(model, tokenizer, sentences)):
        wanted = {-2: layers, -1: layers.mean(axis=0), **dict(enumerate(layers[:3]))}
        for layer, values in wanted.items():
            key = f"layer_{layer}/{number}"
            if key in expected:  # the mean of an empty sentence is not
                np.testing.assert_allclose(values, expected[key], rtol=0, atol=FOREIGN_VECTORS)


@pytest.mark.parametrize("name", FIXTURES)
def test_its_carried_state_is_had_by_a_state_that_is_given(name):
    source, expected, sentences = fixture_of(name)
    model, tokenizer = load_external(source)
    # The program's rows are sentences by falling length.
    calls = [[0, 1, 2, 3], [4, 6, 0], [0, 1, 2, 3]]
    orders = [sorted(chosen, key=lambda place: -len(sentences[place])) for chosen in calls]
    found = run_batches(model, tokenizer, [[sentences[place] for place in order] for order in orders])
    places = [(call, calls[call].index(place)) for call, order in enumerate(orders) for place in order]
    for (call, place), (layers, _) in zip(places, found, strict=True):
        np.testing.assert_allclose(layers, expected[f"call{call}/{place}"], rtol=0, atol=FOREIGN_VECTORS)


def test_what_is_saved_is_loaded_and_scores_as_its_classifier(tmp_path):
    source, expected, sentences = fixture_of("char_word")
    _, converted = convert(source, tmp_path / "ours")
    facts = json.loads((tmp_path / "ours" / "conversion.json").read_text())
    assert facts["format"] == "elmoformanylangs" and facts["files"]["source"]["name"] == "char_word.zip"
    assert {"token_embedder.pkl", "encoder.pkl", "classifier.pkl", "char.dic"} <= facts["files"].keys()
    assert "MIT" in facts["license"] and any("state" in note for note in facts["notes"])
    model, tokenizer = (each.from_pretrained(tmp_path / "ours") for each in (AutoModel, AutoTokenizer))
    wanted = layers_of(converted.model, converted.tokenizer, sentences)
    assert all(map(np.array_equal, layers_of(model, tokenizer, sentences), wanted))
    scores = ElmoScorer(str(tmp_path / "ours")).score_sentences(sentences)
    for number, each in enumerate(scores):
        found = (-each.forward.sum() - each.forward_end, -each.backward.sum() - each.backward_end)
        np.testing.assert_allclose(found, expected["nll"][number], rtol=0, atol=FOREIGN_VECTORS)


NO_WORDS = {"token_embedder": {"word_dim": 0, "activation": "tanh", "n_highway": 3}}
NO_CHARACTERS = {"token_embedder": {"char_dim": 0, "name": "lstm"}, "encoder": {"cell_clip": 0, "proj_clip": None}}
# `<S>` and `</S>` are special tokens here, as `<bos>` and `<eos>` are.
ODD_WORDS = [word for word in WORDS if word != "<S>"]
ODD_WORDS += ["qqq", "abcdefghij", "", "New York", "THE", "ñandú", "<bow>", "\u3000", "x", "xyz"]
# Words that char.dic cannot spell, and that are told apart all the same; one is longer than a row.
TEA = ("<oov>", "<bos>", "<eos>", "<pad>", "茶", "酒", "茶酒", "q", "茶茶茶茶茶茶茶")


@pytest.mark.parametrize(
    ("kind", "changes", "words", "read"),
    [
        ("both", {}, WORDS, ODD_WORDS),
        ("characters", NO_WORDS, WORDS, ODD_WORDS),
        ("words", NO_CHARACTERS, WORDS, ODD_WORDS),
        ("both", {}, TEA, ["茶", "酒", "茶酒", "q", "水", "酒茶", "茶茶茶茶茶茶茶"]),
    ],
    ids=["both", "characters", "words", "unspellable"],
)
def test_words_are_read_by_the_rules_of_the_program(tmp_path, kind, changes, words, read):
    settings = make_settings(**changes)
    weights = write_model(tmp_path, settings, words=words)
    model, tokenizer = load_external(tmp_path)
    with torch.no_grad():
        found = model.token_encoder(torch.from_numpy(tokenizer.encode_words(read)))
    wanted = np.stack([word_vector(weights, word, settings, words) for word in read])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=FOREIGN_VECTORS)
    assert model.config.token_inputs == kind and model.config.forget_bias == 0
    assert (model.config.cell_clip, model.config.projection_clip) == ((None, None) if kind == "words" else (3, 3))


def test_the_marks_of_a_dictionary_may_stand_anywhere_in_it(tmp_path):
    words = (*(f"w{number}" for number in range(40)), "<pad>", "<eos>", "<oov>", "<bos>")
    weights = write_model(tmp_path, words=words, softmax=True)
    model, tokenizer = load_external(tmp_path)
    read = ["w3", "w39", "the", "<bos>", "<eos>", "<pad>", "<oov>"]
    with torch.no_grad():
        found = model.base_model.token_encoder(torch.from_numpy(tokenizer.encode_words(read))).numpy()
    wanted = np.stack([word_vector(weights, word, words=words) for word in read])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=FOREIGN_VECTORS)
    theirs = weights["classifier.pkl"]["column_emb.weight"]
    assert torch.equal(model.word_softmax.weight[:3], theirs[[43, 41, 42]])
    write_model(tmp_path, words=words[:-2])
    assert_refused(ValueError, ("word.dic", "<oov>"), load_external, tmp_path)
    with (tmp_path / "word.dic").open("a", encoding="utf-8") as stream:
        stream.write("<oov>\t99\n")
    assert_refused(ValueError, ("word_emb_layer", "(42, 4)", "(100, 4)"), load_external, tmp_path)
    write_model(tmp_path, make_settings(encoder={"n_layers": 3}), softmax=True)
    # The top layer was never trained.
    assert not isinstance(load_external(tmp_path)[0], ElmoForPreTraining)


def test_settings_are_found_as_the_program_finds_them(tmp_path):
    def settings():
        return convert(tmp_path / "here", tmp_path / "ours", overwrite=True)[1].options

    for name in ("sizes.json", "/home/them/configs/sizes.json", "C:\\them\\sizes.json", "../../sizes.json"):
        write_model(tmp_path / "here", config_path=name)
        assert settings() == SETTINGS
    (tmp_path / "here" / "inner").mkdir()
    (tmp_path / "here" / "sizes.json").rename(tmp_path / "here" / "inner" / "sizes.json")
    write_config = (tmp_path / "here" / "config.json").write_text
    write_config(json.dumps({"config_path": "inner/sizes.json"}))
    assert settings() == SETTINGS
    for name in ("cnn_50_100_512_4096_sample.json", "/a/cnn_0_100_512_4096_sample.json"):
        write_config(json.dumps({"config_path": name}))
        # The program's own, with which the tiny weights do not agree: the sizes of the released models.
        assert_refused(ValueError, ("token_embedder.pkl", "(32, 50, 1)", "cnn_50_100"), settings)
    for name in ("/a/other.json", "../inner/../../sizes", 3):
        write_config(json.dumps({"config_path": name}))
        assert_refused(ValueError, ("config.json", "options_file"), settings)
    load_external(tmp_path / "here", options_file=tmp_path / "here" / "inner" / "sizes.json")


def test_dictionaries_are_read_as_the_program_reads_them(tmp_path):
    write_model(tmp_path)
    path, entries = tmp_path / "char.dic", [line.split("\t")[0] for line in (tmp_path / "char.dic").open()]
    # In any order, behind a byte order mark, with white space around, which an entry of white space alone is part of.
    lines = [f"\t{entry}\t{number}\r" for number, entry in enumerate(entries)]
    path.write_text("\ufeff" + "\n".join([f"\u00a0\t{len(entries)}", *reversed(lines)]) + "\n\n", encoding="utf-8")
    assert_refused(ValueError, ("char_emb_layer", f"({len(entries)}, 2)"), load_external, tmp_path)
    path.write_text("\ufeff" + "\n".join(["\u00a0\t0", *reversed(lines[1:])]) + "\n\n", encoding="utf-8")
    _, tokenizer = load_external(tmp_path)
    assert tokenizer.characters[0] == "\u3000" and list(tokenizer.characters)[1 : len(entries)] == entries[1:]
    for content, named in (
        (b"a\t1\nb\tx\n", "line 2"),
        (b"a\tb\t1\n", "line 1"),
        (b"a\t1\n\xff\t1\n", "line 2"),
        (b"", "line 1"),
        (b"a\t1\n", "<bos>"),
    ):
        path.write_bytes(content)
        assert_refused(ValueError, ("char.dic", named), load_external, tmp_path)


def test_wrong_settings_are_refused_by_name(tmp_path):
    write_model(tmp_path / "here")
    for changes, named in (
        ({"encoder": {"name": "lstm"}}, ("encoder.name", "lstm", "no ELMo")),
        ({"token_embedder": {"name": "lstm"}}, "token_embedder.name"),
        ({"token_embedder": {"max_characters_per_token": 2}}, "max_characters_per_token"),
        ({"token_embedder": {"word_dim": 0, "char_dim": 0}}, "word_dim"),
        ({"encoder": {"dim": 10**9}}, ("encoder.dim", "1000000000")),
        ({"encoder": {"dim": 4}}, ("encoder.pkl", "(20, 3)", "(16, 3)")),
        ({"encoder": {"n_layers": 1}}, ("encoder.pkl", "forward_layer_1")),
    ):
        (tmp_path / "here" / "sizes.json").write_text(json.dumps(make_settings(**changes)))
        before = listing(tmp_path)
        assert_refused(ValueError, named, convert, tmp_path / "here", tmp_path / "ours")
        assert listing(tmp_path) == before


def test_no_code_of_a_pickle_runs(tmp_path, monkeypatch):
    weights = write_model(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "here" / "encoder.pkl"
    for legacy in (True, False):
        torch.save({**weights["encoder.pkl"], "x": Code()}, path, _use_new_zipfile_serialization=not legacy)
        assert_refused(ValueError, "encoder.pkl", load_external, tmp_path / "here")
    assert not (tmp_path / "ran").exists()
