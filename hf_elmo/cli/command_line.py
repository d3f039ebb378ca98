"""`hf-elmo COMMAND`, and from a command's flags to a function of the package, with errors a user can read."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import datasets
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers.utils import logging

from ..tasks import TASKS
from .flags import FlagParser

# Each command with its function, module.function in this folder, and what the list of commands says of it.
_COMMANDS = {
    "pretrain": ("pretrain.pretrain", "pre-train an ELMo on text files or a dataset"),
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
    "push": ("push.push", "upload a finished checkpoint to the Hub"),
}
# What bad arguments and bad files raise; anything else is a bug and keeps its traceback.
_USER_ERRORS = (ValueError, OSError, ImportError, FloatingPointError, StrictDataclassError, SafetensorError)


def commands() -> dict[str, tuple[str, str]]:
    """Each command with its function, `module.function` in this folder, and a line about it."""
    return _COMMANDS | {f"train {name}": ("train.main", f"train {task.what}") for name, task in TASKS.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Run `hf-elmo COMMAND ...`, or list the commands."""
    argv, known = list(sys.argv[1:] if argv is None else argv), commands()
    name = next((name for name in (" ".join(argv[:2]), *argv[:1]) if name in known), None)
    with readable_errors():
        if name is not None:
            module_name, _, function_name = known[name][0].partition(".")
            module = importlib.import_module(f".{module_name}", __package__)
            function, words, prog = getattr(module, function_name), argv[len(name.split()) :], f"hf-elmo {name}"
            if function_name == "main":
                function(words, prog)
            else:
                # Its parameters are its flags.
                classes = [getattr(module, each.annotation) for each in inspect.signature(function).parameters.values()]
                run_command(classes, function, words, prog, module.__doc__, getattr(module, "EXAMPLES", ""))
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
        near = difflib.get_close_matches(given, known, n=1, cutoff=0.4)
        meant = f"did you mean {near[0]}?" if near else "hf-elmo --help lists them."
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


def run_command(
    classes: Iterable[type],
    function: Callable[..., Any],
    argv: Sequence[str],
    prog: str,
    description: str | None,
    epilog: str,
) -> None:
    """Parse a command's flags, the fields of dataclasses (see `FlagParser`), and call `function` with one of each.

    What a user can put right `function` raises as one of `_USER_ERRORS`.
    """
    arguments = FlagParser(classes, prog, description, epilog).parse(argv)
    quiet_libraries()
    function(*arguments)


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
