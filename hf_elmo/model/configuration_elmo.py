"""The configuration of ELMo's models and of their task heads, and the ids of the characters that words are made of."""

# No `from __future__ import annotations` here: @strict reads the annotations as types, and strings would check nothing.
import difflib
import itertools
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, cast

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassError,
    StrictDataclassFieldValidationError,
)
from transformers import PreTrainedConfig

# Ids after the shift by one that frees 0 for "no word here": a byte b has the id b + 1.
NO_WORD = 0
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
PAD_CHARACTER = 261
NUM_CHARACTERS = 262
# Of a row. No word of any language has so many bytes, and a wider row takes memory for each word of a batch.
MAX_CHARACTERS_PER_WORD = 1000
BOS_TOKEN = "<S>"
EOS_TOKEN = "</S>"
PAD_TOKEN = "<PAD>"
# The marks of ELMoForManyLangs's dictionaries: around sentences, around words, behind words, and for all else.
DICTIONARY_MARKS = ("<bos>", "<eos>", "<bow>", "<eow>", "<pad>", "<oov>")

SENTENCE_MARKERS = {BOS_TOKEN: BEGIN_SENTENCE, EOS_TOKEN: END_SENTENCE}
MARKER_WORDS = {character: word for word, character in SENTENCE_MARKERS.items()}


def decode_row(row: list[int]) -> str:
    """Turn a row of character ids back into its word; the inverse of `encode_word` for words that fit.

    Bytes that do not form a code point, as where a long word was cut inside one, are left out. A row of zeros ("no
    word here") gives the empty string.

    Args:
        row: C character ids.
    """
    characters = []
    for character in row:
        if character in (END_WORD, PAD_CHARACTER, NO_WORD):
            break
        if character != BEGIN_WORD:
            characters.append(character)
    if len(characters) == 1 and characters[0] in MARKER_WORDS:
        return MARKER_WORDS[characters[0]]
    return bytes(character - 1 for character in characters if 1 <= character <= 256).decode("utf-8", "ignore")


# The most that one axis of a weight, or a list of layers, can be: torch has no memory for more of either.
MAX_SIZE = 2**27
MAX_LAYERS = 1000


@strict
@dataclass
class HeadSettings:
    """What all heads' settings have in common: a name of their kind, and one form in a config.json.

    A new kind of head is a subclass with a `type` of its own, entered in `HEAD_TYPES`.
    """

    type: ClassVar[str]

    if TYPE_CHECKING:

        def validate(self) -> None:
            """Check the values; made by @strict."""

    def to_dict(self) -> dict[str, Any]:
        """The settings as config.json has them."""
        return {"type": self.type, **asdict(self)}


@strict
@dataclass
class WordInputsHead(HeadSettings):
    """What a task reads for each word, whatever it makes of it: ELMo's mix, and what may stand beside it.

    Args:
        dropout: Dropout on all that is read (Peters et al. 2018, sec. 3.3: 0.5).
        use_elmo: Whether the mixes are part of it; False leaves what stands beside them, and the biLM is not run.
        word_table_size: Words of a table of vectors of the task's own; None for no table.
        word_vector_size: Size of a vector of that table; None for no table.
        train_word_vectors: Whether those vectors are trained with the task, or stay as they were filled in.
        lower_case_words: Whether the capitals A to Z of a word are lowered before it is looked up in that table: files
            such as GloVe's 6B hold lower-cased words alone. The characters keep their case everywhere else.
        character_embedding_size: Size of a character's embedding in a small CNN of the task's own.
        character_filters: (width, count) of the convolutions of that CNN, `[[3, 128]]` for example; none for no CNN.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range, or a
        word would have no vector.
    """

    dropout: float | int = 0.5
    use_elmo: bool = True
    word_table_size: int | None = None
    word_vector_size: int | None = None
    train_word_vectors: bool = True
    lower_case_words: bool = False
    character_embedding_size: int = 16
    character_filters: list | tuple = ()

    def __post_init__(self) -> None:
        # JSON has no tuples: one form, so that saved and fresh settings compare equal.
        self.character_filters = [list(pair) if isinstance(pair, tuple) else pair for pair in self.character_filters]

    def validate_word_inputs(self) -> None:
        """Check that each value lies in its range, and that there is anything to read."""
        require_probability("dropout", self.dropout)
        require_at_least("character_embedding_size", self.character_embedding_size, 1)
        require_filters("character_filters", self.character_filters)
        sizes = {name: getattr(self, name) for name in ("word_table_size", "word_vector_size")}
        for name, size in sizes.items():
            if size is not None:
                require_at_least(name, size, 1)
            elif any(sizes.values()):
                raise ValueError(f"{name} is None, but a word table wants both of {sorted(sizes)}; give it too.")
        if not (self.use_elmo or self.word_table_size or self.character_filters):
            raise ValueError(
                "use_elmo is False, and there is neither a word table (word_table_size) nor a CNN (character_filters) "
                "in its place; a word would have no vector."
            )


@strict
@dataclass
class EmbeddingsHead(WordInputsHead):
    """What `ElmoEmbeddings` gives for each word; its fields are those of `WordInputsHead`."""

    type: ClassVar[str] = "embeddings"


@strict
@dataclass
class TokenClassificationHead(WordInputsHead):
    """The head of `ElmoForTokenClassification`: dropout, a biLSTM, a linear classifier and a CRF, as far as wanted.

    Args:
        dropout: Dropout on what is read, and on the biLSTM's output where there is one, before the classifier.
        lstm_layers: Layers of the task's own biLSTM before the classifier; 0 for none.
        lstm_size: Size of each direction of that biLSTM.
        lstm_reads_markers: Whether that biLSTM reads the markers around a sentence as words of it, or its words alone.
        mix_at_output: Whether the classifier reads a second mix beside what comes out of the biLSTM.
        output_layer: "softmax" for each word by itself, "crf" for the labels of a sentence as a whole.
        scheme: How the labels mark spans, "IOB1", "IOB2" or "BIOES": the rules of a CRF's best labels. None for labels
            without rules.

    The other fields say what is read for each word; see `WordInputsHead`.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range.
    """

    type: ClassVar[str] = "token_classification"

    lstm_layers: int = 0
    lstm_size: int = 200
    lstm_reads_markers: bool = True
    mix_at_output: bool = False
    output_layer: Literal["softmax", "crf"] = "softmax"
    scheme: Literal["IOB1", "IOB2", "BIOES"] | None = None

    def validate_ranges(self) -> None:
        """Check that each value lies in its range, and that none contradicts another."""
        require_at_least("lstm_layers", self.lstm_layers, 0, MAX_LAYERS)
        require_at_least("lstm_size", self.lstm_size, 1)
        if self.mix_at_output and not (self.lstm_layers and self.use_elmo):
            raise ValueError(
                f"mix_at_output is True with lstm_layers={self.lstm_layers} and use_elmo={self.use_elmo}; a second "
                "mix stands behind a biLSTM, so give it a layer, and ELMo."
            )


class _Published(NamedTuple):
    """What an encoder's source has for settings that are left out."""

    hidden_dropout: float
    output_activation: str
    output_sizes: tuple[int, ...]  # in units of hidden_size
    output_dropouts: tuple[float, ...]


# By AllenNLP's configurations for SST-5 and SNLI with ELMo; the pooled encoders are nobody's.
_PUBLISHED = {
    "pooled": _Published(0.0, "relu", (), (0.5,)),
    "pooled_pairs": _Published(0.0, "relu", (1,), (0.5, 0.5)),
    "bcn": _Published(0.25, "maxout", (4, 2), (0.1, 0.2, 0.3)),
    "esim": _Published(0.5, "relu", (1,), (0.5, 0.5)),
}
_RECURRENT_ENCODERS = ("bcn", "esim")


@strict
@dataclass
class SequenceClassificationHead(WordInputsHead):
    """The head of `ElmoForSequenceClassification`: an encoder of texts or pairs of them, and dense layers on top.

    What is left out is as published for the encoder (McCann et al. 2017 and Chen et al. 2017, as AllenNLP trained them
    with ELMo), and stands in the settings after that.

    Args:
        encoder: "pooled", mean and maximum of the words of a text; "pooled_pairs", those of each text of a pair, their
            difference and product; "bcn", the biattentive classifier of texts; or "esim", for pairs.
        hidden_size: Size of each direction of the encoder's biLSTMs, and of its dense layer.
        hidden_dropout: Dropout on the output of that dense layer, which an LSTM reads; in "esim" the same for all
            words of a sentence, and so is `dropout` there. The pooled encoders have no such layer.
        mix_at_output: Whether a second mix of the biLM's layers is joined to the output of the lowest biLSTM (Peters
            et al. 2018, sec. 3.3).
        output_activation: "relu", or "maxout" over four units, of the dense layers on top; with maxout it is also the
            last one's.
        output_sizes: Sizes of the dense layers on top, the last one, which has as many as there are labels, left out.
        output_dropouts: Dropout before each of the dense layers on top, the last one included.

    The other fields say what is read for each word; see `WordInputsHead`.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range, or the
        encoder has no use for it.
    """

    type: ClassVar[str] = "sequence_classification"

    encoder: Literal["pooled", "pooled_pairs", "bcn", "esim"] = "pooled"
    hidden_size: int = 300
    hidden_dropout: float | int | None = None
    mix_at_output: bool = False
    output_activation: Literal["relu", "maxout"] | None = None
    output_sizes: list | tuple | None = None
    output_dropouts: list | tuple | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        published = _PUBLISHED[self.encoder]
        if self.hidden_dropout is None:
            self.hidden_dropout = published.hidden_dropout
        if self.output_activation is None:
            self.output_activation = published.output_activation  # type: ignore[assignment]
        if self.output_sizes is None:
            self.output_sizes = [self.hidden_size * factor for factor in published.output_sizes]
        if self.output_dropouts is None:
            dropouts = published.output_dropouts
            self.output_dropouts = [
                dropouts[min(place, len(dropouts) - 1)] for place in range(len(self.output_sizes) + 1)
            ]
        # One form in memory and in JSON, as in WordInputsHead.
        self.output_sizes, self.output_dropouts = list(self.output_sizes), list(self.output_dropouts)

    def validate_ranges(self) -> None:
        """Check that each value lies in its range, and fits the encoder."""
        require_at_least("hidden_size", self.hidden_size, 1)
        require_probability("hidden_dropout", cast(float, self.hidden_dropout))
        sizes, dropouts = cast(list, self.output_sizes), cast(list, self.output_dropouts)
        require_at_least("the number of output_sizes", len(sizes), 0, MAX_LAYERS)
        for size in sizes:
            if not isinstance(size, int) or isinstance(size, bool):
                raise ValueError(f"output_sizes holds {repr(size)[:80]}; it must be a list of integers >= 1.")
            require_at_least("a size of output_sizes", size, 1)
        for dropout in dropouts:
            if not isinstance(dropout, (int, float)) or isinstance(dropout, bool):
                raise ValueError(f"output_dropouts holds {repr(dropout)[:80]}; it must be a list of numbers in [0, 1).")
            require_probability("a dropout of output_dropouts", dropout)
        if len(dropouts) != len(sizes) + 1:
            raise ValueError(
                f"output_dropouts has {len(dropouts)} numbers; {len(sizes)} output_sizes and the last layer want "
                f"{len(sizes) + 1}, one before each."
            )
        if self.mix_at_output and not (self.use_elmo and self.encoder in _RECURRENT_ENCODERS):
            raise ValueError(
                f"mix_at_output is True, but encoder is {self.encoder!r} and use_elmo {self.use_elmo}; a second mix is "
                f"joined to the output of a biLSTM, which {' and '.join(_RECURRENT_ENCODERS)} have, and wants ELMo."
            )


@strict
@dataclass
class CoreferenceHead(WordInputsHead):
    """The head of `ElmoForCoreferenceResolution`: which spans of a document name the same (Lee et al. 2017).

    The sizes are those of Lee et al.; smaller ones learn faster, and from less.

    Args:
        lstm_size: Size of each direction of the biLSTM.
        hidden_size: Size of the two dense layers of each of the two scorers, of mentions and of antecedents.
        hidden_dropout: Dropout on the biLSTM's output, on the features and in the scorers.
        feature_size: Size of the vector of a width, of a distance and of whether the speakers are one.
        max_span_width: Words of the widest span.
        spans_per_word: So many spans for each word of the document are kept, those with the best scores as mentions.
        max_antecedents: Each kept span is compared with so many kept ones before it, the nearest.
        allow_crossing: Whether spans that cross each other can be kept together.
        read_across_sentences: Whether the biLSTM reads the words of the document in one go; else each sentence on its
            own. The biLM reads each sentence on its own in both cases.
        use_speakers: Whether a scorer knows if the same speaker says both spans.
        mention_loss: Weight of the loss that teaches the scores of mentions to be above zero for those of the data,
            whether they have an antecedent or not, and below it for all other spans.
        keep_singletons: Whether a span that no other one is linked to stays, as a cluster of its own, where its score
            as a mention is above zero. It wants a mention_loss.

    The other fields say what is read for each word; see `WordInputsHead`.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range.
    """

    type: ClassVar[str] = "coreference"

    lstm_size: int = 200
    hidden_size: int = 150
    hidden_dropout: float | int = 0.2
    feature_size: int = 20
    max_span_width: int = 10
    spans_per_word: float | int = 0.4
    max_antecedents: int = 250
    allow_crossing: bool = False
    read_across_sentences: bool = False
    use_speakers: bool = False
    mention_loss: float | int = 0.0
    keep_singletons: bool = False

    def validate_ranges(self) -> None:
        """Check that each value lies in its range, and that none contradicts another."""
        for name in ("lstm_size", "hidden_size", "feature_size", "max_antecedents"):
            require_at_least(name, getattr(self, name), 1)
        require_at_least("max_span_width", self.max_span_width, 1, MAX_LAYERS)
        require_probability("hidden_dropout", self.hidden_dropout)
        if not 0 < self.spans_per_word <= self.max_span_width:
            raise ValueError(
                f"spans_per_word is {self.spans_per_word}; it must lie above 0, and there are no more than "
                f"{self.max_span_width} (max_span_width)."
            )
        if not 0 <= self.mention_loss < float("inf"):
            raise ValueError(f"mention_loss is {self.mention_loss}; it must be >= 0 (0 turns it off).")
        if self.keep_singletons and not self.mention_loss:
            raise ValueError(
                "keep_singletons is True with mention_loss=0.0, which leaves the scores of mentions without a zero of "
                "their own; set mention_loss, 1.0 for example."
            )


@strict
@dataclass
class SemanticRoleLabelingHead(WordInputsHead):
    """The head of `ElmoForSemanticRoleLabeling`: the mark of a predicate, highway LSTMs and a softmax for each word.

    What is left out is as He et al. (2017) and Peters et al. (2018, A.5) have it.

    Args:
        dropout: Dropout on what is read of each word.
        predicate_size: Size of the vector that stands beside each word and says whether it is the predicate.
        hidden_size: Size of the cell and the output of each highway LSTM.
        num_layers: How many of them there are; they read forward and backward in turns.
        recurrent_dropout: Dropout on what comes back in each of them, the same for all words of a sentence.
        mix_at_output: Whether the last layer reads a second mix beside what comes out of the uppermost LSTM.
        find_predicates: Whether a small classifier says which words are predicates, by what is read of each word.
        finder_size: Size of that classifier's hidden layer.

    The other fields say what is read for each word; see `WordInputsHead`.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range.
    """

    type: ClassVar[str] = "semantic_role_labeling"

    dropout: float | int = 0.1
    predicate_size: int = 100
    hidden_size: int = 300
    num_layers: int = 8
    recurrent_dropout: float | int = 0.1
    mix_at_output: bool = False
    find_predicates: bool = False
    finder_size: int = 100

    def validate_ranges(self) -> None:
        """Check that each value lies in its range, and that none contradicts another."""
        for name in ("predicate_size", "hidden_size", "finder_size"):
            require_at_least(name, getattr(self, name), 1)
        require_at_least("num_layers", self.num_layers, 1, MAX_LAYERS)
        require_probability("recurrent_dropout", self.recurrent_dropout)
        if self.mix_at_output and not self.use_elmo:
            raise ValueError("mix_at_output is True and use_elmo is False; a second mix wants ELMo.")


# By AllenNLP's configuration of BiDAF, and by Clark and Gardner's code: sizes of a direction of a reader's recurrences.
_READER_SIZES = {"self_attention": 90, "bidaf": 100}


@strict
@dataclass
class QuestionAnsweringHead(WordInputsHead):
    """The head of `ElmoForQuestionAnswering`: a reader of a question and its context.

    What is left out is as published for the reader, and stands in the settings after that.

    Args:
        reader: "self_attention", attention between question and context, then of the context to itself, by GRUs (Clark
            and Gardner 2017; the reader of Peters et al. 2018, sec. A.4); or "bidaf", the bidirectional attention flow
            of AllenNLP (Seo et al. 2016), by highway layers and LSTMs.
        hidden_size: Size of each direction of the reader's recurrences.
        hidden_dropout: Dropout between the reader's layers; in "self_attention" the same for all words of a text.
        highway_layers: Highway layers before the reader's first recurrence; "bidaf" alone has any.
        modeling_layers: Layers of the biLSTM behind the attention of "bidaf".
        mix_at_output: Whether a second mix of the layers is joined to the output of the lowest recurrence (Peters
            et al. 2018, sec. 3.3).
        max_answer_words: Words of the longest answer that is given; None for no bound.

    The other fields say what is read for each word; see `WordInputsHead`.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range, or the
        reader has no use for it.
    """

    type: ClassVar[str] = "question_answering"

    reader: Literal["self_attention", "bidaf"] = "self_attention"
    hidden_size: int | None = None
    hidden_dropout: float | int = 0.2
    highway_layers: int | None = None
    modeling_layers: int = 2
    mix_at_output: bool = False
    max_answer_words: int | None = 17

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size is None:
            self.hidden_size = _READER_SIZES[self.reader]
        if self.highway_layers is None:
            self.highway_layers = 2 if self.reader == "bidaf" else 0

    def validate_ranges(self) -> None:
        """Check that each value lies in its range, and fits the reader."""
        require_at_least("hidden_size", cast(int, self.hidden_size), 1)
        require_probability("hidden_dropout", self.hidden_dropout)
        require_at_least("highway_layers", cast(int, self.highway_layers), 0, MAX_LAYERS)
        require_at_least("modeling_layers", self.modeling_layers, 1, MAX_LAYERS)
        if self.max_answer_words is not None:
            require_at_least("max_answer_words", self.max_answer_words, 1)
        if self.highway_layers and self.reader != "bidaf":
            raise ValueError(f"highway_layers is {self.highway_layers}, but the reader {self.reader!r} has none.")
        if self.mix_at_output and not self.use_elmo:
            raise ValueError("mix_at_output is True, but use_elmo is False; a second mix wants ELMo.")


HEAD_TYPES: dict[str, type[HeadSettings]] = {
    settings.type: settings
    for settings in (
        TokenClassificationHead,
        SequenceClassificationHead,
        QuestionAnsweringHead,
        SemanticRoleLabelingHead,
        CoreferenceHead,
        EmbeddingsHead,
    )
}


def read_head(head: HeadSettings | dict | None) -> HeadSettings | None:
    """Settings from the form that config.json has; settings and None stay what they are.

    Raises: ValueError naming the type or key that is not known, or the field whose value is wrong.
    """
    if not isinstance(head, dict):
        return head
    values = dict(head)
    kind = values.pop("type", None)
    if kind not in HEAD_TYPES:
        raise ValueError(
            f"head has the type {kind!r}; it must be one of {sorted(HEAD_TYPES)}, or head None for a model of no task."
        )
    try:
        return HEAD_TYPES[kind](**values)
    except TypeError as error:
        raise ValueError(f"head of the type {kind!r}: {error}") from error
    except StrictDataclassError as error:
        # In a whole config the name of the field alone does not say whose it is.
        raise ValueError(f"head.{error.__cause__}") from error


def require_at_least(name: str, value: int, smallest: int, largest: int = MAX_SIZE) -> None:
    """Raise ValueError where a whole number is too small, or so large that only a damaged file can ask for it."""
    if not smallest <= value <= largest:
        found = value if abs(value) < 10**30 else "a number of more than 30 digits"
        raise ValueError(f"{name} is {found}; it must be an integer >= {smallest}, and <= {largest}.")


def require_filters(name: str, filters: Iterable[Any], max_characters_per_word: int = MAX_SIZE) -> None:
    """Raise ValueError where convolutions over characters are no [width, count] pairs, or wider than a word's row."""
    for pair in filters:
        if not (
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(number, int) and not isinstance(number, bool) for number in pair)
            and all(1 <= number <= MAX_SIZE for number in pair)
        ):
            raise ValueError(
                f"{name} holds {repr(pair)[:80]}; each entry must be a [width, count] pair of integers >= 1, and "
                f"<= {MAX_SIZE}."
            )
        if pair[0] > max_characters_per_word:
            raise ValueError(
                f"{name} holds a width of {pair[0]}, more than max_characters_per_word={max_characters_per_word}; "
                "shorten the filter or lengthen the rows."
            )


def require_probability(name: str, value: float) -> None:
    """Raise ValueError where a number is no probability of dropout."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} is {value}; it must lie in [0, 1).")


_Head = TypeVar("_Head", bound=HeadSettings)

# A checkpoint of any ELMo class names all of them, so that each Auto class finds its own in any checkpoint.
AUTO_MAP = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
    "AutoModelForQuestionAnswering": "modeling_elmo_tasks.ElmoForQuestionAnswering",
    "AutoModelForSequenceClassification": "modeling_elmo_tasks.ElmoForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_elmo_tasks.ElmoForTokenClassification",
}

# Heads of tasks that no Auto class is made for: AutoModel takes them where a checkpoint is one's.
_TAKEN_BY_AUTO_MODEL = {
    name: f"{module}.{name}"
    for name, module in (
        ("ElmoForSemanticRoleLabeling", "modeling_elmo_srl"),
        ("ElmoForCoreferenceResolution", "modeling_elmo_coref"),
    )
}

# The names that a token classifier's settings had in checkpoints before there was `head`, and still have beside it.
_FLAT_PREFIX = "classifier_"
_FLAT_FIELDS = {_FLAT_PREFIX + name: name for name in ("dropout", "lstm_layers", "lstm_size")}

# (given, derived): a new value for the first makes a saved value of the second stale.
_DERIVED_FIELDS = (
    ("projection_size", "hidden_size"),
    ("id2label", "label2id"),
    ("label2id", "id2label"),
    *(("head", name) for name in _FLAT_FIELDS),
)

# The character n-gram widths of the released models and the number of filters of each (Peters et al. 2018).
_PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def auto_map_of(architectures: Iterable[str] | None) -> dict[str, str]:
    """The auto_map of a checkpoint of these classes."""
    taken = [_TAKEN_BY_AUTO_MODEL[name] for name in architectures or () if name in _TAKEN_BY_AUTO_MODEL]
    return {**AUTO_MAP, **({"AutoModel": taken[0]} if taken else {})}


def _flat_setting(name: str) -> property:
    """A setting of the token classifier under the name that it has in ElmoConfig."""

    def read(config: "ElmoConfig") -> Any:
        return getattr(_token_classification_head(config), name)

    def write(config: "ElmoConfig", value: Any) -> None:
        try:
            config.head = replace(_token_classification_head(config), **{name: value})
        except StrictDataclassFieldValidationError as error:
            type_error = TypeError(error.__cause__)
            raise StrictDataclassFieldValidationError(_FLAT_PREFIX + name, type_error) from type_error
        except StrictDataclassClassValidationError as error:
            cause = ValueError(f"{_FLAT_PREFIX}{error.__cause__}")
            raise StrictDataclassClassValidationError("validate_ranges", cause) from cause

    return property(read, write, doc=f"`head.{name}` of a token classifier; its default where there is none.")


def _token_classification_head(config: "ElmoConfig") -> TokenClassificationHead:
    """The config's head, or the default settings of one where it has none; raises ValueError where it is another's."""
    head = _head_of(config)
    if head is None:
        return TokenClassificationHead()
    if head.type != TokenClassificationHead.type:
        raise ValueError(
            f"head is that of {head.type}, which has no {_FLAT_PREFIX}... settings; set head to None, or to a "
            "TokenClassificationHead."
        )
    return cast(TokenClassificationHead, head)


def _head_of(config: "ElmoConfig") -> HeadSettings | None:
    # A dict is read into settings wherever `head` is set.
    return cast(HeadSettings | None, config.head)


def _swapped(table: dict[Any, Any]) -> dict[Any, Any]:
    return {value: key for key, value in table.items()}


@strict
class ElmoConfig(PreTrainedConfig):
    """Configuration of an ELMo model (Peters et al. 2018, "Deep contextualized word representations").

    The defaults are the Original model of the paper. Only what describes the weights or how a task uses them is
    stored here; nothing about the machine.

    Args:
        vocab_size: Number of character ids, the padding id 0 included. 262 for the byte scheme of the released models.
        character_scheme: What the characters of a word are: "bytes", those of its UTF-8 (bilm-tf), or "dictionary",
            code points that the tokenizer has a dictionary of (ELMoForManyLangs); see `DictionaryCharacters`.
        padding_character_id: The character that fills a row behind its word; derived for the byte scheme.
        character_embedding_size: Size of a character embedding.
        max_characters_per_word: Length of a row of character ids, the begin- and end-of-word marks included.
        filters: (width, count) of each character convolution.
        filter_activation: "relu" or "tanh", applied after the maximum over the positions.
        num_highway_layers: Highway layers between the convolutions and the projection.
        token_inputs: What a word's vector is made from. "characters"; "words", a table of word vectors in their place,
            without convolutions and highway layers; or "both", a word's vector beside its characters' features. Rows
            of character ids are the input in each case: see `word_table_elmo`.
        word_table_size: Words that the table knows, the sentence markers included; None for no table.
        word_vector_size: Size of a vector of the table; None for no table.
        train_word_vectors: Whether the table is trained along with the rest of the biLM, or all its vectors stay as
            they are.
        project_tokens: Whether a linear map makes word vectors of the token encoder's features. Without one there have
            to be `projection_size` features: filters, and word_vector_size for a table.
        projection_size: Size P of a word vector and of the hidden state of one direction.
        cell_size: Size H of the LSTM cell of one direction.
        project_hidden: Whether a linear map makes the hidden state of the cell's output. Without one cell_size has to
            be projection_size, and projection_clip does nothing.
        num_hidden_layers: biLM layers L above the token encoder.
        hidden_size: 2 x projection_size; derived when left out.
        forget_bias: Constant added to the forget gate before its sigmoid, beside the learned bias. 1.0 is what the
            released models were trained with; as a field of its own, conversion copies the learned bias bit by bit.
        cell_clip: Bound on the absolute value of the cell state after each step; None for no clipping.
        projection_clip: Bound on the absolute value of the projected hidden state; None for no clipping.
        use_skip_connections: Whether layers from the second on add their input to their output.
        dropout: Dropout on each layer's input and on the biLM's output, while the biLM itself is being trained.
        freeze_bilm: Whether ElmoModel and the task heads keep the token encoder and the biLM fixed (no gradients, no
            dropout). ElmoForPreTraining always trains them.
        num_mixes: Number of independent scalar mixes over the same biLM pass; 0 is not allowed. A task's model that
            reads two (`mix_at_output` of its head) makes it two.
        mix_normalization: "none", "batch" (one mean and variance over all real words and dimensions of the batch, as
            the old implementations did) or "word" (over the dimensions of each word).
        mixed_layers: Which layers a mix weighs: "all", by shares that the task learns; or, for comparison, "top",
            "token" (the token encoder's) or "average" (all of them alike). Their scale is learned in each case.
        align_layers: Whether each layer goes through a matrix before it is mixed, which aligns it with another
            language's (Schuster et al. 2019). The matrices are the mixes' and are not trained.
        mix_l2: Coefficient of the squared L2 norm of the mix weights, added to a task's loss in training.
        word_vocab_size: Words known to the pre-training softmax; None for a checkpoint without one.
        share_word_softmax: Whether both directions predict by one softmax, or each by its own.
        softmax_type: "full", a row of weights per word, or "adaptive": rarer words in clusters of smaller rows (Grave
            et al. 2017).
        adaptive_softmax_cutoffs: Rising word ids at which the clusters of an adaptive softmax begin.
        adaptive_softmax_div_value: Each cluster's rows are shorter than those before it by this factor.
        head: Settings of the task's head, `TokenClassificationHead` for example, or a dict of them with its `type`;
            None for a model of no task. A head's model puts its default settings here where there are none. Those of a
            token classifier can also be given, read and set one by one as `classifier_dropout`,
            `classifier_lstm_layers` and `classifier_lstm_size`, their names in older checkpoints.
        pad_token_id: Character id of "no word here"; always 0.
        bos_token_id: Character id inside the row of `<S>`; derived for the byte scheme when left out.
        eos_token_id: Character id inside the row of `</S>`; derived for the byte scheme when left out.

    Raises:
        ValueError: A name is close to one of these and none of them; all others are kept, as every config keeps them.
        huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range, or fields
            contradict one another.
    """

    model_type = "elmo"
    _auto_class = "AutoConfig"
    # Trainer gathers every output it is not told to leave alone; these are not predictions.
    keys_to_ignore_at_inference = ["hidden_states", "elmo_representations", "state"]

    vocab_size: int = 262
    character_scheme: Literal["bytes", "dictionary"] = "bytes"
    padding_character_id: int | None = None
    character_embedding_size: int = 16
    max_characters_per_word: int = 50
    filters: list | tuple = _PUBLISHED_FILTERS
    filter_activation: Literal["relu", "tanh"] = "relu"
    num_highway_layers: int = 2
    token_inputs: Literal["characters", "words", "both"] = "characters"
    word_table_size: int | None = None
    word_vector_size: int | None = None
    train_word_vectors: bool = True
    project_tokens: bool = True
    projection_size: int = 512
    cell_size: int = 4096
    project_hidden: bool = True
    num_hidden_layers: int = 2
    hidden_size: int | None = None
    forget_bias: float | int = 1.0
    cell_clip: float | int | None = 3.0
    projection_clip: float | int | None = 3.0
    use_skip_connections: bool = True
    dropout: float | int = 0.1
    freeze_bilm: bool = True
    num_mixes: int = 1
    mix_normalization: Literal["none", "batch", "word"] = "none"
    mixed_layers: Literal["all", "top", "token", "average"] = "all"
    align_layers: bool = False
    mix_l2: float | int = 0.0
    word_vocab_size: int | None = None
    share_word_softmax: bool = True
    softmax_type: Literal["full", "adaptive"] = "full"
    adaptive_softmax_cutoffs: list | tuple | None = None
    adaptive_softmax_div_value: float | int = 4.0
    head: HeadSettings | dict | None = None
    pad_token_id: int = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    classifier_dropout = _flat_setting("dropout")
    classifier_lstm_layers = _flat_setting("lstm_layers")
    classifier_lstm_size = _flat_setting("lstm_size")

    def __post_init__(self, **kwargs: Any) -> None:
        # A file names its model_type. What it has beside our fields is another version's or tool's, and is kept.
        for name in kwargs.keys() - self._own_names() if "model_type" not in kwargs else ():
            if meant := difflib.get_close_matches(name, self._own_names(), n=1, cutoff=0.85):
                raise ValueError(f"ElmoConfig has no field {name!r}; {meant[0]!r} is near to it.")
        flat = {name: kwargs.pop(name) for name in _FLAT_FIELDS if name in kwargs}
        had_head = self.head is not None
        for name, value in flat.items():
            setattr(self, name, value)
        if not had_head and self.head == TokenClassificationHead():
            # Older checkpoints of every class hold these fields; default values do not make one a token classifier.
            self.head = None
        # JSON has no tuples: one form, so that a saved and a fresh config compare equal.
        self.filters = [list(pair) if isinstance(pair, (list, tuple)) else pair for pair in self.filters]
        if self.adaptive_softmax_cutoffs is not None:
            self.adaptive_softmax_cutoffs = list(self.adaptive_softmax_cutoffs)
        if self.hidden_size is None:
            self.hidden_size = 2 * self.projection_size
        if self.character_scheme == "bytes" and self.padding_character_id is None:
            self.padding_character_id = PAD_CHARACTER
        if self.character_scheme == "bytes" and self.vocab_size == NUM_CHARACTERS:
            # The ids of the tokenizer: where a config lacks them, Trainer writes them into it with a warning.
            self.bos_token_id = BEGIN_SENTENCE if self.bos_token_id is None else self.bos_token_id
            self.eos_token_id = END_SENTENCE if self.eos_token_id is None else self.eos_token_id
        kwargs.setdefault("auto_map", dict(AUTO_MAP))
        if self.id2label is None and self.label2id is not None:
            self.id2label = _swapped(self.label2id)
        super().__post_init__(**kwargs)
        if self.architectures is None:
            # AutoModel, which has several classes to choose from, looks through them.
            self.architectures = []
        if self.id2label is not None and (self.label2id is None or len(self.label2id) != len(self.id2label)):
            self.label2id = _swapped(self.id2label)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, read_head(value) if name == "head" else value)

    @property
    def label_names(self) -> list[str]:
        """The labels in the order of their ids."""
        # transformers names those that nobody names, and makes numbers of the ids that config.json has as strings.
        names = cast("dict[int, str]", self.id2label)
        return [names[index] for index in range(len(names))]

    @property
    def id_of_label(self) -> dict[str, int]:
        """The id of each label."""
        return {label: index for index, label in enumerate(self.label_names)}

    def require_head(self, kind: type[_Head]) -> _Head:
        """The settings of the head of a model that is being built; the config gets default ones where it has none.

        Args:
            kind: The class of the settings. Those of another `type` are another task's, which this config then forgets.
        """
        head = _head_of(self)
        if head is None or head.type != kind.type:
            head = self.head = kind()
        return cast("_Head", head)

    @classmethod
    def small(cls, **overrides: Any) -> "ElmoConfig":
        """The published Small model: 1024-dimensional cells, 128-dimensional projections, 13.6 M parameters."""
        return cls(**{"projection_size": 128, "cell_size": 1024, "num_highway_layers": 1, **overrides})

    @classmethod
    def medium(cls, **overrides: Any) -> "ElmoConfig":
        """The published Medium model: 2048-dimensional cells, 256-dimensional projections, 28.0 M parameters."""
        return cls(**{"projection_size": 256, "cell_size": 2048, "num_highway_layers": 1, **overrides})

    @classmethod
    def original(cls, **overrides: Any) -> "ElmoConfig":
        """The published Original model: 4096-dimensional cells, 512-dimensional projections, 93.6 M parameters."""
        return cls(**{"projection_size": 512, "cell_size": 4096, "num_highway_layers": 2, **overrides})

    @classmethod
    def fast(cls, **overrides: Any) -> "ElmoConfig":
        """Sizes that learn most in an hour of a desk's processor; none was published. 10.1 M parameters.

        Small's cells with Medium's projections, and 480 filters instead of 2,048: where training is short, the time
        that many filters and their highway layer take is better spent on more words.
        """
        filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]]
        sizes = {"projection_size": 256, "cell_size": 1024, "num_highway_layers": 1, "filters": filters}
        return cls(**{**sizes, **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        # transformers would set these on the finished config, past every check and beside what is derived from them.
        changes = {name: kwargs.pop(name) for name in cls._own_names() & kwargs.keys() if name != "dtype"}
        stale = {derived for given, derived in _DERIVED_FIELDS if given in changes}
        kept = {name: value for name, value in config_dict.items() if name not in stale}
        return super().from_dict({**kept, **changes}, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """As transformers' own, the head's settings as a dict too."""
        values = super().to_dict()
        head = _head_of(self)
        if head is not None:
            values["head"] = head.to_dict()
        return values

    @classmethod
    def _own_names(cls) -> set[str]:
        return {*(field.name for field in fields(cls)), *_FLAT_FIELDS}

    def save_pretrained(self, save_directory: str | os.PathLike, push_to_hub: bool = False, **kwargs: Any) -> None:
        # The code files are written beside the weights, so the references must be to them, not to wherever
        # this config was loaded from.
        self.auto_map = auto_map_of(self.architectures)
        super().save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs)

    def validate_character_encoder(self) -> None:
        """Check the sizes of the characters and of the convolutions over them."""
        require_at_least("vocab_size", self.vocab_size, 2)
        if self.character_scheme == "dictionary":
            for name in ("padding_character_id", "bos_token_id", "eos_token_id"):
                value = getattr(self, name)
                if value is None or not 1 <= value < self.vocab_size:
                    raise ValueError(
                        f"{name} is {value} but character_scheme is 'dictionary'; it must be an id of the tokenizer's, "
                        f"from 1 to vocab_size - 1 (vocab_size is {self.vocab_size})."
                    )
        elif self.padding_character_id != PAD_CHARACTER:
            raise ValueError(
                f"padding_character_id is {self.padding_character_id}, but that of the byte scheme is {PAD_CHARACTER}; "
                "leave it out, or set character_scheme='dictionary'."
            )
        require_at_least("character_embedding_size", self.character_embedding_size, 1)
        require_at_least("max_characters_per_word", self.max_characters_per_word, 3, MAX_CHARACTERS_PER_WORD)
        require_at_least("num_highway_layers", self.num_highway_layers, 0, MAX_LAYERS)
        if not self.filters:
            raise ValueError("filters is empty; give at least one [width, count] pair, for example [[1, 32], [2, 32]].")
        require_at_least("the number of filters", len(self.filters), 1, MAX_LAYERS)
        require_filters("filters", self.filters, self.max_characters_per_word)
        if self.pad_token_id != 0:
            raise ValueError(
                f"pad_token_id is {self.pad_token_id}; a row of zeros means 'no word here', so it must be 0."
            )

    def validate_word_table(self) -> None:
        """Check the sizes of the table of word vectors, which is there only where words are looked up."""
        for name in ("word_table_size", "word_vector_size"):
            value = getattr(self, name)
            if self.token_inputs == "characters":
                if value is not None:
                    raise ValueError(
                        f"{name} is {value} but token_inputs is 'characters', which has no word table; leave it out "
                        "or set token_inputs='words' or 'both'."
                    )
            elif value is None:
                raise ValueError(
                    f"{name} is None but token_inputs is {self.token_inputs!r}; a word table wants both "
                    "word_table_size and word_vector_size, integers >= 1."
                )
            else:
                require_at_least(name, value, 1)
        if self.token_inputs == "characters" and not self.train_word_vectors:
            raise ValueError(
                "train_word_vectors is False but token_inputs is 'characters', which has no word vectors to keep as "
                "they are; leave it out, or set token_inputs='words' or 'both'."
            )

    def validate_token_projection(self) -> None:
        """Check that word vectors have their size without a projection, where there is none."""
        if self.project_tokens:
            return
        filters = [] if self.token_inputs == "words" else self.filters
        require_filters("filters", filters, self.max_characters_per_word)
        num_features = sum(count for _, count in filters) + (self.word_vector_size or 0)
        if num_features != self.projection_size:
            raise ValueError(
                f"project_tokens is False but the filters and word_vector_size make {num_features} features; without a "
                f"projection these are the word vector, so there must be projection_size, {self.projection_size}."
            )

    def validate_bilm(self) -> None:
        """Check the sizes, the clips and the dropout of the biLM."""
        require_at_least("projection_size", self.projection_size, 1)
        require_at_least("cell_size", self.cell_size, 1)
        require_at_least("num_hidden_layers", self.num_hidden_layers, 1, MAX_LAYERS)
        if self.hidden_size != 2 * self.projection_size:
            raise ValueError(
                f"hidden_size is {self.hidden_size} but projection_size is {self.projection_size}; a word vector joins "
                f"both directions, so hidden_size must be {2 * self.projection_size} (leave it out to have it derived)."
            )
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}; it must be > 0, or None for no clipping.")
        require_probability("dropout", self.dropout)
        if not self.project_hidden and self.cell_size != self.projection_size:
            raise ValueError(
                f"project_hidden is False but cell_size is {self.cell_size}; without a projection the cell's output is "
                f"the hidden state, so it must be projection_size, {self.projection_size}."
            )

    def validate_word_softmax(self) -> None:
        """Check the vocabulary of the pre-training softmax and the clusters of an adaptive one."""
        if self.word_vocab_size is not None:
            require_at_least("word_vocab_size", self.word_vocab_size, 3)
        cutoffs = self.adaptive_softmax_cutoffs
        if self.softmax_type == "full":
            if cutoffs is not None:
                raise ValueError(
                    f"adaptive_softmax_cutoffs is {cutoffs} but softmax_type is 'full'; set softmax_type='adaptive' or "
                    "leave the cutoffs out."
                )
            return
        if not cutoffs or not all(isinstance(cutoff, int) and not isinstance(cutoff, bool) for cutoff in cutoffs):
            raise ValueError(
                f"adaptive_softmax_cutoffs is {cutoffs}; softmax_type='adaptive' wants a list of word ids, for example "
                "[4000, 40000]."
            )
        end = math.inf if self.word_vocab_size is None else self.word_vocab_size
        if any(right <= left for left, right in itertools.pairwise([0, *cutoffs, end])):
            raise ValueError(
                f"adaptive_softmax_cutoffs is {cutoffs}; the ids must rise and lie between 1 and word_vocab_size - 1 "
                f"(word_vocab_size is {self.word_vocab_size})."
            )
        if not self.adaptive_softmax_div_value >= 1:
            raise ValueError(f"adaptive_softmax_div_value is {self.adaptive_softmax_div_value}; it must be >= 1.")
        if self.projection_size < self.adaptive_softmax_div_value ** len(cutoffs):
            raise ValueError(
                f"adaptive_softmax_div_value is {self.adaptive_softmax_div_value}, which leaves the last of "
                f"{len(cutoffs)} clusters rows of size 0 (projection_size is {self.projection_size}); lower it or give "
                "fewer adaptive_softmax_cutoffs."
            )

    def validate_task(self) -> None:
        """Check the scalar mixes and the head."""
        require_at_least("num_mixes", self.num_mixes, 1, MAX_LAYERS)
        if not self.mix_l2 >= 0:
            raise ValueError(f"mix_l2 is {self.mix_l2}; it must be >= 0 (0 turns the penalty off).")
        head = _head_of(self)
        if head is not None:
            try:
                head.validate()
            except StrictDataclassError as error:
                raise ValueError(f"head.{error.__cause__}") from error
            filters = getattr(head, "character_filters", ())
            require_filters("head.character_filters", filters, self.max_characters_per_word)
