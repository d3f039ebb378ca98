"""The model that a run starts from: new weights of a size, or those of a checkpoint of any of our classes.

Letters in shapes: V words of the softmax, P projection.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from ..hub.loading import find_file, load_config, load_model, load_tokenizer
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import UNK_TOKEN, VOCABULARY_FILE, WordVocabulary
from ..text.word_vectors import WordTable, build_word_table, read_word_vectors
from .arguments import DROPOUT, PretrainingArguments
from .corpus_stats import CorpusStats
from .objective import propose_cutoffs

# What a task has put into a config, and what may be set anew without a change of what the weights mean.
_TASK_FIELDS = {"freeze_bilm", "num_mixes", "mix_normalization", "mixed_layers", "mix_l2", "head", "direction"}
_SOFTMAX_FIELDS = ("softmax_type", "adaptive_softmax_cutoffs", "adaptive_softmax_div_value")
_FREE_FIELDS = {*_TASK_FIELDS, *_SOFTMAX_FIELDS, "dropout", "cell_clip", "projection_clip", "train_word_vectors"}
# A config cannot have these before the words of its table are known.
_TABLE_FIELDS = ("token_inputs", "word_vector_size", "train_word_vectors")


@dataclass(frozen=True)
class Start:
    """What a run starts from before its text is read."""

    config: ElmoConfig  # as yet without the words of the softmax
    tokenizer: ElmoCharTokenizer
    # The checkpoint's, the biLM alone where it has no softmax (converted without one, or fine-tuned).
    model: ElmoForPreTraining | ElmoModel | None = None
    vocabulary: WordVocabulary | None = None  # the words of its softmax, where it has a list of them


def open_start(arguments: PretrainingArguments) -> Start:
    """Open what the arguments name; a checkpoint's weights in float32.

    Raises: ValueError or FileNotFoundError naming the argument when it is not what it should be.
    """
    name, overrides = arguments.model_name_or_path, arguments.overrides
    known = [each.name for each in fields(ElmoConfig)]
    for field in overrides:
        if field not in known:
            (nearest,) = difflib.get_close_matches(field, known, n=1, cutoff=0.0)
            raise ValueError(
                f"--config_overrides sets {field!r}, which ElmoConfig does not have; did you mean {nearest!r}?"
            )
    if name is None:
        sizes = {field: value for field, value in overrides.items() if field not in _TABLE_FIELDS}
        config = getattr(ElmoConfig, arguments.preset or "small")(**{"dropout": DROPOUT, **sizes})
        width = config.max_characters_per_word
        return Start(config, ElmoCharTokenizer(max_characters_per_word=width, **arguments.cutting))
    config, file = load_config(name), find_file(name, VOCABULARY_FILE)
    # A fine-tuned checkpoint may still name the size of a softmax that was left behind.
    architectures = config.architectures or [ElmoForPreTraining.__name__]
    has_softmax = config.word_vocab_size is not None and ElmoForPreTraining.__name__ in architectures
    model: Any = load_model(ElmoForPreTraining if has_softmax else ElmoModel, name)
    vocabulary = None if file is None else WordVocabulary.load(file)
    if has_softmax and vocabulary is not None and len(vocabulary) != model.num_words:
        raise ValueError(
            f"model_name_or_path {name!r} has a softmax over {model.num_words} words, but its {VOCABULARY_FILE} "
            f"has {len(vocabulary)}; put the file there that was saved with the model."
        )
    for field, value in overrides.items():
        if field not in _FREE_FIELDS and value != getattr(config, field):
            raise ValueError(
                f"--config_overrides sets {field} to {value!r}, but the weights of --model_name_or_path {name!r} "
                f"were trained with {getattr(config, field)!r}; leave it out, or train a new model without "
                "--model_name_or_path."
            )
    return Start(model.config, load_tokenizer(name, config), model, vocabulary)


def build_model(
    start: Start,
    arguments: PretrainingArguments,
    words: WordVocabulary,
    counts: Mapping[str, int] | None,
    stats: CorpusStats,
    report: Callable[[str], None],
) -> ElmoForPreTraining:
    """Build the model of a run over the words of its softmax.

    Of a checkpoint it has the token encoder and the biLM, bit by bit; its scalar mixes are at their start. A full
    softmax keeps the rows, weights and biases, of all words that it knows; words that are new to it start from its
    `<UNK>`. An adaptive softmax is kept as a whole or not at all: a word's id says how long its row is.

    Args:
        arguments: The run's, settled.
        words: Words of the softmax.
        counts: How often each occurs in the training text; None where the weights will be those of a run that resumes.
    """
    old, overrides, theirs = start.config, arguments.overrides, start.model
    softmax_type = "adaptive" if arguments.objective == "adaptive" else "full"
    has_words = start.vocabulary is not None and start.vocabulary.words == words.words
    cutoffs = overrides.get("adaptive_softmax_cutoffs") or (has_words and old.adaptive_softmax_cutoffs)
    changes = {
        **overrides,
        "softmax_type": softmax_type,
        "adaptive_softmax_cutoffs": (cutoffs or propose_cutoffs(len(words))) if softmax_type == "adaptive" else None,
        "word_vocab_size": len(words),
    }
    table = None
    if theirs is None:
        table, fields_of_table = _make_table(start, arguments, words, report)
        changes |= fields_of_table
    forgotten = {*_TASK_FIELDS, "id2label", "label2id"}
    kept = {name: value for name, value in old.to_dict().items() if name not in forgotten}
    model = ElmoForPreTraining(ElmoConfig.from_dict({**kept, **changes}))
    if theirs is not None:
        found = theirs.base_model.state_dict()
        bilm = {name: value for name, value in found.items() if not name.startswith("mixes.")}
        model.base_model.load_state_dict(bilm, strict=False)
        num_kept = _keep_rows(start, model, words)
        report(f"softmax: {num_kept:,} of {len(words):,} words keep their rows of {arguments.model_name_or_path}")
    elif table is not None:
        table.fill(model)
    if theirs is None and counts is not None and softmax_type == "full" and arguments.recipe == "modern":
        _start_from_frequencies(model, words, counts, stats)
    return model


def _make_table(
    start: Start, arguments: PretrainingArguments, vocabulary: WordVocabulary, report: Callable[[str], None]
) -> tuple[WordTable | None, dict[str, Any]]:
    """The table of words that a new model is to be filled with, if any, and the fields of its config."""
    set_fields = {name: arguments.overrides[name] for name in _TABLE_FIELDS if name in arguments.overrides}
    file, size = arguments.word_vectors, set_fields.get("word_vector_size")
    set_fields.setdefault("token_inputs", "both" if file else "characters")
    if set_fields["token_inputs"] == "characters":
        if file is not None or size is not None:
            raise ValueError(
                "token_inputs is 'characters', which has no use for word_vectors and word_vector_size; leave them out."
            )
        return None, set_fields
    # With a file of vectors those of the softmax's words that have one there; all others are unknown to the table.
    words = [word for word in vocabulary.words if word != UNK_TOKEN]
    if file is None:
        table = build_word_table(start.tokenizer, words)
        size = start.config.projection_size if size is None else size
        report(f"word table: {len(table.rows):,} words of the vocabulary, vectors of size {size} to be learned")
    else:
        read = read_word_vectors(file, words, vector_size=size, lower_case=start.tokenizer.do_lower_case)
        table, size = build_word_table(start.tokenizer, read.words, read.vectors), read.vectors.shape[1]
        known = f"{len(read.words):,} of {len(words):,} words of the vocabulary have a vector of size {size}"
        report(f"word table: {known} in {file!r}")
    return table, {**set_fields, "word_table_size": len(table.rows), "word_vector_size": size}


@torch.no_grad()
def _start_from_frequencies(
    model: ElmoForPreTraining, words: WordVocabulary, counts: Mapping[str, int], stats: CorpusStats
) -> None:
    """Set the biases of full softmaxes to the unigrams' log frequencies, which the first steps then need not learn."""
    occurrences = torch.tensor([counts.get(word, 0) for word in words.words], dtype=torch.float64)
    occurrences[words.bos_id] = occurrences[words.eos_id] = stats.sentences
    # A word written "<UNK>" and all that the vocabulary lacks.
    occurrences[words.unk_id] = stats.words - sum(counts.values()) + counts.get(UNK_TOKEN, 0)
    log_frequencies = (occurrences + 1).log() - math.log(stats.words + stats.sentences + len(words))
    softmaxes: Any = model.word_softmaxes
    for softmax in softmaxes:
        softmax.bias.copy_(log_frequencies)


@torch.no_grad()
def _keep_rows(start: Start, model: ElmoForPreTraining, words: WordVocabulary) -> int:
    """Take over what a checkpoint's softmax knows of a model's words, and count those.

    To the checkpoint a word that it lacks was `<UNK>`. Such words start from that row, each with an equal share of its
    probability, so that what the checkpoint says of the words it knows stays as it was, but for less than p(`<UNK>`).
    Rows drawn anew, with biases of zero or of the mean, lagged behind after 20 steps and after 200 (from film reviews
    to Wikipedia; also from a checkpoint whose text held no `<UNK>`). Biases of zero beside log frequencies are the
    worst: the new words take all probability.
    """
    known = start.vocabulary
    if not isinstance(start.model, ElmoForPreTraining) or known is None:
        return 0
    pairs: list[tuple[Any, Any]] = list(zip(start.model.word_softmaxes, model.word_softmaxes, strict=True))
    if start.config.softmax_type == model.config.softmax_type == "full":
        sources, is_new = torch.tensor(known.encode(words.words)), torch.tensor([w not in known for w in words.words])
        num_new = int(is_new.sum())
        for theirs, ours in pairs:
            torch.index_select(theirs.weight, 0, sources, out=ours.weight)
            ours.bias.copy_(theirs.bias[sources])
            ours.bias[is_new] -= math.log(num_new + 1)
        return len(words) - num_new
    same_softmax = all(getattr(start.config, name) == getattr(model.config, name) for name in _SOFTMAX_FIELDS)
    if not same_softmax or known.words != words.words:
        return 0
    for theirs, ours in pairs:
        ours.load_state_dict(theirs.state_dict())
    return len(words)
