"""The semantic role labeling task: sentences with predicates in, a trained labeler, its scores and roles out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

from ..hub.cards import TaskCard
from ..inference.pages import Passage, marks_of_words
from ..model.configuration_elmo import SemanticRoleLabelingHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_srl import ElmoForSemanticRoleLabeling
from ..model.modeling_elmo_tasks import OUTSIDE, labels_of, read_spans
from ..pipelines import SEMANTIC_ROLES
from .data import encode_rows, labels_of_words, read_splits
from .metrics import score_matches, score_roles
from .prediction import Item, Predictor
from .readers.propositions import Predicate, Proposition, Propositions, proposition_lines, read_propositions
from .task import Task

_SCHEME = "IOB2"


class RolePredictor(Predictor):
    """The predicates of sentences, and their arguments."""

    task = SEMANTIC_ROLES
    model_class = ElmoForSemanticRoleLabeling
    does = "labels semantic roles"
    refuses = ("convert_scheme", "text_pair")
    takes_words = True
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

    def lines(self, predictions: Iterable[tuple[Any, Any]]) -> Iterator[str]:
        for words, frames in ((found["words"], found["frames"]) for _, found in predictions):
            if words:
                places = {frame["index"] for frame in frames}
                before = [[word, word if index in places else "-"] for index, word in enumerate(words)]
                sentence = Proposition(words, [], before, [[] for _ in words], 0)
                yield from proposition_lines(sentence, [frame["tags"] for frame in frames])

    def draw(self, predictions: Sequence[tuple[Any, Any]]) -> Iterable[Passage]:
        """The sentence once more for each of its predicates."""
        for words, frames in ((found["words"], found["frames"]) for _, found in predictions):
            for frame in frames:
                marks = marks_of_words(words, read_spans(frame["tags"], _SCHEME))
                yield Passage(" ".join(words), marks, [frame["predicate"]])
            if words and not frames:
                yield Passage(" ".join(words), notes=["no predicates"])


class SemanticRoles(Task):
    """Semantic roles; `test_predictions.conll` and its like have the columns of the data."""

    name: ClassVar[str] = "semantic-roles"
    model_class = ElmoForSemanticRoleLabeling
    head_class = SemanticRoleLabelingHead
    predictor_class = RolePredictor
    scores = ("f1", "precision", "recall")

    def settle(self, has_head: bool) -> None:
        if self.head.find_predicates:
            # The Trainer hands them to whoever scores beside the predictions.
            self.training_args.label_names = ["labels", "all_predicates", "predicate_mask"]

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
        return chain.from_iterable(sentence.words for sentence in examples.sentences)

    def count(self, split: str) -> dict[str, Any]:
        propositions = self.splits[split]
        return {"sentences": len(propositions), "predicates": propositions.num_predicates}

    def encode(self, split: str) -> list[dict[str, Any]]:
        """A row for each predicate, with the characters of its sentence, which are held once for all of them.

        Where the model finds predicates a row also has `all_predicates`, those of its sentence, and sentences without
        any have a row too, whose labels are all -100.
        """
        propositions, ids, rows = self.splits[split], self.label_ids, []
        words = [sentence.words for sentence in propositions.sentences]
        encoded = encode_rows(self.tokenizer, propositions.source, words, is_split_into_words=True)
        for sentence, shared in zip(propositions.sentences, encoded, strict=True):
            none = Predicate(-1, [])
            for predicate in sentence.predicates or [none] * (self.model.finder is not None):
                labels = [ids[tag] for tag in predicate.tags] or [IGNORED_LABEL] * len(sentence.words)
                row = {**shared, "labels": [IGNORED_LABEL, *labels, IGNORED_LABEL]}
                row["predicate_mask"] = _marks(sentence, [predicate])
                if self.model.finder is not None:
                    row["all_predicates"] = _marks(sentence, sentence.predicates)
                rows.append(row)
        return rows

    def keep(self, logits: Any, labels: Any) -> Any:
        if self.model.finder is None:
            return self.model.decode_words(logits, labels != IGNORED_LABEL)
        scores, predicate_logits = logits
        return self.model.decode_words(scores, labels[0] != IGNORED_LABEL), (predicate_logits > 0).long()

    def report(self, split: str, output: Any) -> tuple[dict[str, Any], Mapping[str, Iterable[str]]]:
        ids, labels, tables = output.predictions, output.label_ids, dict[str, Any]()
        if self.model.finder is not None:
            (ids, found), (labels, given, own) = ids, labels
            # Each sentence counts once, by the row of its first predicate. Behind the words all are padded by -100.
            is_first = own.argmax(axis=1) == given.argmax(axis=1)
            found, given = found[is_first] == 1, given[is_first] == 1
            counts = score_matches(int((found & given).sum()), int(found.sum()), int(given.sum()))
            tables["predicates"] = {"predicates": counts}
        gold, predicted = (
            # A sentence without predicates has no labels.
            [tags for tags in labels_of_words(each, labels, self.all_labels) if tags]
            for each in (labels, ids)
        )
        scores = score_roles(predicted, gold)
        results = {**{name: scores[f"overall_{name}"] for name in self.scores}, "roles": scores["by_type"], **tables}
        return results, {".conll": predicted_lines(self.splits[split], predicted)}

    def describe_card(self) -> TaskCard:
        finds = self.model.finder is not None
        found = ", or left out for the model to find them" if finds else ""
        return self.make_card(
            what="A labeler of semantic roles",
            tags=["token-classification", "semantic-role-labeling"],
            code=f"""\
labeler = pipeline("semantic-role-labeling", model="{{name}}")
# The indices of the predicates are given{found}.
for frame in labeler({{"text": ["Alice", "gave", "Bob", "a", "book", "."], "predicates": [1]}})["frames"]:
    print(frame["predicate"], frame["tags"], frame["description"])""",
            intended_use=["To say which words of a sentence are the arguments of a predicate, and in which role."],
            tables={"roles": "By role", **({"predicates": "Predicates that the model finds itself"} if finds else {})},
            labels=sorted({label[2:] for label in self.labels if label != OUTSIDE}),
            labels_title="Roles",
            counts=["sentences", "words", "predicates"],
            notes={
                "all": [
                    "By the count of CoNLL-2005, predicates given: an argument counts where its role and all its "
                    "pieces are right; the predicate itself is left out."
                ]
            },
        )


def predicted_lines(propositions: Propositions, predicted: Iterable[Sequence[str]]) -> Iterator[str]:
    """Sentences in the columns of their file, with the predicted tags of each predicate in place of the gold ones."""
    tags = iter(predicted)
    for sentence in propositions.sentences:
        yield from proposition_lines(sentence, [_with_predicate(next(tags), each) for each in sentence.predicates])


def _with_predicate(tags: Sequence[str], predicate: Predicate) -> list[str]:
    """Tags with the V of a predicate that is given, without which a file of CoNLL-2012 cannot be read again."""
    kept, place = list(tags), predicate.place
    if predicate.tags[place] == "B-V" != kept[place]:
        kept[place] = "B-V"
        if kept[place + 1 : place + 2] and kept[place + 1].startswith("I-"):
            kept[place + 1] = f"B{kept[place + 1][1:]}"
    return kept


def _marks(sentence: Proposition, predicates: Iterable[Predicate]) -> list[int]:
    """1 for each word that is one of these predicates, of a sentence with its special tokens."""
    places = {predicate.place for predicate in predicates}
    return [0, *(int(place in places) for place in range(len(sentence.words))), 0]
