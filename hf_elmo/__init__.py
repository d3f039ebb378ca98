"""ELMo (Peters et al. 2018) for transformers: importing this package registers its classes with the Auto classes.

The names below are imported when they are asked for, so that `hf-elmo --help` need not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .registration import register_when_ready

if TYPE_CHECKING:
    from .conversion.sources import load_external
    from .inference.elmo_transformer import ElmoTransformer as ElmoTransformer
    from .inference.embedder import ElmoEmbedder
    from .inference.scorer import ElmoScorer
    from .model.configuration_elmo import (
        CoreferenceHead,
        ElmoConfig,
        EmbeddingsHead,
        QuestionAnsweringHead,
        SemanticRoleLabelingHead,
        SequenceClassificationHead,
        TokenClassificationHead,
    )
    from .model.modeling_elmo import (
        ElmoEmbeddings,
        ElmoEmbeddingsOutput,
        ElmoForPreTraining,
        ElmoForPreTrainingOutput,
        ElmoModel,
        ElmoModelOutput,
        ElmoPreTrainedModel,
        ElmoState,
    )
    from .model.modeling_elmo_coref import ElmoCoreferenceOutput, ElmoForCoreferenceResolution
    from .model.modeling_elmo_srl import ElmoForSemanticRoleLabeling, ElmoSemanticRolesOutput
    from .model.modeling_elmo_tasks import (
        ElmoCRF,
        ElmoForQuestionAnswering,
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
    )
    from .model.tokenization_elmo import ElmoCharTokenizer

__version__ = "0.1.0"

__all__ = [
    "CoreferenceHead",
    "ElmoCRF",
    "ElmoCharTokenizer",
    "ElmoConfig",
    "ElmoCoreferenceOutput",
    "ElmoEmbedder",
    "ElmoEmbeddings",
    "ElmoEmbeddingsOutput",
    "ElmoForCoreferenceResolution",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoForQuestionAnswering",
    "ElmoForSemanticRoleLabeling",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoScorer",
    "ElmoSemanticRolesOutput",
    "ElmoState",
    "EmbeddingsHead",
    "QuestionAnsweringHead",
    "SemanticRoleLabelingHead",
    "SequenceClassificationHead",
    "TokenClassificationHead",
    "load_external",
]

# The module of each public name. ElmoTransformer, which wants an extra, is not among those of `import *`.
_MODULES = {
    "CoreferenceHead": "model.configuration_elmo",
    "ElmoCRF": "model.modeling_elmo_tasks",
    "ElmoCharTokenizer": "model.tokenization_elmo",
    "ElmoConfig": "model.configuration_elmo",
    "ElmoCoreferenceOutput": "model.modeling_elmo_coref",
    "ElmoEmbedder": "inference.embedder",
    "ElmoEmbeddings": "model.modeling_elmo",
    "ElmoEmbeddingsOutput": "model.modeling_elmo",
    "ElmoForCoreferenceResolution": "model.modeling_elmo_coref",
    "ElmoForPreTraining": "model.modeling_elmo",
    "ElmoForPreTrainingOutput": "model.modeling_elmo",
    "ElmoForQuestionAnswering": "model.modeling_elmo_tasks",
    "ElmoForSemanticRoleLabeling": "model.modeling_elmo_srl",
    "ElmoForSequenceClassification": "model.modeling_elmo_tasks",
    "ElmoForTokenClassification": "model.modeling_elmo_tasks",
    "ElmoModel": "model.modeling_elmo",
    "ElmoModelOutput": "model.modeling_elmo",
    "ElmoPreTrainedModel": "model.modeling_elmo",
    "ElmoScorer": "inference.scorer",
    "ElmoSemanticRolesOutput": "model.modeling_elmo_srl",
    "ElmoState": "model.modeling_elmo",
    "ElmoTransformer": "inference.elmo_transformer",
    "EmbeddingsHead": "model.configuration_elmo",
    "QuestionAnsweringHead": "model.configuration_elmo",
    "SemanticRoleLabelingHead": "model.configuration_elmo",
    "SequenceClassificationHead": "model.configuration_elmo",
    "TokenClassificationHead": "model.configuration_elmo",
    "load_external": "conversion.sources",
}
# Folders that can be reached as attributes after `import hf_elmo`.
_ROOMS = {"checkpoints", "conversion", "inference", "kernels", "model", "pretraining", "tasks", "text"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})


register_when_ready()
