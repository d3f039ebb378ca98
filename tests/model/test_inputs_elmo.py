"""What a model may be given: bad input is refused by name, what transformers' tools pass is taken."""

import inspect

import pytest
import torch
from class_cases import CASES, LEARNERS, TARGETS, each_class, make_batch, make_inputs, shared
from conftest import make_tiny_config
from model_cases import LAYERS, H, P
from refusals import assert_refused
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Trainer, TrainingArguments

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoEmbeddings,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoState,
)
from hf_elmo.model.modeling_elmo import check_token_types

# Bad input


def state_of(rows=2, layers=LAYERS, hidden=P, cell=H) -> ElmoState:
    return ElmoState(hidden=torch.zeros(rows, layers, 2, hidden), cell=torch.zeros(rows, layers, 2, cell))


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (
            {"input_ids": [[[1] * 50]]},
            TypeError,
            ("input_ids", "return_tensors='pt'"),
        ),
        ({"input_ids": None}, TypeError, "input_ids"),
        ({"input_ids": torch.zeros(2, 3, 50)}, TypeError, ("input_ids", "float32")),
        ({"input_ids": torch.zeros(2, 3, 50).bool()}, TypeError, ("input_ids", "bool")),
        ({"input_ids": torch.zeros(2, 3, 50).byte()}, TypeError, ("input_ids", "uint8")),
        ({"input_ids": torch.ones(2, 3).long()}, ValueError, ("input_ids", "(2, 3)", "50")),
        ({"input_ids": torch.ones(2, 3, 40).long()}, ValueError, ("input_ids", "max_characters_per_word=50")),
        ({"input_ids": torch.ones(0, 3, 50).long()}, ValueError, "input_ids"),
        ({"input_ids": torch.ones(2, 0, 50).long()}, ValueError, "input_ids"),
        ({"input_ids": torch.full((2, 3, 50), 262)}, ValueError, ("262", "261")),
        ({"input_ids": torch.full((2, 3, 50), -1)}, ValueError, ("input_ids", "-1")),
        ({"attention_mask": [[1, 1, 1]] * 2}, TypeError, "attention_mask"),
        ({"attention_mask": torch.ones(2, 3)}, TypeError, ("attention_mask", "float32")),
        ({"attention_mask": torch.ones(2, 4).long()}, ValueError, ("attention_mask", "(2, 4)", "(2, 3)")),
        ({"attention_mask": torch.ones(2, 3, 50).long()}, ValueError, ("attention_mask", "(2, 3, 50)")),
        ({"state": state_of(rows=3)}, ValueError, ("state.hidden", "(2, 2, 2, 6)")),
        ({"state": state_of(layers=1)}, ValueError, "state.hidden"),
        ({"state": state_of(hidden=7)}, ValueError, "state.hidden"),
        ({"state": state_of(cell=9)}, ValueError, ("state.cell", "(2, 2, 2, 10)")),
        ({"state": (torch.zeros(1), torch.zeros(1))}, TypeError, "state"),
        ({"state": ElmoState(hidden=torch.zeros(2, 2, 2, 6))}, TypeError, "'cell'"),
    ],
)
@pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification])
def test_bad_input_is_refused_by_name(cls, change, error, named):
    model = cls(make_tiny_config(word_vocab_size=9))
    arguments = {"input_ids": torch.ones(2, 3, 50).long(), "attention_mask": torch.ones(2, 3).long()}
    assert_refused(error, named, model, **{**arguments, **change})


@pytest.mark.parametrize(
    ("labels", "error", "named"),
    [
        ([[0, 0, 0]] * 2, TypeError, "labels"),
        (torch.zeros(2, 3), TypeError, ("labels", "float32")),
        (torch.zeros(2, 3).bool(), TypeError, ("labels", "bool")),
        (torch.zeros(2, 2).long(), ValueError, ("labels", "(2, 2)", "(2, 3)")),
        (torch.full((2, 3), 5), ValueError, ("labels", "5 classes")),
        (torch.full((2, 3), -1), ValueError, ("labels", "-1")),
    ],
)
@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForTokenClassification])
def test_bad_labels_are_refused_by_name(cls, labels, error, named):
    model = cls(make_tiny_config(word_vocab_size=5, num_labels=5))
    assert_refused(error, named, model, torch.ones(2, 3, 50).long(), labels=labels)


# What transformers' tools pass


@each_class
def test_arguments_that_ask_for_nothing_change_nothing(name):
    model, batch = shared(name), make_inputs(name)
    usual = {"inputs_embeds": None, "output_attentions": False, "use_cache": True, "return_dict": None}
    types = [] if CASES[name].reads_pairs else [None, torch.zeros_like(batch["attention_mask"])]
    wanted = model(**batch)[0]
    for arguments in (usual, dict.fromkeys(usual), *({"token_type_ids": each} for each in types)):
        assert torch.equal(model(**batch, **arguments)[0], wanted)


@pytest.mark.parametrize("argument", ["inputs_embeds", "token_type_ids", "output_attentions", "attention_maks"])
@each_class
def test_what_cannot_be_meant_is_refused_by_name(name, argument):
    batch = make_inputs(name)
    mask = batch["attention_mask"]
    if argument == "inputs_embeds":
        del batch["input_ids"]
    wrong = {
        "inputs_embeds": torch.zeros(*mask.shape, 2 * P),
        "token_type_ids": torch.full_like(mask, 2),
        "output_attentions": True,
        "attention_maks": None,
    }
    error = TypeError if argument == "attention_maks" else ValueError
    assert_refused(error, argument, shared(name), **{**batch, argument: wrong[argument]})


@pytest.mark.parametrize(
    ("types", "error", "named"),
    [
        (torch.ones(2, 4), TypeError, ("token_type_ids", "float32")),
        ([[0, 1]], TypeError, ("token_type_ids", "list")),
        (torch.ones(2, 3, dtype=torch.long), ValueError, ("token_type_ids", "(2, 3)", "(2, 4)")),
        (torch.full((2, 4), 2), ValueError, ("token_type_ids", "2")),
        (torch.full((2, 4), -1), ValueError, ("token_type_ids", "-1")),
    ],
)
def test_bad_types_of_pairs_are_refused_by_name(types, error, named):
    batch = ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt")
    assert_refused(error, named, shared("base"), **batch, token_type_ids=types)


class Looks(TorchDispatchMode):
    """Counts the numbers that are taken out of tensors one by one: on a GPU each is a wait."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*arguments, **(settings or {}))


def test_types_of_pairs_are_looked_at_once():
    batch = make_inputs("base")
    types = torch.zeros_like(batch["attention_mask"])
    types[:, -1] = 1
    for given, are_pairs in ((types, True), (types * 0, False)):
        with Looks() as looks:
            assert check_token_types(given, batch["input_ids"], None) is are_pairs
        assert looks.count == 0


def test_pairs_carry_no_state():
    model, batch = shared("base"), make_inputs("base")
    types = torch.zeros_like(batch["attention_mask"])
    types[:, -1] = 1
    assert model(**batch, token_type_ids=types).state is None
    assert_refused(ValueError, "state", model, **batch, token_type_ids=types, state=model(**batch).state)


@each_class
def test_a_trainer_sees_the_arguments_that_are_read_and_no_others(name, tmp_path):
    """It gathers a data set's columns by them; where it saw **kwargs it would also hand its own loss scale over."""
    trainer = Trainer(shared(name), TrainingArguments(str(tmp_path), report_to="none", use_cpu=True))
    assert not trainer.model_accepts_loss_kwargs
    known = list(inspect.signature(trainer.model.forward).parameters)
    assert known[:2] == ["input_ids", "attention_mask"] and not {"inputs_embeds", "kwargs"} & set(known)
    assert make_batch(name).keys() <= set(known)
    reads_pairs = (ElmoModel, ElmoEmbeddings, ElmoForSequenceClassification, ElmoForQuestionAnswering)
    assert ("token_type_ids" in known) == issubclass(CASES[name].cls, reads_pairs)
    assert set(trainer.label_names) <= set(TARGETS) & set(known)
    assert bool(trainer.label_names) == (name in LEARNERS)


def test_a_trainer_has_nothing_to_say_of_the_ids_of_the_markers(tmp_path, log_records):
    tokenizer = ElmoCharTokenizer()
    dataset = [{"input_ids": tokenizer("a")["input_ids"], "labels": [-100, 1, -100]}]
    arguments = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, max_steps=1, disable_tqdm=True)
    model = ElmoForTokenClassification(make_tiny_config())
    Trainer(model, arguments, train_dataset=dataset, processing_class=tokenizer).train()
    assert not [record.getMessage() for record in log_records if "token" in record.getMessage()]
    # Where they differ it has, and is heard.
    model.config.bos_token_id = 7
    Trainer(model, arguments, train_dataset=dataset, processing_class=tokenizer).train()
    assert [record.getMessage() for record in log_records if "token" in record.getMessage()]
