"""What transformers, PyTorch and peft ask of every model, asked of every public class."""

import contextlib
import copy
import functools
import json
import math
import random
import re

import numpy as np
import pytest
import torch
from class_cases import (
    CASES,
    HEADED,
    LABELED,
    LEARNERS,
    ROW_BY_ROW,
    VARIANTS,
    WORDS,
    build,
    collate,
    config_of,
    data_of,
    each_class,
    features_of,
    loss_of,
    make_batch,
    make_inputs,
    shared,
    tensors_of,
    without_dropout,
)
from model_cases import LAYERS, P, assert_close, is_frozen
from refusals import assert_refused
from safetensors.torch import load_file
from tolerances import LOSS_FLOAT32, REORDERED_FLOAT32, STANDARD_ERRORS
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

import hf_elmo
from hf_elmo import (
    ElmoForCausalLM,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoModel,
)
from hf_elmo.model.modeling_elmo import ElmoCharacterFilters, ElmoProjectedLSTM, pack_layers
from hf_elmo.model.modeling_elmo_srl import ElmoHighwayLSTMLayer
from hf_elmo.model.modeling_elmo_tasks import ElmoDense, ElmoTrilinear

# Files, precision, starting values and outputs


# Weights that start by a rule in which nothing is drawn.
NOT_DRAWN = re.compile(r"(^|[._])bias|(^|\.)mixes\.|^crf\.|\.hashes$|\.score_of_none$")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """By the name of a case its saved directory and the model that was saved, made when they are first asked for."""

    @functools.cache
    def make(name):
        path = tmp_path_factory.mktemp("saved")
        model = build(name)
        model.save_pretrained(path)
        return path, model

    return make


@contextlib.contextmanager
def unwritten_memory_is_nan():
    """What is allocated and then not written to is not a number, and not by chance what an earlier model left there."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def class_of(name: str) -> type:
    return CASES[VARIANTS[name][0]].cls


# Of a document there is one to a batch.
ROWS = [name for name in VARIANTS if VARIANTS[name][0] in ROW_BY_ROW]


def start(name: str, seed: int) -> dict[str, Tensor]:
    """The weights that a new model starts with."""
    torch.manual_seed(seed)
    with unwritten_memory_is_nan():
        return CASES[name].cls(config_of(name)).state_dict()


def outputs_of(model, batch) -> dict[str, Tensor]:
    with torch.no_grad():
        return dict(tensors_of(model(**batch)))


def assert_same_outputs(found, wanted) -> None:
    """The same numbers but for the order of sums, which depends on where a weight lies in memory."""
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert_close(found[name], tensor, tensor.dtype if tensor.is_floating_point() else torch.float32)


def assert_same_weights(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


def test_every_public_class_is_asked():
    public = {each for each in vars(hf_elmo).values() if isinstance(each, type)}
    models = {each for each in public if issubclass(each, hf_elmo.ElmoPreTrainedModel)}
    assert models - {hf_elmo.ElmoPreTrainedModel} == {case.cls for case in CASES.values()}


@each_class
def test_what_is_saved_is_loaded_and_saved_again_as_it_was(name, checkpoints, tmp_path):
    path, model = checkpoints(name)
    assert_same_weights(load_file(path / "model.safetensors"), model.state_dict())
    # With the code that its config names, for those who have no package.
    named = {value.split(".")[0] for value in json.loads((path / "config.json").read_text())["auto_map"].values()}
    assert all((path / f"{module}.py").exists() for module in named)
    loaded, report = type(model).from_pretrained(path, output_loading_info=True)
    assert not any(report.values()) and not loaded.training
    assert_same_weights(loaded.state_dict(), model.state_dict())
    batch = make_inputs(name)
    assert_same_outputs(outputs_of(loaded, batch), outputs_of(model, batch))
    loaded.save_pretrained(tmp_path)
    files = [{file.name: file.read_bytes() for file in folder.iterdir()} for folder in (path, tmp_path)]
    assert files[0].keys() == files[1].keys()
    assert [file for file in files[0] if files[0][file] != files[1][file]] == []


@each_class
def test_every_way_of_loading_gives_the_same_model(name, checkpoints, tmp_path):
    path, model = checkpoints(name)
    wanted = model.state_dict()
    # In several files, in a folder of the checkpoint's own.
    model.save_pretrained(tmp_path / "inner", max_shard_size="4KB")
    assert len(list((tmp_path / "inner").glob("*.safetensors"))) > 1
    for place, settings in (
        (tmp_path, {"subfolder": "inner"}),
        (path, {"device_map": "cpu"}),
        (path, {"attn_implementation": "eager"}),
        (None, {"config": copy.deepcopy(model.config), "state_dict": model.state_dict()}),
    ):
        loaded = type(model).from_pretrained(place, **settings)
        assert_same_weights(loaded.state_dict(), wanted)
        wishes = [[parameter.requires_grad for parameter in each.parameters()] for each in (loaded, model)]
        assert wishes[0] == wishes[1]


@each_class
def test_the_bilm_can_stay_on_disk_until_it_is_wanted(name, checkpoints, tmp_path):
    path, model = checkpoints(name)
    parts = {part: "cpu" for part, _ in model.named_children() if part != model.base_model_prefix}
    base = "" if model.base_model is model else f"{model.base_model_prefix}."
    parts.update({f"{base}token_encoder": "disk", f"{base}bilm": "disk", f"{base}mixes": "cpu"})
    loaded = type(model).from_pretrained(path, device_map=parts, offload_folder=tmp_path)
    assert {parameter.device.type for parameter in loaded.parameters()} == {"meta", "cpu"}
    assert_same_outputs(outputs_of(loaded, make_inputs(name)), outputs_of(model, make_inputs(name)))


@each_class
def test_every_number_is_a_weight_or_is_saved_with_them(name):
    """Loading fills what is saved; a tensor beside that would hold whatever the memory held."""
    model = shared(name)
    for module in model.modules():
        assert not [key for key, value in vars(module).items() if isinstance(value, Tensor)]
        assert not module._non_persistent_buffers_set


@pytest.mark.parametrize("name", HEADED)
def test_the_bare_model_is_in_every_checkpoint_and_takes_any_head_again(name, checkpoints, tmp_path):
    path, model = checkpoints(name)
    bare, report = ElmoModel.from_pretrained(path, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"]
    base = model.base_model.state_dict()
    assert_same_weights(bare.state_dict(), base)
    bare.save_pretrained(tmp_path)
    again, report = type(model).from_pretrained(tmp_path, output_loading_info=True)
    whole = {f"{model.base_model_prefix}.{key}" for key in base}
    assert set(report["missing_keys"]) == model.state_dict().keys() - whole
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert_same_weights(again.base_model.state_dict(), base)


@each_class
def test_every_precision_is_loaded_and_kept(name, checkpoints, tmp_path):
    path, model = checkpoints(name)

    def in_precision(weights, dtype):
        return {key: value.to(dtype) if value.is_floating_point() else value for key, value in weights.items()}

    for dtype in (torch.float16, torch.bfloat16):
        half = type(model).from_pretrained(path, dtype=dtype)
        assert_same_weights(half.state_dict(), in_precision(model.state_dict(), dtype))
        assert half.dtype == dtype and half.config.dtype == dtype
    half.save_pretrained(tmp_path)
    assert type(model).from_pretrained(tmp_path, dtype="auto").dtype == torch.bfloat16
    wide = type(model).from_pretrained(tmp_path, dtype=torch.float32)
    assert_same_weights(wide.state_dict(), in_precision(half.state_dict(), torch.float32))


@each_class
def test_one_seed_starts_one_model_and_every_weight_has_a_start(name):
    first, again, other = start(name, 0), start(name, 0), start(name, 1)
    assert_same_weights(first, again)
    assert all(tensor.isfinite().all() for tensor in first.values() if tensor.is_floating_point())
    alike = {key for key, tensor in first.items() if torch.equal(tensor, other[key])}
    assert alike == {key for key in first if NOT_DRAWN.search(key)}


def documented_spread(cls: type, module: nn.Module, key: str) -> float:
    """The standard deviation with which a weight starts, by what the classes say of their starting values."""
    weight = getattr(module, key)
    if isinstance(module, ElmoProjectedLSTM):
        # Of the stacked [input; recurrent] matrix, or of the projection.
        return math.sqrt(2 / (sum(weight.shape) + weight.shape[1] * (key != "weight_hr")))
    by_glorot = math.sqrt(2 / sum(weight.shape[:2]))
    if isinstance(module, nn.Embedding):
        return 1 / math.sqrt(3)
    if isinstance(module, ElmoCharacterFilters):
        return 0.05 / math.sqrt(3)
    if isinstance(module, ElmoHighwayLSTMLayer):
        # An orthogonal matrix for each gate.
        return 1 / math.sqrt(max(module.hidden_size, weight.shape[1]))
    if isinstance(module, nn.RNNBase):
        are_orthogonal = cls in (ElmoForSequenceClassification, ElmoForQuestionAnswering) and "_hh_" in key
        return 1 / math.sqrt(len(weight)) if are_orthogonal else by_glorot
    return by_glorot if isinstance(module, (ElmoDense, ElmoTrilinear)) else 1 / math.sqrt(weight.shape[1])


@each_class
def test_weights_start_by_the_rules_of_their_class(name):
    drawn: dict[tuple[str, str], list[Tensor]] = {}
    for seed in range(5):
        torch.manual_seed(seed)
        model = CASES[name].cls(config_of(name))
        for path, module in model.named_modules():
            for key, weight in module.named_parameters(recurse=False):
                if not NOT_DRAWN.search(f"{path}.{key}"):
                    is_padded = getattr(module, "padding_idx", None) is not None
                    values = weight.detach()[is_padded:].flatten() / documented_spread(type(model), module, key)
                    drawn.setdefault((type(module).__name__, key), []).append(values)
    for kind, values in drawn.items():
        units = torch.cat(values)
        # No distribution here has squares that spread more than those of a normal one.
        assert abs(units.mean()) < STANDARD_ERRORS / math.sqrt(len(units)), kind
        assert abs(units.square().mean() - 1) < STANDARD_ERRORS * math.sqrt(2 / len(units)), kind


@each_class
@pytest.mark.parametrize("offset", [0, 1])
def test_weights_that_a_checkpoint_lacks_are_told_and_started(name, offset):
    """Every second one, then the others: beside each of them parts of the same module are loaded."""
    stored = shared(name).state_dict()
    kept = {key: stored[key].clone() for key in list(stored)[offset::2]}
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        with unwritten_memory_is_nan():
            model, report = CASES[name].cls.from_pretrained(
                None, config=config_of(name), state_dict=dict(kept), output_loading_info=True
            )
        found.append(model.state_dict())
    assert set(report["missing_keys"]) == stored.keys() - kept.keys()
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert_same_weights(*found)
    assert_started(found[0], name, kept)


def assert_started(found: dict[str, Tensor], name: str, kept: dict[str, Tensor]) -> None:
    """Weights that were kept are what they were, all others as in a new model."""
    first, other = start(name, 0), start(name, 1)
    for key, tensor in found.items():
        if key in kept:
            assert torch.equal(tensor, kept[key]), key
            continue
        is_rule = first[key] == other[key]
        assert torch.equal(tensor[is_rule], first[key][is_rule]), key
        assert not (~is_rule).any() or not torch.equal(tensor, first[key]), key
        assert not tensor.is_floating_point() or tensor.abs().max() <= 2 * first[key].abs().max() + 2, key


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *[(name, {"cell_size": 11}) for name in CASES],
        *[(name, {"id2label": {0: "O", 1: "B-X", 2: "I-X", 3: "B-Y", 4: "I-Y"}}) for name in LABELED],
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_weights_of_other_sizes_are_refused_or_told_and_started_anew(name, changes, checkpoints):
    path, model = checkpoints(name)
    load = functools.partial(type(model).from_pretrained, path, **changes)
    with pytest.raises(RuntimeError, match="size"):
        load()
    with unwritten_memory_is_nan():
        loaded, report = load(ignore_mismatched_sizes=True, output_loading_info=True)
    stored, found = model.state_dict(), loaded.state_dict()
    assert found.keys() == stored.keys()
    other = {key for key in stored if found[key].shape != stored[key].shape}
    assert other and {entry[0] for entry in report["mismatched_keys"]} == other
    assert not report["missing_keys"] and not report["unexpected_keys"]
    for key, tensor in found.items():
        assert torch.equal(tensor, stored[key]) if key not in other else tensor.isfinite().all(), key
        assert key not in other or bool(tensor.any()) is not bool(NOT_DRAWN.search(key)), key


@each_class
def test_tuples_hold_what_outputs_hold_by_name(name, monkeypatch):
    model, batch = shared(name), make_inputs(name)
    wanted = list(tensors_of(model(**batch).to_tuple()))
    by_argument = model(**batch, return_dict=False)
    monkeypatch.setattr(model.config, "return_dict", False)
    for found in (by_argument, model(**batch)):
        assert type(found) is tuple
        found = list(tensors_of(found))
        assert [key for key, _ in found] == [key for key, _ in wanted]
        assert all(torch.equal(one, other) for (_, one), (_, other) in zip(found, wanted, strict=True))


@each_class
def test_layers_are_returned_where_they_are_asked_for(name, monkeypatch):
    model, batch = build(name, freeze_bilm=False), make_inputs(name)
    assert model(**batch).hidden_states is None
    output = model(**batch, output_hidden_states=True)
    monkeypatch.setattr(model.config, "output_hidden_states", True)
    size = P if isinstance(model, ElmoForCausalLM) else 2 * P
    for layers in (output.hidden_states, model(**batch).hidden_states):
        assert [layer.shape for layer in layers] == [(*batch["attention_mask"].shape, size)] * (LAYERS + 1)
    assert model(**batch, output_hidden_states=False).hidden_states is None
    # They are those that the outputs are made of.
    output = model(**make_batch(name), output_hidden_states=True)
    output.hidden_states[-1].retain_grad()
    (output.loss if "loss" in output else output.last_hidden_state.square().sum()).backward()
    assert output.hidden_states[-1].grad.any()


@each_class
def test_evaluation_gives_the_same_every_time_and_training_does_not(name):
    model, batch = build(name, freeze_bilm=False, dropout=0.5), make_inputs(name)
    once, twice = outputs_of(model, batch), outputs_of(model, batch)
    assert all(torch.equal(once[key], twice[key]) for key in once)
    model.train()
    once, twice = outputs_of(model, batch), outputs_of(model, batch)
    assert not all(torch.equal(once[key], twice[key]) for key in once)


def scatter(batch: dict[str, Tensor], extra: int, seed: int) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The same words at other places, and these: padding anywhere, a pair's texts mixed, each in its order."""
    draw, mask = random.Random(seed), batch["attention_mask"].bool()
    moved = {key: torch.cat([torch.zeros_like(each), each[:, :extra] * 0], dim=1) for key, each in batch.items()}
    places = []
    for row, is_word in enumerate(mask):
        kinds = batch["token_type_ids"][row, is_word].tolist() if "token_type_ids" in batch else [0] * sum(is_word)
        draw.shuffle(kinds)
        chosen = torch.tensor(sorted(draw.sample(range(mask.shape[1] + extra), len(kinds))))
        places.append(chosen[torch.tensor(kinds).argsort(stable=True)])
        for key, value in batch.items():
            moved[key][row, places[row]] = value[row, is_word]
    return moved, places


@pytest.mark.parametrize("name", [name for name in ROWS if VARIANTS[name][1].get("mix_normalization") != "batch"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_said_of_a_row_depends_on_its_words_and_their_order_alone(name, seed):
    model, batch = shared(name, dtype=torch.float64), make_inputs(name)
    moved, places = scatter(batch, seed, seed)
    together = outputs_of(model, moved)
    for row, is_word in enumerate(batch["attention_mask"].bool()):
        wanted = outputs_of(model, {key: value[row, is_word].unsqueeze(0) for key, value in batch.items()})
        for key, tensor in together.items():
            is_per_word = tensor.shape[:2] == moved["attention_mask"].shape
            assert_close(tensor[row, places[row]] if is_per_word else tensor[row], wanted[key][0], torch.float64)


@pytest.mark.parametrize("name", VARIANTS)
def test_texts_without_words_are_read(name):
    model, batch = build(name, freeze_bilm=False), make_batch(name, empty=True)
    loss = loss_of(model(**batch))
    gradients = torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], allow_unused=True)
    assert loss.isfinite() and all(gradient is None or gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("name", [name for name in VARIANTS if not issubclass(class_of(name), ElmoForPreTraining)])
def test_layers_that_were_computed_before_give_the_same_without_the_bilm(name):
    model, batch = build(name), make_inputs(name)
    wanted = outputs_of(model, batch)
    _, layers, _ = model.base_model.run_layers(
        batch["input_ids"], batch["attention_mask"], token_type_ids=batch.get("token_type_ids")
    )
    model.base_model.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))
    found = outputs_of(model, {**batch, "packed_layers": pack_layers(layers)})
    assert_same_outputs(found, {key: value for key, value in wanted.items() if "state" not in key.split(".")})


@each_class
def test_the_usual_methods_work(name):
    model, batch = build(name), make_inputs(name)
    assert 0 < model.num_parameters(exclude_embeddings=True) < model.num_parameters()
    assert model.main_input_name == "input_ids" and model.base_model is getattr(model, "elmo", model)
    assert model.device.type == "cpu" and model.dtype == torch.float32
    model.tie_weights()
    wanted = outputs_of(model, batch)
    assert_same_outputs(outputs_of(model.double().float(), batch), wanted)
    # As peft wants it for checkpoints of activations over a frozen model.
    is_trained = isinstance(model, ElmoForPreTraining)
    assert model(**batch, output_hidden_states=True).hidden_states[-1].requires_grad is is_trained
    model.enable_input_require_grads()
    assert model(**batch, output_hidden_states=True).hidden_states[-1].requires_grad
    model.disable_input_require_grads()
    assert_same_outputs(outputs_of(model, batch), wanted)


@each_class
def test_the_input_embeddings_can_be_replaced_and_not_resized(name):
    model = build(name)
    embeddings = model.get_input_embeddings()
    assert embeddings is model.base_model.get_input_embeddings()
    before = embeddings.weight.clone()
    for size in (None, embeddings.num_embeddings):
        assert model.resize_token_embeddings(size) is embeddings
    assert_refused(ValueError, ("new_num_tokens", "300"), model.resize_token_embeddings, 300)
    assert torch.equal(model.get_input_embeddings().weight, before) and model.config.vocab_size == 262
    wanted = outputs_of(model, make_inputs(name))
    other = nn.Embedding(*before.shape, padding_idx=0)
    model.set_input_embeddings(other)
    assert model.get_input_embeddings() is other
    other.weight.data.copy_(before)
    assert_same_outputs(outputs_of(model, make_inputs(name)), wanted)


# Training


# The quick tests take a classifier of words and one of pairs through a Trainer, the slow ones all.
QUICK = ("tokens", "pairs")


@each_class
@pytest.mark.parametrize("freeze", [True, False])
def test_what_is_trained_gets_gradients_and_nothing_else(name, freeze, tmp_path):
    built = build(name, num_mixes=3, freeze_bilm=freeze)
    built.save_pretrained(tmp_path)
    # Loading makes new parameters, all of which want gradients at first.
    for model in (built, CASES[name].cls.from_pretrained(tmp_path)):
        if CASES[name].cls is not ElmoForCausalLM:  # which trains one direction alone
            assert is_frozen(model) is (freeze and CASES[name].cls is not ElmoForPreTraining)
        loss_of(model.train()(**make_batch(name))).backward()
        for key, parameter in model.named_parameters():
            assert (parameter.grad is not None) is parameter.requires_grad, key
            assert parameter.grad is None or parameter.grad.isfinite().all(), key
        assert any(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


@each_class
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_of_activations_give_the_same_loss_and_gradients(name, use_reentrant):
    # Dropout too: the second run of a layer has to draw what the first one drew.
    model, batch = build(name, freeze_bilm=False, dropout=0.3).train(), make_batch(name)
    assert model.supports_gradient_checkpointing
    runs = []
    layer = model.base_model.bilm.layers[0]
    lstm = layer.backward_lstm if model.config.direction == "backward" else layer.forward_lstm
    lstm.register_forward_pre_hook(lambda *_: runs.append(1))

    def loss_and_gradients():
        model.zero_grad()
        torch.manual_seed(3)
        loss = loss_of(model(**batch))
        loss.backward()
        return loss.detach(), [None if p.grad is None else p.grad.clone() for p in model.parameters()]

    wanted_loss, wanted = loss_and_gradients()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": use_reentrant})
    assert model.is_gradient_checkpointing and len(runs) == 1
    found_loss, found = loss_and_gradients()
    assert len(runs) == 3  # once more on the way back
    torch.testing.assert_close(found_loss, wanted_loss, rtol=REORDERED_FLOAT32, atol=REORDERED_FLOAT32)
    # The parts of a gradient may be added up in another order, the largest ones' among them.
    largest = max(1.0, *(gradient.abs().max().item() for gradient in wanted if gradient is not None))
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) is (other is None)
        assert one is None or torch.allclose(one, other, rtol=0, atol=largest * REORDERED_FLOAT32)
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing


@each_class
def test_half_precision_trains_and_gives_numbers(name):
    batch = make_batch(name)
    with torch.no_grad():
        outputs = dict(tensors_of(build(name, torch.float16)(**make_inputs(name))))
    assert {tensor.dtype for tensor in outputs.values() if tensor.is_floating_point()} <= {torch.float16, torch.float32}
    assert not any(tensor.isnan().any() for tensor in outputs.values())
    half, mixed = (build(name, dtype, freeze_bilm=False).train() for dtype in (torch.bfloat16, torch.float32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(mixed(**batch))
    for model, its in ((half, loss_of(half(**batch))), (mixed, loss)):
        assert its.dtype == torch.float32 and its.isfinite()
        its.backward()
        assert all(
            p.grad.isfinite().all() and p.grad.dtype == p.dtype for p in model.parameters() if p.grad is not None
        )


@pytest.mark.parametrize("name", LEARNERS)
def test_a_trainer_predicts_what_the_model_says_and_scores_it_alike(name, tmp_path):
    model = build(name)
    data, collator, size = data_of(name)
    arguments = TrainingArguments(
        tmp_path, per_device_eval_batch_size=size, report_to=[], use_cpu=True, disable_tqdm=True
    )
    found = Trainer(model, arguments, data_collator=collator).predict(data)
    with torch.no_grad():
        parts = [data[start : start + size] for start in range(0, len(data), size)]
        outputs = [model(**collator(part)) for part in parts]
    losses = [output.loss.item() * len(part) for output, part in zip(outputs, parts, strict=True)]
    assert found.metrics["test_loss"] == pytest.approx(sum(losses) / len(data), rel=LOSS_FLOAT32)
    names = [key for key in outputs[0] if key not in ("loss", *model.config.keys_to_ignore_at_inference)]
    predictions = found.predictions if isinstance(found.predictions, tuple) else (found.predictions,)
    assert len(predictions) == len(names)
    for key, rows in zip(names, predictions, strict=True):
        if outputs[0][key].ndim:
            assert len(rows) == sum(len(output[key]) for output in outputs), key
            first = outputs[0][key].numpy()
            np.testing.assert_array_equal(rows[tuple(map(slice, first.shape))], first)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS]
)
def test_a_trainer_that_resumes_ends_where_one_that_ran_through_does(name, tmp_path):
    data, collator, size = data_of(name)

    def train(seed, **how):
        torch.manual_seed(seed)
        model = CASES[name].cls(config_of(name, freeze_bilm=False))
        if isinstance(model, ElmoForCausalLM):
            model.words = WORDS
        arguments = TrainingArguments(
            tmp_path,
            max_steps=5,
            save_steps=3,  # in the middle of the second epoch
            data_seed=7,  # without one, older versions of accelerate take the rows in another order after it
            learning_rate=0.01,
            per_device_train_batch_size=size,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, train_dataset=data, data_collator=collator)
        trainer.train(**how)
        assert trainer.state.global_step == 5
        return model.state_dict()

    whole = train(0)
    resumed = train(1, resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert whole.keys() == resumed.keys()
    assert [key for key in whole if not torch.equal(whole[key], resumed[key])] == []


# Compiling, exporting, tracing


# The spans of a document are chosen by their scores, one by one.
MODELS = [*ROW_BY_ROW, "words alone", "no projections", "small tags", "tags without a biLSTM"]
# The quick tests compile the model with word vectors, the pre-training one and a tagger with a biLSTM, and export the
# base; the slow ones all.
COMPILED = ("word vectors", "pretraining", "small tags")
EXPORTED = ("base",)


def each_model(quick):
    names = [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
    return pytest.mark.parametrize("name", names)


def make_model(name: str) -> torch.nn.Module:
    """Without dropout: torch.compile draws other random numbers."""
    return without_dropout(build(name))


def assert_same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=REORDERED_FLOAT32, atol=REORDERED_FLOAT32)


@each_model(COMPILED)
def test_a_compiled_model_is_one_graph_with_the_same_numbers_and_gradients(name):
    model, batch = make_model(name).train(), make_batch(name, side="left")
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
    model, batch = make_model(name), make_inputs(name)
    # Two special tokens and a word; other sizes that are small make torch.export expect no others.
    sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("words", min=3)}
    with torch.no_grad():
        exported = torch.export.export(model, (), batch, dynamic_shapes=dict.fromkeys(batch, sizes)).module()
        for rows, extra in ((slice(2), 0), (slice(3), 1), (slice(None), 4)):
            other = collate((2 * features_of(name))[rows], extra=extra)
            other = {key: value for key, value in other.items() if key in batch}
            assert_same(dict(tensors_of(exported(**other))), dict(tensors_of(model(**other))))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_model_can_be_recorded_by_jit_trace():
    model = make_model("small tags")
    batch, other = (make_inputs("small tags", side=side) for side in ("right", "left"))
    model.config.return_dict = False
    with torch.no_grad():
        traced = torch.jit.trace(model, tuple(batch.values()))
        torch.testing.assert_close(traced(*other.values())[0], model(**other)[0], rtol=0, atol=REORDERED_FLOAT32)


@pytest.mark.parametrize(
    ("name", "task", "trained_too"), [("tokens", "TOKEN_CLS", []), ("pairs", "SEQ_CLS", ["text_encoder", "output"])]
)
def test_a_model_of_a_task_is_adapted_by_peft_saved_and_loaded(name, task, trained_too, tmp_path):
    peft = pytest.importorskip("peft")
    batch, inputs = make_batch(name), make_inputs(name)
    plain = build(name)(**inputs).logits
    config = peft.LoraConfig(
        task_type=task,
        target_modules=["carry", "transform", "projection"],
        r=2,
        init_lora_weights=False,
        modules_to_save=[*trained_too],
    )
    model = peft.get_peft_model(without_dropout(build(name)), config)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    trained = {key for key, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert all(any(part in key for key in trained) for part in ("lora_A", "classifier", *trained_too))
    assert all("lora_" in key or "modules_to_save" in key for key in trained)
    model.save_pretrained(tmp_path)
    wanted = model.eval()(**inputs).logits
    again = peft.PeftModel.from_pretrained(build(name), tmp_path).eval()
    torch.testing.assert_close(again(**inputs).logits, wanted, rtol=0, atol=REORDERED_FLOAT32)
    assert not torch.allclose(wanted, plain, atol=1e-3)
    merged = again.merge_and_unload()
    torch.testing.assert_close(merged(**inputs).logits, wanted, rtol=0, atol=10 * REORDERED_FLOAT32)
