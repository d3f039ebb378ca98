"""The table of word vectors of a bilm-tf model that reads words in place of characters, in and out bit by bit.

There the rows stand in the order of the vocabulary, `<UNK>`'s among them for every other word. Here a word is found by
its characters, so that the rows stand in the order of hashes, behind the one of all unknown words.

Source: bilm-tf, bilm/training.py and bilm/model.py (`embedding`, one row per word of the vocabulary file).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoWordTable
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import WordVocabulary
from ..text.word_vectors import build_word_table
from .bilm_tf_vocabulary import ForeignWords
from .checked_files import ConversionError

WORD_TABLE = "token_encoder.word_table.weight"


def fill_table(model: ElmoModel, words: ForeignWords, embedding: np.ndarray) -> None:
    """Fill a model's table of words.

    Args:
        model: Its config is that of `read_config` with these words.
        words: The words of the vocabulary file.
        embedding: Their vectors in the order of the file, (V, P).
    Raises: ConversionError where two words cannot be told apart.
    """
    vectors, vocabulary = words.reorder(embedding), words.vocabulary
    unknown = vocabulary.unk_id
    known = [*vocabulary.words[:unknown], *vocabulary.words[unknown + 1 :]]
    table = build_word_table(_tokenizer(model.config), known, np.delete(vectors, unknown, axis=0))
    if table.num_merged:
        raise ConversionError(
            f"{words.where}: {table.num_merged} words have the same characters as an earlier one in the first "
            f"{model.config.max_characters_per_word - 2} bytes, more than which a row of a word has not; leave them "
            "out, and their rows of the weights."
        )
    try:
        replace(table, unknown=vectors[unknown]).fill(model)
    except ValueError as error:
        raise ConversionError(f"{words.where}: {error}") from error


def vectors_in_order(parameters: dict[str, Tensor], config: ElmoConfig, vocabulary: WordVocabulary | None) -> Tensor:
    """The vectors of a vocabulary's words in its order, (V, P), out of a model's table; undoes `fill_table`.

    Args:
        parameters: The model's, by their names in ElmoModel.
        config: The model's.
        vocabulary: The words; all that the table knows, and `<UNK>`.
    Raises: ConversionError where they are not the table's.
    """
    if vocabulary is None:
        raise ConversionError(
            "vocabulary is None, but the model reads words: bilm-tf's table stands in the order of a vocabulary file. "
            "Give the words of the table; a converted checkpoint has them in word_vocabulary.txt."
        )
    with torch.device("meta"):
        table = ElmoWordTable(len(parameters[WORD_TABLE]) - 1, config.projection_size)
    table.load_state_dict(
        {name: parameters[f"{WORD_TABLE.removesuffix('weight')}{name}"] for name in ("weight", "hashes")}, assign=True
    )
    rows = _tokenizer(config).encode_words(vocabulary.words)
    places = table.places(torch.from_numpy(rows))
    known = places[places > 0].unique()
    if len(known) != config.word_table_size or int(places[vocabulary.unk_id]) != 0:
        raise ConversionError(
            f"vocabulary has {len(known)} of the {config.word_table_size} words of the model's table, wanted all of "
            f"them and {vocabulary.words[vocabulary.unk_id]!r} beside them; give the words that it was trained with."
        )
    return parameters[WORD_TABLE][places]


def _tokenizer(config: ElmoConfig) -> ElmoCharTokenizer:
    return ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word)
