"""Token classification, sequence classification and question answering over ELMo's mixes.

Letters in shapes: B sentences, T words, C characters per word, P projection, H cell, L biLM layers, M scalar mixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import initialization as init
from transformers.loss.loss_utils import ForSequenceClassificationLoss
from transformers.modeling_outputs import QuestionAnsweringModelOutput, SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from .configuration_elmo import ElmoConfig, QuestionAnsweringHead, SequenceClassificationHead, TokenClassificationHead
from .modeling_elmo import (
    IGNORED_LABEL,
    ElmoHighway,
    ElmoTaskModel,
    PackedOrder,
    PairSplitter,
    ProjectedLSTMWeights,
    check_word_labels,
    end_masks,
    is_traced,
    mean_cross_entropy,
    order_words,
    scan_projected_lstm,
    scan_words,
    segment_masks,
    values_can_be_read,
)


def split_steps(sizes: Sequence[int], *packed: Tensor, dim: int = 0) -> list[tuple[Any, ...]]:
    """For each step its size and its rows of each packed tensor."""
    return list(zip(sizes, *(tensor.split(list(sizes), dim=dim) for tensor in packed), strict=True))


class _LSTMSteps(torch.autograd.Function):
    """LSTMs over packed words: gates i, f, g, o by inputs and biases, (W, N, 4H); weights, (W, 4H, H); to (W, N, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, order: PackedOrder) -> Tensor:
        sizes, size = order.sizes, recurrent.shape[2]
        gates = gates.clone()
        outputs, cells, tanh_cells = gates.new_empty(3, *gates.shape[:2], size)
        back = recurrent.transpose(1, 2)
        hidden = cell = gates.new_zeros(len(gates), sizes[0], size)
        parts = (gates, *gates.split(size, dim=2), gates[..., : 2 * size], outputs, cells, tanh_cells)
        for number, total, i, f, g, o, i_and_f, output, new_cell, tanh_cell in split_steps(sizes, *parts, dim=1):
            total.baddbmm_(hidden[:, :number], back)
            i_and_f.sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, cell[:, :number], out=new_cell).addcmul_(i, g)
            torch.tanh(new_cell, out=tanh_cell)
            hidden, cell = torch.mul(o, tanh_cell, out=output), new_cell
        ctx.save_for_backward(gates, recurrent, outputs, cells, tanh_cells)
        ctx.order = order
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        gates, recurrent, outputs, cells, tanh_cells = ctx.saved_tensors
        order, size = ctx.order, recurrent.shape[2]
        i, f, g, o = gates.split(size, dim=2)
        # What a gradient of c, and for o one of h, is multiplied by on its way to each gate.
        slopes = gates * (1 - gates)
        of_i, of_f, of_g, of_o = slopes.split(size, dim=2)
        of_i.mul_(g)
        of_f[:, : order.sizes[0]] = 0.0
        of_f[:, order.sizes[0] :].mul_(cells.index_select(1, order.before))
        torch.mul(i, 1 - g * g, out=of_g)
        of_o.mul_(tanh_cells)
        to_cell = o * (1 - tanh_cells * tanh_cells)
        grad_hidden = grad_outputs.clone()
        grad_cell = gates.new_zeros(len(gates), order.sizes[0], size)
        grad_gates = slopes
        by_cell = grad_gates[..., : 3 * size].unflatten(2, (3, size))
        parts = (grad_hidden, to_cell, by_cell, of_o, f, grad_gates)
        steps = split_steps(order.sizes, *parts, dim=1)
        for place, (number, grad, of_h, from_cell, of_output, forget, total) in reversed(list(enumerate(steps))):
            state = grad_cell[:, :number].addcmul_(grad, of_h)
            from_cell.mul_(state.unsqueeze(2))
            of_output.mul_(grad)
            state.mul_(forget)
            if place:
                steps[place - 1][1][:, :number].baddbmm_(total, recurrent)
        later = grad_gates[:, order.sizes[0] :]
        return grad_gates, torch.bmm(later.transpose(1, 2), outputs.index_select(1, order.before)), None


class _GRUSteps(torch.autograd.Function):
    """GRUs likewise, the reset gate behind the product (Cho et al. 2014): gates r, z, n, (W, N, 3H), biases (W, 3H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, bias: Tensor, order: PackedOrder) -> Tensor:
        sizes, size = order.sizes, recurrent.shape[2]
        gates = gates.clone()
        of_hidden = torch.empty_like(gates).copy_(bias.unsqueeze(1))
        outputs = gates.new_empty(*gates.shape[:2], size)
        back = recurrent.transpose(1, 2)
        hidden = gates.new_zeros(len(gates), sizes[0], size)
        both, of_both, of_candidate = gates[..., : 2 * size], of_hidden[..., : 2 * size], of_hidden[..., 2 * size :]
        parts = (of_hidden, both, of_both, of_candidate, *gates.split(size, dim=2), outputs)
        for number, total, sigmoids, of_sigmoids, of_n, r, z, n, output in split_steps(sizes, *parts, dim=1):
            before = hidden[:, :number]
            total.baddbmm_(before, back)
            sigmoids.add_(of_sigmoids).sigmoid_()
            n.addcmul_(r, of_n).tanh_()
            # (1 - z) n + z h
            hidden = torch.lerp(n, before, z, out=output)
        ctx.save_for_backward(gates, recurrent, of_hidden, outputs)
        ctx.order = order
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        gates, recurrent, of_hidden, outputs = ctx.saved_tensors
        order, size = ctx.order, recurrent.shape[2]
        first = order.sizes[0]
        reset, keep, candidate = gates.split(size, dim=2)
        before = outputs.new_zeros(outputs.shape)
        before[:, first:] = outputs.index_select(1, order.before)
        # What a gradient of h is multiplied by on its way to the gates, as the inputs and as the h before give them.
        to_candidate = (1 - keep) * (1 - candidate * candidate)
        to_reset = to_candidate * of_hidden[..., 2 * size :] * reset * (1 - reset)
        to_keep = (before - candidate) * keep * (1 - keep)
        grad_of_hidden = torch.stack([to_reset, to_keep, to_candidate * reset], dim=2)
        grad_hidden = grad_outputs.clone()
        parts = (grad_hidden, grad_of_hidden, grad_of_hidden.flatten(2), keep)
        steps = split_steps(order.sizes, *parts, dim=1)
        for place, (number, grad, by_gate, total, kept) in reversed(list(enumerate(steps))):
            by_gate.mul_(grad.unsqueeze(2))
            if place:
                steps[place - 1][1][:, :number].baddbmm_(total, recurrent).addcmul_(grad, kept)
        grad_of_hidden = grad_of_hidden.flatten(2)
        grad_gates = torch.cat([grad_of_hidden[..., : 2 * size], to_candidate.mul_(grad_hidden)], dim=2)
        grad_recurrent = torch.bmm(grad_of_hidden[:, first:].transpose(1, 2), before[:, first:])
        return grad_gates, grad_recurrent, grad_of_hidden.sum(dim=1), None


class ElmoTaskRNN(nn.RNNBase):
    """A bidirectional recurrence over the real words only, with the numbers and parameters of torch.nn.LSTM and GRU.

    It is neither, for torch.compile refuses to look into them.
    """

    kind: ClassVar[str]
    # How it starts: recurrent weights orthogonal or, as input weights, by Glorot's rule; biases zero or, those of the
    # forget gates, one.
    is_orthogonal = True
    opens_forget_gates = False

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, dropout: float = 0.0):
        # torch warns of a dropout that has no second layer to lie before.
        dropout = dropout if num_layers > 1 else 0.0
        options: dict[str, Any] = {"batch_first": True, "bidirectional": True, "dropout": dropout}
        super().__init__(self.kind, input_size, hidden_size, num_layers, **options)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Run over (B, T, D) vectors, with mask (B, T) True for real words, to (B, T, 2H); zero where masked."""
        if is_traced():
            return self.run_reference(vectors, mask)
        order = order_words(mask, min_words=1)
        # cuDNN runs all layers as one; on a CPU PyTorch's function leaves each step to autograd.
        run = self._run_packed if vectors.device.type == "cpu" else self._run_by_library
        return order.unpack(run(order.pack(vectors), order), mask)

    @torch.no_grad()
    def init_weights(self) -> None:
        for name, parameter in self.named_parameters():
            if name.startswith("bias"):
                init.zeros_(parameter)
                # One of the two biases that are added; a part of one that was loaded does not say so itself.
                is_loaded = getattr(parameter, "_is_hf_initialized", False)
                if self.opens_forget_gates and name.startswith("bias_hh") and not is_loaded:
                    init.ones_(parameter[self.hidden_size : 2 * self.hidden_size])
            elif name.startswith("weight_hh") and self.is_orthogonal:
                init.orthogonal_(parameter)
            else:
                init.xavier_uniform_(parameter)

    def run_reference(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """As `forward`, by the definition of each step, for any number of words."""
        for layer in range(self.num_layers):
            inputs = F.dropout(vectors, self.dropout, self.training) if layer else vectors
            forward, backward = self.all_weights[2 * layer : 2 * layer + 2]
            both = (self._scan(inputs, mask, False, *forward), self._scan(inputs, mask, True, *backward))
            vectors = torch.cat(both, dim=-1)
        return vectors

    def _scan(self, inputs: Tensor, mask: Tensor, reverse: bool, *weights: Tensor) -> Tensor:
        """One direction of one layer by its definition, (B, T, D) to (B, T, H)."""
        raise NotImplementedError

    def _run_packed(self, words: Tensor, order: PackedOrder) -> Tensor:
        # Under autocast a product would come out in another dtype than what the steps write to.
        with torch.autocast(words.device.type, enabled=False):
            for layer in range(self.num_layers):
                ways = self.all_weights[2 * layer : 2 * layer + 2]
                inputs, recurrent, bias, recurrent_bias = map(torch.stack, zip(*ways, strict=True))
                words = F.dropout(words, self.dropout, self.training) if layer else words
                if self.kind == "LSTM":
                    bias = bias + recurrent_bias
                # One product for both directions, of which the backward one reads mirrored sentences.
                gates = F.linear(words.to(bias.dtype), inputs.flatten(0, 1), bias.flatten())
                forward, backward = gates.chunk(2, dim=1)
                gates = torch.stack([forward, backward.index_select(0, order.mirrored)])
                if self.kind == "LSTM":
                    outputs = _LSTMSteps.apply(gates, recurrent, order)
                else:
                    outputs = _GRUSteps.apply(gates, recurrent, recurrent_bias, order)
                forward, backward = cast("Tensor", outputs)
                words = torch.cat([forward, backward.index_select(0, order.mirrored)], dim=1)
        return words

    def _run_by_library(self, words: Tensor, order: PackedOrder) -> Tensor:
        weights: list[Tensor] = [weight for layer in self.all_weights for weight in layer]
        zeros = words.new_zeros(2 * self.num_layers, order.sizes[0], self.hidden_size)
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        sizes = torch.tensor(order.sizes)
        if self.kind == "LSTM":
            return torch.lstm(words, sizes, (zeros, zeros), weights, *options)[0]
        return torch.gru(words, sizes, zeros, weights, *options)[0]


class ElmoTaskLSTM(ElmoTaskRNN):
    """A biLSTM over the real words."""

    kind = "LSTM"

    def _scan(self, inputs: Tensor, mask: Tensor, reverse: bool, *weights: Tensor) -> Tensor:
        of_input, recurrent, *biases = weights
        zeros = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        gates = ProjectedLSTMWeights(of_input, recurrent, biases[0] + biases[1], None)
        return scan_projected_lstm(inputs, mask, gates, (zeros, zeros), reverse=reverse)[0]


class ElmoTaskGRU(ElmoTaskRNN):
    """A biGRU over the real words (Cho et al. 2014)."""

    kind = "GRU"

    def _scan(self, inputs: Tensor, mask: Tensor, reverse: bool, *weights: Tensor) -> Tensor:
        of_input, recurrent, input_bias, recurrent_bias = weights

        def step(before: tuple[Tensor], read: tuple[Tensor]) -> tuple[tuple[Tensor], Tensor]:
            (hidden,), (of_word,) = before, read
            of_before = F.linear(hidden, recurrent, recurrent_bias)
            of_input, of_hidden = (gates.chunk(3, dim=-1) for gates in (of_word, of_before))
            reset, keep = (torch.sigmoid(of_input[gate] + of_hidden[gate]) for gate in (0, 1))
            hidden = (1 - keep) * torch.tanh(of_input[2] + reset * of_hidden[2]) + keep * hidden
            return (hidden,), hidden

        zeros = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        return scan_words(step, (zeros,), (F.linear(inputs, of_input, input_bias),), mask, reverse=reverse)[0]


# Units of a maxout layer of which the largest is taken (Goodfellow et al. 2013); four as in AllenNLP's classifier.
_MAXOUT_UNITS = 4


class ElmoDense(nn.Linear):
    """A dense layer with its activation: "relu", "maxout" or none."""

    def __init__(self, input_size: int, output_size: int, activation: str | None = None):
        super().__init__(input_size, output_size * (_MAXOUT_UNITS if activation == "maxout" else 1))
        self.activation = activation

    def init_weights(self) -> None:
        init.xavier_uniform_(self.weight)
        init.zeros_(self.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        outputs = super().forward(vectors)
        if self.activation == "maxout":
            return outputs.unflatten(-1, (-1, _MAXOUT_UNITS)).amax(dim=-1)
        return torch.relu(outputs) if self.activation == "relu" else outputs


class ElmoVariationalDropout(nn.Dropout1d):
    """Dropout of the same features of all words of a row, (S, W, D) (Gal and Ghahramani 2016)."""

    def forward(self, vectors: Tensor) -> Tensor:
        return super().forward(vectors.transpose(1, 2)).transpose(1, 2)


class TextEncoder(nn.Module):
    """From vectors of words (S, W, D) with a mask (S, W) to a vector for each text, or for each pair.

    The first sentences of all pairs come before the second ones. A second mix, (S, W, M), if any, is joined to the
    lowest biLSTM's output.
    """

    reads_pairs = False
    # Of the dense layers on top, as published: sizes in units of the hidden_size, but for the last one, which has
    # as many as there are labels; dropout before each; and their activation. Maxout is the last one's too.
    top_sizes: tuple[int, ...] = ()
    top_dropouts: tuple[float, ...] = (0.5,)
    top_activation = "relu"


class PooledEncoder(TextEncoder):
    """The mean and the maximum of a text's words; our own baseline."""

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        self.output_size = 2 * input_size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        return torch.cat([masked_mean(vectors, mask), masked_max(vectors, mask)], dim=-1)


class PooledPairsEncoder(PooledEncoder):
    """The pooled vectors u and v of both texts of a pair as [u; v; |u - v|; u * v] (Conneau et al. 2017, sec. 3.1)."""

    reads_pairs = True
    top_sizes, top_dropouts = (1,), (0.5, 0.5)

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__(input_size, mix_size, head)
        self.output_size *= 4

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        first, second = _of_pairs(super().forward(vectors, mask)).unbind(0)
        return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


class ElmoBCN(TextEncoder):
    """The biattentive classification network, for one text (McCann et al. 2017, sec. 5).

    A dense ReLU layer, a biLSTM giving X, attention of X to itself, C = softmax(X X^T) X, a second biLSTM over
    [X; X - C; X * C] and four pools of its output: maximum, minimum, mean and one by learned weights.
    """

    top_sizes, top_dropouts, top_activation = (4, 2), (0.1, 0.2, 0.3), "maxout"

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        size = head.hidden_size
        self.dense = ElmoDense(input_size, size, "relu")
        self.dropout = nn.Dropout(0.25 if head.hidden_dropout is None else head.hidden_dropout)
        self.lstm = ElmoTaskLSTM(size, size)
        self.integrator = ElmoTaskLSTM(3 * (2 * size + mix_size), size)
        self.pool_scores = ElmoDense(2 * size, 1)
        self.output_size = 8 * size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        encoded = join(self.lstm(self.dropout(self.dense(vectors)), mask), mix)
        attended = attend(encoded, encoded, mask)
        integrated = self.integrator(torch.cat([encoded, encoded - attended, encoded * attended], dim=-1), mask)
        weights = masked_softmax(self.pool_scores(integrated).squeeze(-1), mask)
        pools = [
            masked_max(integrated, mask),
            -masked_max(-integrated, mask),
            masked_mean(integrated, mask),
            (weights.unsqueeze(1) @ integrated).squeeze(1),
        ]
        return torch.cat(pools, dim=-1)


class ElmoESIM(TextEncoder):
    """The enhanced sequential inference model, for pairs (Chen et al. 2017, sec. 3).

    One biLSTM reads both sentences, giving P and H. With p~ = softmax(p H^T) H, [p; p~; p - p~; p * p~] goes through a
    dense ReLU layer into a second biLSTM, whose output is pooled by mean and maximum for each sentence.
    """

    reads_pairs = True
    top_sizes, top_dropouts = (1,), (0.5, 0.5)

    def __init__(self, input_size: int, mix_size: int, head: SequenceClassificationHead):
        super().__init__()
        size = head.hidden_size
        self.lstm = ElmoTaskLSTM(input_size, size)
        self.dense = ElmoDense(4 * (2 * size + mix_size), size, "relu")
        self.dropout = ElmoVariationalDropout(0.5 if head.hidden_dropout is None else head.hidden_dropout)
        self.composition = ElmoTaskLSTM(size, size)
        self.lstm.opens_forget_gates = self.composition.opens_forget_gates = True  # Chen et al. 2017
        self.output_size = 8 * size

    def forward(self, vectors: Tensor, mask: Tensor, mix: Tensor | None = None) -> Tensor:
        encoded = join(self.lstm(vectors, mask), mix)
        # Beside each sentence the other one of its pair.
        aligned = attend(encoded, _swapped_halves(encoded), _swapped_halves(mask))
        enhanced = self.dense(torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=-1))
        composed = self.composition(self.dropout(enhanced), mask)
        pooled = torch.cat([masked_mean(composed, mask), masked_max(composed, mask)], dim=-1)
        return torch.cat(_of_pairs(pooled).unbind(0), dim=-1)


TEXT_ENCODERS: dict[str, Any] = {
    "pooled": PooledEncoder,
    "pooled_pairs": PooledPairsEncoder,
    "bcn": ElmoBCN,
    "esim": ElmoESIM,
}


def attend(queries: Tensor, vectors: Tensor, mask: Tensor) -> Tensor:
    """Dot-product attention of words (S, W, D) to vectors (S, V, D) with mask (S, V), (S, W, D); zeros without any."""
    return masked_softmax(queries @ vectors.transpose(1, 2), mask.unsqueeze(1)) @ vectors


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The softmax over the last axis where `mask` is True, zeros elsewhere, also if it is nowhere True."""
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def masked_mean(vectors: Tensor, mask: Tensor) -> Tensor:
    """The mean over the words, (S, W, D) with mask (S, W) to (S, D); zeros without any."""
    total = vectors.masked_fill(~mask.unsqueeze(-1), 0.0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def masked_max(vectors: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the words, (S, W, D) with mask (S, W) to (S, D); zeros without any."""
    largest = vectors.masked_fill(~mask.unsqueeze(-1), torch.finfo(vectors.dtype).min).amax(dim=1)
    return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


def join(vectors: Tensor, mix: Tensor | None) -> Tensor:
    """Vectors, with those of a second mix behind them if there is one."""
    return vectors if mix is None else torch.cat([vectors, mix], dim=-1)


def _of_pairs(sentences: Tensor) -> Tensor:
    """The first and the second sentences, (2B, ...) to (2, B, ...), without settling B in an export."""
    return sentences.unflatten(0, (2, -1))


def _swapped_halves(sentences: Tensor) -> Tensor:
    """The other sentence of its pair for each, (2B, ...)."""
    return _of_pairs(sentences).flip(0).flatten(0, 1)


OUTSIDE = "O"

# The letters of each scheme. IOB1 begins a span with B only right behind another one of its type (Ramshaw and Marcus
# 1995); IOB2 begins each with B; BIOES also ends each with E and has S for a span of one word.
SCHEMES = {"IOB1": "IB", "IOB2": "BI", "BIOES": "BIES"}


class Span(NamedTuple):
    """The words of a sentence from `start` up to `stop`, and what they are."""

    type: str
    start: int
    stop: int


def split_label(label: str, scheme: str) -> tuple[str, str]:
    """The letter and the type of a label, `("B", "PER")`, or `("O", "")`; ValueError if it is none of the scheme's."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme is {scheme!r}; it must be one of {sorted(SCHEMES)}.")
    if label == OUTSIDE:
        return OUTSIDE, ""
    letter, dash, type_ = label.partition("-")
    if letter not in tuple(SCHEMES[scheme]) or not dash or not type_:
        wanted = ", ".join(f"{letter}-..." for letter in SCHEMES[scheme])
        raise ValueError(f"{label!r} is no label of {scheme}; wanted O, {wanted}. Convert the labels, or name another.")
    return letter, type_


def can_follow(previous: str | None, label: str | None, scheme: str) -> bool:
    """Whether a label may stand behind another one; None stands for the sentence's start and for its end."""
    before, type_before = (OUTSIDE, "") if previous is None else split_label(previous, scheme)
    behind, type_behind = (OUTSIDE, "") if label is None else split_label(label, scheme)
    is_same_span_type = before != OUTSIDE and type_before == type_behind
    if scheme == "IOB1":
        return behind != "B" or is_same_span_type
    if scheme == "IOB2":
        return behind != "I" or is_same_span_type
    is_open = before in ("B", "I")
    return (behind in ("I", "E")) == is_open and (not is_open or is_same_span_type)


def read_spans(labels: Sequence[str], scheme: str) -> list[Span]:
    """The spans that the labels of a sentence mark; ValueError names the first label that the scheme forbids there."""
    spans: list[Span] = []
    start, previous, open_type = None, None, ""
    for place, label in enumerate([*labels, None]):
        if not can_follow(previous, label, scheme):
            raise ValueError(
                f"labels[{place}] is {label!r} behind {previous!r}, which {scheme} does not allow; name the scheme "
                "that the labels are in, or mend them."
            )
        letter, type_ = (OUTSIDE, "") if label is None else split_label(label, scheme)
        if start is not None and (letter in (OUTSIDE, "B", "S") or type_ != open_type):
            spans.append(Span(open_type, start, place))
            start = None
        if start is None and letter != OUTSIDE:
            start, open_type = place, type_
        previous = label
    return spans


def write_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """The labels of a sentence of `length` words, whose spans do not overlap."""
    labels = [OUTSIDE] * length
    end, type_before = 0, None
    for span in sorted(spans, key=lambda span: span.start):
        letters = ["I"] * (span.stop - span.start)
        if scheme != "IOB1" or (span.start == end and span.type == type_before):
            letters[0] = "B"
        if scheme == "BIOES":
            letters[-1] = "S" if len(letters) == 1 else "E"
        labels[span.start : span.stop] = [f"{letter}-{span.type}" for letter in letters]
        end, type_before = span.stop, span.type
    return labels


def labels_of(types: Iterable[str], scheme: str) -> list[str]:
    """All labels of a scheme for spans of these types, O first."""
    return [OUTSIDE, *(f"{letter}-{type_}" for type_ in types for letter in SCHEMES[scheme])]


class ElmoCRF(nn.Module):
    """Scores of labels side by side with those of each word (Lafferty et al. 2001; Peters et al. 2018, A.7).

    A sequence y of labels has the score sum_t e_t[y_t] + sum_t A[y_t, y_t+1] + start[y_1] + end[y_T], with e given by
    the model below. The likelihood is normalized over all sequences; only `decode` leaves out those that the scheme, if
    any, forbids. Masked words are as good as absent.
    """

    def __init__(self, labels: Sequence[str], scheme: str | None = None):
        super().__init__()
        self.num_labels = len(labels)
        self.transitions = nn.Parameter(torch.zeros(self.num_labels, self.num_labels))
        self.start = nn.Parameter(torch.zeros(self.num_labels))
        self.end = nn.Parameter(torch.zeros(self.num_labels))
        self._forbidden = None if scheme is None else forbidden_by(scheme, labels)

    def init_weights(self) -> None:
        for parameter in self.parameters():
            init.zeros_(parameter)

    def forward(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The log-likelihood of labels (B, T) given emissions (B, T, K), in nats, (B,); 0 without words.

        `mask`, (B, T), is True for words that have a label.
        """
        emissions = _of_words(emissions, mask)
        return self._score(emissions, labels, mask) - self._log_partition(emissions, mask)

    @torch.no_grad()
    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The probability of each label at each word, (B, T, K), zero where masked."""
        return self._expectations(_of_words(emissions, mask), mask)[1]

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best labels that the scheme allows, (B, T), -100 where masked (`best_labels`), and their scores, (B,)."""
        labels = best_labels(emissions, mask, self._forbidden, self._all_scores())
        return labels, self._score(_of_words(emissions, mask), labels, mask)

    def _all_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        # Half precision cannot hold their sums.
        dtype = torch.promote_types(self.transitions.dtype, torch.float32)
        return self.transitions.to(dtype), self.start.to(dtype), self.end.to(dtype)

    def _score(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The score of labels, (B, T), of each sentence, (B,)."""
        transitions, start, end = self._all_scores()
        labels = labels.masked_fill(~mask, 0).long()
        is_first, is_last = end_masks(mask)
        # Of each place but the last one the word there or the last one before it.
        places = torch.where(mask, torch.arange(mask.shape[1], device=mask.device), 0).cummax(dim=1).values[:, :-1]
        pairs = labels.gather(1, places) * self.num_labels + labels[:, 1:]
        # By embedding: the gradients of an indexed tensor are summed in any order.
        steps = F.embedding(pairs, transitions.reshape(-1, 1)).squeeze(-1)
        scores = emissions.gather(2, labels.unsqueeze(-1)).squeeze(-1)
        total = torch.where(mask, scores, 0.0).sum(1) + torch.where((mask & ~is_first)[:, 1:], steps, 0.0).sum(1)
        first, last = ((labels * is_end).sum(dim=1) for is_end in (is_first, is_last))
        edges = F.embedding(first, start.unsqueeze(-1)) + F.embedding(last, end.unsqueeze(-1))
        return torch.where(mask.any(dim=1), total + edges.squeeze(-1), 0.0)

    def _log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        with torch.no_grad():
            log_partition, labels, pairs = self._expectations(emissions, mask)
        # The gradients of the log-partition are the expectations: nothing goes back through the steps. The differences
        # are zero.
        transitions, start, end = self._all_scores()
        first, last = ((labels * is_end.unsqueeze(-1)).sum(dim=1) for is_end in end_masks(mask))
        terms = (
            (labels * (emissions - emissions.detach())).sum(dim=(1, 2)),
            (pairs * (transitions - transitions.detach())).sum(dim=(1, 2)),
            first @ (start - start.detach()) + last @ (end - end.detach()),
        )
        return log_partition + sum(terms)

    def _expectations(self, emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The log-partition, (B,), and what is expected: labels of words, (B, T, K), and pairs of them, (B, K, K)."""
        transitions, start, end = self._all_scores()
        is_first, is_last = end_masks(mask)
        # Backwards the last word is the first, and a step goes from the label behind to the one before.
        both = torch.stack([emissions, emissions.flip(1)], dim=2)
        come_next = torch.stack([mask & ~is_first, (mask & ~is_last).flip(1)], dim=2).unsqueeze(-1)
        arriving = torch.stack([transitions.t(), transitions])

        def arrive(before: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
            (state,), (of_word, comes_next) = before, read
            found = torch.logsumexp(state.unsqueeze(2) + arriving, dim=3)
            state = torch.where(comes_next, found, state) + of_word
            return (state,), state

        edges = torch.stack([start, end]).expand(mask.shape[0], -1, -1)
        states, (state,) = scan_words(arrive, (edges,), (both, come_next))
        log_partition = torch.logsumexp(state[:, 0] + end, dim=-1)
        before, behind = states[:, :, 0], states[:, :, 1].flip(1)
        # Both hold the word's own score.
        labels = torch.exp(before + behind - emissions - log_partition.view(-1, 1, 1))
        pairs = before[:, :-1].unsqueeze(3) + transitions + behind[:, 1:].unsqueeze(2)
        pairs = torch.exp(pairs - log_partition.view(-1, 1, 1, 1)) * come_next[:, 1:, :1]
        labels = torch.where(mask.unsqueeze(-1), labels, 0.0)
        return torch.where(mask.any(dim=1), log_partition, 0.0), labels, pairs.sum(dim=1)


def forbidden_by(scheme: str, labels: Sequence[str]) -> list[list[bool]]:
    """Which label may not stand behind which, (1 + K, 1 + K), the sentence's end before all of them."""
    marks = [None, *labels]
    return [[not can_follow(first, second, scheme) for second in marks] for first in marks]


@torch.no_grad()
def best_labels(
    emissions: Tensor,
    mask: Tensor,
    forbidden: list[list[bool]] | None,
    scores: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Tensor:
    """The labels of each sentence with the largest sum of scores (Viterbi 1967), (B, T); -100 where masked.

    Where the rules of `forbidden_by` allow no sequence, as for one word and labels that want two, the best breaks as
    few as can be. `scores` are those of transitions, (K, K), and of the first and the last label, (K,); None for zeros.
    """
    emissions = _of_words(emissions, mask)
    if scores is None:
        none = emissions.new_zeros(emissions.shape[2])
        scores = none.expand(len(none), -1), none, none
    transitions, start, end = scores
    if forbidden is not None:
        # Forbidden ones cost more than any words can win.
        width = sum(spread.max() - spread.min() for spread in scores)
        won = (emissions.amax(dim=2) - emissions.amin(dim=2)).sum(dim=1).max() + emissions.shape[1] * width
        lowered = torch.tensor(forbidden, device=emissions.device) * (1 + won)
        transitions, start, end = transitions - lowered[1:, 1:], start - lowered[0, 1:], end - lowered[1:, 0]
    arriving = transitions.t()  # from a label to those before it

    # Where the best path comes from is asked on the way back: to keep it for all labels takes twice the time.
    def arrive(before: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
        (best,), (of_word, comes_next) = before, read
        found = (best.unsqueeze(1) + arriving).amax(dim=2)
        return (torch.where(comes_next, found, best) + of_word,), best

    def go_back(behind: tuple[Tensor], read: tuple[Tensor, Tensor]) -> tuple[tuple[Tensor], Tensor]:
        (label,), (best, comes_next) = behind, read
        origin = (best + arriving.index_select(0, label)).argmax(dim=1)
        return (torch.where(comes_next.squeeze(1), origin, label),), label

    come_next = (mask & ~end_masks(mask)[0]).unsqueeze(-1)
    ways, (best,) = scan_words(arrive, (start.expand(mask.shape[0], -1),), (emissions, come_next))
    labels, _ = scan_words(go_back, ((best + end).argmax(dim=1),), (ways, come_next), reverse=True)
    return labels.masked_fill(~mask, IGNORED_LABEL)


def _of_words(emissions: Tensor, mask: Tensor) -> Tensor:
    """Emissions, zero where masked, in a precision that can hold their sums."""
    return torch.where(mask.unsqueeze(-1), emissions.to(torch.promote_types(emissions.dtype, torch.float32)), 0.0)


# So far above the likeliest label of a word that of the best sequence is raised, where it is another one.
_ABOVE = 1e-3


class ElmoForTokenClassification(ElmoTaskModel):
    """A biLSTM and a classifier over the words, with a CRF on top if wanted (Peters et al. 2018, A.7).

    With a CRF, `logits` in evaluation mode are the logarithms of each label's probability given the whole sentence;
    where the best sequence takes another label than a word's likeliest, that is raised just above it, so that the
    largest logits are always the best sequence. In training mode they are the CRF's emissions.
    """

    _auto_class = "AutoModelForTokenClassification"  # type: ignore[assignment]
    head_class = TokenClassificationHead

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(TokenClassificationHead)
        self.num_labels = cast("int", config.num_labels)
        size = self.input_size
        self.lstm: ElmoTaskLSTM | None = None
        if head.lstm_layers:
            self.lstm = ElmoTaskLSTM(size, head.lstm_size, head.lstm_layers, head.dropout)
            self.lstm.is_orthogonal = False
            size = 2 * head.lstm_size + self.output_mix_size
        self.classifier = nn.Linear(size, self.num_labels)
        self.crf: ElmoCRF | None = None
        if head.output_layer == "crf":
            self.crf = ElmoCRF(config.label_names, head.scheme)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Score the K labels of each word; arguments as `ElmoModel`'s without a state, and:

        Args:
            labels: Label ids, (B, T); -100 (special tokens, padding) is left out of the loss.
        Returns: Loss in nats per word and logits, (B, T, K).
        """
        words = self.embed(input_ids, attention_mask, token_type_ids, packed_layers, **kwargs)
        vectors, mask = words.last_hidden_state, words.mask
        if self.lstm is not None:
            vectors = join(self.dropout(self.lstm(vectors, mask)), self.second_mix(words))
        scores = self.classifier(vectors)
        loss = None
        if labels is not None:
            check_word_labels(labels, mask)
            loss = self.add_penalty(self._loss(scores, labels, mask))
        logits = scores if self.crf is None or self.training else self._decode(scores, input_ids, mask)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=words.hidden_states)

    def _loss(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """The mean over the labeled words, in nats; zero, not nan, without any."""
        if self.crf is None:
            return mean_cross_entropy(scores, labels)
        has_label = mask & (labels != IGNORED_LABEL)
        return -self.crf(scores, labels, has_label).sum() / has_label.sum().clamp(min=1)

    @torch.no_grad()
    def _decode(self, scores: Tensor, input_ids: Tensor, mask: Tensor) -> Tensor:
        """Log-probabilities, (B, T, K), the largest of each word that of the best sequence."""
        crf = cast("ElmoCRF", self.crf)
        is_word = self.without_special(input_ids, mask)
        logits = crf.marginals(scores, is_word).clamp(min=torch.finfo(torch.float32).tiny).log()
        best, _ = crf.decode(scores, is_word)
        likeliest, first = logits.max(dim=-1)
        is_raised = (is_word & (best != first)).unsqueeze(-1)
        is_best = best.unsqueeze(-1) == torch.arange(self.num_labels, device=best.device)
        return torch.where(is_raised & is_best, likeliest.unsqueeze(-1) + _ABOVE, logits)


class ElmoForSequenceClassification(ElmoTaskModel):
    """An encoder over the words of a text, or of a pair, and dense layers; special tokens are read by the biLM alone.

    The head's config, a `SequenceClassificationHead`, chooses the encoder.
    """

    _auto_class = "AutoModelForSequenceClassification"  # type: ignore[assignment]
    head_class = SequenceClassificationHead

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(SequenceClassificationHead)
        self.num_labels = cast("int", config.num_labels)
        if head.encoder == "esim":
            self.dropout = ElmoVariationalDropout(head.dropout)
        self.encoder_name = head.encoder
        encoder = self.text_encoder = TEXT_ENCODERS[head.encoder](self.input_size, self.output_mix_size, head)
        self.reads_pairs = encoder.reads_pairs
        sizes = [encoder.output_size, *(head.hidden_size * factor for factor in encoder.top_sizes)]
        self.output = nn.Sequential()
        for number, dropout in enumerate(encoder.top_dropouts):
            self.output.append(nn.Dropout(dropout if head.output_dropout is None else head.output_dropout))
            if number < len(encoder.top_sizes):
                self.output.append(ElmoDense(sizes[number], sizes[number + 1], encoder.top_activation))
        last_activation = "maxout" if encoder.top_activation == "maxout" else None
        self.classifier = ElmoDense(sizes[-1], self.num_labels, last_activation)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Score the K labels of each text or pair; arguments as `ElmoModel`'s without a state, and:

        Args:
            labels: Ids, (B,), for one label a text; numbers, (B,) or (B, K), for a regression; or K zeros and ones a
                text, (B, K). The config's `problem_type` says which, or else the first labels, as in transformers.
        Returns: The mean loss and logits, (B, K).
        """
        if self.reads_pairs and token_type_ids is None:
            raise ValueError(
                f"token_type_ids is None, but the encoder {self.encoder_name!r} reads pairs; call the tokenizer with "
                "text and text_pair, and pass on what it gives (an empty text_pair will do)."
            )
        words = self.embed(input_ids, attention_mask, token_type_ids, packed_layers, **kwargs)
        mask = self.without_special(input_ids, words.mask, token_type_ids)
        vectors, mix = words.last_hidden_state, self.second_mix(words)
        if self.reads_pairs:
            pairs = PairSplitter(*segment_masks(mask, cast("Tensor", token_type_ids)))
            vectors, mix, mask = pairs.split(vectors), None if mix is None else pairs.split(mix), pairs.mask
        logits = self.classifier(self.output(self.text_encoder(vectors, mask, mix)))
        loss = None if labels is None else self.add_penalty(self._loss(logits, labels))
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=words.hidden_states)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.config.problem_type is None and self.num_labels == 1:
            self.config.problem_type = "regression"
        is_single = self.config.problem_type in (None, "single_label_classification") and not labels.is_floating_point()
        # In float32 whatever the model's precision. It sets the config's problem_type, which pipelines read.
        scores, labels = logits.float(), labels.long() if is_single else labels.float()
        return ForSequenceClassificationLoss(labels, scores, self.config)


class TextVectors(NamedTuple):
    """One text of each pair: vectors of its words, (B, V, D), a mask, (B, V), and the second mix, (B, V, M), if any."""

    vectors: Tensor
    mask: Tensor
    mix: Tensor | None = None


class ElmoTrilinear(nn.Linear):
    """The score of two words h and q: w1 . h + w2 . q + w3 . (h * q) (Seo et al. 2016, sec. 2).

    A bias would cancel in the softmax over such scores.
    """

    def __init__(self, size: int):
        super().__init__(3 * size, 1, bias=False)

    def init_weights(self) -> None:
        init.xavier_uniform_(self.weight)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]
        """Scores of all words of two texts, (B, V, D) and (B, W, D) to (B, V, W)."""
        of_first, of_second, of_both = self.weight.view(3, -1)
        one_by_one = (first @ of_first).unsqueeze(2) + (second @ of_second).unsqueeze(1)
        return one_by_one + (first * of_both) @ second.transpose(1, 2)


class ElmoBidirectionalAttention(nn.Module):
    """What a context finds in its question, and which of its words the question finds (Seo et al. 2016, sec. 2).

    For h, a word of the context, [h; c; h * c; h * q~], (B, V, 4D): c is the softmax of its scores over the question,
    and q~, alike for all words, the softmax of their best scores over the context.
    """

    def __init__(self, size: int):
        super().__init__()
        self.scores = ElmoTrilinear(size)

    def forward(self, context: Tensor, context_mask: Tensor, question: Tensor, question_mask: Tensor) -> Tensor:
        scores = self.scores(context, question)
        found = masked_softmax(scores, question_mask.unsqueeze(1)) @ question
        lowest = torch.finfo(scores.dtype).min
        best = scores.masked_fill(~question_mask.unsqueeze(1), lowest).amax(dim=2)
        # To a question without words all are alike; padding is not one of them.
        best = best.masked_fill(~question_mask.any(dim=1, keepdim=True), 0.0)
        summary = masked_softmax(best, context_mask).unsqueeze(1) @ context
        return torch.cat([context, found, context * found, context * summary], dim=-1)


class ElmoSelfAttention(nn.Module):
    """What the words of a context find in its other words, or in none of them (Clark and Gardner 2017, sec. 2.2).

    For a word x, [a; x; a * x], (B, V, 3D): a is the softmax over the others and a learned score that stands for no
    word.
    """

    def __init__(self, size: int):
        super().__init__()
        self.scores = ElmoTrilinear(size)
        self.score_of_none = nn.Parameter(torch.empty(1))

    def init_weights(self) -> None:
        init.constant_(self.score_of_none, -1.0)  # no word is preferred to one of the context

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        scores = self.scores(vectors, vectors)
        is_itself = torch.eye(vectors.shape[1], dtype=torch.bool, device=vectors.device)
        scores = scores.masked_fill(~mask.unsqueeze(1) | is_itself, torch.finfo(scores.dtype).min)
        none = self.score_of_none.expand(*scores.shape[:2], 1)
        weights = torch.softmax(torch.cat([scores, none], dim=-1), dim=-1)[..., :-1]
        found = weights @ vectors
        return torch.cat([found, vectors, found * vectors], dim=-1)


class SelfAttentionReader(nn.Module):
    """As Clark and Gardner 2017, sec. 2.2, whose dropout leaves out the same features of all words of a text.

    One biGRU for both texts, attention both ways, a residual layer of self-attention, and a biGRU for each end, of
    which the last one's reads what the first one's gives.
    """

    def __init__(self, input_size: int, mix_size: int, head: QuestionAnsweringHead):
        super().__init__()
        size: int = head.hidden_size  # type: ignore[assignment]
        self.dropout = ElmoVariationalDropout(head.hidden_dropout)
        self.encoder = ElmoTaskGRU(input_size, size)
        self.attention = ElmoBidirectionalAttention(2 * size + mix_size)
        self.merge = ElmoDense(4 * (2 * size + mix_size), 2 * size, "relu")
        self.inner_encoder = ElmoTaskGRU(2 * size, size)
        self.self_attention = ElmoSelfAttention(2 * size)
        self.inner_merge = ElmoDense(3 * 2 * size, 2 * size, "relu")
        self.start_encoder = ElmoTaskGRU(2 * size, size)
        self.start_scores = ElmoDense(2 * size, 1)
        self.end_encoder = ElmoTaskGRU(4 * size, size)
        self.end_scores = ElmoDense(2 * size, 1)

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        asked, read = self._encode(question), self._encode(context)
        merged = self.merge(self.attention(read, context.mask, asked, question.mask))
        inner = self.dropout(self.inner_encoder(self.dropout(merged), context.mask))
        merged = self.dropout(merged + self.inner_merge(self.self_attention(inner, context.mask)))
        start = self.start_encoder(merged, context.mask)
        end = self.end_encoder(torch.cat([merged, start], dim=-1), context.mask)
        return self.start_scores(start).squeeze(-1), self.end_scores(end).squeeze(-1)

    def _encode(self, text: TextVectors) -> Tensor:
        return join(self.dropout(self.encoder(self.dropout(text.vectors), text.mask)), text.mix)


class ElmoBiDAF(nn.Module):
    """As AllenNLP has it: highway layers, one biLSTM for both texts, attention both ways, a biLSTM of two layers.

    With G what the attention gives and M what that biLSTM makes of it, the start is scored on [G; M]. One more biLSTM
    reads [G; M; s~; M * s~], where s~ is the sum of M's words by their probabilities as starts; its output scores the
    end, beside G (Seo et al. 2016, sec. 2).
    """

    def __init__(self, input_size: int, mix_size: int, head: QuestionAnsweringHead):
        super().__init__()
        size: int = head.hidden_size  # type: ignore[assignment]
        attended = 4 * (2 * size + mix_size)
        self.dropout = nn.Dropout(head.hidden_dropout)
        self.highways = nn.Sequential(ElmoHighway(input_size), ElmoHighway(input_size))
        self.encoder = ElmoTaskLSTM(input_size, size)
        self.attention = ElmoBidirectionalAttention(2 * size + mix_size)
        self.modeling = ElmoTaskLSTM(attended, size, 2, head.hidden_dropout)
        self.start_scores = ElmoDense(attended + 2 * size, 1)
        self.end_encoder = ElmoTaskLSTM(attended + 3 * 2 * size, size)
        self.end_scores = ElmoDense(attended + 2 * size, 1)

    def forward(self, question: TextVectors, context: TextVectors) -> tuple[Tensor, Tensor]:
        asked, read = self._encode(question), self._encode(context)
        attended = self.dropout(self.attention(read, context.mask, asked, question.mask))
        modeled = self.dropout(self.modeling(attended, context.mask))
        start = self.start_scores(torch.cat([attended, modeled], dim=-1)).squeeze(-1)
        weights = masked_softmax(start, context.mask)
        expected = (weights.unsqueeze(1) @ modeled).expand_as(modeled)
        inputs = torch.cat([attended, modeled, expected, modeled * expected], dim=-1)
        ends = self.dropout(self.end_encoder(inputs, context.mask))
        return start, self.end_scores(torch.cat([attended, ends], dim=-1)).squeeze(-1)

    def _encode(self, text: TextVectors) -> Tensor:
        vectors = self.highways(text.vectors.flatten(0, 1)).view_as(text.vectors)
        return join(self.dropout(self.encoder(vectors, text.mask)), text.mix)


# From a question's and a context's `TextVectors` to scores of each word of the context as the answer's first and last
# one, (B, V) and (B, V).
READERS: dict[str, Any] = {"self_attention": SelfAttentionReader, "bidaf": ElmoBiDAF}


class ElmoForQuestionAnswering(ElmoTaskModel):
    """Answers in a context, by their first and their last word (Peters et al. 2018, sec. 4 and A.4).

    The head's config, a `QuestionAnsweringHead`, chooses the reader. A row is a pair from the tokenizer, the question
    first: `tokenizer(question, context)`. The special tokens are read by the biLM alone.
    """

    _auto_class = "AutoModelForQuestionAnswering"  # type: ignore[assignment]
    head_class = QuestionAnsweringHead
    reads_pairs = True

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        head = self.config.require_head(QuestionAnsweringHead)
        self.max_answer_words = head.max_answer_words
        self.reader = READERS[head.reader](self.input_size, self.output_mix_size, head)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        *,
        token_type_ids: Tensor | None = None,
        packed_layers: Tensor | None = None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """Score each word of the contexts as the first and as the last one of the answer.

        Arguments are `ElmoModel`'s without a state, and:

        Args:
            start_positions, end_positions: Indices in T of the answer's first and last word, (B,); -100 for no answer.
        Returns: The mean of both ends' cross entropy over the rows that have an answer (0 without any); and
            `start_logits` and `end_logits`, (B, T), the lowest number of their dtype for all but the context's words.
        """
        if token_type_ids is None:
            raise ValueError(
                "token_type_ids is None, but this model reads pairs of a question and a context; call the tokenizer "
                "with text (the question) and text_pair (the context), and pass on what it gives."
            )
        words = self.embed(input_ids, attention_mask, token_type_ids, packed_layers, **kwargs)
        mask = self.without_special(input_ids, words.mask, token_type_ids)
        is_question, is_answer = segment_masks(mask, token_type_ids)
        question, context = PairSplitter(is_question), PairSplitter(is_answer)
        vectors, mix = words.last_hidden_state, self.second_mix(words)
        # Each text is no longer than the longest of its kind.
        texts = (
            TextVectors(each.split(vectors), each.mask, None if mix is None else each.split(mix))
            for each in (question, context)
        )
        logits = context.merge(torch.stack(self.reader(*texts), dim=-1))
        start, end = logits.masked_fill(~is_answer.unsqueeze(-1), torch.finfo(logits.dtype).min).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            each_end = ((start, start_positions), (end, end_positions))
            loss = self.add_penalty(torch.stack([_loss_of_positions(*each, is_answer) for each in each_end]).mean())
        return QuestionAnsweringModelOutput(
            loss=loss, start_logits=start, end_logits=end, hidden_states=words.hidden_states
        )

    def best_spans(self, start_logits: Tensor, end_logits: Tensor) -> AnswerSpans:
        """The best answers, as long as the head's config allows; see the function of this name."""
        return best_spans(start_logits, end_logits, self.max_answer_words)


class AnswerSpans(NamedTuple):
    """The best answer of each row: indices in T of its first and last word, and the product of their probabilities."""

    starts: Tensor
    ends: Tensor
    probabilities: Tensor


def best_spans(start_logits: Tensor, end_logits: Tensor, max_words: int | None = None) -> AnswerSpans:
    """The answers with the largest sum of start and end logits, (B, T) each, of at most `max_words` words."""
    length = start_logits.shape[1]
    width = length if max_words is None else min(max_words, length)
    # Probabilities, so that sums of two lowest numbers stay finite.
    starts, ends = start_logits.float().log_softmax(dim=-1), end_logits.float().log_softmax(dim=-1)
    best_ends, steps = F.pad(ends, (0, width - 1), value=-torch.inf).unfold(1, width, 1).max(dim=-1)
    best, first = (starts + best_ends).max(dim=-1)
    last = first + steps.gather(1, first.unsqueeze(1)).squeeze(1)
    return AnswerSpans(first, last, best.exp())


def _loss_of_positions(logits: Tensor, positions: Tensor, is_answer: Tensor) -> Tensor:
    """The mean cross entropy over the rows that have a position; ValueError if it is no word of the context."""
    has_answer = positions != IGNORED_LABEL
    if values_can_be_read(positions):
        indices = positions.clamp(0, is_answer.shape[1] - 1).unsqueeze(1)
        is_inside = is_answer.gather(1, indices).squeeze(1) & (indices.squeeze(1) == positions)
        if bool((has_answer & ~is_inside).any()):
            raise ValueError(
                f"start_positions or end_positions is {int(positions[has_answer & ~is_inside][0])}, where no word of "
                f"the context is; give the index of one, or {IGNORED_LABEL} where a row has no answer."
            )
    total = F.cross_entropy(logits.float(), positions, ignore_index=IGNORED_LABEL, reduction="sum")
    return total / has_answer.sum().clamp(min=1)
