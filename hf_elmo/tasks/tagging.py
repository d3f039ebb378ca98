"""The token classification task: tagged sentences in, a trained tagger, its scores and its predictions out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import DataCollatorForTokenClassification

from ..model.configuration_elmo import ElmoConfig, TokenClassificationHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_tasks import ElmoForTokenClassification
from .card_facts import describe_inputs
from .data_sources import check_data_source, name_source
from .features import check_features, check_table, set_word_inputs
from .fine_tuning import RESULT_PREFIXES, FineTuning
from .labels import choose_labels
from .layer_cache import make_layer_cache
from .metrics.entities import EntityMetric
from .readers.columns import TaggedSentences
from .run_checks import check_run, tell
from .schemes import SchemeExchange, settle_scheme
from .score_tables import by_type, span_score_lines
from .splits import choose_splits, hold_out, share_of, shorten
from .tagging_arguments import TaggedDataArguments, TaggerArguments
from .tagging_data import check_columns, encode, find_tag_scheme, read_sentences, words_of
from .training_arguments import TaskTrainingArguments
from .unseen_labels import find_unseen, leave_out_unseen
from .weights import (
    describe_model,
    is_random,
    load_source_config,
    load_tokenizer,
    set_model_fields,
    start_model,
)

# What results.json calls the task.
TASK = "token-classification"


@dataclass
class TokenClassificationTask(FineTuning):
    """Tagging, checked and ready to run: `validation_predictions.conll` and `test_predictions.conll` beside the rest.

    Args:
        tag_scheme: "spans" or "words", see `EntityMetric`.
        exchange: Between the scheme of the data and the one of the model; None where both are the same.
        unseen_labels: Gold labels that the model does not know; their ids come behind those of its own.
    """

    model: ElmoForTokenClassification
    splits: dict[str, TaggedSentences]
    tag_scheme: str
    exchange: SchemeExchange | None = None
    unseen_labels: Sequence[str] = ()

    shown_scores: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1", "accuracy")
    best_score: ClassVar[str] = "f1"

    def encode(self, split: str) -> Dataset:
        id_of_label = {label: index for index, label in enumerate(self.all_labels)}
        return encode(self.splits[split], self.tokenizer, id_of_label)

    def make_collator(self) -> DataCollatorForTokenClassification:
        return DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=IGNORED_LABEL)

    def score(self, output: Any) -> dict[str, float]:
        gold = self._labels_of(output.label_ids, output.label_ids)
        report = self._compute(self._labels_of(output.predictions, output.label_ids), gold)
        return {name: report[f"overall_{name}"] for name in self.shown_scores}

    def report(self, split: str, output: Any, directory: Path | None) -> tuple[dict[str, Any], str]:
        sentences = self.splits[split]
        gold = self._labels_of(output.label_ids, output.label_ids)
        predicted = self._labels_of(output.predictions, output.label_ids)
        report = self._compute(predicted, gold)
        if directory is not None:
            write_predictions(directory / f"{split}_predictions.conll", replace(sentences, labels=gold), predicted)
        lines = format_report(f"{split} ({sentences.source})", report)
        return {f"{RESULT_PREFIXES[split]}_entities": by_type(report)}, lines

    @property
    def all_labels(self) -> list[str]:
        """The labels in the order of their ids, those that the model does not know behind its own."""
        return [*self.model.config.label_names, *self.unseen_labels]

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"task": TASK, "tag_scheme": self.tag_scheme}
        if self.exchange is not None:
            described["converted"] = asdict(self.exchange)
        if self.unseen_labels:
            described["unseen_labels"] = list(self.unseen_labels)
        return described

    def _compute(self, predicted: list[list[str]], gold: list[list[str]]) -> dict[str, Any]:
        metric = EntityMetric(keep_in_memory=True)
        return metric.compute(predictions=predicted, references=gold, tag_scheme=self.tag_scheme)

    def _labels_of(self, label_ids: np.ndarray, gold_ids: np.ndarray) -> list[list[str]]:
        """The labels of the data for the ids (sentences, words) where there is a gold label, sentence by sentence."""
        names = self.all_labels
        labels = [
            [names[int(index)] for index in row[gold != IGNORED_LABEL]]
            for row, gold in zip(label_ids, gold_ids, strict=True)
        ]
        return labels if self.exchange is None else [self.exchange.to_corpus(row) for row in labels]


def prepare_task(
    model_args: TaggerArguments, data_args: TaggedDataArguments, training_args: TaskTrainingArguments
) -> TokenClassificationTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    check_run(model_args, data_args, training_args)
    check_data_source(data_args)
    check_columns(data_args)
    check_features(model_args)
    read = read_sentences(data_args)
    notes = [sentences.note for sentences in read.values()]
    splits = choose_splits(hold_out(read, data_args), training_args)
    config, has_classifier = load_architecture(model_args)
    layer_cache = make_layer_cache(model_args, config)
    tokenizer = load_tokenizer(model_args, config)
    known = config.label_names if has_classifier else None
    tag_scheme = find_tag_scheme(splits, data_args)
    head = config.require_head(TokenClassificationHead)
    exchange, note = settle_scheme(head, splits.values(), tag_scheme, model_args.convert_scheme, has_classifier)
    extra = data_args.labels or []
    if exchange is not None:
        splits = {split: exchange.to_model(sentences) for split, sentences in splits.items()}
        extra = exchange.labels_to_model(extra)
    labels = choose_labels(splits, extra, known)
    splits = shorten(splits, data_args)
    unseen, warning = find_unseen(splits, labels)
    texts = [words_of(splits, is_train=is_train) for is_train in (True, False)]
    table = set_word_inputs(config, TokenClassificationHead, model_args, tokenizer, *texts)
    check_table(config, table, is_random(model_args))
    data = {
        split: {
            "source": name_source(data_args, split),
            **share_of(split, data_args),
            "sentences": len(sentences),
            "words": sum(map(len, sentences.words)),
        }
        for split, sentences in splits.items()
    }
    training_args.settle_sampling(model_args.group_by_length)
    tell(training_args, [*notes, note], [warning])
    build = partial(build_model, model_args, config, labels, labels == known)
    return TokenClassificationTask.start(
        leave_out_unseen(build) if unseen else build,
        *(table, model_args, training_args, tokenizer, splits, data, layer_cache),
        tag_scheme=tag_scheme,
        exchange=exchange,
        unseen_labels=unseen,
    )


def load_architecture(model_args: TaggerArguments) -> tuple[ElmoConfig, bool]:
    """The config that the arguments name, with the task's own fields set, and whether a classifier comes along.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    config = load_source_config(model_args)
    has_classifier = not is_random(model_args) and ElmoForTokenClassification.__name__ in (config.architectures or [])
    try:
        set_model_fields(config, model_args)
        for name in ("dropout", "lstm_layers", "lstm_size"):
            value = getattr(model_args, f"classifier_{name}")
            if value is not None:
                setattr(config.require_head(TokenClassificationHead), name, value)
        if model_args.output_layer is not None:
            config.require_head(TokenClassificationHead).output_layer = model_args.output_layer
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    return config, has_classifier


def build_model(
    model_args: TaggerArguments,
    config: ElmoConfig,
    labels: Sequence[str],
    keep_classifier: bool = False,
) -> tuple[ElmoForTokenClassification, str]:
    """Make the tagger, in float32, and describe it in one line.

    Args:
        model_args: Where its weights come from.
        config: Its architecture.
        labels: Its labels, in the order of their ids.
        keep_classifier: Whether the checkpoint's classifier has just these labels; else a new one is drawn.
    Raises: FileNotFoundError or ValueError where the weights are not there or not those of a biLM of this architecture.
    """
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}

    def redraw(model: ElmoForTokenClassification) -> set[str]:
        classifier = nn.Linear(model.classifier.in_features, len(labels))
        model._init_weights(classifier)
        model.classifier = classifier
        if model.crf is None:
            return {"classifier"}
        for scores in model.crf.parameters():
            nn.init.zeros_(scores)
        return {"classifier", "crf"}

    model, origin = start_model(ElmoForTokenClassification, model_args, config, None if keep_classifier else redraw)
    head = config.require_head(TokenClassificationHead)
    parts = [describe_model(model, config, origin)]
    if not head.use_elmo or model.features.size or head.mix_at_output:
        parts.append(f"reads {describe_inputs(head.to_dict())}")
    if model.crf is not None:
        parts.append(f"a CRF over {head.scheme or 'labels without a scheme'}")
    return model, "; ".join([*parts, f"{len(labels)} labels."])


def write_predictions(path: str | os.PathLike, sentences: TaggedSentences, predicted: Sequence[Sequence[str]]) -> None:
    """Write word, gold label and predicted label between tabs, a blank line between sentences.

    Tabs and line ends inside a word, which only a dataset can bring, are written as spaces.
    """
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for words, gold, labels in zip(sentences.words, sentences.labels, predicted, strict=True):
            for word, gold_label, label in zip(words, gold, labels, strict=True):
                file.write("\t".join([re.sub(r"[\t\r\n]", " ", word), gold_label, label]) + "\n")
            file.write("\n")


def format_report(title: str, report: dict[str, Any]) -> str:
    """The scores as a table in percent, a line per type of entity."""
    return "\n".join([*span_score_lines(title, report), f"accuracy by word: {100 * report['overall_accuracy']:.2f}"])
