"""What a model may be given: bad input is refused by name, what transformers' tools pass is taken."""

import inspect

import pytest
import torch
from conftest import make_tiny_config
from model_cases import LAYERS, H, P
from refusals import assert_refused
from transformers import Trainer, TrainingArguments

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoState

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


each_class = pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification])


def make_tiny(cls):
    return cls(make_tiny_config(word_vocab_size=9)).eval()


def make_batch():
    return ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt")


@each_class
def test_arguments_that_ask_for_nothing_change_nothing(cls):
    model, batch = make_tiny(cls), make_batch()
    usual = {"inputs_embeds": None, "token_type_ids": None, "output_attentions": False, "use_cache": True}
    zeros = torch.zeros_like(batch["attention_mask"])
    wanted = model(**batch)[0]
    for arguments in (usual, dict.fromkeys(usual), {"token_type_ids": zeros}, {"return_dict": None}):
        assert torch.equal(model(**batch, **arguments)[0], wanted)
    with_types = ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt", return_token_type_ids=True)
    assert torch.equal(model(**with_types)[0], wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [("inputs_embeds", torch.zeros(2, 4, 12)), ("token_type_ids", torch.full((2, 4), 2)), ("output_attentions", True)],
)
@each_class
def test_what_cannot_be_meant_is_refused_by_name(cls, name, value):
    batch = dict(make_batch())
    if name == "inputs_embeds":
        del batch["input_ids"]
    with pytest.raises(ValueError, match=name):
        make_tiny(cls)(**batch, **{name: value})


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
    assert_refused(error, named, make_tiny(ElmoModel), **make_batch(), token_type_ids=types)


def test_pairs_carry_no_state():
    model, batch = make_tiny(ElmoModel), make_batch()
    types = torch.tensor([[0, 0, 1, 1]] * 2)
    assert model(**batch, token_type_ids=types).state is None
    assert_refused(ValueError, "state", model, **batch, token_type_ids=types, state=model(**batch).state)


@each_class
def test_an_argument_that_nobody_knows_is_refused(cls):
    with pytest.raises(TypeError, match="attention_maks"):
        make_tiny(cls)(make_batch()["input_ids"], attention_maks=None)


@each_class
def test_a_trainer_sees_the_arguments_that_are_read_and_no_others(cls, tmp_path):
    """It gathers a data set's columns by them; where it saw **kwargs it would also hand its own loss scale over."""
    trainer = Trainer(make_tiny(cls), TrainingArguments(str(tmp_path), report_to="none", use_cpu=True))
    assert not trainer.model_accepts_loss_kwargs
    known = set(inspect.signature(trainer.model.forward).parameters)
    assert {"input_ids", "attention_mask"} <= known and not known & {"inputs_embeds", "kwargs"}
    assert ("token_type_ids" in known) == (cls is ElmoModel)


def test_a_trainer_has_nothing_to_say_of_the_ids_of_the_markers(tmp_path, caplog):
    tokenizer = ElmoCharTokenizer()
    dataset = [{"input_ids": tokenizer("a")["input_ids"], "labels": [-100, 1, -100]}]
    arguments = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, max_steps=1, disable_tqdm=True)
    with caplog.at_level("WARNING"):
        Trainer(
            make_tiny(ElmoForTokenClassification), arguments, train_dataset=dataset, processing_class=tokenizer
        ).train()
    assert not [record.message for record in caplog.records if "token" in record.message]


@each_class
def test_the_input_embeddings_cannot_be_resized(cls):
    model = make_tiny(cls)
    embeddings = model.get_input_embeddings()
    for size in (None, embeddings.num_embeddings):
        assert model.resize_token_embeddings(size) is embeddings
    before = embeddings.weight.clone()
    assert_refused(ValueError, ("new_num_tokens", "300"), model.resize_token_embeddings, 300)
    assert torch.equal(model.get_input_embeddings().weight, before) and model.config.vocab_size == 262
