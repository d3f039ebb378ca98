"""What a task reads of each word: the head's settings from the flags, and the table of words that they ask for."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from huggingface_hub.errors import StrictDataclassError

from ..model.configuration_elmo import ElmoConfig, WordInputsHead
from ..model.modeling_elmo import ElmoTaskModel, ElmoWordTable
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.word_vectors import WordTable, build_word_table, read_word_vectors
from .arguments import FeatureArguments

_LEARNED_SIZE = 50
# A word that is known must occur, or its vector stays random; one that occurs once teaches what unknown words are.
_LEARNED_COUNT = 2
# What the features look capitals up as.
_LOWERED = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def set_word_inputs(
    config: ElmoConfig,
    kind: type[WordInputsHead],
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
    check_features(args)
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
    if args.word_vectors is not None and args.learn_words:
        raise ValueError(
            f"word_vectors is {args.word_vectors!r} and learn_words is on; the vectors are a file's or learned, so "
            "leave one of them out. (Those of a file are trained too, unless --no_train_word_vectors.)"
        )
    if args.no_train_word_vectors and args.learn_words:
        raise ValueError("learn_words and no_train_word_vectors are both on; leave one of them out.")
    if args.min_word_count is not None and not args.learn_words:
        raise ValueError(f"min_word_count is {args.min_word_count}, but learn_words is off; leave it out.")
    if args.more_word_vectors < 0 or (args.more_word_vectors and args.word_vectors is None):
        raise ValueError(
            f"more_word_vectors is {args.more_word_vectors} and word_vectors {args.word_vectors!r}; wanted a number "
            ">= 0 of vectors of a file."
        )
    for name in ("min_word_count", "word_vector_size", "character_embedding_size"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; it must be an integer >= 1.")
    if not args.learn_words and args.word_vectors is None:
        for name in ("word_vector_size", "no_train_word_vectors", "lower_case_words"):
            if getattr(args, name):
                raise ValueError(f"{name} is set, but not for what words; give word_vectors or learn_words.")
    if args.no_use_elmo and args.mix_at_output:
        raise ValueError("no_use_elmo and mix_at_output are both on; leave one of them out.")


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
