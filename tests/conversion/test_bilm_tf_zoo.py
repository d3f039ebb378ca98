"""Models as bilm-tf and simple_elmo wrote them, against the vectors and the logits that those programs computed."""

import json

import h5py
import numpy as np
import pytest
import torch
from bilm_tf_files import read_datasets
from conftest import shared_data
from foreign_vectors import run_batches
from refusals import assert_refused
from run_cases import make_arguments, write_lines
from tolerances import FOREIGN_VECTORS, PARITY
from transformers import AutoModel, AutoTokenizer

from hf_elmo import ElmoForPreTraining, ElmoScorer, load_external
from hf_elmo.conversion.bilm_tf import export_bilm_tf
from hf_elmo.conversion.sources import convert
from hf_elmo.pretraining.run import run_pretraining

BY_CHARACTERS = ["layers1", "layers3", "noskip", "highway0", "tanh", "uneven", "noclip", "clip"]
BY_CHARACTERS += ["no_cnn_projection", "no_lstm_projection"]
BY_WORDS = ["word_inputs", "word_shared_softmax"]


def folder_of(variant):
    return shared_data("zoo/bilm_tf") / variant


def options_of(variant):
    return {"vocab_file": folder_of("vocab.txt")} if variant in BY_WORDS else {}


def nlpl():
    return shared_data("zoo/nlpl")


@pytest.mark.parametrize("variant", (*BY_CHARACTERS, *BY_WORDS))
def test_a_saved_conversion_has_bilm_tfs_vectors_and_goes_back_bit_by_bit(variant, tmp_path):
    convert(folder_of(variant), tmp_path / "ours", **options_of(variant))
    model, tokenizer = (kind.from_pretrained(tmp_path / "ours") for kind in (AutoModel, AutoTokenizer))
    batches = json.loads(folder_of("batches.json").read_text())
    keys = [f"call{call}/{row}" for call, batch in enumerate(batches) for row in range(len(batch))]
    with np.load(folder_of(variant) / "expected.npz") as expected:
        for key, (layers, _) in zip(keys, run_batches(model, tokenizer, batches), strict=True):
            assert np.abs(layers - expected[key]).max() < FOREIGN_VECTORS, key
    export_bilm_tf(tmp_path / "ours", tmp_path / "back")
    assert read_datasets(tmp_path / "back" / "weights.hdf5") == read_datasets(folder_of(variant) / "weights.hdf5")
    if variant in BY_WORDS:
        assert (tmp_path / "back" / "vocab.txt").read_bytes() == folder_of("vocab.txt").read_bytes()
    written, theirs = (
        json.loads((path / "options.json").read_text()) for path in (tmp_path / "back", folder_of(variant))
    )
    assert {name: value for name, value in written["lstm"].items() if value is not None} == theirs["lstm"]
    assert written.get("char_cnn") == theirs.get("char_cnn")


def test_a_model_of_one_direction_is_refused_with_the_reason():
    source = folder_of("forward_only")
    for options in (source / "training" / "options.json", folder_of("layers3") / "options.json"):
        assert_refused(ValueError, "both directions", load_external, source, options_file=options)
    assert_refused(ValueError, "both directions", load_external, source / "training")


def test_words_are_needed_by_what_reads_them_and_lines_are_its_rows(tmp_path):
    source = folder_of("word_inputs")
    assert_refused(ValueError, "vocab_file", load_external, source)
    lines, file = folder_of("vocab.txt").read_text().splitlines(), tmp_path / "vocab.txt"
    file.write_text("\n".join(lines[:-1]) + "\n")
    assert_refused(
        ValueError, ("vocab_file", "embedding", "(63, 6)", "(62, 6)"), load_external, source, vocab_file=file
    )
    # Wherever the special words stand.
    file.write_text("\n".join([*lines[3:], *lines[:3]]) + "\n")
    with h5py.File(source / "weights.hdf5") as weights:
        vectors = weights["embedding"][()]
    model, tokenizer = load_external(source, vocab_file=file)
    found = model.token_encoder.word_table(torch.from_numpy(tokenizer.encode_words(lines[3:6])))
    np.testing.assert_array_equal(found.detach().numpy(), vectors[:3])


# Training checkpoints


def sentences_with_scores():
    """Each sentence that the other program scored, with its logits and targets in both directions."""
    sentences = json.loads((nlpl() / "sentences.json").read_text())
    with np.load(nlpl() / "expected.npz") as expected:
        for number, words in enumerate(sentences):
            if f"logits/forward/{number}" in expected:
                kinds = [(kind, side) for kind in ("logits", "targets") for side in ("forward", "backward")]
                yield words, [expected[f"{kind}/{side}/{number}"] for kind, side in kinds]


def test_logits_are_those_that_bilm_tf_computed():
    model, tokenizer = load_external(nlpl() / "training")
    assert isinstance(model, ElmoForPreTraining) and model.words[:3] == ("<S>", "</S>", "<UNK>")
    for words, (forward, backward, *_) in sentences_with_scores():
        with torch.no_grad():
            output = model(**tokenizer([words], is_split_into_words=True, return_tensors="pt"))
        assert np.abs(output.forward_logits[0, :-1].numpy() - forward).max() < FOREIGN_VECTORS
        # The backward direction begins at the last special token.
        assert np.abs(output.backward_logits[0, 1:].flip(0).numpy() - backward).max() < FOREIGN_VECTORS


def test_a_conversion_scores_text_and_its_training_goes_on(tmp_path):
    source = str(tmp_path / "ours")
    convert(nlpl() / "training", source)
    scorer = ElmoScorer(source, device="cpu")
    for words, (forward, backward, forward_targets, backward_targets) in sentences_with_scores():
        scores = scorer.score_sentence(words)
        for found, logits, targets in (
            (scores.forward, forward, forward_targets),
            (scores.backward[::-1], backward, backward_targets),
        ):
            likely = torch.from_numpy(logits).double().log_softmax(-1).numpy()[range(len(targets)), targets]
            assert np.abs(found - likely[: len(words)]).max() < FOREIGN_VECTORS
    write_lines(tmp_path, ["The boats left the harbour .", "the sea is old ."])
    arguments = make_arguments(
        tmp_path, model_name_or_path=source, config_overrides=None, max_steps=1, skip_baselines=True
    )
    run_pretraining(arguments, report=lambda line: None)
    before, after = (ElmoForPreTraining.from_pretrained(folder) for folder in (source, tmp_path / "out"))
    assert after.words == before.words
    changed = [name for name, weight in after.named_parameters() if not torch.equal(weight, before.get_parameter(name))]
    assert {"elmo.bilm.layers.1.backward_lstm.weight_hr", "word_softmax.weight"} <= set(changed)


def test_a_checkpoint_is_the_model_that_is_dumped_from_it(tmp_path):
    """The weights of the hdf5 files, one layer and a table of words among them; and out again as such files."""
    words = {"vocab_file": folder_of("vocab.txt")}
    for training, dumped, options in (
        (nlpl() / "training", nlpl() / "directory", {}),
        (folder_of("layers1/training"), folder_of("layers1"), {}),
        (folder_of("word_shared_softmax/training"), folder_of("word_shared_softmax"), words),
    ):
        model, _ = load_external(training, **options)
        wanted = load_external(dumped, **options)[0].state_dict()
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in model.base_model.state_dict().items())
    # A softmax that shares its rows with the table of words, in the order of the softmax.
    table = model.elmo.token_encoder.word_table
    rows = load_external(dumped, **words)[1].encode_words(model.words)
    assert torch.equal(model.word_softmax.weight, table(torch.from_numpy(rows)))
    convert(training, tmp_path / "ours", **words)
    export_bilm_tf(tmp_path / "ours", tmp_path / "back")
    assert (tmp_path / "back" / "vocab.txt").read_bytes() == words["vocab_file"].read_bytes()


@pytest.mark.parametrize(("name", "warmup"), [("directory", True), ("model.zip", False)])
def test_vectors_of_words_are_simple_elmos_with_the_state_carried(name, warmup):
    sentences = json.loads((nlpl() / "sentences.json").read_text())
    batches = [sentences[start : start + 3] for start in range(0, len(sentences), 3)]
    found, _ = zip(*run_batches(*load_external(nlpl() / name), batches, warmup), strict=True)
    with np.load(nlpl() / "expected.npz") as expected:
        wanted = {layers: expected[f"vectors/{layers}/warmup={warmup}"] for layers in ("all", "top", "average")}
    for number, (words, layers) in enumerate(zip(sentences, found, strict=True)):
        # Beyond a sentence's words there is padding, which there is no vector of here.
        for given, theirs in (
            (layers, wanted["all"][number][:, : len(words)]),
            (layers[-1], wanted["top"][number][: len(words)]),
            (layers.mean(axis=0), wanted["average"][number][: len(words)]),
        ):
            assert np.abs(given - theirs).max() < FOREIGN_VECTORS, words


def test_the_published_fixture_has_its_original_vectors_where_the_state_is_carried(tmp_path):
    fixture = shared_data("elmo_fixture")
    # Batch i is the i-th sentence of each list, in the order in which the expected vectors were made.
    lists = json.loads((fixture / "sentences.json").read_text())
    batches = [[sentence.split() for sentence in batch] for batch in zip(*lists, strict=True)]
    # Beside the weights lies an hdf5 of vectors.
    convert(fixture, tmp_path / "elmo")
    model, tokenizer = (kind.from_pretrained(tmp_path / "elmo") for kind in (AutoModel, AutoTokenizer))
    carried = run_batches(model, tokenizer, batches)[:: len(lists)]
    fresh = [run_batches(model, tokenizer, [batch])[0] for batch in batches]
    with h5py.File(fixture / "lm_embeddings_0.hdf5") as file:
        # The top layer of each batch's first sentence, (2, T, P), the directions apart.
        expected = [np.concatenate(file[str(index)][()], axis=-1) for index in range(10)]
    differences, of_fresh = (
        [np.abs(layers[-1] - theirs).max() for (layers, _), theirs in zip(found, expected, strict=True)]
        for found in (carried, fresh)
    )
    assert max(differences) <= PARITY and of_fresh[0] <= PARITY and min(of_fresh[1:]) > 1e-3
    export_bilm_tf(tmp_path / "elmo", tmp_path / "back")
    options = [json.loads((folder / "options.json").read_text()) for folder in (tmp_path / "back", fixture)]
    assert options[0] == options[1]
    found = read_datasets(tmp_path / "back" / "weights.hdf5")
    assert found == read_datasets(fixture / "lm_weights.hdf5") and len(found) == 1 + 2 * 5 + 4 * 2 + 2 + 3 * 2 * 2
