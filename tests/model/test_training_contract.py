"""What transformers asks of every model that is trained, asked of every public class, by hand and by its Trainer."""

import numpy as np
import pytest
import torch
from class_cases import (
    CASES,
    LEARNERS,
    ROW_BY_ROW,
    build,
    collate,
    config_of,
    each_class,
    features_of,
    loss_of,
    make_batch,
    make_inputs,
    tensors_of,
)
from model_cases import is_frozen
from tolerances import LOSS_FLOAT32, REORDERED_FLOAT32
from transformers import Trainer, TrainingArguments

from hf_elmo import ElmoForPreTraining

# The quick tests take a classifier of words and one of pairs through a Trainer, the slow ones all.
QUICK = ("tokens", "pairs")


@each_class
@pytest.mark.parametrize("freeze", [True, False])
def test_what_is_trained_gets_gradients_and_nothing_else(name, freeze, tmp_path):
    built = build(name, num_mixes=3, freeze_bilm=freeze)
    built.save_pretrained(tmp_path)
    # Loading makes new parameters, all of which want gradients at first.
    for model in (built, CASES[name].cls.from_pretrained(tmp_path)):
        assert is_frozen(model) is (freeze and not isinstance(model, ElmoForPreTraining))
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
    model.base_model.bilm.layers[0].forward_lstm.register_forward_hook(lambda *_: runs.append(1))

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


@pytest.mark.parametrize("name", LEARNERS)
def test_a_few_steps_on_one_batch_lower_its_loss(name):
    torch.manual_seed(0)
    # In evaluation mode, without dropout, so that each step can be compared with the last.
    model, batch = CASES[name].cls(config_of(name, freeze_bilm=False)).eval(), make_batch(name)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@each_class
def test_half_precision_trains(name):
    batch = make_batch(name)
    half, mixed = (build(name, dtype, freeze_bilm=False).train() for dtype in (torch.bfloat16, torch.float32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(mixed(**batch))
    for model, its in ((half, loss_of(half(**batch))), (mixed, loss)):
        assert its.dtype == torch.float32 and its.isfinite()
        its.backward()
        assert all(
            p.grad.isfinite().all() and p.grad.dtype == p.dtype for p in model.parameters() if p.grad is not None
        )


@each_class
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_gives_numbers(name, dtype):
    with torch.no_grad():
        outputs = dict(tensors_of(build(name, dtype)(**make_inputs(name))))
    assert {tensor.dtype for tensor in outputs.values() if tensor.is_floating_point()} <= {dtype, torch.float32}
    assert not any(tensor.isnan().any() for tensor in outputs.values())


def data_of(name):
    """Rows with what makes batches of them; each document is a batch of its own."""
    if name in ROW_BY_ROW:
        return features_of(name), collate, 2
    return [make_batch(name)] * 2, lambda batches: batches[0], 1


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
