"""Convert an ELMo checkpoint of another program into a directory that AutoModel loads, or back (--reverse)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..checkpoints.file_names import TOKENIZER_FILE
from ..given.flags import check_choices, flag
from ..text.cutting import CuttingArguments, flags_of
from .command_line import run_command

if TYPE_CHECKING:
    from ..model.modeling_elmo import ElmoPreTrainedModel

_EXAMPLES = """
examples:
  hf-elmo convert downloaded/elmo-portuguese output/elmo-portuguese
  hf-elmo convert downloaded/weights.hdf5 output/elmo --softmax_file softmax_weights.hdf5 --vocab_file vocab.txt
  hf-elmo convert --reverse --model_name_or_path output/elmo --options_file options.json --weight_file weights.hdf5
"""
# Of a source, what its format may want to know besides; None leaves it to the format.
_OPTIONS = ("options_file", "weight_file", "softmax_file", "vocab_file")


@dataclass(frozen=True, kw_only=True)
class ConversionArguments(CuttingArguments):
    """The files of both sides."""

    source: str | None = flag(
        "What to convert: the directory, archive or file that holds the other program's model.",
        positional=True,
        default=None,
    )
    output: str | None = flag("The directory to write, as --output_dir.", positional=True, default=None)
    format: Literal["allennlp", "efml", "bilm-tf-training", "simple-elmo", "bilm-tf"] | None = flag(
        "The other program's format; told by the files where it is left out. bilm-tf: an hdf5 of weights and its "
        "options.json, the released models' and AllenNLP's. bilm-tf-training: its checkpoint while training, .index "
        "and .data, with options.json and vocab.txt. simple-elmo: the NLPL repository's, options.json, model.hdf5 and "
        "vocab.txt. efml: a directory or zip of ELMoForManyLangs. allennlp: an archive or its directory.",
        default=None,
    )
    options_file: str | None = flag(
        "JSON of the model's sizes (bilm-tf's options.json): read, where SOURCE does not say which it is, or written "
        "with --reverse.",
        default=None,
    )
    weight_file: str | None = flag("hdf5 of bilm-tf's weights: read, or written with --reverse.", default=None)
    softmax_file: str | None = flag(
        "hdf5 of bilm-tf's word softmax (softmax/W and softmax/b), for scoring text and for training on: read, "
        "or written with --reverse.",
        default=None,
    )
    vocab_file: str | None = flag(
        "Words of that softmax, or of a model that reads words, one per line: read, or written with --reverse.",
        default=None,
    )
    alignment_files: list[str] | None = flag(
        "Matrices that align SOURCE's layers with another language's before they are mixed: a file for each layer "
        "(text, npy, npz, hdf5, pth), the token encoder's first and - for a layer without one; or one file for all.",
        default=None,
    )
    output_dir: str | None = flag(
        "Directory to write for AutoModel and AutoTokenizer (without --reverse).", default=None
    )
    reverse: bool = flag("Write bilm-tf's files from --model_name_or_path.", default=False)
    model_name_or_path: str | None = flag(
        "Any saved ELMo model, task heads included, to read with --reverse.", aliases=("--model_dir",), default=None
    )
    overwrite_output_dir: bool = flag(
        "Replace what stands under the names to write; without it, that is an error.", default=False
    )

    @property
    def directory(self) -> str | None:
        """The directory to write."""
        return self.output_dir if self.output is None else self.output

    def check(self) -> None:
        """Check that the arguments go together.

        Raises: ValueError naming the argument that is missing or has no meaning.
        """
        if self.output is not None and self.output_dir is not None:
            raise ValueError(f"--output_dir is {self.output_dir!r} beside OUTPUT {self.output!r}; give one of them.")
        wanted, unwanted = ("model_name_or_path", "output_dir")[:: 1 if self.reverse else -1]
        direction = "with" if self.reverse else "without"
        values = {"model_name_or_path": self.model_name_or_path, "output_dir": self.directory}
        if values[wanted] is None:
            raise ValueError(f"--{wanted} is missing: it is needed {direction} --reverse")
        if values[unwanted] is not None:
            raise ValueError(f"--{unwanted} has no meaning {direction} --reverse; did you mean --{wanted}?")
        check_choices(self)
        if self.alignment_files and self.source is None:
            raise ValueError("--alignment_files has no meaning without SOURCE, the directory or file that is converted")
        if self.source is None:
            self._check_files()
        elif self.reverse:
            raise ValueError(
                f"SOURCE {self.source!r} has no meaning with --reverse; did you mean --model_name_or_path?"
            )
        if self.reverse and self.cutting != CuttingArguments().cutting:
            raise ValueError(f"{flags_of(self.cutting)} has no meaning with --reverse: the format has no tokenizer")

    def _check_files(self) -> None:
        """Check what stands in SOURCE's place: bilm-tf's files, one by one."""
        if self.format not in (None, "bilm-tf"):
            raise ValueError(f"SOURCE is missing: --format {self.format} is read from a directory or file")
        missing = [f"--{name}" for name in ("options_file", "weight_file") if getattr(self, name) is None]
        if missing:
            instead = "" if self.reverse else "SOURCE is missing, or in its place "
            raise ValueError(f"{instead}{' and '.join(missing)} must be given; --help says what for")
        # A model that reads words has them without a softmax; whether a checkpoint is one will be seen.
        pairs = [("softmax_file", "vocab_file"), *([] if self.reverse else [("vocab_file", "softmax_file")])]
        for name, other in pairs:
            if getattr(self, name) is not None and getattr(self, other) is None:
                hint = "; a model that reads words is named by SOURCE" if name == "vocab_file" else ""
                raise ValueError(f"--{other} is missing: it is needed with --{name}{hint}")


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(ConversionArguments, run_conversion, argv, prog, __doc__, _EXAMPLES)


def run_conversion(arguments: ConversionArguments) -> None:
    """Convert as the arguments say, and print what was written and how it is used.

    Raises: ValueError or OSError naming the argument or the file.
    """
    arguments.check()
    options: dict[str, Any] = {name: getattr(arguments, name) for name in _OPTIONS}
    options["overwrite"] = arguments.overwrite_output_dir
    cutting = None if arguments.cutting == CuttingArguments().cutting else arguments.cutting
    # One of them is there, by --reverse.
    checkpoint, directory = arguments.model_name_or_path, arguments.directory
    if checkpoint is not None:
        from ..conversion.bilm_tf_export import export_bilm_tf

        export_bilm_tf(checkpoint, **options)
        print(_describe_export(arguments))
    elif directory is not None and arguments.source is None:
        from ..conversion.bilm_tf import convert_bilm_tf

        model = convert_bilm_tf(**options, output_dir=directory, tokenizer_options=cutting)
        print(_describe_conversion(directory, "bilm-tf", model))
    elif directory is not None and arguments.source is not None:
        from ..conversion.formats import convert_foreign

        options |= {"format": arguments.format, "tokenizer_options": cutting}
        options["alignment_files"] = arguments.alignment_files
        origin, foreign = convert_foreign(arguments.source, directory, **options)
        print(_describe_conversion(directory, origin.name, foreign.model, foreign.notes))


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


def _describe_conversion(
    directory: str, format_name: str, model: ElmoPreTrainedModel, notes: Sequence[str] = ()
) -> str:
    from ..checkpoints.card_parts import describe_cutting

    tokenizer = json.loads((Path(directory) / TOKENIZER_FILE).read_text(encoding="utf-8"))
    lines = [
        f"Wrote a model of {model.num_parameters():,} parameters ({format_name}) and its tokenizer to {directory}",
        "Load them with (after `import hf_elmo` and `from transformers import AutoModel, AutoTokenizer`):",
        f"    model = AutoModel.from_pretrained({directory!r})",
        f"    tokenizer = AutoTokenizer.from_pretrained({directory!r})",
    ]
    for said in (describe_cutting(tokenizer), *notes):
        lines += textwrap.wrap(said, 100, break_on_hyphens=False)
    if model.config.word_vocab_size is not None:
        lines += [
            f"Its word softmax is over {model.config.word_vocab_size:,} words; score text with",
            f"    hf-elmo score --model_name_or_path {directory}",
        ]
    return "\n".join(lines)
