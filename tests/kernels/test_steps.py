"""The order of steps: every real word once, rows falling in number, and back to the batch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.kernels.steps import lay_out


@given(
    batch_size=st.integers(1, 6),
    length=st.integers(1, 6),
    masked=st.booleans(),
    reverse=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_words_are_met_step_by_step_and_found_again(batch_size, length, masked, reverse, seed):
    torch.manual_seed(seed)
    mask = torch.rand(batch_size, length) < 0.6 if masked else None
    steps = lay_out(mask, (batch_size, length), reverse, torch.device("cpu"))
    real = torch.ones(batch_size, length, dtype=torch.bool) if mask is None else mask
    assert sum(steps.sizes) == steps.num_words == int(real.sum())
    assert steps.sizes == sorted(steps.sizes, reverse=True) and 0 not in steps.sizes

    # Each word is its own name, so that it can be told where it went.
    names = torch.arange(1.0, batch_size * length + 1).view(batch_size, length, 1)
    packed = steps.pack(names)
    assert torch.equal(steps.unpack(packed), names * real.unsqueeze(-1))

    sentences = [row[keep].flip(0) if reverse else row[keep] for row, keep in zip(names, real, strict=True)]
    first = torch.arange(-1.0, -batch_size - 1, -1).unsqueeze(1)
    found = steps.before(steps.sort_rows(first), packed)
    wanted = {}
    for row, words in enumerate(sentences):
        for place, word in enumerate(words):
            wanted[float(word)] = float(words[place - 1]) if place else float(first[row])
    assert {float(word): float(before) for word, before in zip(packed, found, strict=True)} == wanted

    last = steps.restore_rows(steps.last(steps.sort_rows(first), packed))
    assert last.flatten().tolist() == [
        float(words[-1]) if len(words) else float(first[row]) for row, words in enumerate(sentences)
    ]
