"""Softmaxes, targets and watches over memory and products, for the tests of losses."""

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from hf_elmo.pretraining.sampling import LogUniformSampler, log_uniform_probabilities


def make_softmax(projection_size: int, vocab_size: int) -> nn.Linear:
    """A softmax in float64 over words as frequent as they are sampled."""
    softmax = nn.Linear(projection_size, vocab_size).double()
    with torch.no_grad():
        softmax.weight.normal_(std=projection_size**-0.5)
        softmax.bias.copy_(log_uniform_probabilities(torch.arange(vocab_size), vocab_size, torch.float64).log())
    return softmax


def make_vectors(projection_size: int, vocab_size: int, num_targets: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Vectors in float64, and a target for each."""
    hidden = (scale * torch.randn(num_targets, projection_size, dtype=torch.float64)).requires_grad_()
    return hidden, LogUniformSampler(vocab_size, 1, seed=2)._draw_tries(num_targets)


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation gives."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if isinstance(output, torch.Tensor):
            self.numel = max(self.numel, output.numel())
        return output
