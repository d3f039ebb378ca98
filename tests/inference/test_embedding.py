"""Text to vectors: equal to a call of the model a sentence, in order, in bounded memory, and whole in its file."""

import functools
import gzip
import itertools
import json
import os
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from tolerances import BFLOAT16, REORDERED_FLOAT32, REORDERED_FLOAT64
from transformers import BertConfig

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from hf_elmo.commands.embed import EmbeddingArguments, run_embedding
from hf_elmo.inference.embedding import LAYERS, embed, write_embeddings

P, D = 6, 12  # as in make_tiny_config
TOKENIZER = ElmoCharTokenizer()
TOLERANCES = {torch.float32: REORDERED_FLOAT32, torch.float64: REORDERED_FLOAT64}
sentence_lists = st.lists(st.lists(st.text("abcé", max_size=5), max_size=9), max_size=8)
limits = st.fixed_dictionaries(
    {
        "max_words_per_batch": st.integers(1, 40),
        "max_words_per_chunk": st.integers(1, 12),
        "max_words_per_buffer": st.integers(1, 60),
    }
)


def make_model(cls=ElmoModel, dtype=torch.float64, **fields):
    """A model in evaluation mode whose weights are large enough for the clips, and for any mistake, to show."""
    model = cls(make_tiny_config(cell_clip=1.0, projection_clip=0.9, **fields))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.7, 0.7)
    return model.to(dtype).eval()


# For the many examples of a property, none of which changes the model.
shared_model = functools.cache(make_model)


def run_alone(model, words, layers) -> np.ndarray:
    """The vectors of one sentence by a plain call of the model, the markers' included."""
    batch = TOKENIZER([words], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    every_layer = torch.cat(output.hidden_states)
    return {
        "mix": output.last_hidden_state[0],
        "all": every_layer,
        "top": every_layer[-1],
        "average": every_layer.mean(dim=0),
    }[layers].numpy()


def assert_close(found, wanted, dtype=torch.float64):
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCES[dtype])


def make_text(length, seed=0) -> list[str]:
    numbers = np.random.default_rng(seed).integers(0, 50, length)
    return [chr(97 + number % 26) * (1 + number % 7) for number in numbers]


# What the vectors are


@pytest.mark.parametrize("normalization", ["none", "word", "batch"])
@given(sentences=sentence_lists, limits=limits, layers=st.sampled_from(LAYERS), keep_markers=st.booleans())
def test_vectors_are_those_of_a_call_of_the_model_in_the_order_of_the_sentences(
    normalization, sentences, limits, layers, keep_markers
):
    model = shared_model(mix_normalization=normalization, num_mixes=2)
    arrays = list(embed(model, TOKENIZER, sentences, layers=layers, keep_markers=keep_markers, **limits))
    assert len(arrays) == len(sentences)
    for words, array in zip(sentences, arrays, strict=True):
        wanted = run_alone(model, words, layers)
        assert_close(array, wanted if keep_markers else wanted[..., 1:-1, :])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("max_words_per_chunk", [1, 7, 64, 101, 202, 203])
def test_long_texts_in_chunks_are_one_pass(dtype, max_words_per_chunk):
    """Texts of several lengths side by side, which end in different chunks; both directions, all layers."""
    model = shared_model(dtype=dtype)
    texts = [make_text(length, seed=length) for length in (200, 3, 199, 64, 0, 101)]
    arrays = embed(model, TOKENIZER, texts, layers="all", max_words_per_chunk=max_words_per_chunk)
    for words, array in zip(texts, arrays, strict=True):
        assert_close(array, run_alone(model, words, "all")[:, 1:-1], dtype)


def test_strings_are_cut_by_the_tokenizer_and_lists_are_taken_as_they_are():
    model, tokenizer = shared_model(), ElmoCharTokenizer(pre_tokenizer="punctuation", do_lower_case=True)
    text, words = embed(model, tokenizer, ["Call it!", ["Call", "it!"]])
    assert_close(text, run_alone(model, ["call", "it", "!"], "mix")[1:-1])
    assert_close(words, run_alone(model, ["call", "it!"], "mix")[1:-1])


@pytest.mark.parametrize("layers", LAYERS)
def test_a_sentence_without_words_has_no_vectors(layers):
    arrays = list(embed(shared_model(), TOKENIZER, ["", "a", [], " \t"], layers=layers))
    shape = (3, 0, D) if layers == "all" else (0, D)
    assert [array.shape for array in arrays if array.shape[-2] == 0] == [shape] * 3
    assert list(embed(shared_model(), TOKENIZER, [], layers=layers)) == []


@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForTokenClassification])
def test_of_a_model_with_a_head_the_base_is_taken(cls):
    model = make_model(cls, word_vocab_size=9)
    (array,) = embed(model, TOKENIZER, ["a b"])
    assert_close(array, run_alone(model.base_model, ["a", "b"], "mix")[1:-1])


def test_half_precision_comes_back_as_float32():
    texts = [make_text(40), make_text(7)]
    half, full = (embed(shared_model(dtype=dtype), TOKENIZER, texts) for dtype in (torch.bfloat16, torch.float32))
    for rough, exact in zip(half, full, strict=True):
        assert rough.dtype == exact.dtype == np.float32
        np.testing.assert_allclose(rough, exact, rtol=0, atol=BFLOAT16)
    assert next(embed(shared_model(), TOKENIZER, texts)).dtype == np.float64


def test_dropout_is_off_and_every_mode_is_put_back():
    model = make_model(dropout=0.5, freeze_bilm=False).train()
    model.bilm.layers[0].eval()
    modes = [module.training for module in model.modules()]
    arrays = embed(model, TOKENIZER, ["a b", "c"], max_words_per_buffer=1)
    first = next(arrays)
    # The caller has the word between two arrays, too.
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    assert_close(first, run_alone(model.eval(), ["a", "b"], "mix")[1:-1])


def test_modes_are_put_back_after_an_error(monkeypatch):
    model = make_model().train()

    def fail(*arguments):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(model.bilm, "run_direction", fail)
    with pytest.raises(RuntimeError):
        list(embed(model, TOKENIZER, ["a"]))
    assert model.training


# How they are computed


def test_each_direction_reads_each_word_once_and_each_distinct_word_is_encoded_once():
    model, text = make_model(), make_text(150)
    read, encoded = {}, []
    for layer in model.bilm.layers:
        for name in ("forward_lstm", "backward_lstm"):
            lstm = getattr(layer, name)
            lstm.register_forward_hook(
                lambda lstm, inputs, output: read.update({lstm: read.get(lstm, 0) + inputs[0].shape[1]})
            )
    model.token_encoder.register_forward_hook(lambda encoder, inputs, output: encoded.append(len(output)))
    list(embed(model, TOKENIZER, [text], max_words_per_chunk=11))
    assert list(read.values()) == [152] * 4
    assert sum(encoded) == len({*text, "<S>", "</S>"})


@given(sentences=sentence_lists, limits=limits)
def test_batches_keep_to_their_limit_padding_included(sentences, limits):
    model, shapes = shared_model(), []
    run_direction = model.bilm.run_direction

    def spy(direction, vectors, mask, state):
        shapes.append(tuple(vectors.shape[:2]))
        return run_direction(direction, vectors, mask, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.bilm, "run_direction", spy)
        list(embed(model, TOKENIZER, sentences, **limits))
    for rows, words in shapes:
        assert words <= limits["max_words_per_chunk"]
        assert rows == 1 or rows * words <= limits["max_words_per_batch"]


@given(lengths=st.lists(st.integers(0, 9), min_size=1), limits=limits)
def test_no_more_is_read_ahead_than_the_buffer_holds(lengths, limits):
    num_read = 0

    def sentences():
        nonlocal num_read
        for length in lengths:
            num_read += 1
            yield ["a"] * length

    arrays = embed(shared_model(), TOKENIZER, sentences(), **limits)
    assert num_read == 0
    for num_yielded, _ in enumerate(arrays):
        ahead = [length + 2 for length in lengths[num_yielded:num_read]]
        assert sum(ahead[:-1]) < limits["max_words_per_buffer"]


def test_a_stream_without_an_end_is_embedded():
    arrays = embed(shared_model(), TOKENIZER, itertools.repeat("a b"), max_words_per_buffer=100)
    assert [array.shape for array in itertools.islice(arrays, 60)] == [(2, D)] * 60


def test_memory_does_not_grow_with_the_corpus():
    def peak(num_sentences):
        sentences = (make_text(5 + number % 7, seed=number) for number in range(num_sentences))
        tracemalloc.start()
        for array in embed(shared_model(), TOKENIZER, sentences, layers="all", max_words_per_buffer=400):
            assert array.flags.owndata
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(100)  # what is made once: the tokenizer's table of rows
    # All arrays of the longer run together are more than ten times its bound.
    assert peak(2000) < 1.2 * peak(200) < 2000 * 10 * 3 * D * 8 / 10


@pytest.mark.parametrize("name", ["max_words_per_batch", "max_words_per_chunk", "max_words_per_buffer"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_limits_are_positive_integers(name, value):
    with pytest.raises(ValueError, match=rf"{name} is {value}; it must be an integer >= 1"):
        embed(shared_model(), TOKENIZER, ["a"], **{name: value})


@pytest.mark.parametrize(
    ("model", "tokenizer", "sentences", "arguments", "error", "message"),
    [
        (torch.nn.Linear(1, 1), TOKENIZER, ["a"], {}, TypeError, "model is a Linear; wanted an ELMo model"),
        (None, ElmoCharTokenizer(max_characters_per_word=9), ["a"], {}, ValueError, "=9; the model wants 50"),
        (None, TOKENIZER, "a b", {}, TypeError, "sentences is a string; wanted an iterable"),
        (None, TOKENIZER, ["a"], {"layers": "last"}, ValueError, "layers is 'last'; it must be one of"),
    ],
)
def test_wrong_arguments_are_named_at_once(model, tokenizer, sentences, arguments, error, message):
    with pytest.raises(error, match=message):
        embed(model or shared_model(), tokenizer, sentences, **arguments)


@pytest.mark.parametrize("sentence", [7, None, ["a", 7], ["a", None], {"a"}])
def test_a_wrong_sentence_is_named_by_its_number(sentence):
    arrays = embed(shared_model(), TOKENIZER, ["a", sentence], max_words_per_buffer=1)
    next(arrays)
    with pytest.raises(TypeError, match=r"sentences\[1\] is .*; wanted a string or a list of words"):
        next(arrays)


# Files


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="vectors are written as HDF5")


def read_all(h5py, path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}


def test_a_file_has_a_dataset_a_sentence(h5py, tmp_path):
    arrays = [np.random.default_rng(0).normal(size=(3, length, D)) for length in (4, 0, 2)]
    path = tmp_path / "new" / "vectors.hdf5"
    assert write_embeddings(path, iter(arrays)) == (3, 6)
    found = read_all(h5py, path)
    assert sorted(found) == ["0", "1", "2"]
    for number, array in enumerate(arrays):
        assert found[str(number)].dtype == np.float32
        assert np.array_equal(found[str(number)], array.astype(np.float32))
    assert os.listdir(path.parent) == ["vectors.hdf5"]


def test_the_map_from_sentences_to_numbers_is_allennlps_and_loses_none(h5py, tmp_path):
    sentences = ["a b", 'é "c"', "a b", "nul \0"]
    write_embeddings(tmp_path / "v.hdf5", [np.zeros((1, D))] * 4, sentences)
    with h5py.File(tmp_path / "v.hdf5") as file:
        dataset = file["sentence_to_index"]
        assert dataset.shape == (1,) and h5py.check_string_dtype(dataset.dtype).length is None
        text = dataset[0]
    # As AllenNLP's users read it: of sentences that are alike, the last.
    assert json.loads(text) == {"a b": "2", 'é "c"': "1", "nul \0": "3"}
    pairs = json.loads(text, object_pairs_hook=list)
    assert [tuple(pair) for pair in pairs] == [(sentence, str(number)) for number, sentence in enumerate(sentences)]


@pytest.mark.parametrize("sentences", [["a"], ["a", "b", "c"]])
def test_as_many_sentences_as_arrays(h5py, tmp_path, sentences):
    with pytest.raises(ValueError, match=r"sentences and arrays differ in number: one of them ends after \d"):
        write_embeddings(tmp_path / "v.hdf5", [np.zeros((1, D))] * 2, sentences)
    assert os.listdir(tmp_path) == []


def test_a_failing_run_leaves_nothing_and_spares_what_was_there(h5py, tmp_path):
    def arrays():
        yield np.zeros((1, D))
        raise KeyboardInterrupt

    path = tmp_path / "v.hdf5"
    for content in (None, b"old"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(KeyboardInterrupt):
            write_embeddings(path, arrays(), overwrite=True)
        assert os.listdir(tmp_path) == ([] if content is None else ["v.hdf5"])
    assert path.read_bytes() == b"old"


def test_a_name_that_is_taken_is_refused_before_any_work(h5py, tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    for name, message in (
        ("old", "is there already; name another one, or pass --overwrite_output_file"),
        ("link", "is there already"),
        ("old/v.hdf5", "lies below the file"),
        ("", "is a directory; name a file"),
    ):
        with pytest.raises(FileExistsError, match=message):
            write_embeddings(tmp_path / name, (pytest.fail("an array was asked for") for _ in range(1)))
    write_embeddings(tmp_path / "link", [np.zeros((1, D))], overwrite=True)
    assert (tmp_path / "link").is_symlink() and list(read_all(h5py, tmp_path / "old")) == ["0"]


def test_without_h5py_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'hf_elmo\[conversion\]'"):
        write_embeddings(tmp_path / "v.hdf5", [])


# A run from text to a file


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("checkpoint"))
    make_model(ElmoForPreTraining, torch.float32, word_vocab_size=9).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(directory)
    return directory


@pytest.fixture
def arguments(h5py, tmp_path, checkpoint):
    """Arguments of a run that works, on the CPU, for each test to change."""

    def make(text="Call it!\n\n a  b\n", **changes):
        (tmp_path / "text.txt").write_text(text, encoding="utf-8")
        given = {"input_file": str(tmp_path / "text.txt"), "output_file": str(tmp_path / "v.hdf5"), "device": "cpu"}
        return EmbeddingArguments(**{"model_name_or_path": checkpoint, **given, **changes})

    return make


@pytest.mark.parametrize("text_is_tokenized", [False, True])
def test_vectors_have_the_numbers_of_their_lines(h5py, arguments, checkpoint, text_is_tokenized):
    given = arguments(layers="all", text_is_tokenized=text_is_tokenized, store_sentences=True)
    summary = run_embedding(given)
    found = read_all(h5py, given.output_file)
    assert json.loads(found.pop("sentence_to_index")[0]) == {"Call it!": "0", "": "1", "a  b": "2"}
    sentences = [["Call", "it!"] if text_is_tokenized else ["Call", "it", "!"], [], ["a", "b"]]
    assert list(found) == ["0", "1", "2"]
    for array, words in zip(found.values(), sentences, strict=True):
        assert_close(array, run_alone(ElmoModel.from_pretrained(checkpoint), words, "all")[:, 1:-1], torch.float32)
    assert (summary.num_sentences, summary.num_words) == (3, 4 if text_is_tokenized else 5)
    assert summary.num_bytes == os.path.getsize(given.output_file)


def test_compressed_text_and_half_precision(h5py, arguments, tmp_path):
    plain = arguments()
    run_embedding(plain)
    with gzip.open(tmp_path / "text.txt.gz", "wb") as file:
        file.write((tmp_path / "text.txt").read_bytes())
    output_file = str(tmp_path / "half.hdf5")
    run_embedding(arguments(input_file=str(tmp_path / "text.txt.gz"), output_file=output_file, dtype="bfloat16"))
    for name, array in read_all(h5py, plain.output_file).items():
        np.testing.assert_allclose(read_all(h5py, output_file)[name], array, rtol=0, atol=BFLOAT16)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "absent.txt"}, "input_file 'absent.txt' matches no file"),
        ({"text": ""}, "input_file .* is an empty file"),
        ({"max_words_per_batch": 0}, "max_words_per_batch is 0; it must be an integer >= 1"),
        ({"layers": "last"}, "layers is 'last'; it must be one of"),
        ({"device": "gpu"}, "device 'gpu' cannot be used here"),
        ({"device": "meta"}, "device 'meta' cannot be used here"),
        (
            {"model_name_or_path": "absent"},
            "model_name_or_path 'absent' is neither a complete checkpoint directory nor",
        ),
        ({"model_name_or_path": "{tmp_path}"}, "holds no config.json; name a checkpoint directory"),
        ({"model_name_or_path": "{tmp_path}/bert"}, "has the model_type 'bert'; wanted 'elmo'"),
        ({"model_name_or_path": "{tmp_path}/no_weights"}, "is neither a complete checkpoint directory nor"),
        ({"model_name_or_path": "{tmp_path}/other"}, "weights of another shape, for 'bilm.layers.2.*' and 8 more"),
        ({"output_file": "{tmp_path}"}, "output_file .* is a directory"),
        ({"output_file": "{tmp_path}/text.txt"}, "output_file .* is there already"),
        ({"output_file": "{tmp_path}/text.txt", "overwrite_output_file": True}, "is the input_file too; name another"),
    ],
)
def test_mistakes_are_named_in_one_line(arguments, tmp_path, changes, message):
    BertConfig().save_pretrained(tmp_path / "bert")
    make_tiny_config().save_pretrained(tmp_path / "no_weights")
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "other")
    make_tiny_config(num_hidden_layers=3).save_pretrained(tmp_path / "other")
    changes = {
        name: value.format(tmp_path=tmp_path) if isinstance(value, str) else value for name, value in changes.items()
    }
    before = sorted(os.listdir(tmp_path))
    with pytest.raises((ValueError, OSError), match=message) as raised:
        run_embedding(arguments(**changes))
    assert "\n" not in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == sorted({*before, "text.txt"})
