"""The layers of a frozen biLM over a data set, computed once and kept in a file: an epoch then costs the head alone."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.utils import WeakFileLock
from safetensors.torch import save
from torch.nn.utils.rnn import pad_sequence

from ..hub.writing import files_written_aside, leftovers_of
from ..inference.embedder import cut_batches
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel, pack_layers

# What the layers depend on beside the weights, their names and their shapes.
_FIELDS = ("filter_activation", "forget_bias", "cell_clip", "projection_clip", "use_skip_connections", "pad_token_id")
# Words of a batch, padding included: the layers of the Original model take 20 KB per word.
_WORDS_AT_A_TIME = 4096
# Of what is free, so much may be taken.
_SHARE_OF_THE_DISK = 0.5


def keep_layers(
    model: ElmoPreTrainedModel,
    features: Iterable[Mapping[str, Any]],
    directory: str | os.PathLike,
    report: Callable[[str], None] = print,
) -> dict[bytes, np.ndarray]:
    """The layers of each sentence, for `collate_with_layers`; computed where there is no file of them yet.

    A file is named after a digest of the biLM's weights and of the rows of all words, so that another checkpoint,
    tokenizer or text never finds it; another head, mix or seed does. The biLM reads the sentences of a pair apart, so
    that the file has each of them once, however many pairs share it. Of several processes one writes at a time.

    Args:
        model: Any ELMo model with a frozen biLM.
        features: Encoded sentences or pairs without padding: `input_ids`, (T, C), and with pairs `token_type_ids`.
        directory: Of the files; made where it is not there.
        report: Called with a line for the user.
    Returns: By the digest of a sentence its layers, (T, P + 2PL), which lie in the file; none, with a line to the user,
        where they would take more than half of what is free on the disk.
    Raises: ValueError where the biLM is trained.
    """
    elmo: ElmoModel = model.base_model  # type: ignore[assignment]
    if not elmo.config.freeze_bilm or elmo.is_pretraining:
        raise ValueError("freeze_bilm is False: the layers of a biLM that is trained change; set it, or keep none.")
    # A new model's frozen biLM is brought into evaluation mode by the first call.
    elmo.train(elmo.training)
    settings = json.dumps([getattr(elmo.config, name) for name in _FIELDS])
    parts = ("token_encoder.", "bilm.")
    weights = {name: tensor for name, tensor in elmo.state_dict().items() if name.startswith(parts)}
    found = {digest: rows for feature in features for digest, rows in _sentences_of(feature)}
    # The longest first, as they are computed; else by their digest, so that folds of the same data share a file.
    sentences = dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))
    path = Path(directory, f"{_digest(save(weights, {'settings': settings}), *sentences).hex()}.npy")
    stops = list(itertools.accumulate(map(len, sentences.values())))
    shape = (stops[-1], elmo.config.projection_size * (1 + 2 * elmo.config.num_hidden_layers))
    path.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(path.parent / ".lock"):
        if not path.exists():
            for leftover in leftovers_of(path.parent):
                shutil.rmtree(leftover)
            size, room = 4 * shape[0] * shape[1], int(_SHARE_OF_THE_DISK * shutil.disk_usage(path.parent).free)
            if size > room:
                report(f"layers: not kept, {size:,} bytes where {room:,} may be taken; the biLM is run in each epoch")
                return {}
            report(f"layers: computing those of {len(sentences):,} sentences, {size:,} bytes")
            # By writes and not into a map of the file, which would kill the process where the disk is full.
            with files_written_aside(path) as (aside,), aside.open("wb") as file:
                np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
                file.writelines(_compute(elmo, list(sentences.values())))
    return dict(zip(sentences, np.split(np.load(path, mmap_mode="r").view(np.ndarray), stops[:-1]), strict=True))


@torch.no_grad()
def _compute(elmo: ElmoModel, sentences: Sequence[np.ndarray]) -> Iterator[bytes]:
    """The layers of sentences, (T, C) each, the longest first."""
    for batch in cut_batches(list(map(len, sentences)), _WORDS_AT_A_TIME):
        rows = [torch.from_numpy(sentences[number].astype(np.int64)) for number in batch]
        lengths = torch.tensor([len(its) for its in rows])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        _, layers, _ = elmo.run_layers(pad_sequence(rows, batch_first=True).to(elmo.device), mask.to(elmo.device))
        yield pack_layers(layers).float().cpu()[mask].numpy().tobytes()


def collate_with_layers(
    collator: Callable[[list[Any]], Any], layers: Mapping[bytes, np.ndarray]
) -> Callable[[list[Any]], Any]:
    """A collator whose batches also have `packed_layers`, zero where the given one pads; itself where none are kept."""

    def collate(features: list[Any]) -> Any:
        batch = collator(features)
        mask = batch["attention_mask"].bool()
        columns = {name: batch[name].numpy() for name in ("input_ids", "token_type_ids") if name in batch}
        words = [
            layers[digest]
            for row, is_word in enumerate(mask.numpy())
            for digest, _ in _sentences_of({name: column[row][is_word] for name, column in columns.items()})
        ]
        batch["packed_layers"] = torch.zeros(*mask.shape, words[0].shape[1])
        batch["packed_layers"][mask] = torch.from_numpy(np.concatenate(words))
        return batch

    return collate if layers else collator


def _sentences_of(example: Mapping[str, Any]) -> Iterator[tuple[bytes, np.ndarray]]:
    """The characters of the words of an example, of a pair those of each of its sentences, (T, C), and their digest."""
    rows, types = np.asarray(example["input_ids"]), example.get("token_type_ids")
    for each in [rows] if types is None else np.split(rows, np.flatnonzero(np.diff(types)) + 1):
        yield _digest(repr(each.shape).encode(), np.ascontiguousarray(each, np.int64)), each


def _digest(*pieces: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=20)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()
