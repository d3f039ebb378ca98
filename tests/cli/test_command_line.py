"""The commands and their flags: few, each with one meaning, all of them in --help; a mistake is one line."""

import contextlib
import io
import os
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import pytest
from command_parsers import shown_flags

from hf_elmo.cli.command_line import FlagParser, commands, main, readable_errors
from hf_elmo.given import flag

# Flags that --help shows, summed over all commands.
MOST_SLOTS = 300
# Flags that take one file in one command and some in another; and whose help depends on what the command does.
MOST_TYPES, MOST_HELPS = 4, 30


@dataclass(kw_only=True)
class Base:
    """Text that is read."""

    train_file: list[str] | None = flag("Files, 100 % of them.", default=None)
    layers: Literal["mix", "all"] = flag("Which ones.", default="mix")
    clean: list[Literal["NFC", "marks"]] | None = flag("What else.", default=None)
    do_lower_case: bool = flag("All of it.", default=False)


@dataclass(kw_only=True)
class Sample(Base):
    """What is done with it."""

    max_steps: int = flag("How many.", default=7)
    freeze_bilm: bool = flag("Nothing changes.", default=True)
    name: str = flag("A checkpoint.")
    options: str | None = flag("As JSON.", default=None)


@dataclass(kw_only=True)
class Words:
    """Words without a flag."""

    source: str = flag("From where.", positional=True)
    texts: list[str] | None = flag("Which.", positional=True, default=None)


def parse(*argv, classes=(Sample,)):
    return FlagParser(classes, "prog", None).parse(argv)


def test_flags_become_the_fields_of_their_classes():
    assert parse("--name", "x") == (Sample(name="x"),)
    argv = "--name x --train-file a b --layers=all --do_lower_case --no_freeze_bilm --max-steps 3 --max_steps=4"
    found = {"train_file": ["a", "b"], "layers": "all", "clean": ["marks", "NFC"], "do_lower_case": True}
    expected = Sample(name="x", freeze_bilm=False, max_steps=4, **found)
    assert parse(*argv.split(), "--clean", "marks", "NFC") == (expected,)
    assert parse("--name", "x", "--freeze_bilm", "false")[0].freeze_bilm is False
    # Flags stand before, between and behind the words.
    words = ["here", "--name", "x", "there", "--max_steps", "1"]
    expected = Words(source="here", texts=["there"]), Sample(name="x", max_steps=1)
    assert parse(*words, classes=(Words, Sample)) == expected
    assert parse("--name", "x", "here", classes=[Sample, Words])[1] == Words(source="here")


def test_help_has_a_group_for_each_class_and_says_what_is_needed():
    parser = FlagParser([Words, Sample], "prog", "What it does.", "\nexamples:\n  prog x\n")
    shown = " ".join(parser.format_help().split())
    for part in (
        "usage: prog SOURCE [TEXTS ...] --name TEXT [--FLAG VALUE ...]",
        "A checkpoint. (required)",
        "--layers {mix,all} Which ones. (default: mix)",
        "--freeze_bilm [true|false] Nothing changes. (default: True)",
        "--max_steps N How many. (default: 7)",
        "--train_file FILE [FILE ...] Files, 100 % of them.",
        "examples: prog x",
    ):
        assert part in shown
    assert "None" not in shown and "--max-steps" not in shown and "SUPPRESS" not in shown
    titles = ["Words without a flag:", "Text that is read:", "--layers", "What is done with it:", "--max_steps"]
    assert titles == sorted(titles, key=shown.index)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ("--name a --max_stesp 3", ["--max_stesp", "did you mean --max_steps?"]),
        ("--name a --do-lower-cases", ["did you mean --do_lower_case?"]),
        ("--layers top", ["--layers", "top", "mix", "all"]),
        ("--clean NFC top", ["--clean", "top", "NFC", "marks"]),
        ("--freeze_bilm perhaps", ["--freeze_bilm", "perhaps"]),
        ("--max_steps 1", ["required: --name"]),
        (f"--name {' '.join(f'{n}.txt' for n in range(99))}", ["1.txt", "quotes", "..."]),
    ],
)
def test_a_mistaken_flag_is_one_line_that_names_it(argv, named, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(*argv.split())
    printed = capsys.readouterr()
    assert ended.value.code == 2 and printed.out == ""
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert all(part in printed.err for part in named), printed.err


def test_a_recipe_is_a_yaml_file_of_flags(tmp_path, capsys):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("name: -x\ntrain_file: [a, b]\nfreeze_bilm: false\nmax_steps: 5\noptions: {a: 1}\nlayers:\n")
    expected = Sample(name="-x", train_file=["a", "b"], freeze_bilm=False, max_steps=6, options='{"a": 1}')
    assert parse(str(recipe), "--max_steps", "6") == (expected,)
    recipe.write_text("name: x\nmax_stpes: 3\n")
    with pytest.raises(SystemExit):
        parse(str(recipe))
    assert "did you mean --max_steps?" in capsys.readouterr().err
    for content in ("[", "a", "\xff"):
        recipe.write_text(content, encoding="latin-1")
        with pytest.raises(ValueError, match=r"recipe\.yaml"):
            parse(str(recipe))


def test_the_list_of_commands(capsys):
    for argv, code in ((["--help"], 0), ([], 2), (["train"], 2), (["train", "--help"], 0)):
        with pytest.raises(SystemExit) as ended:
            main(argv)
        assert ended.value.code == code
        printed = "".join(capsys.readouterr())
        listed = [name for name in commands() if f"\n  {name} " in printed]
        assert listed == [name for name in commands() if name.startswith("train") or "train" not in argv]
    for argv, near in (
        (["scroe", "--top_k"], "score"),
        (["train", "coref"], "train coreference"),
        (["shwo", "uses"], "show uses"),
        (["prdict", "Alice flew to New York ."], "predict"),
        (["xyz"], ""),
        (["train", "ner"], ""),
    ):
        with pytest.raises(SystemExit) as ended:
            main(argv)
        error = capsys.readouterr().err
        hint = f"did you mean {near}?" if near else f"hf-elmo {'train ' * (argv[0] == 'train')}--help lists them"
        assert ended.value.code == 2 and hint in error and "Alice" not in error


def test_each_command_has_help_and_a_flag_is_the_same_in_all_of_them(capsys):
    helps, kinds, num_slots = defaultdict(set), defaultdict(set), 0
    for command in commands():
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), "--help"])
        printed = capsys.readouterr().out.replace("train TASK", command)
        assert ended.value.code == 0 and printed.startswith(f"usage: hf-elmo {command} ")
        assert printed.count("\n  hf-elmo ") == printed.count(f"\n  hf-elmo {command} ")
        for name, action in shown_flags(command).items():
            helps[name].add(action.help)
            kinds[name].add((action.type if action.choices is None else str, action.nargs))
            num_slots += 1
    assert num_slots <= MOST_SLOTS
    for found, most in ((kinds, MOST_TYPES), (helps, MOST_HELPS)):
        differing = [name for name, each in found.items() if len(each) > 1]
        assert len(differing) <= most, differing


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("bad"), 2, "error: bad\n"),
        (ImportError("bad"), 2, "error: bad\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
    ],
)
def test_mistakes_and_interrupts_are_one_line_and_bugs_are_raised(error, code, line, capsys, monkeypatch):
    with pytest.raises(SystemExit) as stopped, readable_errors():
        raise error
    assert stopped.value.code == code and capsys.readouterr().err == line
    monkeypatch.setenv("HF_ELMO_TRACEBACK", "1")
    for raised in (error, KeyError("bug")):
        with pytest.raises(type(raised)), readable_errors():
            raise raised


@contextlib.contextmanager
def nobody_reading(is_buffered):
    """Standard output behind which `head` has ended, with or without PYTHONUNBUFFERED."""
    reading, writing = os.pipe()
    os.close(reading)
    raw = io.FileIO(writing, "w")
    buffer = io.BufferedWriter(raw) if is_buffered else raw
    with io.TextIOWrapper(buffer, write_through=not is_buffered) as file, contextlib.redirect_stdout(file):
        yield


@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_command_that_nobody_reads_any_more_ends_quietly(is_buffered, capfd):
    """Also where all of the output waits in the buffer until the end."""
    for words in (["--help"], ["score", "--help"]):
        with nobody_reading(is_buffered), pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0 and capfd.readouterr() == ("", "")
    with nobody_reading(is_buffered), pytest.raises(SystemExit) as stopped, readable_errors():
        for number in range(10**6):
            print(number)
    assert stopped.value.code == 0 and number < 10**6 - 1 and capfd.readouterr() == ("", "")
