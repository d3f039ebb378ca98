"""Benchmarks that others made: minimal pairs, senses of words and reading times; and the perplexity of texts by genre.

python scripts/language_benchmarks.py blimp --model_name_or_path DIR --pairs_file PAIRS --output_file blimp.json
python scripts/language_benchmarks.py senses --model_name_or_path DIR --semcor_file SEMCOR --test_file SETS \\
    --output_file senses.json
python scripts/language_benchmarks.py reading --model_name_or_path DIR --stories_file STORIES --times_file TIMES \\
    --gpt3_file OTHER --output_file reading.json
python scripts/language_benchmarks.py perplexity --model_name_or_path DIR --text_files GENRES --train_files TEXTS \\
    --output_file perplexity.json
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accelerate import Accelerator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from tqdm.auto import tqdm

from hf_elmo import ElmoEmbedder, ElmoScorer
from hf_elmo.hub.provenance import describe_run, write_json
from hf_elmo.inference.embedder import place_words
from hf_elmo.inference.word_uses import unit
from hf_elmo.pretraining.corpus_stats import count_baselines
from hf_elmo.pretraining.evaluation import measure_perplexity
from hf_elmo.pretraining.objective import LaneObjective
from hf_elmo.text.corpora import corpus_from_files
from hf_elmo.text.raw_text import cut_sentences

DIRECTIONS = ("forward", "backward", "sum", "joint")
# How WordNet's keys number the parts of speech; adjectives that belong to another one have a number of their own.
_POS = {"NOUN": ("1",), "VERB": ("2",), "ADJ": ("3", "5"), "ADV": ("4",)}


def score_pairs(scorer: ElmoScorer, pairs: pd.DataFrame) -> dict[str, Any]:
    """The percentage of BLiMP's pairs whose good sentence is more probable; ties count half (Warstadt et al. 2020).

    Returns: By direction the mean over paradigms of all pairs and of those without unknown words, and each paradigm.
    """
    sentences = [text for pair in zip(pairs.sentence_good, pairs.sentence_bad, strict=True) for text in pair]
    scores = list(tqdm(scorer.stream(sentences), "scoring", len(sentences), unit=" sentences", mininterval=5))
    sums = [(one.totals.forward_sum, one.totals.backward_sum, one.totals.joint_sum) for one in scores]
    figures = np.array([(forward, backward, forward + backward, joint) for forward, backward, joint in sums])
    figures = figures.reshape(len(pairs), 2, len(DIRECTIONS))
    correct = pd.DataFrame((np.sign(figures[:, 0] - figures[:, 1]) + 1) / 2, pairs.index, DIRECTIONS)
    unknown = np.array([one.is_unknown.any() for one in scores]).reshape(-1, 2).any(1)
    by_paradigm = 100 * correct.groupby(pairs.UID).mean()
    known = 100 * correct[~unknown].groupby(pairs.UID).mean()
    # One paradigm's field is spelled otherwise in the published files.
    by_field = by_paradigm.groupby(pairs.groupby("UID").field.first().str.replace("/", "_")).mean()
    return {
        "accuracy": by_paradigm.mean().to_dict(),
        "accuracy_of_known_words": known.mean().to_dict(),
        "pairs": len(pairs),
        "pairs_with_unknown_words": int(unknown.sum()),
        "paradigms_of_known_words": len(known),
        "by_field": by_field.to_dict("index"),
        "by_paradigm": by_paradigm.to_dict("index"),
    }


def read_semcor(path: str) -> list[tuple[list[str], list[tuple[int, str]]]]:
    """SemCor's sentences: their words, and the index and key of each sense, the first where a use has several."""
    rows = pd.read_csv(path, sep="\t", names=["file", "number", "word", "lemma", "tag", "sense"], dtype=str, quoting=3)
    rows = rows.dropna(subset=["word"]).fillna({"sense": ""})
    sentences = []
    for _, sentence in rows.groupby(["file", "number"], sort=False):
        keys = [(index, key.split(";")[0]) for index, key in enumerate(sentence.sense) if key]
        sentences.append((list(sentence.word), keys))
    return sentences


def embed_uses(
    embedder: ElmoEmbedder, sentences: Sequence[tuple[Sequence[str], Sequence[int]]], name: str
) -> list[np.ndarray]:
    """Unit vectors (uses, L + 1, D) of the words at given indices; one of several words has their mean."""
    cut = [[word.replace("_", " ").split() for word in words] for words, _ in sentences]
    arrays = embedder.stream([[part for parts in words for part in parts] for words in cut], layers="all")
    found = []
    arrays = tqdm(arrays, name, len(cut), unit=" sentences", mininterval=5)
    for (_, indices), words, layers in zip(sentences, cut, arrays, strict=True):
        ends = np.cumsum([len(parts) for parts in words])
        vectors = [layers[:, ends[index] - len(words[index]) : ends[index]].mean(1) for index in indices]
        found.append(unit(np.array(vectors).reshape(len(vectors), *layers.shape[::2])))
    return found


def score_senses(embedder: ElmoEmbedder, semcor_file: str, test_file: str) -> dict[str, Any]:
    """F1 of the nearest mean of a sense's uses in SemCor, on the all-words sets (Peters et al. 2018, section 5.3).

    A word's first sense is its most frequent one in SemCor; a word that SemCor lacks counts as missed, where the paper
    has WordNet's first sense.
    """
    train = [(words, keys) for words, keys in read_semcor(semcor_file) if keys]
    counts: Counter[str] = Counter(key for _, keys in train for _, key in keys)
    by_word: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key in sorted(counts, key=lambda key: (-counts[key], key)):
        lemma, _, rest = key.partition("%")
        by_word[lemma, rest[0]].append(key)
    sums: dict[str, Any] = defaultdict(float)
    vectors = embed_uses(embedder, [(words, [index for index, _ in keys]) for words, keys in train], "SemCor")
    for (_, keys), uses in zip(train, vectors, strict=True):
        for (_, key), use in zip(keys, uses, strict=True):
            sums[key] += use
    means = {key: unit(total) for key, total in sums.items()}
    tests = pd.read_json(test_file, lines=True)
    indices = [[instance["index"] for instance in instances] for instances in tests.instances]
    vectors = embed_uses(embedder, list(zip(tests.words, indices, strict=True)), "test")
    names = ["unseen", "first sense", *(f"layer {layer}" for layer in range(embedder.num_layers))]
    rows = []
    for name, instances, uses in zip(tests.set, tests.instances, vectors, strict=True):
        for instance, use in zip(instances, uses, strict=True):
            candidates = [key for pos in _POS[instance["pos"]] for key in by_word[instance["lemma"], pos]]
            candidates.sort(key=lambda key: -counts[key])
            right = [key in instance["senses"] for key in candidates]
            if not right:
                rows.append((name, True, *[False] * (len(names) - 1)))
                continue
            nearest = np.einsum("cld,ld->lc", np.stack([means[key] for key in candidates]), use).argmax(1)
            rows.append((name, False, right[0], *(right[index] for index in nearest)))
    table = pd.DataFrame(rows, columns=["set", *names])
    parts = {**dict(list(table.groupby("set"))), "all": table, "words of SemCor": table[~table.unseen]}
    return {
        name: {"uses": len(part), **(100 * part[names].astype(float).mean()).to_dict()} for name, part in parts.items()
    }


def read_stories(path: str) -> dict[int, list[str]]:
    """Natural Stories' words as they were shown, by the number of the story."""
    rows = pd.read_csv(path, sep="\t", dtype={"word": str}, quoting=3, keep_default_na=False)
    return {int(item): list(story.sort_values("zone").word) for item, story in rows.groupby("item")}


def surprisals_of_story(scorer: ElmoScorer, words: Sequence[str]) -> dict[str, np.ndarray]:
    """Bits of each word that was shown, the sum of those of the tokens that it is cut into; states are carried."""
    story = " ".join(words)
    sentences = [story[start:end] for start, end in cut_sentences(story)]
    sums = {name: np.zeros(len(words)) for name in ("forward", "backward")}
    start = 0
    for text, scores in zip(sentences, scorer.stream(sentences, carry_state=True), strict=True):
        places = start + np.array(place_words(text, scorer.tokenizer).spaced_words)
        for name, total in sums.items():
            np.add.at(total, places, scores.surprisal(name))
        start += text.count(" ") + 1
    return sums


def surprisals_of_gpt3(path: str, stories: Mapping[int, Sequence[str]]) -> dict[int, np.ndarray]:
    """Bits of each word from the file's log probabilities of pieces of words."""
    rows = pd.read_csv(path, keep_default_na=False)
    # A space stands before the piece that begins a word.
    rows["begin"] = rows.offset + rows.token.str.len() - rows.token.str.lstrip().str.len()
    rows["bits"] = -pd.to_numeric(rows.logprob, errors="coerce").fillna(0.0) / np.log(2)
    found = {}
    for story, words in stories.items():
        pieces = rows[rows.story == story - 1]
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1]
        places = np.searchsorted(starts, pieces.begin, side="right") - 1
        found[story] = np.bincount(places, pieces.bits, len(words))
    return found


def added_r2(rows: pd.DataFrame, name: str) -> dict[str, Any]:
    """What a column of surprisals adds to R2 of reading times over length and frequency, each story held out once."""
    previous = rows.groupby("story")
    base = [rows.length, rows.frequency, previous.length.shift(1), previous.frequency.shift(1)]
    more = [rows[name], previous[name].shift(1), previous[name].shift(2)]
    table = pd.concat([rows.story, rows.time, *base, *more], axis=1).dropna().to_numpy(float)
    stories, times, features = table[:, 0], table[:, 1], table[:, 2:]
    without, with_them = (
        cross_val_score(LinearRegression(), columns, times, groups=stories, cv=LeaveOneGroupOut(), scoring="r2")
        for columns in (features[:, : len(base)], features)
    )
    added = with_them - without
    return {
        "added_r2": float(added.mean()),
        "standard_error": float(added.std(ddof=1) / np.sqrt(len(added))),
        "stories": added.tolist(),
        "words": len(table),
    }


def score_reading(scorer: ElmoScorer, stories_file: str, times_file: str, gpt3_file: str | None) -> dict[str, Any]:
    """`added_r2` by each direction, and by GPT-3 where its file is given, on Natural Stories (Futrell et al. 2021).

    The frequency of a word is the logarithm of its rank among the words of the softmax.
    """
    stories = read_stories(stories_file)
    times = pd.read_csv(times_file, sep="\t", quoting=3, keep_default_na=False).set_index(["item", "zone"]).meanItemRT
    ranks = {word: rank for rank, word in enumerate(scorer.vocabulary.words)}
    columns: dict[str, list[np.ndarray]] = defaultdict(list)
    for story, words in tqdm(stories.items(), "stories"):
        bare = [re.sub(r"^\W+|\W+$", "", word) for word in words]
        columns["story"].append(np.full(len(words), story))
        columns["time"].append(times.reindex([(story, zone) for zone in range(1, len(words) + 1)]).to_numpy())
        columns["length"].append(np.array([len(word) for word in bare]))
        columns["frequency"].append(-np.log([1 + ranks.get(word, len(ranks)) for word in bare]))
        for name, values in surprisals_of_story(scorer, words).items():
            columns[name].append(values)
    if gpt3_file:
        columns["gpt3"] = list(surprisals_of_gpt3(gpt3_file, stories).values())
    rows = pd.DataFrame({name: np.concatenate(values) for name, values in columns.items()})
    return {name: added_r2(rows, name) for name in ("forward", "backward", "gpt3") if name in rows}


def score_texts(
    model_name_or_path: str, text_files: Sequence[str], train_files: Sequence[str] | None
) -> dict[str, Any]:
    """Perplexities of texts, a sentence per line and an empty line between documents, by the names of their files.

    Returns: Of each text its words, and perplexities and bits per character with carried states, of each sentence alone
        and, with the words that the softmax lacks spelled by the checkpoint's spelling.npz, of carried states; and of
        the training text's bigrams, where that is given.
    """
    scorer = ElmoScorer(model_name_or_path, device="cpu", spell_unknown=True)
    tokenizer, words, objective = scorer.tokenizer, scorer.vocabulary, LaneObjective(scorer.model)
    train = None
    if train_files:
        read = corpus_from_files(train_files).sentences(tokenizer.tokenize)
        train = [list(map(sys.intern, each)) for each in tqdm(read, "training text", unit=" sentences")]
    results = {}
    for file in tqdm(text_files, "texts"):
        corpus = corpus_from_files([file], "text_files", by_document=True)
        carried, alone = (
            measure_perplexity(
                objective, tokenizer, words, corpus, Accelerator(cpu=True), reset_state="document", zero_state=is_alone
            )
            for is_alone in (False, True)
        )
        sentences = list(corpus.sentences(tokenizer.tokenize))
        text = list(itertools.chain.from_iterable(sentences))
        unknown = [word for word in text if word not in words.ids]
        # Both directions read the same spellings; a character stands behind each word.
        nats = -float(scorer.spelling.log_probabilities(unknown).sum()) / carried.num_targets
        spelled = [math.log(one) + nats for one in (carried.forward, carried.backward)]
        bits = sum(spelled) / 2 / math.log(2) * carried.num_targets / sum(len(word) + 1 for word in text)
        results[Path(file).name.split(".")[0]] = {
            "words": len(text),
            "unknown_words": len(unknown),
            "carried": asdict(carried),
            "alone": asdict(alone),
            "spelled": {"mean": sum(map(math.exp, spelled)) / 2, "bits_per_character": bits},
            **({"baselines": count_baselines(train, sentences, words)} if train else {}),
        }
    return {"texts": results}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    benchmarks = parser.add_subparsers(dest="benchmark", required=True)
    for name, files in {"blimp": ["pairs"], "senses": ["semcor", "test"], "reading": ["stories", "times"]}.items():
        one = benchmarks.add_parser(name)
        for flag in ("model_name_or_path", *(f"{file}_file" for file in files), "output_file"):
            one.add_argument(f"--{flag}", required=True)
        if name == "reading":
            one.add_argument("--gpt3_file", help="log probabilities of another model, to be set beside")
    texts = benchmarks.add_parser("perplexity")
    for flag in ("model_name_or_path", "output_file"):
        texts.add_argument(f"--{flag}", required=True)
    texts.add_argument("--text_files", required=True, nargs="+")
    texts.add_argument("--train_files", nargs="+", help="training text, whose bigrams are to be set beside")
    arguments = parser.parse_args(words)
    # Before minutes in which somebody may commit.
    origin = describe_run()
    results: dict[str, Any] = {**origin, "benchmark": arguments.benchmark}
    if arguments.benchmark == "blimp":
        scorer = ElmoScorer(arguments.model_name_or_path, max_words_per_batch=8192)
        results |= score_pairs(scorer, pd.read_json(arguments.pairs_file, lines=True))
    elif arguments.benchmark == "senses":
        embedder = ElmoEmbedder(arguments.model_name_or_path)
        results |= score_senses(embedder, arguments.semcor_file, arguments.test_file)
    elif arguments.benchmark == "perplexity":
        results |= score_texts(arguments.model_name_or_path, arguments.text_files, arguments.train_files)
    else:
        scorer = ElmoScorer(arguments.model_name_or_path)
        results |= score_reading(scorer, arguments.stories_file, arguments.times_file, arguments.gpt3_file)
    write_json(Path(arguments.output_file), results)
    skipped = {"by_paradigm", *origin}
    print("\n".join(f"{name}: {value}" for name, value in results.items() if name not in skipped))


if __name__ == "__main__":
    main()
