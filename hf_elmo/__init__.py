"""ELMo (Peters et al. 2018) for transformers: importing this package registers its classes with the Auto classes."""

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

from . import kernels as kernels
from .conversion.sources import load_external
from .inference.embedder import ElmoEmbedder
from .inference.scoring import ElmoScorer
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
    ElmoForCausalLM,
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
from .model.tokenization_elmo import ElmoCharTokenizer, ElmoWordTokenizer
from .pipelines import register_pipelines

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
    "ElmoForCausalLM",
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
    "ElmoWordTokenizer",
    "EmbeddingsHead",
    "QuestionAnsweringHead",
    "SemanticRoleLabelingHead",
    "SequenceClassificationHead",
    "TokenClassificationHead",
    "load_external",
]

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
