"""Vectors of text, into files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from ..given import check_choices, check_least, flag
from .text_input import STANDARD_INPUT, ReadingArguments, check_targets, open_text, warn_of_raw_text

if TYPE_CHECKING:
    from ..inference.embedder import ElmoEmbedder
    from ..text.corpora import Corpus, Sentence

EXAMPLES = """
examples:
  hf-elmo embed --model_name_or_path output/my-elmo --input_file 'corpus/*.txt.gz' --output_dir vectors
  hf-elmo embed --model_name_or_path output/my-elmo --input_file train.conllu --output_dir vectors --layers all
  hf-elmo embed --model_name_or_path output/my-elmo --input_file corpus.txt.gz --output_file vectors.hdf5 --layers all
  hf-elmo embed --model_name_or_path output/my-elmo --vocab_file words.txt --output_file words.bin
  torchrun --nproc_per_node 2 -m hf_elmo embed --model_name_or_path output/my-elmo --input_file a.txt --output_dir v
"""


@dataclass(kw_only=True)
class EmbeddingArguments(ReadingArguments):
    """What is read and what is written."""

    input_file: str | None = flag(  # type: ignore[assignment]
        "Text, one sentence per line, .jsonl or .parquet (a column of texts or of lists of words), or CoNLL columns "
        "(.conll, .conllu, .iob, .iob2, .bio); each also compressed; - for standard input. Quoted globs too.",
        default=None,
    )
    word_column: int | None = flag(
        "Place of the words among CoNLL columns, from 0; files of any suffix are read as columns then.", default=None
    )
    dataset_name: str | None = flag("Dataset, a directory or a name on the Hub, in place of a file.", default=None)
    dataset_config_name: str | None = flag("The dataset's configuration.", default=None)
    dataset_split: str = flag("The dataset's split.", default="train")
    vocab_file: str | None = flag(
        "Words, one per line, in place of text: --output_file gets their vectors of layer 0 in word2vec's format, "
        "which gensim's KeyedVectors loads, .bin or .txt.",
        default=None,
    )
    output_dir: str | None = flag(
        "Directory of shards to write, a row per sentence with its number, words, their places in the line and "
        "vectors. Run the same command again to resume.",
        default=None,
    )
    output_file: str | None = flag(
        "A single file in place of the directory, with an array per line of the text by its number from 0: .hdf5 or "
        ".h5 as the old tools wrote it, h5py.File(name)['0'], or .npz, np.load(name)['0'].",
        default=None,
    )
    layers: str = flag(
        "mix for the scalar mix, (words, D); all for the layers, (layers, words, D); top for the last of them; average "
        "for their mean; token for layer 0, without context; or a layer's number.",
        default="mix",
    )
    pooling: Literal["none", "mean", "max", "first-last"] = flag(
        "One vector per sentence, in a directory: the mean or the largest numbers of its words, or the forward half of "
        "the last word beside the backward half of the first.",
        default="none",
    )
    format: Literal["arrow", "parquet"] = flag("File format of the shards.", default="arrow")
    carry_state: bool = flag("Carry the state from line to line, as in one long text, in a file.", default=False)
    storage_dtype: Literal["float32", "float16"] = flag(
        "Precision of what is written; float16 halves it and keeps three digits.", default="float32"
    )
    dtype: Literal["float32", "bfloat16", "float16"] = flag("Precision of the model.", default="float32")
    max_words_per_batch: int = flag("Words computed at once, special tokens and padding included.", default=2048)
    max_words_per_shard: int = flag(
        "Words of a shard, and two for each sentence; the vectors of one are held in memory.", default=65536
    )
    overwrite_output_dir: bool = flag("Begin anew in a directory that has vectors already.", default=False)
    overwrite_output_file: bool = flag("Replace an existing output file or page, at the end of the run.", default=False)

    def check(self) -> None:
        """Raises: ValueError or FileExistsError naming the arguments that do not go together, or the value wanted."""
        check_choices(self)
        check_least(self, ("max_words_per_shard",), 1)
        for names in (("input_file", "dataset_name", "vocab_file"), ("output_dir", "output_file")):
            given = [f"--{name}" for name in names if getattr(self, name) is not None]
            if len(given) != 1:
                found = " and ".join(given) or "none of them"
                raise ValueError(f"{found} given; wanted one of {', '.join(f'--{name}' for name in names)}.")
        if self.vocab_file is not None and (self.output_file is None or self.layers not in ("token", "0", "mix")):
            raise ValueError(
                f"layers is {self.layers!r} and output_dir {self.output_dir!r}; words of --vocab_file have no context, "
                "which is layer 0, and go into an --output_file."
            )
        if self.output_file is not None and self.pooling != "none":
            raise ValueError(f"pooling is {self.pooling!r}, which --output_file does not have; write to --output_dir.")
        if self.carry_state and (self.output_dir is not None or self.vocab_file is not None):
            raise ValueError("carry_state is True; the state is carried along a text that goes into an --output_file.")
        check_targets(self, ("output_file",))

    def embedder(self, **options: Any) -> ElmoEmbedder:
        return super().embedder(dtype=self.dtype, max_words_per_batch=self.max_words_per_batch, **options)

    def corpus(self) -> Corpus:
        """The text of a file, of standard input or of a dataset."""
        from ..text.corpora import corpus_from_dataset

        if self.dataset_name is None:
            return open_text(self, takes_words=True, word_column=self.word_column)
        which = (self.dataset_name, self.dataset_config_name, self.dataset_split)
        return corpus_from_dataset(*which, self.text_column, takes_words=True)


def embed(arguments: EmbeddingArguments) -> None:
    """Write the vectors of a corpus's words, of its sentences or of a list of words."""
    arguments.check()
    if arguments.output_dir is not None:
        _embed_to_directory(arguments, arguments.output_dir)
    elif arguments.vocab_file is not None:
        _embed_words(arguments, arguments.vocab_file, arguments.output_file or "")
    else:
        _embed_to_file(arguments, arguments.output_file or "")


def _embed_words(arguments: EmbeddingArguments, vocab_file: str, file: str) -> None:
    from ..inference.embedding_files import WORD_SUFFIXES, check_embedding_file, read_words, write_word_vectors

    target = check_embedding_file(file, WORD_SUFFIXES, arguments.overwrite_output_file)
    words, embedder = read_words(vocab_file), arguments.embedder()
    write_word_vectors(embedder, words, target)
    print(
        f"Embedded {len(words):,} words without context.\n"
        f"Wrote {file}, {target.stat().st_size / 1e6:,.1f} MB: {embedder.vector_size // 2} numbers per word, for "
        f"gensim.models.KeyedVectors.load_word2vec_format(file{', binary=True' * (target.suffix == '.bin')})."
    )


def _embed_to_file(arguments: EmbeddingArguments, file: str) -> None:
    from ..inference.embedding_files import ARRAY_SUFFIXES, check_embedding_file, write_embeddings
    from ..text.progress import track

    target = check_embedding_file(file, ARRAY_SUFFIXES, arguments.overwrite_output_file)
    corpus, embedder = arguments.corpus(), arguments.embedder()
    warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer, corpus)
    texts: list[str] = []

    def read() -> Iterable[Sentence]:
        for line in corpus.lines():
            texts.append(line.strip() if isinstance(line, str) else " ".join(line))
            yield line.split() if arguments.text_is_tokenized and isinstance(line, str) else line

    started = time.perf_counter()
    arrays = track(embedder.stream(read(), arguments.layers, arguments.carry_state), "embedding", "sentences")
    numbers = write_embeddings(target, arrays, texts, arguments.storage_dtype)
    print(_describe(*numbers, time.perf_counter() - started, arguments, embedder))
    print(
        f"Wrote {file}, {target.stat().st_size / 1e6:,.1f} MB: an array per sentence, by its number from 0, in "
        f"{arguments.storage_dtype}."
    )


def _embed_to_directory(arguments: EmbeddingArguments, output_dir: str) -> None:
    """As one of the processes that `accelerate launch` or torchrun started, perhaps."""
    import torch
    from accelerate import PartialState

    from ..inference.embedding_files import EmbeddingSettings, EmbeddingWriter
    from ..text.progress import track

    settings = EmbeddingSettings(**{each.name: getattr(arguments, each.name) for each in fields(EmbeddingSettings)})
    on_cpu = arguments.device == "cpu" or not torch.accelerator.is_available()
    # Of one process alone accelerate would remember the device for whatever comes after.
    state = PartialState(cpu=on_cpu) if int(os.environ.get("WORLD_SIZE", 1)) > 1 else None
    rank, num_ranks = (state.process_index, state.num_processes) if state else (0, 1)
    corpus = arguments.corpus()
    read = corpus.lines
    if arguments.input_file == STANDARD_INPUT:
        if num_ranks > 1:
            raise ValueError(
                f"input_file '-' with {num_ranks} processes, of which one alone has standard input; give a file."
            )
        # The text is read twice.
        lines = list(corpus.lines())
        read = lines.__iter__
    device = str(state.device) if state and not on_cpu and arguments.device is None else arguments.device
    embedder = arguments.embedder(device=device)
    writer = EmbeddingWriter(embedder, output_dir, settings, read, rank, num_ranks)
    if not rank:
        warn_of_raw_text(arguments, embedder.tokenizer.pre_tokenizer, corpus)
    with state.main_process_first() if state else nullcontext():
        writer.prepare(arguments.overwrite_output_dir and not rank)
    started = time.perf_counter()
    shards = list(track(writer.write(), "embedding", "shards", len(writer.left()), shown=not rank))
    who = f"Process {rank + 1} of {num_ranks}: " if num_ranks > 1 else ""
    if shards:
        numbers = (sum(shard.num_sentences for shard in shards), sum(shard.num_words for shard in shards))
        print(who + _describe(*numbers, time.perf_counter() - started, arguments, embedder))
    print(
        f"{who}Wrote {len(shards)} of {writer.num_shards} shards to {output_dir}, "
        f"{sum(shard.file.stat().st_size for shard in shards) / 1e6:,.1f} MB as {arguments.format} in "
        f"{arguments.storage_dtype}."
    )
    print(f"{who}{'Others are still at work' if writer.missing() else f'All {writer.num_shards} shards are there'}.")
    if state:
        state.destroy_process_group()


def _describe(
    num_sentences: int, num_words: int, seconds: float, arguments: EmbeddingArguments, embedder: ElmoEmbedder
) -> str:
    pooled = "" if arguments.pooling == "none" else f", {arguments.pooling} of the words"
    how = f"{arguments.layers}{pooled}{', the state carried from line to line' * arguments.carry_state}"
    rate = num_words / max(seconds, 1e-9)
    return (
        f"Embedded {num_sentences:,} sentences of {num_words:,} words ({how}): {rate:,.0f} words/s on "
        f"{embedder.device} in {arguments.dtype}."
    )
