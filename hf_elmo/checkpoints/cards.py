"""Model cards from facts and measured results: no figure stands in a card that is not in a results file."""

# No `from __future__ import annotations` here: @strict reads the annotations as types, and strings would check nothing.

import dataclasses
import difflib
import json
import os
import re
import shutil
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData
from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError

from .writing import written_aside

CARD_FILE = "README.md"
CONFIG_FILE = "config.json"
FACTS_FILE = "facts.yaml"
PLOT_FILE = "run.png"
RESULTS_FILE = "results.json"

# How a card calls a checkpoint that nobody has named; `sharing` puts the name on the Hub in its place.
UNNAMED_CHECKPOINT = "path/to/this/checkpoint"

_WHAT_IT_IS = (
    "An ELMo (Peters et al. 2018, *Deep contextualized word representations*): two independent LSTM language models "
    "over context-free vectors of words, whose layers a task mixes. Pre-trained with hf_elmo."
)
_USE = """\
```python
import hf_elmo  # or pass trust_remote_code=True below
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModel.from_pretrained("{name}")
vectors = model(**tokenizer("a sentence of words", return_tensors="pt")).last_hidden_state
```"""
# What is true of any run, for the cards of those that nobody has written facts about.
_ANY_INTENDED_USE = ("To give word vectors to a task that trains its own layers on top.",)
_ANY_LIMITS = (
    "It knows the language, the domain and the biases of its training text and no others.",
    "This card was made from the run's own figures: nobody has added yet what the training text is, under which "
    "licence, and what that means for the weights.",
)
_COMPARABLE = (
    "Its perplexity and its bits per character compare only with figures over the same vocabulary and the same "
    "held-out text: words outside of the vocabulary are scored as `<UNK>`."
)
_SOFTMAXES = {
    "full": "the full softmax",
    "sampled": "the full softmax (trained by the sampled one)",
    "adaptive": "the adaptive softmax that was trained",
}
_DIRECTIONS = ("forward", "backward", "mean")

# Facts that are sentences; they may quote results. The others are names, which are taken as they stand.
_PROSE = ("description", "preparation", "intended_use", "out_of_scope", "limits")
_WORD_WITH_DIGITS = re.compile(r"[\w.,%+-]*\d[\w.,%+-]*")
_YEAR = re.compile(r"(19|20)\d\d(-(19|20)\d\d)?s?")


@strict
@dataclasses.dataclass
class TrainingData:
    """One text that a checkpoint was trained on.

    Args:
        name: What it is called.
        source: Who made it and where it comes from.
        license: Its licence.
        citation: How to cite it.
        preparation: What was done to it before training; may quote results.
        hub_id: Its identifier among the Hub's datasets.
    """

    name: str
    source: str
    license: str
    citation: str | None = None
    preparation: str | None = None
    hub_id: str | None = None


@strict
@dataclasses.dataclass
class Facts:
    """What a human knows of a checkpoint and no run measures; the keys of facts.yaml.

    Args:
        name: What the checkpoint is called.
        description: One paragraph.
        language: Language codes, as the Hub has them.
        license: Licence of the weights, as the Hub names it.
        training_data: The texts.
        intended_use, out_of_scope, limits: One sentence or more each.
        citation: How to cite the checkpoint.
        contact: Whom to ask.
    """

    name: str
    description: str
    language: list[str]
    license: str
    training_data: list[TrainingData]
    intended_use: list[str]
    out_of_scope: list[str]
    limits: list[str]
    citation: str | None = None
    contact: str | None = None


def read_facts(file: str | os.PathLike, figures: Mapping[str, Any]) -> Facts:
    """Read facts.yaml and fill in the figures that it quotes.

    Sentences hold no figures of their own. They quote one as `{results.perplexity.mean:.1f}`: the name of a JSON file,
    the keys in it (places in lists count from 0), and a format as Python's `str.format` knows them.

    Args:
        file: The facts.
        figures: Contents of JSON files, by the files' names without `.json`.
    Raises: ValueError naming the file and what is unknown, missing, of the wrong type, or not in the figures.
    """
    try:
        content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{file} is not YAML: {error}") from error
    if isinstance(content, dict) and isinstance(content.get("training_data"), list):
        texts = [_build(TrainingData, text, figures, f"{file}, training_data") for text in content["training_data"]]
        content["training_data"] = texts
    return _build(Facts, content, figures, str(file))


def _build(kind: type, content: Any, figures: Mapping[str, Any], where: str) -> Any:
    """An instance of a dataclass from what a YAML file says, its sentences filled in."""
    fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    if not isinstance(content, dict):
        raise ValueError(f"{where} holds {content!r}; wanted the keys {', '.join(names)}.")
    for key in content:
        if key not in names:
            nearest = difflib.get_close_matches(str(key), names, n=1, cutoff=0.0)
            raise ValueError(
                f"{where} has the unknown key {key!r}; the nearest valid one is {nearest[0]!r}. What a run measures "
                f"belongs in {RESULTS_FILE}."
            )
    # An empty value says no more than a missing one.
    missing = [field.name for field in fields if field.default is dataclasses.MISSING and not content.get(field.name)]
    if missing:
        raise ValueError(f"{where} lacks {', '.join(missing)}; add what is known.")
    filled = {
        key: _quote_figures(value, figures, f"{where}, {key}") if key in _PROSE else value
        for key, value in content.items()
    }
    try:
        return kind(**filled)
    except StrictDataclassError as error:
        raise ValueError(f"{where}: {str(error).splitlines()[-1].strip()}.") from error


def _quote_figures(text: Any, figures: Mapping[str, Any], where: str) -> Any:
    if isinstance(text, list):
        return [_quote_figures(sentence, figures, where) for sentence in text]
    if not isinstance(text, str):
        return text
    quoted = []
    try:
        for words, placeholder, form, conversion in string.Formatter().parse(text.strip()):
            _reject_figures(words, where)
            quoted.append(words)
            if placeholder is not None:
                if conversion:
                    raise ValueError(f"{{{placeholder}!{conversion}}} has a conversion; leave out !{conversion}")
                quoted.append(format(_look_up(placeholder, figures), form))
    except ValueError as error:
        raise ValueError(f"{where}: {error}.") from error
    return "".join(quoted)


def _reject_figures(words: str, where: str) -> None:
    for word in _WORD_WITH_DIGITS.findall(words):
        word = word.strip(".,-")
        if not word[0].isalpha() and not _YEAR.fullmatch(word):
            raise ValueError(
                f"{word!r} is a figure that no results file backs. Quote a measured one, "
                "{results.perplexity.mean:.1f} for example; write a small number in letters; years, and names that "
                "begin with a letter, may stand"
            )


def _look_up(placeholder: str, figures: Mapping[str, Any]) -> Any:
    """The figure that `file.key.key` names."""
    file, *keys = placeholder.split(".")
    if file not in figures:
        raise ValueError(f"{{{placeholder}}} is quoted, and no {file}.json stands beside it")
    value = figures[file]
    for key in keys:
        known = dict(enumerate(value)) if isinstance(value, list) else value
        key = int(key) if isinstance(value, list) and key.isdecimal() else key
        if not isinstance(known, Mapping) or key not in known:
            there = f"there are {', '.join(map(str, known))}" if isinstance(known, Mapping) else f"it is {value!r}"
            raise ValueError(f"{{{placeholder}}} is quoted, and {file}.json has no {key!r} at that place; {there}")
        value = known[key]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{{{placeholder}}} is quoted, and is no figure in {file}.json: {value!r:.80}")
    return value


def render_model_card(
    name: str,
    fields: dict[str, Any],
    results: dict[str, Any],
    facts: Facts | None = None,
    plot: str | None = None,
) -> str:
    """A model card in Markdown.

    Args:
        name: The name under which the card's code loads the checkpoint.
        fields: Fields of the config.
        results: What the run measured, as in results.json.
        facts: What else is known; None leaves the card with what the results say.
        plot: Name of the run's plot, beside the card.
    Raises: ValueError naming the figure that the results or the config lack.
    """
    try:
        parts = [
            f"---\n{_front_matter(name, results, facts).to_yaml()}\n---",
            f"# {facts.name if facts else name}",
            *([facts.description] if facts else []),
            _WHAT_IT_IS,
            f"## Use\n\n{_USE.format(name=name)}",
            _uses_and_limits(facts),
            *([_training_data(facts)] if facts else []),
            f"## What it is\n\n{_sizes(fields, results)}",
            f"## Held-out perplexity\n\n{_perplexities(results)}",
            *([f"![perplexity, learning rate and speed over the words trained on]({plot})"] if plot else []),
            f"## How it was made\n\n{_origin(results)}",
            *([_citation(facts)] if facts and (facts.citation or facts.contact) else []),
        ]
    except KeyError as error:
        raise ValueError(
            f"the card of {name} shows {error}, which neither the results nor the config hold; a figure "
            "that was not measured cannot be rendered. Make the results anew with scripts/run_pretraining.py."
        ) from error
    return "\n\n".join(parts) + "\n"


def _front_matter(name: str, results: dict[str, Any], facts: Facts | None) -> ModelCardData:
    known = {}
    if facts:
        datasets = [text.hub_id for text in facts.training_data if text.hub_id]
        known = {"language": facts.language, "license": facts.license, "datasets": datasets or None}
    text = " and ".join(text.name for text in facts.training_data) if facts else "the run's text"
    task = {
        "task_type": "text-generation",
        "task_name": "Language modelling",
        "dataset_type": "held-out",
        "dataset_name": f"held-out part of {text}",
    }
    measured = [
        EvalResult(**task, metric_type=kind, metric_name=f"{title}, {state}", metric_value=figure)
        for key, state in (("perplexity", "carried state"), ("perplexity_cold", "cold state"))
        if results.get(key)
        for kind, title, figure in _metrics(results[key])
    ]
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="feature-extraction",
        tags=["elmo", "feature-extraction", "contextual-word-embeddings"],
        model_name=facts.name if facts else name,
        eval_results=measured,
        **known,
    )


def _metrics(perplexity: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The kind, the title and the value of each figure of one evaluation, rounded as in the card's table."""
    for direction in _DIRECTIONS:
        yield "perplexity", f"perplexity, {direction}", round(perplexity[direction], 1)
    if "bits_per_character" in perplexity:
        yield "bits_per_character", "bits per character", round(perplexity["bits_per_character"], 3)


def _uses_and_limits(facts: Facts | None) -> str:
    sections = {
        "Intended use": facts.intended_use if facts else _ANY_INTENDED_USE,
        "Out of scope": facts.out_of_scope if facts else (),
        "Limits": (*(facts.limits if facts else _ANY_LIMITS), _COMPARABLE),
    }
    return "\n\n".join(
        f"## {title}\n\n" + "\n".join(f"- {sentence}" for sentence in sentences)
        for title, sentences in sections.items()
        if sentences
    )


def _training_data(facts: Facts) -> str:
    texts = []
    for text in facts.training_data:
        sentences = [f"**{text.name}**", text.source, text.preparation, f"Licence: {text.license}", text.citation]
        texts.append("- " + " ".join(f"{sentence.rstrip('.')}." for sentence in sentences if sentence))
    return "## Training data\n\n" + "\n".join(texts) + f"\n\nLicence of the weights: {facts.license}."


def _sizes(fields: dict[str, Any], results: dict[str, Any]) -> str:
    text, settings = results["training_text"], results.get("settings", {})
    rows = {
        "parameters, softmax included": f"{results['parameters']:,}",
        "layers, cells, projection": ", ".join(
            str(fields[name]) for name in ("num_hidden_layers", "cell_size", "projection_size")
        ),
        "filters (width, count)": ", ".join(f"({width}, {count})" for width, count in fields["filters"]),
        "words of the softmax": f"{results['vocabulary_size']:,}",
        "training text": f"{text['words']:,} words, {text['sentences']:,} sentences",
        "words trained on": f"{results['words_trained']:,} in {results['seconds']:,.0f} s "
        f"({results['words_per_second']:,.0f} words/s)",
        "recipe": results.get("recipe"),
        "objective": f"{results['objective']} softmax" if "objective" in results else None,
        "settings": ", ".join(
            f"{name} {value}" for name, value in settings.items() if isinstance(value, (int, float, str))
        ),
        "stopped, and resumed at step": ", ".join(f"{step:,}" for step in results.get("resumed_from_steps", ())),
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {what} | {value} |" for what, value in rows.items() if value)])


def _perplexities(results: dict[str, Any]) -> str:
    perplexity, baselines = results["perplexity"], results["baselines"]
    resets = (
        ", and back to them at each document" if results.get("settings", {}).get("reset_state") == "document" else ""
    )
    spaces = " Characters are those of the words and one behind each." if "bits_per_character" in perplexity else ""
    parts = [
        f"By {_SOFTMAXES[results.get('objective', 'full')]} over the vocabulary; every word and closing marker of the "
        f"held-out text, {perplexity['num_targets']:,} in each direction, is scored once. Carried state goes along the "
        f"lanes from zeros{resets}.{spaces}",
        _perplexity_table(results),
    ]
    if baselines is not None:
        parts.append(
            f"{baselines['unknown_rate']:.1%} of the held-out words are unknown to the softmax and scored as `<UNK>`, "
            "in the model and in the baselines alike. The bigram's interpolation is the best one on the held-out text."
        )
    gaps = [entry for entry in results.get("history", ()) if "sampled_loss" in entry]
    if gaps:
        parts.append(
            f"The sampled loss is no perplexity: on a training window of step {gaps[-1]['step']:,} it is "
            f"{gaps[-1]['sampled_loss']:.2f} nats a word, that of the full softmax {gaps[-1]['full_loss']:.2f}."
        )
    return "\n\n".join(parts)


def _perplexity_table(results: dict[str, Any]) -> str:
    evaluations, baselines = results["evaluations"], results["baselines"]
    rows = {}
    if evaluations and evaluations[0].get("step", 0) == 0:
        rows["before training, state carried"] = evaluations[0]
    rows["state carried"] = results["perplexity"]
    if results.get("perplexity_cold"):
        rows["each sentence alone, state from zeros"] = results["perplexity_cold"]
    if baselines is not None:
        directions = (baselines["bigram_forward"], baselines["bigram_backward"], baselines["bigram"])
        rows["bigram baseline"] = dict(zip(_DIRECTIONS, directions, strict=True))
        rows["unigram baseline"] = dict.fromkeys(_DIRECTIONS, baselines["unigram"])
    has_bits = any("bits_per_character" in row for row in rows.values())
    lines = [["", *_DIRECTIONS], ["---"] + ["---:"] * len(_DIRECTIONS)]
    lines += [[what, *(f"{row[direction]:,.1f}" for direction in _DIRECTIONS)] for what, row in rows.items()]
    if has_bits:
        # Of the baselines they are not measured.
        bits = (f"{row['bits_per_character']:.3f}" if "bits_per_character" in row else "-" for row in rows.values())
        lines = [[*line, cell] for line, cell in zip(lines, ("bits per character", "---:", *bits), strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _origin(results: dict[str, Any]) -> str:
    machine, versions = results["machine"], results["versions"]
    where = [machine["accelerator"] or machine["processor"], f"{machine['threads']} threads"]
    if results.get("num_processes", 1) > 1:
        where.append(f"{results['num_processes']} processes")
    where += [f"{package} {versions[package]}" for package in ("torch", "transformers")]
    return (
        f"```\n{results['command']}\n```\n\n"
        f"On {results['date']}, {', '.join(where)}, commit {results['commit'] or 'unknown'}. The figures and the whole "
        f"history are in `{RESULTS_FILE}`."
    )


def _citation(facts: Facts) -> str:
    contact = f"Contact: {facts.contact}" if facts.contact else None
    return "## Citation and contact\n\n" + "\n\n".join(part for part in (facts.citation, contact) if part)


def write_model_card(
    directory: str | os.PathLike, config: Any, results: dict[str, Any], name: str | None = None
) -> None:
    """Render the card of a checkpoint into its directory.

    A facts.yaml and a run.png that stand there by then are in the card.

    Args:
        directory: The checkpoint's.
        config: Its config.
        results: What the run measured, as in results.json.
        name: The name under which the card's code loads the checkpoint, the Hub's for example; None leaves a place.
    Raises: ValueError as `read_facts` and `render_model_card`.
    """
    card = _render_folder(Path(directory), name or UNNAMED_CHECKPOINT, config.to_dict(), results)
    (Path(directory) / CARD_FILE).write_text(card, encoding="utf-8")


def write_recipe(checkpoint: str | os.PathLike, recipe: str | os.PathLike, name: str) -> None:
    """Keep what a run measured, its config, its plot and its card in a folder of its own, without the weights.

    Args:
        checkpoint: A directory that pre-training wrote.
        recipe: The folder, `model_cards/NAME` for example; made if it is not there. Its facts.yaml stays; one of the
            checkpoint is taken where it has none.
        name: The name of the checkpoint in the card.
    Raises: FileNotFoundError where the checkpoint has no config or results; ValueError as `read_facts`, or where both
        are one folder. The folder is as it was then.
    """
    checkpoint, recipe = Path(checkpoint), Path(recipe)
    if checkpoint.resolve() == recipe.resolve():
        raise ValueError(f"checkpoint and recipe are both {str(recipe)!r}; name a folder of its own for the recipe.")
    for file in (CONFIG_FILE, RESULTS_FILE):
        _read_json(checkpoint, file)
    with written_aside(recipe, overwrite=True) as aside:
        if recipe.is_dir():
            # The plot of an earlier run must not stand beside the figures of this one.
            shutil.copytree(recipe, aside, dirs_exist_ok=True, ignore=shutil.ignore_patterns(PLOT_FILE))
        for file in (CONFIG_FILE, RESULTS_FILE, PLOT_FILE, FACTS_FILE):
            if (checkpoint / file).is_file() and not (file == FACTS_FILE and (aside / file).exists()):
                shutil.copyfile(checkpoint / file, aside / file)
        write_recipe_card(aside, name)


def write_recipe_card(recipe: str | os.PathLike, name: str | None = None) -> None:
    """Render the card of a recipe folder anew, into the folder; see `render_recipe`."""
    card = render_recipe(recipe, name)
    (Path(recipe) / CARD_FILE).write_text(card, encoding="utf-8")


def render_recipe(recipe: str | os.PathLike, name: str | None = None) -> str:
    """The card of a recipe folder, from its config.json, results.json, facts.yaml and run.png.

    Args:
        recipe: The folder; the first two files have to be there.
        name: The name of the checkpoint in the card; None takes the folder's.
    Raises: FileNotFoundError naming the file that is not there; ValueError as `read_facts` and `render_model_card`.
    """
    recipe = Path(recipe)
    fields, results = (_read_json(recipe, file) for file in (CONFIG_FILE, RESULTS_FILE))
    return _render_folder(recipe, name or recipe.resolve().name, fields, results)


def read_results(recipe: str | os.PathLike) -> dict[str, Any]:
    """What results.json of a recipe or checkpoint holds.

    Raises: FileNotFoundError where there is none.
    """
    return _read_json(Path(recipe), RESULTS_FILE)


def find_recipes(model_cards: str | os.PathLike) -> list[Path]:
    """The recipe folders of a folder, in the order of their names: those that hold facts.yaml or results.json.

    Raises: FileNotFoundError where there are none.
    """
    files = (path for name in (FACTS_FILE, RESULTS_FILE) for path in Path(model_cards).glob(f"*/{name}"))
    recipes = sorted({path.parent for path in files})
    if not recipes:
        raise FileNotFoundError(
            f"model_cards {str(model_cards)!r} holds no folder with {RESULTS_FILE}; name the folder of recipe folders."
        )
    return recipes


def _render_folder(folder: Path, name: str, fields: dict[str, Any], results: dict[str, Any]) -> str:
    facts = None
    if (folder / FACTS_FILE).is_file():
        figures = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
        facts = read_facts(folder / FACTS_FILE, figures | {"config": fields, "results": results})
    plot = PLOT_FILE if (folder / PLOT_FILE).is_file() else None
    return render_model_card(name, fields, results, facts, plot)


def _read_json(folder: Path, file: str) -> dict[str, Any]:
    if not (folder / file).is_file():
        raise FileNotFoundError(
            f"{folder} holds no {file}, and a card shows only what was measured: pre-train with "
            "scripts/run_pretraining.py, and keep what it wrote with scripts/render_model_card.py --checkpoint."
        )
    return json.loads((folder / file).read_text(encoding="utf-8"))
