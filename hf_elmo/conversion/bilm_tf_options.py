"""The options.json of a bilm-tf checkpoint to a config and back."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from ..given.bounded_files import MEBIBYTE, quoted
from ..given.bounded_json import read_json
from ..model.configuration_elmo import MAX_CHARACTERS_PER_WORD, ElmoConfig
from ..text.vocabulary import WordVocabulary
from .bilm_tf_keys import (
    CHARACTERS_OPTION,
    FORGET_BIAS,
    INFERENCE_CHARACTERS,
    OPTION_RULES,
    REQUIRED,
    TRAINING_CHARACTERS,
    WORDS_OPTION,
    OptionRule,
)
from .checked_files import ConversionError, existing_file, one_line

# Why a model of one direction is refused.
ONE_DIRECTION = (
    "An ELMo vector joins both directions, and nothing reads such files, bilm-tf itself neither: convert a "
    "bidirectional model."
)
_PROJECTION = next(rule for rule in OPTION_RULES if rule.field == "projection_size")

# What `_find_option` gives for an option that is not there; null is a value.
_ABSENT = object()


def _is_integer(value: Any, smallest: int, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and smallest <= value <= largest


def _is_clip(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _is_filters(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= 1000
        and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        and all(_is_integer(number, 1, 1_000_000) for pair in value for number in pair)
    )


# What an option must be, in words and as a test. The upper bounds keep a slip of the pen from eating all memory; how
# large all sizes together may be the file of weights says.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "size": ("an integer from 1 to 1000000", lambda value: _is_integer(value, 1, 1_000_000)),
    "row": (
        f"an integer from 3 to {MAX_CHARACTERS_PER_WORD}",
        lambda value: _is_integer(value, 3, MAX_CHARACTERS_PER_WORD),
    ),
    "layers": ("an integer from 1 to 1000", lambda value: _is_integer(value, 1, 1000)),
    "optional layers": ("an integer from 0 to 1000", lambda value: _is_integer(value, 0, 1000)),
    "clip": ("a number > 0, or null for no clipping", _is_clip),
    "activation": ('"relu" or "tanh"', lambda value: value in ("relu", "tanh")),
    "filters": ("a list of at most 1000 [width, count] pairs of integers from 1 to 1000000", _is_filters),
}


def reads_words(options: Mapping[str, Any]) -> bool:
    """Whether options are those of a model with a table of word vectors in place of characters."""
    return "char_cnn" not in options and "lstm" in options


def read_config(
    options_file: str | os.PathLike, words: WordVocabulary | None = None, in_training: bool = False
) -> ElmoConfig:
    """Turn bilm-tf's options.json into a config.

    Settings of the training run (batch size, learning rate and so on) say nothing about the weights and are left out.

    Args:
        options_file: options.json, in its training or its inference form.
        words: Those of a model that reads words; one that reads characters has no use for them.
        in_training: Whether the options are read as bilm-tf's trainer does, for which a missing
            `use_skip_connections` is false; its inference wants the key.
    Returns: The config of a model with both projections; see `without_missing_projections`.
    Raises: ConversionError naming the option, its value and the value wanted; FileNotFoundError.
    """
    where = f"options_file {str(options_file)!r}"
    options = read_options(options_file)
    if options.get("bidirectional") is False:
        raise ConversionError(f"{where}: 'bidirectional' is false. {ONE_DIRECTION}")
    fields: dict[str, Any] = {}
    if reads_words(options) and words is not None:
        fields |= {
            "token_inputs": "words",
            # All but <UNK>, which stands for whatever is not in the table.
            "word_table_size": len(words) - 1,
            "word_vector_size": _read_option(where, options, _PROJECTION),
            "project_tokens": False,
            "max_characters_per_word": _width_for(words),
        }
    elif "char_cnn" not in options:
        raise ConversionError(
            f"{where} lacks the key 'char_cnn': a model that reads words in place of characters, or not an ELMo model. "
            "For the former name its words with vocab_file; else use the options.json published with the weights."
        )
    else:
        _check_characters(where, _find_option(where, options, CHARACTERS_OPTION))
    for rule in OPTION_RULES:
        if "token_inputs" in fields and rule.path.startswith("char_cnn."):
            continue
        if in_training and rule.field == "use_skip_connections":
            rule = replace(rule, default=False)
        fields[rule.field] = _read_option(where, options, rule)
    try:
        return ElmoConfig(vocab_size=INFERENCE_CHARACTERS, forget_bias=FORGET_BIAS, **fields)
    except (ValueError, StrictDataclassError) as error:
        names = ", ".join(f"{rule.field} is {rule.path}" for rule in OPTION_RULES)
        raise ConversionError(f"{where} describes no valid model: {one_line(error)} (There, {names}.)") from error


def options_from_config(config: ElmoConfig) -> dict[str, Any]:
    """The options.json of a config, in the form for inference; undoes `read_config`.

    Args:
        config: Of a model that reads characters, or words.
    """
    options: dict[str, Any] = {}
    values = {rule.path: getattr(config, rule.field) for rule in OPTION_RULES} | {CHARACTERS_OPTION: config.vocab_size}
    if config.word_table_size is not None:
        values = {path: value for path, value in values.items() if not path.startswith("char_cnn.")}
        values[WORDS_OPTION] = config.word_table_size + 1
    for path, value in values.items():
        *sections, name = path.split(".")
        section = options
        for level in sections:
            section = section.setdefault(level, {})
        section[name] = value
    return options


def read_options(options_file: str | os.PathLike) -> dict[str, Any]:
    """The options as the file has them.

    Raises: ConversionError where it is no object of JSON; FileNotFoundError.
    """
    where = f"options_file {str(options_file)!r}"
    try:
        options = read_json(existing_file("options_file", options_file), where, MEBIBYTE)
    except ValueError as error:
        raise ConversionError(f"{error} Name the options.json published with the weights.") from error
    if not isinstance(options, dict):
        raise ConversionError(
            f"{where} holds a {type(options).__name__}, wanted an object with the keys 'lstm' and 'char_cnn'; name the "
            "options.json published with the weights."
        )
    return options


def _find_option(where: str, options: dict[str, Any], path: str) -> Any:
    """The value at a dotted path, or `_ABSENT`."""
    value: Any = options
    names = path.split(".")
    for depth, name in enumerate(names):
        if not isinstance(value, dict):
            raise ConversionError(
                f"{where}: {'.'.join(names[:depth])!r} is {quoted(value)}; wanted an object with the key {name!r}. "
                "Correct it, or use the options.json published with the weights."
            )
        if name not in value:
            return _ABSENT
        value = value[name]
    return value


def _read_option(where: str, options: dict[str, Any], rule: OptionRule) -> Any:
    value = _find_option(where, options, rule.path)
    if rule.default is not REQUIRED and (value is _ABSENT or value is None):
        return rule.default
    wanted, is_valid = _KINDS[rule.kind]
    if value is _ABSENT:
        raise ConversionError(
            f"{where} lacks the key {rule.path!r}; wanted {wanted}. Add it, or use the options.json published with the "
            "weights."
        )
    if not is_valid(value):
        raise ConversionError(
            f"{where}: {rule.path!r} is {quoted(value)}; wanted {wanted}. Correct it, or use the options.json "
            "published with the weights."
        )
    return value


def _check_characters(where: str, value: Any) -> None:
    if not _is_integer(value, TRAINING_CHARACTERS, INFERENCE_CHARACTERS):
        found = (
            f"lacks the key {CHARACTERS_OPTION!r}" if value is _ABSENT else f"has {CHARACTERS_OPTION!r} {quoted(value)}"
        )
        raise ConversionError(
            f"{where} {found}; wanted {TRAINING_CHARACTERS} (options for training) or {INFERENCE_CHARACTERS} (options "
            "for inference), the byte scheme of the released models. Models with other characters cannot be converted."
        )


def _width_for(words: WordVocabulary) -> int:
    """The width of rows in which every word is whole, and no longer one is taken for it once it is cut."""
    longest = max(len(word.encode("utf-8", "ignore")) for word in words.words)
    return min(max(ElmoConfig.max_characters_per_word, longest + 3), MAX_CHARACTERS_PER_WORD)
