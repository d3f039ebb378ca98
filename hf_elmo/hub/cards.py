"""The card of a checkpoint, rendered by the templates of `templates/` from the files beside it.

Which kind of card it is, those files say: results.json with the `card` of a task (a `TaskCard` as a dict), results.json
of a pre-training run, or conversion.json. A figure that they lack is an error, never an empty place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import yaml
from huggingface_hub import EvalResult, ModelCardData
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..given import MEBIBYTE, UNREADABLE, read_file, read_json, reason
from . import CARD_FILE, FACTS_FILE
from .provenance import describe_origin
from .scores import layer_names, markdown_table, mean_shares, scores_table, what_leads

# What results.json, as the Trainer, calls the scores on each split, the one that no choice was made by first.
RESULT_PREFIXES = {"test": "predict", "validation": "eval"}
_NUMBER_FORMAT = re.compile(r",?(\.\d)?[f%]?")


@dataclass(frozen=True, kw_only=True)
class TaskCard:
    """What a task says of its model in the card; the `card` of results.json.

    Scores are fractions in [0, 1] and shown in percent. A name such as `macro_f1` is shown as "macro F1".

    Args:
        what: What the model is, before "on ELMo": "A token classifier".
        tags, pipeline_tag: The Hub's, beside "elmo"; None where it has no such task.
        usage: How the model is used, in Markdown; `{name}` stands for the name of the checkpoint.
        scores: The overall scores, the main one first: "f1" is `results["predict_f1"]` on the test data and
            `results["eval_f1"]` on the validation data; over seeds of `results["mean"]` and `results["deviation"]`.
        tables: Tables and their titles, "entities" being `results["predict_entities"]`: a mapping of a row's name to
            figures, `{"PER": {"precision": 0.5, "number": 7}}` (fractions as float, counts as int), or lists of counts,
            a row and a column for each of `labels` and of `results["unseen_labels"]`.
        counts: What is counted of each split, keys of `results["data"][split]`: "sentences", "words".
        notes: Sentences under the scores of a split, "test" or "validation", or under "all".
    """

    what: str
    tags: list[str]
    pipeline_tag: str | None
    usage: str
    intended_use: list[str]
    limits: list[str]
    scores: list[str]
    tables: dict[str, str] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    labels_title: str = "Labels"
    counts: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)


def write_card(directory: str | os.PathLike, name: str | None = None) -> None:
    """Render the card of a checkpoint into its directory; arguments and errors as of `render_card`."""
    (Path(directory) / CARD_FILE).write_text(render_card(directory, name), encoding="utf-8")


def render_card(directory: str | os.PathLike, name: str | None = None) -> str:
    """The card of a checkpoint, or of a folder of model_cards/, from the files in it.

    These are config.json, and results.json or conversion.json; facts.yaml, senses.json, tags.json and pictures, if any.
    The card's code loads the checkpoint by `name`, or the directory's.

    Raises: FileNotFoundError; ValueError naming the file that cannot be read, or the figure that is not in it.
    """
    folder = Path(directory)
    name = name or folder.resolve().name
    files = {path.stem.replace("-", "_"): read_json(path, str(path)) for path in sorted(folder.glob("*.json"))}
    source = "conversion" if "conversion" in files and "results" not in files else "results"
    missing = {"config", source} - files.keys()
    if missing:
        raise FileNotFoundError(
            f"{folder} holds no {missing.pop()}.json, and a card shows only what the files beside it hold."
        )
    try:
        facts, run = _read_facts(folder / FACTS_FILE, files), files[source]
        context = {
            **files,
            "facts": facts,
            "layers": [(files[kind], f"{kind}.png") for kind in ("senses", "tags") if kind in files],
            "name": name,
            "pictures": {path.name for path in folder.glob("*.png")},
            "run": run,
        }
        tags = ["feature-extraction", "contextual-word-embeddings"]
        pipeline_tag, measured = tags[0], list[EvalResult]()
        if source == "conversion":
            template = "conversion"
        elif "card" in run:
            template, tags, pipeline_tag = "task", run["card"]["tags"], run["card"]["pipeline_tag"]
            context |= _task_context(run)
            measured = list(_task_scores(run))
        else:
            template, measured = "pretraining", list(_perplexities(run, facts))
        known: dict[str, Any] = {}
        if facts:
            hub_ids = [text["hub_id"] for text in facts["training_data"] if "hub_id" in text]
            known = {"language": facts["language"], "license": facts["license"], "datasets": hub_ids or None}
        context["front_matter"] = ModelCardData(
            library_name="transformers",
            pipeline_tag=pipeline_tag,
            tags=["elmo", *tags],
            model_name=facts["name"] if facts else name,
            eval_results=measured or None,
            **known,
        ).to_yaml()
        return _ENVIRONMENT.get_template(f"{template}.md.j2").render(context).rstrip() + "\n"
    except (jinja2.TemplateError, yaml.YAMLError, *UNREADABLE) as error:
        raise ValueError(
            f"the card of {name} cannot be rendered ({reason(error)}); a card shows only what its files hold: mend "
            f"{FACTS_FILE}, or make the figures again."
        ) from error


def render_scores(results: Mapping[str, Any]) -> str:
    """What a task's results say of its scores, and of the layers that it reads, as in its card."""
    return _ENVIRONMENT.get_template("scores.md.j2").render(_task_context(results)).strip()


def describe_cutting(tokenizer: Mapping[str, Any] | None) -> str:
    """How text must be cut for a checkpoint with this tokenizer_config.json, in sentences."""
    return _ENVIRONMENT.get_template("cutting.md.j2").render(tokenizer_config=tokenizer).strip()


class _PlainLoader(yaml.BaseLoader):
    """Every scalar is a string, and nothing stands for what is written elsewhere in the file."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias")
        return super().compose_node(parent, index)


def _read_facts(path: Path, figures: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a human says in facts.yaml, where a sentence quotes `{{ results.perplexity.mean | number(".1f") }}`."""
    if not path.is_file():
        return None
    text = read_file(path, MEBIBYTE, str(path)).decode("utf-8")
    facts = yaml.load(_ENVIRONMENT.from_string(text).render(figures), _PlainLoader)
    if not isinstance(facts, dict):
        raise ValueError(f"{path.name} holds no keys and values")
    return facts


def _perplexities(results: dict[str, Any], facts: dict[str, Any] | None) -> Iterator[EvalResult]:
    """The figures of a pre-training run, rounded as in the card's table."""
    text = " and ".join(text["name"] for text in facts["training_data"]) if facts else "the run's text"
    for key, state in (("perplexity", "carried state"), ("perplexity_cold", "cold state")):
        measured = results.get(key) or {}
        figures = [("perplexity", f"perplexity, {name}", name, 1) for name in ("forward", "backward", "mean")]
        figures.append(("bits_per_character", "bits per character", "bits_per_character", 3))
        for kind, title, name, digits in figures:
            # Bits are withheld where too many words are unknown.
            if measured.get(name) is not None:
                yield EvalResult(
                    task_type="text-generation",
                    task_name="Language modeling",
                    dataset_type="held-out",
                    dataset_name=f"held-out part of {text}",
                    metric_type=kind,
                    metric_name=f"{title}, {state}",
                    metric_value=round(measured[name], digits),
                )


def _task_context(results: Mapping[str, Any]) -> dict[str, Any]:
    shares = mean_shares(results) if results.get("layer_shares") else None
    return {"results": results, "card": results["card"], "scored": _scored(results), "mean_shares": shares}


def _scored(results: Mapping[str, Any]) -> dict[str, str]:
    """The splits that a task has scores on, and what those begin with in its results."""
    first = results["card"]["scores"][0]
    return {split: f"{prefix}_" for split, prefix in RESULT_PREFIXES.items() if f"{prefix}_{first}" in results}


def _task_scores(results: dict[str, Any]) -> Iterator[EvalResult]:
    card = results["card"]
    for split, prefix in _scored(results).items():
        for score in card["scores"]:
            yield EvalResult(
                task_type=card["pipeline_tag"] or card["tags"][0],
                task_name=results["task"].replace("-", " ").capitalize(),
                dataset_type=split,
                dataset_name=results["data"][split]["source"],
                metric_type=score,
                metric_name=f"{score}, {split}",
                metric_value=round(results[prefix + score], 4),
            )


def _scores_of(table: Any, labels: Sequence[str]) -> str:
    """A table of a task's scores, as `TaskCard.tables` has them, in Markdown."""
    if isinstance(table, list):
        names = [f"as `{label}`" for label in labels]
        table = {row: dict(zip(names, counts, strict=True)) for row, counts in zip(labels, table, strict=True)}
    rows = [
        [f"`{name}`", *(f"{100 * each:.2f}" if isinstance(each, float) else f"{each:,}" for each in row.values())]
        for name, row in table.items()
    ]
    return markdown_table(["in percent", *map(_title, next(iter(table.values()), {}))], rows)


def _title(name: str) -> str:
    return re.sub(r"\bf1\b", "F1", name.replace("_", " "))


def _number(value: float, form: str = ",") -> str:
    """A figure in a format of Python's, such as ",.1f"; of those that a file names, none that is wide."""
    if not _NUMBER_FORMAT.fullmatch(form):
        raise ValueError(f"the format {form[:20]!r} is none of a figure's, such as ',.1f'")
    return format(value, form)


# In a sandbox: the facts of a checkpoint may come from anybody.
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.globals["layer_names"] = layer_names
_ENVIRONMENT.filters |= {
    "bullets": lambda sentences: "\n".join(f"- {sentence}" for sentence in sentences),
    "cell": lambda text: " ".join(str(text).replace("|", "\\|").split()),
    "json": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    "number": _number,
    "origin": lambda run: describe_origin(run, ("torch", "transformers")),
    "pairs": lambda pairs: ", ".join(f"({width}, {count})" for width, count in pairs),
    "percent": lambda fraction: f"{100 * fraction:.2f}",
    "paragraph": lambda text: " ".join(text.split()) + "\n",
    "scores_of": _scores_of,
    "scores_table": scores_table,
    "settings": lambda settings: ", ".join(
        f"{name} {value}" for name, value in settings.items() if isinstance(value, (int, float, str))
    ),
    "title": _title,
    "what_leads": what_leads,
}
