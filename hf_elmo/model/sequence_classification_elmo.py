"""The sequence classification model: labels, or numbers, for whole texts and for pairs of them.

Letters in shapes: B texts or pairs, T words, C characters per word, K labels.
"""

from __future__ import annotations

import itertools
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig
from .embeddings_elmo import ElmoTaskModel
from .head_settings_elmo import SequenceClassificationHead
from .inputs_elmo import check_text_labels, check_token_types, guess_problem_type, takes_usual_arguments
from .pairs_elmo import ElmoSentences, words_of_pairs
from .sequence_encoders_elmo import TEXT_ENCODERS, ElmoDense, ElmoVariationalDropout
from .task_encoders_elmo import ElmoTaskLSTM, initialize_recurrence
from .tracing_elmo import is_traced


class ElmoForSequenceClassification(ElmoTaskModel):
    """Sentiment, entailment and their like: an encoder over the words of a text, or of a pair, and dense layers.

    The head's settings, a `SequenceClassificationHead`, choose the encoder. The sentence markers are read by the biLM
    alone.
    """

    _auto_class = "AutoModelForSequenceClassification"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        head = config.require_head(SequenceClassificationHead)
        super().__init__(config, head, num_read_mixes=2 if head.mix_at_output else 1)
        self.num_labels = cast("int", config.num_labels)
        if head.encoder == "esim":
            self.dropout = ElmoVariationalDropout(head.dropout)
        self.mix_at_output = head.mix_at_output
        self.encoder_name = head.encoder
        self.text_encoder = TEXT_ENCODERS[head.encoder](self.input_size, self.mix_size * head.mix_at_output, head)
        activation = head.output_activation
        sizes = [self.text_encoder.output_size, *cast("list[int]", head.output_sizes)]
        *dropouts, last_dropout = map(nn.Dropout, cast("list[float]", head.output_dropouts))
        layers = (ElmoDense(*pair, activation) for pair in itertools.pairwise(sizes))
        parts = [part for pair in zip(dropouts, layers, strict=True) for part in pair]
        self.output = nn.Sequential(*parts, last_dropout)
        self.classifier = ElmoDense(sizes[-1], self.num_labels, "maxout" if activation == "maxout" else None)
        self.post_init()
        self._apply_freezing()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Dense layers by Glorot's rule, recurrences orthogonal, the forget gates of ESIM open (Chen et al. 2017)."""
        if isinstance(module, ElmoDense):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, ElmoTaskLSTM):
            initialize_recurrence(module)
            for name, parameter in module.named_parameters():
                # One of the two biases that are added; a part of one that was loaded does not say so itself.
                is_loaded = getattr(parameter, "_is_hf_initialized", False)
                if self.encoder_name == "esim" and name.startswith("bias_hh") and not is_loaded:
                    init.ones_(parameter[module.hidden_size : 2 * module.hidden_size])
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
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> SequenceClassifierOutput:
        """Score the labels of each text or pair.

        Args:
            input_ids: Character ids, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: Label ids, (B,); numbers, (B,) or (B, K), for a regression; or K zeros and ones for each text,
                (B, K). The config's `problem_type` says which, or else the first labels that are seen, as in
                transformers: a regression where there is one label, integers for one label a text.
            output_hidden_states: Whether to return the biLM's layers.
            token_type_ids: 1 for the words of the second text of a pair, (B, T); encoders of pairs want it.
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Returns: The mean loss, with the mix's penalty in training, and logits, (B, K).
        Raises: ValueError or TypeError naming the argument, what it was and what is wanted.
        """
        words = self.embed(
            input_ids,
            attention_mask,
            output_hidden_states=output_hidden_states,
            token_type_ids=token_type_ids,
            packed_layers=packed_layers,
        )
        mask = self.without_markers(input_ids, cast("Tensor", words.mask), token_type_ids)
        vectors, mix = cast("Tensor", words.last_hidden_state), None
        if self.mix_at_output:
            mix = cast("tuple[Tensor, ...]", words.elmo_representations)[1]
        if self.text_encoder.reads_pairs:
            pairs = ElmoSentences(*words_of_pairs(mask, self._types_of_pairs(token_type_ids)))
            vectors, mix, mask = pairs.apart(vectors), None if mix is None else pairs.apart(mix), pairs.mask
        elif token_type_ids is not None:
            self._refuse_pairs(token_type_ids, input_ids)
        logits = self.classifier(self.output(self.text_encoder(vectors, mask, mix)))
        loss = None if labels is None else self._compute_loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=words.hidden_states)

    def _types_of_pairs(self, token_type_ids: Tensor | None) -> Tensor:
        if token_type_ids is None:
            raise ValueError(
                f"token_type_ids is None, but this model's encoder ({self.encoder_name!r}) reads pairs; call "
                "the tokenizer with text and text_pair, and pass on what it gives (an empty text_pair will do)."
            )
        return token_type_ids

    def _refuse_pairs(self, token_type_ids: Tensor, input_ids: Tensor) -> None:
        if not is_traced() and check_token_types(token_type_ids, input_ids, state=None):
            raise ValueError(
                f"token_type_ids marks second texts of pairs, but this model's encoder ({self.encoder_name!r}) "
                "reads single texts; give it one text a row, or take one for pairs (esim, pooled_pairs)."
            )

    def _compute_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        kind = self.config.problem_type or guess_problem_type(labels, self.num_labels)
        check_text_labels(labels, logits, kind)
        if self.config.problem_type is None:
            # Pipelines read it, and later batches are of the same kind.
            self.config.problem_type = kind  # type: ignore[assignment]
        # In float32 whatever the model's precision.
        scores = logits.float()
        if kind == "regression":
            loss = F.mse_loss(scores, labels.view_as(scores).float())
        elif kind == "multi_label_classification":
            loss = F.binary_cross_entropy_with_logits(scores, labels.float())
        else:
            loss = F.cross_entropy(scores, labels.long())
        if self.training and self.config.mix_l2 and self.uses_elmo:
            loss = loss + self.penalty()
        return loss
