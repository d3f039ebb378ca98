"""The vocabulary of a pre-training softmax from a corpus of any size, with the figures that its size is chosen by."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..given.flags import check_least, flag
from ..hub.arguments import OutputArguments
from ..hub.writing import check_keeps_inputs, check_output_directory, written_aside
from ..text.arguments import CorpusArguments
from ..text.cutting import CuttingArguments, flags_of
from ..text.progress import track
from ..text.vocabulary import SPECIAL_WORDS, VOCABULARY_FACTS_FILE, VOCABULARY_FILE
from ..text.word_counts import VocabularyCounts, WordCounter, choose_vocabulary
from .command_line import run_command

if TYPE_CHECKING:
    from ..model.tokenization_elmo import ElmoCharTokenizer
    from ..text.corpora import Corpus

COUNTS_FILE = "word_counts.tsv"
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

    # Unlike the vocabulary that a run builds in passing, this one has a bound that suits text of any size.
    max_vocab_size: int = flag("Most words kept, <S>, </S> and <UNK> among them.", default=800_000)
    with_counts: bool = flag(
        f"Write {COUNTS_FILE}, too: a word and its count per line, with those of <S>, </S> and <UNK>.", default=False
    )

    def check(self) -> None:
        """Check what can be checked before any file is read.

        Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted.
        """
        CorpusArguments.check(self)
        check_least(self, ("max_vocab_size",), len(SPECIAL_WORDS) + 1)
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
    corpus = _open_corpus(arguments)
    check_keeps_inputs(arguments.output_dir, [(corpus.name, file) for file in corpus.files])
    for warning in look_at(corpus).warnings(corpus.name, arguments.pre_tokenizer):
        print(f"warning: {warning}", file=sys.stderr)
    started = time.perf_counter()
    with written_aside(arguments.output_dir, arguments.overwrite_output_dir) as directory:
        counts = _count(corpus, tokenizer, arguments, directory.parent)
        seconds = time.perf_counter() - started
        counts.vocabulary.save(directory)
        write_json(
            directory / VOCABULARY_FACTS_FILE, {**_facts(counts, arguments), "seconds": round(seconds, 1), **run}
        )
        if arguments.with_counts:
            write_counts(directory / COUNTS_FILE, counts)
    print(_describe(counts, arguments, seconds))
    return counts


def write_counts(path: Path, counts: VocabularyCounts) -> None:
    """Write a line of word, tab and count for each id; a marker is seen once per sentence."""
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        special = (counts.num_sentences, counts.num_sentences, counts.num_unknown)
        for word, count in zip(counts.vocabulary.words, (*special, *counts.word_counts), strict=True):
            file.write(f"{word}\t{count}\n")


def _open_corpus(arguments: VocabularyArguments) -> Corpus:
    from ..text.corpora import corpus_from_dataset, corpus_from_files

    if arguments.dataset_name is not None:
        return corpus_from_dataset(
            arguments.dataset_name, arguments.dataset_config_name, arguments.train_split, arguments.text_column
        )
    return corpus_from_files(arguments.train_file or (), "--train_file", arguments.text_column)


def _count(
    corpus: Corpus, tokenizer: ElmoCharTokenizer, arguments: VocabularyArguments, directory: Path
) -> VocabularyCounts:
    counter = WordCounter(arguments.max_words_in_memory, directory)
    sentences = corpus.sentences(tokenizer.tokenize)
    for words in track(sentences, "counting words", "sentences"):
        counter.add(words)
    if not counter.num_words:
        raise ValueError("the training text holds no words; check --train_file and --text_column.")
    return choose_vocabulary(counter, arguments.max_vocab_size, arguments.min_count)


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
    plain = CuttingArguments().cutting
    flags = flags_of({name: value for name, value in arguments.cutting.items() if value != plain[name]})
    smaller = "; ".join(f"{size:,} words {share:.2%}" for size, share in _smaller_sizes(counts))
    return (
        f"Counted {counts.num_words:,} words in {counts.num_sentences:,} sentences, {counts.num_distinct:,} distinct: "
        f"{counts.num_words / seconds:,.0f} words/s.\n"
        f"Kept {len(counts.vocabulary):,} words, the three special ones included: {counts.unknown_share:.2%} of the "
        f"running words will be <UNK>{f' (with {smaller})' if smaller else ''}.\n"
        f"{_describe_cut(counts)}"
        f"Wrote {arguments.output_dir}; go on with hf-elmo pretrain --vocab_file "
        f"{Path(arguments.output_dir) / VOCABULARY_FILE} {flags}".rstrip()
    )


def _describe_cut(counts: VocabularyCounts) -> str:
    """A line on words that are longer than a row, where that is one in ten thousand or more."""
    (width, num_cut), *wider = counts.num_cut.items()
    if num_cut < counts.num_words / 10_000:
        return ""
    shares = "".join(f", {its / counts.num_words:.2%} with {ids}" for ids, its in wider)
    return f"{num_cut / counts.num_words:.2%} of the running words lose letters with {width} character ids{shares}.\n"
