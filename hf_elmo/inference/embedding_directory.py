"""A directory of shards of vectors: what made them, which are there, and the way back to sentences and vectors."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from ..checkpoints.provenance import write_json
from ..checkpoints.writing import check_output_directory, files_written_aside
from ..given.bounded_files import path_inside, quoted
from ..given.bounded_json import read_json
from .embedder import ElmoEmbedder
from .shard_files import ENDINGS, ShardBatch, read_shard
from .stored_numbers import StorageError

MANIFEST_FILE = "manifest.json"
# Notes on the shards that are written already, while others are not.
_NOTES = ".finished"
_KIND = "hf_elmo vectors"
# Where the checkpoint lay; what it holds is compared by its digest.
_NOT_COMPARED = ("checkpoint",)
# What must be known of vectors to read them and to compare others with them.
_SETTINGS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("checkpoint", "checkpoint_sha256", "format", "pooling"), str),
    **{"columns": list, "keep_markers": bool, "layers": (str, int), "num_layers": int},
}
# What a word's row of characters depends on.
_TOKENIZER_FIELDS = (
    *("pre_tokenizer", "normalization", "drop_invisible", "ascii_marks", "do_lower_case"),
    *("max_characters_per_word", "characters"),
)
_OURS = re.compile(
    r"shard-\d{5,}\.(parquet|arrow|safetensors|npz)|\.shard-\d{5,}\..*\.partial|clusters-\w+\.(faiss|json)"
)


@dataclass(frozen=True)
class ShardRecord:
    """What is known of a shard that has been written.

    Args:
        number: Its number, from 0.
        file: Its name in the directory.
        first_sentence: Number of its first sentence in the corpus.
        num_sentences, num_words, num_bytes: Its size; words are those that have vectors.
        text_sha256: Of the sentences as they were read.
        squared_error, squared_norm, largest_error: See `StorageError`.
    """

    number: int
    file: str
    first_sentence: int
    num_sentences: int
    num_words: int
    num_bytes: int
    text_sha256: str
    squared_error: float
    squared_norm: float
    largest_error: float

    @property
    def storage_error(self) -> StorageError:
        return StorageError(self.squared_error, self.squared_norm, self.largest_error)


class EmbeddingDirectory:
    """A directory that is being filled with shards, by one run after another until all are there.

    Args:
        path: The directory.
        settings: All that the numbers depend on, and the form that they are stored in.
    """

    def __init__(self, path: str | os.PathLike, settings: Mapping[str, Any]):
        self.path = Path(path)
        self.settings = dict(settings)

    def prepare(self, overwrite: bool = False) -> None:
        """Make the directory, or check that it was begun with these settings.

        Args:
            overwrite: Whether shards that are there are removed first.
        Raises: FileExistsError where it holds something else; ValueError naming the first setting that differs.
        """
        if not (self.path / MANIFEST_FILE).exists():
            check_output_directory(self.path)
        elif overwrite:
            _read_manifest(self.path)
            self._clear()
        else:
            self._check_settings(_read_manifest(self.path)["settings"])
        for path in self.path.glob(".shard-*.partial"):
            shutil.rmtree(path, ignore_errors=True)
        if not (self.path / MANIFEST_FILE).exists():
            self._write_manifest(None)
        elif self.is_complete:
            self._reopen_if_shards_are_gone()

    def finished(self) -> dict[int, ShardRecord]:
        """The shards that are there, by their numbers."""
        contents = []
        for note in sorted((self.path / _NOTES).glob("*.json")):
            with suppress(FileNotFoundError):
                contents.append(_read_object(note))
        # Behind the notes, which another process removes as soon as it has written the whole manifest.
        whole = _read_manifest(self.path)["shards"]
        records = [_as_record(content, self.path) for content in (contents if whole is None else whole)]
        return {record.number: record for record in records if (self.path / record.file).is_file()}

    @property
    def is_complete(self) -> bool:
        """Whether the text was embedded to its end."""
        return _read_manifest(self.path)["shards"] is not None

    def note(self, record: ShardRecord) -> None:
        """Write down that a shard stands in its place."""
        with files_written_aside(self.path / _NOTES / f"{record.number:05d}.json") as (aside,):
            write_json(aside, asdict(record))

    def complete(self, num_shards: int) -> bool:
        """Write the whole manifest if all shards are there, whichever process wrote them, and say whether they are."""
        if not self.is_complete:
            records = self.finished()
            if sorted(records) != list(range(num_shards)):
                return False
            self._write_manifest([asdict(records[number]) for number in range(num_shards)])
        shutil.rmtree(self.path / _NOTES, ignore_errors=True)
        return True

    def _reopen_if_shards_are_gone(self) -> None:
        found = self.finished()
        if len(found) < len(_read_manifest(self.path)["shards"]):
            for record in found.values():
                self.note(record)
            self._write_manifest(None)

    def _check_settings(self, begun: Mapping[str, Any]) -> None:
        for name in {**begun, **self.settings}:
            if name not in _NOT_COMPARED and begun.get(name) != self.settings.get(name):
                raise ValueError(
                    f"output_dir {str(self.path)!r} was begun with {name} {begun.get(name)!r}, and now it is "
                    f"{self.settings.get(name)!r}; go on with the same checkpoint and settings, name another "
                    "directory, or pass --overwrite_output_dir to begin anew."
                )

    def _write_manifest(self, shards: list[dict[str, Any]] | None) -> None:
        with files_written_aside(self.path / MANIFEST_FILE) as (aside,):
            write_json(aside, {"kind": _KIND, "settings": self.settings, "shards": shards})

    def _clear(self) -> None:
        (self.path / MANIFEST_FILE).unlink()
        shutil.rmtree(self.path / _NOTES, ignore_errors=True)
        for path in self.path.iterdir():
            if _OURS.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        check_output_directory(self.path)


class EmbeddedCorpus:
    """The vectors that `hf-elmo embed --output_dir` wrote, a batch of sentences at a time.

    Args:
        path: The directory; Parquet and Arrow shards are memory-mapped.
    Raises: FileNotFoundError or ValueError naming the directory where it has no vectors, or not yet all of them.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        content = _read_manifest(self.path)
        if content["shards"] is None:
            raise ValueError(
                f"{str(self.path)!r} is not complete; run the `hf-elmo embed` that began it once more, it goes on."
            )
        self.settings: dict[str, Any] = content["settings"]
        for name, kind in _SETTINGS.items():
            if not isinstance(self.settings.get(name), kind):
                raise self._damaged(f"has {quoted(self.settings.get(name))} for its setting {name!r}")
        if self.settings["format"] not in ENDINGS:
            raise self._damaged(f"is of the format {quoted(self.settings['format'])}, wanted {', '.join(ENDINGS)}")
        self.shards = [_as_record(record, self.path) for record in content["shards"]]
        self.columns: list[str] = self.settings["columns"]
        if not self.columns or not all(isinstance(column, str) for column in self.columns):
            raise self._damaged(f"has {quoted(self.columns)} for its columns, wanted names")

    @property
    def num_sentences(self) -> int:
        return sum(shard.num_sentences for shard in self.shards)

    @property
    def num_words(self) -> int:
        return sum(shard.num_words for shard in self.shards)

    def batches(self) -> Iterator[ShardBatch]:
        """All sentences in their order, as many at a time as lie together in a shard.

        Raises: ValueError naming the shard that is damaged.
        """
        for shard in self.shards:
            for _, batch in self.batches_of(shard):
                yield batch

    def batches_of(
        self, shard: ShardRecord, numbers: Collection[int] | None = None
    ) -> Iterator[tuple[int, ShardBatch]]:
        """The batches of one of the shards with their numbers in it, all or some; errors as of `batches`."""
        for number, batch in read_shard(self.path / shard.file, self.settings["format"], numbers):
            missing = [column for column in self.columns if column not in batch.columns]
            if missing:
                raise self._damaged(f"has no column {quoted(missing[0])} in {shard.file!r}")
            yield number, batch

    def sentences(self, column: str | None = None) -> Iterator[tuple[int, list[str], np.ndarray]]:
        """Number, words and vectors, (words, D), or (D,) where they were pooled, of each sentence.

        Args:
            column: One of `columns`; None takes the last, the top layer of several.
        """
        for batch in self.batches():
            yield from batch.sentences(column or self.columns[-1])

    def _damaged(self, what: str) -> ValueError:
        return ValueError(f"{str(self.path)!r} {what}, which `hf-elmo embed` does not write; embed the text again.")


def shard_file(number: int, file_format: str) -> str:
    """The name of a shard in its directory."""
    return f"shard-{number:05d}{ENDINGS[file_format]}"


def describe_checkpoint(embedder: ElmoEmbedder) -> str:
    """A digest of all that a checkpoint's vectors depend on: weights, config and tokenizer."""
    digest = hashlib.sha256()
    tokenizer = [getattr(embedder.tokenizer, name) for name in _TOKENIZER_FIELDS]
    config = embedder.model.config.to_dict()
    for key in ("_name_or_path", "transformers_version", "architectures", "dtype"):
        config.pop(key, None)
    digest.update(json.dumps([config, tokenizer], sort_keys=True, default=str).encode())
    for name, tensor in sorted(embedder.model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    content = _read_object(path / MANIFEST_FILE)
    is_ours = content.get("kind") == _KIND and isinstance(content.get("settings"), dict) and "shards" in content
    if not is_ours or not isinstance(content["shards"], (list, type(None))):
        raise ValueError(f"{str(path / MANIFEST_FILE)!r} is not of vectors that `hf-elmo embed` wrote.")
    return content


def _as_record(content: Any, directory: Path) -> ShardRecord:
    """What the manifest, or a note, says of a shard.

    Raises: ValueError naming the directory where that is something else, or a file that lies elsewhere.
    """
    where = f"the manifest of {str(directory)!r}"
    kinds = {name: (int, float) if kind is float else kind for name, kind in get_type_hints(ShardRecord).items()}
    has_all = isinstance(content, dict) and content.keys() == kinds.keys()
    if not has_all or not all(isinstance(content[name], kind) for name, kind in kinds.items()):
        raise ValueError(f"{where} has {quoted(content)} for a shard; embed the text again.")
    path_inside(directory, content["file"], where)
    return ShardRecord(**content)


def _read_object(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise FileNotFoundError(f"{str(file.parent)!r} has no {file.name}; wanted what `hf-elmo embed` wrote.")
    content = read_json(file, repr(str(file)))
    if not isinstance(content, dict):
        raise ValueError(f"{str(file)!r} holds no object; wanted what `hf-elmo embed` wrote.")
    return content
