"""Count the words of a corpus."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from ..given import check_least, flag
from ..hub.writing import OutputArguments, check_keeps_inputs, check_output_directory, written_aside
from ..text.arguments import CorpusArguments, flags_of
from ..text.progress import track
from ..text.vocabulary import (
    MAX_VOCAB_SIZE,
    SPECIAL_WORDS,
    UNK_TOKEN,
    VOCABULARY_FACTS_FILE,
    VOCABULARY_FILE,
    WordVocabulary,
)

# Of vocabularies that are smaller the figures say how much they would lack.
_SIZES = [size for exponent in range(3, 7) for size in (10**exponent, 3 * 10**exponent)]
EXAMPLES = f"""
It writes {VOCABULARY_FILE}, for --vocab_file of hf-elmo pretrain, and {VOCABULARY_FACTS_FILE}, which says how its
words were cut; and spelling.npz, the spelling of words that it lacks (hf-elmo score --spell_unknown).

examples:
  hf-elmo vocabulary --train_file 'corpus/*.txt.gz' --output_dir vocabulary
  hf-elmo pretrain --train_file 'corpus/*.txt.gz' --vocab_file vocabulary/{VOCABULARY_FILE} --output_dir elmo
"""


@dataclass(frozen=True, kw_only=True)
class VocabularyArguments(OutputArguments, CorpusArguments):
    """Arguments of a count of words; the flags of `hf-elmo vocabulary`."""

    max_vocab_size: int = flag("Most words kept, <S>, </S> and <UNK> among them.", default=MAX_VOCAB_SIZE)
    min_count: int = flag("Words seen less often are <UNK>.", default=2)

    def check(self) -> None:
        """Raises: ValueError or FileExistsError naming the argument, the value got and the value wanted."""
        CorpusArguments.check(self)
        check_least(self, ("max_vocab_size",), len(SPECIAL_WORDS) + 1)
        check_least(self, ("min_count",), 1)
        check_output_directory(self.output_dir, self.overwrite_output_dir)


def build_vocabulary(arguments: VocabularyArguments) -> WordVocabulary:
    """Build the vocabulary of a pre-training softmax, with the figures that its size is chosen by.

    Raises: ValueError, FileNotFoundError or FileExistsError for bad arguments or bad text.
    """
    from ..hub.provenance import describe_run, write_json
    from ..model.tokenization_elmo import ElmoCharTokenizer
    from ..text.raw_text import look_at
    from ..text.spelling import SpellingModel
    from ..text.vocabulary import WordCounter

    arguments.check()
    run, started = describe_run(), time.perf_counter()
    tokenizer = ElmoCharTokenizer(**arguments.cutting)
    corpus = arguments.open_train()
    check_keeps_inputs(arguments.output_dir, [(corpus.name, file) for file in corpus.files])
    for warning in look_at(corpus.lines(), corpus.name, arguments.pre_tokenizer):
        print(f"warning: {warning}", file=sys.stderr)
    with written_aside(arguments.output_dir, arguments.overwrite_output_dir) as directory:
        counter = WordCounter(directory.parent)
        for words in track(corpus.sentences(tokenizer.tokenize), "counting words", "sentences"):
            counter.add(words)
        total = counter.num_words
        if not total:
            raise ValueError("the training text holds no words; check --train_file and --text_column.")
        vocabulary = WordVocabulary.from_counts(counter, arguments.max_vocab_size, arguments.min_count)
        num_distinct, counts = counter.count_known(vocabulary)
        counts[UNK_TOKEN] = 0  # a word that is written so is unknown all the same
        known = list(accumulate(counts.get(word, 0) for word in vocabulary.words))
        unknown = {size: (total - known[size - 1]) / total for size in _SIZES if size < len(vocabulary)}
        unknown_share = (total - known[-1]) / total
        seconds = time.perf_counter() - started
        vocabulary.save(directory)
        unknown_words = (word for word, _ in counter.items() if word not in vocabulary)
        spelling = SpellingModel.fit(unknown_words, vocabulary.words[len(SPECIAL_WORDS) :])
        if spelling is not None:
            spelling.save(directory)
        facts = {
            "vocabulary_size": len(vocabulary),
            "unknown_share": unknown_share,
            "unknown_share_at_size": unknown,
            "training_text": {"words": total, "sentences": counter.num_sentences, "distinct_words": num_distinct},
            **arguments.cutting,
            "min_count": arguments.min_count,
            "seconds": round(seconds, 1),
            **run,
        }
        write_json(directory / VOCABULARY_FACTS_FILE, facts)
    at_sizes = "; ".join(f"{size:,} words {share:.2%}" for size, share in unknown.items())
    print(
        f"Counted {total:,} words in {counter.num_sentences:,} sentences, {num_distinct:,} distinct: "
        f"{total / seconds:,.0f} words/s.\n"
        f"Kept {len(vocabulary):,} words, the three special ones included: {unknown_share:.2%} of the running words "
        f"will be <UNK>{f' (with {at_sizes})' if at_sizes else ''}.\n"
        f"Wrote {arguments.output_dir}; go on with hf-elmo pretrain --vocab_file "
        f"{Path(arguments.output_dir) / VOCABULARY_FILE} {flags_of(arguments.cutting)}"
    )
    return vocabulary
