"""The card of a labeller of semantic roles: its roles, its scores on held-out and test sentences, data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import card_parts, task_card_parts
from .facts import Facts
from .tables import markdown_table

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


def render_semantic_roles_card(
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    shares_plot: str | None = None,
) -> str:
    """The card of a labeller of semantic roles, in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config, `id2label` among them.
        results: What training, evaluation and prediction gave, as in results.json.
        facts: What else is known.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
        shares_plot: Name of the picture of the layers' shares, beside the card.
    Raises: ValueError naming the figure that the results or the config lack.
    """
    with card_parts.only_what_was_measured(name, "Make the results anew with hf-elmo train-semantic-roles."):
        head = fields["head"]
        roles = sorted({label[2:] for label in fields["id2label"].values() if label != "O"})
        measured = task_card_parts.measured(results, _HUB_TASK, "Semantic role labelling", _SCORES)
        found = ", or left out for the model to find them" if head["find_predicates"] else ""
        settings = {
            "highway LSTMs": f"{head['num_layers']} x {head['hidden_size']}",
            "finds predicates": "yes" if head["find_predicates"] else "no",
        }
        parts = [
            card_parts.front_matter(name, facts, _HUB_TASK, [_HUB_TASK, "semantic-role-labeling"], list(measured)),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"A labeller of semantic roles on ELMo, made with hf_elmo: {results['model']}",
            f"## Use\n\n{_SNIPPET.format(name=name, found=found)}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, (_USE,), (_LIMIT, card_parts.NO_FACTS_YET)),
            *([card_parts.training_data(facts)] if facts else []),
            "## Roles\n\n" + ", ".join(f"`{role}`" for role in roles),
            *_scores(results),
            *task_card_parts.seeds(results, _SCORES),
            *task_card_parts.layers(results, shares_plot),
            task_card_parts.data_and_settings(fields, results, ("sentences", "words", "predicates"), settings),
            card_parts.origin(results, "All figures are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _scores(results: Mapping[str, Any]) -> Iterator[str]:
    for split, prefix in task_card_parts.SPLITS.items():
        if f"{prefix}_f1" not in results:
            continue
        roles = results[f"{prefix}_roles"]
        rows = [
            [f"`{role}`", *(f"{100 * row[score]:.2f}" for score in _SCORES), f"{row['number']:,}"]
            for role, row in roles.items()
        ]
        overall = (f"{100 * results[f'{prefix}_{score}']:.2f}" for score in _SCORES)
        rows.append(["all", *overall, f"{sum(row['number'] for row in roles.values()):,}"])
        table = markdown_table([f"{split}, in percent", "precision", "recall", "F1", "number"], rows)
        found = results.get(f"{prefix}_predicates")
        finder = (
            f" Predicates that the model finds itself: F1 {100 * found['f1']:.2f} of {found['number']:,}."
            if found
            else ""
        )
        yield (
            f"## Scores, {split}\n\n{table}\n\nBy the count of CoNLL-2005, predicates given: an argument counts where "
            f"its role and all its pieces are right; the predicate itself is left out.{finder}"
            f"{task_card_parts.chosen_by(results, split)}"
        )
