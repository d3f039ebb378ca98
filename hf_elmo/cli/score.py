"""Probabilities of words, on the screen and in files."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..given import check_least, flag
from .text_input import ReadingArguments, check_targets, facts_of, open_text, warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.score_files import Report
    from ..inference.scoring import ScoreTotals

STANDARD_OUTPUT = "-"
_SENTENCES_SHOWN = 5

EXAMPLES = """
examples:
  hf-elmo score --model_name_or_path output/my-elmo --input_file story.txt --output_file scores.tsv --html story.html
  hf-elmo score --model_name_or_path output/my-elmo --input_file sentences.txt --word new --top_k 5
"""


@dataclass(kw_only=True)
class ScoringArguments(ReadingArguments):
    """What is scored and written."""

    output_file: str | None = flag(
        "File to write: .tsv, a row per word, or .jsonl, an object per line; - for rows on standard output. It has log "
        "probabilities in nats, surprisals in bits, and the offsets of each word in its line; lines are numbered from "
        "0, lines without words left out. Without it and --html the first sentences are shown, in bits.",
        default=None,
    )
    html: str | None = flag("Page to write: a heat map of the text by surprisal, .html.", default=None)
    carry_state: bool = flag("Carry the state from line to line, as in one long text.", default=False)
    spell_unknown: bool = flag(
        "Score words that the softmax lacks as <UNK> times their spelling, by the checkpoint's spelling.npz.",
        default=False,
    )
    word: str | None = flag("Word to find substitutes for, wherever it stands.", default=None)
    top_k: int = flag("Number of substitutes.", default=10)
    overwrite_output_file: bool = flag("Replace an existing output file or page, at the end of the run.", default=False)

    def check(self) -> dict[str, Path]:
        """Check what can be checked before the text is read, and give the files to write."""
        check_least(self, ("top_k",), 1)
        if self.word is not None and self.carry_state:
            raise ValueError("--word with --carry_state: substitutes are found in each line by itself.")
        if self.file_format not in ("tsv", "jsonl"):
            raise ValueError(f"--output_file is {self.output_file!r}; it must end in .tsv or .jsonl.")
        return check_targets(self, ("output_file", "html"))

    @property
    def file_format(self) -> str:
        """The format of the output file; standard output gets rows."""
        is_file = self.output_file not in (None, STANDARD_OUTPUT)
        return Path(str(self.output_file)).suffix.removeprefix(".") if is_file else "tsv"


def score(arguments: ScoringArguments) -> ScoreTotals:
    """Score a text's words by the language models inside ELMo."""
    from ..inference.embedder import place_words
    from ..inference.score_files import ScoredLine, describe_totals
    from ..inference.scoring import ElmoScorer, ScoreTotals
    from ..text.progress import track

    targets, corpus = arguments.check(), open_text(arguments)
    scorer = ElmoScorer(arguments.model_name_or_path, arguments.device, spell_unknown=arguments.spell_unknown)
    warn_of_raw_text(arguments, scorer.tokenizer.pre_tokenizer, corpus)
    placed = (
        (number, line, place_words(line, scorer.tokenizer, arguments.text_is_tokenized))
        for number, line in enumerate(map(str, corpus.lines()))
    )
    kept, read = itertools.tee(each for each in placed if each[2].words)
    stream = scorer.stream((each.words for _, _, each in read), arguments.carry_state)
    totals, num_with, started = ScoreTotals(), 0, time.perf_counter()
    with _open_reports(arguments, targets) as reports:
        # The scores first: the buffer between the two readers stays as short as the scorer's own.
        for scores, (number, line, each) in zip(track(stream, "scoring", "sentences"), kept, strict=False):
            positions = [at for at, word in enumerate(each.words) if word == arguments.word]
            substitutes = {at: scorer.substitutes(each.words, at, arguments.top_k) for at in positions}
            for report in reports:
                report(ScoredLine(number, line, each, scores, substitutes))
            num_with += bool(substitutes)
            totals += scores.totals
        if not totals.num_words:
            raise ValueError(f"input_file {arguments.input_file!r} holds no words; give one with text in it.")
        if arguments.word is not None and not num_with:
            raise ValueError(f"--word is {arguments.word!r}, which no sentence of input_file has; name another.")
    # Where the rows go to standard output, nothing else may.
    screen = sys.stderr if arguments.output_file == STANDARD_OUTPUT else sys.stdout
    print(describe_totals(totals, time.perf_counter() - started, scorer, arguments.carry_state), file=screen)
    if targets:
        print(f"Wrote {' and '.join(map(str, targets.values()))}.", file=screen)
    return totals


@contextmanager
def _open_reports(arguments: ScoringArguments, targets: dict[str, Path]) -> Iterator[list[Report]]:
    """What takes the scored lines: the files and standard output or, where none is named, the screen."""
    from ..hub.writing import files_written_aside
    from ..inference.score_files import describe_scores, open_scores

    with ExitStack() as stack:
        reports = []
        asides = stack.enter_context(files_written_aside(*targets.values()))
        for name, file in zip(targets, asides, strict=True):
            stream = stack.enter_context(open(file, "w", encoding="utf-8", newline=""))
            file_format = "html" if name == "html" else arguments.file_format
            reports.append(stack.enter_context(open_scores(stream, file_format, facts_of(arguments))))
        if arguments.output_file == STANDARD_OUTPUT:
            reports.append(stack.enter_context(open_scores(sys.stdout, "tsv")))
        shown = itertools.count()
        if not reports:
            reports.append(lambda line: print(describe_scores(line)) if next(shown) < _SENTENCES_SHOWN else None)
        yield reports
