"""The card of a coreference model: its scores by each measure, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import card_parts, task_card_parts
from .facts import Facts
from .tables import markdown_table

# What results.json calls this task; the Hub has no name for it.
TASK = "coreference"

_SNIPPET = """\
```python
from hf_elmo.inference.coreference import ElmoCoreference

resolver = ElmoCoreference("{name}")
for cluster in resolver.resolve("Alice met her brother .").clusters:
    print([(mention.text, mention.start, mention.stop) for mention in cluster])
```"""
_USE = "To find which words of a document name the same, in text like that it was trained on."
_LIMIT = (
    "It knows the language, the domain and the biases of its training documents and no others; pronouns are given to "
    "whom these documents give them."
)
_MEASURES = {"muc": "MUC", "b_cubed": "B-cubed", "ceafe": "CEAFe", "mention": "mentions"}
_SCORES = ("precision", "recall", "f1")


def render_coreference_card(
    name: str,
    fields: Mapping[str, Any],
    results: Mapping[str, Any],
    facts: Facts | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    shares_plot: str | None = None,
) -> str:
    """The card of a coreference model, in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config.
        results: What training, evaluation and prediction gave, as in results.json.
        facts: What else is known.
        tokenizer: Fields of tokenizer_config.json, for how text is cut.
        shares_plot: Name of the picture of the layers' shares, beside the card.
    Raises: ValueError naming the figure that the results lack.
    """
    with card_parts.only_what_was_measured(name, "Make the results anew with hf-elmo train-coreference."):
        measured = task_card_parts.measured(
            results, TASK, "Coreference resolution", ("muc_f1", "b_cubed_f1", "ceafe_f1", "mean_f1")
        )
        parts = [
            card_parts.front_matter(name, facts, None, [TASK], list(measured)),
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            f"A coreference model on ELMo, made with hf_elmo: {results['model']}",
            f"## Use\n\n{_SNIPPET.format(name=name)}\n\n{card_parts.describe_cutting(tokenizer)}",
            card_parts.uses_and_limits(facts, (_USE,), (_LIMIT, card_parts.NO_FACTS_YET)),
            *([card_parts.training_data(facts)] if facts else []),
            *_scores(fields, results),
            *task_card_parts.seeds(results, ("mean_f1", "muc_f1", "b_cubed_f1", "ceafe_f1")),
            *task_card_parts.layers(results, shares_plot),
            task_card_parts.data_and_settings(
                fields, results, ("documents", "words", "mentions", "clusters"), _head(fields)
            ),
            card_parts.origin(results, "All figures are in `results.json`."),
            *card_parts.citation(facts),
        ]
    return "\n\n".join(parts) + "\n"


def _scores(fields: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[str]:
    for split, prefix in task_card_parts.SPLITS.items():
        if f"{prefix}_mean_f1" in results:
            rows = [
                [title, *(f"{100 * results[f'{prefix}_{measure}_{score}']:.2f}" for score in _SCORES)]
                for measure, title in _MEASURES.items()
            ]
            table = markdown_table([f"{split}, in percent", "precision", "recall", "F1"], rows)
            wide, count = (results["data"][split][key] for key in ("out_of_reach", "mentions"))
            singletons = (
                "Clusters of one mention count."
                if results["singletons"] == "keep"
                else ("Clusters of one mention are left out of data and predictions.")
            )
            widest = fields["head"]["max_span_width"]
            reach = (
                f" {wide:,} of {count:,} mentions cannot be found: they are wider than {widest} words, or stand in "
                "several sentences."
            )
            yield (
                f"## Scores, {split}\n\nMean F1 of MUC, B-cubed and CEAFe: {100 * results[f'{prefix}_mean_f1']:.2f}."
                f"{task_card_parts.chosen_by(results, split)}\n\n{table}\n\n{singletons}{reach if wide else ''}"
            )


def _head(fields: Mapping[str, Any]) -> dict[str, str | None]:
    head = fields["head"]
    kept = "a cluster of its own where its score as a mention is above zero" if head["keep_singletons"] else "left out"
    return {
        "biLSTM": f"{head['lstm_size']}, over {'the document' if head['read_across_sentences'] else 'each sentence'}",
        "spans": f"up to {head['max_span_width']} words, {head['spans_per_word']:g} for each word kept, up to "
        f"{head['max_antecedents']} antecedents",
        "a mention that nothing is linked to": kept,
    }
