"""A whole tagger of AllenNLP's: ELMo, vectors of words beside it, a biLSTM, a linear layer and a CRF where it has one.

Source: allennlp/models/simple_tagger.py and crf_tagger.py, modules/conditional_random_field.py, data/vocabulary.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor

from ..given.bounded_files import MEBIBYTE, quoted, read_file
from ..model.configuration_elmo import ElmoConfig, TokenClassificationHead
from ..model.modeling_elmo import ElmoModel
from ..model.modeling_elmo_tasks import SCHEMES, ElmoForTokenClassification, can_follow
from ..model.tokenization_elmo import ElmoCharTokenizer
from .checked_files import ConversionError, existing_file, one_line
from .torch_weights import TorchWeights

_EMBEDDERS, _ENCODER, _OUTPUT = (
    "text_field_embedder.token_embedder_",
    "encoder._module.",
    "tag_projection_layer._module.",
)
_CRF = {"crf.transitions": "transitions", "crf.start": "start_transitions", "crf.end": "end_transitions"}
_RULES = "crf._constraint_mask"
# What ends the names of a biLSTM's parameters.
_DIRECTIONS = ("", "_reverse")
_PADDING, _UNKNOWN, _NEWLINE = "@@PADDING@@", "@@UNKNOWN@@", "@@NEWLINE@@"
_MOST_VOCABULARY = 256 * MEBIBYTE
# Its letters for the ends of spans and for spans of one word, and ours.
_BIOUL_TO_BIOES = {"U-": "S-", "L-": "E-"}


class NotHeld(Exception):
    """Why a model is none that `ElmoForTokenClassification` can be; its message ends the sentence "because ..."."""


class _Words(NamedTuple):
    """Vectors of words beside ELMo.

    Args:
        name: What the experiment calls them.
        namespace: Whose words they are.
        lower_case: Whether words are lower-cased before they are looked up.
        train: Whether the vectors are trained with the task.
    """

    name: str
    namespace: str
    lower_case: bool
    train: bool


def load_tagger(
    source: Path, experiment: Mapping[str, Any], weights: TorchWeights, prefix: str, elmo: ElmoModel
) -> ElmoForTokenClassification:
    """The tagger of an archive.

    Args:
        source: The directory of its files.
        experiment: Its settings.
        weights: All of its weights.
        prefix: What the keys of its ELMo begin with.
        elmo: That ELMo, read.
    Raises:
        NotHeld: It is another kind of model, or has parts that ours has no place for.
        ConversionError: It is one, but its files do not agree.
    """
    node = _object(experiment, "model")
    if node.get("type") not in ("simple_tagger", "crf_tagger"):
        raise NotHeld(f"it is no tagger but a {quoted(node.get('type'))}")
    encoder = _object(node, "encoder")
    if encoder.get("type") != "lstm" or encoder.get("bidirectional") is not True or encoder.get("stateful"):
        raise NotHeld(f"its encoder is a {quoted(encoder.get('type'))}, wanted a bidirectional 'lstm'")
    name, words = _inputs(experiment, node, prefix)
    labels = _read_namespace(source, str(node.get("label_namespace", "labels")))
    vocabulary = _read_namespace(source, words.namespace) if words is not None else []
    listed = _table_words(vocabulary)
    if words is not None and (_UNKNOWN not in vocabulary or not listed):
        raise NotHeld(f"its words have no entry {_UNKNOWN}")
    num_layers = sum(bool(re.fullmatch(re.escape(_ENCODER) + r"weight_ih_l\d+", key)) for key in weights.keys)
    size = weights.size(f"{_ENCODER}weight_hh_l0", -1)
    scheme, labels = _scheme(labels, weights)
    head = {
        "dropout": elmo.config.head.dropout,  # type: ignore[union-attr]
        "lstm_layers": num_layers,
        "lstm_size": size,
        "lstm_reads_markers": False,
        "output_layer": "crf" if "crf.transitions" in weights else "softmax",
        "scheme": scheme,
    }
    if words is not None:
        head |= {
            "word_table_size": len(listed),
            "lower_case_words": words.lower_case,
            "train_word_vectors": words.train,
        }
        head["word_vector_size"] = weights.size(f"{_EMBEDDERS}{words.name}.weight", -1)
    try:
        config = ElmoConfig.from_dict(
            elmo.config.to_dict()
            | {"head": TokenClassificationHead(**head).to_dict(), "id2label": dict(enumerate(labels)), "label2id": None}
        )
    except (ValueError, StrictDataclassError) as error:
        raise ConversionError(f"{weights.where} is no tagger that can be: {one_line(error)}") from error
    keys = _keys(config)
    wanted = {theirs: shape for theirs, (_, shape) in keys.items()}
    projection = [f"{_EMBEDDERS}{name}._projection.{part}" for part in ("weight", "bias")]
    if projection[0] in weights:
        mix_size, projected = 2 * config.projection_size, weights.size(projection[0], 0)
        wanted |= dict(zip(projection, ((projected, mix_size), (projected,)), strict=True))
        for suffix in _DIRECTIONS:
            key = f"{_ENCODER}weight_ih_l0{suffix}"
            wanted[key] = (wanted[key][0], wanted[key][1] - mix_size + projected)
    if words is not None:
        wanted[f"{_EMBEDDERS}{words.name}.weight"] = (len(vocabulary), head["word_vector_size"])
    others = [key for key in weights.keys if key not in wanted and key != _RULES and not key.startswith(prefix)]
    if others:
        raise NotHeld(f"it has {quoted(others[0])}")
    weights.check(wanted, ignored=[f"{prefix}*", _RULES])
    parameters = {ours: weights[theirs] for theirs, (ours, _) in keys.items()}
    if words is not None and words.name < name:
        _put_elmo_first(parameters, head["word_vector_size"])
    if projection[0] in weights:
        _multiply_in(parameters, *(weights[key] for key in projection))
    model = ElmoForTokenClassification(config)
    parameters |= {f"elmo.{each}": tensor for each, tensor in elmo.state_dict().items()}
    model.load_state_dict({**model.state_dict(), **parameters})
    table = model.features.word_table
    if words is not None and table is not None:
        vectors = weights[f"{_EMBEDDERS}{words.name}.weight"]
        rows = torch.from_numpy(ElmoCharTokenizer().encode_words([word for word, _ in listed]))
        table.fill(rows, vectors[[place for _, place in listed]], vectors[vocabulary.index(_UNKNOWN)])
    return model.eval()


def _object(node: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def _inputs(experiment: Mapping[str, Any], node: Mapping[str, Any], prefix: str) -> tuple[str, _Words | None]:
    """The name of the ELMo among what words are read by, and the vectors of words beside it."""
    embedders = _object(node, "text_field_embedder")
    embedders = _object(embedders, "token_embedders") or embedders
    name = prefix.removeprefix(_EMBEDDERS).removesuffix("._elmo.")
    if prefix != f"{_EMBEDDERS}{name}._elmo." or not isinstance(embedders.get(name), dict):
        raise NotHeld("its ELMo is not among what its text field embedder reads")
    others = [each for each, value in embedders.items() if each != name and isinstance(value, dict)]
    if not others:
        return name, None
    settings = _object(embedders, others[0])
    indexer = _object(_object(_object(experiment, "dataset_reader"), "token_indexers"), others[0])
    kinds = settings.get("type", "embedding"), indexer.get("type", "single_id")
    if len(others) > 1 or kinds != ("embedding", "single_id"):
        raise NotHeld(f"beside ELMo it reads {', '.join(map(quoted, others))}, wanted vectors of words at most")
    namespace = indexer.get("namespace", settings.get("vocab_namespace", "tokens"))
    lower_case = indexer.get("lowercase_tokens", False) is True
    return name, _Words(others[0], str(namespace), lower_case, settings.get("trainable", True) is not False)


def _read_namespace(source: Path, namespace: str) -> list[str]:
    """The entries of a vocabulary in the order of their ids."""
    folder = source / "vocabulary"
    if not re.fullmatch(r"[\w.\-]+", namespace):
        raise ConversionError(f"the namespace {quoted(namespace)} is no name of a file of {str(folder)!r}.")
    entries = _read_lines(folder / f"{namespace}.txt")
    patterns = _read_lines(folder / "non_padded_namespaces.txt")
    is_unpadded = any(
        namespace.endswith(pattern[1:]) if pattern.startswith("*") else namespace == pattern for pattern in patterns
    )
    return [*([] if is_unpadded else [_PADDING]), *(entry.replace(_NEWLINE, "\n") for entry in entries)]


def _read_lines(path: Path) -> list[str]:
    where = f"the vocabulary {str(path)!r}"
    try:
        text = read_file(existing_file("the vocabulary", path), _MOST_VOCABULARY, where).decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConversionError(f"{where}, line {line} is not UTF-8; get the file again.") from error
    except ValueError as error:
        raise ConversionError(str(error)) from error
    return text.removesuffix("\n").split("\n") if text else []


def _table_words(vocabulary: list[str]) -> list[tuple[str, int]]:
    """The words that a row of characters holds to their end, each with its id."""
    longest = ElmoCharTokenizer().max_characters_per_word - 2
    found = {
        word: place
        for place, word in enumerate(vocabulary)
        if word not in (_PADDING, _UNKNOWN) and len(word.encode("utf-8")) <= longest
    }
    return list(found.items())


def _scheme(labels: list[str], weights: TorchWeights) -> tuple[str | None, list[str]]:
    """The scheme whose rules are those of the CRF, and the labels by its letters; None without rules."""
    if _RULES not in weights:
        return None, labels
    size = len(labels) + 2
    if weights.shape(_RULES) != (size, size):
        raise ConversionError(
            f"{weights.where}: the key {_RULES!r} has the shape {weights.shape(_RULES)}, wanted {(size, size)}: two "
            f"more than there are labels in the vocabulary, {len(labels)}."
        )
    allowed = weights[_RULES] > 0
    # Before the first label stands the last but one row, behind the last label the last column.
    allowed = torch.cat([allowed[-2:-1], allowed[:-2]])[:, [-1, *range(size - 2)]]
    renamed = [_BIOUL_TO_BIOES.get(label[:2], label[:2]) + label[2:] for label in labels]
    for scheme, names in ((None, labels), *((each, renamed if each == "BIOES" else labels) for each in SCHEMES)):
        marks = [None, *names]
        try:
            rules = [[scheme is None or can_follow(one, other, scheme) for other in marks] for one in marks]
        except ValueError:
            continue
        # What stands behind no label at all nobody asks.
        if bool((torch.tensor(rules) == allowed).flatten()[1:].all()):
            return scheme, list(names)
    raise NotHeld(f"the rules of its CRF ({_RULES}) are those of none of {', '.join(SCHEMES)}")


def _keys(config: ElmoConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Their keys of the tagger's own layers, each with our parameter and its shape."""
    with torch.device("meta"):
        parameters = ElmoForTokenClassification(config).state_dict()
    found = {}
    for ours, parameter in parameters.items():
        part, _, rest = ours.partition(".")
        theirs = {"lstm": f"{_ENCODER}{rest}", "classifier": f"{_OUTPUT}{rest}", "crf": f"crf.{_CRF.get(ours, rest)}"}
        if part in theirs:
            found[theirs[part]] = (ours, tuple(parameter.shape))
    return found


def _put_elmo_first(parameters: dict[str, Tensor], vector_size: int) -> None:
    """Turn the columns of the first layer, which read what stands in the order of names there, and here ELMo first."""
    for suffix in _DIRECTIONS:
        name = f"lstm.weight_ih_l0{suffix}"
        parameters[name] = parameters[name].roll(-vector_size, dims=1)


def _multiply_in(parameters: dict[str, Tensor], weight: Tensor, bias: Tensor) -> None:
    """Have the first layer read ELMo's mix, and not what a linear map made of it: the product of two maps is one."""
    for suffix in _DIRECTIONS:
        names = f"lstm.weight_ih_l0{suffix}", f"lstm.bias_ih_l0{suffix}"
        rows, offsets = (parameters[name].double() for name in names)
        elmo, words = rows[:, : len(bias)], rows[:, len(bias) :]
        parameters[names[0]] = torch.cat([elmo @ weight.double(), words], dim=1).float()
        parameters[names[1]] = (offsets + elmo @ bias.double()).float()
