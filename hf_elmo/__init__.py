"""ELMo (Peters et al. 2018) for transformers: importing this package registers its classes with the Auto classes."""

from typing import TYPE_CHECKING

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

# Public is what is imported `as` itself.
from . import kernels as kernels
from .conversion.sources import load_external as load_external
from .inference.embedder import ElmoEmbedder as ElmoEmbedder
from .inference.scoring import ElmoScorer as ElmoScorer
from .model.configuration_elmo import CoreferenceHead as CoreferenceHead
from .model.configuration_elmo import ElmoConfig as ElmoConfig
from .model.configuration_elmo import EmbeddingsHead as EmbeddingsHead
from .model.configuration_elmo import QuestionAnsweringHead as QuestionAnsweringHead
from .model.configuration_elmo import SemanticRoleLabelingHead as SemanticRoleLabelingHead
from .model.configuration_elmo import SequenceClassificationHead as SequenceClassificationHead
from .model.configuration_elmo import TokenClassificationHead as TokenClassificationHead
from .model.modeling_elmo import ElmoEmbeddings as ElmoEmbeddings
from .model.modeling_elmo import ElmoEmbeddingsOutput as ElmoEmbeddingsOutput
from .model.modeling_elmo import ElmoForCausalLM as ElmoForCausalLM
from .model.modeling_elmo import ElmoForPreTraining as ElmoForPreTraining
from .model.modeling_elmo import ElmoForPreTrainingOutput as ElmoForPreTrainingOutput
from .model.modeling_elmo import ElmoModel as ElmoModel
from .model.modeling_elmo import ElmoModelOutput as ElmoModelOutput
from .model.modeling_elmo import ElmoPreTrainedModel as ElmoPreTrainedModel
from .model.modeling_elmo import ElmoState as ElmoState
from .model.modeling_elmo_coref import ElmoCoreferenceOutput as ElmoCoreferenceOutput
from .model.modeling_elmo_coref import ElmoForCoreferenceResolution as ElmoForCoreferenceResolution
from .model.modeling_elmo_srl import ElmoForSemanticRoleLabeling as ElmoForSemanticRoleLabeling
from .model.modeling_elmo_srl import ElmoSemanticRolesOutput as ElmoSemanticRolesOutput
from .model.modeling_elmo_tasks import ElmoCRF as ElmoCRF
from .model.modeling_elmo_tasks import ElmoForQuestionAnswering as ElmoForQuestionAnswering
from .model.modeling_elmo_tasks import ElmoForSequenceClassification as ElmoForSequenceClassification
from .model.modeling_elmo_tasks import ElmoForTokenClassification as ElmoForTokenClassification
from .model.tokenization_elmo import ElmoCharTokenizer as ElmoCharTokenizer
from .model.tokenization_elmo import ElmoWordTokenizer as ElmoWordTokenizer
from .pipelines import register_pipelines

__version__ = "0.1.0"
# `from hf_elmo import *` would bring the packages `model` and `text` too. Type checkers read only what is listed.
if not TYPE_CHECKING:
    __all__ = [name for name, each in globals().items() if getattr(each, "__module__", "").startswith("hf_elmo.")]

AutoConfig.register(ElmoConfig.model_type, ElmoConfig, exist_ok=True)
# The second one by its name, which a directory of a causal language model gives in tokenizer_config.json.
AutoTokenizer.register(ElmoConfig, ElmoCharTokenizer, slow_tokenizer_class=ElmoWordTokenizer, exist_ok=True)
# Of several the Auto class takes the one that a checkpoint's config names, and else the first.
AutoModel.register(ElmoConfig, (ElmoModel, ElmoForSemanticRoleLabeling, ElmoForCoreferenceResolution), exist_ok=True)
AutoModelForCausalLM.register(ElmoConfig, ElmoForCausalLM, exist_ok=True)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
AutoModelForQuestionAnswering.register(ElmoConfig, ElmoForQuestionAnswering, exist_ok=True)
AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
register_pipelines()
