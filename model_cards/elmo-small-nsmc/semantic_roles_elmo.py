"""The semantic role model: for a predicate of a sentence, which words are its arguments and in which role.

Letters in shapes: B predicates, each with its sentence, T words, C characters per word, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .base_elmo import mean_cross_entropy
from .configuration_elmo import ElmoConfig
from .crf_elmo import decode_by_rules, forbidden_by
from .embeddings_elmo import ElmoEmbeddingsOutput, ElmoTaskModel
from .head_settings_elmo import SemanticRoleLabelingHead
from .highway_lstm_elmo import ElmoHighwayLSTM, ElmoHighwayLSTMLayer
from .inputs_elmo import check_labels, check_marks, takes_usual_arguments

# How arguments are marked, in all corpora that this package reads.
_SCHEME = "IOB2"


@dataclass
class ElmoSemanticRolesOutput(ModelOutput):
    """What `ElmoForSemanticRoleLabeling` returns.

    Args:
        loss: Mean over the words that have a label, in nats; with the classifier of predicates, and in training with
            the mix's penalty, the sum of both.
        logits: Scores of each word's labels, (B, T, K); None where no predicate was given. `decode` chooses by them.
        predicate_logits: The logarithm of the odds that a word is a predicate, (B, T), -inf where masked and at the
            sentence markers; None where the model finds none.
        hidden_states: The biLM's layers where they are asked for; see `ElmoModelOutput`.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    predicate_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoForSemanticRoleLabeling(ElmoTaskModel):
    """What is read of each word with the mark of the predicate beside it, highway LSTMs, and a label for each word.

    One row is one predicate with its sentence (He et al. 2017; Peters et al. 2018, A.5). The labels mark arguments by
    IOB2. `AutoModel` takes this class where a checkpoint is one of it, with `trust_remote_code` too, for transformers
    has no Auto class of this task.

    Raises: ValueError where the labels of the config are none of IOB2; transformers' own `LABEL_0` will do.
    """

    _auto_class = "AutoModel"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        head: SemanticRoleLabelingHead = config.require_head(SemanticRoleLabelingHead.type)
        super().__init__(config, head, num_read_mixes=2 if head.mix_at_output else 1)
        self.num_labels = cast("int", config.num_labels)
        self.mix_at_output = head.mix_at_output
        self.predicate_embedding = nn.Embedding(2, head.predicate_size)
        self.lstm = ElmoHighwayLSTM(
            self.input_size + head.predicate_size, head.hidden_size, head.num_layers, head.recurrent_dropout
        )
        self.classifier = nn.Linear(head.hidden_size + self.mix_size * head.mix_at_output, self.num_labels)
        self.finder: nn.Sequential | None = None
        if head.find_predicates:
            hidden = nn.Linear(self.input_size, head.finder_size)
            self.finder = nn.Sequential(hidden, nn.ReLU(), nn.Linear(head.finder_size, 1))
        names = cast("dict[int, str]", config.id2label)
        labels = [names[index] for index in range(self.num_labels)]
        are_unnamed = labels == [f"LABEL_{index}" for index in range(self.num_labels)]
        self._forbidden = forbidden_by(_SCHEME, ["O"] * self.num_labels if are_unnamed else labels)
        self.post_init()
        self._apply_freezing()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Orthogonal recurrences with open forget gates, all else as in the other models."""
        if isinstance(module, ElmoHighwayLSTMLayer):
            module.reset_parameters()
        else:
            super()._init_weights(module)

    @can_return_tuple
    @takes_usual_arguments
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        *,
        predicate_mask: Tensor | None = None,
        all_predicates: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> ElmoSemanticRolesOutput:
        """Score the labels of each word, given the predicate.

        Args:
            input_ids: Character ids, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: Label ids, (B, T); -100 (sentence markers, padding) is left out of the loss.
            output_hidden_states: Whether to return the biLM's layers.
            predicate_mask: 1 for the predicate of each row, (B, T). None scores no labels: it is for models that find
                predicates, which then say where they are.
            all_predicates: 1 for all predicates of each row's sentence, (B, T), from which those that find them learn.
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Raises: ValueError or TypeError naming the argument, what it was and what is wanted.
        """
        self._check_marks(input_ids, labels, predicate_mask, all_predicates)
        words = self.embed(
            input_ids, attention_mask, output_hidden_states=output_hidden_states, packed_layers=packed_layers
        )
        mask = cast("Tensor", words.mask)
        is_word = mask & ~self.is_marker(input_ids, mask)
        losses = []
        logits = predicate_logits = None
        if predicate_mask is not None:
            logits = self._score_labels(words, is_word, predicate_mask)
            if labels is not None:
                check_labels(labels, input_ids, self.num_labels)
                losses.append(mean_cross_entropy(logits, labels))
        if self.finder is not None:
            scores = self.finder(words.last_hidden_state).squeeze(-1).float()
            predicate_logits = scores.masked_fill(~is_word, -torch.inf)
            if all_predicates is not None:
                wanted = all_predicates.float()
                each = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
                losses.append(torch.where(is_word, each, 0.0).sum() / is_word.sum().clamp(min=1))
        if losses and self.training and self.config.mix_l2 and self.uses_elmo:
            losses.append(self.penalty())
        return ElmoSemanticRolesOutput(
            loss=torch.stack(losses).sum() if losses else None,
            logits=logits,
            predicate_logits=predicate_logits,
            hidden_states=words.hidden_states,
        )

    def decode(self, logits: Tensor, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The likeliest labels of each row that IOB2 allows, (B, T); -100 where masked and at sentence markers.

        Args:
            logits: As `forward` gives them, (B, T, K).
            input_ids, attention_mask: As it was given them.
        """
        mask = self.elmo.word_mask(input_ids, attention_mask)
        return self.decode_words(logits, mask & ~self.is_marker(input_ids, mask))

    def decode_words(self, logits: Tensor, is_word: Tensor) -> Tensor:
        """As `decode`, of the words that are marked, (B, T)."""
        return decode_by_rules(logits.float().log_softmax(dim=-1), is_word, self._forbidden)

    def _score_labels(self, words: ElmoEmbeddingsOutput, is_word: Tensor, predicate_mask: Tensor) -> Tensor:
        """The scores of all labels, (B, T, K)."""
        marks = self.predicate_embedding(predicate_mask.long())
        vectors = self.lstm(torch.cat([cast("Tensor", words.last_hidden_state), marks], dim=-1), is_word)
        if self.mix_at_output:
            mixes = cast("tuple[Tensor, ...]", words.elmo_representations)
            vectors = torch.cat([vectors, mixes[1]], dim=-1)
        return self.classifier(vectors)

    def _check_marks(
        self, input_ids: Tensor, labels: Tensor | None, predicate_mask: Tensor | None, all_predicates: Tensor | None
    ) -> None:
        if predicate_mask is None and (labels is not None or self.finder is None):
            raise ValueError(
                "predicate_mask is None, but labels are those of a predicate's arguments; give 1 for the predicate and "
                "0 for all other words. A model whose head has find_predicates=True can be asked for predicates alone."
            )
        if all_predicates is not None and self.finder is None:
            raise ValueError(
                "all_predicates is given, but this model finds no predicates; leave it out, or set "
                "find_predicates=True in its head."
            )
        for name, marks in (("predicate_mask", predicate_mask), ("all_predicates", all_predicates)):
            if marks is not None:
                check_marks(name, marks, input_ids)
