"""The semantic role labelling task: sentences with predicates in, a trained labeller, its scores and roles out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError

from ..model.configuration_elmo import ElmoConfig, SemanticRoleLabelingHead
from ..model.modeling_elmo import IGNORED_LABEL
from ..model.modeling_elmo_srl import ElmoForSemanticRoleLabeling
from ..model.modeling_elmo_tasks import labels_of
from .card_facts import describe_inputs
from .data_sources import name_file
from .features import check_features, check_table, set_word_inputs
from .fine_tuning import RESULT_PREFIXES, FineTuning
from .layer_cache import make_layer_cache
from .metrics.semantic_roles import SemanticRoleMetric
from .proposition_rows import PropositionRows, make_row_collator
from .readers.propositions import Predicate, Propositions, proposition_lines, read_propositions
from .run_checks import check_files, check_run, tell
from .score_tables import by_type, span_score_lines
from .semantic_roles_arguments import PropositionArguments, RoleArguments
from .splits import choose_splits, hold_out, share_of, shorten
from .training_arguments import TaskTrainingArguments
from .unseen_labels import find_unseen, leave_out_unseen
from .weights import (
    describe_model,
    is_random,
    load_source_config,
    load_tokenizer,
    set_model_fields,
    start_model,
)

# What results.json calls the task.
TASK = "semantic-roles"
# Settings of the head that have flags of their own.
_HEAD_FLAGS = ("hidden_size", "num_layers", "predicate_size", "dropout", "recurrent_dropout")
_SCHEME = "IOB2"


@dataclass
class SemanticRolesTask(FineTuning):
    """Semantic roles, checked and ready to run; `test_predictions.conll` and its like have the columns of the data."""

    model: ElmoForSemanticRoleLabeling
    splits: dict[str, Propositions]
    rows: dict[str, PropositionRows] = field(default_factory=dict, init=False)
    # Gold tags that the model does not know; their ids come behind those of its own.
    unseen_labels: list[str] = field(default_factory=list)

    shown_scores: ClassVar[tuple[str, ...]] = ("precision", "recall", "f1")
    best_score: ClassVar[str] = "f1"

    def encode(self, split: str) -> PropositionRows:
        finds_predicates = self.model.finder is not None
        id_of_label = {label: index for index, label in enumerate(self.all_labels)}
        self.rows[split] = PropositionRows(self.splits[split], self.tokenizer, id_of_label, finds_predicates)
        return self.rows[split]

    def make_collator(self) -> Any:
        return make_row_collator(self.tokenizer.padding_side)

    def keep(self, logits: Any, labels: torch.Tensor) -> Any:
        if isinstance(logits, torch.Tensor):
            return self.model.decode_words(logits, labels != IGNORED_LABEL)
        scores, predicate_logits = logits
        return self.model.decode_words(scores, labels != IGNORED_LABEL), (predicate_logits > 0).long()

    def score(self, output: Any) -> dict[str, float]:
        tags = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
        report = self._compute(self._tags_of(tags, output.label_ids), self._tags_of(output.label_ids, output.label_ids))
        return {name: report[f"overall_{name}"] for name in self.shown_scores}

    def report(self, split: str, output: Any, directory: Path | None) -> tuple[dict[str, Any], str]:
        found = isinstance(output.predictions, tuple)
        tags = output.predictions[0] if found else output.predictions
        predicted = self._tags_of(tags, output.label_ids)
        report = self._compute(predicted, self._tags_of(output.label_ids, output.label_ids))
        if directory is not None:
            write_predictions(directory / f"{split}_predictions.conll", self.splits[split], predicted)
        prefix = RESULT_PREFIXES[split]
        results: dict[str, Any] = {f"{prefix}_roles": by_type(report)}
        title = f"{split} ({self.splits[split].source}), predicates given"
        lines = "\n".join(span_score_lines(title, report))
        if found:
            scores = self._score_predicates(split, output.predictions[1], output.label_ids)
            results[f"{prefix}_predicates"] = scores
            in_percent = ", ".join(f"{name} {100 * scores[name]:.2f}" for name in ("precision", "recall", "f1"))
            lines += f"\npredicates that it finds: {in_percent}"
        return results, lines

    @property
    def all_labels(self) -> list[str]:
        """The tags in the order of their ids, those that the model does not know behind its own."""
        return [*self.model.config.label_names, *self.unseen_labels]

    def describe(self) -> dict[str, Any]:
        return {"task": TASK, **({"unseen_labels": self.unseen_labels} if self.unseen_labels else {})}

    def reads_often(self) -> bool:
        # A sentence is read once for each of its predicates, in one epoch and without training too.
        return self.model.uses_elmo and self.model.config.freeze_bilm

    def _compute(self, predicted: list[list[str]], gold: list[list[str]]) -> dict[str, Any]:
        return SemanticRoleMetric(keep_in_memory=True).compute(predictions=predicted, references=gold)

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
        return {
            "precision": right / predicted if predicted else 0.0,
            "recall": right / gold if gold else 0.0,
            "f1": 2 * right / (predicted + gold) if right else 0.0,
            "number": gold,
        }


def prepare_task(
    model_args: RoleArguments, data_args: PropositionArguments, training_args: TaskTrainingArguments
) -> SemanticRolesTask:
    """Check everything that can be wrong with the arguments and the data, and build the model.

    Nothing is written. Once this has returned, an error is one of the machine or of this package.

    Raises: ValueError, FileNotFoundError or FileExistsError naming the argument, the value got and what to do.
    """
    check_run(model_args, data_args, training_args)
    check_features(model_args)
    check_files(data_args)
    splits = {split: read_propositions(file, f"{split}_file") for split, file in data_args.files.items()}
    splits = choose_splits(hold_out(splits, data_args), training_args)
    config, has_classifier = load_architecture(model_args)
    layer_cache = make_layer_cache(model_args, config)
    tokenizer = load_tokenizer(model_args, config)
    known = config.label_names if has_classifier else None
    labels = _choose_labels(splits, known)
    splits = shorten(splits, data_args)
    unseen, warning = find_unseen(splits, labels)
    for propositions in splits.values():
        if not propositions.num_predicates:
            raise ValueError(f"{propositions.source} has no predicates; give a file with their columns.")
    words = {split: [word for sentence in its.sentences for word in sentence.words] for split, its in splits.items()}
    others = [word for split, its in words.items() if split != "train" for word in its]
    table = set_word_inputs(config, SemanticRoleLabelingHead, model_args, tokenizer, words.get("train", []), others)
    check_table(config, table, is_random(model_args))
    training_args.settle_sampling(model_args.group_by_length)
    data = {
        split: {
            "source": name_file(data_args, split),
            **share_of(split, data_args),
            "sentences": len(propositions),
            "words": len(words[split]),
            "predicates": propositions.num_predicates,
        }
        for split, propositions in splits.items()
    }
    tell(training_args, [], [warning])
    build = partial(build_model, model_args, config, labels, labels == known)
    return SemanticRolesTask.start(
        leave_out_unseen(build) if unseen else build,
        *(table, model_args, training_args, tokenizer, splits, data, layer_cache),
        unseen_labels=unseen,
    )


def load_architecture(model_args: RoleArguments) -> tuple[ElmoConfig, bool]:
    """The config that the arguments name, with the task's own head, and whether a classifier comes along.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    config = load_source_config(model_args)
    name = ElmoForSemanticRoleLabeling.__name__
    has_classifier = not is_random(model_args) and name in (config.architectures or [])
    given = {name: getattr(model_args, name) for name in _HEAD_FLAGS if getattr(model_args, name) is not None}
    if model_args.find_predicates:
        given["find_predicates"] = True
    try:
        set_model_fields(config, model_args)
        config.head = replace(config.require_head(SemanticRoleLabelingHead), **given)
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(str(error.__cause__ or error)) from error
    return config, has_classifier


def build_model(
    model_args: RoleArguments,
    config: ElmoConfig,
    labels: Sequence[str],
    keep_classifier: bool = False,
) -> tuple[ElmoForSemanticRoleLabeling, str]:
    """Make the labeller, in float32, and describe it in one line.

    Args:
        model_args: Where its weights come from.
        config: Its architecture.
        labels: Its tags, in the order of their ids.
        keep_classifier: Whether the checkpoint's classifier has just these tags; else a new one is drawn.
    Raises: FileNotFoundError or ValueError where the weights are not there or not those of a biLM of this architecture.
    """
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}

    def redraw(model: ElmoForSemanticRoleLabeling) -> set[str]:
        model.classifier = torch.nn.Linear(model.classifier.in_features, len(labels))
        model._init_weights(model.classifier)
        return {"classifier"}

    model, origin = start_model(ElmoForSemanticRoleLabeling, model_args, config, None if keep_classifier else redraw)
    head = config.require_head(SemanticRoleLabelingHead)
    finds = "; finds predicates" if head.find_predicates else ""
    reads = f"{head.num_layers} highway LSTMs of {head.hidden_size}, reads {describe_inputs(head.to_dict())}{finds}"
    return model, f"{describe_model(model, config, origin)}; {reads}; {len(labels)} tags."


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


def _choose_labels(splits: Mapping[str, Propositions], known: Sequence[str] | None) -> list[str]:
    """The tags of the model: the checkpoint's where it knows all roles, else those of all data, as in AllenNLP.

    Raises: ValueError where there is neither training data nor a checkpoint's classifier.
    """
    wanted = labels_of(sorted({role for propositions in splits.values() for role in propositions.roles}), _SCHEME)
    if "train" in splits and not (known is not None and set(wanted) <= set(known)):
        return wanted
    if known is None:
        raise ValueError(
            "do_train is off, but the checkpoint has no labeller of semantic roles to evaluate; name one that has with "
            "--model_name_or_path, or give training data."
        )
    return list(known)
