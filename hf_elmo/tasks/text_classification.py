"""The text classification task: texts, or pairs of them, with labels in, a trained classifier and its scores out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from transformers import DataCollatorWithPadding

from ..given.bounded_files import quoted
from ..model.configuration_elmo import ElmoConfig, SequenceClassificationHead
from ..model.modeling_elmo_tasks import ElmoForSequenceClassification
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.first_look import look_at_lines
from .card_facts import describe_inputs
from .class_reports import format_report, write_records, write_table
from .data_sources import check_data_source, name_source, read_splits
from .features import check_table, set_word_inputs
from .fine_tuning import RESULT_PREFIXES, FineTuning
from .labels import choose_labels
from .layer_cache import make_layer_cache
from .mapping import map_once
from .metrics.accuracy import ClassificationMetric
from .readers.labelled_texts import LabelledTexts
from .readers.texts import read_texts, texts_of_dataset
from .run_checks import check_run, tell
from .splits import choose_splits, hold_out, share_of, shorten
from .text_classification_arguments import ClassifierArguments, LabelledDataArguments
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
TASK = "text-classification"
# Settings of the head that have flags of their own.
_HEAD_FLAGS = ("encoder", "hidden_size", "dropout", "hidden_dropout", "output_sizes", "output_dropouts")

# Encoders of texts and of pairs, the default first.
_ENCODERS = ("bcn", "pooled")
_ENCODERS_OF_PAIRS = ("esim", "pooled_pairs")

# So many labels are too few to tell by their number that a column holds something else.
_FEW_LABELS = 20


@dataclass
class TextClassificationTask(FineTuning):
    """Classification, checked and ready to run; it writes `test_predictions.tsv` and its like beside the rest.

    Predictions for pairs are written as SNLI's lines of JSON, too.

    Args:
        max_length: Words of a text, or of a pair, that are read; None for all.
        unseen_labels: Gold labels that the model does not know; their ids come behind those of its own.
    """

    model: ElmoForSequenceClassification
    splits: dict[str, LabelledTexts]
    max_length: int | None = None
    unseen_labels: list[str] = field(default_factory=list)

    shown_scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    best_score: ClassVar[str] = "accuracy"

    def encode(self, split: str) -> Dataset:
        id_of_label = {label: index for index, label in enumerate([*self.labels, *self.unseen_labels])}
        return encode(self.splits[split], self.tokenizer, id_of_label, self.max_length)

    def make_collator(self) -> DataCollatorWithPadding:
        return DataCollatorWithPadding(self.tokenizer)

    def keep(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return logits.float().softmax(dim=-1)

    def score(self, output: Any) -> dict[str, float]:
        report = self._compute(output.predictions, output.label_ids)
        return {name: report[name] for name in self.shown_scores}

    def report(self, split: str, output: Any, directory: Path | None) -> tuple[dict[str, Any], str]:
        texts, prefix = self.splits[split], RESULT_PREFIXES[split]
        report = self._compute(output.predictions, output.label_ids)
        if directory is not None:
            write_table(directory / f"{split}_predictions.tsv", texts, self.labels, output.predictions)
            if texts.second_texts is not None:
                write_records(directory / f"{split}_predictions.jsonl", texts, self.labels, output.predictions)
        kept = {f"{prefix}_{name}": report[name] for name in ("by_class", "confusion")}
        return kept, format_report(f"{split} ({texts.source})", report)

    @property
    def labels(self) -> list[str]:
        """The labels in the order of their ids."""
        return self.model.config.label_names

    def describe(self) -> dict[str, Any]:
        unseen = {"unseen_labels": self.unseen_labels} if self.unseen_labels else {}
        return {"task": TASK, "text_pairs": _are_pairs(self.splits), "labels": self.labels, **unseen}

    def _compute(self, probabilities: np.ndarray, gold_ids: np.ndarray) -> dict[str, Any]:
        labels = [*self.labels, *self.unseen_labels]
        metric = ClassificationMetric(keep_in_memory=True)
        predicted = [labels[index] for index in probabilities.argmax(axis=-1)]
        return metric.compute(predictions=predicted, references=[labels[index] for index in gold_ids], labels=labels)


def prepare_task(
    model_args: ClassifierArguments, data_args: LabelledDataArguments, training_args: TaskTrainingArguments
) -> TextClassificationTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    check_run(model_args, data_args, training_args)
    check_data_source(data_args)
    if model_args.max_length is not None and model_args.max_length < 1:
        raise ValueError(f"max_length is {model_args.max_length}; it must be an integer >= 1, or left out.")
    splits = choose_splits(hold_out(read_labelled(data_args), data_args), training_args)
    encoders = _ENCODERS_OF_PAIRS if _are_pairs(splits) else _ENCODERS
    config, has_classifier = load_architecture(model_args, encoders)
    layer_cache = make_layer_cache(model_args, config)
    known = config.label_names if has_classifier else None
    labels = choose_labels(splits, data_args.labels or [], known)
    _check_number_of_labels(labels, splits)
    splits = shorten(splits, data_args)
    unseen, warning = find_unseen(splits, labels)
    if data_args.text_is_tokenized:
        splits = {split: replace(texts, is_tokenized=True) for split, texts in splits.items()}
    tokenizer = load_tokenizer(model_args, config)
    if model_args.pre_tokenizer is not None:
        tokenizer.pre_tokenizer = model_args.pre_tokenizer
    words = {split: list(words_of(texts, tokenizer)) for split, texts in splits.items()}
    table = set_word_inputs(
        config,
        SequenceClassificationHead,
        model_args,
        tokenizer,
        words.get("train", []),
        [word for split, its in words.items() if split != "train" for word in its],
    )
    check_table(config, table, is_random(model_args))

    training_args.settle_sampling(model_args.group_by_length)
    data = {
        split: {
            "source": name_source(data_args, split),
            **share_of(split, data_args),
            "texts": len(texts),
            "words": len(words[split]),
            **({"unlabelled": texts.num_unlabelled} if texts.num_unlabelled else {}),
        }
        for split, texts in splits.items()
    }
    tell(training_args, _notes(splits), [*_warnings(splits, tokenizer), warning])
    build = partial(build_model, model_args, config, labels, labels == known)
    return TextClassificationTask.start(
        leave_out_unseen(build) if unseen else build,
        *(table, model_args, training_args, tokenizer, splits, data, layer_cache),
        unseen_labels=unseen,
        max_length=model_args.max_length,
    )


def read_labelled(data_args: LabelledDataArguments) -> dict[str, LabelledTexts]:
    """The texts, or pairs, of each split.

    Raises: ValueError naming min_phrase_words where it is wrong, or what the readers raise.
    """
    least = data_args.min_phrase_words
    if least is not None and (least < 1 or data_args.train_file is None):
        raise ValueError(f"min_phrase_words is {least}; it must be an integer >= 1, and train_file a file of trees.")
    if least is not None and data_args.validation_share is not None:
        raise ValueError(
            f"min_phrase_words is {least} and validation_share {data_args.validation_share}: phrases would be held out "
            "of sentences that are trained on; give a validation_file."
        )
    columns = (data_args.text_column, data_args.text_pair_column, data_args.label_column)

    def read_file(file: str, argument: str) -> LabelledTexts:
        return read_texts(file, *columns, least if argument == "train_file" else None, argument)

    return read_splits(data_args, read_file, lambda split, source: texts_of_dataset(split, source, *columns))


def load_architecture(model_args: ClassifierArguments, encoders: Sequence[str]) -> tuple[ElmoConfig, bool]:
    """The config that the arguments name, with the task's own head, and whether a classifier comes along.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    config = load_source_config(model_args)
    name = ElmoForSequenceClassification.__name__
    has_classifier = not is_random(model_args) and name in (config.architectures or [])
    given = {name: getattr(model_args, name) for name in _HEAD_FLAGS if getattr(model_args, name) is not None}
    try:
        set_model_fields(config, model_args)
        if isinstance(config.head, SequenceClassificationHead):
            config.head = replace(config.head, **given)
        else:
            config.head = SequenceClassificationHead(**{"encoder": encoders[0], **given})
        config.problem_type = "single_label_classification"
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    encoder = config.head.encoder
    if encoder not in encoders:
        of = "single texts" if encoders == _ENCODERS else "pairs of texts"
        raise ValueError(
            f"encoder is {encoder!r}, here or of model_name_or_path {model_args.model_name_or_path!r}, but the data "
            f"are {of}, for {' and '.join(encoders)}. Name one of them with --encoder, another checkpoint, or the "
            "columns with --text_column and --text_pair_column."
        )
    return config, has_classifier


def build_model(
    model_args: ClassifierArguments, config: ElmoConfig, labels: Sequence[str], keep_classifier: bool = False
) -> tuple[ElmoForSequenceClassification, str]:
    """Make the classifier, in float32, and describe it in one line.

    Args:
        model_args: Where its weights come from.
        config: Its architecture.
        labels: Its labels, in the order of their ids.
        keep_classifier: Whether the checkpoint's last layer has just these labels; else a new one is drawn.
    Raises: FileNotFoundError or ValueError where the weights are not there or not those of a biLM of this architecture.
    """
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}

    def redraw(model: ElmoForSequenceClassification) -> set[str]:
        old = model.classifier
        model.classifier = type(old)(old.in_features, len(labels), old.activation)
        model._init_weights(model.classifier)
        return {"classifier"}

    model, origin = start_model(ElmoForSequenceClassification, model_args, config, None if keep_classifier else redraw)
    head = config.require_head(SequenceClassificationHead)
    reads = f"{head.encoder} of {head.hidden_size}, reads {describe_inputs(head.to_dict())}; {len(labels)} labels."
    return model, f"{describe_model(model, config, origin)}; {reads}"


def words_of(texts: LabelledTexts, tokenizer: ElmoCharTokenizer) -> Iterator[str]:
    """All words of some texts, of pairs those of both, as the tokenizer cuts them."""
    for text in [*texts.texts, *(texts.second_texts or [])]:
        yield from text.split() if texts.is_tokenized else tokenizer.tokenize(text)


def encode(
    texts: LabelledTexts, tokenizer: ElmoCharTokenizer, label2id: Mapping[str, int], max_length: int | None = None
) -> Dataset:
    """Turn labelled texts into rows of `input_ids` (T, C), `attention_mask` (T) and `labels`, a number.

    T counts the sentence markers. Pairs have `token_type_ids` (T) too.
    """

    def encode_batch(batch: dict[str, list]) -> dict[str, list]:
        given = [batch[column] for column in ("text", "second") if column in batch]
        if texts.is_tokenized:
            given = [[text.split() for text in column] for column in given]
        cut = {} if max_length is None else {"truncation": True, "max_length": max_length}
        encoded = tokenizer(*given, is_split_into_words=texts.is_tokenized, **cut)
        return {**encoded, "labels": [label2id[label] for label in batch["label"]]}

    columns = {"text": texts.texts, "label": texts.labels}
    if texts.second_texts is not None:
        columns["second"] = texts.second_texts
    dataset = Dataset.from_dict(columns)
    return map_once(dataset, encode_batch, batched=True, remove_columns=list(columns), desc=f"Encoding {texts.source}")


def _are_pairs(splits: Mapping[str, LabelledTexts]) -> bool:
    """Whether the texts are pairs; raises ValueError naming two sources of which only one has pairs."""
    are_pairs = {texts.source: texts.second_texts is not None for texts in splits.values()}
    pairs, singles = ([source for source, each in are_pairs.items() if each is kind] for kind in (True, False))
    if pairs and singles:
        raise ValueError(
            f"{pairs[0]} has pairs of texts, but {singles[0]} single ones; name the columns of both with --text_column "
            "and, for pairs, --text_pair_column."
        )
    return bool(pairs)


def _check_number_of_labels(labels: Sequence[str], splits: Mapping[str, LabelledTexts]) -> None:
    """Check that the labels can be classes.

    Raises: ValueError naming the data where there is only one, or where the column must be another one.
    """
    if "train" not in splits:
        return
    texts = splits["train"]
    if len(labels) < 2:
        raise ValueError(
            f"{texts.source} has the label {labels[0]!r} alone, and a classifier wants two; name the right column with "
            "--label_column, or the other labels with --labels."
        )
    number = len(set(texts.labels))
    if number > max(_FEW_LABELS, len(texts) / 2):
        raise ValueError(
            f"{texts.source} has {number:,} different labels for {len(texts):,} texts, {quoted(texts.labels[0])} among "
            "them; name the right column with --label_column."
        )


def _warnings(splits: Mapping[str, LabelledTexts], tokenizer: ElmoCharTokenizer) -> Iterator[str]:
    """What a user should know of the texts before the model is trained on them."""
    for texts in splits.values():
        cut = "whitespace" if texts.is_tokenized else tokenizer.pre_tokenizer
        first_look = look_at_lines(text.split() for text in texts.texts)
        yield from first_look.warnings(texts.source, cut, can_choose=False)


def _notes(splits: Mapping[str, LabelledTexts]) -> Iterator[str]:
    """How many texts of each split have no label."""
    for texts in splits.values():
        if texts.num_unlabelled:
            yield f"{texts.source}: {texts.num_unlabelled:,} without a label left out"
