"""The vocabulary of a pre-training softmax from a corpus of any size, with the figures that its size is chosen by."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..given.flags import check_least, flag
from ..hub.arguments import OutputArguments
from ..hub.writing import check_keeps_inputs, check_output_directory, written_aside
from ..text.arguments import CorpusArguments
from ..text.cutting import flags_of
from ..text.progress import track
from ..text.vocabulary import SPECIAL_WORDS, VOCABULARY_FACTS_FILE, VOCABULARY_FILE
from ..text.word_counts import (
    MAX_VOCAB_SIZE,
    MAX_WORDS_IN_MEMORY,
    VocabularyCounts,
    WordCounter,
    choose_vocabulary,
)
from .command_line import run_command

_EXAMPLES = f"""
It writes {VOCABULARY_FILE}, for --vocab_file of hf-elmo pretrain, and {VOCABULARY_FACTS_FILE}, which says how its
words were cut.

examples:
  hf-elmo vocabulary --train_file 'corpus/*.txt.gz' --output_dir vocabulary
  hf-elmo pretrain --train_file 'corpus/*.txt.gz' --vocab_file vocabulary/{VOCABULARY_FILE} --output_dir elmo
"""


@dataclass(frozen=True, kw_only=True)
class VocabularyArguments(OutputArguments, CorpusArguments):
    """Arguments of a count of words; the flags of `hf-elmo vocabulary`."""

    max_vocab_size: int = flag("Most words kept, <S>, </S> and <UNK> among them.", default=MAX_VOCAB_SIZE)
    min_count: int = flag("Words seen less often are <UNK>.", default=2)
    max_words_in_memory: int = flag(
        "Distinct words that are counted in memory, some 200 bytes each; beyond them counts go to disk, to the same "
        "result.",
        default=MAX_WORDS_IN_MEMORY,
    )

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted.
        """
        CorpusArguments.check(self)
        check_least(self, ("max_vocab_size",), len(SPECIAL_WORDS) + 1)
        check_least(self, ("min_count", "max_words_in_memory"), 1)
        check_output_directory(self.output_dir, self.overwrite_output_dir)


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(VocabularyArguments, run_vocabulary_building, argv, prog, __doc__, _EXAMPLES)


def run_vocabulary_building(arguments: VocabularyArguments) -> VocabularyCounts:
    """Count the words of a corpus, write the vocabulary, and print what it holds and what it lacks.

    Raises: ValueError, FileNotFoundError or FileExistsError for bad arguments or bad text.
    """
    from ..hub.provenance import describe_run, write_json
    from ..model.tokenization_elmo import ElmoCharTokenizer
    from ..text.first_look import look_at

    arguments.check()
    run = describe_run()
    tokenizer = ElmoCharTokenizer(**arguments.cutting)
    corpus = arguments.open_train()
    check_keeps_inputs(arguments.output_dir, [(corpus.name, file) for file in corpus.files])
    for warning in look_at(corpus).warnings(corpus.name, arguments.pre_tokenizer):
        print(f"warning: {warning}", file=sys.stderr)
    started = time.perf_counter()
    with written_aside(arguments.output_dir, arguments.overwrite_output_dir) as directory:
        counter = WordCounter(arguments.max_words_in_memory, directory.parent)
        for words in track(corpus.sentences(tokenizer.tokenize), "counting words", "sentences"):
            counter.add(words)
        if not counter.num_words:
            raise ValueError("the training text holds no words; check --train_file and --text_column.")
        counts = choose_vocabulary(counter, arguments.max_vocab_size, arguments.min_count)
        seconds = time.perf_counter() - started
        counts.vocabulary.save(directory)
        facts = {**_facts(counts, arguments), "seconds": round(seconds, 1), **run}
        write_json(directory / VOCABULARY_FACTS_FILE, facts)
    print(_describe(counts, arguments, seconds))
    return counts


def _facts(counts: VocabularyCounts, arguments: VocabularyArguments) -> dict[str, Any]:
    return {
        "vocabulary_size": len(counts.vocabulary),
        "unknown_share": counts.unknown_share,
        "unknown_share_at_size": dict(_smaller_sizes(counts)),
        "cut_share_at_width": {width: num_cut / counts.num_words for width, num_cut in counts.num_cut.items()},
        "training_text": {
            "words": counts.num_words,
            "sentences": counts.num_sentences,
            "distinct_words": counts.num_distinct,
        },
        **arguments.cutting,
        "min_count": arguments.min_count,
    }


def _smaller_sizes(counts: VocabularyCounts) -> Iterator[tuple[int, float]]:
    for exponent in range(3, 7):
        for size in (10**exponent, 3 * 10**exponent):
            if size < len(counts.vocabulary):
                yield size, counts.unknown_share_at(size)


def _describe(counts: VocabularyCounts, arguments: VocabularyArguments, seconds: float) -> str:
    smaller = "; ".join(f"{size:,} words {share:.2%}" for size, share in _smaller_sizes(counts))
    return (
        f"Counted {counts.num_words:,} words in {counts.num_sentences:,} sentences, {counts.num_distinct:,} distinct: "
        f"{counts.num_words / seconds:,.0f} words/s.\n"
        f"Kept {len(counts.vocabulary):,} words, the three special ones included: {counts.unknown_share:.2%} of the "
        f"running words will be <UNK>{f' (with {smaller})' if smaller else ''}.\n"
        f"{_describe_cut(counts)}"
        f"Wrote {arguments.output_dir}; go on with hf-elmo pretrain --vocab_file "
        f"{Path(arguments.output_dir) / VOCABULARY_FILE} {flags_of(arguments.cutting)}"
    )


def _describe_cut(counts: VocabularyCounts) -> str:
    """A line on words that are longer than a row, where that is one in ten thousand or more."""
    (width, num_cut), *wider = counts.num_cut.items()
    if num_cut < counts.num_words / 10_000:
        return ""
    shares = "".join(f", {its / counts.num_words:.2%} with {ids}" for ids, its in wider)
    return f"{num_cut / counts.num_words:.2%} of the running words lose letters with {width} character ids{shares}.\n"
