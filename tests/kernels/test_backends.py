"""Choosing a backend: by name it runs or raises, by itself it falls back, and the numbers stay the same."""

import asyncio
import functools
import importlib.util
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import make_tiny_config
from scan_cases import make_weights
from tolerances import REORDERED_FLOAT32

from hf_elmo import ElmoCharTokenizer, ElmoModel, kernels
from hf_elmo.kernels import backends
from hf_elmo.kernels.scan import scan
from hf_elmo.model.modeling_elmo import run_projected_lstm, scan_projected_lstm


def make_scan():
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3, [0] * 2 + [1] * 5]).bool()
    return torch.randn(3, 7, 6), mask, make_weights(6, 10, scale=0.4, dtype=torch.float32), None


def assert_close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=0, atol=10 * REORDERED_FLOAT32)


def in_a_thread(function):
    """What a function gives when another thread calls it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def choose(name):
    with kernels.use_backend(name):
        return kernels.get_backend()


def test_the_choice_holds_inside_the_block_and_its_thread_or_task_only():
    async def choose_in_a_task(name, mine, others):
        with kernels.use_backend(name):
            mine.set()
            # Both tasks are inside of their blocks before either looks.
            await others.wait()
            return kernels.get_backend()

    async def run_both():
        events = [asyncio.Event(), asyncio.Event()]
        return await asyncio.gather(
            choose_in_a_task("plain", *events), choose_in_a_task("reference", *reversed(events))
        )

    with pytest.raises(KeyError), kernels.use_backend("reference"):
        assert choose("plain") == in_a_thread(lambda: choose("plain")) == "plain"
        assert in_a_thread(kernels.get_backend) == "auto" and kernels.get_backend() == "reference"
        assert asyncio.run(run_both()) == ["plain", "reference"]
        raise KeyError
    assert kernels.get_backend() == "auto"


def test_the_choice_decides_what_runs(monkeypatch):
    ran = []
    monkeypatch.setattr(backends, "scan", lambda *arguments: ran.append(arguments) or scan(*arguments))
    for name in ("reference", "auto"):
        assert not ran
        with kernels.use_backend(name):
            run_projected_lstm(*make_scan())
    assert ran


def test_gradients_of_gradients_are_the_references():
    inputs, mask, weights, state = make_scan()
    inputs.requires_grad_()

    def second_gradient(name):
        with kernels.use_backend(name):
            outputs, _ = run_projected_lstm(inputs, mask, weights, state)
            (gradient,) = torch.autograd.grad(outputs.square().sum(), inputs, create_graph=True)
            gradient.square().sum().backward()
            return inputs.grad

    with pytest.raises(RuntimeError, match="once_differentiable"):
        second_gradient("plain")
    assert second_gradient("reference").any()


def test_only_wanted_gradients_are_computed():
    inputs, mask, weights, state = make_scan()
    weights.projection.requires_grad_()
    totals = [scan(inputs, mask, weights, state)[0].sum() for scan in (run_projected_lstm, scan_projected_lstm)]
    assert_close(*(torch.autograd.grad(total, weights.projection)[0] for total in totals))


class Tagged(torch.Tensor):
    """A tensor subclass, as tools that trace or shard use."""


def test_what_the_fast_scans_do_not_take_goes_to_the_reference_one_or_is_refused():
    inputs, mask, weights, state = make_scan()
    wanted, _ = scan_projected_lstm(inputs, mask, weights, state)
    tagged = inputs.as_subclass(Tagged)
    found, _ = run_projected_lstm(tagged, mask, weights, state)
    assert type(found) is Tagged
    assert torch.equal(found.as_subclass(torch.Tensor), wanted)
    mapped = torch.func.vmap(lambda x: run_projected_lstm(x, mask, weights, state)[0])(torch.stack([inputs] * 2))
    assert_close(mapped[1], wanted)
    shapes, _ = run_projected_lstm(inputs.to("meta"), mask.to("meta"), type(weights)(*(w.to("meta") for w in weights)))
    assert shapes.shape == wanted.shape
    with pytest.raises(ValueError, match=r"name is 'fast'.*auto, reference, plain, compiled"):
        choose("fast")
    with kernels.use_backend("plain"), pytest.raises(RuntimeError, match=r"'plain' was asked for by name.*subclasses"):
        run_projected_lstm(tagged, mask, weights, state)


def test_shapes_that_disagree_are_refused_before_memory_is_read_by_them():
    inputs, mask, weights, _ = make_scan()
    shapes = {"input": (40, 5), "recurrent": (40, 5), "bias": (39,), "projection": (6, 9)}
    wrong = [(weights._replace(**{field: torch.zeros(shape)}), None) for field, shape in shapes.items()]
    wrong += [(weights, tuple(map(torch.zeros, shapes))) for shapes in (((2, 6), (3, 10)), ((3, 6), (3, 9)))]
    for given in wrong:
        with pytest.raises(ValueError, match=r"\(3, 7, 6\) want the shapes"):
            run_projected_lstm(inputs, mask, *given)


@pytest.mark.parametrize("name", ["reference", "fast", "compiled"])
def test_the_environment_names_the_backend_of_a_process_that_chooses_none(monkeypatch, name):
    monkeypatch.setattr(backends.library, "build", lambda: (_ for _ in ()).throw(RuntimeError("no compiler")))
    monkeypatch.setenv("HF_ELMO_KERNELS", name)
    monkeypatch.setattr(backends, "_of_environment", functools.cache(backends._of_environment.__wrapped__))
    if name == "reference":
        assert kernels.get_backend() == in_a_thread(kernels.get_backend) == "reference"
        assert choose("plain") == "plain"
    else:
        with pytest.raises(ValueError, match=f"HF_ELMO_KERNELS is '{name}'"):
            kernels.get_backend()


def test_auto_says_once_that_it_takes_the_reference(log_records):
    backends._say_once.cache_clear()
    model = ElmoModel(make_tiny_config(project_hidden=False, cell_size=6))
    for _ in range(2):
        model(**ElmoCharTokenizer()("a b", return_tensors="pt"))
    lines = [record.getMessage() for record in log_records if record.name.startswith("hf_elmo.kernels")]
    assert len(lines) == 1 and "without a projection" in lines[0]


def test_code_of_another_api_runs_the_reference(monkeypatch):
    """What travels with a checkpoint may meet any version of the package."""
    monkeypatch.setattr(kernels, "API", kernels.API + 1)
    source = importlib.util.find_spec("hf_elmo.model.modeling_elmo")
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    assert module.kernels is None
    batch = make_scan()
    assert torch.equal(module.run_projected_lstm(*batch)[0], scan_projected_lstm(*batch)[0])
