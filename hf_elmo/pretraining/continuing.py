"""Continuing from a checkpoint on new text: what is carried over of its weights.

Letters in shapes: V words of the softmax, P projection.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from ..checkpoints.loading import find_file, load_config, load_model, load_tokenizer
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel
from ..model.modeling_elmo_tasks import ElmoForTokenClassification
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import VOCABULARY_FILE, WordVocabulary
from .objectives import propose_cutoffs

# What a task has put into a config, and what may be set anew without a change of what the weights mean.
_TASK_FIELDS = (
    "freeze_bilm",
    "num_mixes",
    "mix_normalization",
    "mix_l2",
    "head",
)
_SOFTMAX_FIELDS = ("softmax_type", "share_word_softmax", "adaptive_softmax_cutoffs", "adaptive_softmax_div_value")
_FREE_FIELDS = {*_TASK_FIELDS, *_SOFTMAX_FIELDS, "dropout", "cell_clip", "projection_clip", "train_word_vectors"}


@dataclass(frozen=True)
class Source:
    """A checkpoint to continue from.

    Args:
        name: A directory, or a name on the Hub.
        model: With its word softmax, or the biLM alone where the checkpoint has none (converted without one, or
            fine-tuned for a task).
        vocabulary: The words of that softmax; None where the checkpoint holds no list of words.
        tokenizer: Its tokenizer.
    """

    name: str
    model: ElmoForPreTraining | ElmoModel
    vocabulary: WordVocabulary | None
    tokenizer: ElmoCharTokenizer

    @property
    def config(self) -> ElmoConfig:
        """The config of the checkpoint."""
        return self.model.config


def load_source(model_name_or_path: str) -> Source:
    """Load a checkpoint of any of our classes to continue from, in float32.

    Raises: FileNotFoundError or ValueError naming model_name_or_path and what it lacks.
    """
    config = load_config(model_name_or_path)
    # A fine-tuned checkpoint may still name the size of a softmax that was left behind.
    architectures = config.architectures or [ElmoForPreTraining.__name__]
    has_softmax = config.word_vocab_size is not None and ElmoForPreTraining.__name__ in architectures
    model: ElmoForPreTraining | ElmoModel
    if has_softmax:
        model = load_model(ElmoForPreTraining, model_name_or_path)
    else:
        model = load_model(ElmoModel, model_name_or_path)
    if ElmoForTokenClassification.__name__ in architectures:
        _forget_task(model.config)
    vocabulary = _load_words(model_name_or_path, model)
    return Source(model_name_or_path, model, vocabulary, load_tokenizer(model_name_or_path, config))


def _load_words(name: str, model: ElmoForPreTraining | ElmoModel) -> WordVocabulary | None:
    words = model.words if isinstance(model, ElmoForPreTraining) else None
    if words is not None:
        try:
            return WordVocabulary(words)
        except ValueError as error:
            raise ValueError(f"model_name_or_path {name!r} holds {VOCABULARY_FILE}, but {error}") from error
    # Beside a biLM alone; a softmax has taken no words where their number is not its own.
    file = find_file(name, VOCABULARY_FILE)
    if file is None:
        return None
    vocabulary = WordVocabulary.load(file)
    if isinstance(model, ElmoForPreTraining):
        raise ValueError(
            f"model_name_or_path {name!r} has a softmax over {model.num_words} words, but its {VOCABULARY_FILE} has "
            f"{len(vocabulary)}; put the file there that was saved with the model."
        )
    return vocabulary


def _forget_task(config: ElmoConfig) -> None:
    plain = ElmoConfig()
    for name in (*_TASK_FIELDS, "id2label", "label2id"):
        setattr(config, name, getattr(plain, name))


@dataclass(frozen=True)
class CarriedOver:
    """A model to train on, made from a source.

    Args:
        model: Its token encoder and biLM are the source's, bit by bit; its scalar mixes are at their start.
        num_kept_words: Words whose rows of the softmax are the source's.
        description: What became of the softmax, in one line.
    """

    model: ElmoForPreTraining
    num_kept_words: int
    description: str


def carry_over(
    source: Source,
    words: WordVocabulary,
    softmax_type: str = "full",
    overrides: Mapping[str, Any] | None = None,
) -> CarriedOver:
    """Make the model that goes on from a source, over the source's own words or new ones.

    A full softmax keeps the rows, weights and biases, of all words that it knows; words that are new to it start from
    its `<UNK>`. Where the source has one softmax and the new model two, both get them. An adaptive softmax is kept as a
    whole or not at all: a word's place says how long its row is, and other words have other places.

    Args:
        source: Where the weights come from.
        words: Words of the new softmax.
        softmax_type: "full" or "adaptive", as the objective wants it.
        overrides: Fields of the config to change; only those that leave the weights what they are.
    Raises: ValueError naming the field, the source's value and the one wanted.
    """
    config = continued_config(source, words, softmax_type, overrides)
    model = ElmoForPreTraining(config)
    base = source.model.base_model.state_dict()
    model.base_model.load_state_dict(
        {**model.base_model.state_dict(), **{key: base[key] for key in base if not key.startswith("mixes.")}}
    )
    num_kept, description = _carry_softmax(source, words, model)
    return CarriedOver(model, num_kept, description)


def check_overrides(overrides: Mapping[str, Any]) -> None:
    """Check that --config_overrides sets fields that a config has; raises ValueError naming the one that it has not."""
    known = sorted(field.name for field in fields(ElmoConfig))
    for name in overrides:
        if name not in known:
            (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise ValueError(
                f"--config_overrides sets {name!r}, which ElmoConfig does not have; did you mean {nearest!r}?"
            )


def continued_config(
    source: Source, words: WordVocabulary, softmax_type: str, overrides: Mapping[str, Any] | None = None
) -> ElmoConfig:
    """The config of the model that `carry_over` makes, by the same arguments and with the same errors."""
    old, overrides = source.config, dict(overrides or {})
    check_overrides(overrides)
    for name, value in overrides.items():
        if name not in _FREE_FIELDS and value != getattr(old, name):
            raise ValueError(
                f"--config_overrides sets {name} to {value!r}, but the weights of --model_name_or_path {source.name!r} "
                f"were trained with {getattr(old, name)!r}; leave it out, or train a new model without "
                "--model_name_or_path."
            )
    changes = {"softmax_type": softmax_type, **overrides, "word_vocab_size": len(words)}
    if changes["softmax_type"] == "full":
        changes["adaptive_softmax_cutoffs"] = None
    elif changes.get("adaptive_softmax_cutoffs") is None:
        keeps = _has_words(source, words) and old.softmax_type == "adaptive"
        changes["adaptive_softmax_cutoffs"] = old.adaptive_softmax_cutoffs if keeps else propose_cutoffs(len(words))
    config = ElmoConfig.from_dict({**old.to_dict(), **changes})
    if _has_softmax(source) and config.share_word_softmax and not old.share_word_softmax:
        raise ValueError(
            "--config_overrides sets share_word_softmax to True, but --model_name_or_path "
            f"{source.name!r} has a softmax for each direction, which cannot be made one; leave it out."
        )
    return config


def _has_softmax(source: Source) -> bool:
    return isinstance(source.model, ElmoForPreTraining)


def _has_words(source: Source, words: WordVocabulary) -> bool:
    return source.vocabulary is not None and source.vocabulary.words == words.words


def _carry_softmax(source: Source, words: WordVocabulary, model: ElmoForPreTraining) -> tuple[int, str]:
    """How many words kept their rows, and what became of the softmax."""
    new = f"softmax: new, over {len(words):,} words"
    if not isinstance(source.model, ElmoForPreTraining):
        return 0, f"{new}; {source.name} has none"
    if source.vocabulary is None:
        return 0, f"{new}; {source.name} holds no {VOCABULARY_FILE} that names the rows of its own"
    old, config = source.config, model.config
    pairs: Iterable[tuple[Any, Any]] = zip(source.model.word_softmaxes, model.word_softmaxes, strict=True)
    if old.softmax_type == config.softmax_type == "full":
        for theirs, ours in pairs:
            num_kept = _copy_rows(theirs, source.vocabulary, ours, words)
        return num_kept, (
            f"softmax: {num_kept:,} of {len(words):,} words keep their rows from {source.name}, "
            f"{len(words) - num_kept:,} are new, {len(source.vocabulary) - num_kept:,} are left out"
        )
    if _has_words(source, words) and all(getattr(old, name) == getattr(config, name) for name in _SOFTMAX_FIELDS):
        for theirs, ours in pairs:
            ours.load_state_dict(theirs.state_dict())
        return len(words), f"softmax: all {len(words):,} words keep their rows from {source.name}"
    return 0, (
        f"{new}; the rows of {source.name} ({old.softmax_type}, {old.word_vocab_size:,} words) fit no other clusters, "
        "and are left out"
    )


@torch.no_grad()
def _copy_rows(theirs: nn.Linear, their_words: WordVocabulary, ours: nn.Linear, our_words: WordVocabulary) -> int:
    """Copy the rows of the words that both know and start those of the others; how many were copied.

    To the source a word that it lacks was `<UNK>`. Such words start from that row, each with an equal share of its
    probability, so that what the source says of the words it knows stays as it was, but for less than p(`<UNK>`). Rows
    drawn anew, with biases of zero or of the mean, lagged behind after 20 steps and after 200 (from film reviews to
    Wikipedia; also from a source whose text held no `<UNK>`). Biases of zero beside log frequencies are the worst: the
    new words take all probability.
    """
    unknown = WordVocabulary.unk_id
    sources = torch.tensor([their_words.ids.get(word, unknown) for word in our_words.words])
    is_new = torch.tensor([word not in their_words for word in our_words.words])
    num_new = int(is_new.sum())
    torch.index_select(theirs.weight, 0, sources, out=ours.weight)
    ours.bias.copy_(theirs.bias[sources])
    ours.bias[is_new] -= math.log(num_new + 1)
    return len(our_words) - num_new
