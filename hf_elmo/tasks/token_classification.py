"""The token classification task: tagged sentences in, a trained tagger, its scores and its predictions out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import numpy as np
from datasets import Dataset
from torch import nn
from transformers import DataCollatorForTokenClassification, PreTrainedTokenizer

from ..given.flags import flag
from ..hub.cards import TaskCard
from ..inference.pages import Passage, marks_of_words
from ..model.configuration_elmo import TokenClassificationHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_tasks import OUTSIDE, ElmoForTokenClassification, labels_of, write_spans
from ..pipelines import put_in_brackets
from .arguments import DatasetArguments, TaskArguments
from .data import read_splits
from .inputs import describe_inputs
from .metrics import read_any_spans, score_spans, tag_scheme_of
from .prediction import Item, Predictor
from .readers.columns import TaggedSentences, read_tagged_file, tagged_from_dataset
from .reports import RESULT_PREFIXES, by_type
from .task import LIMIT, Task

CorpusScheme = Literal["IOB1", "IOB2", "BIOES", "BILOU", "BMES"]

# These say the same as BIOES in other letters.
_IN_OTHER_LETTERS = {"BILOU": {"L": "E", "U": "S"}, "BMES": {"M": "I"}}


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
    tag_scheme: Literal["auto", "spans", "words"] = flag(
        "How labels mark entities: spans (B-, I- and their like), words (each word on its own, parts of "
        "speech for example), or auto to tell from the labels.",
        default="auto",
    )


class TokenPredictor(Predictor):
    """Labels of words, or the spans that they mark; asked are the words."""

    task = "token-classification"
    model_class = ElmoForTokenClassification
    settings = {"is_split_into_words": True, "ignore_labels": []}
    does = "labels words"
    refuses = ("text_pair",)
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
        return labels if scheme is None else write_spans(read_any_spans(labels), len(labels), scheme)

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        labels = self.labels_of(found)
        if self.has_spans:
            yield put_in_brackets(asked, read_any_spans(labels))
        else:
            yield " ".join(map("/".join, zip(asked, labels, strict=True)))

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> None:
        for words, found in predictions:
            if words:
                file.writelines(f"{line}\n" for line in tagged_lines(words, self.labels_of(found)))

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        for words, found in filter(all, predictions):
            labels = self.labels_of(found)
            if self.has_spans:
                yield Passage(" ".join(words), marks_of_words(words, read_any_spans(labels)))
                continue
            marks = marks_of_words(words, [(label, index, index + 1) for index, label in enumerate(labels)])
            scores = (f"{mark.label}, probability {each['score']:.3f}" for mark, each in zip(marks, found, strict=True))
            marks = [mark._replace(title=score) for mark, score in zip(marks, scores, strict=True)]
            yield Passage(" ".join(words), [mark for mark in marks if mark.label != OUTSIDE])


class TokenClassification(Task):
    """Tagging; it writes `validation_predictions.conll` and `test_predictions.conll` beside the rest.

    Attributes:
        tag_scheme: "spans" or "words", see `metrics.score_spans`.
        exchange: Between the scheme of the data and the one of the model; None where both are the same.
    """

    name: ClassVar[str] = "token-classification"
    model_class = ElmoForTokenClassification
    head_class = TokenClassificationHead
    model_arguments = TaggerArguments
    data_arguments = TaggedDataArguments
    predictor_class = TokenPredictor
    examples: ClassVar[str] = """
example:
  hf-elmo train token-classification --model_name_or_path CHECKPOINT --train_file train.conll \\
      --validation_file dev.conll --test_file test.conll --load_best_model_at_end --output_dir tagger
"""
    scores = ("f1", "precision", "recall", "accuracy")

    tag_scheme: str
    exchange: SchemeExchange | None = None
    _note: str | None = None

    def load(self) -> dict[str, TaggedSentences]:
        args = self.data_args
        splits = read_splits(
            args,
            lambda file, name: read_tagged_file(file, args.word_column, args.label_column, name=name),
            lambda dataset, source: tagged_from_dataset(dataset, source, args.word_column, args.label_column),
        )
        self._read_notes = [sentences.note for sentences in splits.values()]
        return splits

    def words_of(self, examples: TaggedSentences) -> Iterator[str]:
        return (word for words in examples.words for word in words)

    def settle(self, has_head: bool) -> None:
        self.tag_scheme = find_tag_scheme(self.splits, self.data_args)
        self.exchange, self._note = settle_scheme(
            self.head, self.splits.values(), self.tag_scheme, self.model_args.convert_scheme, has_head
        )
        if self.exchange is not None:
            self.splits = {split: self.exchange.to_model(sentences) for split, sentences in self.splits.items()}

    def draw_classifier(self, model: ElmoForTokenClassification) -> set[str]:
        drawn = super().draw_classifier(model)
        if model.crf is None:
            return drawn
        for scores in model.crf.parameters():
            nn.init.zeros_(scores)
        return {*drawn, "crf"}

    def describe_head(self, model: ElmoForTokenClassification) -> str:
        head, parts = self.head, []
        if not head.use_elmo or model.features.size or head.mix_at_output:
            parts.append(f"reads {describe_inputs(head)}")
        if model.crf is not None:
            parts.append(f"a CRF over {head.scheme or 'labels without a scheme'}")
        return "; ".join([*parts, super().describe_head(model)])

    def count(self, split: str) -> dict[str, Any]:
        return {"sentences": len(self.splits[split])}

    def notes(self) -> Iterator[str | None]:
        yield from [*self._read_notes, self._note]

    def encode(self, split: str) -> Dataset:
        return encode(self.splits[split], self.tokenizer, self.label_ids)

    def make_collator(self) -> DataCollatorForTokenClassification:
        return DataCollatorForTokenClassification(self.tokenizer, label_pad_token_id=IGNORED_LABEL)

    def score(self, output: Any) -> dict[str, float]:
        report = self._score(output)[0]
        return {name: report[f"overall_{name}"] for name in self.scores}

    def report(self, split: str, output: Any, directory: Path | None) -> dict[str, Any]:
        report, predicted, gold = self._score(output)
        if directory is not None:
            write_predictions(directory / f"{split}_predictions.conll", self.splits[split].words, gold, predicted)
        return {f"{RESULT_PREFIXES[split]}_entities": by_type(report)}

    def describe(self) -> dict[str, Any]:
        converted = {} if self.exchange is None else {"converted": asdict(self.exchange)}
        return {"tag_scheme": self.tag_scheme, **converted}

    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        are_spans = results["tag_scheme"] == "spans"
        counted = "An entity counts where its type and both its ends are right, as conlleval counts."
        return TaskCard(
            what="A token classifier",
            task_name="Token classification",
            tags=["token-classification"],
            pipeline_tag="token-classification",
            usage=f"""\
```python
import hf_elmo
from transformers import pipeline

tagger = pipeline("token-classification", model="{{name}}", aggregation_strategy="{"simple" if are_spans else "none"}")
for entity in tagger("A sentence of words ."):
    print(entity)
```""",
            intended_use=["To mark the words of sentences with the labels below, in text like that it was trained on."],
            limits=[LIMIT.format("sentences")],
            scores=list(self.scores),
            tables={"entities": "By type"},
            labels=self.labels,
            counts=["sentences", "words"],
            notes={"all": [counted if are_spans else "Each word counts by itself."]},
        )

    def _score(self, output: Any) -> tuple[dict[str, Any], list[list[str]], list[list[str]]]:
        """The scores of predictions, and what was predicted and what is right, as the data have it."""
        gold = self._labels_of(output.label_ids, output.label_ids)
        predicted = self._labels_of(output.predictions, output.label_ids)
        return score_spans(predicted, gold, self.tag_scheme), predicted, gold

    def _labels_of(self, label_ids: np.ndarray, gold_ids: np.ndarray) -> list[list[str]]:
        """The labels of the data for the ids (sentences, words) where there is a gold label, sentence by sentence."""
        names = self.all_labels
        labels = [
            [names[int(index)] for index in row[gold != IGNORED_LABEL]]
            for row, gold in zip(label_ids, gold_ids, strict=True)
        ]
        return labels if self.exchange is None else [self.exchange.to_corpus(row) for row in labels]


def find_tag_scheme(splits: dict[str, TaggedSentences], data_args: TaggedDataArguments) -> str:
    """Whether the labels mark spans or each word on its own; raises ValueError naming odd labels."""
    if data_args.tag_scheme == "words":
        return "words"
    labels = {label for sentences in splits.values() for row in sentences.labels for label in row}
    labels |= {label for sentences in splits.values() for label in sentences.known_labels}
    found = tag_scheme_of(labels)
    if data_args.tag_scheme == "spans" and found != "spans":
        raise ValueError(
            f"tag_scheme is 'spans', but the labels {sorted(labels)[:5]} have no prefix such as B-; pass 'words'."
        )
    return found


def encode(sentences: TaggedSentences, tokenizer: PreTrainedTokenizer, label2id: dict[str, int]) -> Dataset:
    """Turn tagged sentences into rows of `input_ids` (T, C), `attention_mask` (T) and `labels` (T).

    T counts the special tokens, whose label is -100.
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


def write_predictions(path: Path, *columns: Iterable[Sequence[str]]) -> None:
    """Write the words of each sentence and their labels between tabs, a blank line between sentences.

    Tabs and line ends inside a word, which only a dataset can bring, are written as spaces.

    Args:
        path: The file.
        columns: Of each sentence the words, then of each word gold and predicted label, or the label alone.
    """
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for sentence in zip(*columns, strict=True):
            file.write("".join(f"{line}\n" for line in tagged_lines(*sentence)))


def tagged_lines(words: Sequence[str], *labels: Sequence[str]) -> Iterator[str]:
    """The lines of a sentence: see `write_predictions`."""
    for word, *cells in zip(words, *labels, strict=True):
        yield "\t".join([re.sub(r"[\t\r\n]", " ", word), *cells])
    yield ""


@dataclass(frozen=True)
class SchemeExchange:
    """The labels of a corpus in the scheme of a model, and those of the model as the corpus has them.

    Args:
        corpus: That of the data.
        model: "IOB1", "IOB2" or "BIOES".
    """

    corpus: CorpusScheme
    model: str

    def to_model(self, sentences: TaggedSentences) -> TaggedSentences:
        """Sentences with the model's labels, of which it shall know all; read as the metric reads them."""
        labels = [self._write(row, self.model) for row in sentences.labels]
        found = {label for row in sentences.labels for label in row} | set(sentences.known_labels)
        known = labels_of(sorted({label[2:] for label in found if label != OUTSIDE}), self.model)
        return replace(sentences, labels=labels, known_labels=tuple(known))

    def to_corpus(self, labels: Sequence[str]) -> list[str]:
        """The labels of a sentence as the corpus has them; what is ill-formed is read as the metric reads it."""
        letters = {old: new for new, old in _IN_OTHER_LETTERS.get(self.corpus, {}).items()}
        written = self._write(labels, "BIOES" if letters else self.corpus)
        return [letters.get(label[0], label[0]) + label[1:] for label in written]

    def _write(self, labels: Sequence[str], scheme: str) -> list[str]:
        return write_spans(read_any_spans(labels), len(labels), scheme)


def find_scheme(splits: Iterable[TaggedSentences]) -> tuple[CorpusScheme, list[str]]:
    """The scheme that fits the labels of all splits best, and each place where a label breaks its rules.

    CoNLL-2003 and CoNLL-2002 have such labels; they mark spans nevertheless, as conlleval and the metric read them.

    Raises: ValueError naming a label that marks a span of no type.
    """
    splits = list(splits)
    labels = {label for sentences in splits for row in sentences.labels for label in row if label != OUTSIDE}
    untyped = sorted(label for label in labels if not label[2:])
    if untyped:
        raise ValueError(
            f"{', '.join(sentences.source for sentences in splits)}: the label {untyped[0]!r} has no type, as B-X has; "
            "give it one, or train without convert_scheme and with --head output_layer=softmax, which knows no schemes."
        )
    letters = {label[0] for label in labels}
    candidates: list[CorpusScheme]
    if letters & {"L", "U"}:
        candidates = ["BILOU"]
    elif "M" in letters:
        candidates = ["BMES"]
    else:
        candidates = ["BIOES"] if letters & {"E", "S"} else ["IOB2", "IOB1"]
    broken = {scheme: [place for sentences in splits for place in _broken(sentences, scheme)] for scheme in candidates}
    scheme = min(candidates, key=lambda candidate: len(broken[candidate]))
    return scheme, broken[scheme]


def settle_scheme(
    head: TokenClassificationHead,
    splits: Iterable[TaggedSentences],
    tag_scheme: str,
    asked: Literal["IOB1", "IOB2", "BIOES"] | None,
    has_classifier: bool,
) -> tuple[SchemeExchange | None, str | None]:
    """Set the scheme of a model's labels, and say what has to be done with those of the data.

    Args:
        head: Its `scheme` is set: to what is asked for, or to the checkpoint's where there is a classifier, or to the
            data's; to None for labels of words, and where nothing wants to know it.
        splits: The data.
        tag_scheme: "spans" or "words".
        asked: The scheme that is asked for.
        has_classifier: Whether the checkpoint has a classifier.
    Returns: What exchanges the labels, None where model and data have the same; and a line for the user that counts
        those that break the rules of the data's scheme, None where all keep them.
    Raises: ValueError naming convert_scheme where labels mark no spans, or a label without a type.
    """
    if tag_scheme == "words":
        if asked is not None:
            raise ValueError(f"convert_scheme is {asked!r}, but the labels mark no spans; leave it out.")
        head.scheme = None
        return None, None
    if asked is None and head.output_layer != "crf" and head.scheme is None:
        return None, None
    corpus, broken = find_scheme(splits)
    wanted = (
        asked
        or (head.scheme if has_classifier else None)
        or (corpus if corpus == "IOB1" or corpus == "IOB2" else "BIOES")
    )
    head.scheme = wanted
    if broken:
        count = "1 label breaks" if len(broken) == 1 else f"{len(broken):,} labels break"
        note = f"{count} the rules of {corpus} (the first: {broken[0]}); all are read as conlleval reads them"
        return SchemeExchange(corpus, wanted), note
    return (None if wanted == corpus else SchemeExchange(corpus, wanted)), None


def _broken(sentences: TaggedSentences, scheme: CorpusScheme) -> Iterator[str]:
    """Where labels stand that the scheme has others for, and what they are."""
    exchange = SchemeExchange(scheme, "BIOES")
    for row, labels in enumerate(sentences.labels):
        for word, (label, right) in enumerate(zip(labels, exchange.to_corpus(labels), strict=True)):
            if label != right:
                yield f"{sentences.place(row, word)}: the label {label!r}, which is read as {right!r}"
