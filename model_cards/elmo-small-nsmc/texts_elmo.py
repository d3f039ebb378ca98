"""What a tokenizer's call is given, told apart and checked: a text, a list of words, a pair, or a batch of them."""

from __future__ import annotations

from typing import Any

# A text to be cut into words, or the words themselves.
Text = str | list[str]


def as_samples(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[list[tuple[Text, ...]], bool]:
    """The sentences or pairs of a tokenizer's call, and whether they were a batch.

    Pairs come as two arguments or, in a batch, as lists of two: `[("a", "b"), ("c", "d")]`.

    Raises: TypeError or ValueError naming the argument, its place and what was found there.
    """
    if text_pair is None and not isinstance(text, str) and hasattr(text, "__len__"):
        text = list(text)
        if text and _is_pair(text[0], is_split_into_words):
            for position, pair in enumerate(text):
                if not _is_pair(pair, is_split_into_words):
                    raise TypeError(f"text[{position}] is no pair, as text[0] is one; give pairs alone, or none.")
            text, text_pair = map(list, zip(*text, strict=True))
    texts, is_batch = _as_batch("text", text, is_split_into_words)
    if text_pair is None:
        return [(sentence,) for sentence in texts], is_batch
    others, pair_is_batch = _as_batch("text_pair", text_pair, is_split_into_words)
    if is_batch != pair_is_batch:
        kinds = [f"a {'batch' if batch else 'single sentence'}" for batch in (is_batch, pair_is_batch)]
        raise TypeError(f"text_pair is {kinds[1]}, but text is {kinds[0]}; give both as one or the other.")
    if len(texts) != len(others):
        raise ValueError(
            f"text_pair holds {len(others)} sentences, but text holds {len(texts)}; give one for each of them."
        )
    return list(zip(texts, others, strict=True)), is_batch


def _is_pair(item: Any, is_split_into_words: bool) -> bool:
    side = (list, tuple) if is_split_into_words else str
    return isinstance(item, (list, tuple)) and len(item) == 2 and all(isinstance(part, side) for part in item)


def _as_batch(name: str, text: Any, is_split_into_words: bool) -> tuple[list[Text], bool]:
    """The sentences of one argument, and whether it was a batch."""
    if isinstance(text, str):
        if is_split_into_words:
            raise TypeError(
                f"{name} is a string but is_split_into_words=True; give a list of words, or leave the flag out."
            )
        return [text], False
    if not isinstance(text, (list, tuple)) and not hasattr(text, "__len__"):
        raise TypeError(f"{name} is a {type(text).__name__}; wanted a string or a list.")
    text = list(text)
    if not is_split_into_words:
        for position, sentence in enumerate(text):
            if not isinstance(sentence, str):
                raise TypeError(
                    f"{name}[{position}] is a {type(sentence).__name__}; wanted a string. For sentences that are lists "
                    "of words, pass is_split_into_words=True."
                )
        return text, True
    is_batch = bool(text) and not isinstance(text[0], str)
    sentences = text if is_batch else [text]
    for position, sentence in enumerate(sentences):
        if isinstance(sentence, str) or not hasattr(sentence, "__len__"):
            raise TypeError(
                f"{name}[{position}] is a {type(sentence).__name__}; wanted a list of words, as its mates are."
            )
        if set(map(type, sentence)) <= {str}:  # nearly always; the loop costs more
            continue
        for place, word in enumerate(sentence):
            if not isinstance(word, str):
                where = f"{name}[{position}][{place}]" if is_batch else f"{name}[{place}]"
                raise TypeError(f"{where} is a {type(word).__name__}; words are strings.")
    return [list(sentence) for sentence in sentences], is_batch
