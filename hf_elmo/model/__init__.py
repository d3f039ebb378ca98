"""ELMo's config, tokenizer and models: the six files that travel with checkpoints."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

_HERE = Path(__file__).parent


def write_code(directory: str | os.PathLike) -> None:
    """Write into a checkpoint's directory the code that loads it without this package, as a model of any usual task.

    `save_pretrained` writes what the saved class needs: three files, or four or five with a head. Here the heads'
    file and its names in the auto_map come too, so that a pre-trained checkpoint can be fine-tuned by its own code.

    Args:
        directory: Has a config.json; what it has of code is replaced.
    Raises: OSError; ValueError where config.json is no JSON.
    """
    from .configuration_elmo import auto_map_of

    path = Path(directory) / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["auto_map"] = auto_map_of(config.get("architectures"), with_heads=True)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for module in {"tokenization_elmo", *(name.partition(".")[0] for name in config["auto_map"].values())}:
        shutil.copyfile(_HERE / f"{module}.py", Path(directory) / f"{module}.py")
