"""Files of vectors: shards of a corpus, an array per sentence in HDF5 or npz, and word2vec's formats for words alone.

A directory of shards, Arrow or Parquet files, holds `settings.json` and `shard-00000.arrow` and so on, a row per
sentence. Several processes write it, a run that was killed resumes, and `load_embeddings` reads it. The columns:
- `sentence_id`, the sentence's number in the corpus, from 0;
- `words`, (words,);
- `starts` and `ends`, (words,): the first character of each word in its line and the one behind its last;
- `vectors`, (words, D), or `vector`, (D,), where sentences are pooled; with layers "all", `layer_0`, `layer_1`, ... of
  the same shapes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, concatenate_datasets
from pyarrow import parquet

from ..given import quoted, read_json, require
from ..hub.provenance import write_json
from ..hub.writing import check_output_file, files_written_aside, open_to_readers
from ..text.arguments import cutting_of
from ..text.corpora import Sentence, count_words
from ..text.files import decoded_lines
from .embedder import ElmoEmbedder, place_words, pool_words, runs

ARRAY_SUFFIXES = (".hdf5", ".h5", ".npz")
WORD_SUFFIXES = (".bin", ".txt", ".vec")
SETTINGS_FILE = "settings.json"
_KIND = "hf_elmo vectors"
# Sentences of a record batch or row group.
_SENTENCES_AT_A_TIME = 256

# Shards


def read_settings(directory: str | os.PathLike) -> dict[str, Any]:
    """What the vectors of a directory are, as `EmbeddingWriter` describes them."""
    file = Path(directory) / SETTINGS_FILE
    settings = read_json(file, repr(str(file))) if file.is_file() else None
    if not isinstance(settings, dict) or settings.get("kind") != _KIND:
        raise ValueError(f"{str(file)!r} is not of vectors that `hf-elmo embed` wrote; name a directory of these.")
    return settings


def load_embeddings(directory: str | os.PathLike) -> Dataset:
    """The vectors that `hf-elmo embed --output_dir` wrote, a row per sentence of the corpus in its order.

    Arrow shards are memory-mapped; of Parquet shards `datasets` makes a mapped copy in its cache. In blocks:

        for table in load_embeddings(directory).with_format("arrow").iter(batch_size=512):
            vectors = vectors_of(table[column])  # (words of the block, D)

    Raises: ValueError naming the directory where shards are missing or damaged.
    """
    settings = read_settings(directory)
    suffix = settings["format"]
    shards = [str(Path(directory) / f"shard-{number:05d}.{suffix}") for number in range(settings["num_shards"])]
    if not all(map(os.path.isfile, shards)):
        raise ValueError(f"{str(directory)!r} is not complete; run the `hf-elmo embed` that began it again to resume.")
    try:
        if suffix == "parquet":
            return Dataset.from_parquet(shards)
        return concatenate_datasets(list(map(Dataset.from_file, shards)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{str(directory)!r} has a damaged shard ({error}); embed the text again.") from error


def vectors_of(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """The vectors of a column of `load_embeddings` one after another, (words or sentences, D), float32."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    while pa.types.is_list(column.type):
        column = column.flatten()
    numbers = column.flatten().to_numpy(zero_copy_only=False)
    return numbers.reshape(-1, column.type.list_size).astype(np.float32, copy=False)


def digest_of_checkpoint(embedder: ElmoEmbedder) -> str:
    """A digest of all that a checkpoint's vectors depend on: weights, config and tokenizer."""
    config = embedder.model.config.to_dict()
    for key in ("_name_or_path", "transformers_version", "architectures", "dtype"):
        config.pop(key, None)
    tokenizer = [cutting_of(embedder.tokenizer), embedder.tokenizer.characters]
    digest = hashlib.sha256(json.dumps([config, tokenizer], sort_keys=True, default=str).encode())
    for name, tensor in sorted(embedder.model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class EmbeddingSettings:
    """What is written of each sentence, and how."""

    layers: str | int = "mix"  # as of `ElmoEmbedder`
    pooling: str = "none"  # as of `pool_words`
    text_is_tokenized: bool = False  # whether the words of a line stand between white space
    storage_dtype: Literal["float32", "float16"] = "float32"
    format: Literal["arrow", "parquet"] = "arrow"
    max_words_per_shard: int = 65536  # words between white space, and two for each sentence, at which a shard is full


class Written(NamedTuple):
    """A shard that was written."""

    file: Path
    num_sentences: int
    num_words: int  # that have vectors


class EmbeddingWriter:
    """Writes the vectors of a corpus into a directory, shard by shard, of which one is held in memory.

    A shard appears under its name when it is complete: a run that was killed resumes when it is started again. On one
    machine, with as many threads, a shard has the same bytes whichever run or process writes it.

    Args:
        embedder: It reads a shard ahead as a whole from now on, so that each of its distinct words is encoded once.
        read: Gives the lines and lists of words from their beginning; called twice.
        rank, num_ranks: Which of how many processes this is; each writes every `num_ranks`-th shard.
    """

    def __init__(
        self,
        embedder: ElmoEmbedder,
        output_dir: str,
        settings: EmbeddingSettings,
        read: Callable[[], Iterable[Sentence]],
        rank: int = 0,
        num_ranks: int = 1,
    ):
        embedder.stream([], settings.layers)
        embedder.max_words_per_buffer = settings.max_words_per_shard
        self.embedder, self.path, self.settings, self.read = embedder, Path(output_dir), settings, read
        self.rank, self.num_ranks = rank, num_ranks
        self.columns = ["vectors" if settings.pooling == "none" else "vector"]
        if settings.layers == "all":
            self.columns = [f"layer_{number}" for number in range(embedder.num_layers)]
        text, self.num_shards = hashlib.sha256(), 0
        for sentences in self._shards():
            self.num_shards += 1
            for each in sentences:
                line = f"\n{each}" if isinstance(each, str) else "\n\n" + "\0".join(each)
                text.update(line.encode("utf-8", "surrogatepass"))
        self._described = {
            "kind": _KIND,
            "checkpoint": embedder.name,
            "checkpoint_sha256": digest_of_checkpoint(embedder),
            "text_sha256": text.hexdigest(),
            "dtype": str(embedder.model.dtype).removeprefix("torch."),
            "vector_size": embedder.vector_size,
            "num_layers": embedder.num_layers,
            **asdict(settings),
            "columns": self.columns,
            "num_shards": self.num_shards,
        }

    def _shards(self) -> Iterator[list[Sentence]]:
        # The same text is cut alike in every run, by however many processes.
        return runs(self.read(), lambda sentence: count_words(sentence) + 2, self.settings.max_words_per_shard)

    def prepare(self, overwrite: bool = False) -> None:
        """Make the directory, or check that it was begun with this text and these settings; the first process first.

        Raises: FileExistsError where it holds something else; ValueError naming the first setting that differs.
        """
        if (self.path / SETTINGS_FILE).exists():
            begun = read_settings(self.path)
            # What killed processes left; when the others come, the first one may be writing already.
            for left in self.path.glob(".shard-*") if not self.rank else ():
                shutil.rmtree(left)
            if not overwrite:
                for name, now in self._described.items():
                    # Where the checkpoint lay does not matter: what it holds is compared by its digest.
                    if name != "checkpoint" and begun.get(name) != now:
                        raise ValueError(
                            f"output_dir {str(self.path)!r} was begun with {name} {begun.get(name)!r}, and now it is "
                            f"{now!r}; resume with the same text, checkpoint and settings, name another directory, or "
                            "pass --overwrite_output_dir to begin anew."
                        )
                return
            for file in (*self.path.glob("shard-*"), self.path / SETTINGS_FILE):
                file.unlink()
        elif self.path.is_dir() and any(self.path.iterdir()):
            # Whoever writes into a directory of something else does not mean to replace that.
            raise FileExistsError(
                f"output_dir {str(self.path)!r} is not empty and has no vectors of `hf-elmo embed`; name another one."
            )
        with files_written_aside(self.path / SETTINGS_FILE) as (aside,):
            write_json(aside, self._described)

    def missing(self) -> list[int]:
        """The numbers of the shards that are not there, whichever process is to write them."""
        return [number for number in range(self.num_shards) if not self._file(number).exists()]

    def left(self) -> list[int]:
        """The numbers of those that this process has to write."""
        return [number for number in self.missing() if number % self.num_ranks == self.rank]

    def write(self) -> Iterator[Written]:
        """Embed the shards that are left and write each; FloatingPointError where a number is too large for float16."""
        left, first = set(self.left()), 0
        for number, sentences in enumerate(self._shards()):
            if number in left:
                target, table = self._file(number), self._embed(first, sentences)
                with files_written_aside(target) as (aside,):
                    if self.settings.format == "parquet":
                        how: Any = {"use_dictionary": False, "write_statistics": ["sentence_id"]}
                        parquet.write_table(table, aside, row_group_size=_SENTENCES_AT_A_TIME, **how)
                    else:
                        with pa.ipc.new_stream(str(aside), table.schema) as file:
                            file.write_table(table, _SENTENCES_AT_A_TIME)
                    open_to_readers(aside.parent)
                yield Written(target, len(sentences), pc.sum(pc.list_value_length(table["words"])).as_py())
            first += len(sentences)

    def _file(self, number: int) -> Path:
        return self.path / f"shard-{number:05d}.{self.settings.format}"

    def _embed(self, first: int, sentences: Sequence[Sentence]) -> pa.Table:
        placed = [self._place(sentence) for sentence in sentences]
        # A stream for each shard: a word's last bits depend on the words that it is encoded with, and the bytes of a
        # shard must not depend on what this process has met before.
        arrays = self.embedder.stream((words for words, _ in placed), self.settings.layers)
        vectors = [pool_words(array, self.settings.pooling) for array in arrays]
        columns = {
            "sentence_id": pa.array(range(first, first + len(placed)), pa.int64()),
            "words": pa.array([words for words, _ in placed], pa.list_(pa.string())),
        }
        for side, name in enumerate(("starts", "ends")):
            columns[name] = pa.array([[each[side] for each in offsets] for _, offsets in placed], pa.list_(pa.int32()))
        for layer, name in enumerate(self.columns):
            columns[name] = self._column([each[layer] if len(self.columns) > 1 else each for each in vectors])
        return pa.table(columns)

    def _place(self, sentence: Sentence) -> tuple[list[str], list[tuple[int, int]]]:
        if isinstance(sentence, str):
            return place_words(sentence, self.embedder.tokenizer, self.settings.text_is_tokenized)[:2]
        # Where they would stand between single spaces.
        ends = list(itertools.accumulate(len(word) + 1 for word in sentence))
        return sentence, [(end - 1 - len(word), end - 1) for word, end in zip(sentence, ends, strict=True)]

    def _column(self, vectors: list[np.ndarray]) -> pa.Array:
        with np.errstate(over="raise"):
            numbers = np.concatenate([each.ravel() for each in vectors]).astype(self.settings.storage_dtype)
        column = pa.FixedSizeListArray.from_arrays(pa.array(numbers), self.embedder.vector_size)
        if self.settings.pooling != "none":
            return column
        ends = np.cumsum([0, *map(len, vectors)], dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), column)


# Single files


def check_embedding_file(output_file: str | os.PathLike, suffixes: Sequence[str], overwrite: bool = False) -> Path:
    """The path of a file that vectors can be written to, `ARRAY_SUFFIXES` or `WORD_SUFFIXES` being its formats."""
    suffix = Path(output_file).suffix
    if suffix not in suffixes:
        raise ValueError(
            f"output_file {str(output_file)!r} ends in {suffix!r}; it must end in one of {', '.join(suffixes)}. Arrow "
            "and Parquet are written as shards, into an output_dir."
        )
    if suffix in (".hdf5", ".h5"):
        require("h5py", "hdf5 files", "conversion")
    return check_output_file(output_file, overwrite)


def write_embeddings(
    target: Path, arrays: Iterable[np.ndarray], sentences: Iterable[str] = (), dtype: str = "float32"
) -> tuple[int, int]:
    """Write an array per sentence under its number, "0", "1" and so on; the file appears when it is complete.

    HDF5 has the layout of bilm-tf's dump and of AllenNLP's `elmo` command, `sentence_to_index` with it: a JSON object
    from the sentences, which are looked at in the end, to the names of their arrays, of equal ones the last.

    Returns: How many sentences and how many words were written.
    Raises: FloatingPointError where a number is too large for float16.
    """
    num_sentences = num_words = 0
    with files_written_aside(target) as (aside,), _open_arrays(aside) as put:
        for array in arrays:
            with np.errstate(over="raise"):
                put(str(num_sentences), array.astype(dtype, copy=False))
            num_sentences += 1
            num_words += array.shape[-2]
        if target.suffix != ".npz":
            put("sentence_to_index", [json.dumps({text: str(number) for number, text in enumerate(sentences)})])
    return num_sentences, num_words


@contextmanager
def _open_arrays(path: Path) -> Iterator[Callable[[str, Any], object]]:
    if path.suffix == ".npz":
        # np.savez would hold all arrays at once.
        with zipfile.ZipFile(path, "w") as archive:

            def put(name: str, array: np.ndarray) -> None:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array)

            yield put
        return
    h5py = require("h5py", "hdf5 files", "conversion")
    with h5py.File(path, "w") as file:
        yield lambda name, array: file.create_dataset(name, data=array)


def read_words(file: str | os.PathLike, name: str = "vocab_file") -> list[str]:
    """The words of a file, one per line, each once; ValueError names a line with white space inside, or not UTF-8."""
    words: dict[str, None] = {}
    for number, line in decoded_lines(file, name):
        word = line.strip()
        if len(word.split()) > 1:
            where = f"{name} {str(file)!r}, line {number}"
            raise ValueError(f"{where} holds {quoted(word)}; wanted one word per line, without white space inside.")
        if word:
            words[word] = None
    if not words:
        raise ValueError(f"{name} {str(file)!r} holds no words; give a file with a word per line.")
    return list(words)


def write_word_vectors(embedder: ElmoEmbedder, words: Sequence[str], target: Path) -> None:
    """Write the token encoder's vector of each word, P numbers: half of layer 0, whose two halves are the same.

    `gensim.models.KeyedVectors.load_word2vec_format(name, binary=True)` loads `.bin`, and without `binary` the others.
    The words are read as the tokenizer has them, lower-cased for example.
    """
    # Without context any words are as good as a sentence.
    arrays = embedder.stream(runs(words, lambda word: 1, 2048), "token")
    with files_written_aside(target) as (aside,), open(aside, "wb") as file:
        file.write(f"{len(words)} {embedder.vector_size // 2}\n".encode())
        for word, row in zip(words, itertools.chain.from_iterable(arrays), strict=True):
            vector = row[: embedder.vector_size // 2].astype("<f4")
            # Nine digits are every number of float32.
            digits = f"{' '.join(map('{:.9g}'.format, vector.tolist()))}\n".encode()
            file.write(f"{word} ".encode() + (vector.tobytes() if target.suffix == ".bin" else digits))
