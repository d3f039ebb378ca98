"""Hand a finished checkpoint on: to other programs, to a class as a page, or to the Hub."""

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
  hf-elmo push --model_name_or_path output/my-elmo --hub_model_id my-elmo --hub_private_repo
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
    """Export a checkpoint for other programs: as ONNX for onnxruntime, as bilm-tf's files, or as a page."""
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
        from ..conversion.bilm_tf import export_bilm_tf

        notes = export_bilm_tf(arguments.model, arguments.output, arguments.overwrite_output_dir)
    print(f"Wrote {', '.join(sorted(os.listdir(arguments.output)))} of {arguments.model} to {arguments.output}")
    for note in notes:
        print(f"- {note}")


@dataclass
class PushArguments:
    """What is sent, and where to."""

    model_name_or_path: str = flag("The checkpoint: a directory written by pretrain, convert or train.")
    hub_model_id: str = flag("Name on the Hub, with or without a namespace; a new one is made.")
    hub_private_repo: bool = flag("Make the repository on the Hub private.", default=False)


def push(arguments: PushArguments) -> str:
    """Upload a finished checkpoint to the Hub, with the token of HF_TOKEN or `hf auth login`."""
    from ..hub.sharing import files_to_send, push_checkpoint

    checkpoint = arguments.model_name_or_path
    url = push_checkpoint(checkpoint, arguments.hub_model_id, private=arguments.hub_private_repo or None)
    print(f"Uploaded {len(files_to_send(checkpoint))} files of {checkpoint} to {url}")
    return url
