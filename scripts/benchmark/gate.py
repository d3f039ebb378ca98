"""The correctness gate: nothing is timed before it gives the numbers of the readable scan.

Letters in shapes: B sentences, T words, P projection, H cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hf_elmo import kernels
from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights, run_projected_lstm, scan_projected_lstm

from .cases import READABLE, Case, flatten

# Outputs, states and gradients in float64 with clipping active: only the order of additions may differ. In float32 a
# net that clips is chaotic, and rounding says nothing about what is right.
FLOAT64_BOUND = 1e-9

# Sizes without a common factor, from the smallest there is to some that fill vector registers and leave a rest.
_SHAPES = ((1, 1, 1, 1), (3, 7, 5, 11), (2, 12, 17, 67), (9, 5, 16, 33))  # B, T, P, H
CELL_CLIP, PROJECTION_CLIP = 0.4, 0.3
# Makes the clips bite.
_WEIGHT_SPREAD = 1.5


class GateError(ValueError):
    """A backend or a peer does not compute what it should: its timing would mean nothing."""


@dataclass(frozen=True)
class Deviation:
    """How far one result lies from the readable scan's.

    Args:
        what: What was compared: a case's name, or a result of the scan.
        size, batch_size: Of the case; None for the scans, which are of many sizes.
        name: The backend, precision or peer.
        maximum: Largest absolute difference.
        mean: Mean absolute difference.
        relative_rms: Root mean square of the difference over that of the wanted numbers.
        bound: What `maximum` may be; None where it is only reported.
    """

    what: str
    size: str | None
    batch_size: int | None
    name: str
    maximum: float
    mean: float
    relative_rms: float
    bound: float | None


class ScanCase(NamedTuple):
    """The arguments of one scan, float64."""

    inputs: Tensor
    mask: Tensor | None
    weights: ProjectedLSTMWeights
    state: tuple[Tensor, Tensor] | None
    reverse: bool


def check_scans(backends: Sequence[str], device: torch.device) -> list[Deviation]:
    """Compare each backend's scan with the readable one in float64, clipping active.

    At odd sizes, with and without holes and padding in the mask, initial states, in both directions: outputs, final
    states and the gradients of inputs, weights and initial states.

    Raises: GateError naming the backend, what differs, by how much, and the bound.
    """
    deviations = []
    for backend in backends:
        pairs: dict[str, list[tuple[Tensor, Tensor]]] = {}
        for case in scan_cases(device):
            wanted = scan_results(scan_projected_lstm, case)
            with kernels.use_backend(backend):
                found = scan_results(run_projected_lstm, case)
            for what in wanted:
                pairs.setdefault(what, []).extend(zip(found[what], wanted[what], strict=True))
        for what, tensors in pairs.items():
            found, wanted = map(flatten, zip(*tensors, strict=True))
            deviations.append(Deviation(what, None, None, backend, *compare(found, wanted), FLOAT64_BOUND))
    return _all_within_bounds(deviations)


def check_cases(cases: Sequence[Case]) -> list[Deviation]:
    """Compare what every function of the cases returns with what its reference returns, most often the readable one.

    Raises: GateError as `check_scans`.
    """
    deviations = []
    for case in cases:
        readable = case.pick(case.functions[READABLE]())
        for name, bound in case.bounds.items():
            wanted = case.pick(case.references[name]()) if name in case.references else readable
            differences = compare(case.pick(case.functions[name]()), wanted)
            deviations.append(Deviation(case.name, case.size, case.batch_size, name, *differences, bound))
    return _all_within_bounds(deviations)


def scan_cases(device: torch.device) -> Iterator[ScanCase]:
    """Seeded random scans over all combinations of sizes, masks, states and directions."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int, spread: float = 1.0) -> Tensor:
        return (spread * torch.randn(shape, generator=generator, dtype=torch.float64)).to(device)

    for (batch_size, length, projection_size, cell_size), mask_kind, has_state, reverse in itertools.product(
        _SHAPES, ("none", "padded right", "holes", "an empty row"), (False, True), (False, True)
    ):
        gates = (4 * cell_size, projection_size)
        weights = ProjectedLSTMWeights(
            *(draw(*shape, spread=_WEIGHT_SPREAD * shape[-1] ** -0.5) for shape in (gates, gates)),
            draw(4 * cell_size, spread=0.3),
            draw(projection_size, cell_size, spread=_WEIGHT_SPREAD * cell_size**-0.5),
        )
        # Well within the clips, as every carried state is.
        state = (
            draw(batch_size, projection_size).tanh() * PROJECTION_CLIP / 2,
            draw(batch_size, cell_size).tanh() * CELL_CLIP / 2,
        )
        mask = _draw_mask(mask_kind, batch_size, length, generator)
        yield ScanCase(
            draw(batch_size, length, projection_size),
            None if mask is None else mask.to(device),
            weights,
            state if has_state else None,
            reverse,
        )


def scan_results(scan: Callable[..., Any], case: ScanCase) -> dict[str, list[Tensor]]:
    """Outputs, final states and all gradients of one scan; the gradients are of a sum that weighs every number."""
    leaves = [tensor.clone().requires_grad_() for tensor in (case.inputs, *case.weights, *(case.state or ()))]
    outputs, states = scan(
        leaves[0],
        case.mask,
        ProjectedLSTMWeights(*leaves[1:5]),
        tuple(leaves[5:]) or None,
        cell_clip=CELL_CLIP,
        projection_clip=PROJECTION_CLIP,
        reverse=case.reverse,
    )
    generator = torch.Generator().manual_seed(1)
    loss = sum(
        (result * torch.randn(result.shape, generator=generator, dtype=result.dtype).to(result.device)).sum()
        for result in (outputs, *states)
    )
    # Where a mask hides every word, nothing depends on the inputs and the weights: zeros then, not an error.
    gradients = torch.autograd.grad(loss + sum(0 * leaf.sum() for leaf in leaves), leaves)
    return {
        "outputs": [outputs.detach()],
        "final states": [state.detach() for state in states],
        "gradients": list(gradients),
    }


def compare(found: Tensor, wanted: Tensor) -> tuple[float, float, float]:
    """The largest and the mean absolute difference of two tensors, and its root mean square relative to `wanted`'s.

    Args:
        found: In any precision.
        wanted: Of the same shape, float32 or float64.
    """
    difference = found - wanted
    rms = difference.square().mean().sqrt() / wanted.square().mean().sqrt()
    return float(difference.abs().max()), float(difference.abs().mean()), float(rms)


def to_json(deviations: Sequence[Deviation]) -> list[dict[str, Any]]:
    """As plain dictionaries."""
    return [asdict(deviation) for deviation in deviations]


def _all_within_bounds(deviations: list[Deviation]) -> list[Deviation]:
    for deviation in deviations:
        # Not the other way round: a nan is within no bound.
        if deviation.bound is not None and not deviation.maximum <= deviation.bound:
            where = "the scan, float64" if deviation.size is None else f"{deviation.size}, {deviation.batch_size}"
            raise GateError(
                f"{deviation.name!r} differs from the readable scan by {deviation.maximum:.3g} in {deviation.what} "
                f"({where}); the bound is {deviation.bound:g}. Nothing was timed: mend it, or leave it out where "
                "--backends or --allennlp can."
            )
    return deviations


def _draw_mask(kind: str, batch_size: int, length: int, generator: torch.Generator) -> Tensor | None:
    """True for real words, (B, T); None for a mask that hides nothing."""
    if kind == "none":
        return None
    if kind == "holes":
        return torch.rand(batch_size, length, generator=generator) < 0.6
    lengths = torch.randint(1, length + 1, (batch_size,), generator=generator)
    if kind == "an empty row":
        lengths[batch_size // 2] = 0
    return torch.arange(length) < lengths.unsqueeze(1)
