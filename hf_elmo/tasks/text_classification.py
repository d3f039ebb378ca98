"""The text classification task: texts, or pairs of them, with labels in, a trained classifier and its scores out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import torch
from datasets import Dataset
from transformers import DataCollatorWithPadding

from ..given.bounded_files import quoted
from ..given.flags import flag
from ..hub.cards import TaskCard
from ..inference.pages import Passage
from ..model.configuration_elmo import SequenceClassificationHead
from ..model.modeling_elmo_tasks import ElmoForSequenceClassification
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.cutting import PreTokenizer
from ..text.first_look import look_at_lines
from .arguments import PRE_TOKENIZER, DatasetArguments, TaskArguments
from .data import read_splits
from .inputs import describe_inputs
from .metrics import score_classes
from .prediction import LONGEST_SHOWN, Item, Predictor
from .readers.texts import LabelledTexts, read_texts, texts_of_dataset
from .reports import RESULT_PREFIXES
from .task import LIMIT, Task

# Encoders of texts and of pairs, the default first.
_ENCODERS = ("bcn", "pooled")
_ENCODERS_OF_PAIRS = ("esim", "pooled_pairs")

# So many labels are too few to tell by their number that a column holds something else.
_FEW_LABELS = 20


@dataclass
class ClassifierArguments(TaskArguments):
    """The model: what it starts from, and which words it reads."""

    max_length: int | None = flag(
        "Cut what is longer than so many words, special tokens included; of a pair the longer text first.", default=None
    )
    pre_tokenizer: PreTokenizer | None = flag(PRE_TOKENIZER, default=None)


@dataclass
class LabelledDataArguments(DatasetArguments):
    """The data: files or a dataset of texts, or of pairs of texts, and which of their columns."""

    train_file: str | None = flag(
        "Training data: .tsv or .txt (tabs), .csv, .jsonl, .json or .parquet, or trees in brackets, as the Stanford "
        "Sentiment Treebank has them; text also as .gz, .bz2, .xz or .zst.",
        default=None,
    )
    text_column: str | None = flag(
        "Column of the text (of a pair: of the first one), its name or its number from 0; by default the first that "
        "has a usual name, such as text, sentence, premise or sentence1.",
        default=None,
    )
    text_pair_column: str | None = flag(
        "Column of the second text, as text_column: it makes the examples pairs. By default, where text_column is not "
        "named either, one that is called hypothesis, sentence2 or the like, if there is one.",
        default=None,
    )
    label_column: str | None = flag(
        "Column of the label, as text_column; label, gold_label or the like by default.", default=None
    )
    text_is_tokenized: bool = flag(
        "Words stand between white space; without it the checkpoint's tokenizer cuts them.", default=False
    )
    min_phrase_words: int | None = flag(
        "Of training data in trees, also take the phrases of so many words and more; 4 as in the paper, 1 for all. "
        "None takes whole sentences alone.",
        default=None,
    )


class TextPredictor(Predictor):
    """Labels of texts, or of pairs of texts; asked are the index of the line and its texts."""

    task = "text-classification"
    model_class = ElmoForSequenceClassification
    settings = {"is_split_into_words": True, "top_k": None, "function_to_apply": "softmax"}
    does = "classifies texts"
    refuses = ("convert_scheme",)
    title = "Labels of texts"
    unit = "texts"

    def check(self) -> None:
        self.reads_pairs = self.model.text_encoder.reads_pairs
        if self.reads_pairs:
            self.does, self.unit = "classifies pairs", "pairs"
        elif self.arguments.text_pair is not None:
            raise ValueError(
                f"text_pair is {self.arguments.text_pair!r}, but the checkpoint classifies single texts; leave it out."
            )

    def items(self) -> Iterable[Item]:
        lines = ((index, line) for index, line in enumerate(self.inputs) if line.strip())
        for index, *texts in self.pairs("two texts") if self.reads_pairs else lines:
            words = [self.tokenize(str(text)) for text in texts]
            yield sum(map(len, words)) + 2 * len(words), dict(zip(("text", "text_pair"), words)), (index, texts)  # noqa: B905

    def probabilities(self, found: Iterable[Mapping[str, Any]]) -> dict[str, float]:
        """In the order of the labels' ids, the first of the best ones and all of them."""
        by_label = {each["label"]: each["score"] for each in found}
        return {label: by_label[label] for label in self.labels}

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        probabilities = self.probabilities(found)
        label = _best(probabilities)
        texts = (text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..." for text in asked[1])
        yield f"{label} {probabilities[label]:.3f}  {' | '.join(texts)}"

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> None:
        are_records = self.arguments.output_suffix == ".jsonl"
        if not are_records:
            file.write("\t".join(["id", "predicted", *(f"p({label})" for label in self.labels)]) + "\n")
        for (index, texts), found in predictions:
            probabilities = self.probabilities(found)
            label = _best(probabilities)
            if are_records:
                names = ("sentence",) if len(texts) == 1 else ("sentence1", "sentence2")
                record = {"id": index, "predicted_label": label, **dict(zip(names, texts, strict=True))}
                record["probabilities"] = _rounded(probabilities)
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                file.write(_row(str(index), label, *probabilities.values()))

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        for (_, texts), found in predictions:
            scores = ", ".join(f"{each['label']} {each['score']:.3f}" for each in found)
            yield Passage("\n".join(texts), notes=[scores])


class TextClassification(Task):
    """Classification; it writes `test_predictions.tsv` and its like, and of pairs also SNLI's lines of JSON."""

    name: ClassVar[str] = "text-classification"
    model_class = ElmoForSequenceClassification
    head_class = SequenceClassificationHead
    model_arguments = ClassifierArguments
    data_arguments = LabelledDataArguments
    predictor_class = TextPredictor
    examples: ClassVar[str] = """
examples:
  hf-elmo train text-classification --model_name_or_path CHECKPOINT --train_file train.tsv --validation_file dev.tsv \\
      --test_file test.tsv --load_best_model_at_end --output_dir classifier
  hf-elmo train text-classification --model_name_or_path CHECKPOINT --train_file snli_1.0_train.jsonl \\
      --validation_file snli_1.0_dev.jsonl --test_file snli_1.0_test.jsonl --pre_tokenizer penn \\
      --load_best_model_at_end --output_dir pairs

A second column of texts makes them pairs.
"""
    scores = ("accuracy", "macro_f1")

    def check_arguments(self) -> None:
        length, least = self.model_args.max_length, self.data_args.min_phrase_words
        if length is not None and length < 1:
            raise ValueError(f"max_length is {length}; it must be an integer >= 1, or left out.")
        if least is not None and (least < 1 or self.data_args.train_file is None):
            raise ValueError(
                f"min_phrase_words is {least}; it must be an integer >= 1, and train_file a file of trees."
            )
        if least is not None and self.data_args.validation_fraction is not None:
            raise ValueError(
                f"min_phrase_words is {least} and validation_fraction {self.data_args.validation_fraction}: phrases "
                "would be held out of sentences that are trained on; give a validation_file."
            )

    def load(self) -> dict[str, LabelledTexts]:
        args = self.data_args
        columns = (args.text_column, args.text_pair_column, args.label_column)

        def read_file(file: str, argument: str) -> LabelledTexts:
            return read_texts(file, *columns, args.min_phrase_words if argument == "train_file" else None, argument)

        splits = read_splits(args, read_file, lambda split, source: texts_of_dataset(split, source, *columns))
        if args.text_is_tokenized:
            splits = {split: replace(texts, is_tokenized=True) for split, texts in splits.items()}
        return splits

    def head_settings(self, head: SequenceClassificationHead | None) -> dict[str, Any]:
        are_pairs = _are_pairs(self.splits)
        encoders = _ENCODERS_OF_PAIRS if are_pairs else _ENCODERS
        settings = {**({"encoder": encoders[0]} if head is None else {}), **super().head_settings(head)}
        encoder = settings.get("encoder") or getattr(head, "encoder", None)
        if encoder not in encoders:
            raise ValueError(
                f"encoder is {encoder!r}, here or of model_name_or_path {self.model_args.model_name_or_path!r}, but "
                f"the data are {'pairs of texts' if are_pairs else 'single texts'}, for {' and '.join(encoders)}. Name "
                "one of them with --head encoder=..., another checkpoint, or the columns with --text_column and "
                "--text_pair_column."
            )
        return settings

    def settle(self, has_head: bool) -> None:
        self.config.problem_type = "single_label_classification"

    def choose_labels(self, known: Sequence[str] | None) -> list[str]:
        labels = super().choose_labels(known)
        if "train" in self.splits:
            _check_number_of_labels(labels, self.splits["train"])
        return labels

    def draw_classifier(self, model: ElmoForSequenceClassification) -> set[str]:
        old = model.classifier
        model.classifier = type(old)(old.in_features, len(self.labels), old.activation)
        model._init_weights(model.classifier)
        return {"classifier"}

    def describe_head(self, model: ElmoForSequenceClassification) -> str:
        head = self.head
        reads = f"{head.encoder} of {head.hidden_size}, reads {describe_inputs(head)}"
        return f"{reads}; {super().describe_head(model)}"

    def words_of(self, examples: LabelledTexts) -> Iterator[str]:
        return words_of(examples, self.tokenizer)

    def count(self, split: str) -> dict[str, Any]:
        texts = self.splits[split]
        unlabelled = {"unlabelled": texts.num_unlabelled} if texts.num_unlabelled else {}
        return {"texts": len(texts), **unlabelled}

    def notes(self) -> Iterator[str]:
        for texts in self.splits.values():
            if texts.num_unlabelled:
                yield f"{texts.source}: {texts.num_unlabelled:,} without a label left out"
            cut = "whitespace" if texts.is_tokenized else self.tokenizer.pre_tokenizer
            first_look = look_at_lines(text.split() for text in texts.texts)
            yield from first_look.warnings(texts.source, cut, can_choose=False)

    def encode(self, split: str) -> Dataset:
        return encode(self.splits[split], self.tokenizer, self.label_ids, self.model_args.max_length)

    def make_collator(self) -> DataCollatorWithPadding:
        return DataCollatorWithPadding(self.tokenizer)

    def keep(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return logits.float().softmax(dim=-1)

    def score(self, output: Any) -> dict[str, float]:
        report = self._score(output)
        return {name: report[name] for name in self.scores}

    def report(self, split: str, output: Any, directory: Path | None) -> dict[str, Any]:
        texts, prefix = self.splits[split], RESULT_PREFIXES[split]
        report = self._score(output)
        if directory is not None:
            write_table(directory / f"{split}_predictions.tsv", texts, self.labels, output.predictions)
            if texts.second_texts is not None:
                write_records(directory / f"{split}_predictions.jsonl", texts, self.labels, output.predictions)
        return {f"{prefix}_{name}": report[name] for name in ("by_class", "confusion")}

    def describe(self) -> dict[str, Any]:
        return {"text_pairs": _are_pairs(self.splits), "labels": self.labels}

    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        labels, are_pairs = results["labels"], results["text_pairs"]
        example = (
            '{"text": "A man sleeps .", "text_pair": "Nobody is awake ."}' if are_pairs else '"A sentence of words ."'
        )
        usage = f"""\
```python
import hf_elmo
from transformers import pipeline

classifier = pipeline("text-classification", model="{{name}}")
print(classifier({example}))
```"""
        if any(label.lower().startswith("entail") for label in labels):
            usage += """

Any labels can be told apart by it, as far as it has learned what follows from what:

```python
classifier = pipeline("zero-shot-classification", model="{name}")
print(classifier("A sentence of words .", ["sport", "music"], hypothesis_template="This is about {} ."))
```"""
        notes = {}
        for split, prefix in RESULT_PREFIXES.items():
            if f"{prefix}_by_class" in results:
                numbers = [figures["number"] for figures in results[f"{prefix}_by_class"].values()]
                notes[split] = [f"Always the most frequent label: {100 * max(numbers) / sum(numbers):.2f} % right."]
        return TaskCard(
            what="A classifier of pairs of texts" if are_pairs else "A classifier of texts",
            task_name="Text classification",
            tags=["text-classification", *(["text-pair-classification"] if are_pairs else [])],
            pipeline_tag="text-classification",
            usage=usage,
            intended_use=[
                f"To give {'a pair of texts' if are_pairs else 'a text'} one of the labels below, in text like that it "
                "was trained on."
            ],
            limits=[LIMIT.format("texts")],
            scores=list(self.scores),
            tables={"by_class": "By label", "confusion": "What the texts of each label were taken for"},
            labels=labels,
            counts=["texts", "words"],
            notes=notes,
        )

    def _score(self, output: Any) -> dict[str, Any]:
        labels = self.all_labels
        predicted = [labels[index] for index in output.predictions.argmax(axis=-1)]
        return score_classes(predicted, [labels[index] for index in output.label_ids], labels)


def words_of(texts: LabelledTexts, tokenizer: ElmoCharTokenizer) -> Iterator[str]:
    """All words of some texts, of pairs those of both, as the tokenizer cuts them."""
    for text in [*texts.texts, *(texts.second_texts or [])]:
        yield from text.split() if texts.is_tokenized else tokenizer.tokenize(text)


def encode(
    texts: LabelledTexts, tokenizer: ElmoCharTokenizer, label2id: Mapping[str, int], max_length: int | None = None
) -> Dataset:
    """Turn labelled texts into rows of `input_ids` (T, C), `attention_mask` (T) and `labels`, a number.

    T counts the special tokens. Pairs have `token_type_ids` (T) too.
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
    return dataset.map(encode_batch, batched=True, remove_columns=list(columns), desc=f"Encoding {texts.source}")


def write_table(path: Path, texts: LabelledTexts, labels: Sequence[str], probabilities: np.ndarray) -> None:
    """Write a line for each text between tabs: its id or number, the gold label, the predicted one, all probabilities.

    Args:
        path: The file.
        texts: The texts, N of them.
        labels: The labels in the order of their ids, K of them; titles of the last columns.
        probabilities: (N, K).
    """
    ids = texts.ids or list(map(str, range(len(texts))))
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("\t".join(["id", "gold", "predicted", *(f"p({label})" for label in labels)]) + "\n")
        for name, gold, row in zip(ids, texts.labels, probabilities, strict=True):
            file.write(_row(" ".join(name.split()), gold, labels[row.argmax()], *row))


def write_records(path: Path, texts: LabelledTexts, labels: Sequence[str], probabilities: np.ndarray) -> None:
    """Write pairs as SNLI has them, an object per line, with the predicted label and the probabilities beside it."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for index, row in enumerate(probabilities):
            record: dict[str, Any] = {
                "gold_label": texts.labels[index],
                "predicted_label": labels[row.argmax()],
                "sentence1": texts.texts[index],
                "sentence2": texts.second_texts[index] if texts.second_texts else None,
                "probabilities": _rounded(dict(zip(labels, row, strict=True))),
            }
            if texts.ids is not None:
                record["pairID"] = texts.ids[index]
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _row(*cells: str | float) -> str:
    return "\t".join(cell if isinstance(cell, str) else f"{cell:.6f}" for cell in cells) + "\n"


def _rounded(probabilities: Mapping[str, float]) -> dict[str, float]:
    return {label: round(float(probability), 6) for label, probability in probabilities.items()}


def _best(probabilities: Mapping[str, float]) -> str:
    return max(probabilities, key=probabilities.__getitem__)


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


def _check_number_of_labels(labels: Sequence[str], texts: LabelledTexts) -> None:
    """Check that the labels can be classes.

    Raises: ValueError naming the data where there is only one, or where the column must be another one.
    """
    if len(labels) < 2:
        raise ValueError(
            f"{texts.source} has the label {labels[0]!r} alone, and a classifier wants two; name the right column with "
            "--label_column."
        )
    number = len(set(texts.labels))
    if number > max(_FEW_LABELS, len(texts) / 2):
        raise ValueError(
            f"{texts.source} has {number:,} different labels for {len(texts):,} texts, {quoted(texts.labels[0])} among "
            "them; name the right column with --label_column."
        )
