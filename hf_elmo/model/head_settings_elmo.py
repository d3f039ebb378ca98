"""The settings of a task's head: a strict class for each kind, told apart by its `type`."""

# No `from __future__ import annotations` here: @strict reads the annotations as types, and strings would check nothing.
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, cast

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError

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
