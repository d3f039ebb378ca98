"""Export a checkpoint to ONNX, to be run by onnxruntime on batches of any size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ..given.flags import flag
from .command_line import run_command

_EXAMPLES = """
examples:
  hf-elmo export --model_name_or_path output/my-elmo --output_dir output/my-elmo-onnx
  hf-elmo export --model_name_or_path output/my-tagger --output_dir output/my-tagger-onnx
"""


@dataclass(frozen=True, kw_only=True)
class ExportArguments:
    """What is exported, and where to."""

    model_name_or_path: str = flag("Checkpoint to export, of any class but coreference (directory or Hub).")
    output_dir: str = flag("Directory to write: model.onnx, the config and the tokenizer.")
    output_hidden_states: bool = flag(
        "Also give the layers below the mix, the token encoder's first, as outputs hidden_states.0 and so on.",
        default=False,
    )
    overwrite_output_dir: bool = flag("Replace output_dir if it holds something.", default=False)


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(ExportArguments, run_export, argv, prog, __doc__, _EXAMPLES)


def run_export(arguments: ExportArguments) -> None:
    """Export as the arguments say, and print what was written and how it is used.

    Raises: ValueError, OSError or ImportError naming the argument or what lacks.
    """
    from ..inference.onnx_export import export_onnx

    exported = export_onnx(
        arguments.model_name_or_path,
        arguments.output_dir,
        arguments.output_hidden_states,
        arguments.overwrite_output_dir,
    )
    size = os.path.getsize(exported.path) / 2**20
    print(f"Wrote {exported.model_class} of {arguments.model_name_or_path} to {exported.path}, {size:.1f} MiB.")
    print(
        f"inputs:  {', '.join(exported.inputs)}, as AutoTokenizer.from_pretrained({arguments.output_dir!r}) gives them"
    )
    print(f"outputs: {', '.join(exported.outputs)}")
    if exported.largest_difference is None:
        print("It was not run: onnxruntime is not installed (pip install onnxruntime).")
    else:
        print(
            f"By onnxruntime its numbers are those of the model within {exported.largest_difference:.1e}, on batches "
            "of other sizes than it was recorded on."
        )
