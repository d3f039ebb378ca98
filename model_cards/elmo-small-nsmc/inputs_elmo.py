"""What a model may be given: checks of its inputs, and the arguments that transformers' tools pass to every model.

Letters in shapes: B sentences, T words, C characters.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from .configuration_elmo import ElmoConfig
from .layers_elmo import ElmoState
from .tracing_elmo import is_traced

IGNORED_LABEL = -100

Forward = TypeVar("Forward", bound=Callable[..., Any])


def takes_usual_arguments(forward: Forward) -> Forward:
    """Have a forward take what tools pass to every model (peft, pipelines, Trainer), as long as it asks for nothing.

    - `inputs_embeds` must be None: words come in as characters.
    - `token_type_ids` must be None or all zeros, a row being one sentence, where the forward itself has no pairs.
    - `output_attentions` must be None or False: there are none.
    - `use_cache` may be anything: the state is returned in any case.

    They are no arguments of the forward itself: Trainer would gather columns of those names from a data set.
    """
    reads_pairs = "token_type_ids" in inspect.signature(forward).parameters

    @functools.wraps(forward)
    def checked(
        self: Any,
        *args: Any,
        inputs_embeds: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_attentions: bool | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        if inputs_embeds is not None:
            raise ValueError(
                "inputs_embeds is given, but an ELMo model makes the vectors of words from their characters; pass "
                "input_ids from ElmoCharTokenizer instead."
            )
        if reads_pairs:
            kwargs["token_type_ids"] = token_type_ids
        elif token_type_ids is not None and _values_can_be_read(token_type_ids) and bool(token_type_ids.any()):
            raise ValueError(
                f"token_type_ids is not zero everywhere, but a row of {type(self).__name__} is one sentence; give each "
                "part of a pair a row of its own."
            )
        if output_attentions:
            raise ValueError(
                "output_attentions is True, but an ELMo model has no attention; leave it out, or ask for "
                "output_hidden_states."
            )
        return forward(self, *args, **kwargs)

    return checked  # type: ignore[return-value]


def check_inputs(config: ElmoConfig, input_ids: Tensor, attention_mask: Tensor | None, state: ElmoState | None) -> None:
    """Check what a model is given, apart from labels; raises TypeError or ValueError naming the argument."""
    width = config.max_characters_per_word
    if not isinstance(input_ids, Tensor):
        raise TypeError(f"input_ids is a {type(input_ids).__name__}, not a tensor; tokenize with return_tensors='pt'.")
    if input_ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"input_ids has the dtype {input_ids.dtype}; character ids are integers (torch.long).")
    if input_ids.ndim != 3 or input_ids.shape[-1] != width:
        raise ValueError(
            f"input_ids has the shape {tuple(input_ids.shape)}; wanted (sentences, words, {width}), a row of "
            f"character ids per word. Use ElmoCharTokenizer(max_characters_per_word={width})."
        )
    if 0 in input_ids.shape:
        raise ValueError(
            f"input_ids has the shape {tuple(input_ids.shape)}: the batch holds no "
            f"{'word' if input_ids.shape[0] else 'sentence'}. Leave empty batches out, and keep "
            "add_special_tokens=True so that an empty sentence still has its two markers."
        )
    if _values_can_be_read(input_ids) and not 0 <= int(input_ids.min()) <= int(input_ids.max()) < config.vocab_size:
        raise ValueError(
            f"input_ids holds values from {int(input_ids.min())} to {int(input_ids.max())}; this checkpoint knows "
            f"character ids from 0 to {config.vocab_size - 1}. Use the tokenizer saved with it."
        )
    if attention_mask is not None:
        _check_per_word("attention_mask", attention_mask, input_ids, "an integer or boolean tensor, 1 for real words")
    if state is not None:
        _check_state(config, state, rows=input_ids.shape[0])


def _check_per_word(name: str, given: Any, input_ids: Tensor, wanted: str) -> None:
    """Check an argument of integers or truth values, (B, T), one per word."""
    if not isinstance(given, Tensor) or given.is_floating_point():
        raise TypeError(f"{name} is {getattr(given, 'dtype', type(given).__name__)}; wanted {wanted}.")
    if given.shape != input_ids.shape[:2]:
        raise ValueError(
            f"{name} has the shape {tuple(given.shape)}; input_ids of shape {tuple(input_ids.shape)} want "
            f"{tuple(input_ids.shape[:2])}, one entry per word."
        )


def _check_state(config: ElmoConfig, state: ElmoState, rows: int) -> None:
    layers = config.num_hidden_layers
    for name, size in (("hidden", config.projection_size), ("cell", config.cell_size)):
        tensor = getattr(state, name, None)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"state is a {type(state).__name__} without a tensor {name!r}; pass the field `state` of an "
                "earlier output of this model."
            )
        if tensor.shape != (rows, layers, 2, size):
            raise ValueError(
                f"state.{name} has the shape {tuple(tensor.shape)}; this batch of {rows} rows wants "
                f"{(rows, layers, 2, size)}. Carry a state only between batches of as many rows, or start a new "
                "one with state=None."
            )


def check_token_types(token_type_ids: Tensor, input_ids: Tensor, state: ElmoState | None) -> bool:
    """Whether any row of a batch is a pair, which in a trace it always may be.

    Raises: TypeError or ValueError where the types are no 0s and 1s, one per word, or where pairs shall carry a state.
    """
    wanted = "an integer tensor, 1 for words of a second sentence"
    _check_per_word("token_type_ids", token_type_ids, input_ids, wanted)
    if not is_traced():
        if not bool(token_type_ids.any()):
            return False
        lowest, highest = int(token_type_ids.min()), int(token_type_ids.max())
        if lowest < 0 or highest > 1:
            raise ValueError(
                f"token_type_ids holds values from {lowest} to {highest}; wanted 0 for the first sentence of a pair "
                "and 1 for the second. There is no third one."
            )
    if state is not None:
        raise ValueError(
            "state is given with pairs (token_type_ids), whose sentences each start anew; leave one of them out."
        )
    return True


def check_packed_layers(
    config: ElmoConfig, packed_layers: Tensor, input_ids: Tensor, state: ElmoState | None, is_frozen: bool
) -> None:
    """Check layers that were computed before; raises ValueError where they do not fit, or the biLM may have changed."""
    size = config.projection_size * (1 + 2 * config.num_hidden_layers)
    if packed_layers.shape != (*input_ids.shape[:2], size):
        raise ValueError(
            f"packed_layers has the shape {tuple(packed_layers.shape)}; input_ids of shape {tuple(input_ids.shape)} "
            f"and this model want {(*input_ids.shape[:2], size)}."
        )
    if state is not None:
        raise ValueError("packed_layers is given with a state, which they cannot carry on; leave one of them out.")
    if not is_frozen:
        raise ValueError(
            "packed_layers is given, but the biLM is trained, so that its layers change; leave them out, or set "
            "freeze_bilm=True."
        )


def check_labels(labels: Tensor, input_ids: Tensor, num_classes: int) -> None:
    """Check the labels of a batch, one per word; raises TypeError or ValueError saying what is wrong with them."""
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
        found = getattr(labels, "dtype", type(labels).__name__)
        raise TypeError(f"labels is {found}; wanted an integer tensor (torch.long), one label per word.")
    if labels.shape != input_ids.shape[:2]:
        raise ValueError(
            f"labels has the shape {tuple(labels.shape)}; input_ids of shape {tuple(input_ids.shape)} want "
            f"{tuple(input_ids.shape[:2])}, one label per word, the sentence markers included (-100 there)."
        )
    if _values_can_be_read(labels):
        real = labels[labels != IGNORED_LABEL]
        if real.numel() and not 0 <= int(real.min()) <= int(real.max()) < num_classes:
            raise ValueError(
                f"labels holds values from {int(real.min())} to {int(real.max())}; this model has {num_classes} "
                "classes, 0 to that less one (and -100 for positions to leave out). Set the number in the config."
            )


def check_marks(name: str, marks: Tensor, input_ids: Tensor) -> None:
    """Check an argument that marks words, (B, T); raises TypeError or ValueError saying what is wrong with it."""
    _check_per_word(name, marks, input_ids, "an integer or boolean tensor, 1 for the words that it marks")
    if _values_can_be_read(marks) and not 0 <= int(marks.min()) <= int(marks.max()) <= 1:
        raise ValueError(f"{name} holds values from {int(marks.min())} to {int(marks.max())}; wanted 0 and 1.")


def guess_problem_type(labels: Tensor, num_labels: int) -> str:
    """What the labels of texts are labels of, as transformers guesses it where a config's problem_type is None."""
    if num_labels == 1:
        return "regression"
    is_integer = isinstance(labels, Tensor) and not labels.is_floating_point()
    return "single_label_classification" if is_integer else "multi_label_classification"


def check_text_labels(labels: Tensor, logits: Tensor, problem_type: str) -> None:
    """Check the labels of texts; raises TypeError or ValueError saying what is wrong with them.

    Args:
        labels: What was given.
        logits: The model's scores, (B, K).
        problem_type: What kind of labels they are, as transformers' configs name it.
    """
    num_texts, num_labels = logits.shape
    is_single = problem_type == "single_label_classification"
    wanted = "integers, one per text" if is_single else "floating-point numbers, one per text and label"
    if not isinstance(labels, Tensor) or labels.dtype == torch.bool or labels.is_floating_point() == is_single:
        found = getattr(labels, "dtype", type(labels).__name__)
        raise TypeError(f"labels is {found}; a {problem_type} wants a tensor of {wanted}.")
    shapes: list[tuple[int, ...]] = [(num_texts,)] if is_single else [(num_texts, num_labels)]
    if num_labels == 1:
        shapes.append((num_texts,))
    if tuple(labels.shape) not in shapes:
        raise ValueError(
            f"labels has the shape {tuple(labels.shape)}; {num_texts} texts, {num_labels} labels and a {problem_type} "
            f"want {' or '.join(map(str, shapes))}."
        )
    if problem_type != "regression" and _values_can_be_read(labels):
        largest = num_labels - 1 if is_single else 1
        if not 0 <= labels.min().item() <= labels.max().item() <= largest:
            raise ValueError(
                f"labels holds values from {labels.min().item()} to {labels.max().item()}; a {problem_type} of "
                f"{num_labels} labels wants values from 0 to {largest}. Set the number of labels in the config."
            )


def check_positions(name: str, positions: Tensor, is_answer: Tensor) -> None:
    """Check where answers begin, or end; raises TypeError or ValueError saying what is wrong with it.

    Args:
        name: Of the argument.
        positions: What was given.
        is_answer: True for words that may be an answer's, (B, T).
    """
    wanted = "integers, for each row that of a word of its context, or -100 where it has no answer"
    if not isinstance(positions, Tensor) or positions.is_floating_point() or positions.dtype == torch.bool:
        raise TypeError(f"{name} is {getattr(positions, 'dtype', type(positions).__name__)}; wanted {wanted}.")
    if positions.shape != is_answer.shape[:1]:
        raise ValueError(
            f"{name} has the shape {tuple(positions.shape)}; {is_answer.shape[0]} rows want ({is_answer.shape[0]},), "
            f"{wanted}."
        )
    if _values_can_be_read(positions):
        for row, position in enumerate(positions.tolist()):
            if position == IGNORED_LABEL:
                continue
            if not 0 <= position < is_answer.shape[1] or not is_answer[row, position]:
                raise ValueError(
                    f"{name} is {position} in row {row}, where no word of the context is; wanted {wanted}."
                )


def _values_can_be_read(tensor: Tensor) -> bool:
    """Whether a check of values costs little: elsewhere than on a CPU it would wait for the device."""
    return tensor.device.type == "cpu" and not is_traced()
