"""Convert an ELMo checkpoint of another program into a directory that AutoModel loads, or back (--reverse)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..checkpoints.file_names import TOKENIZER_FILE
from ..given.flags import check_choices, flag
from ..text.cutting import CuttingArguments, flags_of
from .command_line import run_command

_EXAMPLES = """
examples:
  hf-elmo convert --options_file options.json --weight_file weights.hdf5 --output_dir elmo-original
  hf-elmo convert --options_file options.json --weight_file weights.hdf5 --softmax_file softmax_weights.hdf5 \\
      --vocab_file vocab.txt --output_dir elmo-original
  hf-elmo convert --reverse --model_name_or_path elmo-original --options_file options.json --weight_file weights.hdf5
"""


@dataclass(frozen=True, kw_only=True)
class ConversionArguments(CuttingArguments):
    """The files of both sides."""

    options_file: str = flag("options.json of the other program: read, or written with --reverse.")
    weight_file: str = flag("hdf5 of the other program's weights: read, or written with --reverse.")
    format: Literal["bilm-tf"] = flag(
        "The other program's format; bilm-tf, the released models' and AllenNLP's, is options.json and an "
        "hdf5 of weights.",
        default="bilm-tf",
    )
    softmax_file: str | None = flag(
        "hdf5 of the word softmax (softmax/W and softmax/b), for scoring text and for training on: read, "
        "or written with --reverse.",
        default=None,
    )
    vocab_file: str | None = flag(
        "Words of that softmax, one per line: read, or written with --reverse; goes with it.", default=None
    )
    output_dir: str | None = flag(
        "Directory to write for AutoModel and AutoTokenizer (without --reverse).", default=None
    )
    reverse: bool = flag("Write the other program's files from --model_name_or_path.", default=False)
    model_name_or_path: str | None = flag(
        "Any saved ELMo model, task heads included, to read with --reverse.", aliases=("--model_dir",), default=None
    )
    overwrite_output_dir: bool = flag(
        "Replace what stands under the names to write; without it, that is an error.", default=False
    )

    def check(self) -> None:
        """Check that the arguments go together.

        Raises: ValueError naming the argument that is missing or has no meaning.
        """
        wanted, unwanted = ("model_name_or_path", "output_dir")[:: 1 if self.reverse else -1]
        direction = "with" if self.reverse else "without"
        if getattr(self, wanted) is None:
            raise ValueError(f"--{wanted} is missing: it is needed {direction} --reverse")
        if getattr(self, unwanted) is not None:
            raise ValueError(f"--{unwanted} has no meaning {direction} --reverse; did you mean --{wanted}?")
        for name, other in (("softmax_file", "vocab_file"), ("vocab_file", "softmax_file")):
            if getattr(self, name) is not None and getattr(self, other) is None:
                raise ValueError(f"--{other} is missing: it is needed with --{name}")
        check_choices(self)
        if self.reverse and self.cutting != CuttingArguments().cutting:
            raise ValueError(f"{flags_of(self.cutting)} has no meaning with --reverse: the format has no tokenizer")


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(ConversionArguments, run_conversion, argv, prog, __doc__, _EXAMPLES)


def run_conversion(arguments: ConversionArguments) -> None:
    """Convert as the arguments say, and print what was written and how it is used.

    Raises: ValueError or OSError naming the argument or the file.
    """
    arguments.check()
    from ..conversion.bilm_tf import convert_bilm_tf
    from ..conversion.bilm_tf_export import export_bilm_tf

    files = (arguments.options_file, arguments.weight_file)
    options = {
        "overwrite": arguments.overwrite_output_dir,
        "softmax_file": arguments.softmax_file,
        "vocab_file": arguments.vocab_file,
    }
    if arguments.reverse:
        export_bilm_tf(arguments.model_name_or_path, *files, **options)
        print(_describe_export(arguments))
    else:
        model = convert_bilm_tf(*files, arguments.output_dir, **options, tokenizer_options=arguments.cutting)
        print(_describe_conversion(arguments, model.num_parameters(), model.config.word_vocab_size))


def _describe_export(arguments: ConversionArguments) -> str:
    files = (arguments.options_file, arguments.weight_file, arguments.softmax_file, arguments.vocab_file)
    has_softmax = arguments.softmax_file is not None
    what = "the biLM and its word softmax" if has_softmax else "the token encoder and the biLM"
    lines = [
        f"Wrote {what} of {arguments.model_name_or_path} to",
        *(f"    {file}" for file in files if file is not None),
        "The format has no place for scalar mixes or a task's layers: they stay behind.",
    ]
    if not has_softmax:
        lines.append("So does a word softmax, unless --softmax_file and --vocab_file name files for it.")
    return "\n".join(lines)


def _describe_conversion(arguments: ConversionArguments, num_parameters: int, num_words: int | None) -> str:
    from ..checkpoints.card_parts import describe_cutting

    directory = arguments.output_dir
    tokenizer = json.loads((Path(directory) / TOKENIZER_FILE).read_text(encoding="utf-8"))
    lines = [
        f"Wrote a model of {num_parameters:,} parameters and its tokenizer to {directory}",
        "Load them with (after `import hf_elmo` and `from transformers import AutoModel, AutoTokenizer`):",
        f"    model = AutoModel.from_pretrained({directory!r})",
        f"    tokenizer = AutoTokenizer.from_pretrained({directory!r})",
        *textwrap.wrap(describe_cutting(tokenizer), 100, break_on_hyphens=False),
    ]
    if arguments.softmax_file is not None:
        lines += [
            f"Its word softmax is over {num_words:,} words; score text with",
            f"    hf-elmo score --model_name_or_path {directory}",
        ]
    return "\n".join(lines)
