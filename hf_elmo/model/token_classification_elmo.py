"""The token classification model: a label for each word.

Letters in shapes: B sentences, T words, C characters per word.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .base_elmo import mean_cross_entropy
from .configuration_elmo import ElmoConfig
from .embeddings_elmo import ElmoTaskModel
from .head_settings_elmo import TokenClassificationHead
from .inputs_elmo import check_labels, takes_usual_arguments
from .layers_elmo import ElmoState
from .task_encoders_elmo import ElmoTaskLSTM


class ElmoForTokenClassification(ElmoTaskModel):
    """What is read of each word, an optional biLSTM and a classifier over each word (Peters et al. 2018, sec. 3.3)."""

    _auto_class = "AutoModelForTokenClassification"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        head: TokenClassificationHead = config.require_head(TokenClassificationHead.type)
        super().__init__(config, head)
        self.num_labels = cast("int", config.num_labels)
        size = self.input_size
        self.lstm: ElmoTaskLSTM | None = None
        if head.lstm_layers:
            self.lstm = ElmoTaskLSTM(size, head.lstm_size, head.lstm_layers, head.dropout)
            size = 2 * head.lstm_size
        self.classifier = nn.Linear(size, self.num_labels)
        self.post_init()
        self._apply_freezing()

    @can_return_tuple
    @takes_usual_arguments
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        state: ElmoState | None = None,
        output_hidden_states: bool | None = None,
        *,
        packed_layers: Tensor | None = None,
    ) -> TokenClassifierOutput:
        """Score the labels of each word.

        Args:
            input_ids: Character ids, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: Label ids, (B, T); -100 (sentence markers, padding) is left out of the loss.
            state: Carried LSTM states of the biLM.
            output_hidden_states: Whether to return the biLM's layers.
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Returns: Loss in nats per word and logits (B, T, num_labels).
        """
        words = self.embed(input_ids, attention_mask, state, output_hidden_states, packed_layers=packed_layers)
        vectors = words.last_hidden_state
        if self.lstm is not None:
            vectors = self.dropout(self.lstm(vectors, words.mask))
        logits = self.classifier(vectors)
        loss = None
        if labels is not None:
            check_labels(labels, input_ids, self.num_labels)
            loss = mean_cross_entropy(logits, labels)
            if self.training and self.config.mix_l2:
                loss = loss + self.penalty()
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=words.hidden_states)
