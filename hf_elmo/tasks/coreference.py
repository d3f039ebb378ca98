"""The coreference task: documents with clusters in, a trained model, its scores and its predictions out.

A batch is one document, in training a window of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..given import check_least, flag
from ..hub.cards import TaskCard
from ..inference.pages import Mark, Passage
from ..model.configuration_elmo import CoreferenceHead
from ..model.modeling_elmo_coref import ElmoForCoreferenceResolution, read_clusters
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..pipelines import COREFERENCE
from .arguments import TaskArguments
from .data import read_splits
from .metrics import score_clusters, score_matches
from .prediction import Item, Predictor
from .readers.documents import Document, Documents, Mention, document_lines, read_documents
from .rows import encode_rows, pad_rows
from .task import Task

_MEASURES = ("muc", "b_cubed", "ceafe")
_SCORES = ("precision", "recall", "f1")

Clusters = list[list[tuple[int, int]]]


@dataclass
class CoreferenceArguments(TaskArguments):
    """The model: what it starts from, and how much of a document is a step."""

    max_train_sentences: int = flag(
        "Train on a random window of so many sentences of each longer document; 0 for whole ones.", default=50
    )


class CoreferencePredictor(Predictor):
    """Clusters of mentions of a text, all of which is one document."""

    task = COREFERENCE
    model_class = ElmoForCoreferenceResolution
    does = "resolves coreference in a whole document"
    refuses = ("convert_scheme", "text_pair", "max_words_per_batch")
    title = "Coreference"
    unit = "documents"

    def read(self) -> Iterator[str]:
        text = "\n".join(super().read())
        return iter([text] if text.strip() else [])

    def items(self) -> Iterable[Item]:
        self.settings = {"is_tokenized": self.arguments.text_is_tokenized}
        return ((1, text, None) for text in self.inputs)

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        for cluster in found["clusters"]:
            yield " | ".join(f"{' '.join(one['text'].split())} [{one['start']}:{one['end']}]" for one in cluster)
        if not found["clusters"]:
            yield "no clusters"

    def lines(self, predictions: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        ((_, found),) = predictions
        clusters = found["clusters"]
        if self.arguments.output_suffix == ".conll":
            name = Path(str(self.arguments.output_file)).stem
            mentions = [[Mention(*mention["words"]) for mention in cluster] for cluster in clusters]
            yield from document_lines(Document(name, 0, found["sentences"]), mentions)
        else:
            placed = [[{name: one[name] for name in ("start", "end", "text")} for one in each] for each in clusters]
            yield json.dumps({"text": found["text"], "clusters": placed}, ensure_ascii=False, indent=1)

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        for _, found in predictions:
            marks: list[Mark] = []
            names: list[str] = []
            for cluster in found["clusters"]:
                name = " ".join(cluster[0]["text"].split())
                if len(cluster) > 1:
                    names.append(f"{len(names) + 1} {name} ({len(cluster)})")
                label = str(len(names)) if len(cluster) > 1 else ""
                titles = (f"{name}, mention {index} of {len(cluster)}" for index in range(1, len(cluster) + 1))
                marks += [
                    Mark(one["start"], one["end"], label, title) for one, title in zip(cluster, titles, strict=True)
                ]
            yield Passage(found["text"], marks, [" · ".join(names) or "no clusters"])


class Coreference(Task):
    """Coreference; it writes `test_predictions.conll` and its like beside the rest."""

    name: ClassVar[str] = "coreference"
    model_class = ElmoForCoreferenceResolution
    head_class = CoreferenceHead
    model_arguments = CoreferenceArguments
    predictor_class = CoreferencePredictor
    examples: ClassVar[str] = """
example:
  hf-elmo train coreference --model_name_or_path CHECKPOINT --train_file train.conll --validation_file dev.conll \\
      --test_file test.conll --load_best_model_at_end --output_dir coreference

A batch is a document; --gradient_accumulation_steps puts several into a step.
"""
    scores = ("mean_f1", "muc_f1", "b_cubed_f1", "ceafe_f1")
    has_labels = False

    def check_arguments(self) -> None:
        check_least(self.model_args, ["max_train_sentences"], 0)
        args = self.training_args
        # A batch is a document; what that consists of would be taken for unused columns.
        args.per_device_train_batch_size = args.per_device_eval_batch_size = 1
        args.remove_unused_columns, args.train_sampling_strategy = False, "random"

    def load(self) -> dict[str, Documents]:
        return read_splits(self.data_args, lambda file, name: read_documents(file, name=name))

    def head_settings(self, head: CoreferenceHead | None) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if head is None:
            # The training documents say whether there are singletons and speakers.
            documents = self.splits["train"].documents if "train" in self.splits else []
            settings["use_speakers"] = any(document.speakers for document in documents)
            settings["keep_singletons"] = any(len(each) == 1 for document in documents for each in document.clusters)
        settings |= self.settings
        old = CoreferenceHead() if head is None else head
        if settings.get("keep_singletons", old.keep_singletons) and not old.mention_loss:
            settings.setdefault("mention_loss", 1.0)
        return settings

    def settle(self, has_head: bool) -> None:
        if not self.head.keep_singletons:
            self.splits = {split: drop_singletons(documents) for split, documents in self.splits.items()}

    def words_of(self, examples: Documents) -> Iterator[str]:
        return chain.from_iterable(document.words for document in examples.documents)

    def count(self, split: str) -> dict[str, Any]:
        documents = self.splits[split]
        mentions, out_of_reach = count_mentions(documents, self.head.max_span_width)
        return {
            "documents": len(documents),
            "clusters": sum(len(document.clusters) for document in documents.documents),
            "mentions": mentions,
            "out_of_reach": out_of_reach,
        }

    def notes(self) -> Iterator[str]:
        for split, facts in self.data.items():
            if facts["out_of_reach"]:
                yield (
                    f"{split}: {facts['out_of_reach']:,} of {facts['mentions']:,} mentions cannot be found: they are "
                    f"wider than {self.head.max_span_width} words (max_span_width), or stand in several sentences"
                )

    def encode(self, split: str) -> DocumentRows:
        size = self.model_args.max_train_sentences if split == "train" else 0
        return encode_documents(self.splits[split], self.tokenizer, self.head.use_speakers, size)

    def sentences(self, dataset: DocumentRows) -> list[dict[str, Any]]:
        return dataset.sentences

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        (document,) = rows
        return {**pad_rows(document["sentences"]), "labels": torch.from_numpy(document["labels"]).unsqueeze(0)}

    def keep(self, logits: Any, labels: Tensor) -> Tensor:
        # The first of the model's outputs behind the loss.
        return logits[0]

    def score(self, output: Any) -> dict[str, float]:
        return flat_scores(clusters_of(output.predictions), clusters_of(output.label_ids))

    def report(self, split: str, output: Any) -> tuple[dict[str, Any], Mapping[str, Iterable[str]]]:
        predicted = (
            document_lines(document, [[Mention(*mention) for mention in cluster] for cluster in clusters])
            for document, clusters in zip(self.splits[split], clusters_of(output.predictions), strict=True)
        )
        return {}, {".conll": chain.from_iterable(predicted)}

    def describe(self) -> dict[str, Any]:
        return {"singletons": "keep" if self.model.keep_singletons else "drop"}

    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        count = "count" if results["singletons"] == "keep" else "are left out of data and predictions"
        return self.make_card(
            what="A coreference model",
            tags=["coreference"],
            pipeline_tag=None,
            code="""\
resolver = pipeline("coreference-resolution", model="{name}")
for cluster in resolver("Alice met her brother .")["clusters"]:
    print([(mention["text"], mention["start"], mention["end"]) for mention in cluster])""",
            intended_use=["To find which words of a document name the same, in text like that it was trained on."],
            limits=["Pronouns are given to whom the training documents give them."],
            counts=["documents", "words", "mentions", "clusters"],
            notes={
                "all": [
                    "`mean F1` is the mean of the F1 of MUC, B-cubed and CEAFe.",
                    f"Clusters of one mention {count}.",
                ]
            },
        )


def clusters_of(rows: np.ndarray) -> list[Clusters]:
    """The clusters of each document from rows of first word, the word behind the last one, and cluster, (D, M, 3)."""
    return [read_clusters(document) for document in rows.tolist()]


def flat_scores(predicted: Sequence[Clusters], gold: Sequence[Clusters]) -> dict[str, float]:
    """The scores of `score_clusters`, `muc_f1` and its like, and those of the mentions alone."""
    scores = score_clusters(predicted, gold)
    flat = {f"{name}_{score}": scores[name][score] for name in _MEASURES for score in _SCORES}
    found, wanted = (
        {(place, *mention) for place, clusters in enumerate(side) for mention in chain(*clusters)}
        for side in (predicted, gold)
    )
    mentions = score_matches(len(found & wanted), len(found), len(wanted))
    return {**flat, **{f"mention_{score}": mentions[score] for score in _SCORES}, "mean_f1": scores["mean_f1"]}


@dataclass
class DocumentRows(Dataset):
    """Documents for a Trainer, one an item.

    Args:
        sentences: The rows of the sentences of all documents.
        starts: Of each document how many words stand before each of its sentences, and in all.
        mentions: Of each document rows of first word, the word behind the last one, and cluster, (M, 3).
        max_sentences: Of longer documents an item is a window of so many sentences, drawn anew by torch's random
            numbers each time; 0 gives whole documents.
    """

    sentences: list[dict[str, Any]]
    starts: list[list[int]]
    mentions: list[np.ndarray]
    max_sentences: int = 0

    def __post_init__(self) -> None:
        self._firsts = [0, *accumulate(len(starts) - 1 for starts in self.starts)]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        starts, mentions = self.starts[index], self.mentions[index]
        first, count = 0, len(starts) - 1
        if 0 < self.max_sentences < count:
            first = int(torch.randint(count - self.max_sentences + 1, ()))
            count = self.max_sentences
        place, start, stop = self._firsts[index] + first, starts[first], starts[first + count]
        mentions = mentions[(mentions[:, 0] >= start) & (mentions[:, 1] <= stop)] - np.array([start, start, 0])
        return {"sentences": self.sentences[place : place + count], "labels": mentions}


def encode_documents(
    documents: Documents, tokenizer: ElmoCharTokenizer, use_speakers: bool, max_sentences: int = 0
) -> DocumentRows:
    """Documents as rows, with `speaker_ids` (T) where the model reads who says what."""
    sentences = [sentence for document in documents.documents for sentence in document.sentences]
    rows = iter(encoded := encode_rows(tokenizer, documents.source, sentences, is_split_into_words=True))
    starts, mentions = [], []
    for document in documents.documents:
        starts.append([0, *accumulate(map(len, document.sentences))])
        names = document.speakers or [""] * starts[-1][-1]
        numbers = {name: number for number, name in enumerate(sorted({"", *names}))}
        for (start, stop), row in zip(pairwise(starts[-1]), rows):  # noqa: B905
            if use_speakers:
                row["speaker_ids"] = [0, *(numbers[name] for name in names[start:stop]), 0]
        of_document = [[*mention, number] for number, cluster in enumerate(document.clusters) for mention in cluster]
        mentions.append(np.array(of_document, dtype=np.int64).reshape(-1, 3))
    return DocumentRows(encoded, starts, mentions, max_sentences)


def drop_singletons(documents: Documents) -> Documents:
    """The documents without clusters of one mention."""
    kept = [
        replace(document, clusters=[cluster for cluster in document.clusters if len(cluster) > 1])
        for document in documents.documents
    ]
    return replace(documents, documents=kept)


def count_mentions(documents: Documents, max_span_width: int) -> tuple[int, int]:
    """How many mentions there are, and how many of them are wider than a span can be, or in several sentences."""
    total = out_of_reach = 0
    for document in documents.documents:
        sentence_of = [number for number, sentence in enumerate(document.sentences) for _ in sentence]
        for start, stop in chain(*document.clusters):
            total += 1
            out_of_reach += stop - start > max_span_width or sentence_of[start] != sentence_of[stop - 1]
    return total, out_of_reach
