"""Bring a checkpoint of another program here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..given import flag
from ..hub import TOKENIZER_FILE
from ..text.arguments import CuttingArguments

EXAMPLES = """
examples:
  hf-elmo convert downloaded/elmo output/elmo
  hf-elmo convert downloaded/model.tar.gz output/elmo-of-the-task --options_file options.json
  hf-elmo convert downloaded/179.zip output/elmo-japanese --pre_tokenizer unicode

The way back: hf-elmo export output/elmo output/elmo-bilm-tf --format bilm-tf
"""


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
    """Convert an ELMo checkpoint of another program into a directory that AutoModel loads."""
    from ..conversion.sources import convert
    from ..hub.cards import describe_cutting

    options = vars(arguments) | {"tokenizer_options": cutting.cutting}
    source, output, overwrite = (options.pop(name) for name in ("source", "output", "overwrite_output_dir"))
    name, converted = convert(source, output, overwrite, **options)
    model, config = converted.model, converted.model.config
    tokenizer = json.loads((Path(output) / TOKENIZER_FILE).read_text(encoding="utf-8"))
    print(
        f"Read {name}: {', '.join(dict.fromkeys(path.name for path in converted.files.values()))}\n"
        f"Wrote {type(model).__name__} ({model.num_parameters():,} parameters: {config.num_hidden_layers} layers, "
        f"{config.cell_size} cells, projection {config.projection_size}) and its tokenizer to {output}\n\n"
        "    import hf_elmo\n"
        "    from transformers import AutoModel, AutoTokenizer\n"
        f"    model = AutoModel.from_pretrained({output!r})\n"
        f"    tokenizer = AutoTokenizer.from_pretrained({output!r})\n"
    )
    for note in (describe_cutting(tokenizer), *converted.notes):
        print(f"- {note}")
    if config.word_vocab_size is not None:
        print(f"\nScore text, by its softmax over {config.word_vocab_size:,} words:")
        print(f"    hf-elmo score --model_name_or_path {output} --input_file text.txt")
