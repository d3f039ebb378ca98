"""The word softmax beside a bilm-tf checkpoint, in and out."""

import shutil

import numpy as np
import pytest
import tolerances
import torch
from bilm_tf_files import any_bits, listing, make_options, read_datasets, run_bilm_tf, write_checkpoint
from conftest import make_tiny_config
from refusals import assert_refused
from transformers import AutoModel, AutoModelForPreTraining

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel
from hf_elmo.conversion.bilm_tf import convert_bilm_tf, load_bilm_tf
from hf_elmo.conversion.bilm_tf_export import export_bilm_tf
from hf_elmo.conversion.checked_files import ConversionError
from hf_elmo.inference.scoring import score_sentences
from hf_elmo.text.vocabulary import WordVocabulary

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "naïve", "語"]


def write_softmax(folder, words=WORDS, arrays=None, seed=0):
    """The two files of a softmax over words; without arrays, of plain numbers."""
    rng = np.random.default_rng(seed)
    if arrays is None:
        arrays = {
            "softmax/W": rng.uniform(-1, 1, (len(words), 6)).astype("f4"),
            "softmax/b": rng.uniform(-1, 1, len(words)).astype("f4"),
        }
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return arrays


def convert_with_softmax(folder, output="elmo", **files):
    named = {"softmax_file": folder / "softmax.hdf5", "vocab_file": folder / "vocab.txt", **files}
    return convert_bilm_tf(folder / "options.json", folder / "weights.hdf5", folder / output, **named)


def export_with_softmax(model_dir, folder, **changes):
    files = {name: folder / name for name in ("options_file", "weight_file", "softmax_file", "vocab_file")}
    export_bilm_tf(model_dir, **{**files, **changes})


@pytest.mark.parametrize("seed", range(3))
def test_a_word_softmax_comes_back_bit_by_bit(tmp_path, seed):
    rng = np.random.default_rng(seed)
    write_checkpoint(tmp_path, make_options(), seed=seed)
    write_softmax(tmp_path, arrays={"softmax/W": any_bits((8, 6), rng), "softmax/b": any_bits(8, rng)})
    written = convert_with_softmax(tmp_path)
    assert isinstance(written, ElmoForPreTraining) and not written.training
    export_with_softmax(tmp_path / "elmo", tmp_path / "back")
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == [
        "options_file",
        "softmax_file",
        "vocab_file",
        "weight_file",
    ]
    assert read_datasets(tmp_path / "back" / "softmax_file") == read_datasets(tmp_path / "softmax.hdf5")
    assert read_datasets(tmp_path / "back" / "weight_file") == read_datasets(tmp_path / "weights.hdf5")
    assert (tmp_path / "back" / "vocab_file").read_bytes() == (tmp_path / "vocab.txt").read_bytes()


def test_a_directory_with_a_softmax_is_whole_for_both_auto_classes(tmp_path):
    write_checkpoint(tmp_path, make_options())
    arrays = write_softmax(tmp_path)
    convert_with_softmax(tmp_path)
    convert_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5", tmp_path / "plain")
    assert WordVocabulary.load(tmp_path / "elmo").words == WORDS
    model, loading = AutoModelForPreTraining.from_pretrained(tmp_path / "elmo", output_loading_info=True)
    assert isinstance(model, ElmoForPreTraining) and not any(loading.values())
    assert torch.equal(model.word_softmax.weight, torch.from_numpy(arrays["softmax/W"]))
    assert torch.equal(model.word_softmax.bias, torch.from_numpy(arrays["softmax/b"]))
    base, loading = AutoModel.from_pretrained(tmp_path / "elmo", output_loading_info=True)
    assert isinstance(base, ElmoModel) and not any(loading.values())
    plain = AutoModel.from_pretrained(tmp_path / "plain")
    assert {name: tensor.tolist() for name, tensor in base.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in plain.state_dict().items()
    }


@pytest.mark.parametrize(
    "words",
    [
        WORDS,
        # The order of the released models' file, and the line that closes it.
        ["</S>", "<S>", "<UNK>", *WORDS[3:], "!!!MAXTERMID"],
        [*WORDS[3:], "<UNK>", "<S>", "</S>"],
    ],
    ids=["usual", "released", "last"],
)
def test_words_have_the_probabilities_of_bilm_tf_wherever_the_special_ones_stand(tmp_path, words):
    options, rows = make_options(), [word for word in words if word != "!!!MAXTERMID"]
    arrays = write_checkpoint(tmp_path, options)
    weights = write_softmax(tmp_path, rows)
    (tmp_path / "vocab.txt").write_text("\r\n".join(words), encoding="utf-8")
    model = convert_with_softmax(tmp_path).double()
    vocabulary, sentence = WordVocabulary.load(tmp_path / "elmo"), ["the", "naïve", "語", "zebra", "sat"]
    (scores,) = score_sentences(model, ElmoCharTokenizer(), vocabulary, [sentence])
    inputs = ElmoCharTokenizer()(sentence, is_split_into_words=True, return_tensors="np")["input_ids"]
    top = run_bilm_tf(arrays, options, inputs[0])[-1]
    logits = [half @ weights["softmax/W"].T.astype(float) + weights["softmax/b"] for half in np.split(top, 2, axis=1)]
    forward, backward = (scores - np.log(np.exp(scores).sum(1, keepdims=True)) for scores in logits)
    targets = [rows.index(word if word in rows else "<UNK>") for word in ["<S>", *sentence, "</S>"]]
    places = np.arange(len(sentence))
    for found, wanted in (
        ([*scores.forward, scores.forward_end], [*forward[places, targets[1:-1]], forward[-2, targets[-1]]]),
        ([scores.backward_end, *scores.backward], [backward[1, targets[0]], *backward[places + 2, targets[1:-1]]]),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerances.REORDERED_FLOAT32)


def test_one_hdf5_may_hold_the_softmax_beside_the_rest(tmp_path):
    arrays = write_checkpoint(tmp_path, make_options())
    softmax = write_softmax(tmp_path)
    write_checkpoint(tmp_path, make_options(), {**arrays, **softmax})
    together = convert_with_softmax(tmp_path, softmax_file=tmp_path / "weights.hdf5")
    assert torch.equal(together.word_softmax.weight, torch.from_numpy(softmax["softmax/W"]))
    assert isinstance(load_bilm_tf(tmp_path / "options.json", tmp_path / "weights.hdf5"), ElmoModel)


def set_words(text):
    return lambda folder: (folder / "vocab.txt").write_bytes(text)


def set_softmax(key, array):
    def change(folder):
        with h5py.File(folder / "softmax.hdf5", "r+") as file:
            if key in file:
                del file[key]
            if array is not None:
                file.create_dataset(key, data=array)

    return change


def truncate_softmax(folder):
    content = (folder / "softmax.hdf5").read_bytes()
    (folder / "softmax.hdf5").write_bytes(content[: len(content) // 2])


BAD_SOFTMAXES = {
    "a word too few": (
        set_words("\n".join(WORDS[:-1]).encode()),
        ("softmax.hdf5", "softmax/W", "(8, 6)", "(7, 6)", "vocab_file", "vocab.txt"),
    ),
    "another model's": (
        set_softmax("softmax/W", np.zeros((8, 5), "f4")),
        ("softmax/W", "(8, 5)", "(8, 6)", "lstm.projection_dim"),
    ),
    "transposed": (set_softmax("softmax/W", np.zeros((6, 8), "f4")), ("softmax/W", "(6, 8)", "(8, 6)")),
    "short bias": (set_softmax("softmax/b", np.zeros(7, "f4")), ("softmax/b", "(7,)", "(8,)")),
    "no bias": (set_softmax("softmax/b", None), ("softmax.hdf5", "softmax/b", "(8,)", "dump_weights")),
    "float64": (set_softmax("softmax/b", np.zeros(8)), ("softmax.hdf5", "softmax/b", "float64")),
    "not a number": (set_softmax("softmax/b", np.full(8, np.nan, "f4")), ("softmax/b", "8 values")),
    "truncated": (truncate_softmax, ("softmax_file", "softmax.hdf5")),
    "no softmax file": (lambda folder: (folder / "softmax.hdf5").unlink(), "softmax_file"),
    "no words": (lambda folder: (folder / "vocab.txt").unlink(), "vocab_file"),
    "no <UNK>": (
        set_words("\n".join(word for word in WORDS if word != "<UNK>").encode()),
        ("vocab.txt", "'<UNK>'"),
    ),
    "a word twice": (set_words("\n".join([*WORDS, "cat"]).encode()), ("vocab.txt", "'cat'")),
    "Latin-1": (set_words("\n".join(WORDS[:-1]).encode("latin-1")), ("vocab.txt", "line 7")),
}


def test_a_wrong_softmax_is_named_and_leaves_nothing_behind(tmp_path):
    for name, (spoil, named) in BAD_SOFTMAXES.items():
        folder = tmp_path / name
        write_checkpoint(folder, make_options())
        write_softmax(folder)
        spoil(folder)
        before = listing(folder)
        assert "\n" not in assert_refused((ConversionError, FileNotFoundError), named, convert_with_softmax, folder)
        assert listing(folder) == before


def test_the_files_of_a_softmax_go_together_and_are_never_replaced(tmp_path):
    write_checkpoint(tmp_path, make_options())
    write_softmax(tmp_path)
    both = ("softmax_file", "vocab_file")
    assert_refused(ConversionError, both, convert_with_softmax, tmp_path, vocab_file=None)
    ElmoForPreTraining(make_tiny_config(word_vocab_size=8)).save_pretrained(tmp_path / "model")
    assert_refused(ConversionError, both, export_with_softmax, tmp_path / "model", tmp_path / "back", softmax_file=None)
    (tmp_path / "elmo").mkdir()
    shutil.copy(tmp_path / "vocab.txt", tmp_path / "elmo")
    inside = tmp_path / "elmo" / "vocab.txt"
    assert_refused(ConversionError, ("output_dir", "vocab_file"), convert_with_softmax, tmp_path, vocab_file=inside)


def test_a_softmax_that_the_format_cannot_hold_is_refused(tmp_path):
    adaptive = {"softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4]}
    for number, (fields, words, named) in enumerate(
        (
            ({"share_word_softmax": False}, WORDS, "share_word_softmax"),
            (adaptive, WORDS, "softmax_type is 'adaptive'"),
            ({}, WORDS[:-1], "word_vocabulary.txt"),
            ({}, None, "word_vocabulary.txt"),
        )
    ):
        folder = tmp_path / str(number)
        ElmoForPreTraining(make_tiny_config(word_vocab_size=8, **fields)).save_pretrained(folder)
        if words is not None:
            WordVocabulary(words).save(folder)
        assert_refused(ConversionError, named, export_with_softmax, folder, tmp_path / "back")
        assert not (tmp_path / "back").exists()


def test_a_checkpoint_without_a_softmax_has_none_to_export(tmp_path):
    back = tmp_path / "back"
    for word_vocab_size, named in ((None, "word_vocab_size"), (8, "'word_softmax.bias'")):
        folder = tmp_path / str(word_vocab_size)
        ElmoModel(make_tiny_config(word_vocab_size=word_vocab_size)).save_pretrained(folder)
        WordVocabulary(WORDS).save(folder)
        assert_refused(ConversionError, named, export_with_softmax, folder, back)
        assert not back.exists()
        both, same = ("softmax_file", "vocab_file"), back / "softmax_file"
        assert_refused(ConversionError, both, export_with_softmax, folder, back, vocab_file=same)
