"""A toy task, whether a word begins with a capital letter: the second of the two files that a new task consists of."""

from pathlib import Path
from typing import ClassVar

import numpy as np
from capitals_model import ElmoForCapitals

from hf_elmo import TokenClassificationHead
from hf_elmo.inference.pages import Passage
from hf_elmo.model.modeling_elmo_tasks import Span
from hf_elmo.pipelines import put_in_brackets
from hf_elmo.tasks.data import encode_rows, read_splits
from hf_elmo.tasks.prediction import Predictor
from hf_elmo.tasks.task import Task


class Sentences(list):
    """One part of a corpus of sentences, which are lists of words."""

    source, note = "here", None

    def text(self, index):
        return " ".join(self[index])

    def pick(self, indices):
        return Sentences(self[index] for index in indices)


class CapitalsPredictor(Predictor):
    task = "token-classification"
    model_class = ElmoForCapitals
    settings: ClassVar[dict] = {"is_split_into_words": True, "ignore_labels": []}
    does = "finds capitals"
    refuses = ("text_pair", "convert_scheme")
    title = "Capitals"

    def items(self):
        return ((len(words) + 2, words, words) for words in map(str.split, self.inputs))

    def show(self, asked, found):
        capitals = (index for index, word in enumerate(found) if word["entity"] == "LABEL_1")
        yield put_in_brackets(asked, [Span("A", index, index + 1) for index in capitals])

    def lines(self, predictions):
        return (line for prediction in predictions for line in self.show(*prediction))

    def draw(self, predictions):
        return [Passage(" ".join(words)) for words, _ in predictions]


class Capitals(Task):
    """Whether a word begins with a capital letter, from sentences that are lists of words."""

    name: ClassVar[str] = "capitals"
    model_class = ElmoForCapitals
    head_class = TokenClassificationHead
    predictor_class = CapitalsPredictor
    scores: ClassVar[tuple[str, ...]] = ("share_right",)
    has_labels = False

    def load(self):
        return read_splits(
            self.data_args, lambda file, name: Sentences(map(str.split, Path(file).read_text().splitlines()))
        )

    def words_of(self, examples):
        return [word for words in examples for word in words]

    def encode(self, split):
        sentences = self.splits[split]
        rows = encode_rows(self.tokenizer, "sentences", sentences, is_split_into_words=True)
        labels = [[-100, *(int(word[0].isupper()) for word in words), -100] for words in sentences]
        return [{**row, "labels": row_labels} for row, row_labels in zip(rows, labels, strict=True)]

    def report(self, split, output):
        counted = output.label_ids != -100
        right = float(np.mean(output.predictions[counted] == output.label_ids[counted]))
        return {"share_right": right, "looked_at": split}, {".txt": [str(output.predictions.shape[0])]}

    def describe_card(self):
        return self.make_card(
            what="A finder of capitals",
            tags=["capitals"],
            pipeline_tag=None,
            code="print({name})",
            intended_use=["To find capitals."],
        )
