"""What a task starts from: weights, what is read of each word, and labels."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError

from ..hub.file_names import TOKENIZER_FILE
from ..hub.loading import Model, find_file, load_config, load_what_is_there
from ..hub.loading import load_tokenizer as load_checkpoint_tokenizer
from ..model.configuration_elmo import ElmoConfig, HeadConfig
from ..model.modeling_elmo import IGNORED_LABEL, ElmoTaskModel, ElmoWordTable
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.word_vectors import WordTable, build_word_table, read_word_vectors
from .arguments import FeatureArguments, ModelArguments, TaskTrainingArguments
from .readers.examples import Examples

# New task layers learn fast; a pre-trained biLM that is trained along with them must not be torn up.
_TASK_LEARNING_RATE = 1e-3
_BILM_LEARNING_RATE = 1e-4


def check_model_source(model_args: ModelArguments) -> None:
    """Check that exactly one flag says where the model comes from.

    Raises: ValueError naming those that were given.
    """
    sources = {name: getattr(model_args, name) for name in ("model_name_or_path", "config_name", "preset")}
    given = [name for name, value in sources.items() if value]
    if len(given) != 1:
        raise ValueError(
            f"{' and '.join(given) or 'No model'} given; wanted exactly one of --model_name_or_path for a checkpoint, "
            "--config_name or --preset for random weights."
        )


def is_random(model_args: ModelArguments) -> bool:
    """Whether all weights are to be drawn at random."""
    return model_args.from_scratch or not model_args.model_name_or_path


def load_source_config(model_args: ModelArguments) -> ElmoConfig:
    """The config that the arguments name, before the task sets its own fields.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    if model_args.preset is not None:
        return getattr(ElmoConfig, model_args.preset)()
    argument = "model_name_or_path" if model_args.model_name_or_path else "config_name"
    return load_config(getattr(model_args, argument), argument)


def set_model_fields(config: ElmoConfig, model_args: ModelArguments) -> None:
    """Set what the arguments say of the biLM and its mixes, whatever the task, and leave the word softmax behind."""
    config.word_vocab_size = None
    fields = {"freeze_bilm": "freeze_bilm", "layers": "mixed_layers"}
    fields |= {name: name for name in ("mix_normalization", "mix_l2")}
    for argument, name in fields.items():
        value = getattr(model_args, argument)
        if value is not None:
            setattr(config, name, value)


def given_settings(model_args: ModelArguments, kind: type[HeadConfig]) -> dict[str, Any]:
    """The settings of a head that a task has flags for, of the same names, as far as they were given."""
    of_all_tasks = {field.name for owner in (ModelArguments, FeatureArguments) for field in fields(owner)}
    of_head = {field.name for field in fields(kind)} - of_all_tasks
    given = {field.name: (getattr(model_args, field.name), field.default) for field in fields(model_args)}
    return {name: value for name, (value, default) in given.items() if name in of_head and value != default}


def load_tokenizer(model_args: ModelArguments, config: ElmoConfig) -> ElmoCharTokenizer:
    """The checkpoint's tokenizer, or the plain one where it has none."""
    name = model_args.model_name_or_path or model_args.config_name
    if name is None or find_file(name, TOKENIZER_FILE) is None:
        return ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word)
    return load_checkpoint_tokenizer(name, config)


def start_model(
    model_class: type[Model],
    model_args: ModelArguments,
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
    if is_random(model_args) or name is None:
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


def settle_learning_rate(args: TaskTrainingArguments, model_args: ModelArguments) -> None:
    """Set the learning rate where it was left out: lower where a pre-trained biLM is trained too."""
    if args.learning_rate is None:
        trains_pretrained = not model_args.freeze_bilm and not is_random(model_args)
        args.learning_rate = _BILM_LEARNING_RATE if trains_pretrained else _TASK_LEARNING_RATE


_LEARNED_SIZE = 50
# A word that is known must occur, or its vector stays random; one that occurs once teaches what unknown words are.
_LEARNED_COUNT = 2
# What the features look capitals up as.
_LOWERED = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def set_word_inputs(
    config: ElmoConfig,
    kind: type[HeadConfig],
    args: FeatureArguments,
    tokenizer: ElmoCharTokenizer,
    train_words: Iterable[str],
    other_words: Iterable[str] = (),
) -> WordTable | None:
    """Set what the head reads of each word, and make the table of words that it is to be filled with.

    Args:
        config: Its `head` is set.
        kind: The class of the head's settings.
        args: What the flags say; what they leave out stays as it is.
        tokenizer: Makes the rows of the words.
        train_words: All words of the training data, as often as they occur.
        other_words: Those of the other splits, which have vectors of a file too.
    Returns: The table, for `fill_word_table` once the model is built; None where the flags ask for none.
    Raises: ValueError naming the flags that contradict each other or the data; FileNotFoundError.
    """
    head = config.require_head(kind)
    changes: dict[str, Any] = {}
    if args.no_use_elmo:
        changes["use_elmo"] = False
    if args.character_filters is not None:
        changes["character_filters"] = [_read_filter(text) for text in args.character_filters]
    if args.character_embedding_size is not None:
        changes["character_embedding_size"] = args.character_embedding_size
    if args.mix_at_output:
        changes["mix_at_output"] = True
    table = None
    if args.learn_words or args.word_vectors is not None:
        table, size = _make_table(args, tokenizer, train_words, other_words)
        changes |= {"word_table_size": len(table.rows), "word_vector_size": size}
        changes |= {"train_word_vectors": not args.no_train_word_vectors, "lower_case_words": args.lower_case_words}
    try:
        config.head = replace(head, **changes)
        config.validate()
    except StrictDataclassError as error:
        raise ValueError(
            f"{error.__cause__} (no_use_elmo, word_vectors, learn_words, character_filters and mix_at_output say what "
            "a word is read as.)"
        ) from error
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


def check_features(args: FeatureArguments) -> None:
    """Check what the flags say of words and characters, before any data is read.

    Raises: ValueError naming the flags that contradict each other, or a value out of its range.
    """
    has_file, learns = args.word_vectors is not None, args.learn_words
    of_words = [
        name for name in ("word_vector_size", "no_train_word_vectors", "lower_case_words") if getattr(args, name)
    ]
    for is_wrong, what in (
        (has_file and learns, f"word_vectors is {args.word_vectors!r} and learn_words is on"),
        (args.no_train_word_vectors and learns, "learn_words and no_train_word_vectors are both on"),
        (args.no_use_elmo and args.mix_at_output, "no_use_elmo and mix_at_output are both on"),
        (args.min_word_count and not learns, "min_word_count is set, but learn_words is off"),
        (
            args.more_word_vectors and not has_file,
            f"more_word_vectors is {args.more_word_vectors} without word_vectors",
        ),
        (of_words and not learns and not has_file, f"{of_words} set without word_vectors or learn_words"),
    ):
        if is_wrong:
            raise ValueError(f"{what}; leave one of them out, or give the other.")
    for name, least in (
        *(("min_word_count", 1), ("word_vector_size", 1), ("character_embedding_size", 1)),
        ("more_word_vectors", 0),
    ):
        if getattr(args, name) is not None and getattr(args, name) < least:
            raise ValueError(f"{name} is {getattr(args, name)}; it must be an integer >= {least}.")


def check_table(config: ElmoConfig, table: WordTable | None, is_random: bool) -> None:
    """Check that a head's table of words does not stay empty.

    Raises: ValueError where all weights are drawn at random and the flags name no words.
    """
    if is_random and table is None and getattr(config.head, "word_table_size", None):
        raise ValueError(
            "the checkpoint's head has a table of words, which from_scratch leaves empty; say what is in it with "
            "--word_vectors or --learn_words."
        )


def _make_table(
    args: FeatureArguments, tokenizer: ElmoCharTokenizer, train_words: Iterable[str], other_words: Iterable[str]
) -> tuple[WordTable, int]:
    """The table of words, and the size of its vectors."""
    counts = Counter(_as_looked_up(word, args, tokenizer) for word in train_words)
    if args.word_vectors is not None:
        wanted = {*counts, *(_as_looked_up(word, args, tokenizer) for word in other_words)}
        read = read_word_vectors(args.word_vectors, wanted, vector_size=args.word_vector_size)
        words, vectors = read.words, read.vectors
        if args.more_word_vectors:
            size = vectors.shape[1]
            more = read_word_vectors(args.word_vectors, max_words=args.more_word_vectors, vector_size=size)
            is_new = [word not in wanted for word in more.words]
            words = [*words, *itertools.compress(more.words, is_new)]
            vectors = np.concatenate([vectors, more.vectors[is_new]])
        return build_word_table(tokenizer, words, vectors), vectors.shape[1]
    least = _LEARNED_COUNT if args.min_word_count is None else args.min_word_count
    words = [word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count >= least]
    if not words:
        raise ValueError(
            f"learn_words is on, but no word stands {least} times in the training data; lower min_word_count, or give "
            "more data."
        )
    return build_word_table(tokenizer, words), args.word_vector_size or _LEARNED_SIZE


def _as_looked_up(word: str, args: FeatureArguments, tokenizer: ElmoCharTokenizer) -> str:
    if tokenizer.do_lower_case:
        return word.lower()
    return word.translate(_LOWERED) if args.lower_case_words else word


def _read_filter(text: str) -> list[int]:
    width, colon, count = text.partition(":")
    if not (colon and width.isdecimal() and count.isdecimal()):
        raise ValueError(f"character_filters holds {text!r}; wanted WIDTH:COUNT, 3:128 for example.")
    return [int(width), int(count)]


def choose_labels(
    splits: Mapping[str, Examples], extra: Sequence[str] = (), checkpoint_labels: Sequence[str] | None = None
) -> list[str]:
    """The labels of the classifier, in the order of their ids.

    A checkpoint's labels, in its own order, where it has a classifier that knows all that are wanted (or nothing is to
    be trained); else those of the training data, what the corpus declares and the extra ones, sorted, numbers by size.

    Args:
        splits: The examples with their labels.
        extra: Labels to know besides.
        checkpoint_labels: Labels of the checkpoint's classifier; None where it has none.
    Raises: ValueError where there is neither training data nor a checkpoint's classifier, or where the extra labels
        are none of that.
    """
    wanted = set(extra)
    if "train" in splits:
        wanted |= {*splits["train"].label_places(), *splits["train"].known_labels}
    elif checkpoint_labels is None:
        raise ValueError(
            "do_train is off, but the checkpoint has no classifier of this task to evaluate; name one that has with "
            "--model_name_or_path, or give training data."
        )
    if checkpoint_labels is not None and wanted <= set(checkpoint_labels):
        return list(checkpoint_labels)
    if "train" not in splits:
        raise ValueError(
            f"labels is {list(extra)}, but nothing is trained and the checkpoint knows only {checkpoint_labels}; leave "
            "--labels out, or give training data."
        )
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
