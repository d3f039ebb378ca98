"""The coreference task: documents with clusters in, a trained model, its scores and its predictions out.

A batch is one document, in training a window of it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import DataCollatorWithPadding, PreTrainedTokenizer

from ..given.flags import check_least, flag
from ..hub.cards import TaskCard
from ..inference.pages import Mark, Passage
from ..model.configuration_elmo import CoreferenceHead
from ..model.modeling_elmo_coref import ElmoForCoreferenceResolution, read_clusters
from ..pipelines import COREFERENCE
from .arguments import TaskArguments
from .data import read_splits
from .inputs import describe_inputs
from .metrics import score_clusters, score_matches
from .prediction import Item, Predictor
from .readers.documents import Document, Documents, Mention, document_lines, read_documents
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

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> None:
        ((_, found),) = predictions
        clusters = found["clusters"]
        if self.arguments.output_suffix == ".conll":
            name = Path(str(self.arguments.output_file)).stem
            documents = Documents(name, [Document(name, 0, found["sentences"])])
            write_documents(file, documents, [[[mention["words"] for mention in each] for each in clusters]])
        else:
            placed = [[{name: one[name] for name in ("start", "end", "text")} for one in each] for each in clusters]
            file.write(json.dumps({"text": found["text"], "clusters": placed}, ensure_ascii=False, indent=1) + "\n")

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
            documents = self.splits.get("train", Documents("", []))
            settings["use_speakers"] = any(document.speakers for document in documents.documents)
            settings["keep_singletons"] = has_singletons(documents)
        settings |= self.settings
        old = CoreferenceHead() if head is None else head
        if settings.get("keep_singletons", old.keep_singletons) and not old.mention_loss:
            settings.setdefault("mention_loss", 1.0)
        return settings

    def settle(self, has_head: bool) -> None:
        if not self.head.keep_singletons:
            self.splits = {split: drop_singletons(documents) for split, documents in self.splits.items()}

    def words_of(self, examples: Documents) -> Iterator[str]:
        return (word for document in examples.documents for word in document.words)

    def describe_head(self, model: ElmoForCoreferenceResolution) -> str:
        head = self.head
        return (
            f"biLSTM of {head.lstm_size}, spans of up to {head.max_span_width} words, {head.spans_per_word:g} for each "
            f"word, up to {head.max_antecedents} antecedents, singletons "
            f"{'kept' if head.keep_singletons else 'dropped'}; reads {describe_inputs(head)}."
        )

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

    def encode(self, split: str) -> EncodedDocuments:
        documents = encode_documents(self.splits[split], self.tokenizer, self.head.use_speakers)
        return EncodedDocuments(documents, self.model_args.max_train_sentences or None if split == "train" else None)

    def sentences(self, dataset: EncodedDocuments) -> Any:
        return [sentence for document in dataset.documents for sentence in document.sentences]

    def make_collator(self) -> Any:
        return make_document_collator(self.tokenizer)

    def keep(self, logits: Any, labels: Tensor) -> Tensor:
        # The first of the model's outputs behind the loss.
        return logits[0]

    def score(self, output: Any) -> dict[str, float]:
        return flat_scores(clusters_of(output.predictions), clusters_of(output.label_ids))

    def report(self, split: str, output: Any, directory: Path | None) -> dict[str, Any]:
        if directory is not None:
            with open(directory / f"{split}_predictions.conll", "w", encoding="utf-8", newline="\n") as file:
                write_documents(file, self.splits[split], clusters_of(output.predictions))
        return {}

    def describe(self) -> dict[str, Any]:
        return {"singletons": "keep" if self.model.keep_singletons else "drop"}

    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        singletons = "Clusters of one mention count."
        if results["singletons"] != "keep":
            singletons = "Clusters of one mention are left out of data and predictions."
        notes = {"all": ["`mean F1` is the mean of the F1 of MUC, B-cubed and CEAFe.", singletons]}
        for split, text in results["data"].items():
            if text["out_of_reach"]:
                notes[split] = [
                    f"{text['out_of_reach']:,} of {text['mentions']:,} mentions cannot be found: they are wider than "
                    f"{self.head.max_span_width} words, or stand in several sentences."
                ]
        return TaskCard(
            what="A coreference model",
            task_name="Coreference resolution",
            tags=["coreference"],
            pipeline_tag=None,
            usage="""\
```python
import hf_elmo
from transformers import pipeline

resolver = pipeline("coreference-resolution", model="{name}")
for cluster in resolver("Alice met her brother .")["clusters"]:
    print([(mention["text"], mention["start"], mention["end"]) for mention in cluster])
```""",
            intended_use=["To find which words of a document name the same, in text like that it was trained on."],
            limits=[
                "It knows the language, the domain and the biases of its training documents and no others; pronouns "
                "are given to whom these documents give them."
            ],
            scores=list(self.scores),
            counts=["documents", "words", "mentions", "clusters"],
            notes=notes,
        )


def clusters_of(rows: np.ndarray) -> list[Clusters]:
    """The clusters of each document from rows of first word, the word behind the last one, and cluster, (D, M, 3)."""
    return [read_clusters(document) for document in rows.tolist()]


def flat_scores(predicted: Sequence[Clusters], gold: Sequence[Clusters]) -> dict[str, float]:
    """The scores of `score_clusters`, `muc_f1` and its like, and those of the mentions alone."""
    scores = score_clusters(predicted, gold)
    flat = {f"{name}_{score}": scores[name][score] for name in _MEASURES for score in _SCORES}
    found, wanted = ({(place, *mention) for place, mention in _mentions_of(side)} for side in (predicted, gold))
    right = len(found & wanted)
    mentions = score_matches(right, len(found), len(wanted))
    return {**flat, **{f"mention_{score}": mentions[score] for score in _SCORES}, "mean_f1": scores["mean_f1"]}


def _mentions_of(documents: Sequence[Clusters]) -> Iterator[tuple[int, tuple[int, int]]]:
    for place, clusters in enumerate(documents):
        for cluster in clusters:
            for mention in cluster:
                yield place, mention


def write_documents(file: IO[str], documents: Documents, predicted: Iterable[Clusters]) -> None:
    """Write documents with predicted clusters in the columns of CoNLL-2012."""
    for document, clusters in zip(documents.documents, predicted, strict=True):
        mentions = [[Mention(*mention) for mention in cluster] for cluster in clusters]
        file.writelines(f"{line}\n" for line in document_lines(document, mentions))


@dataclass
class EncodedDocument:
    """A document as the model wants it.

    Args:
        sentences: Of each sentence `input_ids` (T, C), `attention_mask` (T) and, where speakers are read,
            `speaker_ids` (T); T counts the special tokens.
        starts: How many words stand before each sentence, and in the whole document.
        mentions: Rows of first word, the word behind the last one, and cluster, (M, 3).
    """

    sentences: list[dict[str, np.ndarray]]
    starts: list[int]
    mentions: np.ndarray


class EncodedDocuments(Dataset):
    """Documents for a Trainer, one an item.

    Args:
        documents: All of them.
        max_sentences: Of longer documents an item is a window of so many sentences, drawn anew by torch's random
            numbers each time; None gives whole documents.
    """

    def __init__(self, documents: Sequence[EncodedDocument], max_sentences: int | None = None):
        self.documents, self.max_sentences = documents, max_sentences

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> dict[str, Any]:
        document = self.documents[index]
        count, first = len(document.sentences), 0
        if self.max_sentences is not None and count > self.max_sentences:
            first = int(torch.randint(count - self.max_sentences + 1, ()))
            count = self.max_sentences
        start, stop = document.starts[first], document.starts[first + count]
        mentions = document.mentions
        mentions = mentions[(mentions[:, 0] >= start) & (mentions[:, 1] <= stop)]
        sentences = document.sentences[first : first + count]
        return {"sentences": sentences, "labels": mentions - np.array([start, start, 0])}


def encode_documents(documents: Documents, tokenizer: PreTrainedTokenizer, use_speakers: bool) -> list[EncodedDocument]:
    """Turn documents into rows.

    Args:
        documents: As they were read.
        tokenizer: Makes the rows of their words.
        use_speakers: Whether the model reads who says what.
    """
    return [encode_document(document, tokenizer, use_speakers) for document in documents.documents]


def encode_document(document: Document, tokenizer: PreTrainedTokenizer, use_speakers: bool) -> EncodedDocument:
    """Turn a document into rows; see `encode_documents`."""
    encoded = tokenizer(document.sentences, is_split_into_words=True)
    sentences = [
        {"input_ids": np.asarray(rows, dtype=np.int64), "attention_mask": np.ones(len(rows), dtype=np.int64)}
        for rows in encoded["input_ids"]
    ]
    starts = list(itertools.accumulate(map(len, document.sentences), initial=0))
    if use_speakers:
        names = document.speakers or [""] * starts[-1]
        numbers = {name: number for number, name in enumerate(sorted({*names} - {""}), start=1)}
        ids = [numbers.get(name, 0) for name in names]
        for sentence, (start, stop) in zip(sentences, itertools.pairwise(starts), strict=True):
            sentence["speaker_ids"] = np.array([0, *ids[start:stop], 0])
    mentions = [[*mention, number] for number, cluster in enumerate(document.clusters) for mention in cluster]
    return EncodedDocument(sentences, starts, np.array(mentions, dtype=np.int64).reshape(-1, 3))


def make_document_collator(tokenizer: PreTrainedTokenizer) -> Callable[[list[Mapping[str, Any]]], dict[str, Tensor]]:
    """What makes a batch of one document: its sentences, padded, and its mentions as `labels`, (1, M, 3)."""
    pad = DataCollatorWithPadding(tokenizer)

    def collate(items: list[Mapping[str, Any]]) -> dict[str, Tensor]:
        if len(items) != 1:
            raise ValueError(f"a batch of {len(items)} documents; a batch is one document.")
        (item,) = items
        speakers = [sentence["speaker_ids"] for sentence in item["sentences"] if "speaker_ids" in sentence]
        rows = [{key: value for key, value in row.items() if key != "speaker_ids"} for row in item["sentences"]]
        batch = dict(pad(rows))
        if speakers:
            mask = batch["attention_mask"].bool()
            batch["speaker_ids"] = torch.zeros(mask.shape, dtype=torch.long)
            batch["speaker_ids"][mask] = torch.from_numpy(np.concatenate(speakers)).long()
        batch["labels"] = torch.from_numpy(item["labels"]).unsqueeze(0)
        return batch

    return collate


def drop_singletons(documents: Documents) -> Documents:
    """The documents without clusters of one mention."""
    kept = [
        replace(document, clusters=[cluster for cluster in document.clusters if len(cluster) > 1])
        for document in documents.documents
    ]
    return replace(documents, documents=kept)


def has_singletons(documents: Documents) -> bool:
    """Whether any cluster has one mention alone."""
    return any(len(cluster) == 1 for document in documents.documents for cluster in document.clusters)


def count_mentions(documents: Documents, max_span_width: int) -> tuple[int, int]:
    """How many mentions there are, and how many of them are wider than a span can be, or in several sentences."""
    total = out_of_reach = 0
    for document in documents.documents:
        sentence_of = [number for number, sentence in enumerate(document.sentences) for _ in sentence]
        for start, stop in itertools.chain(*document.clusters):
            total += 1
            out_of_reach += stop - start > max_span_width or sentence_of[start] != sentence_of[stop - 1]
    return total, out_of_reach
