"""The card of a checkpoint or of a recipe folder, rendered from the files beside it; which kind, those files say.

The card of a task's model needs no code here. A task builds a `TaskCard` and keeps it in its results,
`results["card"] = dataclasses.asdict(card)`, before it writes results.json; `write_card(directory)` then renders the
card from results.json and config.json alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..given.bounded_json import read_json
from ..model.modeling_elmo import WORD_LIST_FILE
from .card_parts import only_what_was_measured
from .classifier_card import TASK as TEXT_CLASSIFICATION
from .classifier_card import describe_classifier
from .conversion_card import render_conversion_card
from .coreference_card import TASK as COREFERENCE
from .coreference_card import describe_coreference
from .facts import FACTS_FILE, read_facts
from .file_names import (
    CARD_FILE,
    CONFIG_FILE,
    CONVERSION_FILE,
    LAYER_SHARES_FILE,
    PLOT_FILE,
    RESULTS_FILE,
    SENSES_FILE,
    SENSES_PLOT_FILE,
    TAGS_FILE,
    TAGS_PLOT_FILE,
    TOKENIZER_FILE,
    WEIGHTS_INDEX_FILE,
)
from .layer_scores import layers_section
from .pretraining_card import render_model_card
from .provenance import describe_file, describe_run, write_json
from .reader_card import TASK as QUESTION_ANSWERING
from .reader_card import describe_reader
from .semantic_roles_card import TASK as SEMANTIC_ROLES
from .semantic_roles_card import describe_semantic_roles
from .tagger_card import TASK as TOKEN_CLASSIFICATION
from .tagger_card import describe_tagger
from .task_card_parts import render_task_card
from .writing import written_aside

# What a recipe folder keeps of a checkpoint; its card is rendered from them.
KEPT_FILES = (
    *(CONFIG_FILE, RESULTS_FILE, CONVERSION_FILE, PLOT_FILE, LAYER_SHARES_FILE, TOKENIZER_FILE, FACTS_FILE),
    *(SENSES_FILE, SENSES_PLOT_FILE, TAGS_FILE, TAGS_PLOT_FILE),
)
# What the card of a task says of its own, by what results.json calls the task.
_TASKS = {
    TOKEN_CLASSIFICATION: describe_tagger,
    TEXT_CLASSIFICATION: describe_classifier,
    QUESTION_ANSWERING: describe_reader,
    COREFERENCE: describe_coreference,
    SEMANTIC_ROLES: describe_semantic_roles,
}
# Figures of what the layers know, with their pictures.
_LAYER_SCORES = {SENSES_FILE: SENSES_PLOT_FILE, TAGS_FILE: TAGS_PLOT_FILE}
# What of an earlier run must not stand beside the figures of this one: its plots, weights, code, words and layers.
_REPLACED_FILES = (
    *(PLOT_FILE, LAYER_SHARES_FILE, "*.safetensors", WEIGHTS_INDEX_FILE, "*_elmo*.py", WORD_LIST_FILE),
    *(SENSES_FILE, SENSES_PLOT_FILE, TAGS_FILE, TAGS_PLOT_FILE),
)


@dataclass(frozen=True, kw_only=True)
class TaskCard:
    """What a task says of its model in the card; the `card` of results.json.

    Scores are fractions in [0, 1] and shown in percent. A name such as `macro_f1` is shown as "macro F1".

    Args:
        what: What the model is, before "on ELMo": "A token classifier".
        task_name: What people call the task: "Token classification".
        tags: Words to find the model by on the Hub, beside "elmo".
        pipeline_tag: The Hub's name of the task; None where it has none.
        usage: How the model is used, in Markdown with its code; `{name}` stands for the name of the checkpoint.
        intended_use: What it is for, a sentence each.
        limits: What it cannot do, a sentence each.
        scores: The names of the overall scores, the main one first: `results["predict_f1"]` of the test data and
            `results["eval_f1"]` of the validation data are both the score "f1". Means and deviations over seeds are
            taken from `results["mean"]` and `results["deviation"]` under the same keys.
        tables: The names of tables of scores, `results["predict_entities"]` for example, and the title of each. A table
            is a mapping of a row's name to its figures, `{"PER": {"precision": 0.5, "number": 7}}` (fractions as
            float, counts as int), or a list of lists of counts, with a row and a column for each of `labels`.
        labels: The labels that the model knows, listed in a section of their own where there are any.
        labels_title: The title of that section.
        counts: What is counted of each split, keys of `results["data"][split]`: "sentences", "words".
        settings: Rows of the table of settings: what the model reads of each word, what its head is.
        notes: Sentences under the scores of each split, by its name, "test" or "validation"; what holds for all of
            them under "all".
    """

    what: str
    task_name: str
    tags: Sequence[str]
    pipeline_tag: str | None
    usage: str
    intended_use: Sequence[str]
    limits: Sequence[str]
    scores: Sequence[str]
    tables: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] = ()
    labels_title: str = "Labels"
    counts: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)


def write_card(directory: str | os.PathLike, name: str | None = None) -> None:
    """Render the card of any finished checkpoint, pre-trained, fine-tuned or converted, into its directory.

    Args:
        directory: The checkpoint's, with config.json, and results.json or conversion.json; a tokenizer_config.json, a
            facts.yaml and a run.png that stand there by then are in the card.
        name: The name under which the card's code loads the checkpoint, the Hub's for example; None takes the
            directory's.
    Raises: FileNotFoundError naming the file that is not there; ValueError as `read_facts`, or naming the figure that
        the files lack.
    """
    (Path(directory) / CARD_FILE).write_text(render_recipe(directory, name), encoding="utf-8")


def write_conversion_card(
    directory: str | os.PathLike,
    source: str,
    files: Mapping[str, str | os.PathLike],
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    licence: str | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Say in conversion.json and in a card what a checkpoint was converted from; config and tokenizer stand there.

    Args:
        directory: The checkpoint's.
        source: The other program's format, "bilm-tf" for example.
        files: The files that were read, by the arguments that name them; the card has their names, sizes and digests.
        options: What the other program's options file says.
        name: As for `write_card`.
        licence: What is known of the licence of the files, in a sentence.
        notes: What whoever uses the checkpoint has to know of the conversion, a sentence each.
    Raises: OSError where a file cannot be read.
    """
    described = {argument: describe_file(file) for argument, file in files.items()}
    content = {"format": source, "files": described, "options": dict(options or {})}
    if licence is not None:
        content["licence"] = licence
    if notes:
        content["notes"] = list(notes)
    content |= describe_run()
    write_json(Path(directory) / CONVERSION_FILE, content)
    write_card(directory, name)


def write_recipe(checkpoint: str | os.PathLike, recipe: str | os.PathLike, name: str) -> None:
    """Keep a checkpoint's figures, config, plot and card in a folder of its own, without the weights.

    Args and raises: As `recipe_written_aside`.
    """
    with recipe_written_aside(checkpoint, recipe, name):
        pass


@contextmanager
def recipe_written_aside(checkpoint: str | os.PathLike, recipe: str | os.PathLike, name: str) -> Iterator[Path]:
    """Give the recipe folder of a checkpoint, its card as yet unwritten; it takes its place when the block ends well.

    Args:
        checkpoint: A directory that pre-training, fine-tuning or conversion wrote.
        recipe: The folder, `model_cards/NAME` for example; made if it is not there. Its facts.yaml stays; one of the
            checkpoint is taken where it has none.
        name: The name of the checkpoint in the card.
    Raises: FileNotFoundError where the checkpoint has no config or results; ValueError as `read_facts`, or where the
        checkpoint is that folder or lies in it. The folder is as it was then.
    """
    checkpoint, recipe = Path(checkpoint), Path(recipe)
    if recipe.resolve() in (checkpoint.resolve(), *checkpoint.resolve().parents):
        raise ValueError(
            f"checkpoint {str(checkpoint)!r} lies in the recipe {str(recipe)!r}, which is replaced; name a folder of "
            "its own for the recipe."
        )
    for file in (CONFIG_FILE, _figures_file(checkpoint)):
        _read_json(checkpoint, file)
    with written_aside(recipe, overwrite=True) as aside:
        if recipe.is_dir():
            shutil.copytree(recipe, aside, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_REPLACED_FILES))
        for file in KEPT_FILES:
            if (checkpoint / file).is_file() and not (file == FACTS_FILE and (aside / file).exists()):
                shutil.copyfile(checkpoint / file, aside / file)
        yield aside
        write_card(aside, name)


def render_recipe(recipe: str | os.PathLike, name: str | None = None) -> str:
    """The card of a checkpoint, or of a recipe folder that keeps one's figures, from the files in it.

    Args:
        recipe: The folder; its config.json has to be there, and results.json or conversion.json.
        name: The name of the checkpoint in the card; None takes the folder's.
    Raises: FileNotFoundError naming the file that is not there; ValueError as `read_facts`, or naming the figure that
        the files lack.
    """
    recipe = Path(recipe)
    fields, results = (_read_json(recipe, file) for file in (CONFIG_FILE, _figures_file(recipe)))
    return _render_folder(recipe, name or recipe.resolve().name, fields, results)


def read_results(recipe: str | os.PathLike) -> dict[str, Any]:
    """What results.json of a recipe or checkpoint holds.

    Raises: FileNotFoundError where there is none.
    """
    return _read_json(Path(recipe), RESULTS_FILE)


def has_plot(recipe: str | os.PathLike) -> bool:
    """Whether a folder's figures are those of a pre-training run, which can be plotted."""
    return _figures_file(Path(recipe)) == RESULTS_FILE and "perplexity" in read_results(recipe)


def has_layer_shares(recipe: str | os.PathLike) -> bool:
    """Whether a folder's figures are those of a task that reads ELMo's layers, whose shares can be plotted."""
    return _figures_file(Path(recipe)) == RESULTS_FILE and bool(read_results(recipe).get("layer_shares"))


def find_recipes(model_cards: str | os.PathLike) -> list[Path]:
    """The recipe folders of a folder, in the order of their names: those that hold facts or figures.

    Raises: FileNotFoundError where there are none.
    """
    files = (
        path for name in (FACTS_FILE, RESULTS_FILE, CONVERSION_FILE) for path in Path(model_cards).glob(f"*/{name}")
    )
    recipes = sorted({path.parent for path in files})
    if not recipes:
        raise FileNotFoundError(
            f"model_cards {str(model_cards)!r} holds no folder with {RESULTS_FILE}; name the folder of recipe folders."
        )
    return recipes


def _figures_file(folder: Path) -> str:
    """The file that a card is rendered from."""
    was_converted = (folder / CONVERSION_FILE).is_file() and not (folder / RESULTS_FILE).is_file()
    return CONVERSION_FILE if was_converted else RESULTS_FILE


def _render_folder(folder: Path, name: str, fields: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    facts = None
    if (folder / FACTS_FILE).is_file():
        figures = {path.stem: read_json(path, f"{folder}, {path.name}") for path in sorted(folder.glob("*.json"))}
        facts = read_facts(folder / FACTS_FILE, figures | {"config": fields, "results": results})
    tokenizer = _read_json(folder, TOKENIZER_FILE) if (folder / TOKENIZER_FILE).is_file() else None
    shares_plot = LAYER_SHARES_FILE if (folder / LAYER_SHARES_FILE).is_file() else None
    describe = _TASKS.get(str(results.get("task")))
    if describe is not None:
        return render_task_card(describe, name, fields, results, facts, tokenizer, shares_plot)
    if "format" in results:
        return render_conversion_card(name, fields, results, facts, tokenizer, _known_layers(folder))
    plot = PLOT_FILE if (folder / PLOT_FILE).is_file() else None
    return render_model_card(name, fields, results, facts, plot, tokenizer, _known_layers(folder))


def layer_scores(folder: str | os.PathLike) -> Iterator[tuple[dict[str, Any], Path]]:
    """The figures in a folder of what the layers know, and where the picture of each is or would be."""
    for file, plot in _LAYER_SCORES.items():
        if (Path(folder) / file).is_file():
            yield _read_json(Path(folder), file), Path(folder) / plot


def _known_layers(folder: Path) -> str | None:
    """The section on what the layers know, where that was measured."""
    with only_what_was_measured(folder.resolve().name, "Measure it anew with hf-elmo look."):
        return layers_section([(each, plot.name if plot.is_file() else None) for each, plot in layer_scores(folder)])


def _read_json(folder: Path, file: str) -> dict[str, Any]:
    if not (folder / file).is_file():
        raise FileNotFoundError(
            f"{folder} holds no {file}, and a card shows only what was measured: pre-train with "
            "hf-elmo pretrain, and keep what it wrote with hf-elmo card --model_name_or_path."
        )
    content = read_json(folder / file, f"{folder}, {file}")
    if not isinstance(content, dict):
        raise ValueError(f"{folder}, {file} holds a {type(content).__name__}, wanted an object; write it again.")
    return content
