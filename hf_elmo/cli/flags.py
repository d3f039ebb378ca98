"""From dataclasses to flags: transformers' HfArgumentParser with groups, words without a flag, and one-line errors."""

from __future__ import annotations

import argparse
import difflib
import json
import textwrap
import typing
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn

import yaml
from transformers import HfArgumentParser, TrainingArguments

_LONGEST_NAMED = 100  # characters of unknown words in an error


class FlagParser(HfArgumentParser):
    """The flags of a command: each field of the dataclasses is one, in a group for the class that declares it.

    A field with `positional` is a word without a flag, and a list takes all such words. What transformers' own
    TrainingArguments declare works, but --help leaves it out. The first word may be a YAML file of flags.
    """

    def __init__(self, classes: Any, prog: str | None, description: str | None, epilog: str = ""):
        super().__init__(
            classes,
            prog=prog,
            description=description,
            epilog=epilog.strip("\n"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._words = [action for action in self._actions if not action.option_strings]
        words = [str(word.metavar) if word.required else f"[{word.metavar} ...]" for word in self._words]
        needed = [action for action in self._actions if action.required and action.option_strings]
        flags = [f"{flag.option_strings[0]} {flag.metavar}" for flag in needed]
        self.usage = " ".join(["%(prog)s", *words, *flags, "[--FLAG VALUE ...]"])

    def parse(self, argv: Sequence[str]) -> tuple[Any, ...]:
        """The dataclasses that the words of a command make; ends the process where they make none."""
        if argv and argv[0].endswith((".yaml", ".yml")) and not self._words:
            argv = [*_words_of_recipe(argv[0]), *argv[1:]]
        # Flags may stand between the words that belong to none.
        namespace, unknown = (self.parse_known_intermixed_args if self._words else self.parse_known_args)(argv)
        if unknown:
            self._refuse(unknown)
        given = vars(namespace)
        return tuple(
            each(**{field.name: given[field.name] for field in fields(each) if field.init and field.name in given})
            for each in self.dataclass_types
        )

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and end with exit code 2."""
        self.exit(2, f"error: {message}\n")

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Name the words that belong to no flag, and the flags that were meant, perhaps."""
        flags = ["--" + word.partition("=")[0][2:].replace("-", "_") for word in unknown if word.startswith("--")]
        near = [name for flag in flags for name in difflib.get_close_matches(flag, self._option_string_actions, n=1)]
        meant = f"did you mean {' '.join(near)}? " if near else ""
        if not unknown[0].startswith("-"):
            # What a shell makes of *.txt behind a flag that takes one value.
            meant += "a flag that takes one value was given several, or a pattern of files that wants quotes; "
        named = textwrap.shorten(" ".join(unknown), _LONGEST_NAMED, placeholder=" ...")
        self.error(f"unknown arguments: {named}; {meant}--help lists those there are")

    def _add_dataclass_arguments(self, dtype: Any) -> None:
        hints: dict[str, Any] = typing.get_type_hints(dtype)
        groups: dict[type, Any] = {}
        for field in fields(dtype):
            if not field.init:
                continue
            field.type = hints[field.name]
            *_, declaring = (
                each for each in dtype.__mro__ if vars(each).get("__dataclass_fields__", {}).get(field.name) is field
            )
            if declaring not in groups:
                groups[declaring] = self.add_argument_group(declaring.__doc__.strip().splitlines()[0].rstrip("."))
            first = len(self._actions)
            if field.metadata.get("positional"):
                word = {"default": argparse.SUPPRESS, "metavar": field.name.upper(), "help": field.metadata["help"]}
                groups[declaring].add_argument(field.name, nargs=None if field.default is MISSING else "*", **word)
            else:
                self._parse_dataclass_field(groups[declaring], field)
            # Behind `--x`, which is on by default, there is `--no_x`.
            action, *others = self._actions[first:]
            _describe(action)
            for hidden in self._actions[first:] if declaring is TrainingArguments else others:
                hidden.help = argparse.SUPPRESS


def _describe(action: argparse.Action) -> None:
    """Show a flag in one spelling, with what it takes, whether it is needed, and its default where that says much."""
    del action.option_strings[1:]  # type: ignore[attr-defined]
    if typing.get_origin(action.type) is typing.Literal:  # of a list
        action.choices, action.type = typing.get_args(action.type), str
    if action.option_strings and not action.choices:
        last = action.dest.rpartition("_")[2].upper()
        kinds: dict[Any, str] = {int: "N", float: "X"}
        action.metavar = kinds.get(action.type) or (last if last in ("FILE", "DIR") else "TEXT")
        if action.const is True:
            action.metavar = "true|false"
    if action.required:
        action.help = f"{action.help} (required)"
    elif action.help != argparse.SUPPRESS and action.default not in (None, False, argparse.SUPPRESS, []):
        action.help = f"{action.help} (default: %(default)s)"


def _words_of_recipe(path: str) -> Iterator[str]:
    """The flags that a YAML file has; ValueError names the file."""
    try:
        recipe = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(recipe, dict):
        raise ValueError(f"{path} holds no flags; wanted lines such as `train_file: train.conll`.")
    for name, value in recipe.items():
        if isinstance(value, list):
            yield from (f"--{name}", *map(str, value))
        elif value is not None:
            yield f"--{name}={json.dumps(value) if isinstance(value, dict) else value}"
