"""ElmoConfig: every field that describes the weights of an ELMo checkpoint, validated."""

# No `from __future__ import annotations` here: @strict reads the annotations as types, and strings would check nothing.
import difflib
import itertools
import math
import os
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar, cast

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import (
    StrictDataclassClassValidationError,
    StrictDataclassError,
    StrictDataclassFieldValidationError,
)
from transformers import PreTrainedConfig

from .characters_elmo import BEGIN_SENTENCE, END_SENTENCE, MAX_CHARACTERS_PER_WORD, NUM_CHARACTERS, PAD_CHARACTER
from .head_settings_elmo import (
    MAX_LAYERS,
    HeadSettings,
    TokenClassificationHead,
    read_head,
    require_at_least,
    require_filters,
    require_probability,
)

_Head = TypeVar("_Head", bound=HeadSettings)

# A checkpoint of any ELMo class names all of them, so that each Auto class finds its own in any checkpoint.
AUTO_MAP = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
    "AutoModelForQuestionAnswering": "modeling_elmo.ElmoForQuestionAnswering",
    "AutoModelForSequenceClassification": "modeling_elmo.ElmoForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_elmo.ElmoForTokenClassification",
}

# Heads of tasks that no Auto class is made for: AutoModel takes them where a checkpoint is one's.
_TAKEN_BY_AUTO_MODEL = ("ElmoForSemanticRoleLabeling", "ElmoForCoreferenceResolution")

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
    taken = [name for name in architectures or () if name in _TAKEN_BY_AUTO_MODEL]
    return {**AUTO_MAP, **({"AutoModel": f"modeling_elmo.{taken[0]}"} if taken else {})}


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
            code points that the tokenizer has a dictionary of (ELMoForManyLangs); see `characters_elmo`.
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
