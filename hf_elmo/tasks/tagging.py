"""The token classification task: tagged sentences in, a trained tagger, its scores and its predictions out."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from datasets import Dataset
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import DataCollatorForTokenClassification, PreTrainedTokenizer, set_seed

from ..checkpoints.cards import write_card
from ..checkpoints.writing import check_keeps_inputs, check_output_directory
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import IGNORED_LABEL, ElmoForTokenClassification
from .fine_tuning import RESULT_PREFIXES, FineTuning
from .layer_cache import make_layer_cache
from .metrics.entities import EntityMetric, tag_scheme_of
from .readers.columns import TaggedSentences, load_tagged_dataset, read_tagged_file, tagged_from_dataset
from .splits import choose_splits, hold_out, share_of, shorten
from .tagging_arguments import TaggedDataArguments, TaggerArguments
from .training_arguments import TaskTrainingArguments
from .weights import (
    check_model_source,
    describe_model,
    is_random,
    load_source_config,
    load_tokenizer,
    load_weights,
    settle_learning_rate,
)


@dataclass
class TokenClassificationTask(FineTuning):
    """Tagging, checked and ready to run: `validation_predictions.conll` and `test_predictions.conll` beside the rest.

    Args:
        tag_scheme: "spans" or "words", see `EntityMetric`.
    """

    model: ElmoForTokenClassification
    splits: dict[str, TaggedSentences]
    tag_scheme: str

    shown_scores: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1", "accuracy")
    best_score: ClassVar[str] = "f1"

    def encode(self, split: str) -> Dataset:
        return encode(self.splits[split], self.tokenizer, self.model.config.label2id)

    def make_collator(self) -> DataCollatorForTokenClassification:
        return DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=IGNORED_LABEL)

    def score(self, output: Any) -> dict[str, float]:
        gold = self._labels_of(output.label_ids, output.label_ids)
        report = self._compute(self._labels_of(output.predictions, output.label_ids), gold)
        return {name: report[f"overall_{name}"] for name in self.shown_scores}

    def report(self, split: str, output: Any, directory: Path | None) -> tuple[dict[str, Any], str]:
        sentences = self.splits[split]
        predicted = self._labels_of(output.predictions, output.label_ids)
        report = self._compute(predicted, sentences.labels)
        if directory is not None:
            write_predictions(directory / f"{split}_predictions.conll", sentences, predicted)
        lines = format_report(f"{split} ({sentences.source})", report)
        return {f"{RESULT_PREFIXES[split]}_entities": _by_type(report)}, lines

    def describe(self) -> dict[str, Any]:
        return {"tag_scheme": self.tag_scheme}

    def write_card(self, directory: Path, name: str) -> None:
        write_card(directory, name)

    def _compute(self, predicted: list[list[str]], gold: list[list[str]]) -> dict[str, Any]:
        metric = EntityMetric(keep_in_memory=True)
        return metric.compute(predictions=predicted, references=gold, tag_scheme=self.tag_scheme)

    def _labels_of(self, label_ids: np.ndarray, gold_ids: np.ndarray) -> list[list[str]]:
        """The names of the label ids (sentences, words) where there is a gold label, sentence by sentence."""
        id2label = self.model.config.id2label
        return [
            [id2label[int(index)] for index in row[gold != IGNORED_LABEL]]
            for row, gold in zip(label_ids, gold_ids, strict=True)
        ]


def prepare_task(
    model_args: TaggerArguments, data_args: TaggedDataArguments, training_args: TaskTrainingArguments
) -> TokenClassificationTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    output_dir = check_output_directory(training_args.output_dir, training_args.overwrite_output_dir)
    check_keeps_inputs(output_dir, [(f"{split}_file", file) for split, file in data_args.files.items()])
    check_model_source(model_args)
    _check_data_source(data_args)
    if training_args.push_to_hub:
        raise ValueError(
            "push_to_hub is on, but output_dir stands only when everything is done; upload it then, with hf-elmo push."
        )
    splits = choose_splits(hold_out(_read_splits(data_args), data_args), training_args)
    config, has_classifier = load_architecture(model_args)
    layer_cache = make_layer_cache(model_args, config)
    known = [config.id2label[index] for index in range(config.num_labels)] if has_classifier else None
    labels = choose_labels(splits, data_args.labels or [], known)
    tag_scheme = tag_scheme_of(labels) if data_args.tag_scheme == "auto" else data_args.tag_scheme
    if tag_scheme == "spans" and tag_scheme_of(labels) != "spans":
        raise ValueError(f"tag_scheme is 'spans', but the labels {labels[:5]} have no prefix such as B-; pass 'words'.")
    make_model = partial(build_model, model_args, config, labels, keep_classifier=labels == known)
    set_seed(training_args.seed)
    model, description = make_model()
    tokenizer = load_tokenizer(model_args, config)
    settle_learning_rate(training_args, model_args)
    splits = shorten(splits, data_args)
    data = {
        split: {
            "source": _name_source(data_args, split),
            **share_of(split, data_args),
            "sentences": len(sentences),
            "words": sum(map(len, sentences.words)),
        }
        for split, sentences in splits.items()
    }
    return TokenClassificationTask(
        model,
        tokenizer,
        splits,
        training_args,
        description,
        data,
        tag_scheme,
        make_model=lambda: make_model()[0],
        layer_cache=layer_cache,
        layer_bytes=int(model_args.layer_cache_gigabytes * 2**30),
    )


def _name_source(data_args: TaggedDataArguments, split: str) -> str:
    """What a split is called where others read it: no folders of this machine."""
    if data_args.files:
        # Where there is no validation file a share of the training file was held out.
        return Path(data_args.files.get(split, data_args.train_file)).name
    name = Path(data_args.dataset_name).name if os.path.exists(data_args.dataset_name) else data_args.dataset_name
    part = "train" if split == "validation" and data_args.validation_share else split
    return ", ".join([name, *filter(None, [data_args.dataset_config_name]), part])


def choose_labels(
    splits: dict[str, TaggedSentences], extra: Sequence[str] = (), checkpoint_labels: Sequence[str] | None = None
) -> list[str]:
    """The labels of the classifier, in the order of their ids.

    A checkpoint's labels, in its own order, where it has a classifier that knows all that are wanted (or nothing is to
    be trained); else those of the training data, what the corpus declares and the extra ones, sorted.

    Args:
        splits: The tagged sentences.
        extra: Labels to know besides.
        checkpoint_labels: Labels of the checkpoint's classifier; None where it has none.
    Raises: ValueError where another split has a label that is not known, with its place.
    """
    if "train" in splits:
        train = splits["train"]
        wanted = {label for row in train.labels for label in row} | set(train.known_labels) | set(extra)
        labels = sorted(wanted)
        if checkpoint_labels is not None and wanted <= set(checkpoint_labels):
            labels = list(checkpoint_labels)
    elif checkpoint_labels is None:
        raise ValueError(
            "do_train is off, but the checkpoint has no token classifier to evaluate; name one that has with "
            "--model_name_or_path, or give training data."
        )
    else:
        labels = list(checkpoint_labels)
        if not set(extra) <= set(labels):
            raise ValueError(
                f"labels names {sorted(set(extra) - set(labels))}, but nothing is trained and the checkpoint knows "
                f"only {labels[:20]}; leave --labels out, or give training data."
            )
    others = [sentences for split, sentences in splits.items() if split != "train"]
    _check_labels_known(others, labels, is_trained="train" in splits)
    return labels


def load_architecture(model_args: TaggerArguments) -> tuple[ElmoConfig, bool]:
    """The config that the arguments name, with the task's own fields set, and whether a classifier comes along.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    config = load_source_config(model_args)
    has_classifier = not is_random(model_args) and ElmoForTokenClassification.__name__ in (config.architectures or [])
    # A tagger has no word softmax, whatever it was trained from.
    config.word_vocab_size = None
    try:
        for name in ("freeze_bilm", "classifier_dropout", "classifier_lstm_layers", "classifier_lstm_size", "mix_l2"):
            value = getattr(model_args, name)
            if value is not None:
                setattr(config, name, value)
        if model_args.layers is not None:
            config.mixed_layers = model_args.layers
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    return config, has_classifier


def build_model(
    model_args: TaggerArguments, config: ElmoConfig, labels: Sequence[str], keep_classifier: bool = False
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
    if is_random(model_args):
        model = ElmoForTokenClassification(config)
        origin = "all weights random"
    else:
        model, new = load_weights(ElmoForTokenClassification, model_args.model_name_or_path, config)
        if not keep_classifier:
            classifier = nn.Linear(model.classifier.in_features, len(labels))
            model._init_weights(classifier)
            model.classifier = classifier
            new.add("classifier")
        origin = f"weights from {model_args.model_name_or_path}"
        origin += f", except new ones for {', '.join(sorted(new))}" if new else ""
    return model, f"{describe_model(model, config, origin)}; {len(labels)} labels."


def encode(sentences: TaggedSentences, tokenizer: PreTrainedTokenizer, label2id: dict[str, int]) -> Dataset:
    """Turn tagged sentences into rows of `input_ids` (T, C), `attention_mask` (T) and `labels` (T).

    T counts the sentence markers, whose label is -100.
    """

    def encode_batch(batch: dict[str, list]) -> dict[str, list]:
        encoded = tokenizer(batch["words"], is_split_into_words=True)
        encoded["labels"] = [
            [IGNORED_LABEL if word is None else label2id[tags[word]] for word in encoded.word_ids(row)]
            for row, tags in enumerate(batch["tags"])
        ]
        return dict(encoded)

    dataset = Dataset.from_dict({"words": sentences.words, "tags": sentences.labels})
    return dataset.map(
        encode_batch, batched=True, remove_columns=["words", "tags"], desc=f"Encoding {sentences.source}"
    )


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
    types = _by_type(report)
    width = max(map(len, [*types, "all"]))
    lines = [title, f"{'':{width}}  precision   recall       F1  support"]
    for name, row in types.items():
        scores = "  ".join(f"{100 * row[score]:7.2f}" for score in ("precision", "recall", "f1"))
        lines.append(f"{name:{width}}  {scores:>27}  {row['number']:7}")
    scores = "  ".join(f"{100 * report[f'overall_{score}']:7.2f}" for score in ("precision", "recall", "f1"))
    lines.append(f"{'all':{width}}  {scores:>27}  {sum(row['number'] for row in types.values()):7}")
    lines.append(f"accuracy by word: {100 * report['overall_accuracy']:.2f}")
    return "\n".join(lines)


def _by_type(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {name: row for name, row in report.items() if isinstance(row, dict)}


def _check_data_source(data_args: TaggedDataArguments) -> None:
    if data_args.dataset_name and data_args.files:
        raise ValueError(
            f"dataset_name {data_args.dataset_name!r} and files ({', '.join(data_args.files.values())}) given; wanted "
            "one or the other."
        )
    if not data_args.dataset_name and not data_args.files:
        raise ValueError("No data given; wanted --train_file, --validation_file or --test_file, or --dataset_name.")
    if data_args.dataset_name:
        source, misplaced = "datasets", ("word_column", "label_column")
    else:
        source, misplaced = "files", ("text_column_name", "label_column_name")
    for name in misplaced:
        if getattr(data_args, name) is not None:
            raise ValueError(
                f"{name} is {getattr(data_args, name)!r}, but it is not for {source}: "
                "files take --word_column and --label_column, datasets --text_column_name and --label_column_name."
            )


def _read_splits(data_args: TaggedDataArguments) -> dict[str, TaggedSentences]:
    if data_args.files:
        return {
            split: read_tagged_file(file, data_args.word_column, data_args.label_column, name=f"{split}_file")
            for split, file in data_args.files.items()
        }
    dataset = load_tagged_dataset(data_args.dataset_name, data_args.dataset_config_name)
    splits = {
        split: tagged_from_dataset(
            dataset[split],
            f"dataset_name {data_args.dataset_name!r}, split {split!r}",
            data_args.text_column_name,
            data_args.label_column_name,
        )
        for split in ("train", "validation", "test")
        if split in dataset
    }
    if not splits:
        raise ValueError(
            f"dataset_name {data_args.dataset_name!r} has the splits {list(dataset)}; wanted train, validation or test."
        )
    return splits


def _check_labels_known(sentences: list[TaggedSentences], known: Sequence[str], is_trained: bool) -> None:
    places: dict[str, str] = {}
    for split in sentences:
        for row, labels in enumerate(split.labels):
            for word, label in enumerate(labels):
                if label not in known and label not in places:
                    places[label] = split.place(row, word)
    if not places:
        return
    (label, place), *others = places.items()
    what = f"{place}: the label {label!r}" + (f" (nor {len(others)} more)" if others else "")
    if is_trained:
        raise ValueError(
            f"{what} does not occur in the training data; correct it, or make it known with --labels "
            f"{shlex.join(places)}"
        )
    raise ValueError(
        f"{what} is not one that the checkpoint knows, {list(known[:20])}; correct it, or give training data."
    )
