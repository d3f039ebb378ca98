"""The card of a coreference model: its scores by each measure, its data and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .tables import markdown_table
from .task_card_parts import SPLITS, TaskCard, chosen_by

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


def describe_coreference(name: str, fields: Mapping[str, Any], results: Mapping[str, Any]) -> TaskCard:
    """What the card of a coreference model says of its own; arguments as of `render_task_card`."""
    return TaskCard(
        tags=[TASK],
        task_name="Coreference resolution",
        measured=("muc_f1", "b_cubed_f1", "ceafe_f1", "mean_f1"),
        what="A coreference model",
        snippet=_SNIPPET.format(name=name),
        intended_use=_USE,
        limits=[_LIMIT],
        sections=[*_scores(fields, results)],
        seed_scores=("mean_f1", "muc_f1", "b_cubed_f1", "ceafe_f1"),
        counted=("documents", "words", "mentions", "clusters"),
        settings=_head(fields),
        is_on_the_hub=False,
    )


def _scores(fields: Mapping[str, Any], results: Mapping[str, Any]) -> Iterator[str]:
    for split, prefix in SPLITS.items():
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
                f"{chosen_by(results, split)}\n\n{table}\n\n{singletons}{reach if wide else ''}"
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
