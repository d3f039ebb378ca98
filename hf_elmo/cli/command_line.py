"""`hf-elmo COMMAND`, and from a command's flags to a function of the package, with errors a user can read."""

from __future__ import annotations

import difflib
import importlib
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from .flags import FlagParser

# Each command with its module in this folder, or module:function, and what the list of commands says of it.
COMMANDS = {
    "pretrain": ("pretrain", "pre-train an ELMo on text files or a dataset"),
    "vocabulary": ("build_vocabulary", "build the word vocabulary of a pre-training run from a corpus of any size"),
    "convert": ("convert", "bring an ELMo checkpoint of another program here"),
    "embed": ("embed", "write the vectors of a text's words to a file"),
    "score": ("score", "score the words of a text by the language models inside ELMo"),
    "neighbors": ("neighbors", "find nearest neighbors of words, in context and without"),
    "show uses": ("show_uses", "draw the uses of words in every layer, as a page to click"),
    "probe senses": ("probe:main_senses", "measure how well each layer tells the senses of words apart"),
    "probe tags": ("probe:main_tags", "measure how well each layer tells the parts of speech of words"),
    "train": ("train", "train, evaluate and apply a model of a task"),
    "predict": ("predict", "apply a checkpoint of a task to text of one's own"),
    "export": ("export", "write a checkpoint as an ONNX file, or as bilm-tf had it"),
    "push": ("push", "upload a finished checkpoint to the Hub"),
}
SHOW_TRACEBACK = "HF_ELMO_TRACEBACK"


def main(argv: Sequence[str] | None = None) -> None:
    """Run `hf-elmo COMMAND ...`, or list the commands."""
    argv = sys.argv[1:] if argv is None else argv
    with readable_errors():
        _run_named(argv)


def _run_named(argv: Sequence[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        print(_list_commands(), file=sys.stdout if argv else sys.stderr)
        sys.exit(0 if argv else 2)
    name, *rest = argv
    if rest and f"{name} {rest[0]}" in COMMANDS:
        name, rest = f"{name} {rest[0]}", rest[1:]
    if name == "--version":
        # The package above this one, whose name commands may not import.
        print(sys.modules[__package__.partition(".")[0]].__version__)
    elif name in COMMANDS:
        module, _, function = COMMANDS[name][0].partition(":")
        main = getattr(importlib.import_module(f".{module}", __package__), function or "main")
        main(rest, prog=f"hf-elmo {name}")
    elif any(command.startswith(f"{name} ") for command in COMMANDS):
        is_asked = rest[:1] in (["-h"], ["--help"])
        print(_list_commands(f"{name} "), file=sys.stdout if is_asked else sys.stderr)
        sys.exit(0 if is_asked else 2)
    else:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"did you mean {near[0]}?" if near else "hf-elmo --help lists them."
        print(f"error: hf-elmo has no command {name!r}; {meant}", file=sys.stderr)
        sys.exit(2)


def run_command(
    classes: type | Iterable[type],
    function: Callable[..., Any],
    argv: Sequence[str] | None = None,
    prog: str | None = None,
    description: str | None = None,
    epilog: str = "",
) -> None:
    """Parse a command's flags and call `function` with what they make.

    Args:
        classes: The dataclasses whose fields are the flags, see `FlagParser`; the function gets one instance of each.
        function: What the command does; what a user can put right it raises as one of `user_errors()`.
        argv: The words after the command's name; None takes this process's.
        prog: The command's name; None takes the script's.
        description: What --help says first; None takes the first line of the first class's docstring.
        epilog: What --help says last.
    """
    argv = sys.argv[1:] if argv is None else argv
    classes = [classes] if isinstance(classes, type) else list(classes)
    description = (description or classes[0].__doc__ or "").strip().splitlines()[0]
    with readable_errors():
        arguments = FlagParser(classes, prog, description, epilog).parse(argv)
        quiet_libraries()
        function(*arguments)


def quiet_libraries() -> None:
    """Leave the screen to our own lines: no dumps of configs and no bars for files of a few megabytes."""
    import datasets
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()


def user_errors() -> tuple[type[Exception], ...]:
    """What bad arguments and bad files raise; anything else is a bug and keeps its traceback."""
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    return (ValueError, OSError, ImportError, FloatingPointError, StrictDataclassError, SafetensorError)


@contextmanager
def readable_errors() -> Iterator[None]:
    """End the process with exit code 2 and the message alone where a user's mistake is the cause.

    Ctrl-C ends it with exit code 130, as shells do. HF_ELMO_TRACEBACK=1 in the environment shows the traceback too.
    Where nobody reads standard output any more, as behind `head`, it ends with exit code 0 and without a word.
    """
    try:
        try:
            yield
        except SystemExit as ended:
            # After --help, for example.
            if not ended.code:
                sys.stdout.flush()
            raise
        # Python itself flushes at its end, where nothing can answer an error any more.
        sys.stdout.flush()
    except BrokenPipeError:
        if not _has_lost_its_reader(sys.stdout):
            raise
        # For that flush of Python's.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt as stop:
        if os.environ.get(SHOW_TRACEBACK):
            raise
        print(str(stop) or "stopped", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if os.environ.get(SHOW_TRACEBACK) or not isinstance(error, user_errors()):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _has_lost_its_reader(file: IO[str]) -> bool:
    """Whether a file is a pipe that nobody reads any more."""
    poll = select.poll()
    poll.register(file.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _list_commands(start: str = "") -> str:
    """The commands that begin so, with a line each."""
    listed = {name: line for name, (_, line) in COMMANDS.items() if name.startswith(start)}
    width = max(map(len, listed))
    return "\n".join(
        [
            f"usage: hf-elmo {start}COMMAND [--FLAG VALUE ...]",
            "",
            "ELMo (Peters et al. 2018) for transformers.",
            "",
            "commands:",
            *(f"  {name:<{width}}  {line}" for name, line in listed.items()),
            "",
            "`hf-elmo COMMAND --help` lists the flags of a command, `hf-elmo --version` says which version this is.",
        ]
    )
