"""Convert an ELMo checkpoint of another program into a directory that AutoModel loads."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..given import flag
from ..hub.file_names import TOKENIZER_FILE
from ..text.arguments import CuttingArguments

if TYPE_CHECKING:
    from ..conversion.reading import Converted

EXAMPLES = """
examples:
  hf-elmo convert downloaded/elmo output/elmo
  hf-elmo convert downloaded/model.tar.gz output/elmo-of-the-task --options_file options.json
  hf-elmo convert downloaded/179.zip output/elmo-japanese --pre_tokenizer unicode

The way back: hf-elmo export output/elmo output/elmo-bilm-tf --format bilm-tf
"""
_WIDTH = 100


@dataclass(frozen=True)
class ConversionArguments:
    """The checkpoint to convert."""

    source: str = flag(
        "Directory, archive or file of weights of bilm-tf, AllenNLP or ELMoForManyLangs.", positional=True
    )
    output: str = flag("Directory to write.", positional=True)
    options_file: str | None = flag("JSON with the model's sizes, where it is not beside the weights.", default=None)
    softmax_file: str | None = flag(
        "hdf5 of bilm-tf's word softmax, where it is not in the directory SOURCE; with it the model scores text.",
        default=None,
    )
    vocab_file: str | None = flag(
        "Words of that softmax, or of a model that reads words, one per line, where they are not beside the weights.",
        default=None,
    )
    alignment_files: list[str] | None = flag(
        "Matrices that align the layers with another language's: a file (text, npy, pth) for each layer, the token "
        "encoder's first, and - for a layer without one.",
        default=None,
    )
    overwrite_output_dir: bool = flag("Replace OUTPUT if it holds something.", default=False)


def convert_source(arguments: ConversionArguments, cutting: CuttingArguments) -> None:
    """Convert as the arguments say, and print what was read and written and how it is used."""
    from ..conversion.sources import convert

    options = vars(arguments) | {"tokenizer_options": cutting.cutting}
    source, output, overwrite = (options.pop(name) for name in ("source", "output", "overwrite_output_dir"))
    name, converted = convert(source, output, overwrite, **options)
    print(_describe(output, name, converted))


def _describe(directory: str, name: str, converted: Converted) -> str:
    from ..hub.cards import describe_cutting

    model, config = converted.model, converted.model.config
    files = ", ".join(dict.fromkeys(path.name for path in converted.files.values()))
    sizes = f"{config.num_hidden_layers} layers, {config.cell_size} cells, projection {config.projection_size}"
    what = f"{type(model).__name__} ({model.num_parameters():,} parameters: {sizes})"
    tokenizer = json.loads((Path(directory) / TOKENIZER_FILE).read_text(encoding="utf-8"))
    lines = [
        *textwrap.wrap(f"Read {name}: {files}", _WIDTH, subsequent_indent="  "),
        f"Wrote {what} and its tokenizer to {directory}",
        "",
        "    import hf_elmo",
        "    from transformers import AutoModel, AutoTokenizer",
        f"    model = AutoModel.from_pretrained({directory!r})",
        f"    tokenizer = AutoTokenizer.from_pretrained({directory!r})",
        "",
    ]
    for note in (describe_cutting(tokenizer), *converted.notes):
        lines += textwrap.wrap(f"- {note}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    if config.word_vocab_size is not None:
        lines += ["", f"Score text, by its softmax over {config.word_vocab_size:,} words:"]
        lines.append(f"    hf-elmo score --model_name_or_path {directory} --input_file text.txt")
    return "\n".join(lines)
