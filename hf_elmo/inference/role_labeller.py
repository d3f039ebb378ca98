"""Semantic roles of the predicates of sentences, by a labeller of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import torch

from ..model.modeling_elmo import pack_layers
from ..model.modeling_elmo_srl import ElmoForSemanticRoleLabeling
from .applied import AppliedModel
from .batches import in_batches


class Frame(NamedTuple):
    """A predicate of a sentence with its arguments."""

    words: list[str]
    place: int  # the number of the predicate's word, from 0
    tags: list[str]  # of each word, by IOB2


class ElmoRoleLabeller(AppliedModel):
    """Sentences in, their predicates with their arguments out.

    A sentence is a list of words, taken as they are, or a string, which the checkpoint's tokenizer cuts. The biLM reads
    each sentence once for all of its predicates.

    Args:
        model_name_or_path: A labeller of semantic roles, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        max_words_per_batch: Words computed at once, markers and padding included.
        pre_tokenizer: How strings are cut; None as the checkpoint's tokenizer says.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
    """

    model_class = ElmoForSemanticRoleLabeling
    model: ElmoForSemanticRoleLabeling

    @property
    def finds_predicates(self) -> bool:
        """Whether the checkpoint finds predicates itself; else they have to be given."""
        return self.model.finder is not None

    def label(
        self, sentences: Iterable[str | Sequence[str]], predicates: Iterable[Sequence[int]] | None = None
    ) -> Iterator[list[Frame]]:
        """The predicates of each sentence with their arguments, one sentence after another.

        Args:
            sentences: As lists of words, or as strings.
            predicates: For each sentence the numbers of its predicates' words, from 0; None finds them.
        Raises: ValueError where predicates have to be given, or one is none of its sentence's words.
        """
        if predicates is None and not self.finds_predicates:
            raise ValueError(
                "predicates is None, but this checkpoint does not find them; give their places, or train one with "
                "--find_predicates."
            )
        cut = (self.tokenizer.tokenize(each) if isinstance(each, str) else list(each) for each in sentences)
        given: Iterable[Sequence[int] | None] = itertools.repeat(None) if predicates is None else predicates
        items = ((words, self._checked(words, places)) for words, places in zip(cut, given, strict=False))
        return in_batches(items, lambda item: len(item[0]) + 2, self._label_batch, self.max_words_per_batch)

    def _checked(self, words: list[str], places: Sequence[int] | None) -> list[int] | None:
        if places is None:
            return None
        for place in places:
            if not 0 <= place < len(words):
                raise ValueError(
                    f"predicates has {place} for a sentence of {len(words)} words; wanted a word's number."
                )
        return list(places)

    @torch.inference_mode()
    def _label_batch(self, items: Sequence[tuple[list[str], list[int] | None]]) -> list[list[Frame]]:
        sentences = [words for words, _ in items]
        encoded = self.tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        batch = {name: tensor.to(self.device) for name, tensor in encoded.items()}
        reuses_layers = self.model.uses_elmo and self.model.config.freeze_bilm
        if reuses_layers:
            _, layers, _ = self.model.elmo.run_layers(batch["input_ids"], batch["attention_mask"])
            batch["packed_layers"] = pack_layers(layers)
        starts = [int(row.nonzero()[0]) + 1 for row in encoded["attention_mask"]]
        found: list[list[int]] = [places or [] for _, places in items]
        if any(places is None for _, places in items):
            is_predicate = cast("torch.Tensor", self.model(**batch).predicate_logits) > 0
            for row, (_, places) in enumerate(items):
                if places is None:
                    found[row] = [place - starts[row] for place in is_predicate[row].nonzero().flatten().tolist()]
        rows = [(row, place) for row, places in enumerate(found) for place in places]
        frames: list[list[Frame]] = [[] for _ in items]
        # As many rows at once as there are sentences, however many predicates those have.
        for start in range(0, len(rows), len(items)):
            part = rows[start : start + len(items)]
            for (row, place), tags in zip(part, self._label_rows(batch, starts, part), strict=True):
                words = sentences[row]
                frames[row].append(Frame(words, place, tags[starts[row] : starts[row] + len(words)]))
        return frames

    def _label_rows(
        self, batch: dict[str, torch.Tensor], starts: Sequence[int], rows: Sequence[tuple[int, int]]
    ) -> list[list[str]]:
        """The tags of all places of a batch's sentences for some predicates, "" where there is no word."""
        index = torch.tensor([row for row, _ in rows], device=self.device)
        inputs = {name: tensor[index] for name, tensor in batch.items()}
        marks = torch.zeros_like(inputs["attention_mask"])
        for number, (row, place) in enumerate(rows):
            marks[number, starts[row] + place] = 1
        logits = cast("torch.Tensor", self.model(**inputs, predicate_mask=marks).logits)
        names = cast("dict[int, str]", self.model.config.id2label)
        best = self.model.decode(logits, inputs["input_ids"], inputs["attention_mask"]).tolist()
        return [[names.get(label, "") for label in labels] for labels in best]
