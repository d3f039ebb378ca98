"""AllenNLP's own code with the weights of a model of ours.

Letters in shapes: B sentences, T words, C characters, P projection.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from hf_elmo import ElmoModel


class AllenNLPModel:
    """AllenNLP's `Elmo` with the weights of a model of ours: its own files run as they are, in eager mode."""

    def __init__(self, folder: str | Path, model: ElmoModel):
        """Load the files below a folder, and give them the weights in their own format.

        The scalar mix of `model` must be at its starting values.
        """
        from hf_elmo.conversion.bilm_tf import OPTIONS_FILE, WEIGHT_FILE, export_bilm_tf

        with tempfile.TemporaryDirectory() as directory:
            model.save_pretrained(Path(directory, "ours"))
            theirs = Path(directory, "theirs")
            export_bilm_tf(Path(directory, "ours"), theirs)
            files = theirs / OPTIONS_FILE, theirs / WEIGHT_FILE
            self._elmo: nn.Module = _import_elmo(Path(folder)).Elmo(
                *map(str, files), num_output_representations=1, requires_grad=True, keep_sentence_boundaries=True
            )
        self._elmo.eval().to(model.device)
        # Their names: `Elmo` calls its biLM _elmo_lstm, and that one calls its LSTM so too.
        self.lstm = self._elmo._elmo_lstm._elmo_lstm

    def mix(self, input_ids: Tensor) -> Tensor:
        """Mixed vectors, (B, T + 2, 2P), of character ids without special tokens, (B, T, C); it adds them itself."""
        self.lstm.reset_states()
        return self._elmo(input_ids)["elmo_representations"][0]

    def run_bilm(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """The top layer, (B, T, 2P), of token vectors (B, T, P) under a mask (B, T)."""
        self.lstm.reset_states()
        return self.lstm(vectors, mask)[-1]


# Packages whose own files are not run, and what ELMo's files import besides and never use.
_PACKAGES = ("", ".data", ".data.token_indexers", ".modules", ".nn")
_STAND_INS = (
    *(f".common{name}" for name in ("", ".checks", ".file_utils", ".util")),
    *(f".data.{name}" for name in ("batch", "fields", "instance", "tokenizers", "vocabulary")),
    *(".data.token_indexers.token_indexer", ".data.tokenizers.token_class", ".nn.initializers"),
)
# The names among the stand-ins' that ELMo's files do use.
_USED_NAMES = {
    "ConfigurationError": ValueError,
    "cached_path": lambda path: path,
    # Starting values; they are replaced when the weights are read.
    "block_orthogonal": lambda *_: None,
}


class _Nothing:
    """Any class of AllenNLP's data pipeline: to be imported and inherited, never used."""

    @classmethod
    def register(cls, *_: Any, **__: Any) -> Any:
        return lambda registered: registered


class _StandIn(ModuleType):
    """A module of AllenNLP that has every name one asks for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _USED_NAMES.get(name, _Nothing)


def _import_elmo(folder: Path) -> ModuleType:
    """AllenNLP's module of ELMo as it was written, in packages that import nothing else of theirs."""
    for kind, names in ((ModuleType, _PACKAGES), (_StandIn, _STAND_INS)):
        for name in names:
            module = kind(f"allennlp{name}")
            module.__path__ = [str(folder.joinpath(*module.__name__.split(".")))]
            sys.modules[module.__name__] = module
    return import_module("allennlp.modules.elmo")
