"""The semantic role labeling task: sentences with predicates in, a trained labeler, its scores and roles out.

Letters in shapes: T words, the special tokens included, C characters per word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import torch
from torch.utils.data import Dataset

from ..hub.cards import TaskCard
from ..inference.pages import Passage, marks_of_words
from ..model.configuration_elmo import SemanticRoleLabelingHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_srl import ElmoForSemanticRoleLabeling
from ..model.modeling_elmo_tasks import labels_of, read_spans
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..pipelines import SEMANTIC_ROLES
from .data import read_splits
from .inputs import describe_inputs
from .metrics import score_matches, score_roles
from .prediction import Item, Predictor
from .readers.propositions import Predicate, Proposition, Propositions, proposition_lines, read_propositions
from .reports import RESULT_PREFIXES, by_type
from .task import Task

_SENTENCES_AT_A_TIME = 1000
_SCHEME = "IOB2"


class RolePredictor(Predictor):
    """The predicates of sentences, and their arguments."""

    task = SEMANTIC_ROLES
    model_class = ElmoForSemanticRoleLabeling
    does = "labels semantic roles"
    refuses = ("convert_scheme", "text_pair")
    title = "Semantic roles"

    def check(self) -> None:
        if self.model.finder is None:
            raise ValueError(
                f"model_name_or_path {self.arguments.model_name_or_path!r} does not find predicates; name one "
                "that was trained with --head find_predicates=true, or score a file that has them by "
                "hf-elmo train semantic-roles --test_file."
            )

    def items(self) -> Iterable[Item]:
        return ((len(words) + 2, {"text": words}, None) for words in map(self.tokenize, self.inputs))

    def show(self, asked: Any, found: Any) -> Iterable[str]:
        yield " ".join(found["words"])
        yield from (f"  {frame['description']}" for frame in found["frames"])

    def write(self, file: IO[str], predictions: Iterable[tuple[Any, Any]]) -> None:
        for _, found in predictions:
            words, frames = found["words"], found["frames"]
            if words:
                places = {frame["index"] for frame in frames}
                before = [[word, word if index in places else "-"] for index, word in enumerate(words)]
                sentence = Proposition(words, [], before, [[] for _ in words], 0)
                lines = proposition_lines(sentence, [frame["tags"] for frame in frames])
                file.writelines(f"{line}\n" for line in lines)

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        """The sentence once more for each of its predicates."""
        for words, frames in ((found["words"], found["frames"]) for _, found in predictions):
            for frame in frames:
                marks = marks_of_words(words, read_spans(frame["tags"], _SCHEME))
                yield Passage(" ".join(words), marks, [frame["predicate"]])
            if words and not frames:
                yield Passage(" ".join(words), notes=["no predicates"])


class SemanticRoles(Task):
    """Semantic roles; `test_predictions.conll` and its like have the columns of the data.

    Attributes:
        rows: The rows of each split.
    """

    name: ClassVar[str] = "semantic-roles"
    model_class = ElmoForSemanticRoleLabeling
    head_class = SemanticRoleLabelingHead
    predictor_class = RolePredictor
    examples: ClassVar[str] = """
example:
  hf-elmo train semantic-roles --model_name_or_path CHECKPOINT --train_file train.tsv --validation_file dev.tsv \\
      --test_file test.tsv --head find_predicates=true --load_best_model_at_end --output_dir roles
"""
    scores = ("f1", "precision", "recall")

    rows: dict[str, PropositionRows]

    def load(self) -> dict[str, Propositions]:
        splits = read_splits(self.data_args, read_propositions)
        for propositions in splits.values():
            if not propositions.num_predicates:
                raise ValueError(f"{propositions.source} has no predicates; give a file with their columns.")
        return splits

    def choose_labels(self, known: Sequence[str] | None) -> list[str]:
        """The checkpoint's tags where it knows all roles or nothing is trained; else all of the data's, as AllenNLP."""
        wanted = labels_of(sorted({role for its in self.splits.values() for role in its.roles}), _SCHEME)
        if known is not None and ("train" not in self.splits or set(wanted) <= set(known)):
            return list(known)
        return wanted

    def words_of(self, examples: Propositions) -> Iterator[str]:
        return (word for sentence in examples.sentences for word in sentence.words)

    def describe_head(self, model: ElmoForSemanticRoleLabeling) -> str:
        head = self.head
        finds = "; finds predicates" if head.find_predicates else ""
        reads = f"{head.num_layers} highway LSTMs of {head.hidden_size}, reads {describe_inputs(head)}{finds}"
        return f"{reads}; {len(self.labels)} tags."

    def count(self, split: str) -> dict[str, Any]:
        propositions = self.splits[split]
        return {"sentences": len(propositions), "predicates": propositions.num_predicates}

    def encode(self, split: str) -> PropositionRows:
        finds_predicates = self.model.finder is not None
        rows = PropositionRows(self.splits[split], self.tokenizer, self.label_ids, finds_predicates)
        self.rows = {**getattr(self, "rows", {}), split: rows}
        return rows

    def make_collator(self) -> Any:
        return make_row_collator(self.tokenizer.padding_side)

    def keep(self, logits: Any, labels: torch.Tensor) -> Any:
        if isinstance(logits, torch.Tensor):
            return self.model.decode_words(logits, labels != IGNORED_LABEL)
        scores, predicate_logits = logits
        return self.model.decode_words(scores, labels != IGNORED_LABEL), (predicate_logits > 0).long()

    def score(self, output: Any) -> dict[str, float]:
        report, _ = self._score(output)
        return {name: report[f"overall_{name}"] for name in self.scores}

    def report(self, split: str, output: Any, directory: Path | None) -> dict[str, Any]:
        report, predicted = self._score(output)
        if directory is not None:
            write_predictions(directory / f"{split}_predictions.conll", self.splits[split], predicted)
        prefix = RESULT_PREFIXES[split]
        results: dict[str, Any] = {f"{prefix}_roles": by_type(report)}
        if isinstance(output.predictions, tuple):
            found = self._score_predicates(split, output.predictions[1], output.label_ids)
            results[f"{prefix}_predicates"] = found
        return results

    def describe_card(self, results: Mapping[str, Any]) -> TaskCard:
        found = ", or left out for the model to find them" if self.head.find_predicates else ""
        notes = {
            "all": [
                "By the count of CoNLL-2005, predicates given: an argument counts where its role and all its pieces "
                "are right; the predicate itself is left out."
            ]
        }
        for split, prefix in RESULT_PREFIXES.items():
            if f"{prefix}_predicates" in results:
                figures = results[f"{prefix}_predicates"]
                notes[split] = [
                    f"Predicates that the model finds itself: F1 {100 * figures['f1']:.2f} of {figures['number']:,}."
                ]
        return TaskCard(
            what="A labeler of semantic roles",
            task_name="Semantic role labeling",
            tags=["token-classification", "semantic-role-labeling"],
            pipeline_tag="token-classification",
            usage=f"""\
```python
import hf_elmo
from transformers import pipeline

labeler = pipeline("semantic-role-labeling", model="{{name}}")
for frame in labeler({{"text": ["Alice", "gave", "Bob", "a", "book", "."], "predicates": [1]}})["frames"]:
    print(frame["predicate"], frame["tags"], frame["description"])
```

The indices of the `predicates` are given{found}. Without the package, `AutoModel.from_pretrained("{{name}}", \
trust_remote_code=True)` loads the model, which wants `predicate_mask` beside what the tokenizer gives.""",
            intended_use=["To say which words of a sentence are the arguments of a predicate, and in which role."],
            limits=[
                "It knows the roles, the language, the domain and the biases of its training sentences and no others."
            ],
            scores=list(self.scores),
            tables={"roles": "By role"},
            labels=sorted({label[2:] for label in self.labels if label != "O"}),
            labels_title="Roles",
            counts=["sentences", "words", "predicates"],
            notes=notes,
        )

    def _score(self, output: Any) -> tuple[dict[str, Any], list[list[str]]]:
        """The scores of the arguments, and the tags that were predicted."""
        tags = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
        predicted = self._tags_of(tags, output.label_ids)
        return score_roles(predicted, self._tags_of(output.label_ids, output.label_ids)), predicted

    def _tags_of(self, label_ids: np.ndarray, gold_ids: np.ndarray) -> list[list[str]]:
        """The tags of each predicate's sentence, of ids (rows, words), where there is a gold one."""
        names = self.all_labels
        return [
            [names[int(index)] for index in row[gold != IGNORED_LABEL]]
            for row, gold in zip(label_ids, gold_ids, strict=True)
            if (gold != IGNORED_LABEL).any()
        ]

    def _score_predicates(self, split: str, is_found: np.ndarray, gold_ids: np.ndarray) -> dict[str, float]:
        """Precision, recall and F1 of the predicates that were found (rows, words), each sentence counted once."""
        right = predicted = gold = 0
        seen: set[int] = set()
        for (place, _), found, labels in zip(self.rows[split].places, is_found, gold_ids, strict=True):
            if place in seen:
                continue
            seen.add(place)
            # A row without predicates has no labels, and nothing that is found in it is right.
            words = np.flatnonzero(found[labels != IGNORED_LABEL])
            wanted = {predicate.place for predicate in self.splits[split].sentences[place].predicates}
            right += len(wanted.intersection(words.tolist()))
            # Behind the words predictions are padded by -100.
            predicted += int((found == 1).sum())
            gold += len(wanted)
        return score_matches(right, predicted, gold)


def write_predictions(path: Path, propositions: Propositions, predicted: Sequence[Sequence[str]]) -> None:
    """Write sentences in the columns of their file, with the predicted arguments in place of the gold ones.

    Args:
        path: The file.
        propositions: The sentences.
        predicted: The tags of each predicate of each sentence, one after another.
    """
    tags: Iterator[Sequence[str]] = iter(predicted)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for sentence in propositions.sentences:
            own = [_with_predicate(next(tags), predicate) for predicate in sentence.predicates]
            file.writelines(f"{line}\n" for line in proposition_lines(sentence, own))


def _with_predicate(tags: Sequence[str], predicate: Predicate) -> list[str]:
    """Tags with the V of a predicate that is given, without which a file of CoNLL-2012 cannot be read again."""
    kept, place = list(tags), predicate.place
    if predicate.tags[place] == "B-V" != kept[place]:
        kept[place] = "B-V"
        if kept[place + 1 : place + 2] and kept[place + 1].startswith("I-"):
            kept[place + 1] = f"B{kept[place + 1][1:]}"
    return kept


class PropositionRows(Dataset):
    """A row for each predicate; the characters of a sentence are held once for all of its predicates.

    A row has `input_ids` (T, C), `attention_mask` (T,), `predicate_mask` (T,) and `labels` (T,), which are -100 at the
    special tokens.

    Args:
        propositions: The sentences.
        tokenizer: Makes the characters' ids.
        label2id: The ids of all tags.
        with_all_predicates: Whether a row also has `all_predicates` (T,), those of its sentence, and sentences
            without any have a row too, whose labels are all -100.

    Attributes:
        places: Of each row its sentence and its predicate there; None for a row without.
    """

    def __init__(
        self,
        propositions: Propositions,
        tokenizer: ElmoCharTokenizer,
        label2id: Mapping[str, int],
        with_all_predicates: bool,
    ):
        self._sentences = propositions.sentences
        self._label2id = label2id
        self._with_all_predicates = with_all_predicates
        self._characters: list[np.ndarray] = []
        words = [sentence.words for sentence in self._sentences]
        for start in range(0, len(words), _SENTENCES_AT_A_TIME):
            encoded = tokenizer(words[start : start + _SENTENCES_AT_A_TIME], is_split_into_words=True)
            self._characters += [np.asarray(rows, dtype=np.int32) for rows in encoded["input_ids"]]
        self.places: list[tuple[int, int | None]] = []
        for place, sentence in enumerate(self._sentences):
            numbers: Sequence[int | None] = range(len(sentence.predicates))
            if with_all_predicates and not sentence.predicates:
                numbers = [None]
            self.places += [(place, number) for number in numbers]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        place, number = self.places[index]
        sentence, characters = self._sentences[place], self._characters[place]
        length = len(characters)
        row = {
            "input_ids": characters,
            "attention_mask": np.ones(length, dtype=np.int64),
            "predicate_mask": np.zeros(length, dtype=np.int64),
            "labels": np.full(length, IGNORED_LABEL, dtype=np.int64),
        }
        if number is not None:
            predicate = sentence.predicates[number]
            row["predicate_mask"][1 + predicate.place] = 1
            row["labels"][1:-1] = [self._label2id[tag] for tag in predicate.tags]
        if self._with_all_predicates:
            row["all_predicates"] = np.zeros(length, dtype=np.int64)
            row["all_predicates"][[1 + predicate.place for predicate in sentence.predicates]] = 1
        return row


def make_row_collator(padding_side: str) -> Callable[[list[dict[str, Any]]], dict[str, torch.Tensor]]:
    """What makes a batch of rows, padded on this side by zeros, labels by -100."""

    def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        longest = max(len(row["input_ids"]) for row in rows)
        batch = {}
        for name, first in rows[0].items():
            filler = IGNORED_LABEL if name == "labels" else 0
            padded = torch.full((len(rows), longest, *first.shape[1:]), filler, dtype=torch.long)
            for target, row in zip(padded, rows, strict=True):
                length = len(row[name])
                start = longest - length if padding_side == "left" else 0
                target[start : start + length] = torch.from_numpy(row[name])
            batch[name] = padded
        return batch

    return collate
