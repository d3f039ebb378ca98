"""The layers of a frozen biLM over a data set, computed once and kept in a file: an epoch then costs the head alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.utils import WeakFileLock
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel, pack_layers
from .arguments import TaskArguments

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
# Enters the name of a file: another form of the files is another number.
_FORM = 5
# Words of a batch, padding included: the layers of the Original model take 20 KB per word.
_WORDS_AT_A_TIME = 4096
# Of what is free, so much may be taken.
_SHARE_OF_THE_DISK = 0.9
# A file that nobody has written to for so long is a dead writer's.
_SECONDS_OF_A_BATCH = 600


class LayerCache:
    """A directory with a file for each biLM and each text that it has read.

    A file is named after a digest of the biLM's weights and of the rows of all words, so that another checkpoint,
    tokenizer, text or order never finds it; another head, mix or seed does. The biLM reads the sentences of a pair
    apart, so that the file has each of them once, however many pairs share it. Of several processes that need the same
    file, those of one run or of several, one computes it and the others wait.

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
        found = _Distinct(features)
        size = elmo.config.projection_size * (1 + 2 * elmo.config.num_hidden_layers)
        shape = (sum(found.lengths), size)
        num_bytes = 4 * shape[0] * shape[1]
        too_large = f"layers: not kept, they would take {num_bytes:,} bytes and {{}}; the biLM is run in each epoch"
        if num_bytes > self.max_bytes:
            self._report(too_large.format(f"max_bytes is {self.max_bytes:,}"))
            return None
        path = self.directory / f"{_digest([digest_of_bilm(elmo).encode(), *found.numbers]).hex()}.npy"
        self.directory.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(path.with_suffix(".lock")):
            if not _is_whole(path, shape):
                self._make_room(num_bytes)
                free = shutil.disk_usage(self.directory).free
                if num_bytes > _SHARE_OF_THE_DISK * free:
                    self._report(too_large.format(f"{free:,} are free"))
                    return None
                self._report(f"layers: computing those of {len(found.lengths):,} sentences, {num_bytes:,} bytes")
                _write(path, shape, elmo, found)
            os.utime(path)
            return CachedLayers(path, found)

    def _make_room(self, num_bytes: int) -> None:
        """Remove what was used longest ago, and what dead writers left, until so many bytes more are allowed."""
        kept = []
        for path in self.directory.iterdir():
            # Another process may remove any of them first; one that reads a file keeps what it has mapped.
            with suppress(OSError):
                kept.append((path.stat().st_mtime, path.stat().st_size, path))
        total = num_bytes + sum(size for _, size, _ in kept)
        for used, size, path in sorted(kept):
            is_written = path.suffix == ".partial" and time.time() - used < _SECONDS_OF_A_BATCH
            if total > self.max_bytes and path.suffix in (".npy", ".partial") and not is_written:
                path.unlink(missing_ok=True)
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
    return LayerCache(directory, int(gigabytes * 2**30), partial(print, flush=True))


class _Distinct:
    """The sentences of a data set, each counted once: it may be there for each of its predicates or its questions.

    Attributes:
        numbers: The number of each sentence, in the order in which they come first, by its digest.
        lengths: The words of each.
        parts: The numbers of the sentences of each example.
        order: The numbers by length, as the file has them.
        starts: The row of the file at which each begins.
    """

    def __init__(self, features: Sequence[Mapping[str, Any]]):
        self._features = features
        # The example where each stands first, and its place there.
        self._first: list[tuple[int, int]] = []
        self.numbers: dict[bytes, int] = {}
        self.lengths: list[int] = []
        self.parts: list[list[int]] = []
        for index, feature in enumerate(features):
            self.parts.append([])
            for part, rows in enumerate(_sentences(index, feature)):
                number = self.numbers.setdefault(
                    _digest([repr(rows.shape).encode(), rows.tobytes()]), len(self.lengths)
                )
                if number == len(self.lengths):
                    self.lengths.append(len(rows))
                    self._first.append((index, part))
                self.parts[-1].append(number)
        self.order = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)
        self.starts = np.zeros(len(self.order), dtype=np.int64)
        self.starts[self.order] = np.cumsum([0, *(self.lengths[number] for number in self.order)])[:-1]

    def rows(self, number: int) -> torch.Tensor:
        """The characters of a sentence (T, C), read again: all together may be larger than the memory."""
        index, part = self._first[number]
        return torch.from_numpy(_sentences(index, self._features[index])[part])

    def batches(self) -> Iterator[list[int]]:
        """The numbers in their order, as many as make a batch of words with their padding."""
        batch: list[int] = []
        for number in self.order:
            if batch and (len(batch) + 1) * self.lengths[number] > _WORDS_AT_A_TIME:
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch


def _sentences(index: int, feature: Mapping[str, Any]) -> list[np.ndarray]:
    """The characters of the words of an example, of a pair those of each of its sentences, (T, C)."""
    rows = np.asarray(feature["input_ids"], dtype=np.int64)
    if not len(rows):
        raise ValueError(f"features[{index}] has no rows; keep add_special_tokens=True, or leave empty sentences out.")
    if not np.all(feature.get("attention_mask", 1)):
        raise ValueError(f"features[{index}] is padded; encode without padding, and pad in the collator.")
    cuts = np.flatnonzero(np.diff(feature.get("token_type_ids", [0] * len(rows)))) + 1
    if len(cuts) > 1:
        raise ValueError(f"features[{index}] has words of two sentences among one another in its token_type_ids.")
    return np.split(rows, cuts)


class CachedLayers:
    """The layers of each sentence or pair of a data set, (T, P + 2PL), read from the file when they are asked for.

    Args:
        path: The file, a float32 array (words of all sentences, P + 2PL).
        found: Which sentences it has, and which of them each example has.
    """

    def __init__(self, path: Path, found: _Distinct):
        self.path = path
        self._rows = [slice(start, start + length) for start, length in zip(found.starts, found.lengths, strict=True)]
        self._parts = found.parts
        self._words = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: int) -> np.ndarray:
        words = [self._words[self._rows[number]] for number in self._parts[index]]
        return words[0] if len(words) == 1 else np.concatenate(words)

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
        words = np.concatenate([feature["packed_layers"]() for feature in features])
        batch = collator([{key: feature[key] for key in feature if key != "packed_layers"} for feature in features])
        mask = batch["attention_mask"].bool()
        batch["packed_layers"] = torch.zeros(*mask.shape, words.shape[1])
        batch["packed_layers"][mask] = torch.from_numpy(words)
        return batch

    return collate


def digest_of_bilm(model: ElmoPreTrainedModel) -> str:
    """A digest of what the layers of a text depend on: two models with the same one give the same layers."""
    elmo: ElmoModel = model.base_model  # type: ignore[assignment]

    def pieces() -> Iterator[Any]:
        yield json.dumps([_FORM, *(getattr(elmo.config, name) for name in _FIELDS)]).encode()
        for module in (elmo.token_encoder, elmo.bilm):
            for name, tensor in module.state_dict().items():
                yield f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
                yield tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()

    return _digest(pieces()).hex()


def _digest(pieces: Iterable[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _is_whole(path: Path, shape: tuple[int, int]) -> bool:
    try:
        return np.load(path, mmap_mode="r").shape == shape
    except (OSError, ValueError, EOFError):
        return False


@torch.no_grad()
def _write(path: Path, shape: tuple[int, int], elmo: ElmoModel, found: _Distinct) -> None:
    """Compute the layers of all sentences into a file aside, which then takes the name `path`."""
    was_training, aside = elmo.training, path.with_suffix(".partial")
    elmo.eval()
    try:
        # By writes and not into a map of the file, which would kill the process where the disk is full.
        with aside.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
            for batch in found.batches():
                rows = pad_sequence([found.rows(number) for number in batch], batch_first=True)
                lengths = torch.tensor([found.lengths[number] for number in batch])
                mask = torch.arange(rows.shape[1]) < lengths[:, None]
                _, layers, _ = elmo.run_layers(rows.to(elmo.device), mask.to(elmo.device))
                file.write(pack_layers(layers).float().cpu()[mask].numpy().tobytes())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
        elmo.train(was_training)
