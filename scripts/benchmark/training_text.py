"""The text of the measurements of training, and windows of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from hf_elmo.pretraining.lanes import LaneFiller, LaneWindow
from hf_elmo.text.corpora import Corpus, corpus_from_files

from .generated_text import GENERATED_TEXT, generate_corpus


class TextSettings(Protocol):
    """What says which text: a file or, where it is None, how many words are generated from which seed."""

    text_file: str | None
    num_words: int
    seed: int


def open_text(settings: TextSettings) -> Corpus:
    """The text as a stream, as the loop reads it."""
    if settings.text_file is None:
        return generate_corpus(settings.num_words, settings.seed)
    return corpus_from_files([settings.text_file], "--text_file")


def name_text(settings: TextSettings) -> str:
    """What reports call the text."""
    return GENERATED_TEXT if settings.text_file is None else Path(settings.text_file).name


def windows_without_end(filler: LaneFiller, corpus: Corpus) -> Iterator[LaneWindow]:
    """Windows of as many passes over the text as are asked for."""
    while True:
        yield from filler.windows(corpus.sentences(filler.tokenizer.tokenize))
