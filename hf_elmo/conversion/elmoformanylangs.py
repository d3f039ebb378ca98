"""Models of ELMoForManyLangs (Che et al. 2018): words beside characters, and characters that are code points.

Numbers are copied; only the gates of the highway layers, which mean the opposite here, change their sign. What the
program does otherwise is written in docs/conversion.md.

Source: elmoformanylangs/elmo.py (how a model is found and loaded), frontend/ and modules/ of the same package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import torch
from torch.nn import functional as F

from ..given import quoted
from ..model.configuration_elmo import (
    BOS_TOKEN,
    DICTIONARY_MARKS,
    EOS_TOKEN,
    MAX_CHARACTERS_PER_WORD,
    ElmoConfig,
)
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.files import decoded_lines
from ..text.vocabulary import SPECIAL_WORDS, UNK_TOKEN, WordVocabulary
from . import reading
from .allennlp import CARRIED_STATES, FORGET_BIAS, bilm_rules, encoder_rules
from .reading import Converted, Weights

FILES = "a model of ELMoForManyLangs with token_embedder.pkl and encoder.pkl"
LICENSE = "ELMoForManyLangs is under the MIT license"
_EMBEDDER, _ENCODER, _CLASSIFIER = "token_embedder.pkl", "encoder.pkl", "classifier.pkl"
_WORDS, _CHARACTERS = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"
_SOFTMAX, _SOFTMAX_BIAS = "column_emb.weight", "column_bias.weight"
# The program trains this many layers by its language models' loss, however many there are.
_TRAINED_LAYERS = 2

_WORD_LIST, _UNKNOWN = "word.dic", "<oov>"
# Their names of words that a vocabulary here must have.
_SPECIAL_WORDS = {"<bos>": BOS_TOKEN, "<eos>": EOS_TOKEN, _UNKNOWN: UNK_TOKEN}
_MARKS = ", ".join(_SPECIAL_WORDS)
# What an entry of white space alone becomes, because lines are stripped before they are cut.
_WHITE_SPACE = "\u3000"

# The released models' settings, which are not in their archives: the program brings them under both names.
_DEFAULT_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_DEFAULT_SETTINGS: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
    "classifier": {"name": "sampled_softmax", "n_samples": 8192},
    "dropout": 0.1,
}
# What the settings call the fields of `ElmoConfig`.
_NAMES = {
    "max_characters_per_word": "token_embedder.max_characters_per_token",
    "character_embedding_size": "token_embedder.char_dim",
    "word_vector_size": "token_embedder.word_dim",
    "filters": "token_embedder.filters",
    "filter_activation": "token_embedder.activation",
    "num_highway_layers": "token_embedder.n_highway",
    "projection_size": "encoder.projection_dim",
    "cell_size": "encoder.dim",
    "num_hidden_layers": "encoder.n_layers",
    "cell_clip": "encoder.cell_clip",
    "projection_clip": "encoder.proj_clip",
}


def recognizes(source: Path) -> bool:
    """Whether a source is the directory of a model."""
    return (source / _EMBEDDER).is_file() and (source / _ENCODER).is_file()


def read(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> Converted:
    """Read a model out of its directory; `options_file` has its sizes, where config.json does not lead to them."""
    file = _find_settings(source) if options_file is None else Path(options_file)
    settings = _DEFAULT_SETTINGS if file is None else reading.read_object("options_file", file)
    where = f"the program's own {_DEFAULT_NAMES[0]}" if file is None else f"options_file {str(file)!r}"
    embedder = _check_kind(where, settings)
    width = embedder.get("max_characters_per_token")
    if not isinstance(width, int) or not 3 <= width <= MAX_CHARACTERS_PER_WORD:
        raise ValueError(
            f"{where}: max_characters_per_token is {quoted(width)}, expected 3 to {MAX_CHARACTERS_PER_WORD}."
        )
    words = _read_dictionary(source / _WORD_LIST, _UNKNOWN) if embedder.get("word_dim") else {}
    characters = _characters(source, bool(embedder.get("char_dim")), words, width - 2)
    tokenizer = reading.make_tokenizer(tokenizer_options, max_characters_per_word=width, characters=list(characters))
    # `<oov>` and the words that a row of characters holds whole; `<S>` and `</S>`, as words, are special tokens here.
    words = {
        word: row
        for word, row in words.items()
        if word in _SPECIAL_WORDS or (len(word) <= width - 2 and word not in SPECIAL_WORDS[:2])
    }
    config = _make_config(where, settings, tokenizer, words)
    bilm = _load_model(source, where, config, tokenizer, characters, words)
    names = (_EMBEDDER, _ENCODER, "config.json", "char.dic", _WORD_LIST, _CLASSIFIER)
    files = {name: source / name for name in names if (source / name).is_file()}
    notes = [CARRIED_STATES, f"Words are cut to {width - 2} characters, and looked up as they are then."]
    if file is not None:
        files["options_file"] = file
    else:
        notes.append(f"The sizes are not in the archive: as the program does, those of {_DEFAULT_NAMES[0]} were taken.")
    if config.num_hidden_layers > _TRAINED_LAYERS:
        notes.append(f"The program trains {_TRAINED_LAYERS} layers: those above have the numbers they started with.")
    model: ElmoPreTrainedModel | None = None
    if _CLASSIFIER in files:
        if config.num_hidden_layers == _TRAINED_LAYERS:
            model = _with_softmax(bilm, source)
        if model is None:
            notes.append(
                f"{_CLASSIFIER} was left out, so no text can be scored: a softmax is taken from {_SOFTMAX} of a model "
                f"of {_TRAINED_LAYERS} layers, on the last of which it was trained, with rows for {_MARKS}."
            )
    return Converted(model or bilm, tokenizer, files, settings, tuple(notes))


def _find_settings(directory: Path) -> Path | None:
    """The JSON of the sizes, looked for as the program does; None for the one that the program brings."""
    named = reading.read_object("file", directory / "config.json").get("config_path")
    # A path on the machine where the model was trained, whatever its system.
    path = PureWindowsPath(str(named))
    inside = [] if path.is_absolute() or path.root or ".." in path.parts else [directory.joinpath(*path.parts)]
    found = [file for file in (*inside, directory / path.name) if os.path.isfile(file)]
    if found or path.name in _DEFAULT_NAMES:
        return found[0] if found else None
    raise ValueError(
        f"{str(directory / 'config.json')!r} names {quoted(named)} as the JSON of the model's sizes, which is not "
        "there, and the program brings none of that name; name the file by options_file."
    )


def _check_kind(where: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the token embedder; refuses what is no ELMo, and what the program itself cannot run."""
    encoder, embedder = (settings.get(name) for name in ("encoder", "token_embedder"))
    if not isinstance(encoder, dict) or not isinstance(embedder, dict):
        raise ValueError(f"{where} lacks the objects 'encoder' and 'token_embedder'; name the model's own.")
    if encoder.get("name") != "elmo":
        raise ValueError(
            f"{where}: encoder.name is {quoted(encoder.get('name'))}, expected 'elmo'. An encoder 'lstm' is no ELMo: "
            "its second layer reads both directions, and vectors change with the longest sentence of the batch."
        )
    # Without characters both kinds are the same.
    if embedder.get("name") != "cnn" and not (embedder.get("name") == "lstm" and embedder.get("char_dim") == 0):
        raise ValueError(f"{where}: token_embedder.name is {quoted(embedder.get('name'))}, expected 'cnn'.")
    return embedder


def _read_dictionary(path: Path, *required: str) -> dict[str, int]:
    """The entries of char.dic or word.dic and their ids, as the program reads them."""
    where, entries = f"dictionary {str(path)!r}", {}
    text = "".join(line for _, line in decoded_lines(reading.existing_file("dictionary", path), "dictionary"))
    for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
        parts = line.strip().split("\t")
        entry, index = (_WHITE_SPACE, parts[0]) if len(parts) == 1 else (parts[0], parts[-1])
        if len(parts) > 2 or not index.isascii() or not index.isdigit() or len(index) > 9:
            raise ValueError(f"{where}, line {number} is {quoted(line)}, expected an entry, a tab and its id.")
        entries[entry] = int(index)
    missing = [entry for entry in required if entry not in entries]
    if missing:
        raise ValueError(f"{where} lacks the entry {missing[0]!r}, which the program needs; get it again.")
    return entries


def _characters(directory: Path, has_characters: bool, words: Mapping[str, int], longest: int) -> dict[str, int]:
    """The characters of the tokenizer, by id from 1 on, and the row of their embedding that holds each."""
    ids = dict.fromkeys(DICTIONARY_MARKS, 0)
    if has_characters:
        ids = _read_dictionary(directory / "char.dic", *DICTIONARY_MARKS)
    known = dict(sorted(ids.items(), key=lambda item: item[::-1]))
    new = (character for word in words if len(word) <= longest for character in word if character not in ids)
    return known | dict.fromkeys(new, ids[_UNKNOWN])


def _make_config(
    where: str, settings: Mapping[str, Any], tokenizer: ElmoCharTokenizer, words: Mapping[str, int]
) -> ElmoConfig:
    fields = {name: settings[path.partition(".")[0]].get(path.partition(".")[2]) for name, path in _NAMES.items()}
    has_characters = bool(fields["character_embedding_size"])
    if not has_characters:
        if not words:
            raise ValueError(f"{where}: token_embedder has neither a word_dim nor a char_dim above 0.")
        for name in ("character_embedding_size", "filter_activation", "num_highway_layers"):
            del fields[name]
        # There are none; the field alone wants some that a row has room for.
        fields["filters"] = [[1, 1]]
    fields |= {
        # 0 clips nothing there.
        "cell_clip": fields["cell_clip"] or None,
        "projection_clip": fields["projection_clip"] or None,
        "word_vector_size": fields["word_vector_size"] or None,
        "word_table_size": len(words) - 1 if words else None,
        "token_inputs": "characters" if not words else "both" if has_characters else "words",
        "dropout": settings.get("dropout", 0.1),
        "forget_bias": FORGET_BIAS,
        "vocab_size": tokenizer.vocab_size,
        "character_scheme": "dictionary",
        "padding_character_id": tokenizer.get_vocab()["<pad>"],
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    return reading.make_config(where, _NAMES, fields)


def _load_model(
    directory: Path,
    where: str,
    config: ElmoConfig,
    tokenizer: ElmoCharTokenizer,
    characters: Mapping[str, int],
    words: Mapping[str, int],
) -> ElmoModel:
    embedder = reading.read_torch("file", directory / _EMBEDDER)
    encoder = reading.read_torch("file", directory / _ENCODER)
    tables = {}
    if words:
        tables[_WORDS] = _expected_rows(embedder, _WORDS, words, config.word_vector_size)
    if config.token_inputs != "words":
        tables[_CHARACTERS] = _expected_rows(embedder, _CHARACTERS, characters, config.character_embedding_size)
    parameters = reading.take_parameters(embedder, encoder_rules(config, "convolutions."), config, where, tables)
    parameters |= reading.take_parameters(encoder, bilm_rules(config), config, where)
    if config.token_inputs != "words":
        # The id 0, "no word here", is ours alone.
        vectors = F.pad(embedder[_CHARACTERS][list(characters.values())], (0, 0, 1, 0))
        parameters["token_encoder.character_embedding.weight"] = vectors
    model = reading.make_model(config, parameters)
    if words and model.token_encoder.word_table is not None:
        known = {word: row for word, row in words.items() if word != _UNKNOWN}
        rows = torch.from_numpy(tokenizer.encode_words(list(known)))
        vectors = embedder[_WORDS]
        model.token_encoder.word_table.fill(rows, vectors[list(known.values())], vectors[words[_UNKNOWN]])
    return model


def _expected_rows(weights: Weights, key: str, entries: Mapping[str, int], size: int | None) -> tuple[int, int]:
    """The shape of an embedding: settings do not say how many rows; a dictionary must not lead beyond them."""
    found = weights[key].shape[0] if key in weights and weights[key].ndim else 0
    return max(found, *(row + 1 for row in entries.values())), size or 0


def _with_softmax(model: ElmoModel, directory: Path) -> ElmoPreTrainedModel | None:
    """The model with the softmax of classifier.pkl; None where that has none, or none of the marks."""
    weights = reading.read_torch("file", directory / _CLASSIFIER)
    words = _read_dictionary(directory / _WORD_LIST, _UNKNOWN)
    if _SOFTMAX not in weights:
        return None
    num_rows, size = _expected_rows(weights, _SOFTMAX, words, model.config.projection_size)
    shapes = {_SOFTMAX: (num_rows, size), _SOFTMAX_BIAS: (num_rows, 1)}
    weights.check(shapes, repr(str(directory / _WORD_LIST)), ["oov_column"])
    # What would be taken for another word has no name here: no text leads to it.
    names = {row: _SPECIAL_WORDS.get(word, word) for word, row in words.items() if word not in SPECIAL_WORDS}
    listed = [names.get(row, f"<unused {row}>") for row in range(num_rows)]
    if not set(SPECIAL_WORDS) <= set(listed):
        return None
    first = [listed.index(word) for word in SPECIAL_WORDS]
    order = first + [row for row in range(num_rows) if row not in first]
    vocabulary = WordVocabulary([listed[row] for row in order])
    rows, bias = weights[_SOFTMAX][order], weights[_SOFTMAX_BIAS][order].squeeze(1)
    return reading.add_word_softmax(model, vocabulary, rows, bias)
