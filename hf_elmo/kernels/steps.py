"""The words of a padded batch in the order in which a scan meets them: step by step, longest sentences first.

Rows are sorted by their number of words, so that the rows of a step are the first rows of the step before: no step
computes padding, and carrying a state on is a slice. Letters in shapes: B sentences, T words, N real words of the
batch, D features.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """Where each real word of a batch (B, T) stands in the order of steps.

    Args:
        sizes: Rows with a word at each step, never more than at the step before; their sum is N.
        shape: (B, T).
        reverse: Whether the first step reads each row's last word.
        rows: The batch's row that stands at each sorted place, (B,); None where all rows are full.
        words: The place in (B * T) of each word, (N,); None where all rows are full.
        lengths: Words in each sorted row, (B,); None where all rows are full.
    """

    sizes: list[int]
    shape: tuple[int, int]
    reverse: bool
    rows: Tensor | None = None
    words: Tensor | None = None
    lengths: Tensor | None = None

    @property
    def num_words(self) -> int:
        return sum(self.sizes)

    def pack(self, inputs: Tensor) -> Tensor:
        """(B, T, D) to (N, D), in the order of steps."""
        if self.words is not None:
            return inputs.reshape(-1, inputs.shape[-1])[self.words]
        by_step = inputs.transpose(0, 1)
        return (by_step.flip(0) if self.reverse else by_step).reshape(-1, inputs.shape[-1])

    def unpack(self, packed: Tensor) -> Tensor:
        """(N, D) to (B, T, D), zeros where there is no word."""
        batch_size, length = self.shape
        if self.words is not None:
            flat = packed.new_zeros(batch_size * length, packed.shape[-1])
            return flat.index_copy_(0, self.words, packed).view(batch_size, length, -1)
        by_step = packed.view(length, batch_size, -1)
        return (by_step.flip(0) if self.reverse else by_step).transpose(0, 1).contiguous()

    def sort_rows(self, state: Tensor) -> Tensor:
        """(B, D) in the batch's order to the sorted order; a new tensor."""
        return state.clone() if self.rows is None else state[self.rows]

    def restore_rows(self, state: Tensor) -> Tensor:
        """(B, D) in the sorted order back to the batch's."""
        return state if self.rows is None else torch.empty_like(state).index_copy_(0, self.rows, state)

    def before(self, first: Tensor, packed: Tensor) -> Tensor:
        """What each word finds, (N, D): `first` (B, D), in sorted order, at step 0, later the step before."""
        return torch.cat([first[: self.sizes[0]], packed[self._previous_words()]]) if self.sizes else packed

    def last(self, first: Tensor, packed: Tensor) -> Tensor:
        """Each sorted row's value (B, D) after its last word; of `first` where the row has none."""
        if self.lengths is None:
            return packed[-self.shape[0] :].clone()
        final = first.clone()
        alive = self.sizes[0] if self.sizes else 0
        if alive:
            sizes = torch.tensor(self.sizes, device=self.lengths.device)
            starts = sizes.cumsum(0) - sizes
            places = starts[self.lengths[:alive] - 1] + torch.arange(alive, device=packed.device)
            final[:alive] = packed[places]
        return final

    def _previous_words(self) -> Tensor | slice:
        first = self.sizes[0]
        if self.lengths is None:
            return slice(0, self.num_words - first)
        sizes = torch.tensor(self.sizes, device=self.lengths.device)
        # A word's place in the step before is its own less that step's rows.
        back = torch.repeat_interleave(sizes[:-1], sizes[1:])
        return torch.arange(first, self.num_words, device=self.lengths.device) - back


def lay_out(mask: Tensor | None, shape: tuple[int, int], reverse: bool, device: torch.device) -> Steps:
    """Order the real words of a batch of `shape` (B, T).

    All layers of a model ask with the same mask: the last few answers are kept, by the mask's numbers.

    Args:
        mask: True for real words, (B, T), with holes anywhere; None where all are real.
    """
    if mask is None:
        return Steps([shape[0]] * shape[1], shape, reverse)
    content = mask.to("cpu", torch.bool).contiguous().numpy().tobytes()
    # Memory of one stream must not be read by another after it has been given back.
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
    return _lay_out(content, shape, reverse, device, stream)


@functools.lru_cache(maxsize=8)
# Made outside of inference mode, what is kept can take part in what is trained later.
@torch.inference_mode(False)
def _lay_out(content: bytes, shape: tuple[int, int], reverse: bool, device: torch.device, stream: int | None) -> Steps:
    batch_size, length = shape
    mask = torch.frombuffer(bytearray(content), dtype=torch.bool).view(shape)
    lengths, rows = mask.sum(dim=1).sort(descending=True, stable=True)
    sorted_mask = mask[rows]
    places = rows.unsqueeze(1) * length + torch.arange(length)
    if reverse:
        sorted_mask, places = sorted_mask.flip(1), places.flip(1)
    steps = sorted_mask.cumsum(dim=1) - 1
    order = steps * batch_size + torch.arange(batch_size).unsqueeze(1)
    words = places[sorted_mask][order[sorted_mask].argsort()]
    longest = int(lengths[0])
    sizes = (lengths.unsqueeze(0) > torch.arange(longest).unsqueeze(1)).sum(dim=1).tolist()
    return Steps(sizes, shape, reverse, rows.to(device), words.to(device), lengths.to(device))
