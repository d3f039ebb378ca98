"""ELMo (Peters et al. 2018) for transformers: importing this package registers its classes with the Auto classes."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from .model.configuration_elmo import ElmoConfig
from .model.layers_elmo import ElmoState
from .model.modeling_elmo import (
    ElmoForPreTraining,
    ElmoForPreTrainingOutput,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoModelOutput,
    ElmoPreTrainedModel,
)
from .model.tokenization_elmo import ElmoCharTokenizer

__version__ = "0.1.0"

__all__ = [
    "ElmoCharTokenizer",
    "ElmoConfig",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoState",
]

AutoConfig.register(ElmoConfig.model_type, ElmoConfig)
AutoTokenizer.register(ElmoConfig, ElmoCharTokenizer)
AutoModel.register(ElmoConfig, ElmoModel)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification)
