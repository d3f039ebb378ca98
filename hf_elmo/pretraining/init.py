"""The model that a run starts from: new weights for its sizes and words, or those of a checkpoint.

Letters in shapes: V words of the softmax, P projection.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
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
class Start:
    """What a run starts from before its text is read.

    Args:
        config: Sizes of the model, of new weights as yet without words.
        tokenizer: Cuts the text and makes the rows of characters.
        name: The checkpoint whose weights are taken over, a directory or a name on the Hub; None for new weights.
        model: That checkpoint's, the biLM alone where it has no softmax (converted without one, or fine-tuned).
        vocabulary: The words of its softmax; None where it holds no list of words.
    """

    config: ElmoConfig
    tokenizer: ElmoCharTokenizer
    name: str | None = None
    model: ElmoForPreTraining | ElmoModel | None = None
    vocabulary: WordVocabulary | None = None

    @classmethod
    def from_arguments(cls, arguments: PretrainingArguments) -> Start:
        """Open what the arguments name.

        Raises: ValueError or FileNotFoundError naming the argument when it is not what it should be.
        """
        if arguments.model_name_or_path is not None:
            return cls.from_checkpoint(arguments.model_name_or_path)
        _check_overrides(arguments.overrides)
        overrides = {name: value for name, value in arguments.overrides.items() if name not in _TABLE_FIELDS}
        config = getattr(ElmoConfig, arguments.preset or "small")(**{"dropout": DROPOUT, **overrides})
        width = config.max_characters_per_word
        return cls(config, ElmoCharTokenizer(max_characters_per_word=width, **arguments.cutting))

    @classmethod
    def from_checkpoint(cls, name: str) -> Start:
        """Load a checkpoint of any of our classes to continue from, in float32.

        Raises: FileNotFoundError or ValueError naming model_name_or_path and what it lacks.
        """
        config, file = load_config(name), find_file(name, VOCABULARY_FILE)
        # A fine-tuned checkpoint may still name the size of a softmax that was left behind.
        architectures = config.architectures or [ElmoForPreTraining.__name__]
        has_softmax = config.word_vocab_size is not None and ElmoForPreTraining.__name__ in architectures
        model: Any = load_model(ElmoForPreTraining if has_softmax else ElmoModel, name)
        if not {ElmoForPreTraining.__name__, ElmoModel.__name__} & {*architectures}:
            for field in (*_TASK_FIELDS, "id2label", "label2id"):
                setattr(model.config, field, getattr(ElmoConfig(), field))
        vocabulary = None if file is None else WordVocabulary.load(file)
        if has_softmax and vocabulary is not None and len(vocabulary) != model.num_words:
            raise ValueError(
                f"model_name_or_path {name!r} has a softmax over {model.num_words} words, but its {VOCABULARY_FILE} "
                f"has {len(vocabulary)}; put the file there that was saved with the model."
            )
        return cls(model.config, load_tokenizer(name, config), name, model, vocabulary)

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
        if self.model is not None:
            model, description = carry_over(self, words, softmax_type, arguments.overrides)
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
        token_inputs: None is "both" with a file, and else "characters".
        word_vector_size: None takes the file's size, or without a file the projection's.
        train_word_vectors: False keeps the vectors of a file as they are, those of other words and special tokens too.
    Returns: The table, for `WordTable.fill` once the model is built; None where the model reads characters alone.
    Raises: ValueError naming the argument when two contradict each other, and as `read_word_vectors`.
    """
    config.token_inputs = token_inputs or ("both" if word_vectors else "characters")
    config.train_word_vectors = train_word_vectors
    if config.token_inputs == "characters":
        if word_vectors is not None or word_vector_size is not None:
            raise ValueError(
                "token_inputs is 'characters', which has no use for word_vectors and word_vector_size; leave them out."
            )
        return None
    if word_vectors is None and not train_word_vectors:
        raise ValueError(
            "train_word_vectors is False but there is no file of word_vectors: the table would keep the random numbers "
            "that it starts with. Name a file, or let it be trained."
        )
    words = [word for word in vocabulary.words if word != UNK_TOKEN]
    if word_vectors is not None:
        read = read_word_vectors(word_vectors, words, vector_size=word_vector_size, lower_case=tokenizer.do_lower_case)
        table, size = build_word_table(tokenizer, read.words, read.vectors), read.vectors.shape[1]
        known = f"{len(read.words):,} of {len(words):,} words of the vocabulary have a vector of size {size}"
        report(f"word table: {known} in {word_vectors!r}")
    else:
        table = build_word_table(tokenizer, words)
        size = config.projection_size if word_vector_size is None else word_vector_size
        report(f"word table: {len(table.rows):,} words of the vocabulary, vectors of size {size} to be learned")
    config.word_table_size, config.word_vector_size = len(table.rows), size
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
    start: Start,
    words: WordVocabulary,
    softmax_type: str = "full",
    overrides: Mapping[str, Any] | None = None,
) -> tuple[ElmoForPreTraining, str]:
    """Make the model that continues from a checkpoint, over the checkpoint's own words or new ones.

    Its token encoder and biLM are the checkpoint's, bit by bit; its scalar mixes are at their start. A full softmax
    keeps the rows, weights and biases, of all words that it knows; words that are new to it start from its `<UNK>`. An
    adaptive softmax is kept as a whole or not at all: a word's id says how long its row is.

    Args:
        start: Where the weights come from.
        words: Words of the new softmax.
        softmax_type: "full" or "adaptive", as the objective has it.
        overrides: Fields of the config to change; only those that leave the weights what they are.
    Returns: The model, and a line that says what became of the softmax.
    Raises: ValueError naming the field, the checkpoint's value and the one wanted.
    """
    old, theirs, overrides = start.config, start.model, overrides or {}
    _check_overrides(overrides)
    for name, value in overrides.items():
        if name not in _FREE_FIELDS and value != getattr(old, name):
            raise ValueError(
                f"--config_overrides sets {name} to {value!r}, but the weights of --model_name_or_path {start.name!r} "
                f"were trained with {getattr(old, name)!r}; leave it out, or train a new model without "
                "--model_name_or_path."
            )
    has_words = start.vocabulary is not None and start.vocabulary.words == words.words
    keeps = has_words and old.softmax_type == softmax_type == "adaptive"
    cutoffs = old.adaptive_softmax_cutoffs if keeps else propose_cutoffs(len(words))
    changes = {"adaptive_softmax_cutoffs": cutoffs, **overrides, "softmax_type": softmax_type}
    if softmax_type == "full":
        changes["adaptive_softmax_cutoffs"] = None
    config = ElmoConfig.from_dict({**old.to_dict(), **changes, "word_vocab_size": len(words)})
    model = ElmoForPreTraining(config)
    base: Any = theirs.base_model.state_dict() if theirs is not None else {}
    model.base_model.load_state_dict(
        {**model.base_model.state_dict(), **{key: base[key] for key in base if not key.startswith("mixes.")}}
    )
    if isinstance(theirs, ElmoForPreTraining) and start.vocabulary is not None:
        pairs: list[tuple[Any, Any]] = list(zip(theirs.word_softmaxes, model.word_softmaxes, strict=True))
        if old.softmax_type == softmax_type == "full":
            for their_softmax, softmax in pairs:
                _copy_rows(their_softmax, start.vocabulary, softmax, words)
            num_kept = sum(word in start.vocabulary for word in words.words)
            return model, (
                f"softmax: {num_kept:,} of {len(words):,} words keep their rows from {start.name}, "
                f"{len(words) - num_kept:,} are new, {len(start.vocabulary) - num_kept:,} are left out"
            )
        if has_words and all(getattr(old, name) == getattr(config, name) for name in _SOFTMAX_FIELDS):
            for their_softmax, softmax in pairs:
                softmax.load_state_dict(their_softmax.state_dict())
            return model, f"softmax: all {len(words):,} words keep their rows from {start.name}"
    return model, f"softmax: new, over {len(words):,} words; {start.name} has none whose rows fit them"


def _check_overrides(overrides: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(ElmoConfig)]
    for name in overrides:
        if name not in known:
            (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise ValueError(
                f"--config_overrides sets {name!r}, which ElmoConfig does not have; did you mean {nearest!r}?"
            )


@torch.no_grad()
def _copy_rows(theirs: nn.Linear, their_words: WordVocabulary, ours: nn.Linear, our_words: WordVocabulary) -> None:
    """Copy the rows of the words that both know and start those of the others.

    To the checkpoint a word that it lacks was `<UNK>`. Such words start from that row, each with an equal share of its
    probability, so that what the checkpoint says of the words it knows stays as it was, but for less than p(`<UNK>`).
    Rows drawn anew, with biases of zero or of the mean, lagged behind after 20 steps and after 200 (from film reviews
    to Wikipedia; also from a checkpoint whose text held no `<UNK>`). Biases of zero beside log frequencies are the
    worst: the new words take all probability.
    """
    sources = torch.tensor(their_words.encode(our_words.words))
    is_new = torch.tensor([word not in their_words for word in our_words.words])
    torch.index_select(theirs.weight, 0, sources, out=ours.weight)
    ours.bias.copy_(theirs.bias[sources])
    ours.bias[is_new] -= math.log(int(is_new.sum()) + 1)
