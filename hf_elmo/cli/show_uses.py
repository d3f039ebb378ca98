"""Uses of words, as a page."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..given import check_least, flag
from .text_input import STANDARD_INPUT, ReadingArguments, check_targets, facts_of, open_text, warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.word_uses import LabeledSentence
    from ..model.tokenization_elmo import ElmoCharTokenizer

EXAMPLES = """
examples:
  hf-elmo show uses --model_name_or_path output/my-elmo --input_file corpus.txt.gz --words play bank,banks \\
      --html play.html
  hf-elmo show uses --model_name_or_path output/my-elmo --input_file senses.jsonl --html senses.html
"""


@dataclass(kw_only=True)
class UsesArguments(ReadingArguments):
    """What is drawn.

    Files of senses (.jsonl with tokens, index and sense in each record) and of parts of speech (.conllu) color the
    uses by these, other texts by clusters.
    """

    html: str = flag("Page to write, .html.")
    words: list[str] | None = flag(
        "Words to look at, as they stand in the text; several forms of one with commas between them, play,Play,plays. "
        "Files of senses name their word themselves.",
        default=None,
    )
    max_uses: int = flag("Uses of each word; of more, a hash of their sentences chooses.", default=400)
    num_clusters: int | None = flag(
        "Color by so many clusters (default: by the senses or parts of speech of the text, else by the best 2 to 6).",
        default=None,
    )
    overwrite_output_file: bool = flag("Replace an existing output file or page, at the end of the run.", default=False)

    def forms(self) -> list[list[str]] | None:
        """The forms of each word; a comma is a word, too."""
        if self.words is None:
            return None
        return [[form for form in word.split(",") if form] or [word] for word in self.words]


def show_uses(arguments: UsesArguments) -> None:
    """Draw the uses of words in every layer, as a page in which they can be clicked."""
    from ..hub.writing import files_written_aside
    from ..inference.use_maps import CLUSTER, map_uses, render_page
    from ..inference.word_uses import StaticWords, gather_uses
    from ..text.progress import track

    check_least(arguments, ("max_uses", "num_clusters"), 1)
    target = check_targets(arguments, ("html",))["html"]
    embedder = arguments.embedder()
    label, texts = _open_texts(arguments, embedder.tokenizer)
    # Each file of senses has a word of its own.
    read = texts if arguments.words is None else [itertools.chain.from_iterable(texts)]
    gathered = [
        gather_uses(track(sentences, "reading", "sentences"), arguments.max_uses, arguments.forms())
        for sentences in read
    ]
    found = [word for words, _ in gathered for word in words]
    counts = sum((counts for _, counts in gathered), Counter[str]())
    static = StaticWords(embedder, counts)
    how = (static, label if arguments.num_clusters is None else CLUSTER, arguments.num_clusters)
    maps = [map_uses(embedder, each, *how) for each in track(found, "drawing", "words", len(found))]
    facts = [*facts_of(arguments), f"{counts.total():,} words"]
    with files_written_aside(target) as (aside,):
        aside.write_text(render_page(maps, facts), encoding="utf-8")
    for drawn in maps:
        agreed = ", ".join(f"{each:.0%} in layer {layer}" for layer, each in enumerate(drawn.agreement(), start=1))
        print(
            f"{drawn.found.word}: {len(drawn.uses):,} uses of {drawn.found.num_found:,}, {len(drawn.groups)} groups by "
            f"{drawn.grouped_by}; the nearest use is of the same group for {agreed} (by chance {drawn.chance():.0%})."
        )
    print(f"Wrote {target}.")


def _open_texts(
    arguments: UsesArguments, tokenizer: ElmoCharTokenizer
) -> tuple[str, Iterator[Iterable[LabeledSentence]]]:
    """What the labels of the text are, and the sentences of each file."""
    from ..inference.use_maps import CLUSTER
    from ..inference.word_uses import holds_senses, read_senses
    from ..tasks.readers.columns import read_tagged_file
    from ..text.corpora import expand_patterns
    from ..text.files import suffix_of

    name = "input_file"
    files = [] if arguments.input_file == STANDARD_INPUT else expand_patterns([arguments.input_file], name)
    if files and all(holds_senses(file, name) for file in files):
        return "sense", (read_senses(file, name) for file in files)
    if arguments.words is None:
        raise ValueError("--words is missing; only files of senses say themselves which words are meant.")
    if files and all(suffix_of(file) == ".conllu" for file in files):
        tagged = (read_tagged_file(file, name=name) for file in files)
        return "part of speech", (zip(each.words, each.labels, strict=True) for each in tagged)
    corpus = open_text(arguments)
    warn_of_raw_text(arguments, tokenizer.pre_tokenizer, corpus)
    cut = str.split if arguments.text_is_tokenized else tokenizer.tokenize
    return CLUSTER, iter([((cut(str(line)), None) for line in corpus.lines())])
