"""What a task starts from: settings of its head, weights, what is read of each word, and labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from torch import nn

from ..hub.file_names import TOKENIZER_FILE
from ..hub.loading import Model, find_file, load_what_is_there
from ..hub.loading import load_tokenizer as load_checkpoint_tokenizer
from ..model.configuration_elmo import ElmoConfig, HeadConfig
from ..model.modeling_elmo import ElmoTaskModel, ElmoWordTable
from ..model.modeling_elmo_tasks import ElmoDense
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.word_vectors import WordTable, build_word_table, read_word_vectors
from .arguments import TaskArguments
from .readers import Examples

LEARNED_SIZE = 50
# A word that is known must occur, or its vector stays random; one that occurs once teaches what unknown words are.
_LEARNED_COUNT = 2
# What the features look capitals up as.
_LOWERED = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def read_settings(given: Sequence[str] | None, kind: type[HeadConfig]) -> dict[str, Any]:
    """The settings of a head that --head names, NAME=VALUE; a value is JSON, or a word.

    Raises: ValueError naming what is no setting of this head.
    """
    settings, known = {}, [field.name for field in fields(kind) if field.name != "word_table_size"]
    for text in given or ():
        name, equals, value = text.partition("=")
        if name not in known or not equals:
            raise ValueError(f"head holds {text!r}; wanted NAME=VALUE, the name one of {', '.join(known)}.")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def load_tokenizer(name: str, config: ElmoConfig) -> ElmoCharTokenizer:
    """The checkpoint's tokenizer, or the plain one where it has none."""
    if find_file(name, TOKENIZER_FILE) is None:
        return ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word)
    return load_checkpoint_tokenizer(name, config)


def start_model(
    model_class: type[Model],
    model_args: TaskArguments,
    config: ElmoConfig,
    num_labels: int | None = None,
) -> tuple[Model, str]:
    """A model with a task's head, in float32, and in some words its size and where its weights come from.

    With `num_labels` what the checkpoint has for other labels is drawn anew, for so many.

    Raises: FileNotFoundError where there are no weights, ValueError where some of the biLM's are lacking.
    """
    name = model_args.model_name_or_path
    if model_args.from_scratch:
        model, origin = model_class(config), "all weights random"
    else:
        try:
            model, missing = load_what_is_there(model_class, name, config)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"model_name_or_path {name!r} has no weights; for random ones pass --from_scratch. ({error})"
            ) from error
        lost = [key for key in missing if key.startswith(("elmo.token_encoder.", "elmo.bilm."))]
        if lost:
            raise ValueError(
                f"model_name_or_path {name!r} has no weights, or weights of another shape, for {lost[0]!r} and "
                f"{len(lost) - 1} more of the biLM; name a complete ELMo checkpoint."
            )
        new = {key.split(".")[0] if not key.startswith("elmo.mixes") else "scalar mix" for key in missing}
        if num_labels is not None:
            new |= _draw_classifier(model, num_labels)
        origin = f"weights from {name}" + (f", except new ones for {', '.join(sorted(new))}" if new else "")
    trained, frozen = model.num_parameters(only_trainable=True), "fixed" if config.freeze_bilm else "trained"
    return model, f"{model.num_parameters():,} parameters, {trained:,} of them trained (biLM {frozen}); {origin}"


def _draw_classifier(model: Any, num_labels: int) -> set[str]:
    """Draw the parts of a model anew that are for its labels, and name them."""
    old = model.classifier
    activation = (old.activation,) if isinstance(old, ElmoDense) else ()
    model.classifier = type(old)(old.in_features, num_labels, *activation)
    model._init_weights(model.classifier)
    if getattr(model, "crf", None) is None:
        return {"classifier"}
    for scores in model.crf.parameters():
        nn.init.zeros_(scores)
    return {"classifier", "crf"}


def set_word_inputs(
    config: ElmoConfig,
    args: TaskArguments,
    tokenizer: ElmoCharTokenizer,
    train_words: Iterable[str],
    other_words: Iterable[str] = (),
    vector_size: int | None = None,
) -> WordTable | None:
    """Make the table of words that the head is to be filled with, and set its sizes; None where flags ask for none.

    Args:
        config, args, tokenizer: The architecture with its head, the flags, and what makes the rows of the words.
        train_words: All words of the training data, as often as they occur.
        other_words: Those of the other splits, which have vectors of a file too.
        vector_size: Of a vector, where it is not the file's, or the usual one.
    Raises: ValueError naming the flag, where there are no words for it; FileNotFoundError.
    """
    head: Any = config.head
    if not (args.learn_words or args.word_vectors):
        if args.from_scratch and getattr(head, "word_table_size", None):
            raise ValueError(
                "the checkpoint's head has a table of words, which from_scratch leaves empty; say what is in it with "
                "--word_vectors or --learn_words."
            )
        return None
    counts = Counter(_as_looked_up(word, head, tokenizer) for word in train_words)
    if args.word_vectors is not None:
        wanted = {*counts, *(_as_looked_up(word, head, tokenizer) for word in other_words)}
        read = read_word_vectors(args.word_vectors, wanted, vector_size=vector_size)
        size = read.vectors.shape[1]
        table = build_word_table(tokenizer, read.words, read.vectors)
    else:
        size = vector_size or LEARNED_SIZE
        words = [
            word
            for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            if count >= _LEARNED_COUNT
        ]
        if not words:
            raise ValueError(f"learn_words is on, but no word stands {_LEARNED_COUNT} times in the training data.")
        table = build_word_table(tokenizer, words)
    config.head = replace(head, word_table_size=len(table.rows), word_vector_size=size)
    return table


def fill_word_table(model: ElmoTaskModel, table: WordTable) -> None:
    """Put the words of a table into a new model."""
    # A checkpoint may have brought vectors of other words.
    fresh = ElmoWordTable(len(table.rows), cast("ElmoWordTable", model.features.word_table).embedding_dim)
    model._init_weights(fresh)
    fresh.requires_grad_(model.features.train_word_vectors)
    model.features.word_table = fresh
    table.fill(model)


def _as_looked_up(word: str, head: Any, tokenizer: ElmoCharTokenizer) -> str:
    if tokenizer.do_lower_case:
        return word.lower()
    return word.translate(_LOWERED) if head.lower_case_words else word


def choose_labels(splits: Mapping[str, Examples], checkpoint_labels: Sequence[str] | None = None) -> list[str]:
    """The labels of the classifier, in the order of their ids.

    A checkpoint's labels, in its own order, where it has a classifier that knows all that are wanted (or nothing is to
    be trained); else those of the training data and what the corpus declares, sorted, numbers by size.
    """
    train = splits.get("train")
    wanted = set() if train is None else {*train.label_places(), *train.known_labels}
    if checkpoint_labels is not None and wanted <= set(checkpoint_labels):
        return list(checkpoint_labels)
    return sorted(wanted, key=lambda label: (0, int(label), "") if label.isdecimal() else (1, 0, label))


def find_unseen(splits: Mapping[str, Examples], labels: Sequence[str]) -> dict[str, str]:
    """The gold labels that a model of these labels does not know, sorted, and where each stands first.

    Raises: ValueError naming a split of which it knows no label.
    """
    places: dict[str, str] = {}
    for examples in splits.values():
        found = examples.label_places()
        if found and not set(found) & set(labels):
            label, place = next(iter(found.items()))
            raise ValueError(
                f"{place}: the label {label!r} is not known, and neither is another one of that data; known are "
                f"{list(labels[:20])}. Name the right column, or train on data with these labels."
            )
        places = {**found, **places}
    return {label: places[label] for label in sorted(set(places) - set(labels))}


def describe_head(head: HeadConfig) -> list[str]:
    """What a task reads of each word, in some words, and the settings of its own that are not as published."""
    parts = ["ELMo"] if head.use_elmo else []
    if head.word_table_size:
        parts.append(f"{'trained' if head.train_word_vectors else 'fixed'} vectors of {head.word_table_size:,} words")
    if head.character_filters:
        parts.append(f"{sum(count for _, count in head.character_filters):,} features of characters")
    at_output = getattr(head, "mix_at_output", False)
    reads = " + ".join(parts) + (", and ELMo again at the output of its lowest LSTM" if at_output else "")
    shared = {field.name for field in fields(HeadConfig)}
    own = {field.name: getattr(head, field.name) for field in fields(head) if field.name not in shared}
    default = type(head)()
    changed = [f"{name} {value}" for name, value in own.items() if value != getattr(default, name)]
    return [f"reads {reads}", *([", ".join(changed)] if changed else [])]
