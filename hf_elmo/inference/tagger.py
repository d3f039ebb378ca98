"""Labels of the words of sentences, by a token classifier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from ..model.modeling_elmo_tasks import ElmoForTokenClassification
from .applied import AppliedModel
from .batches import in_batches


class TaggedWord(NamedTuple):
    """A word, its label and the label's probability."""

    word: str
    label: str
    probability: float


class ElmoTagger(AppliedModel):
    """Sentences in, labels of their words out.

    A sentence is a list of words, taken as they are, or a string, which the checkpoint's tokenizer cuts. Of a model
    with a CRF the labels are those of the best sequence that its scheme allows.

    Args:
        model_name_or_path: A token classifier, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        max_words_per_batch: Words computed at once, markers and padding included.
        pre_tokenizer: How strings are cut; None as the checkpoint's tokenizer says.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
    """

    model_class = ElmoForTokenClassification
    model: ElmoForTokenClassification

    def tag(self, sentences: Iterable[str | Sequence[str]]) -> Iterator[list[TaggedWord]]:
        """The words of each sentence with their labels, one sentence after another."""
        cut = (self.tokenizer.tokenize(each) if isinstance(each, str) else list(each) for each in sentences)
        return in_batches(cut, lambda words: len(words) + 2, self._tag_batch, self.max_words_per_batch)

    @torch.inference_mode()
    def _tag_batch(self, sentences: Sequence[list[str]]) -> list[list[TaggedWord]]:
        batch = self.tokenizer(
            list(sentences),
            is_split_into_words=True,
            padding=True,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        is_word = batch.pop("special_tokens_mask") == 0
        logits = self.model(**{name: tensor.to(self.device) for name, tensor in batch.items()}).logits
        best, labels = torch.softmax(logits.float(), dim=-1).cpu().max(dim=-1)
        names = self.model.config.label_names
        return [
            [
                TaggedWord(word, names[label], probability)
                for word, label, probability in zip(
                    words, labels[row][is_word[row]].tolist(), best[row][is_word[row]].tolist(), strict=True
                )
            ]
            for row, words in enumerate(sentences)
        ]
