"""Export a checkpoint for other programs: as ONNX for onnxruntime, or as bilm-tf's files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..given.flags import flag
from .command_line import run_command

_EXAMPLES = """
examples:
  hf-elmo export output/my-tagger output/my-tagger-onnx
  hf-elmo export output/my-elmo output/my-elmo-bilm-tf --format bilm-tf
"""


@dataclass(frozen=True)
class ExportArguments:
    """The checkpoint to export."""

    model: str = flag("Checkpoint, a directory or a name on the Hub.", positional=True)
    output: str = flag("Directory to write.", positional=True)
    format: Literal["onnx", "bilm-tf"] = flag(
        "onnx: model.onnx with config and tokenizer, of any class but coreference. bilm-tf: options.json and "
        "weights.hdf5 of the biLM, with softmax.hdf5 and vocab.txt where it has a word softmax.",
        default="onnx",
    )
    output_hidden_states: bool = flag(
        "Also give the layers below the mix, the token encoder's first, as outputs hidden_states.0 and so on (onnx).",
        default=False,
    )
    overwrite_output_dir: bool = flag("Replace OUTPUT if it holds something.", default=False)


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(ExportArguments, run_export, argv, prog, __doc__, _EXAMPLES)


def run_export(arguments: ExportArguments) -> None:
    """Export as the arguments say, and print what was written and how it is used."""
    (_export_onnx if arguments.format == "onnx" else _export_bilm_tf)(arguments)


def _export_bilm_tf(arguments: ExportArguments) -> None:
    from ..conversion.bilm_tf_export import export_bilm_tf

    if arguments.output_hidden_states:
        raise ValueError("--output_hidden_states has no meaning with --format bilm-tf, whose files are weights.")
    notes = export_bilm_tf(arguments.model, arguments.output, arguments.overwrite_output_dir)
    print(f"Wrote {', '.join(sorted(os.listdir(arguments.output)))} of {arguments.model} to {arguments.output}")
    for note in notes:
        print(f"- {note}")


def _export_onnx(arguments: ExportArguments) -> None:
    from ..inference.onnx_export import export_onnx

    exported = export_onnx(
        arguments.model, arguments.output, arguments.output_hidden_states, arguments.overwrite_output_dir
    )
    size = os.path.getsize(exported.path) / 2**20
    print(f"Wrote {exported.model_class} of {arguments.model} to {exported.path}, {size:.1f} MiB.")
    print(f"inputs:  {', '.join(exported.inputs)}, as AutoTokenizer.from_pretrained({arguments.output!r}) gives them")
    print(f"outputs: {', '.join(exported.outputs)}")
    if exported.largest_difference is None:
        print("It was not run: onnxruntime is not installed (pip install onnxruntime).")
    else:
        print(
            f"By onnxruntime its numbers are those of the model within {exported.largest_difference:.1e}, on batches "
            "of other sizes than it was recorded on."
        )
