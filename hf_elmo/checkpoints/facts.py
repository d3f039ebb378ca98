"""What a human knows of a checkpoint and no run measures: the sentences of facts.yaml, which quote figures only."""

# No `from __future__ import annotations` here: @strict reads the annotations as types, and strings would check nothing.

import dataclasses
import difflib
import os
import re
import string
from collections.abc import Mapping
from typing import Any

import yaml
from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError

from ..given.bounded_files import MEBIBYTE, quoted, read_file
from ..given.reasons import UNREADABLE, reason

FACTS_FILE = "facts.yaml"

# Facts that are sentences; they may quote results. The others are names, which are taken as they stand.
_PROSE = ("description", "preparation", "intended_use", "out_of_scope", "limits")
_WORD = re.compile(r"[\w.,%+-]+")
_LONGEST_REASON = 200
# In a format; a figure of a thousand digits is none that anyone reads.
_WIDE = re.compile(r"\d{3}")
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
    data = read_file(file, MEBIBYTE, str(file))
    try:
        content = yaml.safe_load(data.decode("utf-8"))
    except (yaml.YAMLError, *UNREADABLE) as error:
        mark = getattr(error, "problem_mark", None)
        where = str(file) if mark is None else f"{file}, line {mark.line + 1}"
        raise ValueError(f"{where} is not YAML in UTF-8 ({reason(error)}); mend it.") from error
    if isinstance(content, dict) and isinstance(content.get("training_data"), list):
        texts = [_build(TrainingData, text, figures, f"{file}, training_data") for text in content["training_data"]]
        content["training_data"] = texts
    return _build(Facts, content, figures, str(file))


def _build(kind: type, content: Any, figures: Mapping[str, Any], where: str) -> Any:
    """An instance of a dataclass from what a YAML file says, its sentences filled in."""
    fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    if not isinstance(content, dict):
        found = quoted(content) if isinstance(content, str) else f"a {type(content).__name__}"
        raise ValueError(f"{where} holds {found}; wanted the keys {', '.join(names)}.")
    for key, value in content.items():
        if key not in names:
            nearest = difflib.get_close_matches(str(key), names, n=1, cutoff=0.0)
            raise ValueError(
                f"{where} has the unknown key {quoted(key)}; the nearest valid one is {nearest[0]!r}. What a run "
                "measures belongs in results.json."
            )
        for part in value if isinstance(value, list) else [value]:
            # Lists of lists, of which YAML can say with a few words that each holds the other, go no further.
            if not isinstance(part, (str, TrainingData, type(None))):
                raise ValueError(f"{where}: {key!r} holds a {type(part).__name__} where words are wanted; mend it.")
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
        raise ValueError(f"{where}: {str(error).splitlines()[-1].strip()[:_LONGEST_REASON]}.") from error


def _quote_figures(text: Any, figures: Mapping[str, Any], where: str) -> Any:
    if isinstance(text, list):
        return [_quote_figures(sentence, figures, where) for sentence in text]
    if not isinstance(text, str):
        return text
    written = []
    try:
        for words, placeholder, form, conversion in string.Formatter().parse(text.strip()):
            _reject_figures(words, where)
            written.append(words)
            if placeholder is not None:
                if conversion:
                    raise ValueError(f"{_shown(placeholder)} has a conversion; leave out !{conversion}")
                if _WIDE.search(form or ""):
                    raise ValueError(f"{_shown(placeholder)} has the format {quoted(form)}; wanted at most 99 digits")
                written.append(format(_look_up(placeholder, figures), form or ""))
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{where}: {error}.") from error
    return "".join(written)


def _reject_figures(words: str, where: str) -> None:
    for word in _WORD.findall(words):
        if not any(map(str.isdecimal, word)):
            continue
        word = word.strip(".,-")
        if not word[0].isalpha() and not _YEAR.fullmatch(word):
            raise ValueError(
                f"{quoted(word)} is a figure that no results file backs. Quote a measured one, "
                "{results.perplexity.mean:.1f} for example; write a small number in letters; years, and names that "
                "begin with a letter, may stand"
            )


def _look_up(placeholder: str, figures: Mapping[str, Any]) -> Any:
    """The figure that `file.key.key` names."""
    file, *keys = placeholder.split(".")
    if file not in figures:
        raise ValueError(f"{_shown(placeholder)} is quoted, and no {quoted(f'{file}.json')} stands beside it")
    value = figures[file]
    for key in keys:
        known = dict(enumerate(value)) if isinstance(value, list) else value
        place = int(key) if isinstance(value, list) and key.isdecimal() else key
        if not isinstance(known, Mapping) or place not in known:
            there = f"there are {quoted(list(known))}" if isinstance(known, Mapping) else f"it is {quoted(value)}"
            raise ValueError(
                f"{_shown(placeholder)} is quoted, and {file}.json has no {quoted(place)} at that place; {there}"
            )
        value = known[place]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{_shown(placeholder)} is quoted, and is no figure in {file}.json: {quoted(value)}")
    return value


def _shown(placeholder: str) -> str:
    """A place that quotes a figure, as errors show it."""
    return quoted(f"{{{placeholder}}}")
