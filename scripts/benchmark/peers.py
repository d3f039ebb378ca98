"""AllenNLP's own code with the weights of a model of ours.

Letters in shapes: B sentences, T words, C characters, P projection.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
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
        from hf_elmo.conversion.bilm_tf_export import OPTIONS_FILE, WEIGHT_FILE, save_bilm_tf

        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder(Path(folder)))
        with tempfile.TemporaryDirectory() as directory:
            save_bilm_tf(model, directory)
            files = Path(directory, OPTIONS_FILE), Path(directory, WEIGHT_FILE)
            self._elmo: nn.Module = import_module("allennlp.modules.elmo").Elmo(
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


# What runs as AllenNLP wrote it; every other module of theirs is a stand-in.
_SOURCES = frozenset(
    f"allennlp.{name}"
    for name in (
        "data.token_indexers.elmo_indexer",
        "modules.elmo",
        "modules.elmo_lstm",
        "modules.encoder_base",
        "modules.highway",
        "modules.lstm_cell_with_projection",
        "modules.scalar_mix",
        "nn.util",
    )
)


class _Nothing:
    """Any class of AllenNLP's data pipeline: to be imported and inherited, never used."""

    @classmethod
    def register(cls, *_: Any, **__: Any) -> Any:
        return lambda registered: registered


# The names among the stand-ins' that ELMo's files do use.
_USED_NAMES = {
    "ConfigurationError": ValueError,
    "cached_path": lambda path: path,
    # Starting values; they are replaced when the weights are read.
    "block_orthogonal": lambda *_: None,
}


class _StandIn(ModuleType):
    """A module of AllenNLP that has every name one asks for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full_name = f"{self.__name__}.{name}"
        return import_module(full_name) if full_name in _SOURCES else _USED_NAMES.get(name, _Nothing)


class _Finder(MetaPathFinder, Loader):
    """Finds `allennlp` and all below it: the sources in the folder, stand-ins for the rest."""

    def __init__(self, folder: Path):
        self.folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "allennlp":
            return None
        if fullname in _SOURCES:
            return spec_from_file_location(fullname, self.folder.joinpath(*fullname.split(".")).with_suffix(".py"))
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is to be run in a stand-in."""
