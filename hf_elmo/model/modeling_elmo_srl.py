"""Semantic role labeling over ELMo's mixes (He et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig, SemanticRoleLabelingHead
from .modeling_elmo import (
    ElmoTaskModel,
    PackedOrder,
    check_word_labels,
    is_traced,
    mean_cross_entropy,
    order_words,
    scan_words,
)
from .modeling_elmo_tasks import best_labels, forbidden_by, join, split_steps


class _HighwaySteps(torch.autograd.Function):
    """Highway LSTMs over packed words: gates i, f, o, t, g by inputs and biases, (N, 5H), K x, (N, H), to (N, H)."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, around: Tensor, recurrent: Tensor, kept: Tensor | None, order: PackedOrder
    ) -> Tensor:
        sizes, size = order.sizes, recurrent.shape[1]
        gates = gates.clone()
        outputs, cells, tanh_cells = gates.new_empty(3, len(gates), size)
        back = recurrent.t()
        hidden = cell = gates.new_zeros(sizes[0], size)
        parts = (gates, *gates.split(size, dim=1), gates[:, : 4 * size], around, outputs, cells, tanh_cells)
        for number, total, i, f, o, t, g, sigmoids, k, output, new_cell, tanh_cell in split_steps(sizes, *parts):
            before = hidden[:number]
            total.addmm_(before if kept is None else before * kept[:number], back)
            sigmoids.sigmoid_()
            g.tanh_()
            torch.mul(f, cell[:number], out=new_cell).addcmul_(i, g)
            torch.tanh(new_cell, out=tanh_cell)
            # t m + (1 - t) k = k + t (m - k)
            torch.mul(o, tanh_cell, out=output).sub_(k).mul_(t).add_(k)
            hidden, cell = output, new_cell
        ctx.save_for_backward(gates, around, recurrent, kept, outputs, cells, tanh_cells)
        ctx.order = order
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        gates, around, recurrent, kept, outputs, cells, tanh_cells = ctx.saved_tensors
        order, size = ctx.order, recurrent.shape[1]
        first = order.sizes[0]
        i, f, o, t, g = gates.split(size, dim=1)
        # What a gradient of c, and for o and t one of h, is multiplied by on its way to each gate.
        grad_gates = gates * (1 - gates)
        of_i, of_f, of_o, of_t, of_g = grad_gates.split(size, dim=1)
        of_i.mul_(g)
        of_f[:first] = 0.0
        of_f[first:].mul_(cells.index_select(0, order.before))
        of_o.mul_(t * tanh_cells)
        of_t.mul_(o * tanh_cells - around)
        torch.mul(i, 1 - g * g, out=of_g)
        to_cell = t * o * (1 - tanh_cells * tanh_cells)
        grad_hidden = grad_outputs.clone()
        grad_cell = gates.new_zeros(first, size)
        by_cell, by_hidden = grad_gates[:, : 4 * size].unflatten(1, (2, 2, size)).unbind(1)
        steps = split_steps(order.sizes, grad_hidden, to_cell, by_cell, by_hidden, of_g, f, grad_gates)
        product = torch.empty_like(grad_cell)
        for place in reversed(range(len(steps))):
            number, grad, slope, of_i_and_f, of_o_and_t, of_candidate, forget, total = steps[place]
            state = grad_cell[:number].addcmul_(grad, slope)
            of_i_and_f.mul_(state.unsqueeze(1))
            of_candidate.mul_(state)
            of_o_and_t.mul_(grad.unsqueeze(1))
            state.mul_(forget)
            if place and kept is None:
                steps[place - 1][1][:number].addmm_(total, recurrent)
            elif place:
                torch.mm(total, recurrent, out=product[:number])
                steps[place - 1][1][:number].addcmul_(product[:number], kept[:number])
        before = outputs.index_select(0, order.before)
        if kept is not None:
            before *= torch.cat([kept[:number] for number in order.sizes])[first:]
        grad_recurrent = torch.mm(grad_gates[first:].t(), before, out=torch.empty_like(recurrent))
        return grad_gates, grad_hidden * (1 - t), grad_recurrent, None, None


class ElmoHighwayLSTMLayer(nn.Module):
    """One layer, reading in one direction (Zhang et al. 2016; He et al. 2017, sec. 2.1).

    A step is c = sigmoid(f) c + sigmoid(i) tanh(g) and h = t sigmoid(o) tanh(c) + (1 - t) K x, with t a sigmoid too. As
    in AllenNLP, recurrent dropout multiplies the h that comes back by the same factors `kept`, 0 or 1 / (1 - dropout),
    in all steps of a sentence, (B, H) (Gal and Ghahramani 2016).
    """

    def __init__(self, input_size: int, hidden_size: int, reverse: bool):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(5 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(5 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(5 * hidden_size))
        self.weight_carry = nn.Parameter(torch.empty(hidden_size, input_size))
        self.hidden_size = hidden_size
        self.reverse = reverse

    def scan(self, inputs: Tensor, mask: Tensor, kept: Tensor | None = None) -> Tensor:
        """Run over a padded batch by the definition, (B, T, D) to (B, T, H), zero where masked."""

        def step(before: tuple[Tensor, Tensor], read: tuple[Tensor, ...]) -> tuple[tuple[Tensor, Tensor], Tensor]:
            (hidden, cell), (of_word, around) = before, read
            gates = of_word + F.linear(hidden if kept is None else hidden * kept, self.weight_hh)
            input_gate, forget_gate, output_gate, transform_gate, candidate = gates.chunk(5, dim=-1)
            new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
            cell_output = torch.sigmoid(output_gate) * torch.tanh(new_cell)
            transform = torch.sigmoid(transform_gate)
            new_hidden = transform * cell_output + (1 - transform) * around
            return (new_hidden, new_cell), new_hidden

        parts = F.linear(inputs, self.weight_ih, self.bias), F.linear(inputs, self.weight_carry)
        zeros = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        return scan_words(step, (zeros, zeros), parts, mask, reverse=self.reverse)[0]

    def run_packed(self, words: Tensor, order: PackedOrder, kept: Tensor | None) -> Tensor:
        """As `scan`, over the words of an order, (N, D) to (N, H)."""
        # Backwards it reads mirrored sentences, from their last word.
        words = words.index_select(0, order.mirrored) if self.reverse else words
        kept = None if kept is None else kept[order.sentences]
        gates, around = F.linear(words, self.weight_ih, self.bias), F.linear(words, self.weight_carry)
        outputs = cast("Tensor", _HighwaySteps.apply(gates, around, self.weight_hh, kept, order))
        return outputs.index_select(0, order.mirrored) if self.reverse else outputs

    @torch.no_grad()
    def init_weights(self) -> None:
        """Draw orthogonal matrices and open the forget gates; weights that were loaded stay."""
        for parameter in (self.weight_ih, self.weight_hh, self.weight_carry):
            if not getattr(parameter, "_is_hf_initialized", False):
                for block in parameter.split(self.hidden_size):
                    # Half precision knows no orthogonal matrices.
                    block.copy_(nn.init.orthogonal_(torch.empty_like(block, dtype=torch.float32)))
        if not getattr(self.bias, "_is_hf_initialized", False):
            self.bias.zero_()
            self.bias[self.hidden_size : 2 * self.hidden_size] = 1.0


class ElmoHighwayLSTM(nn.Module):
    """Layers of highway LSTMs in turns of direction, the first one forward (He et al. 2017: 8 of them)."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, recurrent_dropout: float):
        super().__init__()
        sizes = [input_size, *[hidden_size] * (num_layers - 1)]
        self.layers = nn.ModuleList(
            ElmoHighwayLSTMLayer(size, hidden_size, reverse=number % 2 == 1) for number, size in enumerate(sizes)
        )
        self.hidden_size = hidden_size
        self.recurrent_dropout = recurrent_dropout

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Run over (B, T, D) vectors, with mask (B, T) True for real words, to (B, T, H); zero where masked."""
        if is_traced():
            return self.run_reference(vectors, mask)
        order = order_words(mask, min_words=1)
        # Under autocast a product would come out in another dtype than what the steps write to.
        with torch.autocast(vectors.device.type, enabled=False):
            words = order.pack(vectors)
            for layer in cast("Iterable[ElmoHighwayLSTMLayer]", self.layers):
                # The mix may come in another precision.
                words = words.to(layer.bias.dtype)
                words = layer.run_packed(words, order, self._draw_kept(words, len(vectors)))
        return order.unpack(words, mask)

    def run_reference(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """As `forward`, by the definition of each step."""
        for layer in cast("Iterable[ElmoHighwayLSTMLayer]", self.layers):
            vectors = vectors.to(layer.bias.dtype)
            vectors = layer.scan(vectors, mask, self._draw_kept(vectors, vectors.shape[0]))
        return vectors

    def _draw_kept(self, vectors: Tensor, num_sentences: int) -> Tensor | None:
        if not (self.training and self.recurrent_dropout):
            return None
        return F.dropout(vectors.new_ones(num_sentences, self.hidden_size), self.recurrent_dropout)


_SCHEME = "IOB2"  # of the arguments, in all corpora


@dataclass
class ElmoSemanticRolesOutput(ModelOutput):
    """Output of `ElmoForSemanticRoleLabeling`; hidden states are as in `ElmoModelOutput`.

    Args:
        loss: Mean over the labeled words, in nats, plus that of the classifier of predicates.
        logits: Scores of each word's labels, (B, T, K), for `decode`; None without a predicate.
        predicate_logits: Log-odds that a word is a predicate, (B, T), -inf where masked and at the special tokens; None
            if the model finds none.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    predicate_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


class ElmoForSemanticRoleLabeling(ElmoTaskModel):
    """Highway LSTMs over each word and the mark of the predicate, and a label for each word, by IOB2.

    A row is a predicate with its sentence (He et al. 2017; Peters et al. 2018, A.5). transformers has no Auto class for
    this task: `AutoModel` takes this class for its checkpoints.
    """

    _auto_class = "AutoModel"  # type: ignore[assignment]
    head_class = SemanticRoleLabelingHead

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(SemanticRoleLabelingHead)
        self.num_labels = cast("int", config.num_labels)
        self.predicate_embedding = nn.Embedding(2, head.predicate_size)
        self.lstm = ElmoHighwayLSTM(
            self.input_size + head.predicate_size, head.hidden_size, head.num_layers, head.recurrent_dropout
        )
        self.classifier = nn.Linear(head.hidden_size + self.output_mix_size, self.num_labels)
        self.finder: nn.Sequential | None = None
        if head.find_predicates:
            hidden = nn.Linear(self.input_size, head.finder_size)
            self.finder = nn.Sequential(hidden, nn.ReLU(), nn.Linear(head.finder_size, 1))
        labels = config.label_names
        are_unnamed = labels == [f"LABEL_{index}" for index in range(self.num_labels)]
        self._forbidden = forbidden_by(_SCHEME, ["O"] * self.num_labels if are_unnamed else labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        predicate_mask: Tensor | None = None,
        all_predicates: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> ElmoSemanticRolesOutput:
        """Score the K labels of each word, given the predicate; arguments as `ElmoModel`'s without a state, and:

        Args:
            labels: Label ids, (B, T); -100 (special tokens, padding) is left out of the loss.
            predicate_mask: 1 for the predicate of each row, (B, T); None only asks where predicates are
                (`find_predicates`).
            all_predicates: 1 for all predicates of each row's sentence, (B, T), for the loss of finding them.
        """
        if predicate_mask is None and (labels is not None or self.finder is None):
            raise ValueError(
                "predicate_mask is None, but labels are those of a predicate's arguments; give 1 for the predicate and "
                "0 for all other words. A model whose head has find_predicates=True can be asked for predicates alone."
            )
        words = self.embed(input_ids, attention_mask, token_type_ids, packed_layers, **kwargs)
        is_word = self.without_special(input_ids, words.mask)
        losses = []
        logits = predicate_logits = None
        if predicate_mask is not None:
            marks = self.predicate_embedding(predicate_mask.long())
            vectors = self.lstm(torch.cat([words.last_hidden_state, marks], dim=-1), is_word)
            logits = self.classifier(join(vectors, self.second_mix(words)))
            if labels is not None:
                check_word_labels(labels, words.mask)
                losses.append(mean_cross_entropy(logits, labels))
        if self.finder is not None:
            scores = self.finder(words.last_hidden_state).squeeze(-1).float()
            predicate_logits = scores.masked_fill(~is_word, -torch.inf)
            if all_predicates is not None:
                each = F.binary_cross_entropy_with_logits(scores, all_predicates.float(), reduction="none")
                losses.append(torch.where(is_word, each, 0.0).sum() / is_word.sum().clamp(min=1))
        return ElmoSemanticRolesOutput(
            loss=self.add_penalty(torch.stack(losses).sum()) if losses else None,
            logits=logits,
            predicate_logits=predicate_logits,
            hidden_states=words.hidden_states,
        )

    def decode(self, logits: Tensor, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The likeliest labels that IOB2 allows, by logits (B, T, K); -100 where masked or special."""
        mask = self.elmo.word_mask(input_ids, attention_mask)
        return self.decode_words(logits, self.without_special(input_ids, mask))

    def decode_words(self, logits: Tensor, is_word: Tensor) -> Tensor:
        """As `decode`, of the words that are marked, (B, T)."""
        return best_labels(logits.float().log_softmax(dim=-1), is_word, self._forbidden)
