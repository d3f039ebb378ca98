"""Flags of a dataclass parse as transformers' own parser has them, and each command's help is quick and whole."""

import itertools
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import HfArgumentParser, TrainingArguments

from hf_elmo.cli.command_line import COMMANDS, main
from hf_elmo.cli.flags import FlagParser
from hf_elmo.tasks.arguments import TrainingFlags


@dataclass
class Base:
    """Text that is read."""

    train_file: list[str] | None = field(default=None, metadata={"help": "Files, 100 % of them."})
    layers: Literal["mix", "all"] = field(default="mix", metadata={"help": "Which ones."})
    dropout: float | None = None
    do_lower_case: bool = False


@dataclass
class Sample(Base):
    """What is done with it."""

    max_steps: int = 7
    freeze_bilm: bool = True
    name: str | None = None
    number: Literal[1, 2] | None = None


WORDS = {
    "--train_file": ["a.txt", "b*.txt"],
    "--train-file": ["c.txt"],
    "--layers": ["all"],
    "--dropout": ["0.5"],
    "--max-steps": ["3"],
    "--max_steps=4": [],
    "--do_lower_case": [],
    "--do-lower-case": ["true"],
    "--freeze_bilm": ["False"],
    "--no_freeze_bilm": [],
    "--no-freeze-bilm": [],
    "--name": ["x y"],
    "--number": ["2"],
    "--nam": ["abbreviated"],
}


@given(st.lists(st.sampled_from(sorted(WORDS)), max_size=5))
def test_flags_parse_as_transformers_parser_does(flags):
    argv = list(itertools.chain.from_iterable([flag, *WORDS[flag]] for flag in flags))
    (wanted,) = HfArgumentParser(Sample).parse_args_into_dataclasses(argv, look_for_args_file=False)
    assert FlagParser(Sample, "prog", None).parse(argv) == (wanted,)


def test_several_classes_and_required_and_hidden_flags(capsys):
    @dataclass
    class Model:
        """Where it comes from."""

        model_name_or_path: str = field(metadata={"help": "A checkpoint.", "aliases": "--model"})

    parser = FlagParser([Model, Sample], "prog", "What it does.", "examples:\n  prog --model x\n")
    model, sample = parser.parse(["--model", "here", "--max_steps", "1"])
    assert (model.model_name_or_path, sample.max_steps) == ("here", 1)
    with pytest.raises(SystemExit) as ended:
        parser.parse(["--max_steps", "1"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "--model_name_or_path" in error
    shown = " ".join(parser.format_help().split())
    assert "--model TEXT" not in shown and "None" not in shown and "--max-steps" not in shown
    assert "usage: prog --model_name_or_path TEXT" in shown and "A checkpoint. (required)" in shown
    for part in ("--layers {mix,all}", "--freeze_bilm, --no_freeze_bilm", "(default: 7)", "Files, 100 % of them."):
        assert part in shown
    # A group per class, the inherited fields in that of the class that has them, before those that come on top.
    titles = ["Where it comes from:", "Text that is read:", "--layers", "What is done with it:", "--max_steps"]
    assert titles == sorted(titles, key=shown.index)


MISTAKES = [
    (["--max_stesp", "3"], ["--max_stesp", "did you mean --max_steps?"]),
    (["--do-lower-cases"], ["did you mean --do_lower_case?"]),
    (["--qqq"], ["--qqq", "--help"]),
    (["--max_steps", "three"], ["--max_steps: ", "three"]),
    (["--layers", "top"], ["--layers: ", "top", "mix", "all"]),
    (["--freeze_bilm", "perhaps"], ["--freeze_bilm: ", "perhaps"]),
    (["--no_freeze_bilm", "true"], ["takes no value"]),
    (["--max_steps"], ["--max_steps: "]),
    (["--name", "a", "stray"], ["stray", "quotes"]),
    (["--name", *(f"{n}.txt" for n in range(99))], ["1.txt", "quotes", "..."]),
]


def test_a_mistake_is_one_line_that_names_the_flag(capsys):
    for argv, parts in MISTAKES:
        with pytest.raises(SystemExit) as ended:
            FlagParser(Sample, "prog", None).parse(argv)
        printed = capsys.readouterr()
        assert ended.value.code == 2 and printed.out == "", argv
        assert printed.err.startswith("error: ") and printed.err.count("\n") == 1, argv
        assert all(part in printed.err for part in parts), printed.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_mistyped_flag(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main([command, "--hepl", "x"])
    printed = capsys.readouterr()
    assert ended.value.code == 2 and "did you mean --help?" in printed.err and printed.err.count("\n") == 1


def test_the_list_of_commands(capsys):
    for argv, code in ((["--help"], 0), ([], 2)):
        with pytest.raises(SystemExit) as ended:
            main(argv)
        assert ended.value.code == code
        printed = "".join(capsys.readouterr())
        assert all(f"\n  {command} " in printed for command in COMMANDS)
    with pytest.raises(SystemExit) as ended:
        main(["scroe"])
    assert ended.value.code == 2 and "did you mean score?" in capsys.readouterr().err


HELP = """
import contextlib, io, json, sys
import hf_elmo_cli
shown, commands = {}, [""]
for command in commands:
    stream = io.StringIO()
    sys.argv = ["hf-elmo", *command.split(), "--help"]
    with contextlib.redirect_stdout(stream), contextlib.suppress(SystemExit):
        hf_elmo_cli.main()
    if not command:
        from hf_elmo.cli.command_line import COMMANDS
        commands += COMMANDS
    heavy = {"torch", "transformers", "datasets", "numpy", "huggingface_hub", "pyarrow"} & set(sys.modules)
    assert command or not heavy, heavy
    shown[command] = stream.getvalue()
print(json.dumps(shown))
"""


def test_help_is_whole_and_the_list_of_commands_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert all(text.startswith(f"usage: hf-elmo {command}".rstrip()) for command, text in shown.items())
    for text in shown.values():
        assert "default: None" not in text and "==SUPPRESS==" not in text
    # One name of the checkpoint everywhere; the recipe's values, a default that is named.
    without = {command for command, text in shown.items() if "--model_name_or_path" not in text}
    assert without <= {"", "vocabulary", "convert", "export", "train"}
    assert "0.008 with modern" in " ".join(shown["pretrain"].split())


def test_the_taggers_short_help_tells_transformers_defaults():
    plain = TrainingArguments.__dataclass_fields__
    # What we changed; the rest must be as transformers has it, or --help would tell stories.
    own = {
        "overwrite_output_dir",
        "learning_rate",
        "per_device_train_batch_size",
        "per_device_eval_batch_size",
        "num_train_epochs",
        "logging_strategy",
        "eval_strategy",
        "save_strategy",
        "metric_for_best_model",
        "num_seeds",
        "early_stopping_patience",
    }
    for name, flag in TrainingFlags.__dataclass_fields__.items():
        if name not in own:
            assert flag.default == plain[name].default, name


def test_the_taggers_long_help_lists_transformers_flags(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "token-classification", "--help_all"])
    assert not ended.value.code
    assert {"--torch_compile", "--train_file", "--learning_rate"} <= set(re.findall(r"--\w+", capsys.readouterr().out))
