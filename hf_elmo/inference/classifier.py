"""Labels of texts, and of pairs of them, by a sequence classifier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from ..model.modeling_elmo_tasks import ElmoForSequenceClassification
from .applied import AppliedModel
from .batches import in_batches

Text = str | Sequence[str]
# What is computed together: the words of a text, or of both texts of a pair.
_Words = tuple[list[str], ...]


class ElmoClassifier(AppliedModel):
    """Texts or pairs of texts in, the probabilities of their labels out.

    A text is a list of words, taken as they are, or a string, which the checkpoint's tokenizer cuts.

    Args:
        model_name_or_path: A sequence classifier, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        max_words_per_batch: Words computed at once, markers and padding included.
        pre_tokenizer: How strings are cut; None as the checkpoint's tokenizer says.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
    """

    model_class = ElmoForSequenceClassification
    model: ElmoForSequenceClassification

    @property
    def reads_pairs(self) -> bool:
        """Whether it classifies pairs; else it classifies single texts."""
        return self.model.text_encoder.reads_pairs

    @property
    def labels(self) -> list[str]:
        """The labels in the order of their ids."""
        return self.model.config.label_names

    def classify(self, texts: Iterable[Text]) -> Iterator[dict[str, float]]:
        """The probability of each label for each text, one text after another.

        Raises: ValueError where the checkpoint classifies pairs.
        """
        if self.reads_pairs:
            raise ValueError("this checkpoint classifies pairs of texts; give it pairs, by classify_pairs.")
        return self._classify((self._cut(text),) for text in texts)

    def classify_pairs(self, pairs: Iterable[tuple[Text, Text]]) -> Iterator[dict[str, float]]:
        """The probability of each label for each pair, one pair after another.

        Raises: ValueError where the checkpoint classifies single texts.
        """
        if not self.reads_pairs:
            raise ValueError("this checkpoint classifies single texts; give it texts, by classify.")
        return self._classify((self._cut(first), self._cut(second)) for first, second in pairs)

    def _cut(self, text: Text) -> list[str]:
        return self.tokenizer.tokenize(text) if isinstance(text, str) else list(text)

    def _classify(self, items: Iterable[_Words]) -> Iterator[dict[str, float]]:
        return in_batches(
            items, lambda texts: sum(len(words) + 2 for words in texts), self._classify_batch, self.max_words_per_batch
        )

    @torch.inference_mode()
    def _classify_batch(self, items: Sequence[_Words]) -> list[dict[str, float]]:
        columns = [list(column) for column in zip(*items, strict=True)]
        batch = self.tokenizer(*columns, is_split_into_words=True, padding=True, return_tensors="pt")
        logits = self.model(**{name: tensor.to(self.device) for name, tensor in batch.items()}).logits
        probabilities = logits.float().softmax(dim=-1).cpu().tolist()
        return [dict(zip(self.labels, row, strict=True)) for row in probabilities]
