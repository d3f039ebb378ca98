"""The order of words: every real word once, sentences falling in length, and back to the batch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.kernels.scan import Packing
from hf_elmo.model.modeling_elmo import order_words


@given(
    batch_size=st.integers(1, 6),
    length=st.integers(1, 6),
    masked=st.booleans(),
    reverse=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_words_are_met_step_by_step_and_found_again(batch_size, length, masked, reverse, seed):
    torch.manual_seed(seed)
    real = torch.rand(batch_size, length) < (0.6 if masked else 2)
    packing = Packing.of(order_words(real), (batch_size, length), reverse)
    assert sum(packing.sizes) == len(packing.indices) == int(real.sum())
    assert packing.sizes == sorted(packing.sizes, reverse=True) and 0 not in packing.sizes

    # Each word is its own name, so that it can be told where it went.
    names = torch.arange(1.0, batch_size * length + 1).view(batch_size, length, 1)
    packed = packing.pack(names)
    assert torch.equal(packing.unpack(packed), names * real.unsqueeze(-1))

    sentences = [row[keep].flip(0) if reverse else row[keep] for row, keep in zip(names, real, strict=True)]
    first = torch.arange(-1.0, -batch_size - 1, -1).unsqueeze(1)
    assert torch.equal(packing.restore(packing.sort(first)), first)
    found = packing.values_before(packing.sort(first), packed)
    wanted = {}
    for row, words in enumerate(sentences):
        for index, word in enumerate(words):
            wanted[float(word)] = float(words[index - 1]) if index else float(first[row])
    assert {float(word): float(before) for word, before in zip(packed, found, strict=True)} == wanted

    last = packing.restore(packing.values_after(packing.sort(first), packed))
    assert last.flatten().tolist() == [
        float(words[-1]) if len(words) else float(first[row]) for row, words in enumerate(sentences)
    ]
