"""Export a checkpoint for other programs: as ONNX for onnxruntime, as bilm-tf's files, or as a page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from ..given import flag

EXAMPLES = """
examples:
  hf-elmo export output/my-tagger output/my-tagger-onnx
  hf-elmo export output/my-elmo output/my-elmo-bilm-tf --format bilm-tf
  hf-elmo export output/my-elmo output/my-elmo-page --format web
"""


@dataclass(frozen=True)
class ExportArguments:
    """The checkpoint to export."""

    model: str = flag("Checkpoint, a directory or a name on the Hub.", positional=True)
    output: str = flag("Directory to write.", positional=True)
    format: Literal["onnx", "bilm-tf", "web"] = flag(
        "onnx: model.onnx with config and tokenizer, of any class but coreference. bilm-tf: options.json and "
        "weights.hdf5 of the biLM, with softmax.hdf5 and vocab.txt where it has a word softmax. web: a folder with a "
        "page that computes in the browser, for any static host.",
        default="onnx",
    )
    output_hidden_states: bool = flag(
        "Also give the layers below the mix, the token encoder's first, as outputs hidden_states.0 and so on (onnx).",
        default=False,
    )
    runtime_dir: str | None = flag(
        "The npm package onnxruntime-web, unpacked; without it npm fetches the package (web).", default=None
    )
    overwrite_output_dir: bool = flag("Replace OUTPUT if it holds something.", default=False)


def export(arguments: ExportArguments) -> None:
    """Export as the arguments say, and print what was written and how it is used."""
    if arguments.runtime_dir is not None and arguments.format != "web":
        raise ValueError(f"--runtime_dir has no meaning with --format {arguments.format}; it is for web.")
    if arguments.output_hidden_states and arguments.format != "onnx":
        raise ValueError(f"--output_hidden_states has no meaning with --format {arguments.format}; it is for onnx.")
    if arguments.format == "web":
        from ..web.export import export_web

        notes = export_web(arguments.model, arguments.output, arguments.runtime_dir, arguments.overwrite_output_dir)
    elif arguments.format == "onnx":
        from ..inference.onnx_export import export_onnx

        hidden = arguments.output_hidden_states
        notes = export_onnx(arguments.model, arguments.output, hidden, arguments.overwrite_output_dir)
    else:
        from ..conversion.bilm_tf_export import export_bilm_tf

        notes = export_bilm_tf(arguments.model, arguments.output, arguments.overwrite_output_dir)
    print(f"Wrote {', '.join(sorted(os.listdir(arguments.output)))} of {arguments.model} to {arguments.output}")
    for note in notes:
        print(f"- {note}")
