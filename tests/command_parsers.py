"""The parsers of all commands, as the words of a user meet them."""

import argparse
import contextlib
import functools

import pytest

from hf_elmo.cli.command_line import FlagParser, commands, main


@functools.cache
def command_parsers() -> dict[str, FlagParser]:
    found = {}

    def keep(parser, argv):
        found[parser.prog.removeprefix("hf-elmo ")] = parser
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlagParser, "parse", keep)
        for name in commands():
            with contextlib.suppress(SystemExit):
                main(name.split())
    return found


def shown_flags(command: str) -> dict[str, argparse.Action]:
    """What --help shows of a command, words without a flag too, by their names."""
    actions = command_parsers()[command]._actions
    return {action.dest: action for action in actions if action.dest != "help" and action.help != argparse.SUPPRESS}
