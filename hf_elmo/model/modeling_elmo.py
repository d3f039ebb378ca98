"""The face of the ELMo models: what `auto_map` names, and every file that travels with a checkpoint's models."""

from __future__ import annotations

# Also what only siblings need: older versions of transformers (5.4) bring along only what a file imports itself.
from .base_elmo import ElmoModel, ElmoModelOutput, ElmoPreTrainedModel
from .characters_elmo import PAD_CHARACTER  # noqa: F401
from .configuration_elmo import ElmoConfig
from .coreference_elmo import ElmoCoreferenceOutput, ElmoForCoreferenceResolution
from .crf_elmo import ElmoCRF
from .dropout_elmo import ElmoDropout  # noqa: F401
from .embeddings_elmo import ElmoEmbeddings, ElmoEmbeddingsOutput
from .head_settings_elmo import (
    CoreferenceHead,
    EmbeddingsHead,
    QuestionAnsweringHead,
    SemanticRoleLabelingHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)
from .highway_lstm_elmo import ElmoHighwayLSTM  # noqa: F401
from .inputs_elmo import IGNORED_LABEL
from .layers_elmo import ElmoState
from .offloading_elmo import read_weights  # noqa: F401
from .packed_steps_elmo import PackedOrder  # noqa: F401
from .pairs_elmo import ElmoSentences  # noqa: F401
from .pretraining_elmo import ElmoForPreTraining, ElmoForPreTrainingOutput
from .question_answering_elmo import ElmoForQuestionAnswering
from .question_readers_elmo import ElmoReader  # noqa: F401
from .recurrence_elmo import scan_projected_lstm  # noqa: F401
from .semantic_roles_elmo import ElmoForSemanticRoleLabeling, ElmoSemanticRolesOutput
from .sequence_classification_elmo import ElmoForSequenceClassification
from .sequence_encoders_elmo import ElmoDense  # noqa: F401
from .span_pairs_elmo import weigh_pairs  # noqa: F401
from .spans_elmo import ElmoSpans  # noqa: F401
from .tag_schemes_elmo import SCHEMES  # noqa: F401
from .task_encoders_elmo import ElmoTaskLSTM  # noqa: F401
from .token_classification_elmo import ElmoForTokenClassification
from .token_encoder_elmo import ElmoTokenEncoder  # noqa: F401
from .tracing_elmo import is_traced  # noqa: F401
from .word_list_elmo import WORD_LIST_FILE  # noqa: F401
from .word_steps_elmo import scan_words  # noqa: F401
from .word_table_elmo import ElmoWordTable  # noqa: F401

__all__ = [
    "IGNORED_LABEL",
    "CoreferenceHead",
    "ElmoCRF",
    "ElmoConfig",
    "ElmoCoreferenceOutput",
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
    "ElmoSemanticRolesOutput",
    "ElmoState",
    "EmbeddingsHead",
    "QuestionAnsweringHead",
    "SemanticRoleLabelingHead",
    "SequenceClassificationHead",
    "TokenClassificationHead",
]

# With a saved model transformers ships the file of its class's module, and all that this file imports, and writes the
# module's name into the auto_map. Every checkpoint can be loaded as every class, so all of them name this file.
for model_class in (
    ElmoPreTrainedModel,
    ElmoModel,
    ElmoEmbeddings,
    ElmoForCoreferenceResolution,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
):
    model_class.__module__ = __name__
