"""Other implementations with the weights of a model of ours: torch's projected LSTM, and AllenNLP's own code.

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

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hf_elmo import ElmoModel


class TorchBiLM(nn.Module):
    """The biLM of a model as `nn.LSTM(proj_size)` modules, which cannot clip; padding has to be on the right."""

    def __init__(self, model: ElmoModel):
        super().__init__()
        self.directions = nn.ModuleList(
            nn.ModuleList(_copy_lstm(getattr(layer, name), model.config.forget_bias) for layer in model.bilm.layers)
            for name in ("forward_lstm", "backward_lstm")
        )
        self.adds_input = [model.config.use_skip_connections and number > 0 for number in range(len(model.bilm.layers))]

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        """The top layer, (B, T, 2P), of token vectors (B, T, P); what the mask, (B, T), hides is left out."""
        lengths = None if mask is None or bool(mask.all()) else mask.sum(dim=1)
        forward, backward = (
            self._run(direction, inputs, lengths)
            for direction, inputs in zip(self.directions, (vectors, _reverse(vectors, lengths)), strict=True)
        )
        return torch.cat([forward, _reverse(backward, lengths)], dim=-1)

    def _run(self, lstms: nn.ModuleList, vectors: Tensor, lengths: Tensor | None) -> Tensor:
        for lstm, adds_input in zip(lstms, self.adds_input, strict=True):
            if lengths is None:
                outputs = lstm(vectors)[0]
            else:
                packed = pack_padded_sequence(vectors, lengths.cpu(), batch_first=True, enforce_sorted=False)
                outputs = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=vectors.shape[1])[0]
            vectors = outputs + vectors if adds_input else outputs
        return vectors


def _reverse(vectors: Tensor, lengths: Tensor | None) -> Tensor:
    """Turn the real words of each row round, and leave the padding after them where it is."""
    if lengths is None:
        return vectors.flip(1)
    indices = torch.arange(vectors.shape[1], device=vectors.device).expand(vectors.shape[:2])
    mirrored = lengths.unsqueeze(1) - 1 - indices
    return vectors.gather(1, torch.where(mirrored >= 0, mirrored, indices).unsqueeze(-1).expand_as(vectors))


@torch.no_grad()
def _copy_lstm(ours: Any, forget_bias: float) -> nn.LSTM:
    projection_size, cell_size = ours.weight_hr.shape
    lstm = nn.LSTM(projection_size, cell_size, proj_size=projection_size, batch_first=True)
    for name, weight in (("ih", ours.weight_ih), ("hh", ours.weight_hh), ("hr", ours.weight_hr)):
        getattr(lstm, f"weight_{name}_l0").copy_(weight)
    lstm.bias_ih_l0.copy_(ours.bias)
    lstm.bias_ih_l0[cell_size : 2 * cell_size] += forget_bias
    # A second bias, which would only cost time in training.
    lstm.bias_hh_l0.zero_().requires_grad_(False)
    return lstm.to(ours.bias.device)


class AllenNLPModel:
    """AllenNLP's `Elmo` with the weights of a model of ours: its own files run as they are, in eager mode."""

    def __init__(self, folder: str | Path, model: ElmoModel):
        """Load AllenNLP's files and give them the weights, in its own file format.

        Args:
            folder: Holds allennlp/modules/elmo.py.
            model: Whose token encoder and biLM to take; its scalar mix must be at its starting values.
        Raises: FileNotFoundError where the folder is another one; ImportError where h5py is missing.
        """
        from hf_elmo.conversion.bilm_tf_export import OPTIONS_FILE, WEIGHT_FILE, export_bilm_tf

        if not Path(folder, "allennlp", "modules", "elmo.py").is_file():
            raise FileNotFoundError(
                f"--allennlp is {str(folder)!r}, which holds no allennlp/modules/elmo.py; name the folder of the "
                "unzipped wheel: pip download --no-deps allennlp==2.10.1, then unzip it."
            )
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder(Path(folder)))
        with tempfile.TemporaryDirectory() as directory:
            model.save_pretrained(Path(directory, "ours"))
            theirs = Path(directory, "theirs")
            export_bilm_tf(Path(directory, "ours"), theirs)
            files = theirs / OPTIONS_FILE, theirs / WEIGHT_FILE
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
