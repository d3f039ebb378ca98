"""Every file that comes from elsewhere, altered in any way, is read or refused by an error of our own that names it.

With `make test-slow` each kind of file gets many more alterations.
"""

import gzip
import io
import json
import re
import resource
import shutil
import sys
import zipfile

import pytest
import torch
from accelerate.state import AcceleratorState
from allennlp_files import pack, write_archive
from bilm_tf_files import make_options, write_checkpoint
from conftest import make_tiny_config
from datasets import Dataset
from efml_files import write_model as write_efml
from efml_files import zip_directory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import assert_own_error
from run_cases import make_arguments, write_lines

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel, load_foreign
from hf_elmo.checkpoints.loading import load_config, load_model, load_tokenizer
from hf_elmo.conversion.alignment import read_matrices
from hf_elmo.conversion.bilm_tf import load_bilm_tf
from hf_elmo.conversion.bilm_tf_options import read_config
from hf_elmo.conversion.bilm_tf_softmax import read_word_softmax
from hf_elmo.conversion.bilm_tf_vocabulary import read_vocabulary
from hf_elmo.pretraining.digests import DIGESTS_FILE
from hf_elmo.pretraining.lane_trainer import LaneTrainer
from hf_elmo.pretraining.run import run_pretraining
from hf_elmo.pretraining.run_directory import checkpoints_in
from hf_elmo.tasks.readers.columns import read_tagged_file, tagged_from_dataset
from hf_elmo.tasks.readers.named_datasets import load_named_dataset
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.vocabulary import WordVocabulary
from hf_elmo.text.word_vectors import read_word_vectors

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")

# torch says it of a byte that was altered, before it reads on or refuses.
pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")

SLOW_FACTOR = 10
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "é", "a"]

# What is put in the place of a number, a string or a word, or between any two bytes.
PIECES = [
    *(
        b"",
        b"0",
        b"-1",
        b"3",
        b"50",
        b"1e999",
        b"NaN",
        b"0.5",
        b"true",
        b"null",
        b"[]",
        b"{}",
        b"99999999",
        b"9" * 5000,
    ),
    *(
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\n",
        b"\r",
        b"\t",
        b" ",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b'"',
        b"\\",
        b",",
        b"#",
    ),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"]" * 1000, b"a" * 100_000, b"\n" * 1000, b"\t" * 1000, b"-DOCSTART-"),
]
# What is put in the place of a value of JSON.
VALUES = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        3,
        50,
        10**6,
        10**12,
        10**400,
        0.5,
        -0.0,
        float("inf"),
        float("nan"),
        "",
        "a",
        "x" * 10**5,
    ),
    *(
        [],
        {},
        [1],
        [[1, 2]],
        [None],
        ["a", 1],
        {"a": 1},
        {"type": "token_classification"},
        [[0, -1]],
        {"1": "a", "0": None},
    ),
    *("../../etc/passwd", "\ud800", "float16", "relu", "ElmoModel", "F32", "torch"),
]
_PIECE = re.compile(rb'"[^"]*"|-?\d+(?:\.\d+)?|true|false|null|[^\s\[\]{},:"]+')

places = st.integers(0, 2**16 - 1).map(lambda place: place / 2**16)
byte_edits = st.one_of(
    st.tuples(st.just("flip"), places, st.integers(0, 7)),
    st.tuples(st.just("fill"), places, st.integers(1, 4000), st.integers(0, 255)),
    st.tuples(st.just("cut"), places),
    st.tuples(st.just("delete"), places, st.integers(1, 40)),
    st.tuples(st.just("double"), places, st.integers(1, 4000), st.sampled_from([1, 200])),
    st.tuples(st.just("insert"), places, st.sampled_from(PIECES)),
    st.tuples(st.just("replace"), places, st.sampled_from(PIECES)),
    st.tuples(st.just("all"), st.sampled_from(PIECES) | st.binary(max_size=50)),
)
# They leave the form as it is and change what it means.
value_edits = st.one_of(
    st.tuples(st.just("value"), places, st.sampled_from(VALUES)),
    st.tuples(st.just("value"), places, st.sampled_from(VALUES)),
    st.tuples(st.just("key"), places, st.sampled_from(["", "a", "type", "head", "auto_map", "quantization_config"])),
    st.tuples(st.just("value"), places, st.sampled_from(VALUES)),
)


def altered(content: bytes, edit: tuple) -> bytes:
    """The content with one edit, as `byte_edits` and `value_edits` draw them."""
    kind, *values = edit
    if kind == "all":
        return values[0]
    if kind in ("value", "key"):
        return altered_json(content, *edit)
    if kind == "replace":
        found = list(_PIECE.finditer(content))
        if not found:
            return content
        match = found[int(values[0] * len(found))]
        return content[: match.start()] + values[1] + content[match.end() :]
    at = int(values[0] * len(content))
    before, after = content[:at], content[at:]
    if kind == "cut":
        return before
    if kind == "insert":
        return before + values[1] + after
    if kind == "flip":
        return before + bytes([after[0] ^ 1 << values[1]]) + after[1:] if after else before
    part, rest = after[: values[1]], after[values[1] :]
    if kind == "fill":
        return before + bytes([values[2]]) * len(part) + rest
    return before + (b"" if kind == "delete" else part * (1 + values[2])) + rest


def altered_json(content: bytes, kind: str, place: float, new) -> bytes:
    """JSON, or one of the lines of JSON, with another value in one place, or another key before a value."""
    try:
        whole = [json.loads(line) for line in content.splitlines()]
        is_lines = True
    except ValueError:
        try:
            whole, is_lines = [json.loads(content)], False
        except ValueError:
            return content
    slots, todo = [], [whole]
    while todo:
        inside = todo.pop()
        for key in list(inside) if isinstance(inside, dict) else range(len(inside)):
            slots.append((inside, key))
            if isinstance(inside[key], (dict, list)):
                todo.append(inside[key])
    if not slots:
        return content
    inside, key = slots[int(place * len(slots))]
    if kind == "value":
        inside[key] = new
    elif isinstance(inside, dict):
        inside[new] = inside.pop(key)
    return b"\n".join(json.dumps(value).encode() for value in whole) + b"\n" * is_lines


class Kind:
    """A kind of file: how a good one is made, and what reads it.

    Args:
        file: Its name in the folder.
        write: Writes all files that are read together into a folder.
        read: Reads them; the altered file and the folder are what it gets.
        examples: How many alterations are tried in `make test`.
        named: What an error has to name; the file's own name by default.
        inside: Takes a part out of the file's bytes, and puts another one in: what is altered besides the whole.
    """

    def __init__(self, file, write, read, examples, named=None, inside=None):
        self.file, self.write, self.read, self.examples = file, write, read, examples
        self.named = named or file
        self.inside = inside


def header_of(content):
    """The header of safetensors, and the file with another one."""
    end = 8 + int.from_bytes(content[:8], "little")
    return content[8:end], lambda header: len(header).to_bytes(8, "little") + header + content[end:]


def pickle_of(content):
    """The pickle in what torch saves, and the file with another one."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith("data.pkl"))

    def with_pickle(data):
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for member, value in {**members, name: data}.items():
                archive.writestr(member, value)
        return written.getvalue()

    return members[name], with_pickle


def unpacked(content):
    """What gzip has packed, and the file with something else in it."""
    return gzip.decompress(content), gzip.compress


def whole(content):
    """All of a file."""
    return content, bytes


def write_bilm_tf(folder):
    write_checkpoint(folder, make_options())
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"] = torch.ones(len(WORDS), 6).numpy()
        file["softmax/b"] = torch.ones(len(WORDS)).numpy()
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")


def read_bilm_tf(path, folder):
    load_bilm_tf(folder / "options.json", folder / "weights.hdf5")


def read_softmax(path, folder):
    words = read_vocabulary(folder / "vocab.txt")
    read_word_softmax(folder / "softmax.hdf5", words, read_config(folder / "options.json"))


def write_model(folder):
    model = ElmoForPreTraining(make_tiny_config(word_vocab_size=len(WORDS)))
    model.words = WORDS
    model.save_pretrained(folder)
    ElmoCharTokenizer().save_pretrained(folder)


def write_pickled(folder):
    write_model(folder)
    model = ElmoForPreTraining.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def read_model(path, folder):
    load_model(ElmoForPreTraining, str(folder))
    load_model(ElmoModel, str(folder))


def write_many_langs(folder):
    write_efml(folder, softmax=True)


def write_many_langs_zip(folder):
    write_efml(folder / "inner", softmax=True)
    zip_directory(folder / "inner", folder / "model.zip")


def write_allennlp(folder):
    write_archive(folder, ElmoModel(make_tiny_config()))


def write_allennlp_archive(folder):
    write_allennlp(folder / "inner")
    pack(folder / "inner", folder / "model.tar.gz")


def read_foreign(path, folder):
    load_foreign(path if path.suffix in (".zip", ".gz") else folder)


def write_matrices(folder):
    torch.save(torch.eye(12), folder / "matrix.pth")


def read_tokenizer(path, folder):
    load_tokenizer(str(folder), load_config(str(folder)))(["the cat", "é"], padding=True)


def write_text(*files):
    def write(folder):
        for name, content in files:
            (folder / name).write_bytes(content)

    return write


def read_corpus(path, folder):
    for _ in corpus_from_files([str(path)]).sentences(str.split):
        pass


def write_table(folder):
    Dataset.from_dict({"text": [f"some text {number}" for number in range(300)]}).to_parquet(folder / "a.parquet")


def read_dataset(path, folder):
    for part in load_named_dataset(str(folder)).values():
        tagged_from_dataset(part, f"dataset_name {str(folder)!r}")


RECORDS = b"".join(json.dumps({"text": f"text {n}", "n": n, "x": [1, {"y": None}]}).encode() + b"\n" for n in range(20))
TAGGED = b"".join(json.dumps({"tokens": ["a", "b"], "ner_tags": ["O", "X"], "n": n}).encode() + b"\n" for n in range(3))
COLUMNS = b"-DOCSTART- -X- O\n\nThe DT O\ncat NN B-X\n\nIt PRP O\nsat VBD O\n"
CONLLU = b"# text = a\n1-2\tal\t_\t_\t_\t_\t_\t_\t_\t_\n" + b"".join(
    f"{n}\tw{n}\tw\tNOUN\t_\t_\t0\troot\t_\t_\n".encode() for n in (1, 2)
)
VECTORS = b"3 4\nthe 0.1 0.2 0.3 0.4\ncat 1 2 3 4\nsat -1e-3 0 0 1\n"

KINDS = [
    Kind("weights.hdf5", write_bilm_tf, read_bilm_tf, 60),
    Kind("options.json", write_bilm_tf, read_bilm_tf, 60),
    Kind("softmax.hdf5", write_bilm_tf, read_softmax, 30),
    Kind("vocab.txt", write_bilm_tf, read_softmax, 40, named="folder"),
    Kind("encoder.pkl", write_many_langs, read_foreign, 25, inside=pickle_of),
    Kind("sizes.json", write_many_langs, read_foreign, 25),
    Kind("word.dic", write_many_langs, read_foreign, 25, named="folder"),
    Kind("model.zip", write_many_langs_zip, read_foreign, 40),
    Kind("weights.th", write_allennlp, read_foreign, 25, named="folder"),
    Kind("config.json", write_allennlp, read_foreign, 25, named="config.json"),
    Kind("model.tar.gz", write_allennlp_archive, read_foreign, 40, inside=unpacked),
    Kind(
        "matrix.pth", write_matrices, lambda path, folder: read_matrices(["-", path, "-"], 3, 12), 25, inside=pickle_of
    ),
    Kind("config.json", write_model, read_model, 40, named="folder"),
    Kind("model.safetensors", write_model, read_model, 25, named="folder", inside=header_of),
    Kind("pytorch_model.bin", write_pickled, read_model, 25, named="folder", inside=pickle_of),
    Kind("tokenizer_config.json", write_model, read_tokenizer, 40),
    Kind("word_vocabulary.txt", write_model, lambda path, folder: WordVocabulary.load(folder), 60),
    Kind("a.conll", write_text(("a.conll", COLUMNS)), lambda path, folder: read_tagged_file(path), 100),
    Kind("a.conllu", write_text(("a.conllu", CONLLU)), lambda path, folder: read_tagged_file(path), 100),
    Kind("train.jsonl", write_text(("train.jsonl", TAGGED)), read_dataset, 12, named="folder"),
    Kind("a.jsonl", write_text(("a.jsonl", RECORDS)), read_corpus, 60),
    Kind("a.jsonl.gz", write_text(("a.jsonl.gz", gzip.compress(RECORDS))), read_corpus, 30, inside=unpacked),
    Kind("a.txt", write_text(("a.txt", b"some text\nmore\n" * 20)), read_corpus, 20),
    Kind("a.txt.gz", write_text(("a.txt.gz", gzip.compress(RECORDS))), read_corpus, 20, inside=unpacked),
    Kind("a.parquet", write_table, read_corpus, 30),
    Kind("a.vec", write_text(("a.vec", VECTORS)), lambda path, folder: read_word_vectors(path), 100),
]

efforts = pytest.mark.parametrize("effort", [1, pytest.param(SLOW_FACTOR, marks=pytest.mark.slow)])


def most_memory() -> int:
    """The most memory that this process has ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def check_alterations(path, read, examples, named, inside=whole):
    """Alter a file in many ways; what reads it must read it, or refuse it by an error of our own."""
    good, memory = path.read_bytes(), most_memory()
    part, put_in = inside(good)
    is_json = part.lstrip()[:1] in (b"{", b"[")
    changes = st.lists(byte_edits, min_size=1, max_size=2).map(lambda changes: (good, bytes, changes))
    changes |= st.lists(value_edits if is_json else byte_edits, min_size=1, max_size=2).map(
        lambda changes: (part, put_in, changes)
    )

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(changes)
    def check(change):
        content, finish, edits = change
        for edit in edits:
            content = altered(content, edit)
        path.write_bytes(finish(content))
        try:
            read()
        except Exception as error:
            assert_own_error(error, named)

    try:
        check()
    finally:
        path.write_bytes(good)
    assert most_memory() - memory < 2**30


@efforts
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.file)
def test_what_is_altered_is_read_or_refused_by_name(tmp_path, kind, effort):
    folder = tmp_path / "folder"
    folder.mkdir()
    kind.write(folder)
    path = folder / kind.file
    kind.read(path, folder)
    check_alterations(path, lambda: kind.read(path, folder), kind.examples * effort, kind.named, kind.inside or whole)


class GoneOn(Exception):
    """A run got as far as its first step."""


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A checkpoint of a run as a stranger writes it: without digests; and what goes on from it to its first step."""
    AcceleratorState._reset_state(reset_partial_state=True)
    write_lines(tmp_path)
    changes = {"save_steps": 3, "eval_steps": 3, "skip_baselines": True}
    run_pretraining(make_arguments(tmp_path, max_steps=3, **changes), report=lambda line: None)
    found = shutil.move(checkpoints_in(tmp_path / "out")[3], tmp_path / "checkpoint-3")
    shutil.rmtree(tmp_path / "out")
    (found / DIGESTS_FILE).unlink()

    def stop(trainer):
        raise GoneOn

    monkeypatch.setattr(LaneTrainer, "train", stop)
    arguments = make_arguments(tmp_path, max_steps=3, resume_from_checkpoint=str(found), **changes)

    def go_on():
        with pytest.raises(GoneOn):
            run_pretraining(arguments, report=lambda line: None)

    yield found, go_on
    AcceleratorState._reset_state(reset_partial_state=True)


FILES = {
    "trainer_state.json": whole,
    "optimizer.pt": pickle_of,
    "rank-0.pt": pickle_of,
    "model.safetensors": header_of,
    "config.json": whole,
    "word_vocabulary.txt": whole,
}


@efforts
def test_a_checkpoint_of_a_run_is_gone_on_from_or_refused_by_name(checkpoint, effort):
    directory, go_on = checkpoint
    go_on()
    for name, inside in FILES.items():
        check_alterations(directory / name, go_on, 10 * effort, directory.name, inside)
