"""The coreference task: documents with clusters in, a trained model, its scores and its predictions out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor

from ..model.configuration_elmo import CoreferenceHead, ElmoConfig
from ..model.modeling_elmo_coref import ElmoForCoreferenceResolution, read_clusters
from .arguments import TrainingFlags
from .card_facts import describe_inputs
from .coreference_arguments import CoreferenceArguments, CoreferenceDataArguments
from .coreference_data import (
    EncodedDocuments,
    count_mentions,
    drop_singletons,
    encode_documents,
    has_singletons,
    make_document_collator,
)
from .data_sources import name_file
from .features import check_features, check_table, set_word_inputs
from .fine_tuning import FineTuning
from .layer_cache import LayerCache, make_layer_cache
from .metrics.coreference import score_clusters
from .readers.documents import Documents, Mention, document_lines, read_documents
from .run_checks import check_files, check_run
from .splits import choose_splits, hold_out, share_of, shorten
from .training_arguments import TaskTrainingArguments
from .weights import (
    describe_model,
    is_random,
    load_source_config,
    load_tokenizer,
    set_model_fields,
    start_model,
)

# Settings of the head that have flags of their own.
_HEAD_FLAGS = (
    *("lstm_size", "hidden_size", "feature_size", "dropout", "hidden_dropout", "max_span_width", "spans_per_word"),
    *("max_antecedents", "allow_crossing", "read_across_sentences", "mention_loss"),
)
_MEASURES = {"muc": "MUC", "b_cubed": "B-cubed", "ceafe": "CEAFe"}
_SCORES = ("precision", "recall", "f1")

Clusters = list[list[tuple[int, int]]]


@dataclass
class CoreferenceTask(FineTuning):
    """Coreference, checked and ready to run; it writes `test_predictions.conll` and its like beside the rest.

    Args:
        max_train_sentences: Sentences of a window of a document that is trained on; None for whole documents.
    """

    model: ElmoForCoreferenceResolution
    splits: dict[str, Documents]
    max_train_sentences: int | None = None

    shown_scores: ClassVar[tuple[str, ...]] = ("muc_f1", "b_cubed_f1", "ceafe_f1", "mean_f1")
    best_score: ClassVar[str] = "mean_f1"

    def encode(self, split: str) -> Any:
        head = self.model.config.require_head(CoreferenceHead)
        documents = encode_documents(self.splits[split], self.tokenizer, head.use_speakers)
        return EncodedDocuments(documents, self.max_train_sentences if split == "train" else None)

    def keep_layers(self, cache: LayerCache, dataset: Any) -> Any:
        layers = cache.layers_of(self.model, dataset.sentences)
        return dataset if layers is None else dataset.with_layers(layers)

    def make_collator(self) -> Any:
        return make_document_collator(self.tokenizer)

    def keep(self, logits: Any, labels: Tensor) -> Tensor:
        # The first of the model's outputs behind the loss.
        return logits[0]

    def score(self, output: Any) -> dict[str, float]:
        return flat_scores(clusters_of(output.predictions), clusters_of(output.label_ids))

    def report(self, split: str, output: Any, directory: Path | None) -> tuple[dict[str, Any], str]:
        documents = self.splits[split]
        predicted, gold = clusters_of(output.predictions), clusters_of(output.label_ids)
        if directory is not None:
            write_predictions(directory / f"{split}_predictions.conll", documents, predicted)
        scores = flat_scores(predicted, gold)
        return {}, format_report(f"{split} ({documents.source})", scores)

    def describe(self) -> dict[str, Any]:
        return {"task": "coreference", "singletons": "keep" if self.model.keep_singletons else "drop"}


def prepare_task(
    model_args: CoreferenceArguments, data_args: CoreferenceDataArguments, training_args: TaskTrainingArguments
) -> CoreferenceTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    _check_arguments(model_args, data_args, training_args)
    read = {split: read_documents(file, name=f"{split}_file") for split, file in data_args.files.items()}
    splits = shorten(choose_splits(hold_out(read, data_args), training_args), data_args)
    config = load_architecture(model_args, splits)
    head = config.require_head(CoreferenceHead)
    if not head.keep_singletons:
        splits = {split: drop_singletons(documents) for split, documents in splits.items()}
    layer_cache = make_layer_cache(model_args, config)
    tokenizer = load_tokenizer(model_args, config)
    texts = [_words_of(splits, is_train=is_train) for is_train in (True, False)]
    table = set_word_inputs(config, CoreferenceHead, model_args, tokenizer, *texts)
    check_table(config, table, is_random(model_args))

    data = {split: _describe_data(split, documents, data_args, head) for split, documents in splits.items()}
    if training_args.process_index == 0:
        for split, facts in data.items():
            if facts["out_of_reach"]:
                print(
                    f"note: {split}: {facts['out_of_reach']:,} of {facts['mentions']:,} mentions cannot be found: they "
                    f"are wider than {head.max_span_width} words (max_span_width), or stand in several sentences",
                    file=sys.stderr,
                )
    build = partial(build_model, model_args, config)
    return CoreferenceTask.start(
        *(build, table, model_args, training_args, tokenizer, splits, data, layer_cache),
        max_train_sentences=model_args.max_train_sentences or None,
    )


def _check_arguments(
    model_args: CoreferenceArguments, data_args: CoreferenceDataArguments, training_args: TaskTrainingArguments
) -> None:
    check_run(model_args, data_args, training_args)
    check_features(model_args)
    check_files(data_args)
    if model_args.mix_at_output:
        raise ValueError("mix_at_output is on, but this task reads ELMo at its input alone; leave it out.")
    if model_args.max_train_sentences < 0:
        raise ValueError(
            f"max_train_sentences is {model_args.max_train_sentences}; it must be an integer >= 0, 0 for all of them."
        )
    for name in ("per_device_train_batch_size", "per_device_eval_batch_size"):
        if getattr(training_args, name) not in (1, getattr(TrainingFlags, name)):
            raise ValueError(
                f"{name} is {getattr(training_args, name)}, but a batch is one document; leave it out, and have "
                "several in a step by --gradient_accumulation_steps."
            )
        setattr(training_args, name, 1)
    # What a document consists of would be taken for that.
    training_args.remove_unused_columns = False


def load_architecture(model_args: CoreferenceArguments, splits: dict[str, Documents]) -> ElmoConfig:
    """The config that the arguments name, with the head that they and the data want.

    Args:
        model_args: What is left out is as the checkpoint has it, where it is one of this task.
        splits: The training documents say whether there are singletons and speakers.
    Raises: FileNotFoundError or ValueError naming the argument.
    """
    config = load_source_config(model_args)
    changes = {name: getattr(model_args, name) for name in _HEAD_FLAGS if getattr(model_args, name) is not None}
    if not isinstance(config.head, CoreferenceHead):
        documents = splits.get("train", Documents("", []))
        changes["use_speakers"] = any(document.speakers for document in documents.documents)
        changes["keep_singletons"] = has_singletons(documents)
    if model_args.ignore_speakers:
        changes["use_speakers"] = False
    if model_args.singletons is not None:
        changes["keep_singletons"] = model_args.singletons == "keep"
    try:
        set_model_fields(config, model_args)
        old = config.require_head(CoreferenceHead)
        if changes.get("keep_singletons", old.keep_singletons) and not old.mention_loss:
            changes.setdefault("mention_loss", 1.0)
        config.head = replace(old, **changes)
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    return config


def build_model(model_args: CoreferenceArguments, config: ElmoConfig) -> tuple[ElmoForCoreferenceResolution, str]:
    """Make the model, in float32, and describe it in one line.

    Args:
        model_args: Where its weights come from.
        config: Its architecture.
    Raises: FileNotFoundError or ValueError where the weights are not there or not those of a biLM of this architecture.
    """
    model, origin = start_model(ElmoForCoreferenceResolution, model_args, config)
    head = config.require_head(CoreferenceHead)
    singletons = "kept" if head.keep_singletons else "dropped"
    parts = [
        describe_model(model, config, origin),
        f"biLSTM of {head.lstm_size}, spans of up to {head.max_span_width} words, {head.spans_per_word:g} for each "
        f"word, up to {head.max_antecedents} antecedents, singletons {singletons}",
        f"reads {describe_inputs(head.to_dict())}.",
    ]
    return model, "; ".join(parts)


def clusters_of(rows: np.ndarray) -> list[Clusters]:
    """The clusters of each document from rows of first word, the word behind the last one, and cluster, (D, M, 3)."""
    return [read_clusters(document) for document in rows.tolist()]


def flat_scores(predicted: Sequence[Clusters], gold: Sequence[Clusters]) -> dict[str, float]:
    """The scores of `score_clusters`, `muc_f1` and its like, and those of the mentions alone."""
    scores = score_clusters(predicted, gold)
    flat = {f"{name}_{score}": scores[name][score] for name in _MEASURES for score in _SCORES}
    found, wanted = ({(place, *mention) for place, mention in _mentions_of(side)} for side in (predicted, gold))
    right = len(found & wanted)
    flat["mention_precision"] = right / len(found) if found else 0.0
    flat["mention_recall"] = right / len(wanted) if wanted else 0.0
    flat["mention_f1"] = 2 * right / (len(found) + len(wanted)) if found or wanted else 0.0
    return {**flat, "mean_f1": scores["mean_f1"]}


def _mentions_of(documents: Sequence[Clusters]) -> Iterator[tuple[int, tuple[int, int]]]:
    for place, clusters in enumerate(documents):
        for cluster in clusters:
            for mention in cluster:
                yield place, mention


def format_report(title: str, scores: dict[str, float]) -> str:
    """The scores as a table in percent, a line per measure."""
    names = {**_MEASURES, "mention": "mentions"}
    width = max(map(len, names.values()))
    lines = [title, f"{'':{width}}  precision   recall       F1"]
    for key, name in names.items():
        row = "  ".join(f"{100 * scores[f'{key}_{score}']:7.2f}" for score in _SCORES)
        lines.append(f"{name:{width}}  {row:>27}")
    lines.append(f"mean F1 of the first three: {100 * scores['mean_f1']:.2f}")
    return "\n".join(lines)


def write_predictions(path: Path, documents: Documents, predicted: Iterable[Clusters]) -> None:
    """Write documents with predicted clusters in the columns of CoNLL-2012."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for document, clusters in zip(documents.documents, predicted, strict=True):
            mentions = [[Mention(*mention) for mention in cluster] for cluster in clusters]
            file.writelines(f"{line}\n" for line in document_lines(document, mentions))


def _words_of(splits: dict[str, Documents], is_train: bool) -> Iterator[str]:
    """All words of the training data, or of the other splits."""
    for split, documents in splits.items():
        if (split == "train") == is_train:
            for document in documents.documents:
                yield from document.words


def _describe_data(
    split: str, documents: Documents, data_args: CoreferenceDataArguments, head: CoreferenceHead
) -> dict[str, Any]:
    """What results.json says of a split."""
    mentions, out_of_reach = count_mentions(documents, head.max_span_width)
    return {
        "source": name_file(data_args, split),
        **share_of(split, data_args),
        "documents": len(documents),
        "words": sum(len(document.words) for document in documents.documents),
        "clusters": sum(len(document.clusters) for document in documents.documents),
        "mentions": mentions,
        "out_of_reach": out_of_reach,
    }
