"""From a text to files of vectors: what is read and written, processes and kills, and one line for each mistake."""

import gzip
import io
import json
import os
import re
import tempfile
import time

import fresh_process
import numpy as np
import pytest
from conftest import make_tiny_config
from refusals import assert_refused
from tolerances import BFLOAT16, FLOAT16, REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining
from hf_elmo.cli.command_line import main
from hf_elmo.cli.embed import EmbeddingArguments, embed
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding_files import load_embeddings
from hf_elmo.text.word_vectors import read_word_vectors

LINES = ["Call it!", "", " a  b", *(f"the {n} return values" for n in range(30))]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("checkpoint"))
    ElmoForPreTraining(make_tiny_config(word_vocab_size=9)).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(directory)
    return directory


@pytest.fixture
def arguments(tmp_path, checkpoint):
    """Arguments of a run that works, on the CPU, for each test to change."""
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")

    def make(output="v", **changes):
        given = {"model_name_or_path": checkpoint, "input_file": str(tmp_path / "text.txt"), "device": "cpu"}
        given["output_file" if "." in output else "output_dir"] = str(tmp_path / output)
        return EmbeddingArguments(**{**given, **changes})

    return make


def read(path):
    """The vectors of each sentence."""
    if path.is_dir():
        rows = load_embeddings(path)
        assert rows["sentence_id"][:] == list(range(len(rows)))
        return [np.array(vectors, np.float32).reshape(-1, 12) for vectors in rows["vectors"]]
    if path.suffix == ".npz":
        arrays = dict(np.load(path))
    else:
        with pytest.importorskip("h5py", reason="vectors are written as HDF5").File(path) as file:
            arrays = {name: dataset[()] for name, dataset in file.items() if name.isdigit()}
    return [arrays[str(number)] for number in range(len(arrays))]


def assert_like(found, wanted, tolerance=REORDERED_FLOAT32):
    for array, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(array, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("output", ["v", "v.npz", "v.hdf5"])
def test_vectors_have_the_numbers_of_their_lines(arguments, tmp_path, checkpoint, output, capsys):
    embedder = ElmoEmbedder(checkpoint, device="cpu")
    half = ({"storage_dtype": "float16"}, FLOAT16) if output != "v" else ({"dtype": "bfloat16"}, BFLOAT16)
    for lines, options, tolerance in (
        (LINES, {"layers": "top", "max_words_per_batch": 7}, REORDERED_FLOAT32),
        (map(str.split, LINES), {"layers": "-1", "text_is_tokenized": True}, REORDERED_FLOAT32),
        (LINES, {"layers": "top", **half[0]}, half[1]),
    ):
        embed(arguments(output, overwrite_output_dir=True, overwrite_output_file=True, **options))
        assert_like(read(tmp_path / output), embedder.stream(lines, "top"), tolerance)
        assert "Embedded 33 sentences of " in capsys.readouterr().out


def test_all_that_can_be_read(arguments, tmp_path, monkeypatch):
    cut = ["Call", "it", "!"]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"Call it!\n"))
    (tmp_path / "a.jsonl").write_text(json.dumps({"line": "Call it!"}) + "\n" + json.dumps({"line": ["Call", "it!"]}))
    (tmp_path / "a.conll").write_text("Call O\nit! O\n\n\nBob B-PER\n")
    (tmp_path / "a.tsv").write_text("0\tCall\n1\tit!\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.txt").write_text("Call it!\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Call it!\n\n")))
    for changes, words in (
        ({"input_file": "{}/a.txt.gz"}, [cut]),
        ({"input_file": "{}/a.jsonl", "text_column": "line"}, [cut, ["Call", "it!"]]),
        ({"input_file": "{}/a.conll"}, [["Call", "it!"], ["Bob"]]),
        ({"input_file": "{}/a.tsv", "word_column": 1}, [["Call", "it!"]]),
        ({"input_file": None, "dataset_name": "{}/data", "dataset_split": "test"}, [cut]),
        ({"input_file": "-", "text_is_tokenized": True}, [["Call", "it!"], []]),
    ):
        changes = {name: value.format(tmp_path) if isinstance(value, str) else value for name, value in changes.items()}
        embed(arguments(overwrite_output_dir=True, **changes))
        assert load_embeddings(tmp_path / "v")["words"][:] == words


def command(arguments, *more):
    given = {"model_name_or_path": arguments.model_name_or_path, "input_file": arguments.input_file, "device": "cpu"}
    given["output_dir"] = arguments.output_dir
    return ["embed", *(word for name, value in given.items() for word in (f"--{name}", value)), *map(str, more)]


def test_a_text_becomes_a_directory_of_shards(arguments, capsys):
    for said, not_said in (("Embedded 33 sentences of 125 words (top)", "0 of"), ("Wrote 0 of 1 shards", "Embedded")):
        main(command(arguments(), "--layers", "top"))
        printed = capsys.readouterr().out
        assert said in printed and not_said not in printed and "All 1 shards are there." in printed
    with pytest.raises(SystemExit) as ended:
        main(command(arguments()))
    error = capsys.readouterr().err
    assert ended.value.code == 2 and "begun with layers 'top'" in error and error.count("\n") == 1


def test_a_killed_run_resumes_where_it_stood_in_two_processes(arguments, tmp_path, checkpoint):
    script = ["-m", "hf_elmo", *command(arguments(), "--max_words_per_shard", 8)]
    with tempfile.TemporaryFile() as output:
        process = fresh_process.start(script, output, output, env={**os.environ, "OMP_NUM_THREADS": "1"})
        for _ in range(6000):
            if len(list((tmp_path / "v").glob("shard-*"))) >= 2:
                break
            time.sleep(0.01)
        process.kill()
        process.wait()
    stood = {path: path.stat().st_mtime_ns for path in (tmp_path / "v").glob("shard-*")}
    assert len(stood) >= 2
    done = fresh_process.run_together([script] * 2, fresh_process.environments_of_ranks(2))
    assert [result.returncode for result in done] == [0, 0], [result.stderr[-900:] for result in done]
    written = [int(re.search(rf"Process {rank} of 2: Wrote (\d+) of", done[rank - 1].stdout)[1]) for rank in (1, 2)]
    assert sum(written) + len(stood) == len(list((tmp_path / "v").glob("shard-*")))
    assert {path: path.stat().st_mtime_ns for path in stood} == stood
    assert_like(read(tmp_path / "v"), ElmoEmbedder(checkpoint, device="cpu").stream(LINES))


def test_the_state_is_carried_where_it_is_asked_for(arguments, tmp_path, checkpoint, capsys):
    text = ["Call it!", "", "Call it!"]
    (tmp_path / "two.txt").write_text("\n".join(text))
    embed(arguments("v.npz", input_file=str(tmp_path / "two.txt"), carry_state=True))
    assert "the state carried" in capsys.readouterr().out
    first, _, last = arrays = read(tmp_path / "v.npz")
    assert_like(arrays, ElmoEmbedder(checkpoint, device="cpu").embed_sentences(text, carry_state=True))
    assert np.abs(first - last).max() > 100 * REORDERED_FLOAT32


def test_words_of_a_list_get_layer_0(arguments, tmp_path):
    (tmp_path / "words.txt.gz").write_bytes(gzip.compress(b"the\n\nof\r\nthe\n"))
    given = {"vocab_file": str(tmp_path / "words.txt.gz"), "input_file": None}
    embed(arguments("v.txt", **given))
    assert read_word_vectors(tmp_path / "v.txt").words == ["the", "of"]


def test_raw_text_for_a_checkpoint_of_tokenized_text_is_warned_of(arguments, tmp_path, capsys):
    (tmp_path / "raw.txt").write_text("Call it, please. Then wait, and ask again.\n" * 3)
    for is_cut in (False, True):
        embed(arguments(f"{is_cut}", input_file=str(tmp_path / "raw.txt"), text_is_tokenized=is_cut))
        assert ("looks like raw text" in capsys.readouterr().err) == is_cut


MISTAKES = [
    ({"output_file": "v.npz"}, ("--output_dir", "--output_file")),
    ({"input_file": None}, ("--input_file", "--dataset_name")),
    ({"carry_state": True}, ("carry_state", "--output_file")),
    ({"output": "v.npz", "pooling": "mean"}, ("pooling", "--output_dir")),
    ({"format": "csv"}, "format"),
    ({"output_dir": "{}"}, ("output_dir", "not empty")),
    ({"input_file": "absent.txt"}, "input_file 'absent.txt'"),
    ({"max_words_per_shard": 0}, "max_words_per_shard is 0"),
    ({"layers": "last"}, "layers is 'last'"),
    ({"device": "gpu"}, "device 'gpu'"),
    ({"model_name_or_path": "absent"}, "model_name_or_path 'absent'"),
    ({"output": "old.npz"}, ("output_file", "--overwrite_output_file")),
    ({"output": "v.npz", "vocab_file": "{}/old.npz", "input_file": None}, ("output_file", ".bin")),
    ({"output": "v.bin", "vocab_file": "{}/old.npz", "input_file": None, "layers": "top"}, "layers is 'top'"),
    ({"output": "old.npz", "input_file": "{}/old.npz", "overwrite_output_file": True}, "input_file"),
]


def test_mistakes_are_named_in_one_line(arguments, tmp_path):
    (tmp_path / "old.npz").write_text("a")
    before = sorted(os.listdir(tmp_path))
    for changes, named in MISTAKES:
        given = {name: value.format(tmp_path) if isinstance(value, str) else value for name, value in changes.items()}
        message = assert_refused((ValueError, OSError), named, embed, arguments(**given))
        assert "\n" not in message and sorted(os.listdir(tmp_path)) == before, changes
