"""`hf-elmo COMMAND`: from the words of a command to the fields of dataclasses, and errors that a user can read."""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import json
import os
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn

import datasets
import yaml
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import HfArgumentParser, TrainingArguments
from transformers.utils import logging

from ..tasks import TASKS

# Each command with its function, module.function in this folder, and what the list of commands says of it.
_COMMANDS = {
    "pretrain": ("train.pretrain", "pre-train an ELMo on text files or a dataset"),
    "vocabulary": ("build_vocabulary.build_vocabulary", "build the word vocabulary of a pre-training run"),
    "convert": ("convert.convert_source", "bring an ELMo checkpoint of another program here"),
    "embed": ("embed.embed", "write the vectors of a text's words to a file"),
    "score": ("score.score", "score the words of a text by the language models inside ELMo"),
    "neighbors": ("neighbors.show_neighbors", "find nearest neighbors of words, in context and without"),
    "show uses": ("show_uses.show_uses", "draw the uses of words in every layer, as a page to click"),
    "probe senses": ("probe.measure_senses", "measure how well each layer tells the senses of words apart"),
    "probe tags": ("probe.measure_tags", "measure how well each layer tells the parts of speech of words"),
    "predict": ("predict.predict", "apply a checkpoint of a task to text of one's own"),
    "export": ("export.export", "write a checkpoint as an ONNX file, as bilm-tf had it, or as a page"),
    "push": ("export.push", "upload a finished checkpoint to the Hub"),
}
_EXAMPLE = "\n  hf-elmo "
_LONGEST_NAMED = 100  # characters of unknown words in an error
# What bad arguments and bad files raise; anything else is a bug and keeps its traceback.
_USER_ERRORS = (ValueError, OSError, ImportError, FloatingPointError, StrictDataclassError, SafetensorError)


def commands() -> dict[str, tuple[str, str]]:
    """Each command with its function, `module.function` in this folder, and a line about it."""
    return _COMMANDS | {f"train {name}": ("train.train", f"train {task.what}") for name, task in TASKS.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Run `hf-elmo COMMAND ...`, or list the commands."""
    argv, known = list(sys.argv[1:] if argv is None else argv), commands()
    name = next((name for name in (" ".join(argv[:2]), *argv[:1]) if name in known), None)
    with readable_errors():
        if name is not None:
            module_name, _, function_name = known[name][0].partition(".")
            module = importlib.import_module(f".{module_name}", __package__)
            function = getattr(module, function_name)
            # Two commands of a file have their examples in one list.
            title, *examples = getattr(module, "EXAMPLES", "").split(_EXAMPLE)
            epilog = _EXAMPLE.join([title, *(each for each in examples if each.startswith(f"{name} "))])
            if module_name == function_name == "train":
                function, classes, epilog = function(name.removeprefix("train "))
            else:
                # Its parameters are its flags.
                classes = [getattr(module, each.annotation) for each in inspect.signature(function).parameters.values()]
            description = (inspect.getdoc(function) or "").partition("\n")[0]
            arguments = FlagParser(classes, f"hf-elmo {name}", description, epilog).parse(argv[len(name.split()) :])
            quiet_libraries()
            function(*arguments)
        elif argv == ["--version"]:
            print(sys.modules["hf_elmo"].__version__)  # the face above, which commands do not import
        else:
            _list_or_refuse(argv, known)


def _list_or_refuse(argv: list[str], known: dict[str, tuple[str, str]]) -> None:
    """List the commands, all or those that begin with a word, or say that there is none of this name."""
    words = [word for word in argv[:2] if not word.startswith("-")]
    found = {name: line for name, (_, line) in known.items() if name.split()[: len(words)] == words}
    if not found:
        given = " ".join(words)
        near = difflib.get_close_matches(given, known, n=1, cutoff=0.7)
        begins = any(name.split()[0] == words[0] for name in known)
        if not near and not begins:
            # The second word may be an argument.
            given = words[0]
            near = difflib.get_close_matches(given, known, n=1, cutoff=0.4)
        where = f"{words[0]} " if begins else ""
        meant = f"did you mean {near[0]}?" if near else f"hf-elmo {where}--help lists them."
        raise ValueError(f"hf-elmo has no command {given!r}; {meant}")
    is_asked, width = not {"-h", "--help"}.isdisjoint(argv), max(map(len, found))
    print(
        "usage: hf-elmo COMMAND [--FLAG VALUE ...]\n\nELMo (Peters et al. 2018) for transformers.\n\ncommands:",
        *(f"  {name:<{width}}  {line}" for name, line in found.items()),
        "\n`hf-elmo COMMAND --help` lists the flags of a command, `hf-elmo --version` says which version this is.",
        sep="\n",
        file=sys.stdout if is_asked else sys.stderr,
    )
    sys.exit(0 if is_asked else 2)


def quiet_libraries() -> None:
    """Leave the screen to our own lines: no dumps of configs and no bars for files of a few megabytes."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()


@contextmanager
def readable_errors() -> Iterator[None]:
    """End the process with exit code 2 and the message alone where a user's mistake is the cause.

    Ctrl-C ends it with exit code 130, as shells do. HF_ELMO_TRACEBACK=1 in the environment shows the traceback too.
    Where nobody reads standard output any more, as behind `head`, it ends with exit code 0 and without a word.
    """
    try:
        try:
            yield
        finally:
            # Python itself flushes at its end, where nothing can answer an error any more.
            sys.stdout.flush()
    except BrokenPipeError:
        # For that flush of Python's.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (KeyboardInterrupt, *_USER_ERRORS) as error:
        if os.environ.get("HF_ELMO_TRACEBACK"):
            raise
        is_stopped = isinstance(error, KeyboardInterrupt)
        print((str(error) or "stopped") if is_stopped else f"error: {error}", file=sys.stderr)
        sys.exit(130 if is_stopped else 2)


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
