"""What is remembered of a tensor: every way to change it is seen, whatever wrote, and nothing else is taken for one."""

import copy
import ctypes
import io
import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_scan import build_or_skip
from torch import nn

from hf_elmo.kernels import library
from hf_elmo.kernels.witness import Witness


@pytest.fixture(params=["digest", "copy"])
def way(request, monkeypatch):
    """Both ways to remember numbers: by the compiled library's digest, and without that library."""
    if request.param == "digest":
        build_or_skip()
    else:
        monkeypatch.setattr(library, "is_ready", lambda: False)
    return request.param


def make_module() -> nn.Module:
    """One weight, large enough for several blocks of a digest, with gradients for optimizers."""
    module = nn.Linear(96, 200, bias=False)
    module.weight.grad = torch.ones_like(module.weight)
    return module


def step(optimizer_class, **settings):
    return lambda module: optimizer_class(module.parameters(), lr=0.1, **settings).step()


@torch.no_grad()
def in_place(module):
    module.weight.add_(1)


@torch.no_grad()
def one_number(module):
    module.weight[7, 9] += 1


def one_number_past_the_counter(module):
    module.weight.data[199, 95] += 1


def one_bit(module):
    module.weight.data.view(torch.int32)[101, 50] ^= 1


def two_rows_change_places(module):
    module.weight.data[[3, 150]] = module.weight.data[[150, 3]]


def two_signs(module):
    module.weight.data[5, [1, 3]] *= -1


def through_numpy(module):
    module.weight.detach().numpy()[11, 2] = 3


def through_an_alias(module):
    torch.from_dlpack(module.weight.detach()).mul_(2)


def by_another_library(module):
    numbers = (ctypes.c_float * 4)(1, 2, 3, 4)
    ctypes.memmove(module.weight.data_ptr() + 400, numbers, 16)


def by_its_storage(module):
    module.weight.untyped_storage().fill_(0)


def with_inference_mode(module):
    with torch.inference_mode():
        module.weight.data.mul_(3)


def another_storage(module):
    module.weight.data = module.weight.data + 1


def set_storage(module):
    with torch.no_grad():
        module.weight.set_(torch.randn_like(module.weight))


def swapped(module):
    torch.utils.swap_tensors(module.weight, nn.Parameter(torch.randn_like(module.weight)))


def load(module):
    module.load_state_dict({"weight": torch.randn_like(module.weight)})


def load_assigning(module):
    module.load_state_dict({"weight": torch.randn_like(module.weight)}, assign=True)


def load_from_a_file(module):
    file = io.BytesIO()
    torch.save({"weight": torch.randn_like(module.weight)}, file)
    file.seek(0)
    module.load_state_dict(torch.load(file, weights_only=True))


def to_half_and_back(module):
    module.half().float()


def averaged(module):
    averages = torch.optim.swa_utils.AveragedModel(module)
    averages.module.weight.data.zero_()
    module.weight.data.swapaxes_(0, 1).swapaxes_(0, 1).copy_(averages.module.weight)


def initialised(module):
    nn.init.normal_(module.weight)


def vector_to_parameters(module):
    nn.utils.vector_to_parameters(torch.randn(module.weight.numel()), module.parameters())


CHANGES = {
    "SGD": step(torch.optim.SGD),
    "SGD foreach": step(torch.optim.SGD, foreach=True),
    "SGD fused": step(torch.optim.SGD, fused=True),
    "Adam fused": step(torch.optim.Adam, fused=True),
    "AdamW": step(torch.optim.AdamW),
    "Adagrad": step(torch.optim.Adagrad),
    **{
        function.__name__: function
        for function in (
            in_place,
            one_number,
            one_number_past_the_counter,
            one_bit,
            two_rows_change_places,
            two_signs,
            through_numpy,
            through_an_alias,
            by_another_library,
            by_its_storage,
            with_inference_mode,
            another_storage,
            set_storage,
            swapped,
            load,
            load_assigning,
            load_from_a_file,
            to_half_and_back,
            averaged,
            initialised,
            vector_to_parameters,
        )
    },
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen(way, change):
    module = make_module()
    witness = Witness(module.weight)
    assert witness.holds(module.weight)
    change(module)
    assert not witness.holds(module.weight)
    assert Witness(module.weight).holds(module.weight)


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_another_process_is_seen(way):
    weight = torch.randn(40, 50).share_memory_()
    witness = Witness(weight)
    process = multiprocessing.get_context("fork").Process(target=lambda: weight.numpy().__setitem__((3, 4), 5.0))
    process.start()
    process.join()
    assert weight[3, 4] == 5
    assert not witness.holds(weight)


def test_a_file_that_another_program_writes_is_seen(way, tmp_path):
    """Weights that are mapped from a file, as safetensors and torch.load(mmap=True) do."""
    path = tmp_path / "weights"
    np.arange(1000, dtype=np.float32).tofile(path)
    weight = torch.from_numpy(np.memmap(path, dtype=np.float32, mode="r+"))
    witness = Witness(weight)
    assert witness.holds(weight)
    subprocess.run(
        [sys.executable, "-c", f"f = open({str(path)!r}, 'r+b'); f.seek(2000); f.write(b'abcd')"], check=True
    )
    assert not witness.holds(weight)


@pytest.mark.parametrize(
    "same",
    [
        lambda module: module.load_state_dict(copy.deepcopy(module.state_dict())),
        lambda module: setattr(module.weight, "data", module.weight.data.clone()),
        lambda module: module.share_memory(),
        lambda module: module.requires_grad_(False),
        lambda module: module.weight.data.mul_(1),
    ],
)
def test_the_same_numbers_are_no_change(way, same):
    module = make_module()
    module.weight.data[0, 0] = float("nan")
    witness = Witness(module.weight)
    same(module)
    assert witness.holds(module.weight)


@pytest.mark.parametrize("change", [torch.Tensor.double, torch.Tensor.t, lambda t: t.view(-1), lambda t: -t * 0])
def test_another_form_is_a_change(way, change):
    weight = torch.zeros(4, 6)
    assert not Witness(weight).holds(change(weight))


@given(
    size=st.integers(1, 70_000),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8]),
    places=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3),
    bit=st.integers(0, 7),
    digests=st.booleans(),
)
def test_any_bits_anywhere_are_seen(size, dtype, places, bit, digests):
    with pytest.MonkeyPatch.context() as patch:
        if not digests:
            patch.setattr(library, "is_ready", lambda: False)
        tensor = torch.randn(size).to(dtype)
        witness = Witness(tensor)
        content = tensor.view(torch.uint8)
        for place in {int(place * len(content)) for place in places}:
            content[place] ^= 1 << bit
        assert not witness.holds(tensor)


def test_digests_do_not_depend_on_threads_or_memory():
    build_or_skip()
    tensor = torch.randn(300_001)
    witness, threads = Witness(tensor), torch.get_num_threads()
    shifted = torch.cat([torch.zeros(1), tensor])[1:]
    try:
        torch.set_num_threads(1)
        assert witness.holds(tensor)
        assert witness.holds(shifted)
    finally:
        torch.set_num_threads(threads)
    assert witness.holds(torch.stack([tensor, tensor], dim=1)[:, 0])


def test_one_word_never_goes_unseen_in_the_digest():
    """Each step of the hash is one to one in the word that it takes in: all values of one word give as many digests."""
    build_or_skip()
    digest = torch.ops.hf_elmo_kernels.digest
    tensor = torch.zeros(700, dtype=torch.int64)
    values = [0, *(1 << bit for bit in range(62)), -(1 << 63), *range(2, 500)]
    for place in (0, 63, 64, 699):
        found = set()
        for value in set(values):
            tensor[place] = value
            found.add(digest(tensor))
        assert len(found) == len(set(values))
        tensor[place] = 0


def test_what_was_remembered_before_the_library_was_built_still_serves(monkeypatch):
    build_or_skip()
    tensor = torch.randn(30)
    with monkeypatch.context() as patch:
        patch.setattr(library, "is_ready", lambda: False)
        witness = Witness(tensor)
    assert isinstance(witness, Witness) and witness.holds(tensor)
    tensor += 1
    assert not witness.holds(tensor)


def test_the_module_is_not_touched(way):
    module = make_module()
    version, names = module.weight._version, set(vars(module.weight))
    assert Witness(module.weight).holds(module.weight)
    assert module.weight._version == version and set(vars(module.weight)) == names
