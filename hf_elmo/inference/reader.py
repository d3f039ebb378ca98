"""Answers to questions, as pieces of a context, by a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from ..model.modeling_elmo_tasks import ElmoForQuestionAnswering
from .applied import AppliedModel
from .batches import in_batches


class FoundAnswer(NamedTuple):
    """An answer and where it stands.

    Args:
        text: context[start:end]; "" where the context has no words.
        start: Its first character in the context.
        end: The character behind its last one.
        score: The probability of its first word times that of its last.
    """

    text: str
    start: int
    end: int
    score: float


class ElmoQuestionReader(AppliedModel):
    """Questions and their contexts in, answers out; each context is read whole.

    Args:
        model_name_or_path: A question answering model, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        max_words_per_batch: Words computed at once, markers and padding included.
        pre_tokenizer: How texts are cut; None as the checkpoint's tokenizer says.

    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
    """

    model_class = ElmoForQuestionAnswering
    model: ElmoForQuestionAnswering

    def answer(self, pairs: Iterable[tuple[str, str]]) -> Iterator[FoundAnswer]:
        """The best answer to each question in its context, one after another."""
        return in_batches(pairs, self._length, self._answer_batch, self.max_words_per_batch)

    def _length(self, pair: tuple[str, str]) -> int:
        return sum(len(self.tokenizer.tokenize(text)) + 2 for text in pair)

    @torch.inference_mode()
    def _answer_batch(self, pairs: Sequence[tuple[str, str]]) -> list[FoundAnswer]:
        questions, contexts = (list(column) for column in zip(*pairs, strict=True))
        batch = self.tokenizer(questions, contexts, padding=True, padding_side="right", return_tensors="pt")
        output = self.model(**{name: tensor.to(self.device) for name, tensor in batch.items()})
        spans = self.model.best_spans(output.start_logits, output.end_logits)
        found = []
        for row, (first, last, score) in enumerate(zip(*(each.tolist() for each in spans), strict=True)):
            encoding = batch.encodings[row]
            if encoding.sequence_ids[first] != 1 or encoding.sequence_ids[last] != 1:
                # A context without words.
                found.append(FoundAnswer("", 0, 0, 0.0))
                continue
            start, end = encoding.offsets[first][0], encoding.offsets[last][1]
            found.append(FoundAnswer(contexts[row][start:end], start, end, score))
        return found
