"""The layers of a frozen biLM over a data set, computed once and kept in a file: an epoch then costs the head alone."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.utils import WeakFileLock
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from ..hub.writing import files_written_aside, leftovers_of
from ..inference.batches import cut_batches
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel, pack_layers

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
_FORM = 6
# Words of a batch, padding included: the layers of the Original model take 20 KB per word.
_WORDS_AT_A_TIME = 4096
# Of what is free, so much may be taken.
_SHARE_OF_THE_DISK = 0.9


class LayerCache:
    """A directory with a file for each biLM and each text that it has read.

    A file is named after a digest of the biLM's weights and of the rows of all words, so that another checkpoint,
    tokenizer, text or order never finds it; another head, mix or seed does. The biLM reads the sentences of a pair
    apart, so that the file has each of them once, however many pairs share it. Of several processes, those of one run
    or of several, one writes there at a time.

    Args:
        directory: Made where it is not there.
        max_bytes: The files that were used longest ago are removed so that all together stay below this.
        report: Called with a line for the user.
    """

    def __init__(
        self, directory: str | os.PathLike, max_bytes: int = 20 * 2**30, report: Callable[[str], None] = print
    ):
        self.directory, self.max_bytes, self._report = Path(directory), max_bytes, report

    def with_layers(self, model: ElmoPreTrainedModel, features: Sequence[Mapping[str, Any]]) -> Any:
        """A data set with the layers of each sentence or pair; they are computed where there is no file of them yet.

        Args:
            model: Any ELMo model with a frozen biLM.
            features: Encoded sentences or pairs without padding: `input_ids`, (T, C), and with pairs `token_type_ids`.
        Returns: `FeaturesWithLayers`; the features, with a line to the user, where the layers alone would exceed
            max_bytes or fill the disk.
        Raises: ValueError where the biLM is trained.
        """
        elmo: ElmoModel = model.base_model  # type: ignore[assignment]
        if not elmo.config.freeze_bilm or elmo.is_pretraining:
            raise ValueError("freeze_bilm is False: the layers of a biLM that is trained change; set it, or keep none.")
        # The words of each sentence, by its digest, and the example and the part of it where it stands first.
        found: dict[bytes, tuple[int, int, int]] = {}
        examples: list[list[bytes]] = []
        for index, feature in enumerate(features):
            examples.append([])
            for part, rows in enumerate(_sentences(feature)):
                examples[-1].append(_digest([repr(rows.shape).encode(), rows.tobytes()]))
                found.setdefault(examples[-1][-1], (len(rows), index, part))
        path = self.directory / f"{_digest(itertools.chain(_pieces_of(elmo), found)).hex()}.npy"
        # A file has the longest first, as they are computed.
        sentences = dict(sorted(found.items(), key=lambda item: -item[1][0]))
        stops = list(itertools.accumulate(length for length, *_ in sentences.values()))
        shape = (stops[-1], elmo.config.projection_size * (1 + 2 * elmo.config.num_hidden_layers))
        self.directory.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(self.directory / ".lock"):
            if not path.exists():
                if not self._make_room(4 * shape[0] * shape[1]):
                    return features
                self._report(
                    f"layers: computing those of {len(sentences):,} sentences, {4 * shape[0] * shape[1]:,} bytes"
                )
                _write(path, shape, elmo, features, list(sentences.values()))
            os.utime(path)
        places = {key: slice(stop - found[key][0], stop) for key, stop in zip(sentences, stops, strict=True)}
        return FeaturesWithLayers(features, path, [[places[key] for key in keys] for keys in examples])

    def _make_room(self, num_bytes: int) -> bool:
        """Remove what was used longest ago until so many bytes more are allowed; whether they are."""
        for leftover in leftovers_of(self.directory):
            shutil.rmtree(leftover)
        kept = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.directory.glob("*.npy"))
        total = num_bytes + sum(size for _, size, _ in kept)
        for _, size, path in kept:
            if num_bytes <= self.max_bytes < total:
                path.unlink()
                total -= size
        room = min(self.max_bytes, int(_SHARE_OF_THE_DISK * shutil.disk_usage(self.directory).free))
        if num_bytes > room:
            self._report(
                f"layers: not kept, they would take {num_bytes:,} bytes, and no more than {room:,} may be taken; the "
                "biLM is run in each epoch"
            )
        return num_bytes <= room


def _sentences(feature: Mapping[str, Any]) -> list[np.ndarray]:
    """The characters of the words of an example, of a pair those of each of its sentences, (T, C)."""
    rows = np.asarray(feature["input_ids"], dtype=np.int64)
    return np.split(rows, np.flatnonzero(np.diff(feature.get("token_type_ids", [0] * len(rows)))) + 1)


@torch.no_grad()
def _write(
    path: Path,
    shape: tuple[int, int],
    elmo: ElmoModel,
    features: Sequence[Mapping[str, Any]],
    sentences: Sequence[tuple[int, int, int]],
) -> None:
    """Compute the layers of sentences, given by their lengths and places, into a file."""
    was_training = elmo.training
    elmo.eval()
    try:
        # By writes and not into a map of the file, which would kill the process where the disk is full.
        with files_written_aside(path) as (aside,), aside.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
            for batch in cut_batches([length for length, *_ in sentences], _WORDS_AT_A_TIME):
                # Read again: all rows together may be larger than the memory.
                places = [sentences[number][1:] for number in batch]
                rows = [torch.from_numpy(_sentences(features[index])[part]) for index, part in places]
                lengths = torch.tensor([len(its) for its in rows])
                mask = torch.arange(int(lengths.max())) < lengths[:, None]
                _, layers, _ = elmo.run_layers(
                    pad_sequence(rows, batch_first=True).to(elmo.device), mask.to(elmo.device)
                )
                file.write(pack_layers(layers).float().cpu()[mask].numpy().tobytes())
    finally:
        elmo.train(was_training)


class FeaturesWithLayers(Dataset):
    """A data set whose items also have `packed_layers`, which read them when called, for `collate_with_layers`.

    Args:
        features: The encoded sentences or pairs.
        path: The file of layers, a float32 array (words of all sentences, P + 2PL).
        places: The rows of it that each sentence of each example has.
    """

    def __init__(self, features: Sequence[Mapping[str, Any]], path: Path, places: Sequence[Sequence[slice]]):
        self.features, self.path, self._places = features, path, places
        self._words = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._places)

    def layers(self, index: int) -> np.ndarray:
        """The layers of an example, (T, P + 2PL)."""
        return np.concatenate([self._words[rows] for rows in self._places[index]])

    def __getitem__(self, index: int) -> dict[str, Any]:
        # Read by the collator: a sampler of examples of one length asks for all of them before the first step.
        return {**self.features[index], "packed_layers": partial(self.layers, index)}

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled map would be a copy of the file.
        return FeaturesWithLayers, (self.features, self.path, self._places)


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


def _pieces_of(elmo: ElmoModel) -> Iterator[Any]:
    """What the layers of a text depend on: two models with the same give the same layers."""
    yield json.dumps([_FORM, *(getattr(elmo.config, name) for name in _FIELDS)]).encode()
    for module in (elmo.token_encoder, elmo.bilm):
        for name, tensor in module.state_dict().items():
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
            yield tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()


def _digest(pieces: Iterable[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
