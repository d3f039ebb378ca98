"""Where the model of a task comes from: its config, its tokenizer, its weights, and how fast they may be trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch

from ..checkpoints.file_names import TOKENIZER_FILE
from ..checkpoints.loading import Model, find_file, load_config, load_what_is_there
from ..checkpoints.loading import load_tokenizer as load_checkpoint_tokenizer
from ..model.configuration_elmo import ElmoConfig
from ..model.tokenization_elmo import ElmoCharTokenizer
from .arguments import ModelArguments
from .training_arguments import TaskTrainingArguments

# New task layers learn fast; a pre-trained biLM that is trained along with them must not be torn up.
_TASK_LEARNING_RATE = 1e-3
_BILM_LEARNING_RATE = 1e-4


def check_model_source(model_args: ModelArguments) -> None:
    """Check that exactly one flag says where the model comes from.

    Raises: ValueError naming those that were given.
    """
    sources = {name: getattr(model_args, name) for name in ("model_name_or_path", "config_name", "preset")}
    given = [name for name, value in sources.items() if value]
    if len(given) != 1:
        raise ValueError(
            f"{' and '.join(given) or 'No model'} given; wanted exactly one of --model_name_or_path for a checkpoint, "
            "--config_name or --preset for random weights."
        )


def is_random(model_args: ModelArguments) -> bool:
    """Whether all weights are to be drawn at random."""
    return model_args.from_scratch or not model_args.model_name_or_path


def load_source_config(model_args: ModelArguments) -> ElmoConfig:
    """The config that the arguments name, before the task sets its own fields.

    Raises: FileNotFoundError or ValueError naming the argument.
    """
    if model_args.preset is not None:
        return getattr(ElmoConfig, model_args.preset)()
    argument = "model_name_or_path" if model_args.model_name_or_path else "config_name"
    return load_config(getattr(model_args, argument), argument)


def set_model_fields(config: ElmoConfig, model_args: ModelArguments) -> None:
    """Set what the arguments say of the biLM and its mixes, whatever the task, and leave the word softmax behind."""
    config.word_vocab_size = None
    fields = {"freeze_bilm": "freeze_bilm", "layers": "mixed_layers"}
    fields |= {name: name for name in ("mix_normalization", "mix_l2")}
    for argument, name in fields.items():
        value = getattr(model_args, argument)
        if value is not None:
            setattr(config, name, value)


def load_tokenizer(model_args: ModelArguments, config: ElmoConfig) -> ElmoCharTokenizer:
    """The checkpoint's tokenizer, or the plain one where it has none."""
    name = model_args.model_name_or_path or model_args.config_name
    if name is None or find_file(name, TOKENIZER_FILE) is None:
        return ElmoCharTokenizer(max_characters_per_word=config.max_characters_per_word)
    return load_checkpoint_tokenizer(name, config)


def load_weights(model_class: type[Model], name: str, config: ElmoConfig) -> tuple[Model, set[str]]:
    """A checkpoint's weights in a model with a task's head, and which of its parts had none of the right shape there.

    Args:
        model_class: The class of the model.
        name: The checkpoint.
        config: The config of the model to be.
    Raises: FileNotFoundError where there are no weights, ValueError where some of the biLM's are lacking.
    """
    try:
        model, new = load_what_is_there(model_class, name, config)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"model_name_or_path {name!r} has no weights; for random ones pass --from_scratch. ({error})"
        ) from error
    lost = [key for key in new if key.startswith(("elmo.token_encoder.", "elmo.bilm."))]
    if lost:
        raise ValueError(
            f"model_name_or_path {name!r} has no weights, or weights of another shape, for {lost[0]!r} and "
            f"{len(lost) - 1} more of the biLM; name a complete ELMo checkpoint."
        )
    return model, {key.split(".")[0] if not key.startswith("elmo.mixes") else "scalar mix" for key in new}


def start_model(
    model_class: type[Model],
    model_args: ModelArguments,
    config: ElmoConfig,
    redraw: Callable[[Model], set[str]] | None = None,
) -> tuple[Model, str]:
    """A model with a task's head, in float32, and where its weights come from, in some words.

    Args:
        model_class: The class of the model.
        model_args: Where its weights come from.
        config: Its architecture.
        redraw: Draws parts anew that the checkpoint has for other labels, and names them.
    Raises: FileNotFoundError or ValueError as `load_weights`.
    """
    if is_random(model_args):
        return model_class(config), "all weights random"
    model, new = load_weights(model_class, cast("str", model_args.model_name_or_path), config)
    if redraw is not None:
        new |= redraw(model)
    origin = f"weights from {model_args.model_name_or_path}"
    return model, origin + (f", except new ones for {', '.join(sorted(new))}" if new else "")


def describe_model(model: torch.nn.Module, config: ElmoConfig, origin: str) -> str:
    """The size of a model, what of it is trained and where its weights come from, in some words."""
    total = sum(parameter.numel() for parameter in model.parameters())
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    frozen = "fixed" if config.freeze_bilm else "trained"
    return f"{total:,} parameters, {trained:,} of them trained (biLM {frozen}); {origin}"


def settle_learning_rate(args: TaskTrainingArguments, model_args: ModelArguments) -> None:
    """Set the learning rate where it was left out: lower where a pre-trained biLM is trained too."""
    if args.learning_rate is None:
        trains_pretrained = not model_args.freeze_bilm and not is_random(model_args)
        args.learning_rate = _BILM_LEARNING_RATE if trains_pretrained else _TASK_LEARNING_RATE
