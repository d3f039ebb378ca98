"""The token classification model: a label for each word, by itself or with those of the whole sentence.

Letters in shapes: B sentences, T words, C characters per word, K labels.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .base_elmo import mean_cross_entropy
from .configuration_elmo import ElmoConfig
from .crf_elmo import ElmoCRF
from .embeddings_elmo import ElmoTaskModel
from .head_settings_elmo import TokenClassificationHead
from .inputs_elmo import IGNORED_LABEL, check_labels, takes_usual_arguments
from .layers_elmo import ElmoState
from .task_encoders_elmo import ElmoTaskLSTM

# So far above the likeliest label of a word that of the best sequence is raised, where it is another one.
_ABOVE = 1e-3


class ElmoForTokenClassification(ElmoTaskModel):
    """What is read of each word, a biLSTM and a classifier, a CRF on top where wanted (Peters et al. 2018, A.7).

    With a CRF the labels of a sentence are chosen together. `logits` then are, in evaluation mode, the logarithms of
    each label's probability given the whole sentence; where the best sequence that the scheme allows (Viterbi) takes
    another label than the likeliest one of a word, that is raised just above it. So the largest logit of each word is
    always its label in the best sequence, for pipelines and Trainers too, and no gradients come back through them. In
    training mode, where nobody reads labels, they are the scores that the CRF is given.
    """

    _auto_class = "AutoModelForTokenClassification"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        head: TokenClassificationHead = config.require_head(TokenClassificationHead.type)
        super().__init__(config, head, 2 if head.mix_at_output else 1)
        self.num_labels = cast("int", config.num_labels)
        self.mix_at_output = head.mix_at_output
        self.lstm_reads_markers = head.lstm_reads_markers
        size = self.input_size
        self.lstm: ElmoTaskLSTM | None = None
        if head.lstm_layers:
            self.lstm = ElmoTaskLSTM(size, head.lstm_size, head.lstm_layers, head.dropout)
            size = 2 * head.lstm_size + self.mix_size * head.mix_at_output
        self.classifier = nn.Linear(size, self.num_labels)
        self.crf: ElmoCRF | None = None
        if head.output_layer == "crf":
            names = cast("dict[int, str]", config.id2label)
            self.crf = ElmoCRF([names[index] for index in range(self.num_labels)], head.scheme)
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
        Returns: Loss in nats per word and logits (B, T, K); of a CRF see above.
        """
        words = self.embed(input_ids, attention_mask, state, output_hidden_states, packed_layers=packed_layers)
        vectors, mask = cast("Tensor", words.last_hidden_state), cast("Tensor", words.mask)
        if self.lstm is not None:
            is_read = mask if self.lstm_reads_markers else mask & ~self.is_marker(input_ids, mask)
            vectors = self.dropout(self.lstm(vectors, is_read))
            if self.mix_at_output:
                mixes = cast("tuple[Tensor, ...]", words.elmo_representations)
                vectors = torch.cat([vectors, mixes[1]], dim=-1)
        scores = self.classifier(vectors)
        loss = None
        if labels is not None:
            check_labels(labels, input_ids, self.num_labels)
            loss = self._loss(scores, labels, mask)
            if self.training and self.config.mix_l2 and self.uses_elmo:
                loss = loss + self.penalty()
        logits = scores if self.crf is None or self.training else self._decode(scores, input_ids, mask)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=words.hidden_states)

    def _loss(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The mean over the words that have a label, in nats; zero, not nan, where there is none."""
        if self.crf is None:
            return mean_cross_entropy(scores, labels)
        has_label = mask & (labels != IGNORED_LABEL)
        return -self.crf(scores, labels, has_label).sum() / has_label.sum().clamp(min=1)

    @torch.no_grad()
    def _decode(self, scores: Tensor, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Log-probabilities of the labels, (B, T, K), the largest of each word that of the best sequence."""
        crf = cast("ElmoCRF", self.crf)
        is_word = mask & ~self.is_marker(input_ids, mask)
        logits = crf.marginals(scores, is_word).clamp(min=torch.finfo(torch.float32).tiny).log()
        best, _ = crf.decode(scores, is_word)
        likeliest, first = logits.max(dim=-1)
        is_raised = (is_word & (best != first)).unsqueeze(-1)
        is_best = best.unsqueeze(-1) == torch.arange(self.num_labels, device=best.device)
        return torch.where(is_raised & is_best, likeliest.unsqueeze(-1) + _ABOVE, logits)
