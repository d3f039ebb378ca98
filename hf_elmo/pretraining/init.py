"""The model that a run starts from: new weights for its sizes and words, or those of a checkpoint.

Letters in shapes: V words of the softmax, P projection.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import nn

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
_TASK_FIELDS = ("freeze_bilm", "num_mixes", "mix_normalization", "mix_l2", "head")
_SOFTMAX_FIELDS = ("softmax_type", "adaptive_softmax_cutoffs", "adaptive_softmax_div_value")
_FREE_FIELDS = {*_TASK_FIELDS, *_SOFTMAX_FIELDS, "dropout", "cell_clip", "projection_clip", "train_word_vectors"}
# A config cannot have these before the words of its table are known.
_TABLE_FIELDS = ("token_inputs", "word_vector_size", "train_word_vectors")


@dataclass(frozen=True)
class Source:
    """A checkpoint to continue from.

    Args:
        name: A directory, or a name on the Hub.
        model: With its word softmax, or the biLM alone where the checkpoint has none (converted without one, or
            fine-tuned for a task).
        vocabulary: The words of that softmax; None where the checkpoint holds no list of words.
        tokenizer: Its tokenizer.
    """

    name: str
    model: ElmoForPreTraining | ElmoModel
    vocabulary: WordVocabulary | None
    tokenizer: ElmoCharTokenizer

    @property
    def config(self) -> ElmoConfig:
        """The config of the checkpoint."""
        return self.model.config


def load_source(model_name_or_path: str) -> Source:
    """Load a checkpoint of any of our classes to continue from, in float32.

    Raises: FileNotFoundError or ValueError naming model_name_or_path and what it lacks.
    """
    config = load_config(model_name_or_path)
    # A fine-tuned checkpoint may still name the size of a softmax that was left behind.
    architectures = config.architectures or [ElmoForPreTraining.__name__]
    has_softmax = config.word_vocab_size is not None and ElmoForPreTraining.__name__ in architectures
    model: ElmoForPreTraining | ElmoModel
    if has_softmax:
        model = load_model(ElmoForPreTraining, model_name_or_path)
    else:
        model = load_model(ElmoModel, model_name_or_path)
    if not {ElmoForPreTraining.__name__, ElmoModel.__name__} & {*architectures}:
        plain = ElmoConfig()
        for name in (*_TASK_FIELDS, "id2label", "label2id"):
            setattr(model.config, name, getattr(plain, name))
    return Source(
        model_name_or_path, model, _load_words(model_name_or_path, model), load_tokenizer(model_name_or_path, config)
    )


def _load_words(name: str, model: ElmoForPreTraining | ElmoModel) -> WordVocabulary | None:
    words = model.words if isinstance(model, ElmoForPreTraining) else None
    if words is not None:
        try:
            return WordVocabulary(words)
        except ValueError as error:
            raise ValueError(f"model_name_or_path {name!r} holds {VOCABULARY_FILE}, but {error}") from error
    # Beside a biLM alone; a softmax has taken no words where their number is not its own.
    file = find_file(name, VOCABULARY_FILE)
    if file is None:
        return None
    vocabulary = WordVocabulary.load(file)
    if isinstance(model, ElmoForPreTraining):
        raise ValueError(
            f"model_name_or_path {name!r} has a softmax over {model.num_words} words, but its {VOCABULARY_FILE} has "
            f"{len(vocabulary)}; put the file there that was saved with the model."
        )
    return vocabulary


@dataclass(frozen=True)
class Start:
    """What a run starts from before its text is read.

    Args:
        config: Sizes of the model, as yet without words.
        tokenizer: Cuts the text and makes the rows of characters.
        source: The checkpoint whose weights are taken over; None for new ones.
    """

    config: ElmoConfig
    tokenizer: ElmoCharTokenizer
    source: Source | None = None

    @classmethod
    def from_arguments(cls, arguments: PretrainingArguments) -> Start:
        """Open what the arguments name.

        Raises: ValueError or FileNotFoundError naming the argument when it is not what it should be.
        """
        if arguments.model_name_or_path is not None:
            source = load_source(arguments.model_name_or_path)
            return cls(source.config, source.tokenizer, source)
        _check_overrides(arguments.overrides)
        overrides = {name: value for name, value in arguments.overrides.items() if name not in _TABLE_FIELDS}
        config = getattr(ElmoConfig, arguments.preset or "small")(**{"dropout": DROPOUT, **overrides})
        return cls(
            config, ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word, **arguments.cutting)
        )

    def given_words(self, arguments: PretrainingArguments) -> WordVocabulary | None:
        """The words of --vocab_file, or else the source's; None where both lack."""
        if arguments.vocab_file is not None:
            return WordVocabulary.load(arguments.vocab_file)
        return None if self.source is None else self.source.vocabulary

    def build_model(
        self,
        arguments: PretrainingArguments,
        words: WordVocabulary,
        counts: Mapping[str, int] | None,
        stats: CorpusStats,
        report: Callable[[str], None],
    ) -> ElmoForPreTraining:
        """Build the model over the words of its softmax.

        Args:
            arguments: The run's, settled.
            words: Words of the softmax.
            counts: How often each occurs in the training text; None where the weights will be a checkpoint's.
            stats: Of that text.
            report: Called with each line for the user.
        """
        softmax_type = "adaptive" if arguments.objective == "adaptive" else "full"
        if self.source is not None:
            model, description = carry_over(self.source, words, softmax_type, arguments.overrides)
            report(description)
            return model
        cutoffs = self.config.adaptive_softmax_cutoffs or propose_cutoffs(len(words))
        softmax = {
            "softmax_type": softmax_type,
            "adaptive_softmax_cutoffs": cutoffs if softmax_type == "adaptive" else None,
            "word_vocab_size": len(words),
        }
        config = ElmoConfig.from_dict({**self.config.to_dict(), **softmax})
        table_fields = {name: arguments.overrides[name] for name in _TABLE_FIELDS if name in arguments.overrides}
        table = set_token_inputs(config, self.tokenizer, words, arguments.word_vectors, report, **table_fields)
        model = ElmoForPreTraining(config)
        if table is not None:
            table.fill(model)
        if counts is not None and softmax_type == "full" and arguments.recipe == "modern":
            _start_from_frequencies(model, words, counts, stats)
        return model


def set_token_inputs(
    config: ElmoConfig,
    tokenizer: ElmoCharTokenizer,
    vocabulary: WordVocabulary,
    word_vectors: str | None = None,
    report: Callable[[str], None] = print,
    token_inputs: Literal["characters", "words", "both"] | None = None,
    word_vector_size: int | None = None,
    train_word_vectors: bool = True,
) -> WordTable | None:
    """Set what a new model reads, and make the table of words that it is to be filled with.

    The table's words are the vocabulary's, or with a file of vectors those of them that have one there; the special
    tokens are added, `<UNK>` is left out. All other words are unknown to the table.

    Args:
        config: Its fields token_inputs, word_table_size, word_vector_size and train_word_vectors are set.
        tokenizer: Makes the rows.
        vocabulary: The words of the softmax.
        word_vectors: A file of vectors (`read_word_vectors`); None for a table that is learned.
        report: Called with a line for the user.
        token_inputs: "characters", "words" or "both"; None is "both" with a file, and else "characters".
        word_vector_size: Size of a vector; None takes the file's, or without a file the projection's.
        train_word_vectors: False keeps the vectors of a file as they are, those of other words and special tokens too.
    Returns: The table, for `WordTable.fill` once the model is built; None where the model reads characters alone.
    Raises: ValueError naming the argument when two contradict each other, and as `read_word_vectors`.
    """
    config.token_inputs = token_inputs or ("both" if word_vectors else "characters")
    config.train_word_vectors = train_word_vectors
    table = None
    if config.token_inputs == "characters":
        if word_vectors is not None or word_vector_size is not None:
            raise ValueError(
                "token_inputs is 'characters', which has no use for word_vectors and word_vector_size; leave them out."
            )
    elif word_vectors is not None:
        words = [word for word in vocabulary.words if word != UNK_TOKEN]
        read = read_word_vectors(word_vectors, words, vector_size=word_vector_size, lower_case=tokenizer.do_lower_case)
        table, word_vector_size = build_word_table(tokenizer, read.words, read.vectors), read.vectors.shape[1]
        report(
            f"word table: {len(read.words):,} of {len(words):,} words of the vocabulary have a vector of size "
            f"{word_vector_size} in {word_vectors!r}"
        )
    elif not train_word_vectors:
        raise ValueError(
            "train_word_vectors is False but there is no file of word_vectors: the table would keep the random numbers "
            "that it starts with. Name a file, or let it be trained."
        )
    else:
        table = build_word_table(tokenizer, [word for word in vocabulary.words if word != UNK_TOKEN])
        word_vector_size = config.projection_size if word_vector_size is None else word_vector_size
        report(
            f"word table: {len(table.rows):,} words of the vocabulary, vectors of size {word_vector_size} to be learned"
        )
    config.word_table_size, config.word_vector_size = None if table is None else len(table.rows), word_vector_size
    config.validate()
    return table


@torch.no_grad()
def _start_from_frequencies(
    model: ElmoForPreTraining, words: WordVocabulary, counts: Mapping[str, int], stats: CorpusStats
) -> None:
    """Set the biases of full softmaxes to the words' log frequencies, those of the unigram baseline.

    The first steps then need not learn which words are frequent.
    """
    occurrences = torch.tensor([counts.get(word, 0) for word in words.words], dtype=torch.float64)
    occurrences[words.bos_id] = occurrences[words.eos_id] = stats.num_sentences
    # A word written "<UNK>" and all that the vocabulary lacks.
    occurrences[words.unk_id] = stats.num_words - sum(counts.values()) + counts.get(UNK_TOKEN, 0)
    log_frequencies = (occurrences + 1).log() - math.log(stats.num_words + stats.num_sentences + len(words))
    softmaxes: set[Any] = {*model.word_softmaxes}
    for softmax in softmaxes:
        softmax.bias.copy_(log_frequencies)


def carry_over(
    source: Source,
    words: WordVocabulary,
    softmax_type: str = "full",
    overrides: Mapping[str, Any] | None = None,
) -> tuple[ElmoForPreTraining, str]:
    """Make the model that continues from a source, over the source's own words or new ones.

    Its token encoder and biLM are the source's, bit by bit; its scalar mixes are at their start. A full softmax keeps
    the rows, weights and biases, of all words that it knows; words that are new to it start from its `<UNK>`. An
    adaptive softmax is kept as a whole or not at all: a word's place says how long its row is, and other words have
    other places.

    Args:
        source: Where the weights come from.
        words: Words of the new softmax.
        softmax_type: "full" or "adaptive", as the objective has it.
        overrides: Fields of the config to change; only those that leave the weights what they are.
    Returns: The model, and a line that says what became of the softmax.
    Raises: ValueError naming the field, the source's value and the one wanted.
    """
    model = ElmoForPreTraining(_continued_config(source, words, softmax_type, overrides or {}))
    base = source.model.base_model.state_dict()
    model.base_model.load_state_dict(
        {**model.base_model.state_dict(), **{key: base[key] for key in base if not key.startswith("mixes.")}}
    )
    return model, _carry_softmax(source, words, model)


def _check_overrides(overrides: Mapping[str, Any]) -> None:
    known = sorted(field.name for field in fields(ElmoConfig))
    for name in overrides:
        if name not in known:
            (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise ValueError(
                f"--config_overrides sets {name!r}, which ElmoConfig does not have; did you mean {nearest!r}?"
            )


def _continued_config(
    source: Source, words: WordVocabulary, softmax_type: str, overrides: Mapping[str, Any]
) -> ElmoConfig:
    old = source.config
    _check_overrides(overrides)
    for name, value in overrides.items():
        if name not in _FREE_FIELDS and value != getattr(old, name):
            raise ValueError(
                f"--config_overrides sets {name} to {value!r}, but the weights of --model_name_or_path {source.name!r} "
                f"were trained with {getattr(old, name)!r}; leave it out, or train a new model without "
                "--model_name_or_path."
            )
    keeps = _has_words(source, words) and old.softmax_type == "adaptive"
    cutoffs = old.adaptive_softmax_cutoffs if keeps else propose_cutoffs(len(words))
    changes = {"adaptive_softmax_cutoffs": cutoffs, **overrides, "softmax_type": softmax_type}
    if softmax_type == "full":
        changes["adaptive_softmax_cutoffs"] = None
    changes["word_vocab_size"] = len(words)
    return ElmoConfig.from_dict({**old.to_dict(), **changes})


def _has_words(source: Source, words: WordVocabulary) -> bool:
    return source.vocabulary is not None and source.vocabulary.words == words.words


def _carry_softmax(source: Source, words: WordVocabulary, model: ElmoForPreTraining) -> str:
    """Copy what the new softmax can have of the source's, and say what."""
    new = f"softmax: new, over {len(words):,} words"
    if not isinstance(source.model, ElmoForPreTraining):
        return f"{new}; {source.name} has none"
    if source.vocabulary is None:
        return f"{new}; {source.name} holds no {VOCABULARY_FILE} that names the rows of its own"
    old, config = source.config, model.config
    pairs: Iterable[tuple[Any, Any]] = zip(source.model.word_softmaxes, model.word_softmaxes, strict=True)
    if old.softmax_type == config.softmax_type == "full":
        for theirs, ours in pairs:
            _copy_rows(theirs, source.vocabulary, ours, words)
        num_kept = sum(word in source.vocabulary for word in words.words)
        return (
            f"softmax: {num_kept:,} of {len(words):,} words keep their rows from {source.name}, "
            f"{len(words) - num_kept:,} are new, {len(source.vocabulary) - num_kept:,} are left out"
        )
    if _has_words(source, words) and all(getattr(old, name) == getattr(config, name) for name in _SOFTMAX_FIELDS):
        for theirs, ours in pairs:
            ours.load_state_dict(theirs.state_dict())
        return f"softmax: all {len(words):,} words keep their rows from {source.name}"
    return (
        f"{new}; the rows of {source.name} ({old.softmax_type}, {old.word_vocab_size:,} words) fit no other clusters, "
        "and are left out"
    )


@torch.no_grad()
def _copy_rows(theirs: nn.Linear, their_words: WordVocabulary, ours: nn.Linear, our_words: WordVocabulary) -> None:
    """Copy the rows of the words that both know and start those of the others.

    To the source a word that it lacks was `<UNK>`. Such words start from that row, each with an equal share of its
    probability, so that what the source says of the words it knows stays as it was, but for less than p(`<UNK>`). Rows
    drawn anew, with biases of zero or of the mean, lagged behind after 20 steps and after 200 (from film reviews to
    Wikipedia; also from a source whose text held no `<UNK>`). Biases of zero beside log frequencies are the worst: the
    new words take all probability.
    """
    unknown = WordVocabulary.unk_id
    sources = torch.tensor([their_words.ids.get(word, unknown) for word in our_words.words])
    is_new = torch.tensor([word not in their_words for word in our_words.words])
    torch.index_select(theirs.weight, 0, sources, out=ours.weight)
    ours.bias.copy_(theirs.bias[sources])
    ours.bias[is_new] -= math.log(int(is_new.sum()) + 1)
