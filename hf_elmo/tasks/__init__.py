"""The tasks: a line for each, from which `hf-elmo train`, `hf-elmo predict`, results, cards and exports know it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .task import Task


class TaskEntry(NamedTuple):
    """Where a task is, for what is slow to import."""

    module: str  # with a dot before the name one of this folder
    name: str  # of its class
    architecture: str  # the class of its models, as config.json names it
    what: str  # it trains

    def load(self) -> type[Task]:
        return getattr(importlib.import_module(self.module, __name__), self.name)


TASKS = {
    "token-classification": TaskEntry(
        ".token_classification", "TokenClassification", "ElmoForTokenClassification", "a token classifier"
    ),
    "text-classification": TaskEntry(
        ".text_classification",
        "TextClassification",
        "ElmoForSequenceClassification",
        "a classifier of texts or of pairs of texts",
    ),
    "question-answering": TaskEntry(
        ".question_answering",
        "QuestionAnswering",
        "ElmoForQuestionAnswering",
        "a model that answers questions by pieces of a context",
    ),
    "coreference": TaskEntry(
        ".coreference", "Coreference", "ElmoForCoreferenceResolution", "coreference resolution in documents"
    ),
    "semantic-roles": TaskEntry(
        ".semantic_roles", "SemanticRoles", "ElmoForSemanticRoleLabeling", "a labeler of semantic roles"
    ),
}


def task_of(architectures: Iterable[str]) -> TaskEntry | None:
    """The task whose models are of one of these classes, if there is any."""
    names = set(architectures)
    return next((entry for entry in TASKS.values() if entry.architecture in names), None)
