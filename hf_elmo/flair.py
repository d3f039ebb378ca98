"""ELMo's vectors as flair's token embeddings, in place of flair's own, which need allennlp 0.9."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

# At its import it runs transformers' __init__ once more, into a new module: what was set on the old one is lost.
import transformers.processing_utils

from .hub.loading import load_model, load_tokenizer
from .inference.embedder import ElmoEmbedder, resolve_layers
from .model.configuration_elmo import ElmoConfig
from .model.modeling_elmo import ElmoModel
from .model.tokenization_elmo import ElmoCharTokenizer
from .text.arguments import cutting_of

if not hasattr(transformers, "LayoutLMv2FeatureExtractor"):
    # flair 0.15 imports the name, which transformers 5 lacks, to ask whether a reader of pictures is one: none is.
    transformers.LayoutLMv2FeatureExtractor = type("LayoutLMv2FeatureExtractor", (), {})  # type: ignore[attr-defined]

try:
    import flair
    from flair.data import Sentence
    from flair.embeddings import TokenEmbeddings
    from flair.embeddings.base import register_embeddings
except ImportError as error:
    raise ImportError(
        "ElmoEmbeddings need flair >= 0.15; run: pip install 'hf_elmo[flair]', then: pip install --no-deps flair "
        f"transformer-smaller-training-vocab ({error})"
    ) from error


@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):
    """Contextual vectors for each token of flair's sentences: `ElmoEmbeddings(path).embed(Sentence("Call it !"))`.

    Tokens are flair's: the checkpoint's pre-tokenizer is not asked. The biLM is fixed. A model that is saved with these
    embeddings holds the checkpoint too, and is loaded after `import hf_elmo.flair`.

    Args:
        model_name_or_path: The checkpoint, a directory or a name on the Hub; of one with a task's head, the base.
        layers: "all" for the L + 1 layers side by side, the token encoder's first; "top", "average", "token" or a
            layer's number, as of `ElmoEmbedder`; "mix" for the checkpoint's mix, which is trained with the model.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the argument.
    """

    def __init__(self, model_name_or_path: str, layers: str | int = "all"):
        model = load_model(ElmoModel, str(model_name_or_path))
        tokenizer = load_tokenizer(str(model_name_or_path), model.config)
        self._set_up(model, tokenizer, layers, f"elmo-{Path(model_name_or_path).name}-{layers}")

    def _set_up(self, model: ElmoModel, tokenizer: ElmoCharTokenizer, layers: str | int, name: str) -> None:
        resolve_layers(layers, model.config.num_hidden_layers + 1)
        super().__init__()
        self.model, self.tokenizer, self.layers, self.name = model.requires_grad_(False), tokenizer, layers, name
        self.static_embeddings = layers != "mix"
        if layers == "mix":
            model.mixes[0].weight.requires_grad_(True)
            model.mixes[0].scale.requires_grad_(True)
        self.to(flair.device)
        self.eval()

    @property
    def embedding_length(self) -> int:
        """Size of a token's vector: D, twice the projection; with layers="all" (L + 1) D."""
        config = self.model.config
        return 2 * config.projection_size * (config.num_hidden_layers + 1 if self.layers == "all" else 1)

    def _everything_embedded(self, data_points: Any) -> bool:
        # flair stores what it has embedded without gradients, such as the dev set; the mix has been trained since.
        return self.static_embeddings and super()._everything_embedded(data_points)

    def _add_embeddings_internal(self, sentences: list[Sentence]) -> None:
        words = [[token.text for token in sentence] for sentence in sentences]
        layers = "all" if self.layers == "mix" else self.layers
        arrays = ElmoEmbedder(self.model, tokenizer=self.tokenizer).stream(words, layers)
        for sentence, array in zip(sentences, arrays, strict=True):
            for token, vector in zip(sentence, self._vectors(array), strict=True):
                token.set_embedding(self.name, vector)

    def _vectors(self, array: np.ndarray) -> torch.Tensor:
        """What `embed` gives of a sentence as its tokens' vectors, (tokens, embedding_length)."""
        vectors = torch.from_numpy(array).to(flair.device)
        if self.layers == "mix":
            mask = torch.ones(1, vectors.shape[1], dtype=torch.bool, device=vectors.device)
            return self.model.mixes[0](list(vectors.unsqueeze(1)), mask)[0]
        return torch.cat(list(vectors), dim=-1) if self.layers == "all" else vectors

    def to_params(self) -> dict[str, Any]:
        """What flair saves beside the weights: the config, the tokenizer's settings, the layers and the name."""
        characters = {name: getattr(self.tokenizer, name) for name in ("max_characters_per_word", "characters")}
        settings = {**cutting_of(self.tokenizer), **characters}
        return {"config": self.model.config.to_dict(), "tokenizer": settings, "layers": self.layers, "name": self.name}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> ElmoEmbeddings:
        """The embeddings of `to_params`, whose weights flair loads behind it."""
        embeddings = cls.__new__(cls)
        model, tokenizer = ElmoModel(ElmoConfig.from_dict(params["config"])), ElmoCharTokenizer(**params["tokenizer"])
        embeddings._set_up(model, tokenizer, params["layers"], params["name"])
        return embeddings

    def __str__(self) -> str:
        return self.name
