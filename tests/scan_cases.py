"""Batches for tests of a scan, its results with their gradients, and how they are compared."""

import torch
from hypothesis import example
from hypothesis import strategies as st
from tolerances import REORDERED_FLOAT64

from hf_elmo.model.modeling_elmo import ProjectedLSTMWeights


def make_weights(projection_size, cell_size, scale=0.6, dtype=torch.float64) -> ProjectedLSTMWeights:
    shapes = [(4 * cell_size, projection_size)] * 2 + [(4 * cell_size,), (projection_size, cell_size)]
    return ProjectedLSTMWeights(*(scale * torch.randn(shape, dtype=dtype) for shape in shapes))


# A large batch with all that there is, by which every mistake shows.
with_all_options = example(
    sizes=(3, 6, 5, 7),
    masked=True,
    stateful=True,
    settings={"cell_clip": 0.3, "projection_clip": 0.2, "reverse": True},
    seed=0,
)


def sizes_and_settings(*largest: int) -> dict[str, st.SearchStrategy]:
    """Examples of a scan: batch, length, projection and cell of at most these sizes, and its options."""
    return {
        "sizes": st.tuples(*(st.integers(1, size) for size in largest)),
        "masked": st.booleans(),
        "stateful": st.booleans(),
        "settings": st.fixed_dictionaries(
            {
                "cell_clip": st.none() | st.sampled_from([0.3, 3.0]),
                "projection_clip": st.none() | st.sampled_from([0.2, 3.0]),
                "reverse": st.booleans(),
            }
        ),
        "seed": st.integers(0, 10**6),
    }


def make_batch(batch_size, length, projection_size, cell_size, masked, stateful):
    """The arguments of a scan: inputs, mask, weights and state."""
    inputs = torch.randn(batch_size, length, projection_size, dtype=torch.float64)
    # Holes anywhere: padding is only one of the masks there are.
    mask = torch.rand(batch_size, length) < 0.6 if masked else None
    state = None
    if stateful:
        # Within the clips, as every carried state is: at a bound itself the gradient is a matter of taste.
        state = (
            torch.rand(batch_size, projection_size, dtype=torch.float64) * 0.19,
            torch.rand(batch_size, cell_size, dtype=torch.float64) * 0.29,
        )
    return inputs, mask, make_weights(projection_size, cell_size), state


def results_and_gradients(scan, inputs, mask, weights, state, **settings):
    """Everything a scan gives: outputs, both states, and the gradients of a sum that weighs each of their numbers."""
    leaves = [tensor.clone().requires_grad_() for tensor in (inputs, *weights, *(state or ()))]
    outputs, new_state = scan(
        leaves[0], mask, ProjectedLSTMWeights(*leaves[1:5]), tuple(leaves[5:]) or None, **settings
    )
    results = [outputs, *new_state]
    generator = torch.Generator().manual_seed(1)
    shares = [torch.randn(result.shape, generator=generator, dtype=torch.float64) for result in results]
    total = sum((result * share.to(result.device)).sum() for result, share in zip(results, shares, strict=True))
    # Where a mask hides every word, nothing depends on the inputs and the weights: zeros then, not an error.
    return results, torch.autograd.grad(total + sum(0 * leaf.sum() for leaf in leaves), leaves)


def relative_error(found, wanted):
    """Of norms."""
    return float((found.double() - wanted).norm() / wanted.norm())


def assert_same(found, wanted, tolerance=REORDERED_FLOAT64):
    for first, second in zip(found, wanted, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=tolerance)
