"""Scores of sentences as rows for programs (tsv, csv, jsonl) and as tables for the eye."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..text.vocabulary import MANY_UNKNOWN
from .scoring import ScoreTotals, SentenceScores, Substitute, to_bits
from .word_places import PlacedWords

# Log probabilities are in nats, surprisals in bits. New columns go to the end: programs may count on the first ones.
COLUMNS = (
    "sentence",
    "position",
    "word",
    "unknown",
    "forward",
    "backward",
    "joint",
    "substitutes",
    "surprisal",
    "surprisal_backward",
    "surprisal_joint",
    "start",
    "end",
    "spaced_word",
)


@dataclass(frozen=True)
class ScoredLine:
    """What is known of one line of a text.

    Args:
        number: The line's, from 0.
        placed: Its words and where they stand in it.
        scores: Theirs.
        substitutes: What could stand at some of the places.
    """

    number: int
    placed: PlacedWords
    scores: SentenceScores
    substitutes: dict[int, list[Substitute]] = field(default_factory=dict)


# Takes one line after another.
Report = Callable[[ScoredLine], object]


def open_rows(stream: TextIO, file_format: str) -> Report:
    """What writes lines to a stream, opened with newline="".

    Args:
        stream: Gets the names of the columns at once, where the format has them.
        file_format: One of `ROW_FORMATS`: "tsv" and "csv", a row per word; "jsonl", a row per line. tsv has no quotes
            around anything, csv has them around words with a comma or a quote.
    """
    return ROW_FORMATS[file_format](stream)


def _write_jsonl(stream: TextIO) -> Report:
    return lambda line: stream.write(json.dumps(_as_record(line), ensure_ascii=False) + "\n")


def _write_table(stream: TextIO, **dialect: Any) -> Report:
    writer = csv.writer(stream, lineterminator="\n", **dialect)
    writer.writerow(COLUMNS)
    return lambda line: writer.writerows(_as_rows(line))


def _write_csv(stream: TextIO) -> Report:
    return _write_table(stream)


def _write_tsv(stream: TextIO) -> Report:
    # Words hold neither tabs nor line breaks: both are white space.
    return _write_table(stream, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None)


ROW_FORMATS: dict[str, Callable[[TextIO], Report]] = {"tsv": _write_tsv, "csv": _write_csv, "jsonl": _write_jsonl}


def _as_rows(line: ScoredLine) -> Iterator[tuple[Any, ...]]:
    """A row per word; `<S>` at position -1 and `</S>` at position T, each with the score of one direction."""
    scores = line.scores

    def row(position: int, word: str, forward: Any, backward: Any, joint: Any = None, **others: Any) -> tuple[Any, ...]:
        values = {
            "sentence": line.number,
            "position": position,
            "word": word,
            "unknown": 0,
            "forward": _rounded(forward),
            "backward": _rounded(backward),
            "joint": _rounded(joint),
            "surprisal": _bits(forward),
            "surprisal_backward": _bits(backward),
            "surprisal_joint": _bits(joint),
            **others,
        }
        return tuple(values.get(column, "") for column in COLUMNS)

    yield row(-1, BOS_TOKEN, None, scores.backward_end)
    for place, word in enumerate(scores.words):
        start, end = line.placed.offsets[place]
        yield row(
            place,
            word,
            scores.forward[place],
            scores.backward[place],
            scores.joint[place],
            unknown=int(scores.is_unknown[place]),
            substitutes=" ".join(substitute.word for substitute in line.substitutes.get(place, [])),
            start=start,
            end=end,
            spaced_word=line.placed.spaced_words[place],
        )
    yield row(len(scores.words), EOS_TOKEN, scores.forward_end, None)


def _rounded(log_probability: float | None) -> str:
    return "" if log_probability is None else f"{log_probability:.6f}"


def _bits(log_probability: float | None) -> str:
    # Adding 0 takes the sign off a zero.
    return "" if log_probability is None else f"{to_bits(log_probability) + 0.0:.6f}"


def _as_record(line: ScoredLine) -> dict[str, Any]:
    scores, totals = line.scores, line.scores.totals
    record = {
        "sentence": line.number,
        "words": scores.words,
        "unknown": scores.is_unknown.tolist(),
        "forward": np.round(scores.forward, 6).tolist(),
        "backward": np.round(scores.backward, 6).tolist(),
        "joint": np.round(scores.joint, 6).tolist(),
        "forward_end": round(scores.forward_end, 6),
        "backward_end": round(scores.backward_end, 6),
        "perplexity": totals.perplexity,
        "pseudo_perplexity": totals.pseudo_perplexity,
        "surprisal": _rounded_list(scores.forward_surprisal),
        "surprisal_backward": _rounded_list(scores.backward_surprisal),
        "surprisal_joint": _rounded_list(scores.joint_surprisal),
        "offsets": line.placed.offsets,
        "spaced_words": line.placed.spaced_words,
    }
    if line.substitutes:
        record["substitutes"] = {
            place: [vars(each) for each in proposed] for place, proposed in line.substitutes.items()
        }
    return record


def _rounded_list(bits: np.ndarray) -> list[float]:
    return (np.round(bits, 6) + 0.0).tolist()


# For the eye


def describe_scores(line: ScoredLine) -> str:
    """A table in bits: a line per word, then the substitutes of each position."""
    scores = line.scores
    names = [word + " *" * bool(is_unknown) for word, is_unknown in zip(scores.words, scores.is_unknown, strict=True)]
    proposed_words = [substitute.word for proposed in line.substitutes.values() for substitute in proposed]
    width = max(map(len, ["bits from", *names, *proposed_words]))

    def row(place: Any, name: str, *log_probabilities: float | None) -> str:
        bits = ("" if value is None else f"{to_bits(value):.2f}" for value in log_probabilities)
        return (f"{place:>5}  {name:<{width}}" + "".join(f"{value:>9}" for value in bits)).rstrip()

    lines = [
        f"sentence {line.number}: {describe_perplexities(scores.totals)}",
        f"{'':5}  {'bits from':<{width}}{'left':>9}{'right':>9}{'both':>9}",
        row("", BOS_TOKEN, None, scores.backward_end),
        *map(row, itertools.count(), names, scores.forward, scores.backward, scores.joint),
        row("", EOS_TOKEN, scores.forward_end),
    ]
    for place, proposed in line.substitutes.items():
        lines.append(f"in place of {scores.words[place]!r} at {place}:")
        lines += [row("", each.word, each.forward, each.backward, each.joint) for each in proposed]
    return "\n".join(lines) + "\n"


def describe_perplexities(totals: ScoreTotals) -> str:
    """The perplexities in one line."""
    return (
        f"perplexity {totals.perplexity:,.1f} (forward {totals.forward_perplexity:,.1f}, backward "
        f"{totals.backward_perplexity:,.1f}), pseudo-perplexity {totals.pseudo_perplexity:,.1f}"
    )


def describe_totals(totals: ScoreTotals, seconds: float, device: Any, carry_state: bool = False) -> str:
    """What was scored, how surprising it was, and how fast it went.

    Args:
        totals: Sums over all lines.
        seconds: How long it took.
        device: What it was computed on.
        carry_state: Whether the states went on from line to line.
    """
    states = "the state carried from line to line" if carry_state else "each from a state of zeros"
    lines = [
        f"Scored {totals.num_sentences:,} sentences of {totals.num_words:,} words, {states}: "
        f"{describe_perplexities(totals)}.",
        f"Words unknown to the softmax (*) are scored as <UNK>: {totals.num_unknown:,} of {totals.num_words:,}. "
        f"{totals.num_words / seconds:,.0f} words/s on {device}.",
    ]
    if totals.num_unknown > MANY_UNKNOWN * totals.num_words:
        lines.append(
            f"{totals.num_unknown / totals.num_words:.0%} of the words are unknown, and <UNK> is easy to guess: these "
            "perplexities mean little. Is the text cut as the training text was, and in its language?"
        )
    return "\n".join(lines)
