"""The card of a labeller of semantic roles: its roles, its scores on held-out and test sentences, data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .task_card_parts import SPLITS, TaskCard, chosen_by, list_names, table_by_type

# What results.json calls the task, and the Hub's name of what is nearest to it.
TASK = "semantic-roles"
_HUB_TASK = "token-classification"

_SNIPPET = """\
```python
from hf_elmo.inference.role_labeller import ElmoRoleLabeller

labeller = ElmoRoleLabeller("{name}")
for frames in labeller.label([["Alice", "gave", "Bob", "a", "book", "."]], [[1]]):
    for frame in frames:
        print(frame.place, frame.tags)
```

The places of the predicates, `[[1]]`, are given{found}. Without the package, `AutoModel.from_pretrained("{name}", \
trust_remote_code=True)` loads the model, which wants `predicate_mask` beside what the tokenizer gives."""
_USE = "To say which words of a sentence are the arguments of a predicate, and in which role."
_LIMIT = "It knows the roles, the language, the domain and the biases of its training sentences and no others."
_SCORES = ("precision", "recall", "f1")


def describe_semantic_roles(name: str, fields: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    """What the card of a labeller of semantic roles says of its own; arguments as of `render_task_card`."""
    head = fields["head"]
    found = ", or left out for the model to find them" if head["find_predicates"] else ""
    return TaskCard(
        tags=[_HUB_TASK, "semantic-role-labeling"],
        task_name="Semantic role labelling",
        measured=_SCORES,
        what="A labeller of semantic roles",
        snippet=_SNIPPET.format(name=name, found=found),
        intended_use=_USE,
        limits=[_LIMIT],
        sections=[
            list_names("Roles", sorted({label[2:] for label in fields["id2label"].values() if label != "O"})),
            *_scores(results),
        ],
        seed_scores=_SCORES,
        counted=("sentences", "words", "predicates"),
        settings={
            "highway LSTMs": f"{head['num_layers']} x {head['hidden_size']}",
            "finds predicates": "yes" if head["find_predicates"] else "no",
        },
    )


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    for split, prefix in SPLITS.items():
        if f"{prefix}_f1" not in results:
            continue
        table = table_by_type(split, results[f"{prefix}_roles"], results, prefix)
        found = results.get(f"{prefix}_predicates")
        finder = (
            f" Predicates that the model finds itself: F1 {100 * found['f1']:.2f} of {found['number']:,}."
            if found
            else ""
        )
        yield (
            f"## Scores, {split}\n\n{table}\n\nBy the count of CoNLL-2005, predicates given: an argument counts where "
            f"its role and all its pieces are right; the predicate itself is left out.{finder}"
            f"{chosen_by(results, split)}"
        )
