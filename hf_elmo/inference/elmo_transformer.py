"""ELMo as the first module of a SentenceTransformer: texts in, a vector per word out, for any pooling behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..hub.loading import load_model, load_tokenizer
from ..hub.provenance import write_json
from ..model.modeling_elmo import ElmoModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .embedding import resolve_layers

try:
    from sentence_transformers.base.modules import InputModule
except ImportError as error:
    raise ImportError("ElmoTransformer needs sentence-transformers >= 6.0; pip install 'hf_elmo[sentences]'") from error

_HUB_OPTIONS = ("token", "cache_folder", "revision", "local_files_only")


class ElmoTransformer(InputModule):
    """A checkpoint's biLM and tokenizer: `SentenceTransformer(modules=[ElmoTransformer(path), Pooling(...)])`.

    `SentenceTransformer.save` writes a directory that is also a checkpoint of `ElmoModel`;
    `SentenceTransformer(path, trust_remote_code=True)` reads it.

    Args:
        layers: The vector of a word, as of `embed`: "mix", "top", "average", "token" or a layer's number.
        pool_special_tokens: Whether `<S>` and `</S>` are pooled with the words; they are where a text has no words.
        max_seq_length: Longer texts are truncated to so many words, special tokens included; None reads them whole.
        freeze_bilm: Whether only the weights of the mix are trained.
    """

    config_file_name = "sentence_elmo_config.json"
    config_keys = ["layers", "pool_special_tokens", "max_seq_length", "freeze_bilm"]
    save_in_root = True
    tokenizer: ElmoCharTokenizer

    def __init__(
        self,
        model_name_or_path: str,
        layers: str | int = "mix",
        pool_special_tokens: bool = False,
        max_seq_length: int | None = None,
        freeze_bilm: bool = False,
    ):
        super().__init__()
        self.model = load_model(ElmoModel, model_name_or_path)
        self.tokenizer = load_tokenizer(model_name_or_path, self.model.config)
        if layers == "all":
            raise ValueError("layers is 'all', which gives several vectors to a word; name one of the layers.")
        resolve_layers(layers, self.model.config.num_hidden_layers + 1)
        self.layers, self.pool_special_tokens, self.max_seq_length = layers, pool_special_tokens, max_seq_length
        self.freeze_bilm = freeze_bilm
        self.model.freeze_bilm(freeze_bilm)

    def get_embedding_dimension(self) -> int:
        """Size of a word's vector, for the module behind this one."""
        return 2 * self.model.config.projection_size

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any) -> dict[str, Tensor]:
        """Tokenize texts, with a prompt in front: input_ids (B, T, C), attention_mask and word_mask (B, T)."""
        texts = list(inputs) if not prompt else self._prepend_prompt(list(inputs), prompt)
        length = {"truncation": self.max_seq_length is not None, "max_length": self.max_seq_length}
        batch = self.tokenizer(texts, padding=True, return_special_tokens_mask=True, return_tensors="pt", **length)
        word_mask = batch["attention_mask"] * (1 - batch.pop("special_tokens_mask"))
        return {**batch, "word_mask": word_mask}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add token_embeddings, (B, T, 2P), and leave in attention_mask, (B, T), what is to be pooled."""
        mask = features["attention_mask"]
        output = self.model(features["input_ids"], attention_mask=mask, output_hidden_states=self.layers != "mix")
        number = resolve_layers(self.layers, self.model.config.num_hidden_layers + 1)
        if number == "mix":
            vectors = output.last_hidden_state
        elif number == "average":
            vectors = torch.stack(output.hidden_states).mean(dim=0)
        else:
            vectors = output.hidden_states[number]
        features["token_embeddings"] = vectors
        if not self.pool_special_tokens and "word_mask" in features:
            words = features["word_mask"]
            # A text without words would leave nothing to pool.
            features["attention_mask"] = torch.where(words.any(dim=1, keepdim=True), words, mask)
        return features

    # Parameters as the library names and passes them.
    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write checkpoint, tokenizer and settings into a directory."""
        self.model.save_pretrained(output_path)
        self.tokenizer.save_pretrained(output_path)
        write_json(Path(output_path) / self.config_file_name, self.get_config_dict())

    @classmethod
    def load(  # type: ignore[override]
        cls, model_name_or_path: str, *, subfolder: str = "", **kwargs: Any
    ) -> ElmoTransformer:
        """Read what `save` wrote, as `SentenceTransformer(path)` asks for it."""
        hub = {name: value for name, value in kwargs.items() if name in _HUB_OPTIONS}
        directory = cls.load_dir_path(model_name_or_path, subfolder, **hub)
        if directory is None:
            raise FileNotFoundError(f"model_name_or_path {model_name_or_path!r} has no directory {subfolder!r}.")
        return cls(directory, **cls.load_config(model_name_or_path, subfolder, **hub))
