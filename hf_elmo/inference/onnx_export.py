"""Export a checkpoint to ONNX: one file that runs without PyTorch, on batches of any number of sentences and words.

Letters in shapes: B sentences, T words, C characters per word.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..given import require
from ..hub.loading import load_config, load_model, load_tokenizer
from ..hub.writing import check_keeps_inputs, check_output_directory, written_aside
from ..model.modeling_elmo import CAN_RECORD_STEPS, ElmoModel, ElmoPreTrainedModel, ElmoWordTable
from ..model.modeling_elmo_srl import ElmoForSemanticRoleLabeling
from ..model.modeling_elmo_tasks import (
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
)
from ..model.tokenization_elmo import ElmoCharTokenizer

if TYPE_CHECKING:
    from torch.onnx import ONNXProgram

ONNX_FILE = "model.onnx"
# Coreference is not among them: it keeps another number of spans in each document, which no graph knows.
_EXPORTED: tuple[type[ElmoPreTrainedModel], ...] = (
    ElmoModel,
    ElmoForTokenClassification,
    ElmoForSequenceClassification,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
)
# How far the exported model's numbers may be from the model's own, relative where those are larger than 1.
TOLERANCE = 1e-4
# Sentences, and the words of the longest one, that the exported model is compared on; it is traced on others.
_COMPARED_ON = ((1, 1), (3, 12), (2, 40))


class _Outputs(nn.Module):
    """A model whose outputs are a tuple of tensors; `has_layers` adds the layers below the mix."""

    def __init__(self, model: ElmoPreTrainedModel, input_names: Iterable[str], has_layers: bool):
        super().__init__()
        self.model, self.input_names, self.has_layers = model, tuple(input_names), has_layers

    def named(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs by their names; layers are `hidden_states.0` and so on, the token encoder's first."""
        output = self.model(**inputs, **({"output_hidden_states": True} if self.has_layers else {}))
        layers = {f"hidden_states.{n}": layer for n, layer in enumerate(output.get("hidden_states") or ())}
        return {name: value for name, value in output.items() if isinstance(value, Tensor)} | layers

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.named(dict(zip(self.input_names, inputs, strict=True))).values())


def export_onnx(
    model_name_or_path: str,
    output_dir: str | os.PathLike,
    output_hidden_states: bool = False,
    overwrite: bool = False,
) -> list[str]:
    """Write a checkpoint as `model.onnx`, with its config and its tokenizer beside it.

    The recurrences become ONNX's Scan. Where onnxruntime is installed the file is run on batches of other sizes than it
    was traced on, and compared with the model. Of a pre-trained checkpoint the vectors are exported, not the softmaxes;
    with `output_hidden_states` those below the mix, too.

    Returns: The inputs, (B, T, C) and (B, T), the outputs and how exact they are, a sentence each.

    Raises: FileNotFoundError, FileExistsError or ValueError naming the argument, also for a model that has no graph;
        ImportError; ArithmeticError where the exported model gives other numbers.
    """
    for package in ("onnx", "onnxscript"):
        require(package, "PyTorch's exports", "export")
    if not CAN_RECORD_STEPS:
        raise ImportError(f"torch {torch.__version__} cannot export a recurrence of any length; install a newer one.")
    target = check_output_directory(output_dir, overwrite)
    check_keeps_inputs(target, [("model_name_or_path", model_name_or_path)])
    config = load_config(model_name_or_path)
    name = (config.architectures or ["ElmoModel"])[0]
    classes = {each.__name__: each for each in _EXPORTED} | {"ElmoForPreTraining": ElmoModel}
    if name not in classes:
        raise ValueError(
            f"model_name_or_path {model_name_or_path!r} is a checkpoint of {name}, which has no fixed graph; name one "
            f"of {', '.join(classes)}."
        )
    model = load_model(classes[name], model_name_or_path).eval()
    if any(isinstance(module, ElmoWordTable) for module in model.modules()):
        raise ValueError(
            f"model_name_or_path {model_name_or_path!r} has a table of word vectors, whose search by hashes has no "
            "graph; name a checkpoint that reads characters alone."
        )
    tokenizer = load_tokenizer(model_name_or_path, model.config)
    batch = _make_batch(model, tokenizer, 2, 5)
    outputs = _Outputs(model, batch, output_hidden_states)
    # A sentence has two special tokens and a word at least; from smaller sizes torch would infer that they never vary.
    sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("words", min=3)}
    with torch.no_grad(), _quiet():
        names = tuple(outputs.named(batch))
        program = torch.onnx.export(
            outputs,
            tuple(batch.values()),
            input_names=list(batch),
            output_names=list(names),
            dynamic_shapes=((sizes,) * len(batch),),
            dynamo=True,
            verbose=False,
        )
    with written_aside(target, overwrite) as aside:
        cast("ONNXProgram", program).save(str(aside / ONNX_FILE))
        model.config.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        difference = _compare(aside / ONNX_FILE, outputs, tokenizer)
    return [
        f"inputs: {', '.join(batch)}, as AutoTokenizer.from_pretrained({str(target)!r}) gives them",
        f"outputs: {', '.join(names)}",
        "It was not run: onnxruntime is not installed (pip install onnxruntime)."
        if difference is None
        else f"By onnxruntime its numbers are those of {name} within {difference:.1e}, on batches of other sizes.",
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on packages that it could use and constants that it does not fold."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _make_batch(
    model: ElmoPreTrainedModel, tokenizer: ElmoCharTokenizer, num_sentences: int, num_words: int
) -> dict[str, Tensor]:
    """What the model reads, for sentences of which each is a word shorter than the one before."""
    sentences = [[f"{'abcdefgh'[: 1 + word % 8]}{word}" for word in range(num_words)]]
    sentences += [sentences[0][: max(1, num_words - number)] for number in range(1, num_sentences)]
    is_classifier_of_pairs = isinstance(model, ElmoForSequenceClassification) and model.text_encoder.reads_pairs
    reads_pairs = is_classifier_of_pairs or isinstance(model, ElmoForQuestionAnswering)
    pairs = {"text_pair": sentences[::-1]} if reads_pairs else {}
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt", **pairs)
    names = ("input_ids", "attention_mask", *(["token_type_ids"] if reads_pairs else []))
    inputs = {name: batch[name] for name in names}
    if isinstance(model, ElmoForSemanticRoleLabeling):
        inputs["predicate_mask"] = torch.zeros_like(inputs["attention_mask"])
        inputs["predicate_mask"][:, 1] = 1
    return inputs


def _compare(path: Path, outputs: _Outputs, tokenizer: ElmoCharTokenizer) -> float | None:
    """The largest difference from the model's numbers, relative to those above 1; ArithmeticError above TOLERANCE."""
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    largest = 0.0
    for num_sentences, num_words in _COMPARED_ON:
        batch = _make_batch(outputs.model, tokenizer, num_sentences, num_words)
        found = session.run(None, {name: value.numpy() for name, value in batch.items()})
        with torch.no_grad():
            expected = outputs.named(batch)
        for (name, own), value in zip(expected.items(), found, strict=True):
            # What is infinite in both is equal.
            numbers = own.double().numpy()
            differs = numbers != value
            relative = np.abs(numbers[differs] - value[differs]) / np.maximum(1.0, np.abs(numbers[differs]))
            difference = float(relative.max(initial=0.0))
            if not difference <= TOLERANCE:
                raise ArithmeticError(
                    f"{name} of the exported model differs from the model's by {difference:.1e} on {num_sentences} "
                    f"sentences of up to {num_words} words; {TOLERANCE:.0e} is allowed. Nothing was written."
                )
            largest = max(largest, difference)
    return largest
