"""bilm-tf's training checkpoints: the biLM, its softmax and its words, ready to score and to train on."""

import json

import numpy as np
import pytest
import torch
from bilm_tf_files import listing, make_options, wanted_shapes
from conftest import shared_data
from refusals import assert_refused
from run_cases import make_arguments, write_lines
from tensor_bundles import variables_of, write_bundle
from tolerances import FOREIGN_VECTORS

from hf_elmo import ElmoForPreTraining, ElmoModel, ElmoScorer, load_foreign
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf
from hf_elmo.conversion.checked_files import ConversionError
from hf_elmo.conversion.formats import convert_foreign
from hf_elmo.pretraining.run import run_pretraining

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat"]


def nlpl():
    return shared_data("zoo/nlpl")


def sentences_with_scores():
    """Each sentence that the other program scored, with its logits and targets in both directions."""
    sentences = json.loads((nlpl() / "sentences.json").read_text())
    with np.load(nlpl() / "expected.npz") as expected:
        for number, words in enumerate(sentences):
            if f"logits/forward/{number}" in expected:
                kinds = [(kind, side) for kind in ("logits", "targets") for side in ("forward", "backward")]
                yield words, [expected[f"{kind}/{side}/{number}"] for kind, side in kinds]


def test_logits_are_those_that_bilm_tf_computed():
    model, tokenizer = load_foreign(nlpl() / "training")
    assert isinstance(model, ElmoForPreTraining) and model.words[:3] == ("<S>", "</S>", "<UNK>")
    for words, (forward, backward, *_) in sentences_with_scores():
        with torch.no_grad():
            output = model(**tokenizer([words], is_split_into_words=True, return_tensors="pt"))
        assert np.abs(output.forward_logits[0, :-1].numpy() - forward).max() < FOREIGN_VECTORS
        # The backward direction begins at the last marker.
        assert np.abs(output.backward_logits[0, 1:].flip(0).numpy() - backward).max() < FOREIGN_VECTORS


def test_a_conversion_scores_text_and_its_training_goes_on(tmp_path):
    source = str(tmp_path / "ours")
    convert_foreign(nlpl() / "training", source)
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
    variants = shared_data("zoo/bilm_tf")
    words = {"vocab_file": variants / "vocab.txt"}
    for training, dumped, options in (
        (nlpl() / "training", nlpl() / "directory", {}),
        (shared_data("zoo/bilm_tf/layers1/training"), shared_data("zoo/bilm_tf/layers1"), {}),
        (
            shared_data("zoo/bilm_tf/word_shared_softmax/training"),
            shared_data("zoo/bilm_tf/word_shared_softmax"),
            words,
        ),
    ):
        model, _ = load_foreign(training, **options)
        wanted = load_foreign(dumped, **options)[0].state_dict()
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in model.base_model.state_dict().items())
    # A softmax that shares its rows with the table of words, in the order of the softmax.
    table = model.elmo.token_encoder.word_table
    rows = load_foreign(dumped, **words)[1].encode_words(model.words)
    assert torch.equal(model.word_softmax.weight, table(torch.from_numpy(rows)))
    convert_foreign(training, tmp_path / "ours", **words)
    names = ("options_file", "weight_file", "softmax_file", "vocab_file")
    export_bilm_tf(tmp_path / "ours", **{name: tmp_path / name for name in names})
    assert (tmp_path / "vocab_file").read_bytes() == words["vocab_file"].read_bytes()


def write_training(folder, options=None, words=WORDS, without=(), **bundle):
    """A tiny training checkpoint of random weights."""
    options = {**make_options(), "n_tokens_vocab": len(WORDS)} if options is None else options
    options["char_cnn"]["n_characters"] = 261
    rng = np.random.default_rng(0)
    shapes = {**wanted_shapes(options), "softmax/W": (len(WORDS), 6), "softmax/b": (len(WORDS),)}
    arrays = variables_of({key: rng.uniform(-1, 1, shape).astype("f4") for key, shape in shapes.items()})
    arrays |= {f"{name}/Adagrad": np.ones_like(array) for name, array in arrays.items()}
    arrays["global_step"] = np.array(3, dtype=np.float32)
    write_bundle(folder, {name: array for name, array in arrays.items() if name not in without}, **bundle)
    (folder / "options.json").write_text(json.dumps(options))
    if words is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return arrays


def test_without_a_vocabulary_there_is_no_softmax_and_the_card_says_so(tmp_path):
    arrays = write_training(tmp_path / "theirs", words=None)
    _, foreign = convert_foreign(tmp_path / "theirs", tmp_path / "ours")
    assert type(foreign.model) is ElmoModel
    card = (tmp_path / "ours" / "README.md").read_text()
    assert "vocab_file" in card and "Adagrad" in card and "model.ckpt-7.data-00000-of-00001" in card
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in WORDS))
    model, _ = load_foreign(tmp_path / "theirs" / "model.ckpt-7.index", vocab_file=tmp_path / "words")
    assert np.array_equal(model.word_softmax.weight.detach().numpy(), arrays["lm/softmax/W"])


def test_the_trainer_takes_missing_skip_connections_for_none(tmp_path):
    options = make_options()
    del options["lstm"]["use_skip_connections"]
    write_training(tmp_path, options)
    assert load_foreign(tmp_path)[0].config.use_skip_connections is False


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"without": ["lm/CNN_proj/W_proj"]}, ("lm/CNN_proj/W_proj", "(14, 6)")),
        ({"without": ["lm/softmax/W"]}, ("lm/softmax/W", "(6, 6)")),
        ({"options": make_options(highways=2)}, "lm/CNN_high_1/W_carry"),
        ({"words": WORDS[:-1]}, ("lm/softmax/W", "(6, 6)", "(5, 6)", "vocab.txt")),
        ({"words": ["cat", "sat"]}, ("<S>", "vocab.txt")),
        ({"shards": 3}, "3 shards"),
    ],
    ids=["a variable less", "no softmax", "other options", "a word less", "no markers", "shards"],
)
def test_what_does_not_belong_together_is_refused_and_nothing_is_written(tmp_path, changes, named):
    other_options = changes.pop("options", None)
    write_training(tmp_path / "theirs", **changes)
    if other_options is not None:
        (tmp_path / "theirs" / "options.json").write_text(json.dumps(other_options))
    before = listing(tmp_path)
    assert_refused(ConversionError, named, convert_foreign, tmp_path / "theirs", tmp_path / "ours")
    assert listing(tmp_path) == before and not (tmp_path / "ours").exists()
