"""AllenNLP's own ELMo, from the files of its wheel and without the rest of AllenNLP."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hf_elmo.conversion.bilm_tf_export import save_bilm_tf
from hf_elmo.model.modeling_elmo import ElmoModel

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


class AllenNLPPeer:
    """AllenNLP's `Elmo` with the weights of a model of ours."""

    def __init__(self, folder: str | Path, model: ElmoModel):
        """Load AllenNLP's files and give them the weights, in its own file format.

        Args:
            folder: Holds allennlp/modules/elmo.py.
            model: Whose token encoder and biLM to take; its scalar mix must be at its starting values.
        Raises: FileNotFoundError where the folder is another one; ImportError where h5py is missing.
        """
        module = self._module = _import_elmo(Path(folder))
        with tempfile.TemporaryDirectory() as directory:
            files = Path(directory, "options.json"), Path(directory, "weights.hdf5")
            save_bilm_tf(model, *files)
            self._elmo: nn.Module = module.Elmo(
                *map(str, files), num_output_representations=1, requires_grad=True, keep_sentence_boundaries=True
            )
        self._elmo.eval()
        # Their names: `Elmo` calls its biLM _elmo_lstm, and that one calls its LSTM so too.
        self._lstm = self._elmo._elmo_lstm._elmo_lstm

    def mix(self, input_ids: Tensor) -> Tensor:
        """Mixed vectors, (B, T + 2, 2P), of character ids without sentence markers, (B, T, C); it adds the markers."""
        self._lstm.reset_states()
        return self._elmo(input_ids)["elmo_representations"][0]

    @torch.no_grad()
    def embed_batches(self, sentences: Iterable[list[str]], batch_size: int = 64) -> Iterator[np.ndarray]:
        """The arrays of AllenNLP 0.9's `ElmoEmbedder.embed_sentences`, (3, words, 2P), which `embed_file` writes.

        As there, batches are cut in the order of the text, and the states are carried from one to the next.

        Args:
            sentences: Lists of words, none of them empty.
            batch_size: Its default is theirs.
        """
        self._lstm.reset_states()
        rest = iter(sentences)
        bilm, mapper = self._elmo._elmo_lstm, self._module.ELMoCharacterMapper()
        while batch := list(itertools.islice(rest, batch_size)):
            rows = [torch.tensor([mapper.convert_word_to_char_ids(word) for word in words]) for words in batch]
            output = bilm(nn.utils.rnn.pad_sequence(rows, batch_first=True))
            layers = [
                self._module.remove_sentence_boundaries(layer, output["mask"])[0].unsqueeze(1)
                for layer in output["activations"]
            ]
            together = torch.cat(layers, dim=1)
            for number, words in enumerate(batch):
                yield together[number, :, : len(words)].cpu().numpy()

    def run_bilm(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """The top layer, (B, T, 2P), of token vectors (B, T, P) under a mask (B, T)."""
        self._lstm.reset_states()
        return self._lstm(vectors, mask)[-1]

    def train_step(self, vectors: Tensor, coefficients: Tensor) -> tuple[Tensor, ...]:
        """The gradients of a weighted sum of the top layer by the vectors and all LSTM weights, in our order of these.

        Args:
            vectors: Token vectors that want gradients, (B, T, P).
            coefficients: The weights of the sum, (B, T, 2P).
        """
        mask = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
        loss = (self.run_bilm(vectors, mask) * coefficients).sum()
        return torch.autograd.grad(loss, [vectors, *self._lstm.parameters()])


def _import_elmo(folder: Path) -> ModuleType:
    if not folder.joinpath("allennlp", "modules", "elmo.py").is_file():
        raise FileNotFoundError(
            f"--allennlp is {str(folder)!r}, which holds no allennlp/modules/elmo.py; wanted the folder of the "
            "unzipped wheel: pip download --no-deps allennlp==2.10.1, then unzip it."
        )
    with _finder_at_work(_Finder(folder)):
        return import_module("allennlp.modules.elmo")


@contextmanager
def _finder_at_work(finder: _Finder) -> Iterator[None]:
    """Import `allennlp` through the finder for a while, and leave the process's own modules as they were."""
    own = _take_out_allennlp()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _take_out_allennlp()
        sys.modules.update(own)


def _take_out_allennlp() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "allennlp"]
    return {name: sys.modules.pop(name) for name in names}
