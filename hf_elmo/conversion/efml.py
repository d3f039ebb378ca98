"""ELMoForManyLangs models (Che et al. 2018) to ElmoModel: words beside characters that are code points.

Numbers are copied; only the gates of the highway layers, which say the opposite here, change their sign. What the
program does otherwise than this package is written in docs/conversion.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from torch.nn import functional as F

from ..given.bounded_files import quoted
from ..model.configuration_elmo import BOS_TOKEN, DICTIONARY_MARKS, EOS_TOKEN, ElmoConfig
from ..model.modeling_elmo import ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import SPECIAL_WORDS, UNK_TOKEN, WordVocabulary
from .allennlp_keys import FORGET_BIAS, bilm_rules, encoder_rules, parameter_shapes, take, wanted_shapes
from .bilm_tf import add_word_softmax
from .bilm_tf_softmax import WordSoftmax
from .checked_files import ConversionError, one_line
from .efml_files import DEFAULT_NAMES, Settings, find_directory, read_dictionary, read_settings
from .foreign import ForeignFormat, ForeignModel
from .torch_weights import TorchWeights

_WORDS, _CHARACTERS = "word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"
_SOFTMAX, _SOFTMAX_BIAS = "column_emb.weight", "column_bias.weight"
# The program trains this many by its language models' loss, however many there are.
_TRAINED_LAYERS = 2

_UNKNOWN = "<oov>"
# Their names for words that a vocabulary here must have.
_SPECIAL_WORDS = {"<bos>": BOS_TOKEN, "<eos>": EOS_TOKEN, _UNKNOWN: UNK_TOKEN}


class _Rows(NamedTuple):
    """Entries of a dictionary of theirs and the rows of their embedding that hold their vectors.

    Args:
        entries: What they stand for.
        places: The row of each.
    """

    entries: list[str]
    places: list[int]


def load_source(
    source: Path,
    *,
    options_file: str | os.PathLike | None = None,
    tokenizer_options: Mapping[str, Any] | None = None,
) -> ForeignModel:
    """Read an ELMoForManyLangs model out of its directory.

    Args:
        source: The directory, or one that holds it alone.
        options_file: The JSON of the model's sizes, where the directory's config.json does not lead to it.
        tokenizer_options: How the tokenizer cuts text: arguments of `ElmoCharTokenizer`.
    Raises: ConversionError naming the file, what was found and what is wanted; FileNotFoundError.
    """
    directory = find_directory(source)
    if directory is None:
        raise ConversionError(
            f"source {str(source)!r} holds no token_embedder.pkl and encoder.pkl side by side, or several of them; "
            "name the directory or the zip of one model."
        )
    settings = read_settings(directory, None if options_file is None else Path(options_file))
    words = _read_words(directory) if settings.word_size else {}
    characters = _characters(directory, settings, words)
    tokenizer = _make_tokenizer(directory, settings, characters.entries, tokenizer_options)
    table = _table_words(words, tokenizer)
    model: ElmoPreTrainedModel
    base = model = _load_model(directory, settings, tokenizer, characters, table)
    names = ("token_embedder.pkl", "encoder.pkl", "config.json", "char.dic", "word.dic")
    files = {name: directory / name for name in names if (directory / name).is_file()}
    if settings.file is not None:
        files["options_file"] = settings.file
    notes = _notes(settings, base.config)
    if (directory / "classifier.pkl").is_file():
        model, left_out = _with_softmax(base, directory)
        files["classifier.pkl"] = directory / "classifier.pkl"
        notes += left_out
    return ForeignModel(model, tokenizer, files, settings.content, tuple(notes))


EFML = ForeignFormat(
    name="efml",
    files="a directory or zip of ELMoForManyLangs with token_embedder.pkl, encoder.pkl and its dictionaries",
    licence="ELMoForManyLangs is under the MIT licence; the weights have the licence of whoever published them.",
    recognises=lambda source: find_directory(source) is not None,
    load=load_source,
)


def _characters(directory: Path, settings: Settings, words: Mapping[str, int]) -> _Rows:
    """The characters of the tokenizer, by id from 1 on, and the rows of their embedding.

    Words of the table are found by their characters: one that char.dic lacks gets an id of its own there, and the
    vector of `<oov>`, which it has been read by.
    """
    longest = settings.fields["max_characters_per_word"] - 2
    ids = dict.fromkeys(DICTIONARY_MARKS, 0)
    if settings.character_size:
        ids = read_dictionary(directory / "char.dic")
        missing = [mark for mark in DICTIONARY_MARKS if mark not in ids]
        if missing:
            raise ConversionError(
                f"the dictionary {str(directory / 'char.dic')!r} lacks the entry {missing[0]!r}; the program wants "
                f"{', '.join(DICTIONARY_MARKS)}. Get the file again."
            )
    known = sorted(ids, key=lambda entry: (ids[entry], entry))
    new = dict.fromkeys(character for word in words if len(word) <= longest for character in word)
    added = [character for character in new if character not in ids]
    return _Rows(known + added, [ids[entry] for entry in known] + [ids[_UNKNOWN]] * len(added))


def _make_tokenizer(
    directory: Path, settings: Settings, characters: list[str], tokenizer_options: Mapping[str, Any] | None
) -> ElmoCharTokenizer:
    return ElmoCharTokenizer(
        **{"pre_tokenizer": "whitespace", **(tokenizer_options or {})},
        max_characters_per_word=settings.fields["max_characters_per_word"],
        characters=characters,
    )


def _read_words(directory: Path) -> dict[str, int]:
    words = read_dictionary(directory / "word.dic")
    if _UNKNOWN not in words:
        raise ConversionError(
            f"the dictionary {str(directory / 'word.dic')!r} lacks the entry {_UNKNOWN!r}, which stands for all words "
            "that it does not hold. Get the file again."
        )
    return words


def _table_words(words: Mapping[str, int], tokenizer: ElmoCharTokenizer) -> _Rows | None:
    """`<oov>`, and the words that can be looked up: those that a row holds to their end; None without words."""
    if not words:
        return None
    longest = tokenizer.max_characters_per_word - 2
    # `<S>` and `</S>`, where they are words, are markers here.
    found = [
        word
        for word in words
        if word != _UNKNOWN and (word in _SPECIAL_WORDS or (len(word) <= longest and word not in SPECIAL_WORDS[:2]))
    ]
    return _Rows([_UNKNOWN, *found], [words[word] for word in (_UNKNOWN, *found)])


def _load_model(
    directory: Path,
    settings: Settings,
    tokenizer: ElmoCharTokenizer,
    characters: _Rows,
    table: _Rows | None,
) -> ElmoModel:
    config = _config(settings, tokenizer, None if table is None else len(table.entries) - 1)
    embedder = TorchWeights("the model's", directory / "token_embedder.pkl", settings.where)
    encoder = TorchWeights("the model's", directory / "encoder.pkl", settings.where)
    rules = encoder_rules(config, "convolutions.#")
    shapes = parameter_shapes(config)
    wanted = wanted_shapes(rules, shapes)
    for key, size, rows in (
        (_WORDS, settings.word_size, table),
        (_CHARACTERS, settings.character_size, characters),
    ):
        if size and rows is not None:
            # How many rows there are the settings do not say; the dictionary must not lead beyond them.
            count = max(embedder.size(key, 0), *(place + 1 for place in rows.places))
            wanted[key] = (count, size)
    embedder.check(wanted)
    layers = bilm_rules(config)
    encoder.check(wanted_shapes(layers, shapes))
    parameters: dict[str, Tensor] = {**take(rules, embedder), **take(layers, encoder)}
    if settings.character_size:
        # The id 0, "no word here", is ours alone.
        vectors = F.pad(embedder[_CHARACTERS][characters.places], (0, 0, 1, 0))
        parameters["token_encoder.character_embedding.weight"] = vectors
    model = ElmoModel(config)
    model.load_state_dict({**model.state_dict(), **parameters})
    if table is not None and model.token_encoder.word_table is not None:
        unknown, known = embedder[_WORDS][table.places].split([1, len(table.places) - 1])
        spelt = torch.from_numpy(tokenizer.encode_words(table.entries[1:]))
        model.token_encoder.word_table.fill(spelt, known, unknown[0])
    return model.eval()


def _config(settings: Settings, tokenizer: ElmoCharTokenizer, num_words: int | None) -> ElmoConfig:
    inputs: Literal["characters", "words", "both"] = "both" if settings.word_size else "characters"
    fields = dict(settings.fields)
    if not settings.character_size:
        # There are none; the field alone wants some that a row has room for.
        inputs, fields["filters"] = "words", [[1, 1]]
    try:
        return ElmoConfig(
            vocab_size=tokenizer.vocab_size,
            character_scheme="dictionary",
            padding_character_id=tokenizer.get_vocab()["<pad>"],
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            token_inputs=inputs,
            word_table_size=num_words,
            word_vector_size=settings.word_size or None,
            forget_bias=FORGET_BIAS,
            **fields,
        )
    except (ValueError, StrictDataclassError) as error:
        raise ConversionError(f"{settings.where} describe no valid model: {one_line(error)}") from error


def _with_softmax(model: ElmoModel, directory: Path) -> tuple[ElmoPreTrainedModel, list[str]]:
    """The model with the softmax of classifier.pkl; or, where it has none for it, the model and the reason."""
    if model.config.num_hidden_layers != _TRAINED_LAYERS:
        return model, [
            f"classifier.pkl is left out: its program trains the softmax on the LSTM's second layer, and of this "
            f"model's {model.config.num_hidden_layers} the last is the top. So no text can be scored."
        ]
    path = directory / "classifier.pkl"
    words = _read_words(directory)
    weights = TorchWeights("the model's", path, f"{str(directory / 'word.dic')!r}")
    if _SOFTMAX not in weights:
        return model, [
            f"classifier.pkl is left out: it has no {_SOFTMAX!r}, the softmax of the settings 'sampled_softmax', but "
            f"{quoted(weights.keys[:1])}. So no text can be scored."
        ]
    count = max(weights.size(_SOFTMAX, 0), *(index + 1 for index in words.values()))
    size = model.config.projection_size
    weights.check({_SOFTMAX: (count, size), _SOFTMAX_BIAS: (count, 1)}, ignored=["oov_column"])
    # What would be taken for another word has none here: no text leads to it.
    names = {index: _SPECIAL_WORDS.get(word, word) for word, index in words.items() if word not in SPECIAL_WORDS}
    listed = [names.get(index, f"<unused {index}>") for index in range(count)]
    missing = [word for word in SPECIAL_WORDS if word not in listed]
    if missing:
        theirs = next(word for word, ours in _SPECIAL_WORDS.items() if ours == missing[0])
        return model, [f"classifier.pkl is left out: word.dic has no {theirs}, which it would have to predict."]
    first = [listed.index(word) for word in SPECIAL_WORDS]
    places = first + [place for place in range(count) if place not in first]
    vocabulary = WordVocabulary([listed[place] for place in places])
    parameters = {
        "word_softmax.weight": weights[_SOFTMAX][places],
        "word_softmax.bias": weights[_SOFTMAX_BIAS][places].squeeze(1),
    }
    return add_word_softmax(model, WordSoftmax(vocabulary, parameters)), []


def _notes(settings: Settings, config: ElmoConfig) -> list[str]:
    notes = [
        "Its program carries the LSTMs' states from batch to batch, so that a sentence's vectors depended on what was "
        "read before; here they start from zeros unless a state is given.",
        f"Words are read up to their character {config.max_characters_per_word - 2}, and looked up as they are then.",
    ]
    if settings.file is None:
        notes.append(
            f"The JSON of the sizes is not in the archive: they are those of {DEFAULT_NAMES[0]}, which the program "
            "itself then takes, and the shapes of all weights agree with them."
        )
    if config.num_hidden_layers > _TRAINED_LAYERS:
        notes.append(
            f"Its program trains the first {_TRAINED_LAYERS} layers whatever their number: those above have the "
            "numbers that they were drawn with."
        )
    return notes
