"""Every kind of file that comes from elsewhere: how a good one is made, and what reads it."""

import dataclasses
import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp_files import pack, write_archive
from bilm_tf_files import make_options, wanted_shapes, write_checkpoint
from conftest import ROOT, make_tiny_config
from datasets import Dataset
from elmoformanylangs_files import write_model as write_elmoformanylangs
from elmoformanylangs_files import zip_directory
from refusals import assert_read_or_refused
from tensor_bundles import variables_of, write_bundle

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoModel, load_external
from hf_elmo.conversion.alignment import align_layers
from hf_elmo.hub import CONFIG_FILE, FACTS_FILE, RESULTS_FILE, TOKENIZER_FILE
from hf_elmo.hub.cards import render_card
from hf_elmo.hub.loading import load_config, load_model, load_tokenizer
from hf_elmo.hub.provenance import write_json
from hf_elmo.inference.embedding_files import read_words
from hf_elmo.inference.word_uses import holds_senses, read_senses
from hf_elmo.tasks.data import load_named_dataset
from hf_elmo.tasks.readers.columns import read_tagged_file, tagged_from_dataset
from hf_elmo.tasks.readers.documents import read_documents
from hf_elmo.tasks.readers.propositions import read_propositions
from hf_elmo.tasks.readers.questions import read_questions
from hf_elmo.tasks.readers.texts import read_texts
from hf_elmo.text.arguments import CuttingArguments, check_cutting
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.vocabulary import VOCABULARY_FACTS_FILE, VOCABULARY_FILE, WordVocabulary
from hf_elmo.text.word_vectors import read_word_vectors

h5py = pytest.importorskip("h5py", reason="bilm-tf weights are hdf5 files")

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "é", "a"]

Inside = Callable[[bytes], tuple[bytes, Callable[[bytes], bytes]]]


def whole(content):
    """All of a file."""
    return content, bytes


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


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of file."""

    file: str  # what it is called in its folder
    write: Callable[[Path], Any] | bytes  # its bytes, or what writes all files that are read together into a folder
    read: Callable[[Path], Any]  # reads them; it gets the path of the altered file
    named: str = ""  # what an error has to name; the file by default, "folder" the folder
    inside: Inside = whole  # takes a part out of its bytes, and puts another one in: what is altered besides the whole
    examples: int = 8  # how many alterations are tried in `make test`
    name: str = ""  # tells it from the others, where the file's own does not

    def prepare(self, folder):
        """Write a good file into a new folder, read it, and return its path."""
        folder.mkdir()
        path = folder / self.file
        if isinstance(self.write, bytes):
            path.write_bytes(self.write)
        else:
            self.write(folder)
        self.read(path)
        return path

    def check(self, path):
        """Check that the file is read or refused by name, whatever it holds by now."""
        assert_read_or_refused(lambda: self.read(path), self.named or self.file)


# Models of other programs


def write_bilm_tf(folder):
    write_checkpoint(folder, make_options())
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"] = torch.ones(len(WORDS), 6).numpy()
        file["softmax/b"] = torch.ones(len(WORDS)).numpy()
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")


def write_bundle_of_bilm_tf(folder):
    options = make_options()
    random = np.random.default_rng(0)
    arrays = {key: random.uniform(-1, 1, shape).astype("f4") for key, shape in wanted_shapes(options).items()}
    write_bundle(folder, variables_of(arrays) | {"global_step": np.array(7)}, "model")
    (folder / "options.json").write_text(json.dumps(options))


def write_simple_elmo(folder):
    write_checkpoint(folder, make_options())
    (folder / "weights.hdf5").rename(folder / "model.hdf5")
    (folder / "vocab.txt").write_text("the\ncat\n")


def write_many_langs(folder):
    write_elmoformanylangs(folder, softmax=True)


def write_allennlp(folder):
    write_archive(folder, ElmoModel(make_tiny_config()))


def packed(write, pack, name):
    """What writes an archive of a folder."""
    return lambda folder: (write(folder / "inner"), pack(folder / "inner", folder / name))


def read_external(path):
    load_external(path if path.suffix in (".zip", ".gz") else path.parent)


def write_matrices(folder):
    torch.save(torch.eye(12), folder / "matrix.pth")
    np.save(folder / "matrix.npy", np.eye(12, dtype=np.float32))
    np.savetxt(folder / "matrix.txt", np.eye(12, dtype=np.float32), fmt="%g")


def read_matrix(path):
    align_layers(ElmoModel(make_tiny_config()), ["-", path, "-"])


# Checkpoints and their cards


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


def read_model(path):
    load_model(ElmoForPreTraining, str(path.parent))
    load_model(ElmoModel, str(path.parent))


def read_tokenizer(path):
    folder = str(path.parent)
    load_tokenizer(folder, load_config(folder))(["the cat", "é"], padding=True)


def write_recipe(folder):
    recipe = ROOT / "model_cards" / "elmo-small-novels"
    others = ("senses.json", "first-run.json", "spelling.json")
    for file in (CONFIG_FILE, RESULTS_FILE, TOKENIZER_FILE, FACTS_FILE, *others):
        shutil.copy(recipe / file, folder / file)


def in_its_folder(read):
    """What reads the folder of a file."""
    return lambda path: read(path.parent)


# Text


def read_corpus(path):
    for _ in corpus_from_files([str(path)]).sentences(str.split):
        pass


def read_lines_or_words(path):
    for _ in corpus_from_files([str(path)], takes_words=True).lines():
        pass


def table_of(column):
    """What writes a Parquet file with one column of texts."""
    return lambda folder: Dataset.from_dict({"text": column}).to_parquet(folder / "words.parquet")


def write_zip(folder):
    with zipfile.ZipFile(folder / "vectors.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glove.6B.4d.txt", VECTORS)


def write_word_list(folder):
    WordVocabulary(WORDS).save(folder)
    write_json(folder / VOCABULARY_FACTS_FILE, CuttingArguments().cutting)


def read_facts_of_words(path):
    check_cutting(path.parent / VOCABULARY_FILE, CuttingArguments().cutting)


# Annotated text


def read_dataset(path):
    for part in load_named_dataset(str(path.parent)).values():
        tagged_from_dataset(part, f"dataset_name {str(path.parent)!r}")


def read_squad(path):
    read_questions(path)
    read_questions(path, keeps_unanswered=True)


def read_uses(path):
    holds_senses(str(path))
    read_senses(str(path))


def write_pairs(folder):
    rows = {"premise": ["a b"] * 9, "hypothesis": ["c"] * 9, "label": [0, 1, 2] * 3}
    Dataset.from_dict(rows).to_parquet(folder / "pairs.parquet")


def records(*values):
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


RECORDS = records(*({"text": f"text {n}", "n": n, "x": [1, {"y": None}]} for n in range(20)))
TAGGED = records(*({"tokens": ["a", "b"], "ner_tags": ["O", "X"], "n": n} for n in range(3)))
COLUMNS = b"-DOCSTART- -X- O\n\nThe DT O\ncat NN B-X\n\nIt PRP O\nsat VBD O\n"
CONLLU = b"# text = a\n1-2\tal\t_\t_\t_\t_\t_\t_\t_\t_\n" + b"".join(
    f"{n}\tw{n}\tw\tNOUN\t_\t_\t0\troot\t_\t_\n".encode() for n in (1, 2)
)
VECTORS = b"3 4\nthe 0.1 0.2 0.3 0.4\ncat 1 2 3 4\nsat -1e-3 0 0 1\n"
ROLES = (
    b"Bush\tNNP\t-\t(ARG0*)\t*\nwants\tVBZ\twant.01\t(V*)\t*\nto\tTO\t-\t(ARG1*\t(ARG0*)\n"
    b"go\tVB\tgo.01\t*)\t(V*)\n\nYes\tUH\t-\n"
)
# Roles stand in it and clusters of mentions, too.
CONLL_2012 = b"""#begin document (a/x); part 000
a/x 0 0 He PRP (S* - - - Bob (X) (ARG0*) * (3)|(4
a/x 0 1 has VBZ * have 01 1 Bob * (V*) * 4)
a/x 0 2 come VBN * come 03 2 Bob * * (V*) -

a/x 0 0 It PRP * - - - - * (3)
#end document
"""
QUESTIONS = [
    {"id": "a", "question": "Who?", "answers": [{"text": "Tom", "answer_start": 0}]},
    {"id": 7, "question": "Why?", "answers": [], "is_impossible": True},
]
SQUAD = {"data": [{"title": "Cats", "paragraphs": [{"context": "Tom sat.", "qas": QUESTIONS}]}]}
TREES = b"(3 (2 It) (3 (4 (2 's) (4 good)) (2 .)))\n(1 (2 -LRB-) (1 (1 bad\\/sad) (2 -RRB-)))\n"
TABLE = b"sentence\tlabel\tidx\nIt was good\t1\t0\nBad\t0\t1\n"
COMMAS = b'review,stars\n"a, ""b""\nc",1\nd,2\n'
PAIRS = records(*({"sentence1": "a b", "sentence2": "c", "gold_label": label} for label in ("x", "-", "y")))
SENSES = records(*({"tokens": ["a", "word"], "index": 1, "sense": sense} for sense in ("s", "t")))
LISTS_OF_WORDS = records(*({"text": text} for text in ("a b", ["c", "d"], None)))

KINDS = [
    Kind("weights.hdf5", write_bilm_tf, read_external, examples=30),
    Kind("options.json", write_bilm_tf, read_external, examples=30),
    Kind("softmax.hdf5", write_bilm_tf, read_external, examples=15),
    Kind("vocab.txt", write_bilm_tf, read_external, "folder", examples=20),
    Kind("model.index", write_bundle_of_bilm_tf, read_external, "folder"),
    Kind("160.zip", packed(write_simple_elmo, zip_directory, "160.zip"), read_external),
    Kind("encoder.pkl", write_many_langs, read_external, inside=pickle_of, examples=13),
    Kind("sizes.json", write_many_langs, read_external, examples=13),
    Kind("word.dic", write_many_langs, read_external, "folder", examples=13),
    Kind("char.dic", write_many_langs, read_external, "folder"),
    Kind("model.zip", packed(write_many_langs, zip_directory, "model.zip"), read_external, examples=20),
    Kind("weights.th", write_allennlp, read_external, "folder", examples=13),
    Kind("config.json", write_allennlp, read_external, examples=13, name="experiment.json"),
    Kind("model.tar.gz", packed(write_allennlp, pack, "model.tar.gz"), read_external, inside=unpacked, examples=20),
    Kind("matrix.pth", write_matrices, read_matrix, inside=pickle_of, examples=13),
    Kind("matrix.npy", write_matrices, read_matrix),
    Kind("matrix.txt", write_matrices, read_matrix),
    Kind("config.json", write_model, read_model, "folder", examples=20),
    Kind("model.safetensors", write_model, read_model, "folder", header_of, 25),
    Kind("pytorch_model.bin", write_pickled, read_model, "folder", pickle_of, 25),
    Kind("tokenizer_config.json", write_model, read_tokenizer, examples=20),
    Kind(FACTS_FILE, write_recipe, in_its_folder(render_card), "folder"),
    Kind(RESULTS_FILE, write_recipe, in_its_folder(render_card), "folder"),
    Kind("senses.json", write_recipe, in_its_folder(render_card), "folder"),
    Kind(CONFIG_FILE, write_recipe, in_its_folder(render_card), "folder", name="card-config.json"),
    Kind("word_vocabulary.txt", write_model, in_its_folder(WordVocabulary.load), examples=30),
    Kind(VOCABULARY_FACTS_FILE, write_word_list, read_facts_of_words, "folder"),
    Kind("a.jsonl", RECORDS, read_corpus, examples=30),
    Kind("a.jsonl.gz", gzip.compress(RECORDS), read_corpus, inside=unpacked, examples=30),
    Kind("a.txt", b"some text\nmore\n" * 20, read_corpus, examples=10),
    Kind("a.txt.gz", gzip.compress(RECORDS), read_corpus, inside=unpacked, examples=20),
    Kind("words.parquet", table_of([f"some text {n}" for n in range(300)]), read_corpus, examples=15, name="a.parquet"),
    Kind("words.conll", COLUMNS, read_lines_or_words),
    Kind("words.conllu", CONLLU, read_lines_or_words),
    Kind("words.jsonl", LISTS_OF_WORDS, read_lines_or_words),
    Kind("words.parquet", table_of([["some", "text"]] * 9), read_lines_or_words),
    Kind("words.txt", b"the\ncat\n", read_words),
    Kind("a.vec", VECTORS, read_word_vectors, examples=50),
    Kind("vectors.zip", write_zip, read_word_vectors),
    Kind("a.conll", COLUMNS, read_tagged_file, examples=50),
    Kind("a.conllu", CONLLU, read_tagged_file, examples=50),
    Kind("train.jsonl", TAGGED, read_dataset, "folder", examples=6),
    Kind("roles.tsv", ROLES, read_propositions),
    Kind("roles.conll", CONLL_2012, read_propositions),
    Kind("clusters.conll", CONLL_2012, read_documents),
    Kind("squad.json", json.dumps(SQUAD).encode(), read_squad),
    Kind("a.trees", TREES, read_texts),
    Kind("sentences.tsv", TABLE, read_texts),
    Kind("sentences.csv", COMMAS, read_texts),
    Kind("pairs.jsonl", PAIRS, read_texts),
    Kind("pairs.parquet", write_pairs, read_texts),
    Kind("senses.jsonl", SENSES, read_uses),
]
