"""bilm-tf checkpoints (the released ELMo models: options.json and weights.hdf5) to ElmoModel and back, bit by bit.

No number is computed: values are copied, and only their places change. The forget gate's constant 1, which bilm-tf adds
while it runs, is `ElmoConfig.forget_bias` here. A word softmax comes in two files more: see `bilm_tf_softmax`.

Letters in shapes: D character embedding, N filters of one width W, P projection, H cell.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor
from torch.nn import functional as F

from ..checkpoints.hdf5 import require_h5py
from ..checkpoints.writing import check_keeps_inputs, check_output_directory, files_written_aside, written_aside
from ..model.configuration_elmo import ElmoConfig
from ..model.modeling_elmo import ElmoForPreTraining, ElmoModel, ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from ..text.vocabulary import VOCABULARY_FILE, WordVocabulary
from .bilm_tf_keys import FORGET_BIAS, INFERENCE_CHARACTERS, STACK, WeightRule, expand_weight_rules
from .bilm_tf_options import options_from_config, read_config
from .bilm_tf_softmax import (
    SOFTMAX_KEYS,
    WordSoftmax,
    check_exportable_softmax,
    check_files_together,
    encode_words,
    read_word_softmax,
    to_arrays,
)
from .checked_files import (
    ConversionError,
    and_more,
    check_storage,
    dataset_names,
    is_dataset,
    one_line,
    open_hdf5,
    read_finite,
)

Model = TypeVar("Model", bound=ElmoPreTrainedModel)

logger = logging.getLogger(__name__)


class _Layout(NamedTuple):
    """How the numbers of one hdf5 key lie in our parameters; each function undoes the other."""

    to_ours: Callable[[Tensor], tuple[Tensor, ...]]
    to_theirs: Callable[..., Tensor]


def _swap_middle_gates(rows: Tensor) -> Tensor:
    """Rows of gates in the order i, j, f, o to i, f, j, o, and back; (4H, ...)."""
    first, second, third, last = rows.chunk(4)
    return torch.cat([first, third, second, last])


_LAYOUTS = {
    "same": _Layout(lambda theirs: (theirs,), lambda ours: ours),
    "transposed": _Layout(lambda theirs: (theirs.T,), lambda ours: ours.T),
    # (261, D) to (262, D): the padding id 0 has a row of zeros here and none there.
    "without padding row": _Layout(lambda theirs: (F.pad(theirs, (0, 0, 1, 0)),), lambda ours: ours[1:]),
    # (1, W, D, N) to (N, D, W).
    "convolution": _Layout(lambda theirs: (theirs[0].permute(2, 1, 0),), lambda ours: ours.permute(2, 1, 0)[None]),
    # (P + P, 4H), inputs above recurrent, to (4H, P) and (4H, P).
    "gate weights": _Layout(
        lambda theirs: _swap_middle_gates(theirs.T).chunk(2, dim=1),
        lambda inputs, recurrent: _swap_middle_gates(torch.cat([inputs, recurrent], dim=1)).T,
    ),
    "gate bias": _Layout(lambda theirs: (_swap_middle_gates(theirs),), _swap_middle_gates),
}


# Their files to ours


def convert_bilm_tf(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    output_dir: str | os.PathLike,
    overwrite: bool = False,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
) -> ElmoModel | ElmoForPreTraining:
    """Write a directory that AutoModel and AutoTokenizer load from a bilm-tf checkpoint.

    The tokenizer cuts text at white space, as the corpus of the released models was cut beforehand. With the files of
    the word softmax the directory is one of ElmoForPreTraining and holds its words: it can score text, and be trained
    on.

    Args:
        options_file: options.json, in its training or its inference form.
        weight_file: The hdf5 of weights.
        output_dir: The directory to write; on any error it is left as it was.
        overwrite: Whether a full output_dir may be replaced.
        softmax_file, vocab_file: The hdf5 of the word softmax and its words, one a line; both or neither.
    Returns: The model that was saved.
    Raises:
        ConversionError: As `load_bilm_tf`; also when output_dir holds one of the files, which would be lost.
        FileExistsError: output_dir is not empty and `overwrite` is not set.
        FileNotFoundError: A file is missing.
        ImportError: h5py is missing.
    """
    check_files_together(softmax_file, vocab_file)
    inputs = [("options_file", options_file), ("weight_file", weight_file)]
    if softmax_file is not None:
        inputs += [("softmax_file", softmax_file), ("vocab_file", vocab_file)]
    try:
        check_keeps_inputs(output_dir, inputs)
    except ValueError as error:
        raise ConversionError(str(error)) from error
    require_h5py("bilm-tf weights")
    check_output_directory(output_dir, overwrite)
    model = load_bilm_tf(options_file, weight_file)
    if softmax_file is not None:
        model = add_word_softmax(model, read_word_softmax(softmax_file, vocab_file, model.config))
    tokenizer = ElmoCharTokenizer(
        pre_tokenizer="whitespace", max_characters_per_word=model.config.max_characters_per_word
    )
    with written_aside(output_dir, overwrite) as directory:
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
    return model


def load_bilm_tf(options_file: str | os.PathLike, weight_file: str | os.PathLike) -> ElmoModel:
    """Read a bilm-tf checkpoint into an ElmoModel in evaluation mode; the scalar mixes keep their starting values.

    A word softmax in the hdf5 of weights is passed over: it is nothing without its words (see `read_word_softmax`).

    Raises:
        ConversionError: The options are not JSON, lack a key or hold a wrong value, or the hdf5 is damaged or does not
            agree with them.
        FileNotFoundError: A file is missing.
        ImportError: h5py is missing.
    """
    config = read_config(options_file)
    weights = read_weights(weight_file, config)
    model = ElmoModel(config)
    for name in ("token_encoder", "bilm"):
        prefix = f"{name}."
        part = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        getattr(model, name).load_state_dict(part)
    return model.eval()


def add_word_softmax(model: ElmoModel, softmax: WordSoftmax) -> ElmoForPreTraining:
    """The model with a word softmax on top, both sharing their parameters with what is given."""
    config = ElmoConfig.from_dict({**model.config.to_dict(), "word_vocab_size": len(softmax.vocabulary)})
    # Without memory of its own and without drawing weights: the largest softmax takes 1.6 GB and seconds to draw.
    with torch.device("meta"):
        whole = ElmoForPreTraining(config)
    base = {f"{whole.base_model_prefix}.{name}": tensor for name, tensor in model.state_dict().items()}
    whole.load_state_dict({**base, **softmax.parameters}, assign=True)
    whole.words = softmax.vocabulary.words
    return whole.eval()


def read_weights(weight_file: str | os.PathLike, config: ElmoConfig) -> dict[str, Tensor]:
    """Read the token encoder and the biLM out of bilm-tf's hdf5.

    Of a one-layer model both forms are read: without a MultiRNNCell level, as bilm-tf's training code writes it, and
    with one, as its inference code wants it.

    Args:
        weight_file: The hdf5.
        config: The model that the options describe; every key is checked against it.
    Returns: Parameters by their names in ElmoModel, float32.
    Raises: ConversionError naming the key, what was found and what is wanted; FileNotFoundError; ImportError.
    """
    where = f"weight_file {str(weight_file)!r}"
    with open_hdf5("weight_file", weight_file) as file:
        stacked = config.num_hidden_layers > 1 or STACK.format(number=0) in file
        rules = expand_weight_rules(config, stacked)
        _check_keys(where, file, rules, _wanted_shapes(config, rules))
        return {name: tensor for rule in rules for name, tensor in _read_key(where, file, rule).items()}


def _wanted_shapes(config: ElmoConfig, rules: list[WeightRule]) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        parameters = ElmoModel(config).state_dict()
    return {rule.key: tuple(_to_theirs(rule, parameters).shape) for rule in rules}


def _to_theirs(rule: WeightRule, parameters: dict[str, Tensor]) -> Tensor:
    return _LAYOUTS[rule.layout].to_theirs(*(parameters[name] for name in rule.parameters))


def _check_keys(where: str, file: Any, rules: list[WeightRule], shapes: dict[str, tuple[int, ...]]) -> None:
    """Check that an open hdf5 file holds exactly the keys wanted, in the shapes wanted, as written float32 arrays."""
    # First, because this walk trips over a damaged index, and looking up one key takes it for an absent key.
    found = dataset_names(file)
    datasets = {rule.key: file.get(rule.key) for rule in rules}
    missing = [rule for rule in rules if not is_dataset(datasets[rule.key])]
    if missing:
        reason = f" ({missing[0].absent})" if missing[0].absent else ""
        raise ConversionError(
            f"{where} lacks the key {missing[0].key!r}, wanted with the shape {shapes[missing[0].key]}"
            f"{and_more(missing)}{reason}. It is half-written, or the weights of another model: check lstm.n_layers, "
            "char_cnn.n_highway and char_cnn.filters in options_file, or get both files again."
        )
    misshapen = [rule for rule in rules if datasets[rule.key].shape != shapes[rule.key]]
    if misshapen:
        rule = misshapen[0]
        raise ConversionError(
            f"{where}: the key {rule.key!r} has the shape {datasets[rule.key].shape}, wanted {shapes[rule.key]}"
            f"{and_more(misshapen)}. The shape follows from {rule.options} in options_file: use the options.json "
            "published with these weights."
        )
    extra = [key for key in found if key not in shapes and key not in SOFTMAX_KEYS]
    if extra:
        raise ConversionError(
            f"{where} holds the key {extra[0]!r} of shape {file[extra[0]].shape}, for which options_file has no "
            f"place{and_more(extra)}. Check lstm.n_layers, char_cnn.n_highway and char_cnn.filters there; if the key "
            "is no part of the model, delete it from a copy with h5py (del file[key])."
        )
    for key, dataset in datasets.items():
        check_storage(where, key, dataset)


def _read_key(where: str, file: Any, rule: WeightRule) -> dict[str, Tensor]:
    tensor = torch.from_numpy(read_finite(where, rule.key, file[rule.key]))
    return dict(zip(rule.parameters, _LAYOUTS[rule.layout].to_ours(tensor), strict=True))


# Our files to theirs


def export_bilm_tf(
    model_dir: str | os.PathLike,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    overwrite: bool = False,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
) -> ElmoModel | ElmoForPreTraining:
    """Write the biLM of a saved checkpoint, and its word softmax if wanted, as bilm-tf's files.

    Args:
        model_dir: A directory saved by ElmoModel, ElmoForPreTraining or ElmoForTokenClassification; the softmax wants
            one of ElmoForPreTraining that holds its words.
        options_file: The options.json to write.
        weight_file: The hdf5 to write.
        overwrite: Whether files of these names may be replaced.
        softmax_file, vocab_file: The hdf5 and the list of words to write for the softmax; both or neither.
    Returns: The model that was exported.
    Raises:
        ConversionError: model_dir holds no whole ELMo checkpoint, or one that the format cannot hold (see
            `save_bilm_tf`).
        FileExistsError: A file of these names is there and `overwrite` is not set.
        FileNotFoundError: model_dir holds no config.json.
        ImportError: h5py is missing.
    """
    check_files_together(softmax_file, vocab_file)
    require_h5py("bilm-tf weights")
    _check_output_files(options_file, weight_file, softmax_file, vocab_file, overwrite=overwrite)
    if softmax_file is None:
        model = _load_checkpoint(ElmoModel, model_dir)
        save_bilm_tf(model, options_file, weight_file, overwrite)
    else:
        vocabulary = _load_vocabulary(model_dir)
        model = _load_checkpoint(ElmoForPreTraining, model_dir)
        save_bilm_tf(model, options_file, weight_file, overwrite, softmax_file, vocab_file, vocabulary)
    return model


def save_bilm_tf(
    model: ElmoPreTrainedModel,
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    overwrite: bool = False,
    softmax_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
    vocabulary: WordVocabulary | None = None,
) -> None:
    """Write a model's token encoder and biLM as bilm-tf's options.json (inference form) and hdf5.

    The format has no place for scalar mixes or a task's layers; they are left out, and so is a word softmax unless its
    own two files are named. A one-layer model is written without the MultiRNNCell level, as bilm-tf's training code
    does. All files are written aside and renamed at the end.

    Args:
        model: Any ELMo model; half-precision weights are written as the same numbers in float32.
        options_file, weight_file: The files to write.
        overwrite: Whether files of these names may be replaced.
        softmax_file, vocab_file: The files to write for the word softmax of an ElmoForPreTraining; both or neither.
        vocabulary: The words of that softmax.
    Raises:
        ConversionError: The format cannot hold the model exactly: forget_bias other than 1, other than 262 character
            ids, a padding character with a vector of its own, a table of word vectors, or float64 weights; and a
            softmax that is adaptive, or not one for both directions.
        FileExistsError: A file of these names is there and `overwrite` is not set.
        ImportError: h5py is missing.
    """
    h5py = require_h5py("bilm-tf weights")
    check_files_together(softmax_file, vocab_file)
    targets = _check_output_files(options_file, weight_file, softmax_file, vocab_file, overwrite=overwrite)
    config = model.config
    _check_exportable(config)
    softmax = {}
    if softmax_file is not None:
        check_exportable_softmax(config, vocabulary)
        softmax = to_arrays({name: _as_float32(name, model.get_parameter(name)) for name in SOFTMAX_KEYS.values()})
    parameters = _float32_parameters(model.base_model)
    _warn_of_sizes_bilm_tf_skips(config)
    with files_written_aside(*targets) as (options_aside, weights_aside, *softmax_aside):
        options_aside.write_text(json.dumps(options_from_config(config), indent=2) + "\n", encoding="utf-8")
        with h5py.File(weights_aside, "w") as file:
            for rule in expand_weight_rules(config, stacked=config.num_hidden_layers > 1):
                file.create_dataset(rule.key, data=_to_theirs(rule, parameters).contiguous().numpy())
        if softmax:
            with h5py.File(softmax_aside[0], "w") as file:
                for key, array in softmax.items():
                    file.create_dataset(key, data=array)
            softmax_aside[1].write_bytes(encode_words(vocabulary))


def _load_checkpoint(model_class: type[Model], model_dir: str | os.PathLike) -> Model:
    where = f"model_dir {str(model_dir)!r}"
    _check_model_type(where, Path(model_dir) / "config.json")
    try:
        model, loading = model_class.from_pretrained(model_dir, local_files_only=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, StrictDataclassError, SafetensorError) as error:
        raise ConversionError(
            f"{where} cannot be loaded ({one_line(error)}); name a directory that AutoModel.from_pretrained loads."
        ) from error
    missing = sorted(key for key in loading["missing_keys"] if not key.removeprefix("elmo.").startswith("mixes."))
    if missing:
        wanted = "the whole biLM" if model_class is ElmoModel else "the whole biLM and its word softmax"
        raise ConversionError(
            f"{where} lacks the weights {missing[0]!r}{and_more(missing)}, wanted those of {wanted}; name the "
            "directory of a complete checkpoint."
        )
    return model


def _load_vocabulary(model_dir: str | os.PathLike) -> WordVocabulary:
    where = f"model_dir {str(model_dir)!r}"
    _check_model_type(where, Path(model_dir) / "config.json")
    try:
        return WordVocabulary.load(model_dir)
    except (OSError, ValueError) as error:
        raise ConversionError(
            f"{where} holds no usable {VOCABULARY_FILE}, the words of the softmax ({one_line(error)}); leave "
            "softmax_file and vocab_file out, or name a checkpoint of scripts/run_pretraining.py."
        ) from error


def _check_model_type(where: str, config_file: Path) -> None:
    # from_pretrained takes any model's config for its own, and fails later with less to say.
    if not config_file.is_file():
        raise FileNotFoundError(f"{where} holds no config.json; name a directory written by save_pretrained.")
    try:
        config = json.loads(config_file.read_bytes())
    except ValueError as error:
        raise ConversionError(
            f"{where}: config.json is not JSON ({one_line(error)}); name a directory written by save_pretrained."
        ) from error
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if model_type != ElmoConfig.model_type:
        raise ConversionError(
            f"{where} holds a checkpoint of model_type {model_type!r}, wanted {ElmoConfig.model_type!r}; name the "
            "directory of an ELMo model."
        )


def _check_exportable(config: ElmoConfig) -> None:
    if config.token_inputs != "characters":
        raise ConversionError(
            f"token_inputs is {config.token_inputs!r}; bilm-tf's files for inference hold models that read characters "
            "alone. Only models with token_inputs='characters' can be exported."
        )
    if config.forget_bias != FORGET_BIAS:
        raise ConversionError(
            f"forget_bias is {config.forget_bias}; bilm-tf always adds {FORGET_BIAS}, and folding the difference into "
            "the learned bias would round it. Only models with forget_bias=1.0 can be exported."
        )
    if config.vocab_size != INFERENCE_CHARACTERS:
        raise ConversionError(
            f"vocab_size is {config.vocab_size}; bilm-tf's byte scheme has {INFERENCE_CHARACTERS} character ids. Only "
            "models with these can be exported."
        )


def _float32_parameters(model: ElmoModel) -> dict[str, Tensor]:
    parameters = {name: _as_float32(name, tensor) for name, tensor in model.state_dict().items()}
    if parameters["token_encoder.character_embedding.weight"][0].any():
        raise ConversionError(
            "row 0 of token_encoder.character_embedding.weight, the padding id, is not zero; bilm-tf's files have no "
            "place for it. Set that row to zeros first."
        )
    return parameters


def _as_float32(name: str, tensor: Tensor) -> Tensor:
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ConversionError(
            f"the parameter {name!r} has the dtype {tensor.dtype}; bilm-tf's files hold float32, and narrowing would "
            "round it. Call model.float() first if that is wanted."
        )
    return tensor.detach().to("cpu", torch.float32)


def _warn_of_sizes_bilm_tf_skips(config: ElmoConfig) -> None:
    num_filters = sum(count for _, count in config.filters)
    if config.projection_size >= min(config.cell_size, num_filters):
        logger.warning(
            f"projection_size is {config.projection_size}, with cell_size {config.cell_size} and {num_filters} filters "
            "in all. Where it is not less than both, bilm-tf itself leaves projections out: the exported files give "
            "the same vectors here and in AllenNLP, but not in bilm-tf."
        )


def _check_output_files(
    options_file: str | os.PathLike,
    weight_file: str | os.PathLike,
    softmax_file: str | os.PathLike | None,
    vocab_file: str | os.PathLike | None,
    overwrite: bool,
) -> list[Path]:
    files = {"options_file": options_file, "weight_file": weight_file}
    if softmax_file is not None:
        files |= {"softmax_file": softmax_file, "vocab_file": vocab_file}
    # Through a link to the file it names, which is the one to replace.
    targets = {name: Path(file).resolve() for name, file in files.items()}
    for (first, target), (second, other) in itertools.combinations(targets.items(), 2):
        if target == other:
            raise ConversionError(
                f"{first} and {second} are both {str(files[first])!r}; give the two files a name each."
            )
    for name, target in targets.items():
        if target.is_dir():
            raise FileExistsError(f"{name} {str(target)!r} is a directory; name a file to write.")
        if target.exists() and not overwrite:
            raise FileExistsError(
                f"{name} {str(target)!r} is there already; name another one, or pass --overwrite_output_dir to replace "
                "it."
            )
    return list(targets.values())
