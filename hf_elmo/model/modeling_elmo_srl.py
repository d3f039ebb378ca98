"""Semantic role labeling over ELMo's mixes (He et al. 2017)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers.utils import ModelOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig, SemanticRoleLabelingHead
from .modeling_elmo import (
    ElmoEmbeddingsOutput,
    ElmoTaskModel,
    check_word_labels,
    is_traced,
    mean_cross_entropy,
    order_words,
    scan_words,
)
from .modeling_elmo_tasks import decode_by_rules, forbidden_by, join, split_steps

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class HighwayLSTMWeights(NamedTuple):
    """The weights of one layer."""

    input: Tensor  # (5H, D)
    recurrent: Tensor  # (5H, H)
    bias: Tensor  # (5H,)
    carry: Tensor  # (H, D), for what goes round the cell


def scan_highway_lstm(
    inputs: Tensor,
    mask: Tensor,
    weights: HighwayLSTMWeights,
    kept: Tensor | None = None,
    *,
    reverse: bool = False,
) -> Tensor:
    """Run one layer over a padded batch by its definition (Zhang et al. 2016; He et al. 2017, sec. 2.1).

    A step is c = sigmoid(f) c + sigmoid(i) tanh(g) and h = t sigmoid(o) tanh(c) + (1 - t) K x, with t a sigmoid too.
    Recurrent dropout multiplies the h that comes back by the same `kept` in all steps (Gal and Ghahramani 2016), as
    AllenNLP does; deep_srl drops what goes up to the next layer too.

    Args:
        inputs: Word vectors, (B, T, D).
        mask: True for real words, (B, T). Others neither change the state nor give output.
        weights: The layer's weights.
        kept: What of each sentence's h comes back, 0 or 1 / (1 - dropout), (B, H); None for all of it.
        reverse: Read from the last word to the first.
    Returns: Outputs, (B, T, H), zero where masked.
    """
    input_gates = F.linear(inputs, weights.input, weights.bias)
    carried = F.linear(inputs, weights.carry)

    def step(before: tuple[Tensor, Tensor], read: tuple[Tensor, ...]) -> tuple[tuple[Tensor, Tensor], Tensor]:
        (hidden, cell), (of_word, around) = before, read
        gates = of_word + F.linear(hidden if kept is None else hidden * kept, weights.recurrent)
        input_gate, forget_gate, output_gate, transform_gate, candidate = gates.chunk(5, dim=-1)
        new_cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        cell_output = torch.sigmoid(output_gate) * torch.tanh(new_cell)
        transform = torch.sigmoid(transform_gate)
        new_hidden = transform * cell_output + (1 - transform) * around
        return (new_hidden, new_cell), new_hidden

    zeros = inputs.new_zeros(inputs.shape[0], weights.carry.shape[0])
    return scan_words(step, (zeros, zeros), (input_gates, carried), mask, reverse=reverse)[0]


def run_highway_lstm(
    words: Tensor,
    sizes: Sequence[int],
    weights: HighwayLSTMWeights,
    kept: Tensor | None = None,
    *,
    reverse: bool = False,
) -> Tensor:
    """As `scan_highway_lstm`, over packed words: one product of all inputs, and one product in each step.

    Gradients are written out, so that a step back is one product too, and those of the weights are one for all steps.

    Args:
        words: The vectors of all words, those of the first step first, (N, D).
        sizes: Sentences that have a word in each step, falling; they are the first ones.
        weights, kept, reverse: As there; the rows of `kept` are the sentences in the order of `words`.
    Returns: Outputs, (N, H).
    """
    return cast("Tensor", _PackedScan.apply(words, *weights, kept, sizes, reverse))


class _PackedScan(torch.autograd.Function):
    """The optimized implementation: forward and backward steps over packed words."""

    @staticmethod
    def forward(
        ctx: Any,
        words: Tensor,
        weight: Tensor,
        recurrent: Tensor,
        bias: Tensor,
        carry: Tensor,
        kept: Tensor | None,
        sizes: Sequence[int],
        reverse: bool,
    ) -> Tensor:
        # Under autocast a product would come out in another dtype than the buffers that it is written to.
        with torch.autocast(words.device.type, enabled=False):
            gates = torch.addmm(bias, words, weight.t())
            carried = words @ carry.t()
            cell_size = carried.shape[1]
            # What each step finds, what it makes, and tanh of its cell.
            hidden_before, cells_before, tanh_cells, outputs = words.new_empty(4, len(words), cell_size)
            hidden, cell = words.new_zeros(2, sizes[0], cell_size)
            steps = split_steps(
                sizes, gates, *gates.split(cell_size, dim=1), carried, hidden_before, cells_before, tanh_cells,
                outputs, reverse=reverse,
            )  # fmt: skip
            back = recurrent.t()
            for size, total, i, f, o, t, g, around, h_before, c_before, tanh_cell, output in steps:
                if kept is None:
                    h_before.copy_(hidden[:size])
                else:
                    torch.mul(hidden[:size], kept[:size], out=h_before)
                c_before.copy_(cell[:size])
                total.addmm_(h_before, back)
                total[:, : 4 * cell_size].sigmoid_()
                g.tanh_()
                new_cell = cell[:size].mul_(f).addcmul_(i, g)
                torch.tanh(new_cell, out=tanh_cell)
                # t m + (1 - t) k = k + t (m - k)
                torch.mul(o, tanh_cell, out=output).sub_(around).mul_(t).add_(around)
                hidden[:size] = output
        ctx.save_for_backward(
            words, weight, recurrent, carry, kept, gates, carried, hidden_before, cells_before, tanh_cells
        )
        ctx.sizes, ctx.reverse = sizes, reverse
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        words, weight, recurrent, carry, kept, gates, carried, hidden_before, cells_before, tanh_cells = (
            ctx.saved_tensors
        )
        sizes = ctx.sizes
        cell_size = carried.shape[1]
        with torch.autocast(words.device.type, enabled=False):
            grad_gates = torch.empty_like(gates)
            grad_carried = torch.empty_like(carried)
            grad_hidden, grad_cell, buffer = carried.new_zeros(3, sizes[0], cell_size)
            # The last step first.
            steps = split_steps(
                sizes, gates, *gates.split(cell_size, dim=1), carried, cells_before, tanh_cells,
                grad_outputs.contiguous(), grad_gates, *grad_gates.split(cell_size, dim=1), grad_carried,
                reverse=not ctx.reverse,
            )  # fmt: skip
            for (
                size, _, i, f, o, t, g, around, c_before, tanh_cell, given, grad_total, grad_i, grad_f, grad_o, grad_t,
                grad_g, grad_around,
            ) in steps:  # fmt: skip
                grad_output, scratch, grad_state = grad_hidden[:size], buffer[:size], grad_cell[:size]
                grad_output.add_(given)
                torch.mul(o, tanh_cell, out=scratch).sub_(around).mul_(grad_output)
                _sigmoid_backward(scratch, t, grad_input=grad_t)
                torch.mul(grad_output, t, out=scratch)
                torch.sub(grad_output, scratch, out=grad_around)
                _sigmoid_backward(scratch * tanh_cell, o, grad_input=grad_o)
                scratch.mul_(o)
                grad_state.add_(_tanh_backward(scratch, tanh_cell, grad_input=scratch))
                _sigmoid_backward(torch.mul(grad_state, g, out=scratch), i, grad_input=grad_i)
                _sigmoid_backward(torch.mul(grad_state, c_before, out=scratch), f, grad_input=grad_f)
                _tanh_backward(torch.mul(grad_state, i, out=scratch), g, grad_input=grad_g)
                grad_state.mul_(f)
                torch.mm(grad_total, recurrent, out=grad_output)
                if kept is not None:
                    grad_output.mul_(kept[:size])
            return (
                torch.addmm(grad_gates @ weight, grad_carried, carry) if ctx.needs_input_grad[0] else None,
                grad_gates.t() @ words,
                grad_gates.t() @ hidden_before,
                grad_gates.sum(dim=0),
                grad_carried.t() @ words,
                None,
                None,
                None,
            )


class ElmoHighwayLSTMLayer(nn.Module):
    """One layer, reading in one direction.

    Args:
        input_size: Size D of what it reads.
        hidden_size: Size H of its cell and its output.
        reverse: Whether it reads from the last word to the first.
    """

    def __init__(self, input_size: int, hidden_size: int, reverse: bool):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(5 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(5 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(5 * hidden_size))
        self.weight_carry = nn.Parameter(torch.empty(hidden_size, input_size))
        self.hidden_size = hidden_size
        self.reverse = reverse

    def weights(self) -> HighwayLSTMWeights:
        """The weights as the scans take them."""
        return HighwayLSTMWeights(self.weight_ih, self.weight_hh, self.bias, self.weight_carry)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw an orthogonal matrix for each gate and for what goes round the cell; forget gates open, other biases 0.

        Weights that were loaded stay.
        """
        for parameter in (self.weight_ih, self.weight_hh, self.weight_carry):
            if not getattr(parameter, "_is_hf_initialized", False):
                for block in parameter.split(self.hidden_size):
                    # Half precision knows no orthogonal matrices.
                    block.copy_(nn.init.orthogonal_(torch.empty_like(block, dtype=torch.float32)))
        if not getattr(self.bias, "_is_hf_initialized", False):
            self.bias.zero_()
            self.bias[self.hidden_size : 2 * self.hidden_size] = 1.0


class ElmoHighwayLSTM(nn.Module):
    """Layers of highway LSTMs, each reading what the one below gives in the other direction, the first one forward.

    Args:
        input_size: Size D of a word's vector.
        hidden_size: Size H of each layer.
        num_layers: How many there are (He et al. 2017: 8).
        recurrent_dropout: Dropout on what comes back in a layer, the same one for all words of a sentence.
    """

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
        return (self.run_reference if is_traced() else self._run_packed)(vectors, mask)

    def run_reference(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """As `forward`, by the definition of each step."""
        return self._run(
            vectors, vectors.shape[0], lambda outputs, *rest, **way: scan_highway_lstm(outputs, mask, *rest, **way)
        )

    def _run_packed(self, vectors: Tensor, mask: Tensor) -> Tensor:
        order = order_words(mask, min_words=1)

        def run(words: Tensor, weights: HighwayLSTMWeights, kept: Tensor | None, *, reverse: bool) -> Tensor:
            kept = None if kept is None else kept[order.sentences]
            return run_highway_lstm(words, order.sizes, weights, kept, reverse=reverse)

        return order.unpack(self._run(order.pack(vectors), vectors.shape[0], run), mask)

    def _run(self, outputs: Tensor, num_sentences: int, run: Callable[..., Tensor]) -> Tensor:
        """All layers by one kind of scan."""
        for layer in cast("Iterable[ElmoHighwayLSTMLayer]", self.layers):
            weights = layer.weights()
            # The mix may come in another precision.
            outputs = outputs.to(weights.bias.dtype)
            kept = None
            if self.training and self.recurrent_dropout:
                kept = F.dropout(outputs.new_ones(num_sentences, self.hidden_size), self.recurrent_dropout)
            outputs = run(outputs, weights, kept, reverse=layer.reverse)
        return outputs


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
            special tokens; None where the model finds none.
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
        self._apply_freezing()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Orthogonal recurrences with open forget gates, all else as in the other models."""
        if isinstance(module, ElmoHighwayLSTMLayer):
            module.reset_parameters()
        else:
            super()._init_weights(module)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        *,
        predicate_mask: Tensor | None = None,
        all_predicates: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> ElmoSemanticRolesOutput:
        """Score the labels of each word, given the predicate.

        Args:
            input_ids: Character ids, (B, T, C).
            attention_mask: 1 for real words, (B, T).
            labels: Label ids, (B, T); -100 (special tokens, padding) is left out of the loss.
            output_hidden_states: Whether to return the biLM's layers.
            predicate_mask: 1 for the predicate of each row, (B, T). None scores no labels: it is for models that find
                predicates, which then say where they are.
            all_predicates: 1 for all predicates of each row's sentence, (B, T), from which those that find them learn.
            token_type_ids: None or zeros: there are no pairs.
            packed_layers: The biLM's layers where they were computed before; see `ElmoModel`.
        Raises: ValueError naming the argument, what it was and what is wanted.
        """
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
        words = self.embed(
            input_ids,
            attention_mask,
            output_hidden_states=output_hidden_states,
            token_type_ids=token_type_ids,
            packed_layers=packed_layers,
        )
        mask = cast("Tensor", words.mask)
        is_word = self.without_special(input_ids, mask)
        losses = []
        logits = predicate_logits = None
        if predicate_mask is not None:
            logits = self._score_labels(words, is_word, predicate_mask)
            if labels is not None:
                check_word_labels(labels, mask)
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
        """The likeliest labels of each row that IOB2 allows, (B, T); -100 where masked and at special tokens.

        Args:
            logits: As `forward` gives them, (B, T, K).
            input_ids, attention_mask: As it was given them.
        """
        mask = self.elmo.word_mask(input_ids, attention_mask)
        return self.decode_words(logits, self.without_special(input_ids, mask))

    def decode_words(self, logits: Tensor, is_word: Tensor) -> Tensor:
        """As `decode`, of the words that are marked, (B, T)."""
        return decode_by_rules(logits.float().log_softmax(dim=-1), is_word, self._forbidden)

    def _score_labels(self, words: ElmoEmbeddingsOutput, is_word: Tensor, predicate_mask: Tensor) -> Tensor:
        """The scores of all labels, (B, T, K)."""
        marks = self.predicate_embedding(predicate_mask.long())
        vectors = self.lstm(torch.cat([cast("Tensor", words.last_hidden_state), marks], dim=-1), is_word)
        return self.classifier(join(vectors, self.second_mix(words)))
