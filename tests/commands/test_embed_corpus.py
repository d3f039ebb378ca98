"""From a corpus to a directory of shards by the command: what it reads and says, several processes, and kills."""

import io
import json
import os
import tempfile
import time

import fresh_process
import numpy as np
import pytest
from conftest import make_tiny_config
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.commands.embed import EmbeddingArguments, main, run_embedding
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding_directory import EmbeddedCorpus

TEXT = "Call it !\n\nand / or\nand / or\n" + "".join(f"the {n} return values\n" for n in range(30))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("checkpoint"))
    ElmoModel(make_tiny_config()).save_pretrained(directory)
    ElmoCharTokenizer(pre_tokenizer="punctuation").save_pretrained(directory)
    return directory


@pytest.fixture
def arguments(tmp_path, checkpoint):
    """Arguments of a run that works, on the CPU, for each test to change."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")

    def make(**changes):
        given = {"input_file": str(tmp_path / "text.txt"), "output_dir": str(tmp_path / "v"), "device": "cpu"}
        return EmbeddingArguments(**{"model_name_or_path": checkpoint, **given, **changes})

    return make


def words_of(arguments, **changes):
    run_embedding(arguments(**changes))
    return [words for _, words, _ in EmbeddedCorpus(arguments().output_dir).sentences()]


def assert_right(directory, checkpoint, layers="mix"):
    lines = TEXT.splitlines()
    found = list(EmbeddedCorpus(directory).sentences())
    wanted = ElmoEmbedder(checkpoint, device="cpu").stream(lines, layers)
    assert [number for number, _, _ in found] == list(range(len(lines)))
    for (_, words, vectors), line, array in zip(found, lines, wanted, strict=True):
        assert "".join(words) == line.replace(" ", "")
        np.testing.assert_allclose(vectors, array, rtol=0, atol=REORDERED_FLOAT32)


def test_a_text_becomes_a_directory_of_shards(tmp_path, arguments, checkpoint, capsys):
    flags = {"model_name_or_path": checkpoint, "input_file": tmp_path / "text.txt", "output_dir": tmp_path / "v"}
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    main([*words, "--device", "cpu", "--max_words_per_shard", "50", "--layers", "top"])
    printed = capsys.readouterr()
    assert "Embedded 34 sentences of 129 words (top)" in printed.out and "Wrote 4 of 4 shards" in printed.out
    assert_right(tmp_path / "v", checkpoint, "top")
    main([*words, "--device", "cpu", "--max_words_per_shard", "50", "--layers", "top"])
    assert "nothing was left to do" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([*words, "--device", "cpu"])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and "begun with layers 'top'" in error and error.count("\n") == 1


def test_the_error_of_rounding_is_in_the_summary(arguments, capsys):
    summary = run_embedding(arguments(storage_dtype="int8"))
    assert f"by {summary.storage_error.relative:.1e} of their length" in capsys.readouterr().out
    assert 0 < summary.storage_error.relative < 0.02


def test_all_that_can_be_read(arguments, tmp_path, monkeypatch):
    cut = ["Call", "it", "!"]
    assert words_of(arguments)[0] == cut
    (tmp_path / "a.jsonl").write_text(json.dumps({"line": "Call it!"}) + "\n" + json.dumps({"line": ["Call", "it!"]}))
    options = {"input_file": str(tmp_path / "a.jsonl"), "text_column": "line", "overwrite_output_dir": True}
    assert words_of(arguments, **options) == [cut, ["Call", "it!"]]
    (tmp_path / "a.conll").write_text("Call O\nit! O\n\n\nBob B-PER\n")
    options = {"input_file": str(tmp_path / "a.conll"), "overwrite_output_dir": True}
    assert words_of(arguments, **options) == [["Call", "it!"], ["Bob"]]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.txt").write_text("Call it!\n")
    options = {"dataset_name": str(tmp_path / "data"), "dataset_split": "test", "overwrite_output_dir": True}
    assert words_of(arguments, input_file=None, **options) == [cut]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Call it!\n\n")))
    assert words_of(arguments, input_file="-", text_is_tokenized=True, overwrite_output_dir=True) == [
        ["Call", "it!"],
        [],
    ]


def test_columns_go_into_a_single_file_too(arguments, tmp_path):
    (tmp_path / "a.conll").write_text("Call O\nit! O\n\n\nBob B-PER\n")
    files = {"input_file": str(tmp_path / "a.conll"), "output_file": str(tmp_path / "v.npz"), "output_dir": None}
    run_embedding(arguments(**files))
    with np.load(tmp_path / "v.npz") as found:
        assert {name: found[name].shape for name in found} == {"0": (2, 12), "1": (1, 12)}


def test_two_processes_write_what_one_writes(arguments, tmp_path, checkpoint):
    flags = {"model_name_or_path": checkpoint, "input_file": tmp_path / "text.txt", "output_dir": tmp_path / "two"}
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    script = ["-m", "hf_elmo", "embed", *words, "--max_words_per_shard", 40, "--device", "cpu"]
    done = fresh_process.run_together([script] * 2, fresh_process.environments_of_ranks(2))
    assert [result.returncode for result in done] == [0, 0], done
    for rank, count, result in zip((1, 2), (3, 2), done, strict=True):
        assert f"Process {rank} of 2: Wrote {count} of 5 shards" in result.stdout
    assert_right(tmp_path / "two", checkpoint)
    run_embedding(arguments(max_words_per_shard=40))
    assert_right(tmp_path / "v", checkpoint)
    # Products may round otherwise in another process; all else is the same.
    sizes = [{path.name: path.stat().st_size for path in (tmp_path / name).glob("shard-*")} for name in ("v", "two")]
    assert len(sizes[0]) == 5 and sizes[0] == sizes[1]


@pytest.mark.slow
def test_accelerate_launches_it(arguments, tmp_path, checkpoint):
    arguments()  # writes the text
    flags = {"model_name_or_path": checkpoint, "input_file": tmp_path / "text.txt", "output_dir": tmp_path / "v"}
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    # Without MPI, accelerate starts one process where there are CPUs alone, whatever it is told.
    done = fresh_process.run(["-m", "accelerate.commands.launch", "--cpu", "-m", "hf_elmo", "embed", *words])
    assert done.returncode == 0 and "Wrote 1 of 1 shards" in done.stdout, done
    assert_right(tmp_path / "v", checkpoint)


def test_a_killed_run_goes_on_where_it_stood(arguments, tmp_path, checkpoint):
    flags = {"model_name_or_path": checkpoint, "input_file": tmp_path / "text.txt", "output_dir": tmp_path / "v"}
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    script = ["-m", "hf_elmo", "embed", *words, "--max_words_per_shard", 8, "--device", "cpu"]
    with tempfile.TemporaryFile() as output:
        process = fresh_process.start(script, output, output, env={**os.environ, "OMP_NUM_THREADS": "1"})
        for _ in range(6000):
            if len(list((tmp_path / "v").glob("shard-*"))) >= 2:
                break
            time.sleep(0.01)
        process.kill()
        process.wait()
    stood = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "v").glob("shard-*")}
    assert len(stood) >= 2
    summary = run_embedding(arguments(max_words_per_shard=8))
    # A shard that has its name but was not yet noted down is written again, and is the same.
    assert len(summary.written) + summary.num_skipped == summary.num_shards
    assert summary.num_skipped >= len(stood) - 1
    assert_right(tmp_path / "v", checkpoint)


def test_mistakes_are_named(arguments, tmp_path):
    for changes, named in (
        ({"output_dir": None}, ("--output_dir", "--output_file")),
        ({"output_file": "v.npz"}, ("--output_dir", "--output_file")),
        ({"input_file": None}, ("--input_file", "--dataset_name")),
        ({"dataset_name": "d"}, ("--input_file", "--dataset_name")),
        ({"carry_state": True}, ("carry_state", "--output_file")),
        ({"output_dir": None, "output_file": "v.npz", "pooling": "mean"}, ("pooling", "--output_dir")),
        ({"output_dir": None, "output_file": str(tmp_path / "v.npz"), "storage_dtype": "int8"}, "'int8'"),
        ({"layers": "last"}, "layers is 'last'"),
        ({"layers": "7"}, "layers is 7"),
        ({"format": "csv"}, "format"),
        ({"compression": "gzip", "format": "arrow"}, ("'gzip'", "arrow")),
        ({"input_file": "absent.txt"}, "absent.txt"),
        ({"output_dir": str(tmp_path)}, ("output_dir", "not empty")),
    ):
        assert_refused((ValueError, OSError), named, run_embedding, arguments(**changes))
        assert not (tmp_path / "v").exists(), changes
