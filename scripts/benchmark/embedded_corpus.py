"""How fast a corpus becomes files of vectors, beside the model alone and beside AllenNLP's `embed_file`."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from hf_elmo.checkpoints.provenance import describe_run
from hf_elmo.given.flags import flag
from hf_elmo.inference.corpus_embedding import CorpusEmbedder, VectorSettings, cut_shards
from hf_elmo.inference.embedder import ElmoEmbedder
from hf_elmo.inference.embedding_directory import EmbeddedCorpus
from hf_elmo.kernels import cache_words
from hf_elmo.model.tokenization_elmo import ElmoCharTokenizer
from hf_elmo.text.sentence_sources import sentences_of_files

from .allennlp_peer import AllenNLPPeer
from .gate import GateError
from .report import render_embedding_report, write_report
from .sizes import SIZES, build_model
from .timing import median_ratio, summarize, time_interleaved
from .training_text import name_text, open_text

RESULTS_FILE, REPORT_FILE = "embedding.json", "embedding.md"
MODEL, ONE_LAYER, ALL_LAYERS = "the model alone", "embed, the mix", "embed, all layers"
ALLENNLP_FILE = "AllenNLP's embed_file"
# What is wanted of the model's own speed, and how many times that of AllenNLP's.
LEAST_SHARE, LEAST_TIMES = 0.9, 5.0
# As `embed` has them when nothing else is said.
_WORDS_PER_BATCH, _WORDS_PER_BUFFER, _CACHED_WORDS = 2048, 32768, 200_000
_MOST_DEVIATION = 1e-4
# Of AllenNLP and ours beside it, however few are made of the whole text.
_LEAST_ROUNDS = 3


@dataclass
class EmbeddingBenchmarkSettings:
    """What to measure; the flags of scripts/benchmark --part embedding."""

    sizes: list[str] = field(
        default_factory=lambda: ["small"], metadata={"help": "Models: tiny, small, medium, original."}
    )
    text_file: str | None = flag(
        "Text, a sentence per line, its words between spaces; generated if left out.", default=None
    )
    num_words: int = flag("Words of the text that are embedded.", default=200_000)
    allennlp: str | None = flag("Folder that holds allennlp/modules/elmo.py, the unzipped wheel.", default=None)
    allennlp_words: int = flag("Words that AllenNLP embeds, and ours beside it.", default=20_000)
    rounds: int = flag("Rounds over the text.", default=3)
    threads: int | None = flag("Of torch.", default=None)
    seed: int = flag("Of the weights and of generated text.", default=0)
    output_dir: str = flag("For the files.", default="output/benchmark")

    def check(self) -> None:
        """Check what can be checked before anything is built.

        Raises: ValueError naming the argument, the value got and the value wanted.
        """
        for size in self.sizes:
            if size not in SIZES:
                raise ValueError(f"--sizes holds {size!r}; wanted one of {', '.join(SIZES)}.")
        for name in ("num_words", "allennlp_words", "rounds", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"--{name} is {value}; it must be an integer >= 1.")


def run_embedding_benchmark(settings: EmbeddingBenchmarkSettings) -> dict[str, Any]:
    """Time everything, print the report and write it.

    Returns: What stands in embedding.json.
    Raises: GateError where AllenNLP's vectors are others; ValueError or OSError for arguments that cannot be.
    """
    settings.check()
    # Before minutes in which somebody may commit.
    run = describe_run()
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
        run["machine"]["threads"] = settings.threads
    sentences = _read(settings, settings.num_words)
    cases = []
    for size in settings.sizes:
        print(f"timing {size} ...", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            cases.append(_time_size(settings, size, sentences, Path(folder)))
    results = {
        **run,
        "text": name_text(settings),
        "settings": {key: value for key, value in asdict(settings).items() if key not in ("text_file", "output_dir")},
        "cases": cases,
    }
    write_report(settings.output_dir, RESULTS_FILE, results, REPORT_FILE, render_embedding_report(results))
    return results


def _time_size(
    settings: EmbeddingBenchmarkSettings, size: str, sentences: list[list[str]], folder: Path
) -> dict[str, Any]:
    model = build_model(size, settings.seed)
    model.save_pretrained(folder / "elmo")
    ElmoCharTokenizer().save_pretrained(folder / "elmo")
    # One each: neither finds words in its table that the other one has encoded.
    alone, embedder = (ElmoEmbedder(str(folder / "elmo"), device="cpu") for _ in range(2))
    in_turns = [time_in_turns(alone, embedder, sentences, folder / "one") for _ in range(settings.rounds)]
    turns = {name: [second for seconds in in_turns for second in seconds[name]] for name in (MODEL, ONE_LAYER)}
    seconds = {name: [sum(seconds[name]) for seconds in in_turns] for name in (MODEL, ONE_LAYER)}
    words = dict.fromkeys(seconds, sum(map(len, sentences)))
    found: dict[str, Any] = {
        "share_of_the_model": _verdict(turns[MODEL], turns[ONE_LAYER], LEAST_SHARE),
        "turns": len(turns[MODEL]),
    }
    if settings.allennlp is not None:
        fewer = _first(sentences, settings.allennlp_words)
        peer = AllenNLPPeer(settings.allennlp, model)
        functions: dict[str, Callable[[], Any]] = {
            ALL_LAYERS: embed_text(embedder, fewer, folder / "all", "all"),
            ALLENNLP_FILE: embed_file(peer, fewer, folder / "peer.hdf5"),
        }
        seconds |= time_interleaved(functions, max(settings.rounds, _LEAST_ROUNDS))
        words |= dict.fromkeys(functions, sum(map(len, fewer)))
        found["times_allennlp"] = _verdict(seconds[ALLENNLP_FILE], seconds[ALL_LAYERS], LEAST_TIMES)
        found["deviation"] = _deviation(folder / "all" / "vectors", folder / "peer.hdf5")
    timings = {
        name: summarize({name: values}, words[name])[name] | {"words": words[name]} for name, values in seconds.items()
    }
    return {"size": size, **found, "functions": timings}


def time_in_turns(
    alone: ElmoEmbedder, embedder: ElmoEmbedder, sentences: list[list[str]], folder: Path
) -> dict[str, list[float]]:
    """Embed a text, and shard by shard let the model alone read the same words, so that what slows one slows both.

    Args:
        alone, embedder: Two of the same model.
        sentences: Lists of words.
        folder: For the text and the shards; emptied first.
    Returns: The seconds of each shard, by MODEL and ONE_LAYER. Counting the text's words is in all of them alike.
    """
    shards = [shard.sentences for shard in cut_shards(sentences, VectorSettings().max_words_per_shard)]
    shutil.rmtree(folder, ignore_errors=True)
    embed = embed_text(embedder, sentences, folder, "mix")
    embed_text(embedder, shards[0], folder / "warm", "mix")()
    _drain(model_alone(alone, shards[:1]))
    read, counting = model_alone(alone, shards), 0.0
    seconds: dict[str, list[float]] = {MODEL: [], ONE_LAYER: []}
    started = time.perf_counter()

    def take_turns(items: Iterator[Any], _: Callable[[Any], int]) -> Iterator[Any]:
        nonlocal started, counting
        counting = time.perf_counter() - started
        started = time.perf_counter()
        for number, item in enumerate(items, start=1):
            yield item
            if number == item.shard.first_sentence + len(item.shard.sentences):
                stopped = time.perf_counter()
                seconds[ONE_LAYER].append(stopped - started)
                next(read)
                started = time.perf_counter()
                seconds[MODEL].append(started - stopped)

    embed(take_turns)
    seconds[ONE_LAYER][-1] += time.perf_counter() - started
    _drain(read)
    seconds[ONE_LAYER] = [second + counting / len(shards) for second in seconds[ONE_LAYER]]
    return seconds


def model_alone(embedder: ElmoEmbedder, shards: list[list[Any]]) -> Iterator[None]:
    """The model over ready-made rows, each distinct word encoded once, in the batches that `embed` makes of a shard."""
    batches = [list(_batches(embedder, shard)) for shard in shards]

    @torch.inference_mode()
    def read() -> Iterator[None]:
        cache_words(embedder.model.token_encoder, _CACHED_WORDS)
        for of_a_shard in batches:
            for rows, mask in of_a_shard:
                _ = embedder.model(rows.long(), attention_mask=mask).last_hidden_state
            yield
        cache_words(embedder.model.token_encoder, None)

    return read()


def _drain(read: Iterator[None]) -> None:
    for _ in read:
        pass


def embed_text(embedder: ElmoEmbedder, sentences: list[list[str]], folder: Path, layers: str) -> Callable[..., None]:
    """What `hf-elmo embed --output_dir` does once its model is loaded, from text in a file to Arrow shards.

    The function takes what `CorpusEmbedder.run` calls `track`.
    """
    folder.mkdir(parents=True)
    text, target = folder / "text.txt", folder / "vectors"
    text.write_text("".join(f"{' '.join(words)}\n" for words in sentences), encoding="utf-8")

    def run(track: Callable[..., Iterator[Any]] = lambda items, size: items) -> None:
        shutil.rmtree(target, ignore_errors=True)
        source = sentences_of_files([str(text)])
        corpus = CorpusEmbedder(embedder, str(target), VectorSettings(layers=layers))
        corpus.prepare()
        corpus.words_to_embed(source)
        corpus.run(source, track)

    return run


def embed_file(peer: AllenNLPPeer, sentences: list[list[str]], target: Path) -> Callable[[], None]:
    """What AllenNLP 0.9's `ElmoEmbedder.embed_file` does with all layers: an array per sentence in an hdf5."""

    def run() -> None:
        with h5py.File(target, "w") as file:
            for number, vectors in enumerate(peer.embed_batches(sentences)):
                file.create_dataset(str(number), vectors.shape, dtype="float32", data=vectors)

    return run


def _batches(embedder: ElmoEmbedder, sentences: list[list[str]]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Rows in two bytes per character, and masks, of sentences of like lengths."""
    for buffer in _buffers(sentences):
        left = sorted(buffer, key=len, reverse=True)
        while left:
            count = max(1, _WORDS_PER_BATCH // (len(left[0]) + 2))
            batch = embedder.tokenizer(left[:count], is_split_into_words=True, padding=True, return_tensors="pt")
            yield batch["input_ids"].to(torch.int16), batch["attention_mask"]
            left = left[count:]


def _buffers(sentences: list[list[str]]) -> Iterator[list[list[str]]]:
    rest = iter(sentences)
    while buffer := _first(rest, _WORDS_PER_BUFFER, 2):
        yield buffer


def _first(sentences: Any, num_words: int, markers: int = 0) -> list[list[str]]:
    """The first sentences that have so many words together."""
    taken, count = [], 0
    for words in sentences:
        taken.append(words)
        count += len(words) + markers
        if count >= num_words:
            break
    return taken


def _read(settings: EmbeddingBenchmarkSettings, num_words: int) -> list[list[str]]:
    return _first((words for words in open_text(settings).sentences(str.split) if words), num_words)


def _verdict(peer: list[float], ours: list[float], target: float) -> dict[str, Any]:
    measured = median_ratio(peer, ours)
    return {"measured": measured, "target": target, "reached": measured >= target}


def _deviation(ours: Path, peer: Path) -> float:
    """The largest difference between our vectors and AllenNLP's in their first batch, before it carries any state.

    Raises: GateError where it is too large: what was timed would not be the same.
    """
    corpus = EmbeddedCorpus(ours)
    largest = 0.0
    with h5py.File(peer) as file:
        columns = zip(*map(corpus.sentences, corpus.columns), strict=True)
        for number, layers in enumerate(itertools.islice(columns, 64)):
            found = np.stack([vectors for _, _, vectors in layers])
            largest = max(largest, float(np.abs(found - file[str(number)][()]).max()))
    if largest > _MOST_DEVIATION:
        raise GateError(f"AllenNLP's vectors differ from ours by {largest:.1e}, more than {_MOST_DEVIATION:.0e}.")
    return largest
