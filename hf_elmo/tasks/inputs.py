"""What a task starts from: weights, what is read of each word, and labels."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
import torch

from ..hub.file_names import TOKENIZER_FILE
from ..hub.loading import Model, find_file, load_what_is_there
from ..hub.loading import load_tokenizer as load_checkpoint_tokenizer
from ..model.configuration_elmo import ElmoConfig, HeadConfig
from ..model.modeling_elmo import IGNORED_LABEL, ElmoTaskModel, ElmoWordTable
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.word_vectors import WordTable, build_word_table, read_word_vectors
from .arguments import TaskArguments, TaskTrainingArguments
from .readers.examples import Examples

# New task layers learn fast; a pre-trained biLM that is trained along with them must not be torn up.
_TASK_LEARNING_RATE = 1e-3
_BILM_LEARNING_RATE = 1e-4


def set_model_fields(config: ElmoConfig, model_args: TaskArguments) -> None:
    """Set what the arguments say of the biLM and its mixes, whatever the task, and leave the word softmax behind."""
    config.word_vocab_size = None
    fields = {"freeze_bilm": "freeze_bilm", "layers": "mixed_layers"}
    fields |= {name: name for name in ("mix_normalization", "mix_l2")}
    for argument, name in fields.items():
        value = getattr(model_args, argument)
        if value is not None:
            setattr(config, name, value)


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
    redraw: Callable[[Model], set[str]] | None = None,
) -> tuple[Model, str]:
    """A model with a task's head, in float32, and where its weights come from, in some words.

    Args:
        model_class: The class of the model.
        model_args: Where its weights come from.
        config: Its architecture.
        redraw: Draws parts anew that the checkpoint has for other labels, and names them.
    Raises: FileNotFoundError where there are no weights, ValueError where some of the biLM's are lacking.
    """
    name = model_args.model_name_or_path
    if model_args.from_scratch:
        return model_class(config), "all weights random"
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
    if redraw is not None:
        new |= redraw(model)
    return model, f"weights from {name}" + (f", except new ones for {', '.join(sorted(new))}" if new else "")


def describe_model(model: torch.nn.Module, config: ElmoConfig, origin: str) -> str:
    """The size of a model, what of it is trained and where its weights come from, in some words."""
    total = sum(parameter.numel() for parameter in model.parameters())
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    frozen = "fixed" if config.freeze_bilm else "trained"
    return f"{total:,} parameters, {trained:,} of them trained (biLM {frozen}); {origin}"


def settle_learning_rate(args: TaskTrainingArguments, model_args: TaskArguments) -> None:
    """Set the learning rate where it was left out: lower where a pre-trained biLM is trained too."""
    if args.learning_rate is None:
        trains_pretrained = not model_args.freeze_bilm and not model_args.from_scratch
        args.learning_rate = _BILM_LEARNING_RATE if trains_pretrained else _TASK_LEARNING_RATE


LEARNED_SIZE = 50
# A word that is known must occur, or its vector stays random; one that occurs once teaches what unknown words are.
_LEARNED_COUNT = 2
# What the features look capitals up as.
_LOWERED = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def set_word_inputs(
    config: ElmoConfig,
    args: TaskArguments,
    tokenizer: ElmoCharTokenizer,
    train_words: Iterable[str],
    other_words: Iterable[str] = (),
    vector_size: int | None = None,
) -> WordTable | None:
    """Make the table of words that the head is to be filled with, and set its sizes.

    Args:
        config: The architecture with its head.
        args: Whether the vectors are learned, or a file's.
        tokenizer: Makes the rows of the words.
        train_words: All words of the training data, as often as they occur.
        other_words: Those of the other splits, which have vectors of a file too.
        vector_size: Of a vector, where it is not the file's, or the usual one.
    Returns: The table, for `fill_word_table` once the model is built; None where the flags ask for none.
    Raises: ValueError naming the flag, where there are no words for it; FileNotFoundError.
    """
    if not (args.learn_words or args.word_vectors):
        return None
    head: Any = config.head
    counts = Counter(_as_looked_up(word, head, tokenizer) for word in train_words)
    if args.word_vectors is not None:
        wanted = {*counts, *(_as_looked_up(word, head, tokenizer) for word in other_words)}
        read = read_word_vectors(args.word_vectors, wanted, vector_size=vector_size)
        words, vectors, size = read.words, read.vectors, read.vectors.shape[1]
        if args.more_word_vectors:
            more = read_word_vectors(args.word_vectors, max_words=args.more_word_vectors, vector_size=size)
            is_new = [word not in wanted for word in more.words]
            words = [*words, *itertools.compress(more.words, is_new)]
            vectors = np.concatenate([vectors, more.vectors[is_new]])
        table = build_word_table(tokenizer, words, vectors)
    else:
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        words, size = [word for word, count in ordered if count >= _LEARNED_COUNT], vector_size or LEARNED_SIZE
        if not words:
            raise ValueError(f"learn_words is on, but no word stands {_LEARNED_COUNT} times in the training data.")
        table = build_word_table(tokenizer, words)
    config.head = replace(head, word_table_size=len(table.rows), word_vector_size=size)
    return table


def fill_word_table(model: ElmoTaskModel, table: WordTable | None) -> None:
    """Put the words of a table into a new model; nothing where it is None."""
    if table is not None:
        # A checkpoint may have brought vectors of other words.
        fresh = ElmoWordTable(len(table.rows), cast("ElmoWordTable", model.features.word_table).embedding_dim)
        model._init_weights(fresh)
        fresh.requires_grad_(model.features.train_word_vectors)
        model.features.word_table = fresh
        table.fill(model)


def check_table(config: ElmoConfig, table: WordTable | None, is_random: bool) -> None:
    """Check that a head's table of words does not stay empty.

    Raises: ValueError where all weights are drawn at random and the flags name no words.
    """
    if is_random and table is None and getattr(config.head, "word_table_size", None):
        raise ValueError(
            "the checkpoint's head has a table of words, which from_scratch leaves empty; say what is in it with "
            "--word_vectors or --learn_words."
        )


def _as_looked_up(word: str, head: Any, tokenizer: ElmoCharTokenizer) -> str:
    if tokenizer.do_lower_case:
        return word.lower()
    return word.translate(_LOWERED) if head.lower_case_words else word


def choose_labels(splits: Mapping[str, Examples], checkpoint_labels: Sequence[str] | None = None) -> list[str]:
    """The labels of the classifier, in the order of their ids.

    A checkpoint's labels, in its own order, where it has a classifier that knows all that are wanted (or nothing is to
    be trained); else those of the training data and what the corpus declares, sorted, numbers by size.

    Args:
        splits: The examples with their labels.
        checkpoint_labels: Labels of the checkpoint's classifier; None where it has none.
    """
    train = splits.get("train")
    wanted = set() if train is None else {*train.label_places(), *train.known_labels}
    if checkpoint_labels is not None and wanted <= set(checkpoint_labels):
        return list(checkpoint_labels)
    return sorted(wanted, key=lambda label: (0, int(label), "") if label.isdecimal() else (1, 0, label))


_MOST_SHOWN = 10


def find_unseen(splits: Mapping[str, Examples], labels: Sequence[str]) -> tuple[list[str], str | None]:
    """The gold labels that a model does not know, and a line that warns of them, None where there are none.

    Args:
        splits: The examples with their labels.
        labels: Those that the model knows.
    Raises: ValueError naming a split of which it knows no label.
    """
    places: dict[str, str] = {}
    for examples in splits.values():
        found = examples.label_places()
        unseen = {label: place for label, place in found.items() if label not in labels}
        if unseen and len(unseen) == len(found):
            label, place = next(iter(unseen.items()))
            raise ValueError(
                f"{place}: the label {label!r} is not known, and neither is another one of that data; known are "
                f"{list(labels[:20])}. Name the right column, or train on data with these labels."
            )
        places |= {label: place for label, place in unseen.items() if label not in places}
    if not places:
        return [], None
    shown = [f"{label!r} ({place})" for label, place in list(places.items())[:_MOST_SHOWN]]
    more = f" and {len(places) - _MOST_SHOWN} more" if len(places) > _MOST_SHOWN else ""
    return sorted(places), f"labels that the model does not know are scored as missed: {', '.join(shown)}{more}"


def leave_out_unseen(model: ElmoTaskModel) -> None:
    """Have a model leave gold labels out of its loss whose ids are none of its own, but stand for labels behind them.

    Whoever scores its predictions sees them as they are.
    """

    def hide(model: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        labels = kwargs.get("labels")
        if labels is not None:
            kwargs = {**kwargs, "labels": labels.masked_fill(labels >= model.num_labels, IGNORED_LABEL)}
        return args, kwargs

    def correct(model: Any, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        labels = kwargs.get("labels")
        if labels is not None and (labels == IGNORED_LABEL).all():
            # A mean over none of the batch.
            output.loss = output.loss.nan_to_num()
        return output

    model.register_forward_pre_hook(hide, with_kwargs=True)
    model.register_forward_hook(correct, with_kwargs=True)


def describe_inputs(head: Mapping[str, Any]) -> str:
    """What a task reads of each word, in some words.

    Args:
        head: The settings of its head, as in config.json.
    """
    parts = ["ELMo"] if head["use_elmo"] else []
    if head["word_table_size"]:
        trained = "trained" if head["train_word_vectors"] else "fixed"
        parts.append(f"{trained} vectors of {head['word_table_size']:,} words")
    if head["character_filters"]:
        parts.append(f"{sum(count for _, count in head['character_filters']):,} features of characters")
    at_output = ", and ELMo again at the output of its lowest LSTM" if head.get("mix_at_output") else ""
    return " + ".join(parts) + at_output
