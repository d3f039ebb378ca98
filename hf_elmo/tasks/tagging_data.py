"""The data of a token classification run: its columns, what its labels mark, its words, and its rows for the model."""

from __future__ import annotations

from collections.abc import Iterator

from datasets import Dataset
from transformers import PreTrainedTokenizer

from ..model.modeling_elmo import IGNORED_LABEL
from .data_sources import read_splits
from .mapping import map_once
from .metrics.entities import tag_scheme_of
from .readers.columns import TaggedSentences, read_tagged_file, tagged_from_dataset
from .tagging_arguments import TaggedDataArguments


def check_columns(data_args: TaggedDataArguments) -> None:
    """Check that the flags name columns of files or of a dataset, whichever is read; raises ValueError naming one."""
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


def read_sentences(data_args: TaggedDataArguments) -> dict[str, TaggedSentences]:
    """The sentences of each split; raises as `read_tagged_file` and `tagged_from_dataset`."""
    return read_splits(
        data_args,
        lambda file, name: read_tagged_file(file, data_args.word_column, data_args.label_column, name=name),
        lambda dataset, source: tagged_from_dataset(
            dataset, source, data_args.text_column_name, data_args.label_column_name
        ),
    )


def words_of(splits: dict[str, TaggedSentences], is_train: bool) -> Iterator[str]:
    """All words of the training data, or of the other splits."""
    return (
        word
        for split, sentences in splits.items()
        if (split == "train") == is_train
        for words in sentences.words
        for word in words
    )


def find_tag_scheme(splits: dict[str, TaggedSentences], data_args: TaggedDataArguments) -> str:
    """Whether the labels mark spans or each word on its own; raises ValueError naming odd labels."""
    if data_args.tag_scheme == "words":
        return "words"
    labels = {label for sentences in splits.values() for row in sentences.labels for label in row}
    labels |= {label for sentences in splits.values() for label in sentences.known_labels} | set(data_args.labels or [])
    found = tag_scheme_of(labels)
    if data_args.tag_scheme == "spans" and found != "spans":
        raise ValueError(
            f"tag_scheme is 'spans', but the labels {sorted(labels)[:5]} have no prefix such as B-; pass 'words'."
        )
    return found


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
    return map_once(
        dataset, encode_batch, batched=True, remove_columns=["words", "tags"], desc=f"Encoding {sentences.source}"
    )
