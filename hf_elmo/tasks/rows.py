"""Examples as rows of numbers: their words encoded, put together as batches, and labels of words read back.

Letters in shapes: T words of a row, the special tokens included, C characters per word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..model.modeling_elmo import IGNORED_LABEL
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.progress import track

_AT_A_TIME = 1000


def type_of_rows(tokenizer: ElmoCharTokenizer) -> type[np.signedinteger]:
    """The smallest type for ids of characters, which are most of a data set; few dictionaries have more than 2^15."""
    return np.int16 if tokenizer.vocab_size < 2**15 else np.int32


def encode_rows(tokenizer: ElmoCharTokenizer, source: str, *texts: Sequence[Any], **how: Any) -> list[dict[str, Any]]:
    """A row for each sentence or pair: `input_ids` (T, C), `attention_mask` (T) and, of pairs, `token_type_ids` (T).

    Args:
        tokenizer: Also gets `how`, `is_split_into_words` for example.
        source: What is encoded, for who waits.
        texts: The sentences, texts or lists of words; of pairs the first ones and the second ones.
    """
    dtype, rows = type_of_rows(tokenizer), list[dict[str, Any]]()
    starts = range(0, len(texts[0]), _AT_A_TIME)
    batches = ([column[start : start + _AT_A_TIME] for column in texts] for start in starts)
    for batch in track(batches, f"encoding {source}", "rows", len(texts[0]), size=lambda batch: len(batch[0])):
        encoded = tokenizer(*batch, **how)
        for values in zip(*encoded.values(), strict=True):
            rows.append({name: np.asarray(value, dtype) for name, value in zip(encoded, values, strict=True)})
    return rows


def pad_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """A batch of rows: what has an entry for each word is padded behind the words, labels by -100, all else by 0."""
    batch = {}
    for name in rows[0]:
        values = [torch.as_tensor(row[name]).long() for row in rows]
        filler = IGNORED_LABEL if name == "labels" else 0
        batch[name] = pad_sequence(values, True, filler) if values[0].ndim else torch.stack(values)
    return batch


def labels_of_words(label_ids: np.ndarray, gold_ids: np.ndarray, names: Sequence[str]) -> list[list[str]]:
    """The labels of each row's words for ids (rows, words), where there is a gold one."""
    return [
        [names[index] for index in row[gold != IGNORED_LABEL].tolist()]
        for row, gold in zip(label_ids, gold_ids, strict=True)
    ]
