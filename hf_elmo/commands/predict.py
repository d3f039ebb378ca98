"""Apply a checkpoint of a task to text of one's own."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from ..given.flags import check_choices
from .command_line import run_command
from .delivery import check_targets
from .prediction_arguments import PredictionArguments

# Each class of models with the module of this folder that applies it, by a function of the same name.
_PREDICTORS = {
    "ElmoForTokenClassification": "predict_labels",
    "ElmoForSequenceClassification": "predict_classes",
    "ElmoForQuestionAnswering": "predict_answers",
    "ElmoForCoreferenceResolution": "predict_clusters",
    "ElmoForSemanticRoleLabeling": "predict_roles",
}

_EXAMPLES = """
examples:
  hf-elmo predict "Alice flew to New York ." --model_name_or_path output/my-tagger
  hf-elmo predict --model_name_or_path output/my-tagger --input_file text.txt --output_file tagged.conll
  hf-elmo predict "A man sleeps ." --text_pair "Nobody is awake ." --model_name_or_path output/my-entailment
  hf-elmo predict "Who sat ?" --text_pair "The cat sat ." --model_name_or_path output/my-reader
  hf-elmo predict --model_name_or_path output/my-coreference --input_file chapter.txt --output_file clusters.json
  hf-elmo predict --model_name_or_path output/my-coreference --input_file chapter.txt --html clusters.html
  cat text.txt | hf-elmo predict --model_name_or_path output/my-tagger --input_file -
"""


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> None:
    run_command(PredictionArguments, predict, argv, prog, __doc__, _EXAMPLES)


def predict(arguments: PredictionArguments) -> None:
    """Show or write what a checkpoint says of a text, by what kind of model it is.

    Raises: ValueError or OSError naming the argument, what it was and what to do.
    """
    from ..checkpoints.loading import load_config

    check_choices(arguments)
    if (arguments.input_file is None) == (arguments.text is None):
        given = "no text" if arguments.text is None else f"both sentences and input_file {arguments.input_file!r}"
        raise ValueError(f"{given} given; wanted sentences in quotes, or --input_file FILE (- for standard input).")
    check_targets(arguments)
    architectures = load_config(arguments.model_name_or_path).architectures or []
    for name, predictor in _PREDICTORS.items():
        if name in architectures:
            getattr(importlib.import_module(f".{predictor}", __package__), predictor)(arguments)
            return
    found = ", ".join(architectures) or "no class"
    raise ValueError(
        f"model_name_or_path {arguments.model_name_or_path!r} is a checkpoint of {found}; wanted one that was trained "
        f"for a task: {', '.join(_PREDICTORS)}."
    )
