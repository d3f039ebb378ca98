"""What a directory of vectors says of itself is read, or refused by its name."""

import json
import shutil
from itertools import count

import numpy as np
import pytest
from refusals import assert_refused

from hf_elmo.checkpoints.provenance import write_json
from hf_elmo.inference import embedding_directory
from hf_elmo.inference.embedding_directory import MANIFEST_FILE, EmbeddedCorpus, EmbeddingDirectory, ShardRecord
from hf_elmo.inference.shard_files import ShardBatch, open_shard
from hf_elmo.inference.stored_numbers import store_numbers

SETTINGS = {
    **{"checkpoint": "elmo", "checkpoint_sha256": "0", "num_layers": 1, "columns": ["vectors"], "format": "parquet"},
    **{"layers": "mix", "pooling": "none", "keep_markers": False},
}
SHARD = {
    **{"number": 0, "file": "shard-00000.parquet", "first_sentence": 0, "num_sentences": 1, "num_words": 2},
    **{"num_bytes": 9, "text_sha256": "0", "squared_error": 0.0, "squared_norm": 1.0, "largest_error": 0},
}


@pytest.fixture
def folder(tmp_path):
    vectors = {"vectors": store_numbers(np.ones((2, 3), dtype=np.float32), "float32")}
    batch = ShardBatch(np.arange(1), np.array([2]), ["a", "b"], np.zeros((2, 2), dtype=np.int32), vectors)
    with open_shard(tmp_path / SHARD["file"], "parquet") as write:
        write(batch)
    return tmp_path


def write(folder, shards=(SHARD,), **settings):
    write_json(folder / MANIFEST_FILE, {"kind": "hf_elmo vectors", "settings": SETTINGS | settings, "shards": shards})


def read(folder):
    return [words for _, words, _ in EmbeddedCorpus(folder).sentences()]


def test_a_manifest_of_another_form_is_refused_by_the_directory(folder):
    write(folder)
    assert read(folder) == [["a", "b"]]
    for changes, named in (
        ({"shards": [{**SHARD, "file": "../shard"}]}, "../shard"),
        ({"shards": [{**SHARD, "number": "0"}]}, "shard"),
        ({"shards": [{**SHARD, "more": 1}]}, "shard"),
        ({"shards": ["shard-00000.parquet"]}, "shard"),
        ({"shards": {}}, MANIFEST_FILE),
        ({"columns": []}, "columns"),
        ({"columns": [3]}, "columns"),
        ({"columns": ["layer_0"]}, "layer_0"),
        ({"format": "csv"}, "'csv'"),
        ({"keep_markers": None}, "keep_markers"),
        ({"num_layers": "x" * 5000}, "num_layers"),
    ):
        write(folder, **changes)
        assert len(assert_refused(ValueError, (folder.name, named), read, folder)) < 500


def test_a_note_of_another_form_is_refused_by_the_directory(folder):
    write(folder, None)
    (folder / ".finished").mkdir()
    (folder / ".finished" / "00000.json").write_text(json.dumps({**SHARD, "file": 3}))
    assert_refused(ValueError, folder.name, EmbeddingDirectory(folder, SETTINGS).finished)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_another_process_may_complete_the_directory_while_this_one_reads_the_notes(folder, monkeypatch, place):
    shutil.copy(folder / SHARD["file"], folder / "shard-00001.parquet")
    write(folder, None)
    ours, other = EmbeddingDirectory(folder, SETTINGS), EmbeddingDirectory(folder, SETTINGS)
    for number in (0, 1):
        other.note(ShardRecord(**SHARD | {"number": number, "file": f"shard-{number:05d}.parquet"}))
    read_object, reads = embedding_directory._read_object, count()

    def read_late(file):
        if next(reads) == place:
            with monkeypatch.context() as patch:
                patch.setattr(embedding_directory, "_read_object", read_object)
                assert other.complete(2)
        return read_object(file)

    monkeypatch.setattr(embedding_directory, "_read_object", read_late)
    assert sorted(ours.finished()) == [0, 1]
    assert next(reads) > place and ours.complete(2)
