"""The question answering model: where in a context the answer to a question stands.

Letters in shapes: B pairs of a question and a context, T words of a pair with their markers, C characters per word.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import initialization as init
from transformers.modeling_outputs import QuestionAnsweringModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig
from .embeddings_elmo import ElmoTaskModel
from .head_settings_elmo import QuestionAnsweringHead
from .inputs_elmo import IGNORED_LABEL, check_positions, takes_usual_arguments
from .pairs_elmo import ElmoSentences, words_of_pairs
from .question_readers_elmo import READERS, ElmoSelfAttention, ElmoTrilinear, TextVectors
from .sequence_encoders_elmo import ElmoDense
from .task_encoders_elmo import ElmoTaskRNN, initialize_recurrence


class ElmoForQuestionAnswering(ElmoTaskModel):
    """Answers that stand in a context, by their first and their last word (Peters et al. 2018, sec. 4 and A.4).

    The head's settings, a `QuestionAnsweringHead`, choose the reader. A row is a pair from the tokenizer, the question
    first: `tokenizer(question, context)`. The sentence markers are read by the biLM alone.
    """

    _auto_class = "AutoModelForQuestionAnswering"  # type: ignore[assignment]

    def __init__(self, config: ElmoConfig):
        head = config.require_head(QuestionAnsweringHead)
        super().__init__(config, head, num_read_mixes=2 if head.mix_at_output else 1)
        self.mix_at_output = head.mix_at_output
        self.max_answer_words = head.max_answer_words
        self.reader = READERS[head.reader](self.input_size, self.mix_size * head.mix_at_output, head)
        self.post_init()
        self._apply_freezing()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Dense layers and scores by Glorot's rule, recurrences orthogonal, no word preferred to one of the context."""
        if isinstance(module, (ElmoDense, ElmoTrilinear)):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, ElmoTaskRNN):
            initialize_recurrence(module)
        elif isinstance(module, ElmoSelfAttention):
            init.constant_(module.score_of_none, -1.0)
        else:
            super()._init_weights(module)

    @can_return_tuple
    @takes_usual_arguments
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        output_hidden_states: bool | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
    ) -> QuestionAnsweringModelOutput:
        """Score each word of the contexts as the first and as the last one of the answer.

        Args:
            input_ids: Character ids of pairs, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            start_positions: The row of the answer's first word, (B,); -100 where there is none in this row.
            end_positions: The row of its last word, (B,), as `start_positions`.
            output_hidden_states: Whether to return the biLM's layers.
            token_type_ids: 0 for the words of the questions, 1 for those of the contexts, (B, T).
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Returns: The loss, the mean of the start's and the end's cross entropy, each the mean over the rows that have an
            answer (0 where none has one), with the mix's penalty in training; and `start_logits` and `end_logits`,
            (B, T), which have their dtype's lowest number for all but the context's words. `best_spans` reads them.
        Raises: ValueError or TypeError naming the argument, what it was and what is wanted.
        """
        if token_type_ids is None:
            raise ValueError(
                "token_type_ids is None, but this model reads pairs of a question and a context; call the tokenizer "
                "with text (the question) and text_pair (the context), and pass on what it gives."
            )
        words = self.embed(
            input_ids,
            attention_mask,
            output_hidden_states=output_hidden_states,
            token_type_ids=token_type_ids,
            packed_layers=packed_layers,
        )
        mask = self.without_markers(input_ids, cast("Tensor", words.mask), token_type_ids)
        is_question, is_answer = words_of_pairs(mask, token_type_ids)
        question, context = ElmoSentences(is_question), ElmoSentences(is_answer)
        mix = cast("tuple[Tensor, ...]", words.elmo_representations)[1] if self.mix_at_output else None
        vectors = cast("Tensor", words.last_hidden_state)
        scores = self.reader(*(_text_vectors(sentences, vectors, mix) for sentences in (question, context)))
        logits = context.together(torch.stack(scores, dim=-1))
        start, end = logits.masked_fill(~is_answer.unsqueeze(-1), torch.finfo(logits.dtype).min).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            positions = {"start_positions": start_positions, "end_positions": end_positions}
            for name, given in positions.items():
                check_positions(name, given, is_answer)
            loss = torch.stack([_loss(start, start_positions), _loss(end, end_positions)]).mean()
            if self.training and self.config.mix_l2 and self.uses_elmo:
                loss = loss + self.penalty()
        return QuestionAnsweringModelOutput(
            loss=loss, start_logits=start, end_logits=end, hidden_states=words.hidden_states
        )

    def best_spans(self, start_logits: Tensor, end_logits: Tensor) -> AnswerSpans:
        """The best answers by these logits, as long as the head's settings allow; see the function of this name."""
        return best_spans(start_logits, end_logits, self.max_answer_words)


class AnswerSpans(NamedTuple):
    """The best answer of each row.

    Args:
        starts: The row of its first word, (B,).
        ends: The row of its last word, (B,).
        probabilities: That of its start times that of its end, (B,), float32.
    """

    starts: Tensor
    ends: Tensor
    probabilities: Tensor


def best_spans(start_logits: Tensor, end_logits: Tensor, max_words: int | None = None) -> AnswerSpans:
    """The answers of the largest sum of a start's and an end's score, whose end does not stand before their start.

    Args:
        start_logits: (B, T), as the model gives them.
        end_logits: (B, T).
        max_words: Words that an answer may have; None for no bound.
    Raises: ValueError where max_words is below 1, or the shapes differ.
    """
    if start_logits.shape != end_logits.shape or start_logits.ndim != 2:
        raise ValueError(
            f"start_logits has the shape {tuple(start_logits.shape)} and end_logits {tuple(end_logits.shape)}; wanted "
            "(rows, words) for both."
        )
    if max_words is not None and max_words < 1:
        raise ValueError(f"max_words is {max_words}; it must be an integer >= 1, or None.")
    length = start_logits.shape[1]
    width = length if max_words is None else min(max_words, length)
    # Probabilities, so that sums of two lowest numbers stay finite.
    starts, ends = start_logits.float().log_softmax(dim=-1), end_logits.float().log_softmax(dim=-1)
    best_ends, steps = F.pad(ends, (0, width - 1), value=-torch.inf).unfold(1, width, 1).max(dim=-1)
    best, first = (starts + best_ends).max(dim=-1)
    last = first + steps.gather(1, first.unsqueeze(1)).squeeze(1)
    return AnswerSpans(first, last, best.exp())


def _loss(logits: Tensor, positions: Tensor) -> Tensor:
    """The mean cross entropy over the rows that have a position, in float32 whatever the model's precision."""
    total = F.cross_entropy(logits.float(), positions, ignore_index=IGNORED_LABEL, reduction="sum")
    return total / (positions != IGNORED_LABEL).sum().clamp(min=1)


def _text_vectors(sentences: ElmoSentences, vectors: Tensor, mix: Tensor | None) -> TextVectors:
    """What the reader reads of the questions or of the contexts, each text no longer than the longest of its kind."""
    return TextVectors(sentences.apart(vectors), sentences.mask, None if mix is None else sentences.apart(mix))
