"""Score the words of a text by the language models inside ELMo, into a file or onto the screen."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..checkpoints.writing import check_output_file, files_written_aside
from ..model.characters_elmo import BOS_TOKEN, EOS_TOKEN
from ..text.vocabulary import VOCABULARY_FILE, WordVocabulary
from .command_line import run_command

if TYPE_CHECKING:
    import torch

    from ..inference.scoring import ScoreTotals, SentenceScores, Substitute
    from ..model.modeling_elmo import ElmoForPreTraining
    from ..model.tokenization_elmo import ElmoCharTokenizer

    # Takes a sentence's number, its scores and the substitutes for some of its positions.
    Report = Callable[[int, SentenceScores, dict[int, list[Substitute]]], None]

TSV_COLUMNS = ("sentence", "position", "word", "unknown", "forward", "backward", "joint", "substitutes")


def _help(text: str, **defaults: Any) -> Any:
    return field(metadata={"help": text}, **defaults)


@dataclass
class ScoringArguments:
    """Arguments of a run from text to scores; the flags of scripts/score.py."""

    model_name_or_path: str = _help("Checkpoint with a word softmax, as run_pretraining.py writes it.")
    input_file: str = _help(
        "Text, one sentence a line, or .jsonl or .parquet; also as .gz. Lines without words are left out, but counted: "
        "sentences have the numbers of their lines, from 0."
    )
    output_file: str | None = _help(
        "File to write, in one rename at the end: .tsv, a line a word, or .jsonl, a line a sentence; log probabilities "
        "in nats. Left out, the first sentences are shown, in bits.",
        default=None,
    )
    substitutes: int = _help("How many words to propose for the place named by --position or --word.", default=0)
    position: int | None = _help("The place, in each sentence, to find substitutes for; from 0.", default=None)
    word: str | None = _help("The word to find substitutes for, wherever it stands.", default=None)
    prior: Literal["zipf", "uniform"] = _help(
        "What the product of both directions is divided by: the words' shares by Zipf's law, or 1.", default="zipf"
    )
    text_is_tokenized: bool = _help(
        "Words stand between white space; without it the checkpoint's tokenizer cuts them.", default=False
    )
    text_column: str = _help("Column that holds the text, in JSON and Parquet.", default="text")
    vocab_file: str | None = _help(
        f"Words of the softmax, one a line; left out, {VOCABULARY_FILE} of the checkpoint.", default=None
    )
    max_sentences_shown: int = _help("Sentences on the screen where there is no output_file.", default=5)
    max_words_per_batch: int = _help("Words computed at once, markers and padding included.", default=2048)
    chunk_size: int = _help("Words whose distributions over the vocabulary are held at a time.", default=64)
    device: str | None = _help("cpu, cuda, cuda:1 ...; left out, cuda where there is one, else cpu.", default=None)
    overwrite_output_file: bool = _help("Replace an existing output file when the run has ended well.", default=False)

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted.
        """
        if self.substitutes < 0:
            raise ValueError(f"--substitutes is {self.substitutes}; it must be >= 0.")
        places = [name for name in ("position", "word") if getattr(self, name) is not None]
        if self.substitutes and len(places) != 1:
            raise ValueError(
                f"--substitutes is {self.substitutes} with {' and '.join(places) or 'no place'}; name the place by one "
                "of --position and --word."
            )
        if places and not self.substitutes:
            raise ValueError(f"--{places[0]} names a place for substitutes, but --substitutes is 0; say how many.")
        if self.output_file is not None:
            if Path(self.output_file).suffix not in _FORMATS:
                raise ValueError(f"--output_file is {self.output_file!r}; its name must end in .tsv or .jsonl.")
            check_output_file(self.output_file, self.overwrite_output_file)


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(ScoringArguments, run_scoring, argv, prog, __doc__)


def run_scoring(arguments: ScoringArguments) -> ScoreTotals:
    """Score a text file, write or show the scores and print the perplexities of the whole.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    import torch

    from ..inference.devices import usable_device
    from ..inference.scoring import ScoreTotals, best_substitutes, score_sentences
    from ..text.corpora import corpus_from_files, lines_of

    arguments.check()
    corpus = corpus_from_files([arguments.input_file], "input_file", arguments.text_column)
    target = None if arguments.output_file is None else Path(arguments.output_file).resolve()
    if target in (Path(file).resolve() for file in corpus.files):
        raise ValueError(f"output_file {arguments.output_file!r} is the input_file too; name another one.")
    device = usable_device(arguments.device)
    model, tokenizer, vocabulary = load_checkpoint(arguments.model_name_or_path, arguments.vocab_file)
    model.to(device)
    frequencies = None if arguments.prior == "zipf" else torch.ones(len(vocabulary))
    cut = str.split if arguments.text_is_tokenized else tokenizer.tokenize
    numbered = ((number, words) for number, line in enumerate(lines_of(corpus)) if (words := cut(line)))
    numbered, read = itertools.tee(numbered)
    stream = score_sentences(
        model,
        tokenizer,
        vocabulary,
        (words for _, words in read),
        frequencies=frequencies,
        max_words_per_batch=arguments.max_words_per_batch,
        chunk_size=arguments.chunk_size,
    )
    totals, num_places, started = ScoreTotals(), 0, time.perf_counter()
    with _open_report(target, arguments.max_sentences_shown) as report:
        # The scores first: the numbers are those of the sentences that have been scored.
        for scores, (number, words) in zip(stream, numbered, strict=False):
            substitutes = {
                place: best_substitutes(
                    model, tokenizer, vocabulary, words, place, arguments.substitutes, frequencies=frequencies
                )
                for place in _find_places(arguments, number, words)
            }
            report(number, scores, substitutes)
            num_places += len(substitutes)
            totals += scores.totals
        if not totals.num_words:
            raise ValueError(f"input_file {arguments.input_file!r} holds no words; give one with text in it.")
        if arguments.word is not None and not num_places:
            raise ValueError(f"--word is {arguments.word!r}, which stands in no sentence of input_file; name another.")
    print(describe_totals(totals, time.perf_counter() - started, device))
    if target is not None:
        print(f"Wrote {arguments.output_file}.")
    return totals


def load_checkpoint(
    name: str, vocab_file: str | None = None
) -> tuple[ElmoForPreTraining, ElmoCharTokenizer, WordVocabulary]:
    """The model with its softmax, the tokenizer and the words of a checkpoint.

    Args:
        name: A directory, or a name on the Hub.
        vocab_file: Words of the softmax, where they are not in the checkpoint.
    Raises: ValueError or FileNotFoundError naming what the checkpoint lacks.
    """
    from ..checkpoints.loading import find_file, load_config, load_model, load_tokenizer
    from ..model.modeling_elmo import ElmoForPreTraining

    config = load_config(name)
    if config.word_vocab_size is None:
        raise ValueError(
            f"model_name_or_path {name!r} has no word softmax (word_vocab_size in its config.json), without which no "
            "word has a probability; name a checkpoint of scripts/run_pretraining.py."
        )
    model = load_model(ElmoForPreTraining, name)
    words = vocab_file or find_file(name, VOCABULARY_FILE)
    if words is None:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} holds no {VOCABULARY_FILE}, the words of its softmax; name a file of them "
            "with --vocab_file."
        )
    return model, load_tokenizer(name, config), WordVocabulary.load(words)


def _find_places(arguments: ScoringArguments, number: int, words: Sequence[str]) -> list[int]:
    """The positions of a sentence that substitutes are wanted for."""
    if arguments.word is not None:
        return [place for place, word in enumerate(words) if word == arguments.word]
    if arguments.position is None:
        return []
    if not 0 <= arguments.position < len(words):
        raise ValueError(
            f"--position is {arguments.position}; sentence {number} has the positions 0 to {len(words) - 1}. Name "
            "one of those, or a word with --word."
        )
    return [arguments.position]


# Into a file


@contextmanager
def _open_report(target: Path | None, max_sentences_shown: int) -> Iterator[Report]:
    """What writes a sentence to the output file or, where there is none, shows the first sentences."""
    if target is None:
        shown = itertools.count()
        yield lambda *row: print(describe_scores(*row)) if next(shown) < max_sentences_shown else None
        return
    format_sentence = _FORMATS[target.suffix]
    with files_written_aside(target) as (aside,), open(aside, "w", encoding="utf-8", newline="\n") as file:
        if target.suffix == ".tsv":
            file.write("\t".join(TSV_COLUMNS) + "\n")
        yield lambda *row: file.write(format_sentence(*row))


def _format_tsv(number: int, scores: SentenceScores, substitutes: dict[int, list[Substitute]]) -> str:
    """A line a word; `<S>` at position -1 and `</S>` at position T, each with the score of one direction."""
    rows = [(number, -1, BOS_TOKEN, 0, "", f"{scores.backward_end:.6f}", "", "")]
    columns = zip(scores.words, scores.is_unknown, scores.forward, scores.backward, scores.joint, strict=True)
    for place, (word, is_unknown, *values) in enumerate(columns):
        proposed = " ".join(substitute.word for substitute in substitutes.get(place, []))
        rows.append((number, place, word, int(is_unknown), *(f"{value:.6f}" for value in values), proposed))
    rows.append((number, len(scores.words), EOS_TOKEN, 0, f"{scores.forward_end:.6f}", "", "", ""))
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _format_json(number: int, scores: SentenceScores, substitutes: dict[int, list[Substitute]]) -> str:
    import numpy as np

    totals = scores.totals
    record = {
        "sentence": number,
        "words": scores.words,
        "unknown": scores.is_unknown.tolist(),
        "forward": np.round(scores.forward, 6).tolist(),
        "backward": np.round(scores.backward, 6).tolist(),
        "joint": np.round(scores.joint, 6).tolist(),
        "forward_end": round(scores.forward_end, 6),
        "backward_end": round(scores.backward_end, 6),
        "perplexity": totals.perplexity,
        "pseudo_perplexity": totals.pseudo_perplexity,
    }
    if substitutes:
        record["substitutes"] = {place: [vars(each) for each in proposed] for place, proposed in substitutes.items()}
    return json.dumps(record, ensure_ascii=False) + "\n"


_FORMATS = {".tsv": _format_tsv, ".jsonl": _format_json}


# Onto the screen


def describe_scores(number: int, scores: SentenceScores, substitutes: dict[int, list[Substitute]]) -> str:
    """A table for the eye, in bits: a line a word, then the substitutes of each position."""
    from ..inference.scoring import to_bits

    names = [word + " *" * bool(is_unknown) for word, is_unknown in zip(scores.words, scores.is_unknown, strict=True)]
    proposed_words = [substitute.word for proposed in substitutes.values() for substitute in proposed]
    width = max(map(len, ["bits from", *names, *proposed_words]))

    def line(place: Any, name: str, *log_probabilities: float | None) -> str:
        bits = ("" if value is None else f"{to_bits(value):.2f}" for value in log_probabilities)
        return (f"{place:>5}  {name:<{width}}" + "".join(f"{value:>9}" for value in bits)).rstrip()

    lines = [
        f"sentence {number}: {describe_perplexities(scores.totals)}",
        f"{'':5}  {'bits from':<{width}}{'left':>9}{'right':>9}{'both':>9}",
        line("", BOS_TOKEN, None, scores.backward_end),
        *map(line, itertools.count(), names, scores.forward, scores.backward, scores.joint),
        line("", EOS_TOKEN, scores.forward_end),
    ]
    for place, proposed in substitutes.items():
        lines.append(f"in place of {scores.words[place]!r} at {place}:")
        lines += [line("", each.word, each.forward, each.backward, each.joint) for each in proposed]
    return "\n".join(lines) + "\n"


def describe_perplexities(totals: ScoreTotals) -> str:
    """The perplexities in one line."""
    return (
        f"perplexity {totals.perplexity:,.1f} (forward {totals.forward_perplexity:,.1f}, backward "
        f"{totals.backward_perplexity:,.1f}), pseudo-perplexity {totals.pseudo_perplexity:,.1f}"
    )


def describe_totals(totals: ScoreTotals, seconds: float, device: torch.device) -> str:
    """What was scored, how surprising it was, and how fast it went."""
    return (
        f"Scored {totals.num_sentences:,} sentences of {totals.num_words:,} words, each from a state of zeros: "
        f"{describe_perplexities(totals)}.\n"
        f"Words unknown to the softmax (*) are scored as <UNK>: {totals.num_unknown:,} of {totals.num_words:,}. "
        f"{totals.num_words / seconds:,.0f} words/s on {device}."
    )
