"""The coreference task: documents with clusters in, a trained model, its scores and its predictions out.

A batch is one document, in training a window of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, pairwise
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
from .data import encode_rows, pad_rows, read_splits
from .inputs import TaskArguments
from .metrics import Clusters, score_clusters
from .prediction import Item, Predictor
from .readers.documents import Document, Documents, Mention, document_lines, read_documents
from .task import Task


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
                for index, one in enumerate(cluster, start=1):
                    marks.append(Mark(one["start"], one["end"], label, f"{name}, mention {index} of {len(cluster)}"))
            yield Passage(found["text"], marks, [" · ".join(names) or "no clusters"])


class Coreference(Task):
    """Coreference; it writes `test_predictions.conll` and its like beside the rest."""

    name: ClassVar[str] = "coreference"
    model_class = ElmoForCoreferenceResolution
    head_class = CoreferenceHead
    model_arguments = CoreferenceArguments
    predictor_class = CoreferencePredictor
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
        return DocumentRows(self.splits[split], self.tokenizer, self.head.use_speakers, size)

    def sentences(self, dataset: DocumentRows) -> list[dict[str, Any]]:
        return dataset.sentences

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        (document,) = rows
        return {**pad_rows(document["sentences"]), "labels": torch.from_numpy(document["labels"]).unsqueeze(0)}

    def keep(self, logits: Any, labels: Tensor) -> Tensor:
        # The first of the model's outputs behind the loss.
        return logits[0]

    def report(self, split: str, output: Any) -> tuple[dict[str, Any], Mapping[str, Iterable[str]]]:
        predicted, gold = clusters_of(output.predictions), clusters_of(output.label_ids)
        lines = (
            document_lines(document, [[Mention(*mention) for mention in cluster] for cluster in clusters])
            for document, clusters in zip(self.splits[split], predicted, strict=True)
        )
        return score_clusters(predicted, gold), {".conll": chain.from_iterable(lines)}

    def describe_card(self) -> TaskCard:
        count = "count" if self.model.keep_singletons else "are left out of data and predictions"
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


class DocumentRows(Dataset):
    """Documents for a Trainer, one an item: the rows of its sentences, and rows of mentions, (M, 3).

    A mention is its first word, the word behind the last, and its cluster. Of documents of more than `max_sentences`,
    unless it is 0, an item is a window of so many, drawn anew by torch's random numbers each time. Rows have
    `speaker_ids` (T) where the model reads who says what.
    """

    def __init__(
        self, documents: Documents, tokenizer: ElmoCharTokenizer, use_speakers: bool, max_sentences: int = 0
    ) -> None:
        self.max_sentences = max_sentences
        sentences = [sentence for document in documents.documents for sentence in document.sentences]
        self.sentences = encode_rows(tokenizer, documents.source, sentences, is_split_into_words=True)
        encoded = iter(self.sentences)
        # Of each document its rows, how many words stand before each of its sentences, and in all, and its mentions.
        self.documents: list[tuple[list[dict[str, Any]], list[int], np.ndarray]] = []
        for document in documents.documents:
            rows = list(islice(encoded, len(document.sentences)))
            starts = [0, *accumulate(map(len, document.sentences))]
            if use_speakers:
                names = document.speakers or [""] * starts[-1]
                numbers = {name: number for number, name in enumerate(sorted({"", *names}))}
                for (start, stop), row in zip(pairwise(starts), rows, strict=True):
                    row["speaker_ids"] = [0, *(numbers[name] for name in names[start:stop]), 0]
            mentions = [[*one, number] for number, cluster in enumerate(document.clusters) for one in cluster]
            self.documents.append((rows, starts, np.array(mentions, dtype=np.int64).reshape(-1, 3)))

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> dict[str, Any]:
        rows, starts, mentions = self.documents[index]
        first, count = 0, len(rows)
        if 0 < self.max_sentences < count:
            first = int(torch.randint(count - self.max_sentences + 1, ()))
            count = self.max_sentences
        start, stop = starts[first], starts[first + count]
        mentions = mentions[(mentions[:, 0] >= start) & (mentions[:, 1] <= stop)] - np.array([start, start, 0])
        return {"sentences": rows[first : first + count], "labels": mentions}


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
