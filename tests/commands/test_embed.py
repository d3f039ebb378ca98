"""From a text to a file of vectors: the numbers of the lines, the formats, and one line for each mistake."""

import gzip
import io
import json
import os
import re

import fresh_process
import numpy as np
import pytest
import torch
from conftest import ROOT, make_tiny_config
from refusals import assert_refused
from tolerances import BFLOAT16, FLOAT16, REORDERED_FLOAT32
from transformers import BertConfig

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel
from hf_elmo.commands.embed import EmbeddingArguments, main, run_embedding
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding import embed

h5py = pytest.importorskip("h5py", reason="vectors are written as HDF5")


def run_script(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return fresh_process.run(["-m", "hf_elmo", "embed", *arguments], env=environment)


def test_a_text_file_becomes_a_file_of_vectors(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo")
    with gzip.open(tmp_path / "text.txt.gz", "wt", encoding="utf-8") as file:
        file.write("A call returns a value .\n\nCall it !\n")
    names = {"--model_name_or_path": "elmo", "--input_file": "text.txt.gz", "--output_file": "v.hdf5"}
    paths = [word for flag, name in names.items() for word in (flag, str(tmp_path / name))]
    arguments = [*paths, "--layers", "all", "--max_words_per_batch", "7", "--max_words_per_chunk", "3"]
    result = run_script(*arguments, "--device", "cpu")
    assert (result.returncode, result.stderr) == (0, "")
    size = os.path.getsize(tmp_path / "v.hdf5") / 1e6
    assert re.search(r"Embedded 3 sentences of 9 words \(all\): [\d,]+ words/s on cpu in float32", result.stdout)
    assert f"{tmp_path / 'v.hdf5'}, {size:.1f} MB" in result.stdout
    with h5py.File(tmp_path / "v.hdf5") as file:
        assert {name: file[name].shape for name in file} == {"0": (3, 6, 12), "1": (3, 0, 12), "2": (3, 3, 12)}
    again = run_script(*arguments)
    assert again.returncode == 2 and again.stderr.count("\n") == 1
    assert "error: output_file" in again.stderr and "--overwrite_output_file" in again.stderr


def test_help_names_the_arguments(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    for name in ("model_name_or_path", "input_file", "output_file", "layers", "max_words_per_chunk", "store_sentences"):
        assert f"--{name}" in shown


def read_all(path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[()] for name, dataset in file.items()}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("checkpoint"))
    ElmoForPreTraining(make_tiny_config(word_vocab_size=9)).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(directory)
    return directory


@pytest.fixture
def arguments(tmp_path, checkpoint):
    """Arguments of a run that works, on the CPU, for each test to change."""

    def make(text="Call it!\n\n a  b\n", **changes):
        (tmp_path / "text.txt").write_text(text, encoding="utf-8")
        given = {"input_file": str(tmp_path / "text.txt"), "output_file": str(tmp_path / "v.hdf5"), "device": "cpu"}
        return EmbeddingArguments(**{"model_name_or_path": checkpoint, **given, **changes})

    return make


@pytest.mark.parametrize("text_is_tokenized", [False, True])
def test_vectors_have_the_numbers_of_their_lines(arguments, checkpoint, text_is_tokenized):
    given = arguments(layers="all", text_is_tokenized=text_is_tokenized, store_sentences=True)
    summary = run_embedding(given)
    found = read_all(given.output_file)
    assert json.loads(found.pop("sentence_to_index")[0]) == {"Call it!": "0", "": "1", "a  b": "2"}
    sentences = [["Call", "it!"] if text_is_tokenized else ["Call", "it", "!"], [], ["a", "b"]]
    assert list(found) == ["0", "1", "2"]
    for array, words in zip(found.values(), sentences, strict=True):
        batch = ElmoCharTokenizer()([words], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            layers = ElmoModel.from_pretrained(checkpoint)(**batch, output_hidden_states=True).hidden_states
        np.testing.assert_allclose(array, torch.cat(layers)[:, 1:-1], rtol=0, atol=REORDERED_FLOAT32)
    assert (summary.num_sentences, summary.num_words) == (3, 4 if text_is_tokenized else 5)
    assert summary.num_bytes == os.path.getsize(given.output_file)


def test_the_state_is_carried_from_line_to_line_where_it_is_asked_for(arguments, checkpoint, capsys):
    text = "Call it!\n\nCall it!\n"
    run_embedding(arguments(text))
    apart = list(read_all(arguments(text).output_file).values())
    np.testing.assert_allclose(apart[0], apart[2], rtol=0, atol=REORDERED_FLOAT32)
    assert "the state carried" not in capsys.readouterr().out
    given = arguments(text, carry_state=True, overwrite_output_file=True)
    run_embedding(given)
    assert "the state carried" in capsys.readouterr().out
    found = list(read_all(given.output_file).values())
    embedder = ElmoEmbedder(checkpoint, device="cpu")
    wanted = embed(embedder.model, embedder.tokenizer, text.splitlines(), carry_state=True)
    for array, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(array, other, rtol=0, atol=REORDERED_FLOAT32)
    np.testing.assert_allclose(found[0], apart[0], rtol=0, atol=REORDERED_FLOAT32)
    assert np.abs(found[2] - apart[2]).max() > 100 * REORDERED_FLOAT32


def test_compressed_text_and_half_precision(arguments, tmp_path):
    plain = arguments()
    run_embedding(plain)
    with gzip.open(tmp_path / "text.txt.gz", "wb") as file:
        file.write((tmp_path / "text.txt").read_bytes())
    output_file = str(tmp_path / "half.hdf5")
    run_embedding(arguments(input_file=str(tmp_path / "text.txt.gz"), output_file=output_file, dtype="bfloat16"))
    for name, array in read_all(plain.output_file).items():
        np.testing.assert_allclose(read_all(output_file)[name], array, rtol=0, atol=BFLOAT16)


def test_raw_text_for_a_checkpoint_of_tokenised_text_is_warned_of(arguments, checkpoint, tmp_path, capsys):
    text = "Call it, please. Then wait, and ask again.\n" * 3
    run_embedding(arguments(text))
    assert "raw text" not in capsys.readouterr().err
    run_embedding(arguments(text, text_is_tokenized=True, overwrite_output_file=True))
    assert "looks like raw text" in capsys.readouterr().err


def test_npz_of_standard_input_in_float16(arguments, tmp_path, monkeypatch):
    run_embedding(arguments(layers="top"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Call it!\n\n a  b\n")))
    options = {"layers": "-1", "storage_dtype": "float16", "compression": "gzip"}
    run_embedding(arguments(input_file="-", output_file=str(tmp_path / "v.npz"), **options))
    found = np.load(tmp_path / "v.npz")
    assert list(found) == ["0", "1", "2"]
    for name, array in read_all(tmp_path / "v.hdf5").items():
        assert found[name].dtype == np.float16
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=FLOAT16)


MISTAKES = [
    ({"input_file": "absent.txt"}, "input_file 'absent.txt'"),
    ({"text": ""}, "input_file"),
    ({"max_words_per_batch": 0}, "max_words_per_batch is 0"),
    ({"layers": "last"}, "layers is 'last'"),
    ({"device": "gpu"}, "device 'gpu'"),
    ({"device": "meta"}, "device 'meta'"),
    ({"model_name_or_path": "absent"}, "model_name_or_path 'absent'"),
    ({"model_name_or_path": "{tmp_path}"}, "config.json"),
    ({"model_name_or_path": "{tmp_path}/bert"}, ("'bert'", "'elmo'")),
    ({"model_name_or_path": "{tmp_path}/no_weights"}, ("model_name_or_path", "no_weights'")),
    ({"model_name_or_path": "{tmp_path}/other"}, ("'bilm.layers.2.", "8 more")),
    ({"output_file": "{tmp_path}/folder.npz"}, ("output_file", "directory")),
    ({"output_file": "{tmp_path}/v.parquet"}, ".hdf5, .h5, .npz"),
    ({"layers": "3"}, "layers is 3"),
    ({"output_file": "{tmp_path}/text.h5"}, ("output_file", "--overwrite_output_file")),
    (
        {"output_file": "{tmp_path}/text.h5", "input_file": "{tmp_path}/text.h5", "overwrite_output_file": True},
        "input_file",
    ),
]


def test_mistakes_are_named_in_one_line(arguments, tmp_path):
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "text.h5").write_text("a")
    BertConfig().save_pretrained(tmp_path / "bert")
    make_tiny_config().save_pretrained(tmp_path / "no_weights")
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "other")
    make_tiny_config(num_hidden_layers=3).save_pretrained(tmp_path / "other")
    before = sorted({*os.listdir(tmp_path), "text.txt"})
    for changes, named in MISTAKES:
        given = {
            name: value.format(tmp_path=tmp_path) if isinstance(value, str) else value
            for name, value in changes.items()
        }
        assert "\n" not in assert_refused((ValueError, OSError), named, run_embedding, arguments(**given))
        assert sorted(os.listdir(tmp_path)) == before, changes
