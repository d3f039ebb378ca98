"""ELMo as a component of spaCy's pipelines: a contextual vector for each token, span and document."""

# Annotations stay objects here: spaCy checks a component's settings by those of its factory.
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .inference.embedder import ElmoEmbedder

try:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch
except ImportError as error:
    raise ImportError(f"the component elmo needs spaCy >= 3.8; run: pip install 'hf_elmo[spacy]' ({error})") from error


class ElmoComponent:
    """Sets `doc.tensor`, (tokens, D), and what spaCy takes vectors and similarities from, as `nlp.add_pipe("elmo")`.

    A token's vector is the word's in its sentence; where nothing before the component has set sentences, the document
    is read as one. Tokens of white space are not read, and have zeros. The vector of a span and of a document is the
    mean of those of its words, in float32.

    Args:
        model_name_or_path: The checkpoint, a directory or a name on the Hub; read when the first document comes.
        layers: As of `ElmoEmbedder`; "all" sets them side by side, (tokens, (L + 1) D), the token encoder's first.
        device: As of `ElmoEmbedder`.
    """

    def __init__(self, model_name_or_path: str, layers: str | int = "mix", device: str | None = None):
        self.model_name_or_path, self.layers, self.device = model_name_or_path, layers, device
        self._embedder: ElmoEmbedder | None = None

    @property
    def embedder(self) -> ElmoEmbedder:
        """The checkpoint's, read at its first use: a pipeline from disk has its own, and the old path may be gone.

        Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
        """
        if not self.model_name_or_path:
            raise ValueError(
                "model_name_or_path is not set; name a checkpoint: "
                'nlp.add_pipe("elmo", config={"model_name_or_path": path}).'
            )
        if self._embedder is None:
            self._embedder = ElmoEmbedder(self.model_name_or_path, self.device)
        return self._embedder

    def __call__(self, doc: Doc) -> Doc:
        """Set a document's vectors."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Set the vectors of a stream's documents, so many at a time."""
        for docs in minibatch(stream, batch_size):
            sentences = [
                [token for token in sentence if not token.is_space]
                for doc in docs
                for sentence in (doc.sents if doc.has_annotation("SENT_START") else [doc])
            ]
            words = [[token.text for token in sentence] for sentence in sentences]
            size = self.embedder.vector_size * (self.embedder.num_layers if self.layers == "all" else 1)
            for doc in docs:
                doc.tensor = np.zeros((len(doc), size), np.float32)
                set_hooks(doc)
            for sentence, array in zip(sentences, self.embedder.stream(words, self.layers), strict=True):
                if sentence:
                    places = [token.i for token in sentence]
                    sentence[0].doc.tensor[places] = np.concatenate(array, axis=-1) if self.layers == "all" else array
            yield from docs

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the checkpoint into a directory."""
        self.embedder.model.save_pretrained(path)
        self.embedder.tokenizer.save_pretrained(path)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Read the checkpoint of a directory; where it was left out, the one that the settings name stays."""
        if Path(path).exists():
            self.model_name_or_path, self._embedder = str(path), None
        return self


def _vector(part: Doc | Span | Token) -> np.ndarray:
    """The vector of a token, or the mean of those of the words of a span or document, (D,)."""
    if isinstance(part, Token):
        return part.doc.tensor[part.i]
    tensor = part.tensor if isinstance(part, Doc) else part.doc.tensor
    places = [token.i for token in part if not token.is_space]
    return tensor[places].mean(axis=0) if places else np.zeros(tensor.shape[1:], tensor.dtype)


def _has_vector(part: Doc | Span | Token) -> bool:
    return bool(_vector(part).any())


def _similarity(part: Doc | Span | Token, other: Any) -> float:
    """The cosine of two vectors, 0 where one is zeros."""
    norms = float(part.vector_norm * other.vector_norm)
    return float(part.vector @ other.vector) / norms if norms else 0.0


def set_hooks(doc: Doc) -> None:
    """Have a document's tokens, spans and itself take vectors from its tensor, as the component does.

    For documents that come from bytes, from a DocBin or from other processes, with which hooks do not travel.
    """
    # Without hooks spaCy prefers the vectors of a vocabulary that has some, and calls two tokens of one word the same.
    for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        hooks.update(vector=_vector, has_vector=_has_vector, similarity=_similarity)


@Language.factory("elmo", assigns=["doc.tensor"])
def create_elmo(
    nlp: Language, name: str, model_name_or_path: str = "", layers: int | str = "mix", device: str | None = None
) -> ElmoComponent:
    """The component as spaCy makes it of its settings, those of `ElmoComponent`."""
    # In its annotation int comes first: spaCy 3.8.2 makes of 1 the first type that takes it.
    return ElmoComponent(model_name_or_path, layers, device)
