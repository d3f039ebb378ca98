"""From dataclasses to flags: an argparse parser with a group per class and a flag per field, with one-line errors."""

from __future__ import annotations

import argparse
import difflib
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, NoReturn

_MOST_UNKNOWN = 8  # words that an error names
_TRUE, _FALSE = {"yes", "true", "t", "y", "1"}, {"no", "false", "f", "n", "0"}


class OneLineErrors(argparse.ArgumentParser):
    """A parser whose errors are one line, without the page of flags that a usage line is here."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and end with exit code 2."""
        if message.startswith("argument --"):
            # argparse names each spelling of the flag.
            names, _, rest = message.removeprefix("argument ").partition(": ")
            message = f"{names.partition('/')[0]}: {rest}"
        self.exit(2, f"error: {message}\n")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Name the words that belong to no flag, and the flag that was meant, perhaps."""
        known = [name for action in self._actions for name in action.option_strings if "-" not in name[2:]]
        near = []
        for word in unknown:
            if word.startswith("--"):
                flag = "--" + word.partition("=")[0][2:].replace("-", "_")
                near += difflib.get_close_matches(flag, known, n=1)
        meant = f"did you mean {' '.join(near)}? " if near else ""
        if not unknown[0].startswith("-"):
            # What a shell makes of *.txt behind a flag that takes one value.
            meant += "a flag that takes one value was given several, or a pattern of files that wants quotes; "
        named = " ".join(unknown[:_MOST_UNKNOWN]) + (" ..." if len(unknown) > _MOST_UNKNOWN else "")
        self.error(f"unknown arguments: {named}; {meant}--help lists those there are")


class FlagParser(OneLineErrors):
    """Flags of dataclasses, as transformers' HfArgumentParser has them, without its second of imports.

    A field `train_file: list[str]` is the flag `--train_file FILE ...`, also spelt `--train-file`; a bool is
    `--do_lower_case`, or `--do_lower_case false`, and has `--no_...` beside it where it is on by default. The metadata
    of a field may hold `help`, `aliases`, spellings that --help does not show, and `positional`, for a word of its own,
    which may be left out where it has a default. A group's title is the first line of the class's docstring; fields
    that a class inherits stand in the group of the class that declares them. A class method `shown_defaults` may give
    words for --help, by the field's name, where None stands for something.

    Args:
        classes: The dataclasses.
        prog: The command's name; None takes the script's.
        description: What --help says first.
        epilog: What --help says last.
    """

    def __init__(self, classes: type | Iterable[type], prog: str | None, description: str | None, epilog: str = ""):
        self.classes = [classes] if isinstance(classes, type) else list(classes)
        super().__init__(prog, description=description, epilog=epilog, formatter_class=_HelpFormatter)
        self._required: list[str] = []
        self._positional: dict[str, str] = {}
        for each in self.classes:
            hints = typing.get_type_hints(each)
            shown_defaults: dict[str, str] = getattr(each, "shown_defaults", dict)()
            for declaring in _bases_first(each):
                own = [field for field in fields(each) if field.init and _declares(declaring, each, field.name)]
                group = self.add_argument_group(_title_of(declaring)) if own else None
                for field in own:
                    self._add_field(group, field, hints[field.name], shown_defaults.get(field.name))
        flags = [f"--{name} {_metavar(name, str)}" for name in self._required if name not in self._positional]
        words = [*self._positional.values(), *flags]
        self.usage = " ".join(["%(prog)s", *words, "[--FLAG VALUE ...]"])

    def parse(self, argv: Sequence[str]) -> tuple[Any, ...]:
        """The dataclasses that the words of a command make; ends the process where they make none."""
        # Flags may stand between the words that belong to none.
        namespace, unknown = (self.parse_known_intermixed_args if self._positional else self.parse_known_args)(argv)
        if unknown:
            self.refuse(unknown)
        given = vars(namespace)
        missing = [self._positional.get(name, f"--{name}") for name in self._required if name not in given]
        if missing:
            self.error(f"{' and '.join(missing)} must be given; --help says what for")
        # Flags that were not given are left to the class.
        return tuple(
            each(**{field.name: given[field.name] for field in fields(each) if field.init and field.name in given})
            for each in self.classes
        )

    def _add_field(self, group: Any, field: Field, hint: Any, shown_default: str | None) -> None:
        help_text = field.metadata.get("help", "").replace("%", "%%")
        if field.metadata.get("positional"):
            # A list takes all of them.
            many = typing.get_origin(_without_none(hint)) is list
            shown = field.name.upper()
            if field.default is MISSING and field.default_factory is MISSING:
                self._required.append(field.name)
                self._positional[field.name] = shown
            else:
                self._positional[field.name] = f"[{shown}{' ...' if many else ''}]"
            nargs = "*" if many else "?"
            group.add_argument(field.name, nargs=nargs, default=argparse.SUPPRESS, metavar=shown, help=help_text)
            return
        names = [f"--{field.name}"]
        if "_" in field.name:
            names.append(f"--{field.name.replace('_', '-')}")
        aliases = field.metadata.get("aliases", [])
        names += [aliases] if isinstance(aliases, str) else aliases
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING:
            self._required.append(field.name)
        options: dict[str, Any] = {"dest": field.name, "default": argparse.SUPPRESS}
        options["help"] = f"{help_text} {_describe_default(default, shown_default)}".strip()
        kind = _without_none(hint)
        if kind is bool:
            negative = [f"--no_{field.name}", f"--no-{field.name.replace('_', '-')}"] if default is not False else []
            group.add_argument(*names, *negative, action=_Switch, negative=negative, **options)
            return
        if typing.get_origin(kind) is list:
            options["nargs"], kind = "+", typing.get_args(kind)[0]
        if typing.get_origin(kind) is Literal:
            options["choices"] = typing.get_args(kind)
            kind = _one_of(options["choices"])
        else:
            options["metavar"] = _metavar(field.name, kind)
        group.add_argument(*names, type=kind, **options)


class _Switch(argparse.Action):
    """A bool: `--x`, `--x false`, and `--no_x` where there is one."""

    def __init__(self, option_strings: Sequence[str], dest: str, negative: Sequence[str], **options: Any):
        super().__init__(option_strings, dest, nargs="?", metavar="BOOL", **options)
        self.negative = negative

    def __call__(self, parser: Any, namespace: argparse.Namespace, value: Any, flag: str | None = None) -> None:
        if flag in self.negative:
            if value is not None:
                raise argparse.ArgumentError(self, f"takes no value, but got {value!r}")
            value = "false"
        if value is not None and value.lower() not in _TRUE | _FALSE:
            raise argparse.ArgumentError(self, f"is {value!r}; it must be true or false")
        setattr(namespace, self.dest, value is None or value.lower() in _TRUE)


class _HelpFormatter(argparse.HelpFormatter):
    """Each flag once, and examples as they were written."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, _Switch):
            return ", ".join([action.option_strings[0], *action.negative[:1]])
        if not action.option_strings or not action.option_strings[0].startswith("--"):
            return super()._format_action_invocation(action)
        return f"{action.option_strings[0]} {self._format_args(action, action.dest.upper())}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:
            return "\n".join(indent + line for line in text.strip("\n").splitlines())
        return super()._fill_text(text, width, indent)


def _without_none(hint: Any) -> Any:
    """The type that is meant by `X | None`, and str by a choice of several."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else str
    return hint


def _one_of(choices: Sequence[Any]) -> Callable[[str], Any]:
    by_name = {str(choice): choice for choice in choices}
    # What is none of them goes on as it is, to be refused by argparse.
    return lambda text: by_name.get(text, text)


def _metavar(name: str, kind: Any) -> str:
    last = name.rpartition("_")[2].upper()
    return {int: "N", float: "X"}.get(kind) or (last if last in ("FILE", "DIR") else "TEXT")


def _describe_default(default: Any, shown: str | None) -> str:
    if default is MISSING:
        return "(required)"
    if shown is None and default is not False and default not in (None, "", []):
        shown = "on" if default is True else default
    return "" if shown is None else f"(default: {shown})".replace("%", "%%")


def _bases_first(cls: type) -> list[type]:
    """The dataclasses that a class is made of, in the order of their names behind it, itself last."""
    found: dict[type, None] = {}
    for base in cls.__bases__:
        found |= dict.fromkeys(_bases_first(base)) if is_dataclass(base) else {}
    return [*found, cls]


def _declares(declaring: type, cls: type, name: str) -> bool:
    """Whether the class is the one at the root of an inheritance that has the field."""
    return declaring is [each for each in cls.__mro__ if name in vars(each).get("__annotations__", {})][-1]


def _title_of(cls: type) -> str:
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0].rstrip(".")
