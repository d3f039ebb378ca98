"""The layers above the token encoder: the two directions of the biLM and the scalar mix.

Letters in shapes: B sentences, T words, P projection, H cell, L biLM layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import ModelOutput

from .configuration_elmo import ElmoConfig
from .recurrence_elmo import ProjectedLSTMWeights, run_projected_lstm


@dataclass
class ElmoState(ModelOutput):
    """The LSTM states with which the next batch of as many rows carries on.

    Index 0 of the third axis is the forward direction, 1 the backward one.

    Args:
        hidden: Projected hidden states, (B, L, 2, P).
        cell: Cell states, (B, L, 2, H).
    """

    # Both are always given; ModelOutput requires defaults.
    hidden: Tensor = None  # type: ignore[assignment]
    cell: Tensor = None  # type: ignore[assignment]

    def detach(self) -> ElmoState:
        """The same numbers, cut from the graph: truncated back-propagation through time."""
        return ElmoState(hidden=self.hidden.detach(), cell=self.cell.detach())


class ElmoProjectedLSTM(nn.Module):
    """One direction of one biLM layer; parameters are named and ordered (i, f, g, o) as torch.nn.LSTM(proj_size)'s."""

    def __init__(self, config: ElmoConfig, reverse: bool):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * config.cell_size, config.projection_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * config.cell_size, config.projection_size))
        self.bias = nn.Parameter(torch.empty(4 * config.cell_size))
        self.weight_hr: nn.Parameter | None
        projection = nn.Parameter(torch.empty(config.projection_size, config.cell_size))
        self.register_parameter("weight_hr", projection if config.project_hidden else None)
        self.forget_bias = config.forget_bias
        self.cell_clip = config.cell_clip
        self.projection_clip = config.projection_clip
        self.reverse = reverse
        # Share of the recurrent weights that a call in training drops, the same ones for all of its words (DropConnect,
        # Merity et al. 2018, sec. 2). No field of the config: nothing but a training run has to do with it.
        self.recurrent_dropout = 0.0

    def weights(self) -> ProjectedLSTMWeights:
        """The weights as the scan wants them, the constant forget bias added to the learned one."""
        input_bias, forget_bias, candidate_bias, output_bias = self.bias.chunk(4)
        bias = torch.cat([input_bias, forget_bias + self.forget_bias, candidate_bias, output_bias])
        recurrent: Tensor = self.weight_hh
        if self.training and self.recurrent_dropout:
            recurrent = F.dropout(recurrent, self.recurrent_dropout)
        return ProjectedLSTMWeights(self.weight_ih, recurrent, bias, self.weight_hr)

    def forward(
        self, inputs: Tensor, mask: Tensor | None, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Scan (B, T, P) word vectors; see `scan_projected_lstm`."""
        return run_projected_lstm(
            inputs,
            mask,
            self.weights(),
            state,
            cell_clip=self.cell_clip,
            projection_clip=self.projection_clip,
            reverse=self.reverse,
        )


class ElmoBiLMLayer(GradientCheckpointingLayer):
    """Both directions of one biLM layer, side by side and without sight of each other."""

    def __init__(self, config: ElmoConfig, index: int):
        super().__init__()
        self.forward_lstm = ElmoProjectedLSTM(config, reverse=False)
        self.backward_lstm = ElmoProjectedLSTM(config, reverse=True)
        self.dropout = nn.Dropout(config.dropout)
        self.adds_its_input = config.use_skip_connections and index > 0

    def forward(
        self,
        forward_inputs: Tensor,
        backward_inputs: Tensor,
        mask: Tensor | None,
        hidden: Tensor | None,
        cell: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Run one layer.

        Args:
            forward_inputs, backward_inputs: Word vectors for each direction, (B, T, P).
            mask: True for real words, (B, T); None where all are.
            hidden, cell: Carried states, (B, 2, P) and (B, 2, H), or None for zeros.
        Returns: The two directions' outputs, (B, T, P), and the new hidden and cell states.
        """
        outputs, states = [], []
        for direction, inputs in enumerate((forward_inputs, backward_inputs)):
            state = None if hidden is None or cell is None else (hidden[:, direction], cell[:, direction])
            output, new_state = self.run_direction(direction, inputs, mask, state)
            outputs.append(output)
            states.append(new_state)
        return (
            outputs[0],
            outputs[1],
            torch.stack([states[0][0], states[1][0]], dim=1),
            torch.stack([states[0][1], states[1][1]], dim=1),
        )

    def run_direction(
        self, direction: int, inputs: Tensor, mask: Tensor | None, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Run one direction of the layer, 0 forward or 1 backward; arguments as `scan_projected_lstm`'s."""
        lstm = (self.forward_lstm, self.backward_lstm)[direction]
        output, state = lstm(self.dropout(inputs), mask, state)
        # The recurrence carries the hidden state from before this sum.
        return output + inputs if self.adds_its_input else output, state


class ElmoBiLM(nn.Module):
    """L layers of two independent language models, forward and backward (Peters et al. 2018, sec. 3.1)."""

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.layers = nn.ModuleList(ElmoBiLMLayer(config, index) for index in range(config.num_hidden_layers))
        self.output_dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        forward_vectors: Tensor,
        backward_vectors: Tensor,
        mask: Tensor | None = None,
        state: ElmoState | None = None,
    ) -> tuple[list[tuple[Tensor, Tensor]], ElmoState]:
        """Run both directions through all layers.

        The backward direction reads from the last word to the first. In pre-training the two directions read
        different windows, which is why they have an argument each.

        Args:
            forward_vectors, backward_vectors: Token vectors, (B, T, P); the same tensor for ordinary sentences.
            mask: True for real words, (B, T); None where all are.
            state: Carried states; None starts from zeros.
        Returns: (forward, backward) outputs of each layer, (B, T, P), and the states after the batch.
        """
        outputs, hiddens, cells = [], [], []
        forward_outputs, backward_outputs = forward_vectors, backward_vectors
        for index, layer in enumerate(self.layers):
            hidden, cell = (None, None) if state is None else (state.hidden[:, index], state.cell[:, index])
            forward_outputs, backward_outputs, hidden, cell = layer(
                forward_outputs, backward_outputs, mask, hidden, cell
            )
            outputs.append((forward_outputs, backward_outputs))
            hiddens.append(hidden)
            cells.append(cell)
        outputs[-1] = tuple(self.output_dropout(output) for output in outputs[-1])
        return outputs, ElmoState(hidden=torch.stack(hiddens, dim=1), cell=torch.stack(cells, dim=1))

    def run_direction(
        self,
        direction: int,
        vectors: Tensor,
        mask: Tensor | None = None,
        state: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
        """Run one direction alone through all layers.

        The two never see each other, so that a long text can be read in pieces: forward from its first piece to its
        last, backward from its last to its first, each carrying its own state.

        Args:
            direction: 0 for forward, 1 for backward, as in `ElmoState`.
            vectors: Token vectors, (B, T, P).
            mask: True for real words, (B, T); None where all are.
            state: Carried hidden and cell states of this direction, (B, L, P) and (B, L, H); None starts from zeros.
        Returns: Outputs of each layer, (B, T, P), and the states after the piece.
        """
        outputs, states = [], []
        for index, layer in enumerate(self.layers):
            layer_state = None if state is None else (state[0][:, index], state[1][:, index])
            vectors, layer_state = cast("ElmoBiLMLayer", layer).run_direction(direction, vectors, mask, layer_state)
            outputs.append(vectors)
            states.append(layer_state)
        outputs[-1] = self.output_dropout(outputs[-1])
        hiddens, cells = zip(*states, strict=True)
        return outputs, (torch.stack(hiddens, dim=1), torch.stack(cells, dim=1))


class ElmoScalarMix(nn.Module):
    """gamma * sum_j s_j h_j (Peters et al. 2018, sec. 3.2, equation 1).

    The shares s are softmax(w), or where the config's mixed_layers says so fixed ones; gamma is learned in each case.

    Where the config says align_layers, each layer first goes through a matrix of its own, h_j A_j^T, that turns it into
    the space of another language (Schuster et al. 2019). The matrices are given, not learned.

    Attributes:
        alignment: Those matrices, (L + 1, 2P, 2P), the token encoder's first; None without them.
    """

    alignment: nn.Parameter | None

    # Keeps the old implementations' numbers where a layer has no variance.
    variance_floor = 1e-12

    def __init__(self, config: ElmoConfig):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.num_hidden_layers + 1))
        self.scale = nn.Parameter(torch.empty(1))
        self.fixed_shares = _fixed_shares(config.mixed_layers, len(self.weight))
        self.normalization = config.mix_normalization
        size = 2 * config.projection_size
        alignment = nn.Parameter(torch.empty(len(self.weight), size, size), requires_grad=False)
        self.register_parameter("alignment", alignment if config.align_layers else None)

    def forward(self, layers: list[Tensor], mask: Tensor) -> Tensor:
        """Mix L + 1 layers, each (B, T, D), with mask (B, T) into (B, T, D); zero where masked."""
        if self.alignment is not None:
            layers = [F.linear(layer, matrix) for layer, matrix in zip(layers, self.alignment, strict=True)]
        if self.fixed_shares is None:
            pairs = list(zip(self.shares(), layers, strict=True))
        else:
            pairs = [(share, layer) for share, layer in zip(self.fixed_shares, layers, strict=True) if share]
        mixed = sum(share * self._normalize(layer, mask) for share, layer in pairs)
        return torch.where(mask.unsqueeze(-1), self.scale * mixed, 0.0)

    def shares(self) -> Tensor:
        """How much of the mix each layer is, (L + 1,), the token encoder's first; they sum to 1."""
        if self.fixed_shares is None:
            return torch.softmax(self.weight, dim=0)
        return self.weight.new_tensor(self.fixed_shares)

    def _normalize(self, layer: Tensor, mask: Tensor) -> Tensor:
        if self.normalization == "none":
            return layer
        # Half precision can hold neither the sums over a batch nor the floor of the variance.
        vectors = layer.to(torch.promote_types(layer.dtype, torch.float32))
        if self.normalization == "word":
            return F.layer_norm(vectors, vectors.shape[-1:], eps=self.variance_floor).to(layer.dtype)
        real = mask.unsqueeze(-1).to(vectors.dtype)
        count = (real.sum() * vectors.shape[-1]).clamp(min=1)
        mean = (vectors * real).sum() / count
        variance = ((vectors - mean) * real).square().sum() / count
        return ((vectors - mean) * torch.rsqrt(variance + self.variance_floor)).to(layer.dtype)

    def squared_norm(self) -> Tensor:
        """The squared norm of the weights before their softmax, which `mix_l2` multiplies; 0 where shares are fixed."""
        return self.weight.square().sum() if self.fixed_shares is None else self.weight.new_zeros(())


def _fixed_shares(layers: str, count: int) -> tuple[float, ...] | None:
    """The shares of `count` layers that no task learns; None where it does."""
    chosen = {"all": range(0), "top": range(count - 1, count), "token": range(1), "average": range(count)}[layers]
    return tuple((index in chosen) / len(chosen) for index in range(count)) if chosen else None


def pack_layers(layers: list[Tensor]) -> Tensor:
    """L + 1 layers, each (B, T, 2P), as one tensor, (B, T, P + 2PL): the token encoder's vector stands there once."""
    vectors, _ = layers[0].chunk(2, dim=-1)
    return torch.cat([vectors, *layers[1:]], dim=-1)


def unpack_layers(packed: Tensor, projection_size: int) -> list[Tensor]:
    """The layers that `pack_layers` made one tensor of."""
    vectors, outputs = packed[..., :projection_size], packed[..., projection_size:]
    return [torch.cat([vectors, vectors], dim=-1), *outputs.split(2 * projection_size, dim=-1)]
