"""English prose that ships with every CPython: the help topics of `pydoc`, as sentences."""

from __future__ import annotations

import os
import re
from pathlib import Path
from pydoc_data.topics import topics

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"“(]?[A-Z])")
# Grammar, tables, underlines and sessions of the interpreter; indentation says nothing, notes have it like code.
_NOT_PROSE = re.compile(r"::=|^\s*[*=\-~^+|]{3,}|^\s*>>>|^\s*\|", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z]+['\u2019]?[a-z]*[,.;:]?$")


def paragraphs() -> list[list[str]]:
    """The prose paragraphs of all topics, each a list of sentences, each paragraph once, in the order of the topics.

    Topics include one another's text, so that a paragraph comes up to four times; held-out text would not be held out.
    """
    seen: dict[str, None] = {}
    for name in sorted(topics):
        for block in re.split(r"\n\s*\n", topics[name]):
            if not _NOT_PROSE.search(block):
                words = block.split()
                is_sentence = len(words) >= 6 and words[-1].endswith((".", ":", "!", "?"))
                if is_sentence and sum(bool(_WORD.match(word)) for word in words) > 0.7 * len(words):
                    seen.setdefault(" ".join(words))
    return [_SENTENCE_END.split(text) for text in seen]


def split_topics(held_out_every: int = 10) -> tuple[list[str], list[str]]:
    """Training and held-out sentences: each `held_out_every`-th paragraph is held out."""
    train: list[str] = []
    held_out: list[str] = []
    for index, sentences in enumerate(paragraphs()):
        (held_out if index % held_out_every == held_out_every - 1 else train).extend(sentences)
    return train, held_out


def write_split(directory: str | os.PathLike) -> tuple[Path, Path]:
    """Write the split as two text files, one sentence per line, and return their paths."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files = directory / "train.txt", directory / "heldout.txt"
    for file, sentences in zip(files, split_topics(), strict=True):
        file.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    return files
