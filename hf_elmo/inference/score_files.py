"""Scores of a text as rows (tsv), as records (jsonl), as a heat map (html) and as tables on the screen."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple, TextIO

import numpy as np

from ..model.configuration_elmo import BOS_TOKEN, EOS_TOKEN
from ..text.vocabulary import MANY_UNKNOWN
from .embedder import PlacedWords
from .pages import fill_page
from .scoring import DIRECTIONS, ElmoScorer, ScoreTotals, SentenceScores, Substitute, to_bits

# Log probabilities are in nats, surprisals in bits.
_SURPRISALS: dict[Any, str] = {
    "forward": "surprisal",
    "backward": "surprisal_backward",
    "joint": "surprisal_joint",
}
COLUMNS = (
    *("sentence", "position", "word", "unknown", *DIRECTIONS, "substitutes"),
    *(*_SURPRISALS.values(), "start", "end", "spaced_word"),
)
# Surprisal, in bits, that has the full color in the heat map: one word of a million.
MAX_BITS = 20.0


class ScoredLine(NamedTuple):
    """A line of a text, by its index from 0, as it was read, its words, their scores, and what could stand where."""

    number: int
    text: str
    placed: PlacedWords
    scores: SentenceScores
    substitutes: Mapping[int, Sequence[Substitute]]


_BODY = "<!-- lines -->"

# Takes one line after another.
Report = Callable[[ScoredLine], object]


@contextmanager
def open_scores(stream: TextIO, file_format: str, facts: Sequence[str] = ()) -> Iterator[Report]:
    """A function that writes scored lines to a stream opened with newline="": as tsv, jsonl, or a heat map in html."""
    if file_format == "jsonl":
        yield lambda line: stream.write(json.dumps(_record(line), ensure_ascii=False) + "\n")
    elif file_format == "tsv":
        # Words hold neither tabs nor line breaks: both are white space.
        writer = csv.DictWriter(
            stream, COLUMNS, restval="", delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n"
        )
        writer.writeheader()
        yield lambda line: writer.writerows(_rows(line))
    else:
        page = fill_page("scores.html", "Surprisal", facts, max_bits=f"{MAX_BITS:g}", body=_BODY)
        before, _, after = page.rpartition(_BODY)
        stream.write(before)
        yield lambda line: stream.write(_paragraph(line))
        stream.write(after)


def _numbers(scores: SentenceScores) -> dict[str, list[float]]:
    """Log probabilities and surprisals of each word, by their columns; adding 0 takes the sign off a zero."""
    numbers: dict[str, np.ndarray] = {direction: getattr(scores, direction) for direction in DIRECTIONS}
    numbers |= {name: scores.surprisal(direction) for direction, name in _SURPRISALS.items()}
    return {name: (np.round(values, 6) + 0.0).tolist() for name, values in numbers.items()}


def _rows(line: ScoredLine) -> Iterator[dict[str, Any]]:
    """A row per word; `<S>` at position -1 and `</S>` at position T, each with the score of one direction."""
    scores, placed, numbers = line.scores, line.placed, _numbers(line.scores)

    def row(position: int, word: str, unknown: bool = False, **numbers: float) -> dict[str, Any]:
        written = {name: f"{value + 0.0:.6f}" for name, value in numbers.items()}
        return {"sentence": line.number, "position": position, "word": word, "unknown": int(unknown), **written}

    yield row(-1, BOS_TOKEN, backward=scores.backward_end, surprisal_backward=to_bits(scores.backward_end))
    for at, word in enumerate(scores.words):
        own = row(at, word, scores.is_unknown[at], **{name: values[at] for name, values in numbers.items()})
        own["substitutes"] = " ".join(each.word for each in line.substitutes.get(at, []))
        own["start"], own["end"] = placed.offsets[at]
        yield own | {"spaced_word": placed.spaced_words[at]}
    yield row(len(scores.words), EOS_TOKEN, forward=scores.forward_end, surprisal=to_bits(scores.forward_end))


def _record(line: ScoredLine) -> dict[str, Any]:
    scores, totals = line.scores, line.scores.totals
    record: dict[str, Any] = {
        "sentence": line.number,
        "words": scores.words,
        "unknown": scores.is_unknown.tolist(),
        **_numbers(scores),
        "forward_end": round(scores.forward_end, 6),
        "backward_end": round(scores.backward_end, 6),
        "perplexity": totals.perplexity,
        "pseudo_perplexity": totals.pseudo_perplexity,
        "offsets": line.placed.offsets,
        "spaced_words": line.placed.spaced_words,
    }
    if line.substitutes:
        record["substitutes"] = {at: [each._asdict() for each in found] for at, found in line.substitutes.items()}
    return record


def _paragraph(line: ScoredLine) -> str:
    bits = {direction: line.scores.surprisal(direction) for direction in DIRECTIONS}
    parts, end = [], 0
    for position, (start, stop) in enumerate(line.placed.offsets):
        unknown = bool(line.scores.is_unknown[position])
        depths = ";".join(f"--{each}:{min(max(b[position] / MAX_BITS, 0), 1):.2f}" for each, b in bits.items())
        title = ", ".join(f"{each} {b[position]:.1f}" for each, b in bits.items()) + " bits"
        parts.append(
            f'{escape(line.text[end:start])}<span{" class=unknown" * unknown} style="{depths}" '
            f'title="{title}{"; unknown to the softmax" * unknown}">{escape(line.text[start:stop])}</span>'
        )
        end = stop
    return f"<p>{''.join(parts)}{escape(line.text[end:])}</p>\n"


def describe_scores(line: ScoredLine) -> str:
    """A table in bits for the screen: a line per word, then the substitutes of each position."""
    scores = line.scores
    names = [word + " *" * bool(is_unknown) for word, is_unknown in zip(scores.words, scores.is_unknown, strict=True)]
    proposed = [each.word for found in line.substitutes.values() for each in found]
    width = max(map(len, ["bits from", *names, *proposed]))

    def row(position: Any, name: str, *log_probabilities: float | None) -> str:
        bits = ("" if value is None else f"{to_bits(value):.2f}" for value in log_probabilities)
        return (f"{position:>5}  {name:<{width}}" + "".join(f"{value:>9}" for value in bits)).rstrip()

    lines = [
        f"sentence {line.number}: {describe_perplexities(scores.totals)}",
        f"{'':5}  {'bits from':<{width}}{'left':>9}{'right':>9}{'both':>9}",
        row("", BOS_TOKEN, None, scores.backward_end),
        *map(row, range(len(names)), names, scores.forward, scores.backward, scores.joint),
        row("", EOS_TOKEN, scores.forward_end),
    ]
    for position, found in line.substitutes.items():
        lines.append(f"in place of {scores.words[position]!r} at {position}:")
        lines += [row("", each.word, each.forward, each.backward, each.joint) for each in found]
    return "\n".join(lines) + "\n"


def describe_perplexities(totals: ScoreTotals) -> str:
    return (
        f"perplexity {totals.perplexity:,.1f} (forward {totals.forward_perplexity:,.1f}, backward "
        f"{totals.backward_perplexity:,.1f}), pseudo-perplexity {totals.pseudo_perplexity:,.1f}"
    )


def describe_totals(totals: ScoreTotals, seconds: float, scorer: ElmoScorer, carry_state: bool) -> str:
    """The last lines on the screen: numbers of sentences and words, perplexities, speed, and a warning, perhaps."""
    states = "the state carried from line to line" if carry_state else "each from a state of zeros"
    how = "as <UNK>" if scorer.spelling is None else "as <UNK>, and by their spelling"
    lines = [
        f"Scored {totals.num_sentences:,} sentences of {totals.num_words:,} words, {states}: "
        f"{describe_perplexities(totals)}.",
        f"Words unknown to the softmax (*) are scored {how}: {totals.num_unknown:,} of {totals.num_words:,}. "
        f"{totals.num_words / seconds:,.0f} words/s on {scorer.device}.",
    ]
    if scorer.spelling is None and totals.num_unknown > MANY_UNKNOWN * totals.num_words:
        lines.append(
            f"{totals.num_unknown / totals.num_words:.0%} of the words are unknown, and <UNK> is easy to predict: "
            "these perplexities mean little. Is the text in the model's language, and tokenized like its training text?"
        )
    return "\n".join(lines)
