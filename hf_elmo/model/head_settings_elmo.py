"""The settings of a task's head: a strict class for each kind, told apart by its `type`."""

# No `from __future__ import annotations` here: @strict reads the annotations as types, and strings would check nothing.
import difflib
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

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
    """The head of `ElmoForTokenClassification`: dropout, a biLSTM where there is one, and a linear classifier.

    Args:
        dropout: Dropout on what is read, and on the biLSTM's output where there is one, before the classifier.
        lstm_layers: Layers of the task's own biLSTM before the classifier; 0 for none.
        lstm_size: Size of each direction of that biLSTM.

    The other fields say what is read for each word; see `WordInputsHead`.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range.
    """

    type: ClassVar[str] = "token_classification"

    lstm_layers: int = 0
    lstm_size: int = 200

    def validate_ranges(self) -> None:
        """Check that each value lies in its range."""
        require_at_least("lstm_layers", self.lstm_layers, 0, MAX_LAYERS)
        require_at_least("lstm_size", self.lstm_size, 1)


HEAD_TYPES: dict[str, type[HeadSettings]] = {
    settings.type: settings for settings in (TokenClassificationHead, EmbeddingsHead)
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
    settings = HEAD_TYPES[kind]
    refuse_unknown_keys(f"a {kind} head", values, {field.name for field in fields(settings)})
    try:
        return settings(**values)
    except StrictDataclassError as error:
        # In a whole config the name of the field alone does not say whose it is.
        raise ValueError(f"head.{error.__cause__}") from error


def refuse_unknown_keys(owner: str, given: Iterable[str], valid: Collection[str], other: Collection[str] = ()) -> None:
    """Raise ValueError with the nearest valid name for a key that is neither valid nor one of the others."""
    for key in given:
        if key in valid or key in other or key.startswith("_"):
            continue
        nearest = difflib.get_close_matches(key, sorted(valid), n=1, cutoff=0.0)
        raise ValueError(f"{owner} has no field {key!r}; the nearest valid name is {nearest[0]!r}.")


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
