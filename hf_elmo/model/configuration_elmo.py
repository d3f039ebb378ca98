"""The configuration of ELMo's models and of their heads, the characters that words are made of, and lists of words."""

# No `from __future__ import annotations` here: @strict reads the annotations as types, and strings would check nothing.
import difflib
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, cast

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

# The ids of the byte scheme. 0 is "no word here", and a byte b has the id b + 1.
NO_WORD = 0
BEGIN_SENTENCE = 257
END_SENTENCE = 258
BEGIN_WORD = 259
END_WORD = 260
PAD_CHARACTER = 261
NUM_CHARACTERS = 262
# No word of any language has so many bytes, and more would take memory for each word of a batch.
MAX_CHARACTERS_PER_WORD = 1000
BOS_TOKEN = "<S>"
EOS_TOKEN = "</S>"
UNK_TOKEN = "<UNK>"
PAD_TOKEN = "<PAD>"
# The special entries of ELMoForManyLangs's dictionaries: around sentences, around words, behind words, for all else.
DICTIONARY_MARKS = ("<bos>", "<eos>", "<bow>", "<eow>", "<pad>", "<oov>")


class ByteCharacters:
    """The byte scheme of bilm-tf (Peters et al. 2018).

    A word is BEGIN_WORD, its UTF-8 bytes shifted by one, END_WORD, then PAD_CHARACTER up to the width C. At most C - 2
    bytes are kept; the cut falls between bytes, as in the released models, even inside a code point. Code points that
    UTF-8 cannot hold (lone surrogates) are left out. The words `<S>` and `</S>` are the special tokens: a single
    character of their own between BEGIN_WORD and END_WORD.
    """

    begin_word, end_word, padding = BEGIN_WORD, END_WORD, PAD_CHARACTER
    special = {BOS_TOKEN: BEGIN_SENTENCE, EOS_TOKEN: END_SENTENCE}

    def normalize(self, word: str, width: int) -> str:
        """A word as a vocabulary has it, which is as it was given."""
        return word

    def encode(self, word: str, width: int) -> list[int]:
        """The character ids of a word, at most `width`, without the padding behind them."""
        special = self.special.get(word)
        kept = self._characters(word, width - 2) if special is None else [special]
        return [self.begin_word, *kept, self.end_word]

    def decode(self, char_ids: Sequence[int]) -> str:
        """The word of character ids, "" for zeros; bytes that form no code point, as of a cut word, are left out."""
        kept = list(takewhile(lambda each: each not in (self.end_word, self.padding, NO_WORD), char_ids[1:]))
        special = [token for token, index in self.special.items() if kept == [index]]
        return special[0] if special else self._text(kept)

    def is_special(self, char_ids: Sequence[int]) -> bool:
        """Whether character ids are those of a special token."""
        return len(char_ids) > 2 and char_ids[0] == self.begin_word and char_ids[1] in self.special.values()

    def vocabulary(self) -> dict[str, int]:
        """The names of the ids: printable ASCII as itself, other bytes as `<0xNN>`, and the special ones."""
        names = {chr(byte) if 0x20 < byte < 0x7F else f"<0x{byte:02X}>": byte + 1 for byte in range(256)}
        marks = {"<W>": BEGIN_WORD, "</W>": END_WORD, "<CHARACTER_PAD>": PAD_CHARACTER}
        return {PAD_TOKEN: NO_WORD, **names, **self.special, **marks}

    def _characters(self, word: str, count: int) -> list[int]:
        return [byte + 1 for byte in word.encode("utf-8", "ignore")[:count]]

    def _text(self, char_ids: Sequence[int]) -> str:
        return bytes(character - 1 for character in char_ids if 1 <= character <= 256).decode("utf-8", "ignore")


WORD_LIST_FILE = "word_vocabulary.txt"


def read_words(path: str | os.PathLike) -> list[str]:
    """The words of a file, one per line, in UTF-8; ValueError names the first line that is not."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"not UTF-8: see line {line}; convert it first.") from error
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def write_words(directory: str | os.PathLike, words: Iterable[str]) -> Path:
    """Write words into a checkpoint's directory; returns the file's path."""
    path = Path(directory) / WORD_LIST_FILE
    path.write_bytes("".join(f"{word}\n" for word in words).encode("utf-8", "surrogatepass"))
    return path


# A config.json may come from anybody: torch itself refuses sizes beyond memory, but makes layers for as long as it can.
MAX_SIZE = 2**27
MAX_LAYERS = 1000
# The widths and numbers of filters of the released models (Peters et al. 2018).
_PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def in_range(default: Any, smallest: float = 1, below: float = MAX_SIZE) -> Any:
    """A field of a config: a number in [smallest, below), or None where the field's type allows it."""
    return field(default=default, metadata={"range": (smallest, below)})


def _check_fields(config: Any) -> None:
    for each in fields(config):
        value, allowed = getattr(config, each.name), each.metadata.get("range")
        if allowed and value is not None and not allowed[0] <= value < allowed[1]:
            raise ValueError(f"{each.name} is {value}; it must be >= {allowed[0]} and < {allowed[1]}.")
        if isinstance(value, (list, tuple)) and len(value) > MAX_LAYERS:
            raise ValueError(f"{each.name} has {len(value)} entries; it can have {MAX_LAYERS}.")


def _check_filters(name: str, filters: Iterable[Any], longest: int) -> None:
    for pair in filters:
        is_pair = isinstance(pair, list) and [type(number) for number in pair] == [int, int]
        if not is_pair or not (1 <= pair[0] <= longest and 1 <= pair[1] < MAX_SIZE):
            form = f"two integers >= 1, the width at most max_characters_per_word, {longest}"
            raise ValueError(f"{name} holds {repr(pair)[:80]}; each entry must be [width, count], {form}.")


def _as_lists(pairs: Iterable[Any]) -> list[Any]:
    """JSON has no tuples: one form, so that a saved and a fresh config compare equal."""
    return [list(pair) if isinstance(pair, tuple) else pair for pair in pairs]


@strict
@dataclass
class HeadConfig:
    """What the heads of all tasks read of each word: ELMo's scalar mix, and what may stand beside it.

    The config of a new kind of head is a subclass with a `type` of its own, entered in `HEAD_TYPES`.

    Args:
        dropout: Dropout on all that is read (Peters et al. 2018, sec. 3.3: 0.5).
        use_elmo: Whether the mixes are part of it; without them the biLM is not run.
        word_table_size: Words of a table of vectors of the task's own; None for no table.
        word_vector_size: Size of a vector of that table; None for no table.
        train_word_vectors: Whether those vectors are trained with the task, or stay as they were filled in.
        lower_case_words: Whether A to Z are lowered for that table alone: GloVe's 6B has lower-cased words.
        character_embedding_size: Size of a character's embedding in a small CNN of the task's own.
        character_filters: (width, count) of the convolutions of that CNN, `[[3, 128]]` for example; none for no CNN.

    Raises: huggingface_hub.errors.StrictDataclassError: A value has the wrong type or lies outside its range, or
        fields contradict one another.
    """

    type: ClassVar[str]

    dropout: float | int = in_range(0.5, 0, 1)
    use_elmo: bool = True
    word_table_size: int | None = in_range(None)
    word_vector_size: int | None = in_range(None)
    train_word_vectors: bool = True
    lower_case_words: bool = False
    character_embedding_size: int = in_range(16)
    character_filters: list | tuple = ()

    def __post_init__(self) -> None:
        self.character_filters = _as_lists(self.character_filters)

    def to_dict(self) -> dict[str, Any]:
        """The values as config.json has them."""
        return {"type": self.type, **asdict(self)}

    # @strict runs all validators after __init__, in the order of their names.

    def validate_fields(self) -> None:
        _check_fields(self)

    def validate_inputs(self) -> None:
        table = (self.word_table_size, self.word_vector_size)
        if table.count(None) == 1:
            raise ValueError(f"word_table_size is {table[0]} and word_vector_size {table[1]}; a word table needs both.")
        if not (self.use_elmo or self.word_table_size or self.character_filters):
            raise ValueError(
                "use_elmo is False; a word needs a vector of word_table_size or of character_filters then."
            )
        if getattr(self, "mix_at_output", False) and not self.use_elmo:
            raise ValueError("mix_at_output is True, but use_elmo is False; a second mix needs ELMo.")


@strict
@dataclass
class EmbeddingsHead(HeadConfig):
    """What `ElmoEmbeddings` gives for each word; its fields are those of `HeadConfig`."""

    type: ClassVar[str] = "embeddings"


@strict
@dataclass
class TokenClassificationHead(HeadConfig):
    """The head of `ElmoForTokenClassification`: dropout, a biLSTM or none, a linear classifier, and a CRF or none.

    Args, beside those of `HeadConfig`:
        dropout: Dropout on what is read, and on the biLSTM's output where there is one, before the classifier.
        lstm_layers: Layers of the task's own biLSTM before the classifier; 0 for none.
        lstm_size: Size of each direction of that biLSTM.
        mix_at_output: Whether the classifier reads a second mix beside what comes out of the biLSTM.
        output_layer: "softmax" for each word by itself, "crf" for the labels of a sentence as a whole.
        scheme: How the labels mark spans, "IOB1", "IOB2" or "BIOES": the rules of a CRF's best labels. None for labels
            without rules.
    """

    type: ClassVar[str] = "token_classification"

    lstm_layers: int = in_range(0, 0, MAX_LAYERS + 1)
    lstm_size: int = in_range(200)
    mix_at_output: bool = False
    output_layer: Literal["softmax", "crf"] = "softmax"
    scheme: Literal["IOB1", "IOB2", "BIOES"] | None = None

    def validate_mix(self) -> None:
        if self.mix_at_output and not self.lstm_layers:
            raise ValueError("mix_at_output is True, but lstm_layers is 0; a second mix stands behind a biLSTM.")


@strict
@dataclass
class SequenceClassificationHead(HeadConfig):
    """The head of `ElmoForSequenceClassification`: an encoder of texts or pairs of them, and dense layers on top.

    The layers on top are as published for the encoder, and so is each dropout that is None (McCann et al. 2017 and Chen
    et al. 2017, as AllenNLP trained them with ELMo).

    Args, beside those of `HeadConfig`:
        encoder: "pooled", mean and maximum of the words of a text; "pooled_pairs", those of each text of a pair, their
            difference and product; "bcn", the biattentive classifier of texts; or "esim", for pairs.
        hidden_size: Size of each direction of the encoder's biLSTMs, and of its dense layer.
        hidden_dropout: Dropout on that dense layer's output; in "esim", as `dropout`, alike for all words of a text.
        output_dropout: Dropout before each of the dense layers on top.
        mix_at_output: Whether a second mix is joined to the output of the lowest biLSTM (Peters et al. 2018, 3.3).
    """

    type: ClassVar[str] = "sequence_classification"

    encoder: Literal["pooled", "pooled_pairs", "bcn", "esim"] = "pooled"
    hidden_size: int = in_range(300)
    hidden_dropout: float | int | None = in_range(None, 0, 1)
    output_dropout: float | int | None = in_range(None, 0, 1)
    mix_at_output: bool = False

    def validate_mix(self) -> None:
        if self.mix_at_output and self.encoder not in ("bcn", "esim"):
            raise ValueError(
                f"mix_at_output is True, but the encoder {self.encoder!r} has no biLSTM; bcn and esim have."
            )


@strict
@dataclass
class QuestionAnsweringHead(HeadConfig):
    """The head of `ElmoForQuestionAnswering`: a reader of a question and its context.

    Args, beside those of `HeadConfig`:
        reader: "self_attention", by GRUs (Clark and Gardner 2017; that of Peters et al. 2018, A.4), or "bidaf", the
            bidirectional attention flow of AllenNLP, by highway layers and LSTMs (Seo et al. 2016).
        hidden_size: Size of each direction of the reader's recurrences; where it is left out, as published.
        hidden_dropout: Dropout between the reader's layers; in "self_attention" the same for all words of a text.
        mix_at_output: Whether a second mix is joined to the lowest recurrence's output (Peters et al. 2018, 3.3).
        max_answer_words: Words of the longest answer that is given; None for no bound.
    """

    type: ClassVar[str] = "question_answering"

    reader: Literal["self_attention", "bidaf"] = "self_attention"
    hidden_size: int | None = in_range(None)
    hidden_dropout: float | int = in_range(0.2, 0, 1)
    mix_at_output: bool = False
    max_answer_words: int | None = in_range(17)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size is None:
            # By Clark and Gardner's code, and by AllenNLP's configuration of BiDAF.
            self.hidden_size = 90 if self.reader == "self_attention" else 100


@strict
@dataclass
class SemanticRoleLabelingHead(HeadConfig):
    """The head of `ElmoForSemanticRoleLabeling`: the mark of a predicate, highway LSTMs and a softmax for each word.

    What is left out is as He et al. (2017) and Peters et al. (2018, A.5) have it.

    Args, beside those of `HeadConfig`:
        dropout: Dropout on what is read of each word.
        predicate_size: Size of the vector that stands beside each word and says whether it is the predicate.
        hidden_size: Size of the cell and the output of each highway LSTM.
        num_layers: How many of them there are; they read forward and backward in turns.
        recurrent_dropout: Dropout on what comes back in each of them, the same for all words of a sentence.
        mix_at_output: Whether the last layer reads a second mix beside what comes out of the uppermost LSTM.
        find_predicates: Whether a small classifier says which words are predicates, by what is read of each word.
        finder_size: Size of that classifier's hidden layer.
    """

    type: ClassVar[str] = "semantic_role_labeling"

    dropout: float | int = in_range(0.1, 0, 1)
    predicate_size: int = in_range(100)
    hidden_size: int = in_range(300)
    num_layers: int = in_range(8, 1, MAX_LAYERS + 1)
    recurrent_dropout: float | int = in_range(0.1, 0, 1)
    mix_at_output: bool = False
    find_predicates: bool = False
    finder_size: int = in_range(100)


@strict
@dataclass
class CoreferenceHead(HeadConfig):
    """The head of `ElmoForCoreferenceResolution`: which spans of a document name the same (Lee et al. 2017).

    The sizes are those of Lee et al.; smaller ones learn faster, and from less.

    Args, beside those of `HeadConfig`:
        lstm_size: Size of each direction of the biLSTM.
        hidden_size: Size of the two dense layers of each of the two scorers, of mentions and of antecedents.
        hidden_dropout: Dropout on the biLSTM's output, on the features and in the scorers.
        feature_size: Size of the vector of a width, of a distance and of whether the speakers are one.
        max_span_width: Words of the widest span.
        spans_per_word: So many spans for each word of the document are kept, those with the best scores as mentions.
        max_antecedents: Each kept span is compared with so many kept ones before it, the nearest.
        allow_crossing: Whether spans that cross each other can be kept together.
        read_across_sentences: Whether the biLSTM, unlike the biLM, reads the document in one go.
        use_speakers: Whether a scorer knows if the same speaker says both spans.
        mention_loss: Weight of the loss by which scores of mentions are above zero, those of all other spans below it.
        keep_singletons: Whether a span without links stays where its score as a mention is above zero; it needs a
            mention_loss.
    """

    type: ClassVar[str] = "coreference"

    lstm_size: int = in_range(200)
    hidden_size: int = in_range(150)
    hidden_dropout: float | int = in_range(0.2, 0, 1)
    feature_size: int = in_range(20)
    max_span_width: int = in_range(10, 1, MAX_LAYERS + 1)
    spans_per_word: float | int = in_range(0.4, 1e-6)
    max_antecedents: int = in_range(250)
    allow_crossing: bool = False
    read_across_sentences: bool = False
    use_speakers: bool = False
    mention_loss: float | int = in_range(0.0, 0)
    keep_singletons: bool = False

    def validate_singletons(self) -> None:
        if self.keep_singletons and not self.mention_loss:
            raise ValueError("keep_singletons is True, but mention_loss is 0.0; set it, to 1.0 for example.")


HEAD_TYPES: dict[str, type[HeadConfig]] = {
    config.type: config
    for config in (
        TokenClassificationHead,
        SequenceClassificationHead,
        QuestionAnsweringHead,
        SemanticRoleLabelingHead,
        CoreferenceHead,
        EmbeddingsHead,
    )
}

_Head = TypeVar("_Head", bound=HeadConfig)

# The usual heads, and those of tasks that no Auto class is made for: AutoModel takes them where a checkpoint is one's.
_USUAL_TASKS = ("QuestionAnswering", "SequenceClassification", "TokenClassification")
_OTHER_TASKS = {
    "ElmoForSemanticRoleLabeling": "modeling_elmo_srl.ElmoForSemanticRoleLabeling",
    "ElmoForCoreferenceResolution": "modeling_elmo_coref.ElmoForCoreferenceResolution",
}


def auto_map_of(architectures: Iterable[str] | None, with_heads: bool = False) -> dict[str, str]:
    """The auto_map of a checkpoint of these classes: each class that the files which travel with it hold.

    Args:
        architectures: Names of classes, as config.json has them.
        with_heads: Whether the file of the usual heads is there too though none of the classes needs it.
    """
    auto_map = {
        "AutoConfig": "configuration_elmo.ElmoConfig",
        "AutoModel": "modeling_elmo.ElmoModel",
        "AutoModelForCausalLM": "modeling_elmo.ElmoForCausalLM",
        "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
    }
    names = set(architectures or ())
    if with_heads or names & {*_OTHER_TASKS, *(f"ElmoFor{task}" for task in _USUAL_TASKS)}:
        auto_map |= {f"AutoModelFor{task}": f"modeling_elmo_tasks.ElmoFor{task}" for task in _USUAL_TASKS}
    for name in names & _OTHER_TASKS.keys():
        auto_map["AutoModel"] = _OTHER_TASKS[name]
    return auto_map


@strict
class ElmoConfig(PreTrainedConfig):
    """Configuration of an ELMo model (Peters et al. 2018, "Deep contextualized word representations").

    The defaults are the Original model of the paper. It holds what describes the weights or how a task uses them, and
    nothing about the machine.

    Args:
        vocab_size: Number of character ids, the padding id 0 included; 262 for bytes.
        character_scheme: "bytes" of a word's UTF-8 (bilm-tf), or code points of a "dictionary" (ELMoForManyLangs).
        padding_character_id: The character that pads a word; derived for bytes.
        character_embedding_size: Size of a character embedding.
        max_characters_per_word: Character ids of a word, those of its begin, its end and its padding included.
        filters: (width, count) of each convolution over characters.
        filter_activation: "relu" or "tanh", applied after the maximum over the positions.
        num_highway_layers: Highway layers between the convolutions and the projection.
        token_inputs: What makes a word's vector: "characters"; "words", a table of vectors in their place, found by
            character ids too; or "both".
        word_table_size: Words that the table knows, the special tokens included; None for no table.
        word_vector_size: Size of a vector of the table; None for no table.
        train_word_vectors: Whether the table is trained with the biLM, or keeps its vectors as they are.
        project_tokens: Whether a linear map makes word vectors of the token encoder's features: without one they, the
            filters and word_vector_size, have to be `projection_size`.
        projection_size: Size P of a word vector and of the hidden state of one direction.
        cell_size: Size H of the LSTM cell of one direction.
        project_hidden: Whether a linear map makes the hidden state of the cell's output, of one size without it.
        num_hidden_layers: biLM layers L above the token encoder.
        hidden_size: 2 x projection_size; derived.
        forget_bias: Constant added to the forget gate beside its learned bias, as in the released models.
        cell_clip: Bound on the absolute value of the cell state after each step; None for no clipping.
        projection_clip: Bound on the absolute value of the projected hidden state; None for no clipping.
        use_skip_connections: Whether layers from the second on add their input to their output.
        dropout: Dropout on each layer's input and on the biLM's output, while the biLM itself is being trained.
        freeze_bilm: Whether token encoder and biLM get no gradients and no dropout, but in ElmoForPreTraining.
        num_mixes: Independent scalar mixes over the same biLM pass; two at least for a head with `mix_at_output`.
        mix_normalization: "none"; "batch", one mean and variance of all real words of a batch, as of old; or "word".
        mixed_layers: Which layers a mix weighs: "all", by shares that the task learns; or, for comparison, "top",
            "token" (the token encoder's) or "average" (all of them alike). Their scale is learned in each case.
        align_layers: Whether a fixed matrix first aligns each layer with another language's (Schuster et al. 2019).
        mix_l2: Coefficient of the squared L2 norm of the mix weights, added to a task's loss in training.
        word_vocab_size: Words known to the pre-training softmax; None for a checkpoint without one.
        share_word_softmax: Whether both directions predict by one softmax, or each by its own.
        softmax_type: "full", a row of weights per word, or "adaptive", shorter for rarer words (Grave et al. 2017).
        adaptive_softmax_cutoffs: Rising word ids at which the clusters of an adaptive softmax begin.
        adaptive_softmax_div_value: Each cluster's rows are shorter than those before it by this factor.
        direction: Which of the two language models `ElmoForCausalLM` is, "forward" or "backward".
        head: Config of the task's head, `TokenClassificationHead` for example, or a dict of it with its `type`; None
            for a model of no task. A head's model has the default one where there is none.
        pad_token_id: Character id of "no word here"; always 0.
        bos_token_id: Character id that `<S>` is made of; derived for bytes.
        eos_token_id: Character id that `</S>` is made of; derived for bytes.

    Raises: As `HeadConfig`; ValueError where a name is near to one of these. Others are kept, as by every config.
    """

    model_type = "elmo"
    _auto_class = "AutoConfig"
    # Trainer gathers every output it is not told to leave alone; these are not predictions.
    keys_to_ignore_at_inference = ["hidden_states", "elmo_representations", "state", "cache"]

    vocab_size: int = in_range(NUM_CHARACTERS, 2)
    character_scheme: Literal["bytes", "dictionary"] = "bytes"
    padding_character_id: int | None = None
    character_embedding_size: int = in_range(16)
    max_characters_per_word: int = in_range(50, 3, MAX_CHARACTERS_PER_WORD + 1)
    filters: list | tuple = _PUBLISHED_FILTERS
    filter_activation: Literal["relu", "tanh"] = "relu"
    num_highway_layers: int = in_range(2, 0, MAX_LAYERS + 1)
    token_inputs: Literal["characters", "words", "both"] = "characters"
    word_table_size: int | None = in_range(None)
    word_vector_size: int | None = in_range(None)
    train_word_vectors: bool = True
    project_tokens: bool = True
    projection_size: int = in_range(512)
    cell_size: int = in_range(4096)
    project_hidden: bool = True
    num_hidden_layers: int = in_range(2, 1, MAX_LAYERS + 1)
    hidden_size: int | None = None
    forget_bias: float | int = 1.0
    cell_clip: float | int | None = in_range(3.0, 1e-6)
    projection_clip: float | int | None = in_range(3.0, 1e-6)
    use_skip_connections: bool = True
    dropout: float | int = in_range(0.1, 0, 1)
    freeze_bilm: bool = True
    num_mixes: int = in_range(1, 1, MAX_LAYERS + 1)
    mix_normalization: Literal["none", "batch", "word"] = "none"
    mixed_layers: Literal["all", "top", "token", "average"] = "all"
    align_layers: bool = False
    mix_l2: float | int = in_range(0.0, 0)
    word_vocab_size: int | None = in_range(None, 3)
    share_word_softmax: bool = True
    softmax_type: Literal["full", "adaptive"] = "full"
    adaptive_softmax_cutoffs: list[int] | tuple[int, ...] | None = None
    adaptive_softmax_div_value: float | int = in_range(4.0)
    direction: Literal["forward", "backward"] = "forward"
    head: HeadConfig | dict | None = None
    pad_token_id: int = in_range(NO_WORD, 0, 1)  # a word of zeros is no word
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        # A file names its model_type. What it has beside our fields is another version's or tool's, and is kept.
        own = {each.name for each in fields(type(self))}
        for name in kwargs if "model_type" not in kwargs else ():
            if meant := difflib.get_close_matches(name, own, n=1, cutoff=0.85):
                raise ValueError(f"ElmoConfig has no field {name!r}; {meant[0]!r} is near to it.")
        self.filters = _as_lists(self.filters)
        if self.adaptive_softmax_cutoffs is not None:
            self.adaptive_softmax_cutoffs = list(self.adaptive_softmax_cutoffs)
        if self.hidden_size is None:
            self.hidden_size = 2 * self.projection_size
        if self.character_scheme == "bytes":
            # The ids of the tokenizer: where a config lacks them, Trainer writes them into it with a warning.
            self.padding_character_id = PAD_CHARACTER
            self.bos_token_id, self.eos_token_id = BEGIN_SENTENCE, END_SENTENCE
        if self.id2label is None and self.label2id is not None:
            self.id2label = {index: label for label, index in cast("dict[str, int]", self.label2id).items()}
        super().__post_init__(**kwargs)
        if self.architectures is None:
            # AutoModel, which has several classes to choose from, looks through them.
            self.architectures = []
        if self.id2label is not None and (self.label2id is None or len(self.label2id) != len(self.id2label)):
            self.label2id = {label: index for index, label in cast("dict[int, str]", self.id2label).items()}

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "head" and isinstance(value, dict):
            kind = value.get("type")
            if kind not in HEAD_TYPES:
                raise ValueError(f"head has the type {kind!r}; it must be one of {sorted(HEAD_TYPES)}.")
            value = HEAD_TYPES[kind](**{key: setting for key, setting in value.items() if key != "type"})
        super().__setattr__(name, value)

    @property
    def label_names(self) -> list[str]:
        """The labels in the order of their ids."""
        names = cast("dict[int, str]", self.id2label)
        return [names[index] for index in range(len(names))]

    def require_head(self, kind: type[_Head]) -> _Head:
        """The config of the head of a model that is being built; a default one is set where there is none.

        Args:
            kind: Its class. The head of another `type` is another task's, which this config then forgets.
        """
        if getattr(self.head, "type", None) != kind.type:
            # Not `kind` itself: transformers may load this file twice, for a config and for its model.
            self.head = HEAD_TYPES[kind.type]()
        return cast("_Head", self.head)

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
        return cls(**overrides)

    @classmethod
    def fast(cls, **overrides: Any) -> "ElmoConfig":
        """Sizes that learn most in an hour of a desktop's processor; none was published. 10.1 M parameters."""
        # Where training is short, the time of many filters and their highway layer is better spent on more words.
        return cls.small(**{"projection_size": 256, "filters": _PUBLISHED_FILTERS[:5], **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        # transformers would set these on the finished config, past every check and beside what is derived from them.
        own = {each.name for each in fields(cls)} - {"dtype"}
        changes = {name: kwargs.pop(name) for name in own & kwargs.keys()}
        derived = {"projection_size": "hidden_size", "id2label": "label2id", "label2id": "id2label"}
        stale = {derived.get(name) for name in changes}
        kept = {name: value for name, value in config_dict.items() if name not in stale}
        return super().from_dict({**kept, **changes}, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        # The code is written beside the weights: auto_map names that, not what this config may have been loaded by.
        values = {**super().to_dict(), "auto_map": auto_map_of(self.architectures)}
        if self.head is not None:
            values["head"] = cast("HeadConfig", self.head).to_dict()
        return values

    def validate_fields(self) -> None:
        _check_fields(self)

    def validate_head(self) -> None:
        if self.head is None:
            return
        try:
            # Its fields may have been changed since it was made.
            cast(Any, self.head).validate()
        except StrictDataclassError as error:
            raise ValueError(f"head.{error.__cause__}") from error
        _check_filters("character_filters", cast(Any, self.head).character_filters, self.max_characters_per_word)

    def validate_hidden_sizes(self) -> None:
        size = self.projection_size
        if self.hidden_size != 2 * size:
            raise ValueError(f"hidden_size is {self.hidden_size}; it must be 2 * projection_size, {2 * size}.")
        if not self.project_hidden and self.cell_size != size:
            raise ValueError(f"project_hidden is False, but cell_size is {self.cell_size}, projection_size {size}.")

    def validate_token_encoder(self) -> None:
        for name in ("padding_character_id", "bos_token_id", "eos_token_id"):
            value = getattr(self, name)
            if self.character_scheme == "dictionary" and (value is None or not 1 <= value < self.vocab_size):
                raise ValueError(
                    f"{name} is {value} but character_scheme is 'dictionary'; it must be an id of the tokenizer's, "
                    f"from 1 to vocab_size - 1 (vocab_size is {self.vocab_size})."
                )
        if not self.filters:
            raise ValueError("filters is empty; give at least one [width, count] pair, [[1, 32]] for example.")
        _check_filters("filters", self.filters, self.max_characters_per_word)
        table = (self.word_table_size, self.word_vector_size)
        if table.count(None) != (2 if self.token_inputs == "characters" else 0):
            raise ValueError(
                f"token_inputs is {self.token_inputs!r}, word_table_size {table[0]} and word_vector_size {table[1]}; "
                "'words' and 'both' need the two sizes, and 'characters' has no word table."
            )
        num_features = sum(count for _, count in self.filters) if self.token_inputs != "words" else 0
        num_features += self.word_vector_size or 0
        if not self.project_tokens and num_features != self.projection_size:
            raise ValueError(
                f"project_tokens is False, but filters and word_vector_size make {num_features} features, not "
                f"projection_size, {self.projection_size}."
            )

    def validate_word_softmax(self) -> None:
        cutoffs = self.adaptive_softmax_cutoffs or []
        end = math.inf if self.word_vocab_size is None else self.word_vocab_size
        is_rising = all(left < right for left, right in itertools.pairwise([0, *cutoffs, end]))
        if (self.softmax_type == "adaptive") != bool(cutoffs) or not is_rising:
            raise ValueError(
                f"softmax_type is {self.softmax_type!r} and adaptive_softmax_cutoffs {self.adaptive_softmax_cutoffs}; "
                f"'full' has none, and 'adaptive' has rising word ids from 1 to word_vocab_size - 1 ({end} words)."
            )
        if self.projection_size < self.adaptive_softmax_div_value ** len(cutoffs):
            raise ValueError(
                f"adaptive_softmax_div_value is {self.adaptive_softmax_div_value}, too large for {len(cutoffs)} "
                f"adaptive_softmax_cutoffs: the last cluster's vectors would have no size."
            )
