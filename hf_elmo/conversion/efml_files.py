"""The files of an ELMoForManyLangs model: where they lie, what their settings and their dictionaries say.

Source: elmoformanylangs/elmo.py (how a model is found and loaded), frontend/ and modules/ of the same package.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

from ..given.bounded_files import MEBIBYTE, path_inside, quoted, read_file
from ..given.bounded_json import read_json
from ..model.configuration_elmo import MAX_CHARACTERS_PER_WORD
from .checked_files import ConversionError, existing_file

# Two of the files that each model has; of no other program's do both have these names.
_WEIGHTS = ("token_embedder.pkl", "encoder.pkl")

# The released models' settings, which are not in their archives: the program brings them under both names.
DEFAULT_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
DEFAULT_OPTIONS: dict[str, Any] = {
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

# What an entry of white space alone becomes, because lines are stripped before they are cut.
_WHITE_SPACE = "\u3000"
_MOST_DICTIONARY = 256 * MEBIBYTE


class Settings(NamedTuple):
    """What the JSON of a model says, checked.

    Args:
        file: The JSON; None where the program's own stands in for one that is not there.
        where: What errors call it.
        content: All of it.
        fields: Fields of `ElmoConfig` by their names.
        word_size, character_size: Sizes of the vectors of words and of characters; 0 for none of these.
    """

    file: Path | None
    where: str
    content: dict[str, Any]
    fields: dict[str, Any]
    word_size: int
    character_size: int


def find_directory(source: Path) -> Path | None:
    """The directory of a model: a source itself, or the only one below it that has its files."""
    if not source.is_dir():
        return None
    places = [source, *(path for path in sorted(source.iterdir()) if path.is_dir())]
    found = [place for place in places if all((place / name).is_file() for name in _WEIGHTS)]
    return found[0] if len(found) == 1 or source in found else None


def read_settings(directory: Path, options_file: Path | None) -> Settings:
    """The settings of a model, looked for as the program does.

    Args:
        directory: The model's.
        options_file: The JSON of the model's sizes where it is not to be looked for.
    Raises: ConversionError naming the setting, the value got and the value wanted; FileNotFoundError.
    """
    file, content = _find_settings(directory, options_file)
    where = f"the program's own {DEFAULT_NAMES[0]!r}" if file is None else f"the settings {str(file)!r}"
    for section in ("encoder", "token_embedder"):
        if not isinstance(content.get(section), dict):
            raise ConversionError(f"{where} lack the object {section!r}; name the model's by options_file.")
    _check_kind(where, content)

    def option(path: str, kind: str, default: Any = None) -> Any:
        section, name = path.split(".")
        value = content[section].get(name, default)
        wanted, fits = _KINDS[kind]
        if not fits(value):
            raise ConversionError(
                f"{where}: {path!r} is {quoted(value)}; wanted {wanted}. Name the JSON of this model by options_file."
            )
        return value

    word_size, character_size = (option(f"token_embedder.{name}", "size or none") for name in ("word_dim", "char_dim"))
    if not word_size and not character_size:
        raise ConversionError(f"{where}: 'token_embedder' has neither word_dim nor char_dim; one must be > 0.")
    fields = {
        "max_characters_per_word": option("token_embedder.max_characters_per_token", "row"),
        "projection_size": option("encoder.projection_dim", "size"),
        "cell_size": option("encoder.dim", "size"),
        "num_hidden_layers": option("encoder.n_layers", "size"),
        # 0 clips nothing there.
        "cell_clip": option("encoder.cell_clip", "clip") or None,
        "projection_clip": option("encoder.proj_clip", "clip") or None,
        "dropout": content.get("dropout", 0.1),
    }
    if character_size:
        fields |= {
            "character_embedding_size": character_size,
            "filters": option("token_embedder.filters", "filters"),
            "filter_activation": option("token_embedder.activation", "activation"),
            "num_highway_layers": option("token_embedder.n_highway", "size or none"),
        }
    return Settings(file, where, content, fields, word_size, character_size)


def read_dictionary(path: Path) -> dict[str, int]:
    """The entries of char.dic or word.dic and their ids, as the program reads them.

    Raises: ConversionError naming the file and the line; FileNotFoundError.
    """
    where = f"the dictionary {str(path)!r}"
    entries: dict[str, int] = {}
    try:
        text = read_file(existing_file("the dictionary", path), _MOST_DICTIONARY, where).decode("utf-8")
    except UnicodeDecodeError as error:
        place = error.object[: error.start].count(b"\n") + 1
        raise ConversionError(f"{where}, line {place} is not UTF-8; get the file again.") from error
    except ValueError as error:
        raise ConversionError(str(error)) from error
    for number, line in enumerate(text.removeprefix("\ufeff").rstrip("\n").split("\n"), start=1):
        parts = line.strip().split("\t")
        entry, index = (_WHITE_SPACE, parts[0]) if len(parts) == 1 else parts[:2]
        if len(parts) > 2 or not index.isascii() or not index.isdigit() or len(index) > 9:
            raise ConversionError(
                f"{where}, line {number} is {quoted(line)}; wanted an entry, a tab and its id, a whole number >= 0. "
                "Get the file again."
            )
        entries[entry] = int(index)
    return entries


def _find_settings(directory: Path, options_file: Path | None) -> tuple[Path | None, dict[str, Any]]:
    if options_file is not None:
        return options_file, _read_object("options_file", existing_file("options_file", options_file))
    command_line = _read_object("the model's config.json", existing_file("the model's", directory / "config.json"))
    named = command_line.get("config_path")
    where = f"{str(directory / 'config.json')!r}"
    if not isinstance(named, str):
        raise ConversionError(
            f"{where} has {quoted(named)} for 'config_path', wanted the name of the JSON with the model's sizes; name "
            "that file by options_file."
        )
    # The path is one of whoever trained the model, of any system.
    last = PureWindowsPath(named).name
    for name in (named, last):
        try:
            path = path_inside(directory, name, where)
        except ValueError:
            continue
        if path.is_file():
            return path, _read_object("the settings", path)
    if last in DEFAULT_NAMES:
        return None, DEFAULT_OPTIONS
    raise ConversionError(
        f"{where} names the settings {quoted(named)}, which are not there, and the program brings none of that name; "
        "name the JSON with the model's sizes by options_file."
    )


def _read_object(name: str, path: Path) -> dict[str, Any]:
    where = f"{name} {str(path)!r}"
    try:
        content = read_json(path, where, MEBIBYTE)
    except ValueError as error:
        raise ConversionError(str(error)) from error
    if not isinstance(content, dict):
        raise ConversionError(f"{where} holds a {type(content).__name__}, wanted an object.")
    return content


def _check_kind(where: str, content: dict[str, Any]) -> None:
    """Refuse what are no language models, or none that the program itself can run."""
    encoder = content["encoder"].get("name")
    if encoder == "lstm":
        raise ConversionError(
            f"{where}: 'encoder.name' is 'lstm', an ordinary bidirectional LSTM: its second layer reads both "
            "directions, it gives its top layer alone, and a sentence's vectors change with the longest of its batch. "
            "That is no ELMo, and ElmoModel cannot hold it; convert a model whose encoder is 'elmo'."
        )
    if encoder != "elmo":
        raise ConversionError(f"{where}: 'encoder.name' is {quoted(encoder)}; wanted 'elmo'.")
    embedder = content["token_embedder"]
    # Without characters both are the same.
    if embedder.get("name") != "cnn" and not (embedder.get("name") == "lstm" and embedder.get("char_dim") == 0):
        raise ConversionError(
            f"{where}: 'token_embedder.name' is {quoted(embedder.get('name'))}; wanted 'cnn', the only one that the "
            "program runs with characters."
        )


def _is_integer(value: Any, smallest: int, largest: int = 1_000_000) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and smallest <= value <= largest


def _is_clip(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf)


def _is_filters(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 0 < len(value) <= 1000
        and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        and all(_is_integer(number, 1) for pair in value for number in pair)
    )


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "size": ("an integer from 1 to 1000000", lambda value: _is_integer(value, 1)),
    "size or none": ("an integer from 0 (none) to 1000000", lambda value: _is_integer(value, 0)),
    "row": (
        f"an integer from 3 to {MAX_CHARACTERS_PER_WORD}",
        lambda value: _is_integer(value, 3, MAX_CHARACTERS_PER_WORD),
    ),
    "clip": ("a number > 0, or 0 or null for no clipping", _is_clip),
    "activation": ('"relu" or "tanh"', lambda value: value in ("relu", "tanh")),
    "filters": ("a list of [width, count] pairs of integers >= 1", _is_filters),
}
