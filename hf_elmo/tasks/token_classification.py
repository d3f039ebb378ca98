"""The token classification task: tagged sentences in, a trained tagger, its scores and its predictions out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Literal

from ..given import flag
from ..hub.cards import TaskCard
from ..inference.pages import Passage, marks_of_words
from ..model.configuration_elmo import TokenClassificationHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_tasks import OUTSIDE, ElmoForTokenClassification, labels_of, write_spans
from ..pipelines import put_in_brackets
from .data import DatasetArguments, encode_rows, labels_of_words, read_splits
from .inputs import TaskArguments
from .metrics import read_any_spans, score_spans, tag_scheme_of
from .prediction import Item, Predictor
from .readers.columns import TaggedSentences, read_tagged_file, tagged_from_dataset
from .task import Task

# These say the same as BIOES in other letters.
_IN_OTHER_LETTERS = {"BILOU": str.maketrans("ES", "LU"), "BMES": str.maketrans("I", "M")}


@dataclass
class TaggerArguments(TaskArguments):
    """The model: what it starts from, and how its labels mark spans."""

    convert_scheme: Literal["IOB1", "IOB2", "BIOES"] | None = flag(
        "Learn the labels of spans in this scheme, whatever the data's; predictions are written in the data's.",
        default=None,
    )


@dataclass
class TaggedDataArguments(DatasetArguments):
    """The data: files in the columns of any CoNLL corpus, CoNLL-U or OntoNotes, or a dataset; and which columns."""

    word_column: str | None = flag(
        "Column of the words: of files a number from 0 or a name (of CoNLL-U, or of a header line), by default the "
        "first, or FORM; of datasets a name, by default tokens or words.",
        default=None,
    )
    label_column: str | None = flag(
        "Column of the labels, as word_column: by default of files the last, UPOS of CoNLL-U, or named entities of "
        "OntoNotes, and of datasets ner_tags.",
        default=None,
    )
    tag_scheme: Literal["auto", "words"] = flag(
        "Whether labels mark spans (B-, I- and their like) or each word on its own (parts of speech for example): "
        "words, or auto to tell from the labels.",
        default="auto",
    )


class TokenPredictor(Predictor):
    """Labels of words, or the spans that they mark; asked are the words."""

    task = "token-classification"
    model_class = ElmoForTokenClassification
    settings = {"is_split_into_words": True, "ignore_labels": []}
    does = "labels words"
    refuses = ("text_pair",)
    takes_words = True
    title = "Labels"

    def check(self) -> None:
        try:
            self.has_spans = tag_scheme_of(self.labels) == "spans"
        except ValueError:
            self.has_spans = False
        scheme = self.arguments.convert_scheme
        if scheme is not None and not self.has_spans:
            raise ValueError(
                f"convert_scheme is {scheme!r}, but the checkpoint labels single words, not spans; leave it out."
            )

    def items(self) -> Iterable[Item]:
        for words in map(self.tokenize, self.inputs):
            yield len(words) + 2, words, words

    def labels_of(self, found: Sequence[Mapping[str, Any]]) -> list[str]:
        labels, scheme = [word["entity"] for word in found], self.arguments.convert_scheme
        return labels if scheme is None else in_scheme(labels, scheme)

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        labels = self.labels_of(found)
        if self.has_spans:
            yield put_in_brackets(asked, read_any_spans(labels))
        else:
            yield " ".join(map("/".join, zip(asked, labels, strict=True)))

    def lines(self, predictions: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        for words, found in filter(all, predictions):
            yield from tagged_lines(words, self.labels_of(found))

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        for words, found in filter(all, predictions):
            labels = self.labels_of(found)
            of_words = [(label, place, place + 1) for place, label in enumerate(labels) if label != OUTSIDE]
            spans = read_any_spans(labels) if self.has_spans else of_words
            yield Passage(" ".join(words), marks_of_words(words, spans))


class TokenClassification(Task):
    """Tagging; it writes `validation_predictions.conll` and `test_predictions.conll` beside the rest.

    Attributes:
        tag_scheme: "spans" or "words", see `metrics.score_spans`.
        corpus_scheme: That of the data, where the model's labels are in another one, or where some break its rules.
    """

    name: ClassVar[str] = "token-classification"
    model_class = ElmoForTokenClassification
    head_class = TokenClassificationHead
    model_arguments = TaggerArguments
    data_arguments = TaggedDataArguments
    predictor_class = TokenPredictor
    scores = ("f1", "precision", "recall", "accuracy")

    tag_scheme: str
    corpus_scheme: str | None = None
    _note: str | None = None

    def load(self) -> dict[str, TaggedSentences]:
        args = self.data_args
        return read_splits(
            args,
            lambda file, name: read_tagged_file(file, args.word_column, args.label_column, name=name),
            lambda dataset, source: tagged_from_dataset(dataset, source, args.word_column, args.label_column),
        )

    def words_of(self, examples: TaggedSentences) -> Iterator[str]:
        return chain.from_iterable(examples.words)

    def settle(self, has_head: bool) -> None:
        """Tell how labels mark what they mark, and bring those of spans into the model's scheme where it has one."""
        asked, head = self.model_args.convert_scheme, self.head
        labels = {label for each in self.splits.values() for label in (*chain(*each.labels), *each.known_labels)}
        self.tag_scheme = "words" if self.data_args.tag_scheme == "words" else tag_scheme_of(labels)
        if self.tag_scheme == "words":
            if asked is not None:
                raise ValueError(f"convert_scheme is {asked!r}, but the labels mark no spans; leave it out.")
            head.scheme = None
        elif asked or head.scheme or head.output_layer == "crf":
            corpus, broken = find_scheme(self.splits.values())
            own = corpus if corpus in ("IOB1", "IOB2") else "BIOES"
            head.scheme = asked or (head.scheme if has_head else None) or own
            if broken or head.scheme != corpus:
                self.corpus_scheme = corpus
                self.splits = {split: to_scheme(its, head.scheme) for split, its in self.splits.items()}
            if broken:
                self._note = (
                    f"labels that break the rules of {corpus}: {len(broken):,} (the first: {broken[0]}); all are read "
                    "as conlleval reads them"
                )

    def count(self, split: str) -> dict[str, Any]:
        return {"sentences": len(self.splits[split])}

    def notes(self) -> Iterator[str | None]:
        return chain(super().notes(), [self._note])

    def encode(self, split: str) -> list[dict[str, Any]]:
        sentences, ids = self.splits[split], self.label_ids
        rows = encode_rows(self.tokenizer, sentences.source, sentences.words, is_split_into_words=True)
        for row, labels in zip(rows, sentences.labels, strict=True):
            row["labels"] = [IGNORED_LABEL, *(ids[label] for label in labels), IGNORED_LABEL]
        return rows

    def report(self, split: str, output: Any) -> tuple[dict[str, Any], Mapping[str, Iterable[str]]]:
        gold, predicted = (
            labels_of_words(ids, output.label_ids, self.all_labels) for ids in (output.label_ids, output.predictions)
        )
        if self.corpus_scheme:
            gold, predicted = ([in_scheme(row, self.corpus_scheme) for row in rows] for rows in (gold, predicted))
        scores = score_spans(predicted, gold, self.tag_scheme)
        lines = map(tagged_lines, self.splits[split].words, gold, predicted)
        results = {**{name: scores[f"overall_{name}"] for name in self.scores}, "entities": scores["by_type"]}
        return results, {".conll": chain.from_iterable(lines)}

    def describe_card(self) -> TaskCard:
        are_spans = self.tag_scheme == "spans"
        counted = "An entity counts where its type and both its ends are right, as conlleval counts."
        if self.corpus_scheme:
            counted += f" The model has labels of {self.head.scheme}, data and predictions of {self.corpus_scheme}."
        return self.make_card(
            what="A token classifier",
            tags=["token-classification"],
            code=f"""\
tagger = pipeline("token-classification", model="{{name}}", aggregation_strategy="{"simple" if are_spans else "none"}")
for entity in tagger("A sentence of words ."):
    print(entity)""",
            intended_use=["To mark the words of sentences with the labels below, in text like that it was trained on."],
            tables={"entities": "By type"},
            counts=["sentences", "words"],
            notes={"all": [counted if are_spans else "Each word counts by itself."]},
        )


def tagged_lines(words: Sequence[str], *labels: Sequence[str]) -> Iterator[str]:
    """The lines of a sentence: a word and its labels between tabs, and a blank one at the end.

    Tabs and line ends inside a word, which only a dataset can bring, are written as spaces.
    """
    for word, *cells in zip(words, *labels, strict=True):
        yield "\t".join([re.sub(r"[\t\r\n]", " ", word), *cells])
    yield ""


def in_scheme(labels: Sequence[str], scheme: str) -> list[str]:
    """The labels of a sentence in another scheme; what is ill-formed is read as the metric reads it."""
    letters = _IN_OTHER_LETTERS.get(scheme)
    written = write_spans(read_any_spans(labels), len(labels), "BIOES" if letters else scheme)
    return [label[0].translate(letters) + label[1:] for label in written] if letters else written


def to_scheme(sentences: TaggedSentences, scheme: str) -> TaggedSentences:
    """Sentences with labels in the scheme of a model, which shall know all of it for their types."""
    found = {*chain(*sentences.labels), *sentences.known_labels} - {OUTSIDE}
    known = labels_of(sorted({label[2:] for label in found}), scheme)
    labels = [in_scheme(row, scheme) for row in sentences.labels]
    return replace(sentences, labels=labels, known_labels=tuple(known))


def find_scheme(splits: Iterable[TaggedSentences]) -> tuple[str, list[str]]:
    """The scheme that fits the labels of all splits best, and each place where a label breaks its rules.

    CoNLL-2003 and CoNLL-2002 have such labels; they mark spans nevertheless, as conlleval and the metric read them.

    Raises: ValueError naming a label that marks a span of no type.
    """
    splits = list(splits)
    labels = {label for sentences in splits for label in chain(*sentences.labels)} - {OUTSIDE}
    if untyped := min((label for label in labels if not label[2:]), default=None):
        raise ValueError(
            f"{', '.join(sentences.source for sentences in splits)}: the label {untyped!r} has no type, as B-X has; "
            "give it one, or train without convert_scheme and with --head output_layer=softmax, which knows no schemes."
        )
    letters = {label[0] for label in labels}
    telling = {"BILOU": "LU", "BMES": "M", "BIOES": "ES"}
    candidates = [scheme for scheme, its in telling.items() if letters & {*its}][:1] or ["IOB2", "IOB1"]
    broken = {scheme: [place for sentences in splits for place in _broken(sentences, scheme)] for scheme in candidates}
    return min(broken.items(), key=lambda item: len(item[1]))


def _broken(sentences: TaggedSentences, scheme: str) -> Iterator[str]:
    """Where labels stand that the scheme has others for, and what they are."""
    for row, labels in enumerate(sentences.labels):
        for word, (label, right) in enumerate(zip(labels, in_scheme(labels, scheme), strict=True)):
            if label != right:
                yield f"{sentences.place(row, word)}: the label {label!r}, which is read as {right!r}"
