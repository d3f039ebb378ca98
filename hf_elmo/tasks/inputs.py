"""What a task starts from: the flags of its model, settings of its head, weights, vectors of words, and labels."""

from __future__ import annotations

import json
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

from torch import nn

from ..given import flag
from ..hub.loading import Model, load_what_is_there
from ..model.configuration_elmo import ElmoConfig, HeadConfig
from ..model.modeling_elmo import ElmoTaskModel, ElmoWordTable
from ..model.modeling_elmo_tasks import ElmoDense
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.word_vectors import WordTable, build_word_table, read_word_vectors
from .readers import Examples

_LEARNED_SIZE = 50
# A word that is known must occur, or its vector stays random; one that occurs once teaches what unknown words are.
_LEARNED_COUNT = 2
# What the features look capitals up as.
_LOWERED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# The help of a flag of tasks whose data may be raw text.
PRE_TOKENIZER = (
    "How text is cut into words: at white space, for text that is tokenized; penn or unicode, for raw text; saved with "
    "the model. By default the checkpoint's rule."
)


@dataclass
class TaskArguments:
    """The model: what it starts from, and what it reads of each word."""

    model_name_or_path: str = flag(
        "Checkpoint to start from: pre-trained, converted, or one of this task (directory or Hub)."
    )
    from_scratch: bool = flag(
        "Take only the architecture and the tokenizer of model_name_or_path; its config.json is enough then.",
        default=False,
    )
    head: list[str] | None = flag(
        "Settings of the task's head, NAME=VALUE ..., as in config.json; they are listed below.", default=None
    )
    freeze_bilm: bool = flag(
        "Keep the token encoder and the biLM fixed, as in the paper; only mix and task are trained.", default=True
    )
    layers: Literal["all", "top", "token", "average"] | None = flag(
        "Layers that the task reads: all by shares that it learns, the top one, the token encoder's, or the average; "
        "By default the config's.",
        default=None,
    )
    mix_normalization: Literal["none", "batch", "word"] | None = flag(
        "Whether each layer is brought to a mean of 0 and a variance of 1 before it is mixed: by word, or over all "
        "words of a batch as the paper did for entailment. Layers of small models are small, and small numbers are "
        "slow to learn from. By default the config's.",
        default=None,
    )
    mix_l2: float | None = flag("L2 penalty on the weights of the scalar mix; By default the config's.", default=None)
    word_vectors: str | None = flag(
        "Text file of word vectors (GloVe, word2vec, fastText; also packed, or any address that fsspec opens); those "
        "of the words of all data given are read.",
        default=None,
    )
    learn_words: bool = flag(
        "Learn a vector for each word that stands at least twice in the training data; the others share one.",
        default=False,
    )
    layer_cache_dir: str | None = flag(
        "Directory in which the layers of a frozen biLM are kept for later runs, computed once for each text; without "
        "it they are kept beside the output until the run ends. They take no more than half of what is free on the "
        "disk, or the biLM is run in each epoch.",
        default=None,
    )


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

    def as_looked_up(word: str) -> str:
        if tokenizer.do_lower_case:
            return word.lower()
        return word.translate(_LOWERED) if head.lower_case_words else word

    counts, size = Counter(map(as_looked_up, train_words)), vector_size or _LEARNED_SIZE
    if args.word_vectors is not None:
        wanted = {*counts, *map(as_looked_up, other_words)}
        read = read_word_vectors(args.word_vectors, wanted, vector_size=vector_size)
        table, size = build_word_table(tokenizer, *read), read.vectors.shape[1]
    else:
        words = [word for word, count in counts.items() if count >= _LEARNED_COUNT]
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


def describe_head(head: HeadConfig) -> str:
    """The settings of a head that are not as published."""
    default = type(head)()
    named = ((field.name, getattr(head, field.name)) for field in fields(head))
    return ", ".join(f"{name} {value}" for name, value in named if value != getattr(default, name))
