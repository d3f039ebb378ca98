"""The text classification task: texts, or pairs of them, with labels in, a trained classifier and its scores out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from ..given import check_least, flag
from ..hub.cards import TaskCard
from ..inference.pages import Passage
from ..model.configuration_elmo import SequenceClassificationHead
from ..model.modeling_elmo_tasks import ElmoForSequenceClassification
from ..text.arguments import PreTokenizer
from ..text.raw_text import look_at
from .data import DatasetArguments, encode_rows, read_splits
from .inputs import PRE_TOKENIZER, TaskArguments
from .metrics import score_classes
from .prediction import LONGEST_SHOWN, Item, Predictor
from .readers.texts import LabeledTexts, read_texts, texts_of_dataset
from .task import Task

# Encoders of pairs and of texts, the default first.
_ENCODERS = {True: ("esim", "pooled_pairs"), False: ("bcn", "pooled")}


@dataclass
class ClassifierArguments(TaskArguments):
    """The model: what it starts from, and which words it reads."""

    max_length: int | None = flag(
        "Cut what is longer than so many words, special tokens included; of a pair the longer text first.", default=None
    )
    pre_tokenizer: PreTokenizer | None = flag(PRE_TOKENIZER, default=None)


@dataclass
class LabeledDataArguments(DatasetArguments):
    """The data: files or a dataset of texts, or of pairs of texts, and which of their columns."""

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

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        texts = (text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..." for text in asked[1])
        yield f"{found[0]['label']} {found[0]['score']:.3f}  {' | '.join(texts)}"

    def lines(self, predictions: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        labeled = (
            ({"id": index}, texts, {each["label"]: each["score"] for each in found})
            for (index, texts), found in predictions
        )
        return write_records(labeled) if self.arguments.output_suffix == ".jsonl" else write_table(labeled, self.labels)

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
    data_arguments = LabeledDataArguments
    predictor_class = TextPredictor
    scores = ("accuracy", "macro_f1")

    def check_arguments(self) -> None:
        check_least(self.model_args, ["max_length"], 1)
        check_least(self.data_args, ["min_phrase_words"], 1)
        least, fraction = self.data_args.min_phrase_words, self.data_args.validation_fraction
        if least is not None and fraction is not None:
            raise ValueError(
                f"min_phrase_words is {least} and validation_fraction {fraction}: phrases would be held out of "
                "sentences that are trained on; give a validation_file."
            )

    def load(self) -> dict[str, LabeledTexts]:
        args = self.data_args
        columns = (args.text_column, args.text_pair_column, args.label_column)

        def read_file(file: str, argument: str) -> LabeledTexts:
            return read_texts(file, *columns, args.min_phrase_words if argument == "train_file" else None, argument)

        splits = read_splits(args, read_file, lambda split, source: texts_of_dataset(split, source, *columns))
        if args.text_is_tokenized:
            splits = {split: replace(texts, is_tokenized=True) for split, texts in splits.items()}
        return splits

    def head_settings(self, head: SequenceClassificationHead | None) -> dict[str, Any]:
        are_pairs = _are_pairs(self.splits)
        encoders = _ENCODERS[are_pairs]
        settings = {"encoder": encoders[0] if head is None else head.encoder, **super().head_settings(head)}
        encoder = settings["encoder"]
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

    def words_of(self, examples: LabeledTexts) -> Iterator[str]:
        for text in (text for column in examples.columns for text in column):
            yield from text.split() if examples.is_tokenized else self.tokenizer.tokenize(text)

    def count(self, split: str) -> dict[str, Any]:
        return {"texts": len(self.splits[split]), "unlabeled": self.splits[split].num_unlabeled}

    def notes(self) -> Iterator[str | None]:
        yield from super().notes()
        for texts in self.splits.values():
            cut = "whitespace" if texts.is_tokenized else self.tokenizer.pre_tokenizer
            yield from look_at(texts.texts, texts.source, cut, can_choose=False)

    def encode(self, split: str) -> list[dict[str, Any]]:
        texts, ids, length = self.splits[split], self.label_ids, self.model_args.max_length
        columns = [[text.split() for text in its] for its in texts.columns] if texts.is_tokenized else texts.columns
        cut = {} if length is None else {"truncation": True, "max_length": length}
        how = {"is_split_into_words": texts.is_tokenized, **cut}
        rows = encode_rows(self.tokenizer, texts.source, *columns, **how)
        return [{**row, "labels": ids[label]} for row, label in zip(rows, texts.labels, strict=True)]

    def keep(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return logits.float().softmax(dim=-1)

    def report(self, split: str, output: Any) -> tuple[dict[str, Any], Mapping[str, Iterable[str]]]:
        labels, texts = self.all_labels, self.splits[split]
        predicted = [labels[index] for index in output.predictions.argmax(axis=-1)]
        results = score_classes(predicted, [labels[index] for index in output.label_ids], labels)
        name = "id" if len(texts.columns) == 1 else "pairID"

        def labeled() -> Iterator[Labeled]:
            for index, row in enumerate(output.predictions.tolist()):
                known = {name: texts.ids[index] if texts.ids else index, "gold_label": texts.labels[index]}
                yield known, [column[index] for column in texts.columns], dict(zip(self.labels, row, strict=True))

        files = {".tsv": write_table(labeled(), self.labels)}
        return results, files if len(texts.columns) == 1 else {**files, ".jsonl": write_records(labeled())}

    def describe_card(self) -> TaskCard:
        are_pairs = _are_pairs(self.splits)
        example = (
            '{"text": "A man sleeps .", "text_pair": "Nobody is awake ."}' if are_pairs else '"A sentence of words ."'
        )
        code = f"""\
classifier = pipeline("text-classification", model="{{name}}")
print(classifier({example}))"""
        if any(label.lower().startswith("entail") for label in self.labels):
            code += """
# Any labels can be told apart by it, as far as it has learned what follows from what.
classifier = pipeline("zero-shot-classification", model="{name}")
print(classifier("A sentence of words .", ["sport", "music"], hypothesis_template="This is about {} ."))"""
        return self.make_card(
            what="A classifier of pairs of texts" if are_pairs else "A classifier of texts",
            tags=["text-classification", *(["text-pair-classification"] if are_pairs else [])],
            code=code,
            intended_use=[
                f"To give {'a pair of texts' if are_pairs else 'a text'} one of the labels below, in text like that it "
                "was trained on."
            ],
            tables={"by_class": "By label", "confusion": "What the texts of each label were taken for"},
            counts=["texts", "words"],
        )


# What is known of a text, or of a pair, its texts, and the probability of each label.
Labeled = tuple[Mapping[str, Any], Sequence[str], Mapping[str, float]]


def write_table(labeled: Iterable[Labeled], labels: Sequence[str]) -> Iterator[str]:
    """A line for each text between tabs, what is known of it, the best label and the probabilities of all."""
    for number, (known, _, probabilities) in enumerate(labeled):
        if not number:
            yield "\t".join([*("id", "gold")[: len(known)], "predicted", *(f"p({label})" for label in labels)])
        cells = (" ".join(str(value).split()) for value in (*known.values(), best_of(probabilities)))
        yield "\t".join([*cells, *(f"{probabilities[label]:.6f}" for label in labels)])


def write_records(labeled: Iterable[Labeled]) -> Iterator[str]:
    """An object for each text, or for each pair as SNLI has it, with the best label and the probabilities of all."""
    for known, texts, probabilities in labeled:
        names = ("sentence",) if len(texts) == 1 else ("sentence1", "sentence2")
        record = {**known, **dict(zip(names, texts, strict=True)), "predicted_label": best_of(probabilities)}
        record["probabilities"] = {label: round(float(share), 6) for label, share in probabilities.items()}
        yield json.dumps(record, ensure_ascii=False)


def best_of(probabilities: Mapping[str, float]) -> str:
    return max(probabilities, key=probabilities.__getitem__)


def _are_pairs(splits: Mapping[str, LabeledTexts]) -> bool:
    """Whether the texts are pairs; raises ValueError naming two sources of which only one has pairs."""
    are_pairs = {texts.source: texts.second_texts is not None for texts in splits.values()}
    pairs, singles = ([source for source, each in are_pairs.items() if each is kind] for kind in (True, False))
    if pairs and singles:
        raise ValueError(
            f"{pairs[0]} has pairs of texts, but {singles[0]} single ones; name the columns of both with --text_column "
            "and, for pairs, --text_pair_column."
        )
    return bool(pairs)
