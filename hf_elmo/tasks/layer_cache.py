"""The layers of a frozen biLM over a data set, computed once and kept in a file: an epoch then costs the head alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from huggingface_hub.utils import WeakFileLock
from torch.utils.data import Dataset

from ..hub.writing import files_written_aside
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel, pack_layers
from .arguments import TaskArguments

# Enters the key of a file: another form of the files, or of the keys, is another number.
_FORM = 4
# What the layers depend on beside the weights.
_FIELDS = (
    "filters",
    "filter_activation",
    "num_highway_layers",
    "token_inputs",
    "num_hidden_layers",
    "forget_bias",
    "cell_clip",
    "projection_clip",
    "use_skip_connections",
    "pad_token_id",
)
# Words of a batch, padding included: the layers of the Original model take 20 KB per word.
_WORDS_AT_A_TIME = 4096
# Of what is free, so much may be taken.
_SHARE_OF_THE_DISK = 0.9
# How long to try for a lock that, where it is not to be had at once, somebody holds.
_SECONDS_OF_A_TRY = 0.05


class LayerCache:
    """A directory with a file for each biLM and each text that it has read.

    A file is named after a digest of the biLM's weights and of the rows of all words, so that another checkpoint,
    tokenizer, text or order never finds it; another head, mix or seed does. The biLM reads the sentences of a pair
    apart, so that the file has each of them once, however many pairs share it. Of several processes that need the same
    file, those of one run or of several, one computes it and the others wait. It is written under another name and
    renamed: whoever reads it reads all of it.

    Args:
        directory: Made where it is not there.
        max_bytes: The files that were used longest ago are removed so that all together stay below this.
        report: Called with a line for the user.
    Raises: ValueError where max_bytes is below 1.
    """

    def __init__(
        self, directory: str | os.PathLike, max_bytes: int = 20 * 2**30, report: Callable[[str], None] = print
    ):
        if max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes}; it must be an integer >= 1.")
        self.directory = Path(directory)
        self.max_bytes = max_bytes
        self._report = report

    def layers_of(self, model: ElmoPreTrainedModel, features: Sequence[Mapping[str, Any]]) -> CachedLayers | None:
        """The layers of each sentence or pair of a data set; they are computed where there is no file of them yet.

        Args:
            model: Any ELMo model with a frozen biLM.
            features: Encoded sentences or pairs without padding: `input_ids`, (T, C), and with pairs `token_type_ids`.
        Returns: The layers; None, with a line to the user, where they alone would exceed max_bytes or fill the disk.
        Raises: ValueError where the biLM is trained, or a sentence is padded or has no rows.
        """
        elmo: ElmoModel = model.base_model  # type: ignore[assignment]
        if not elmo.config.freeze_bilm or elmo.is_pretraining:
            raise ValueError("freeze_bilm is False: the layers of a biLM that is trained change; set it, or keep none.")
        distinct = _find_distinct(features)
        lengths = distinct.lengths
        size = elmo.config.projection_size * (1 + 2 * elmo.config.num_hidden_layers)
        num_bytes = 4 * sum(lengths) * size
        if num_bytes > self.max_bytes:
            self._report(
                f"layers: not kept, they would take {num_bytes:,} bytes and max_bytes is {self.max_bytes:,}; the biLM "
                "is run in each epoch"
            )
            return None
        path = self.directory / f"{_key(elmo, distinct.numbers)}.npy"
        shape = (sum(lengths), size)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._remove_what_is_dead()
        with self._only_writer_of(path.name):
            if not _is_whole(path, shape):
                self._make_room(num_bytes)
                free = shutil.disk_usage(self.directory).free
                if num_bytes > _SHARE_OF_THE_DISK * free:
                    self._report(
                        f"layers: not kept, they would take {num_bytes:,} bytes of {free:,} free ones; the biLM is run "
                        "in each epoch"
                    )
                    return None
                self._report(f"layers: computing those of {len(lengths):,} sentences, {num_bytes:,} bytes")
                _write(path, shape, elmo, features, distinct)
            os.utime(path)
            return CachedLayers(path, lengths, distinct.parts)

    @contextmanager
    def _only_writer_of(self, name: str, timeout: float | None = None) -> Iterator[None]:
        """Hold the lock of a file of the cache, which goes with its process; raises TimeoutError where others do."""
        lock = self.directory / f".{name}.lock"
        with WeakFileLock(lock, timeout=timeout):
            try:
                yield
            finally:
                # Whoever waits for a lock whose file is gone makes a new one, and finds the layers whole.
                with suppress(OSError):
                    lock.unlink()

    def _remove_what_is_dead(self) -> None:
        """Remove what processes were writing that are no more."""
        for folder in self.directory.glob(".*.partial"):
            # The lock is held, or another process was faster.
            with suppress(OSError), self._only_writer_of(folder.name[1:].rsplit(".", 2)[0], timeout=_SECONDS_OF_A_TRY):
                shutil.rmtree(folder)

    def _make_room(self, num_bytes: int) -> None:
        """Remove what was used longest ago until so many bytes more are allowed, what others are writing counted."""
        kept = []
        # Another process may remove any of them first; one that reads a file keeps what it has mapped.
        for path in self.directory.glob("*.npy"):
            with suppress(OSError):
                facts = path.stat()
                kept.append((facts.st_mtime, facts.st_size, path))
        for path in self.directory.glob(".*.partial/*"):
            with suppress(OSError):
                num_bytes += path.stat().st_size
        total = num_bytes + sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self.max_bytes:
                return
            with suppress(OSError):
                path.unlink()
            total -= size


def make_layer_cache(model_args: TaskArguments, config: ElmoConfig) -> LayerCache | None:
    """Where layers are kept for later runs, if they are to be.

    Raises: ValueError naming the argument where the biLM is trained, or nothing may be kept; NotADirectoryError.
    """
    directory, gigabytes = model_args.layer_cache_dir, model_args.layer_cache_gigabytes
    if not gigabytes * 2**30 >= (0 if directory is None else 1):
        raise ValueError(f"layer_cache_gigabytes is {gigabytes}; it must be > 0, or 0 without layer_cache_dir.")
    if directory is None:
        return None
    if not config.freeze_bilm:
        raise ValueError(
            f"layer_cache_dir is {directory!r}, but the biLM is trained (no_freeze_bilm), so that its layers change; "
            "leave one of them out."
        )
    if Path(directory).exists() and not Path(directory).is_dir():
        raise NotADirectoryError(f"layer_cache_dir {directory!r} is a file; name a directory.")
    return LayerCache(directory, int(gigabytes * 2**30), lambda line: print(line, flush=True))


class Parts(NamedTuple):
    """What one sentence or pair of a data set is made of."""

    places: tuple[int, ...]  # of its sentences among those of the file, the first one of a pair before the second
    origins: np.ndarray | None  # from where each word is among the words of these, (T,), where they are not in order


class CachedLayers:
    """The layers of each sentence or pair of a data set, (T, P + 2PL), read from the file when they are asked for.

    Args:
        path: The file, a float32 array (words of all sentences, P + 2PL).
        lengths: How many rows each sentence of the file has.
        parts: Of each sentence or pair of the data set, which sentences of the file it is made of.
    """

    def __init__(self, path: Path, lengths: Sequence[int], parts: Sequence[Parts]):
        self.path = path
        self._parts = parts
        self._ends = np.cumsum([0, *lengths])
        self._words = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: int) -> np.ndarray:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index is {index}; there are {len(self)} sentences.")
        parts = self._parts[index]
        words = [self._words[self._ends[place] : self._ends[place + 1]] for place in parts.places]
        if len(words) == 1:
            return words[0]
        layers = np.concatenate(words)
        return layers if parts.origins is None else layers[parts.origins]

    def __getstate__(self) -> dict[str, Any]:
        # A pickled map would be a copy of the file.
        return {**self.__dict__, "_words": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_words": np.load(state["path"], mmap_mode="r")}


class FeaturesWithLayers(Dataset):
    """A data set whose items also have `packed_layers`, which read them when called, for `collate_with_layers`.

    Args:
        features: The encoded sentences.
        layers: Their layers, in the same order.
    """

    def __init__(self, features: Sequence[Mapping[str, Any]], layers: CachedLayers):
        if len(features) != len(layers):
            raise ValueError(f"layers has {len(layers)} sentences, but features has {len(features)}.")
        self.features, self.layers = features, layers

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> dict[str, Any]:
        # Read by the collator: a sampler of examples of one length asks for all of them before the first step.
        return {**self.features[index], "packed_layers": partial(self.layers.__getitem__, index)}


def collate_with_layers(collator: Callable[[list[dict[str, Any]]], Any]) -> Callable[[list[dict[str, Any]]], Any]:
    """A collator that also pads `packed_layers`, if any, on the side on which the given one pads the words."""

    def collate(features: list[dict[str, Any]]) -> Any:
        if "packed_layers" not in features[0]:
            return collator(features)
        others = [{key: value for key, value in feature.items() if key != "packed_layers"} for feature in features]
        words = np.concatenate([feature["packed_layers"]() for feature in features])
        batch = collator(others)
        mask = batch["attention_mask"].bool()
        packed = torch.zeros(*mask.shape, words.shape[1])
        packed[mask] = torch.from_numpy(words)
        batch["packed_layers"] = packed
        return batch

    return collate


class _Distinct(NamedTuple):
    """The sentences of a data set, each counted once, in the order in which they come first."""

    numbers: dict[bytes, int]  # of each, by its digest
    first: list[tuple[int, int]]  # the sentence or pair where each stands first, and its type there
    lengths: list[int]  # of each
    parts: list[Parts]  # of each sentence or pair of the data set


def _find_distinct(features: Sequence[Mapping[str, Any]]) -> _Distinct:
    """The same sentence may be there many times: once for each of its predicates, or with each question about it."""
    distinct = _Distinct({}, [], [], [])
    for index, feature in enumerate(features):
        rows, types = _rows(index, feature), _types(feature)
        places = []
        for its_type in np.unique(types):
            sentence = rows[types == its_type]
            number = distinct.numbers.setdefault(_digest(sentence), len(distinct.first))
            if number == len(distinct.first):
                distinct.first.append((index, int(its_type)))
                distinct.lengths.append(len(sentence))
            places.append(number)
        is_in_order = bool(np.all(types[:-1] <= types[1:]))
        origins = None if is_in_order else np.argsort(np.argsort(types, kind="stable"))
        distinct.parts.append(Parts(tuple(places), origins))
    return distinct


def _rows(index: int, feature: Mapping[str, Any]) -> np.ndarray:
    """The characters of all words, (T, C)."""
    rows = np.asarray(feature["input_ids"], dtype=np.int64)
    if not len(rows):
        raise ValueError(f"features[{index}] has no rows; keep add_special_tokens=True, or leave empty sentences out.")
    if not np.all(feature.get("attention_mask", 1)):
        raise ValueError(f"features[{index}] is padded; encode without padding, and pad in the collator.")
    return rows


def _types(feature: Mapping[str, Any]) -> np.ndarray:
    """1 for words of the second sentence of a pair and 0 for all others, (T,)."""
    return np.asarray(feature.get("token_type_ids", [0] * len(feature["input_ids"])), dtype=np.int64)


def digest_of_bilm(model: ElmoPreTrainedModel) -> str:
    """A digest of what the layers of a text depend on: two models with the same one give the same layers."""
    elmo: ElmoModel = model.base_model  # type: ignore[assignment]
    digest = hashlib.blake2b(digest_size=20)
    digest.update(json.dumps([_FORM, *(getattr(elmo.config, name) for name in _FIELDS)]).encode())
    for module in (elmo.token_encoder, elmo.bilm):
        for name, tensor in module.state_dict().items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _key(elmo: ElmoModel, digests: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_of_bilm(elmo).encode(), digest_size=20)
    for each in digests:
        digest.update(each)
    return digest.hexdigest()


def _digest(rows: np.ndarray) -> bytes:
    """What tells one encoded sentence from another."""
    digest = hashlib.blake2b(f"{rows.shape}\n".encode(), digest_size=20)
    digest.update(rows.tobytes())
    return digest.digest()


def _is_whole(path: Path, shape: tuple[int, int]) -> bool:
    try:
        found = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return False
    return found.shape == shape and found.dtype == np.float32


def _write(
    path: Path,
    shape: tuple[int, int],
    elmo: ElmoModel,
    features: Sequence[Mapping[str, Any]],
    distinct: _Distinct,
) -> None:
    """Compute the layers of all sentences into a file aside, which then takes the name `path`."""
    # By writes and not into a map of the file, which would kill the process where the disk is full.
    with files_written_aside(path) as (aside,), open(aside, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        _write_words(file, file.tell(), elmo, features, distinct)


@torch.no_grad()
def _write_words(
    file: BinaryIO, start: int, elmo: ElmoModel, features: Sequence[Mapping[str, Any]], distinct: _Distinct
) -> None:
    lengths = distinct.lengths
    ends = np.cumsum([0, *lengths])
    was_training = elmo.training
    elmo.eval()
    try:
        for places in _batches(lengths):
            longest = max(lengths[place] for place in places)
            rows = torch.zeros(len(places), longest, elmo.config.max_characters_per_word, dtype=torch.long)
            mask = torch.zeros(len(places), longest, dtype=torch.bool)
            for row, place in enumerate(places):
                # Read when it is wanted: all sentences together may be larger than the memory.
                index, its_type = distinct.first[place]
                feature = features[index]
                rows[row, : lengths[place]] = torch.from_numpy(_rows(index, feature)[_types(feature) == its_type])
                mask[row, : lengths[place]] = True
            _, layers, _ = elmo.run_layers(rows.to(elmo.device), mask.to(elmo.device))
            packed = pack_layers(layers).float().cpu().numpy()
            for row, place in enumerate(places):
                file.seek(start + int(ends[place]) * packed[row, 0].nbytes)
                file.write(packed[row, : lengths[place]].tobytes())
    finally:
        elmo.train(was_training)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of sentences of about one length, as many as make a batch of words with their padding."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[place] > _WORDS_AT_A_TIME:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
