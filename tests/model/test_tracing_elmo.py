"""Models under torch.compile, torch.export and torch.jit.trace: the same numbers, in one graph."""

import pytest
import torch
from class_cases import (
    CASES,
    build,
    collate,
    features_of,
    loss_of,
    make_batch,
    make_inputs,
    tensors_of,
    without_dropout,
)
from tolerances import REORDERED_FLOAT32

# What the small settings of the classes leave out: by name the case, and what is changed of it.
VARIANTS = {
    "mixes of batches": ("base", {"mix_normalization": "batch"}),
    "no projections": (
        "pretraining",
        {"project_tokens": False, "project_hidden": False, "projection_size": 14, "cell_size": 14},
    ),
    "a label for each word by itself": (
        "tokens",
        {"freeze_bilm": False, "head": {"type": "token_classification", "lstm_layers": 2, "lstm_size": 3}},
    ),
    "words without a biLSTM": ("tokens", {"head": {"type": "token_classification"}}),
}
# The spans of a document are chosen by their scores, one by one.
MODELS = {**{name: (name, {}) for name in CASES if name != "coreference"}, **VARIANTS}
# The quick tests compile the model with word vectors, the pre-training one and a tagger with a biLSTM, and export the
# base; the slow ones all.
COMPILED = ("word vectors", "pretraining", "a label for each word by itself")
EXPORTED = ("base",)


def each_model(quick):
    names = [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
    return pytest.mark.parametrize("name", names)


def make_model(name: str) -> torch.nn.Module:
    """Without dropout: torch.compile draws other random numbers."""
    case, changes = MODELS[name]
    return without_dropout(build(case, **changes))


def assert_same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=REORDERED_FLOAT32, atol=REORDERED_FLOAT32)


@each_model(COMPILED)
def test_a_compiled_model_is_one_graph_with_the_same_numbers_and_gradients(name):
    model, batch = make_model(name).train(), make_batch(MODELS[name][0], side="left")
    torch._dynamo.reset()
    results = []
    for function in (model, torch.compile(model, fullgraph=True, backend="eager")):
        model.zero_grad()
        output = function(**batch)
        loss_of(output).backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        results.append({**dict(tensors_of(output)), **gradients})
    assert_same(results[1], results[0])


def test_a_compiled_model_carries_its_state():
    model, batch = make_model("base"), make_inputs("base")
    state = model(**batch).state.detach()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        wanted = dict(tensors_of(model(**batch, state=state)))
        assert_same(dict(tensors_of(compiled(**batch, state=state))), wanted)


@pytest.mark.skipif(torch.__version__.startswith("2.6"), reason="torch 2.6 exports no open number of sentences")
@each_model(EXPORTED)
def test_an_exported_model_takes_batches_of_any_size(name):
    case, model = MODELS[name][0], make_model(name)
    batch = make_inputs(case)
    # Two markers and a word; other sizes that are small make torch.export expect no others.
    sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("words", min=3)}
    with torch.no_grad():
        exported = torch.export.export(model, (), batch, dynamic_shapes=dict.fromkeys(batch, sizes)).module()
        for rows, extra in ((slice(2), 0), (slice(3), 1), (slice(None), 4)):
            other = collate((2 * features_of(case))[rows], extra=extra)
            other = {key: value for key, value in other.items() if key in batch}
            assert_same(dict(tensors_of(exported(**other))), dict(tensors_of(model(**other))))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_model_can_be_recorded_by_jit_trace():
    model = make_model("a label for each word by itself")
    batch, other = (make_inputs("tokens", side=side) for side in ("right", "left"))
    model.config.return_dict = False
    with torch.no_grad():
        traced = torch.jit.trace(model, tuple(batch.values()))
        torch.testing.assert_close(traced(*other.values())[0], model(**other)[0], rtol=0, atol=REORDERED_FLOAT32)
