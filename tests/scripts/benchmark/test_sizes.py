"""Random models of the published sizes."""

import torch
from benchmark.sizes import SIZES, build_model
from refusals import assert_refused

from hf_elmo import ElmoConfig


def test_sizes_are_the_published_ones():
    assert [(SIZES[name]().cell_size, SIZES[name]().projection_size) for name in ("small", "medium", "original")] == [
        (1024, 128),
        (2048, 256),
        (4096, 512),
    ]
    assert SIZES["original"]().to_dict() == ElmoConfig.original().to_dict()


def test_weights_depend_on_the_seed_alone():
    first, again, other = (build_model("tiny", seed).state_dict() for seed in (3, 3, 4))
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
        assert name.startswith("mixes.") or not torch.equal(tensor, other[name])


def test_states_move_and_padding_stays_zero():
    model = build_model("tiny")
    assert not model.token_encoder.character_embedding.weight[0].any()
    rows = torch.randint(1, 262, (2, 6, 50))
    with torch.no_grad():
        vectors = model(rows).last_hidden_state
    assert 0.1 < vectors.std() < 1


def test_an_unknown_size_is_refused():
    assert_refused(ValueError, ("--sizes", "'huge'", "tiny, small"), build_model, "huge")
