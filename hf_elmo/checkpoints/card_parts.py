"""The parts that all model cards share: how to use the checkpoint, how its text is cut, its facts, its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from ..given.bounded_files import quoted
from ..given.reasons import UNREADABLE, reason
from .facts import Facts
from .provenance import describe_origin
from .tables import markdown_table

WHAT_ELMO_IS = (
    "An ELMo (Peters et al. 2018, *Deep contextualized word representations*): two independent LSTM language models "
    "over context-free vectors of words, whose layers a task mixes."
)
# What is true of any checkpoint, for the cards of those that nobody has written facts about.
NO_FACTS_YET = (
    "This card was made from the run's own figures: nobody has added yet what the training text is, under which "
    "licence, and what that means for the weights."
)

_VECTORS = """\
```python
import hf_elmo  # or pass trust_remote_code=True below
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModel.from_pretrained("{name}")
batch = tokenizer(["A sentence of words .", "Another one ."], padding=True, return_tensors="pt")
with torch.no_grad():
    vectors = model(**batch).last_hidden_state  # a vector for each word, <S> and </S> among them
```"""
_CUTS = {
    "whitespace": "Text is cut at white space and nowhere else: give it text that is tokenised as the training text "
    "was, with punctuation marks by themselves, or lists of words with `is_split_into_words=True`.",
    "punctuation": "Raw text can be given: the tokenizer cuts it into runs of letters and digits, and punctuation "
    "marks by themselves, so that `don't` and `3.14` fall into three. Lists of words (`is_split_into_words=True`) are "
    "not cut further.",
    "unicode": "Raw text can be given: the tokenizer cuts it at Unicode's word boundaries, with punctuation marks by "
    "themselves; web and mail addresses and abbreviations such as U.S. stay whole. Lists of words "
    "(`is_split_into_words=True`) are not cut further.",
    "penn": "Raw text can be given: the tokenizer cuts it as the Penn Treebank cuts English, with punctuation marks by "
    "themselves, `do n't` and `Alice 's`; text that stands so already, and lists of words "
    "(`is_split_into_words=True`), are not cut further.",
}


def vectors_snippet(name: str) -> str:
    """Lines that load a checkpoint by name and give its vectors."""
    return _VECTORS.format(name=name)


def describe_cutting(tokenizer: Mapping[str, Any] | None) -> str:
    """How text must be cut for a checkpoint, in sentences.

    Args:
        tokenizer: Fields of tokenizer_config.json; None where there is none.
    """
    if tokenizer is None:
        return "Text has to be cut into words as the training text was, and given as lists of words."
    pre_tokenizer = tokenizer.get("pre_tokenizer", "whitespace")
    by_rule = f"Text is cut into words by the tokenizer's rule `{pre_tokenizer}`."
    sentences = [_CUTS.get(pre_tokenizer, by_rule)]
    sentences.append(
        "Words are lower-cased by the tokenizer." if tokenizer.get("do_lower_case") else "Case is kept as it comes."
    )
    if tokenizer.get("normalization"):
        sentences.append(f"Letters and their accents are composed ({tokenizer['normalization']}).")
    if tokenizer.get("drop_invisible"):
        sentences.append("Invisible characters are left out.")
    if tokenizer.get("ascii_marks"):
        sentences.append("Typographic quotes, dashes and ellipses are read as the marks of a keyboard.")
    return " ".join([*sentences, "The tokenizer puts `<S>` and `</S>` around each sentence."])


def front_matter(
    name: str, facts: Facts | None, pipeline_tag: str | None, tags: Sequence[str], measured: Sequence[EvalResult] = ()
) -> str:
    """The YAML at the head of a card, as the Hub reads it.

    Args:
        name: The name of a checkpoint that no facts name.
        facts: What else is known.
        pipeline_tag: The Hub's name of what the model does; None where it has none.
        tags: Words to find it by.
        measured: Its figures.
    """
    known: dict[str, Any] = {}
    if facts:
        datasets = [text.hub_id for text in facts.training_data if text.hub_id]
        known = {"language": facts.language, "license": facts.license, "datasets": datasets or None}
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=pipeline_tag,
        tags=["elmo", *tags],
        model_name=facts.name if facts else name,
        eval_results=list(measured) or None,
        **known,
    )
    return f"---\n{data.to_yaml()}\n---"


def uses_and_limits(
    facts: Facts | None, intended_use: Sequence[str], limits: Sequence[str], always: Sequence[str] = ()
) -> str:
    """The sections on what a checkpoint is for and what it cannot do.

    Args:
        facts: What a human says of it.
        intended_use, limits: What to say where there are no facts.
        always: Limits that hold with facts and without.
    """
    sections = {
        "Intended use": facts.intended_use if facts else intended_use,
        "Out of scope": facts.out_of_scope if facts else (),
        "Limits": (*(facts.limits if facts else limits), *always),
    }
    return "\n\n".join(
        f"## {title}\n\n" + "\n".join(f"- {sentence}" for sentence in sentences)
        for title, sentences in sections.items()
        if sentences
    )


def training_data(facts: Facts) -> str:
    """The section on the texts, from the facts."""
    texts = []
    for text in facts.training_data:
        sentences = [f"**{text.name}**", text.source, text.preparation, f"Licence: {text.license}", text.citation]
        texts.append("- " + " ".join(f"{sentence.rstrip('.')}." for sentence in sentences if sentence))
    return "## Training data\n\n" + "\n".join(texts) + f"\n\nLicence of the weights: {facts.license}."


def key_value_table(rows: Mapping[str, str | None]) -> str:
    """A table of two columns without titles; what has no value is left out."""
    return markdown_table(["", ""], [(what, value) for what, value in rows.items() if value], names=2)


def list_settings(settings: Mapping[str, Any]) -> str:
    """The settings of a run that are numbers or words, on one line."""
    return ", ".join(f"{name} {value}" for name, value in settings.items() if isinstance(value, (int, float, str)))


def origin(results: Mapping[str, Any], closing: str) -> str:
    """The section on the command, the machine and the commit behind a card."""
    return (
        f"## How it was made\n\n```\n{results['command']}\n```\n\n"
        f"{describe_origin(results, ('torch', 'transformers'))}. {closing}"
    )


def citation(facts: Facts | None) -> Iterator[str]:
    """The section on whom to cite and ask, where the facts say so."""
    if facts and (facts.citation or facts.contact):
        contact = f"Contact: {facts.contact}" if facts.contact else None
        yield "## Citation and contact\n\n" + "\n\n".join(part for part in (facts.citation, contact) if part)


@contextmanager
def only_what_was_measured(name: str, remedy: str) -> Iterator[None]:
    """Raise a ValueError that names the figure where a card shows one that its files lack, or have in another form."""
    try:
        yield
    except KeyError as error:
        raise ValueError(
            f"the card of {name} shows {quoted(*error.args)}, which neither the results nor the config hold; a figure "
            f"that was not measured cannot be rendered. {remedy}"
        ) from error
    except UNREADABLE as error:
        raise ValueError(
            f"the card of {name} shows figures that the results or the config have in another form than runs write "
            f"them ({reason(error)}). {remedy}"
        ) from error
