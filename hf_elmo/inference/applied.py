"""A task's checkpoint as it is applied to text: its model, ready on a device, and its tokenizer."""

from __future__ import annotations

from typing import Any, ClassVar

from ..checkpoints.loading import Model, load_model, load_tokenizer
from ..model.modeling_elmo import ElmoPreTrainedModel
from ..model.tokenization_elmo import ElmoCharTokenizer
from .devices import ready_on, usable_device


def load_applied(
    model_class: type[Model], name: str, device: str | None, pre_tokenizer: str | None
) -> tuple[Model, ElmoCharTokenizer]:
    """A checkpoint's model, on a device and in evaluation mode, and its tokenizer.

    Args:
        model_class: The class of the model.
        name: The checkpoint, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        pre_tokenizer: How texts are cut; None as the checkpoint's tokenizer says.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
    """
    place = usable_device(device)
    model = ready_on(load_model(model_class, name), place)
    tokenizer = load_tokenizer(name, model.config)
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    return model, tokenizer


class AppliedModel:
    """What the models that are applied to many texts have in common; a subclass names its class of model.

    Args:
        model_name_or_path: A checkpoint of the task, a directory or a name on the Hub.
        device: "cpu", "cuda", "cuda:1" and so on; None takes a GPU where there is one.
        max_words_per_batch: Words computed at once, markers and padding included.
        pre_tokenizer: How strings are cut; None as the checkpoint's tokenizer says.
    Raises: FileNotFoundError or ValueError naming the checkpoint and what it lacks, or the device.
    """

    model_class: ClassVar[type[ElmoPreTrainedModel]]
    model: Any

    def __init__(
        self,
        model_name_or_path: str,
        device: str | None = None,
        max_words_per_batch: int = 2048,
        pre_tokenizer: str | None = None,
    ):
        if max_words_per_batch < 1:
            raise ValueError(f"max_words_per_batch is {max_words_per_batch}; it must be an integer >= 1.")
        self.max_words_per_batch = max_words_per_batch
        self.model, self.tokenizer = load_applied(self.model_class, model_name_or_path, device, pre_tokenizer)
        self.device = self.model.device
