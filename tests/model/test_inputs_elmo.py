"""What transformers' tools pass to every model: taken where it asks for nothing, refused where it cannot be meant."""

import inspect

import pytest
import torch
from conftest import make_tiny_config
from transformers import Trainer, TrainingArguments

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel

each_class = pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForTokenClassification])


def make_model(cls):
    return cls(make_tiny_config(word_vocab_size=9)).eval()


def make_batch():
    return ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt")


@each_class
def test_arguments_that_ask_for_nothing_change_nothing(cls):
    model, batch = make_model(cls), make_batch()
    usual = {"inputs_embeds": None, "token_type_ids": None, "output_attentions": False, "use_cache": True}
    zeros = torch.zeros_like(batch["attention_mask"])
    wanted = model(**batch)[0]
    for arguments in (usual, dict.fromkeys(usual), {"token_type_ids": zeros}, {"return_dict": None}):
        assert torch.equal(model(**batch, **arguments)[0], wanted)
    with_types = ElmoCharTokenizer()(["a b", "c"], padding=True, return_tensors="pt", return_token_type_ids=True)
    assert torch.equal(model(**with_types)[0], wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [("inputs_embeds", torch.zeros(2, 4, 12)), ("token_type_ids", torch.ones(2, 4)), ("output_attentions", True)],
)
@each_class
def test_what_cannot_be_meant_is_refused_by_name(cls, name, value):
    batch = dict(make_batch())
    if name == "inputs_embeds":
        del batch["input_ids"]
    with pytest.raises(ValueError, match=name):
        make_model(cls)(**batch, **{name: value})


@each_class
def test_an_argument_that_nobody_knows_is_refused(cls):
    with pytest.raises(TypeError, match="attention_maks"):
        make_model(cls)(make_batch()["input_ids"], attention_maks=None)


@each_class
def test_a_trainer_sees_the_arguments_that_are_read_and_no_others(cls, tmp_path):
    """It gathers a data set's columns by them; where it saw **kwargs it would also hand its own loss scale over."""
    trainer = Trainer(make_model(cls), TrainingArguments(str(tmp_path), report_to="none", use_cpu=True))
    assert not trainer.model_accepts_loss_kwargs
    known = set(inspect.signature(trainer.model.forward).parameters)
    assert {"input_ids", "attention_mask"} <= known and not known & {"inputs_embeds", "token_type_ids", "kwargs"}


def test_a_trainer_has_nothing_to_say_of_the_ids_of_the_markers(tmp_path, caplog):
    tokenizer = ElmoCharTokenizer()
    dataset = [{"input_ids": tokenizer("a")["input_ids"], "labels": [-100, 1, -100]}]
    arguments = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, max_steps=1, disable_tqdm=True)
    with caplog.at_level("WARNING"):
        Trainer(
            make_model(ElmoForTokenClassification), arguments, train_dataset=dataset, processing_class=tokenizer
        ).train()
    assert not [record.message for record in caplog.records if "token" in record.message]


@each_class
def test_the_input_embeddings_cannot_be_resized(cls):
    model = make_model(cls)
    embeddings = model.get_input_embeddings()
    for size in (None, embeddings.num_embeddings):
        assert model.resize_token_embeddings(size) is embeddings
    before = embeddings.weight.clone()
    with pytest.raises(ValueError, match="new_num_tokens is 300"):
        model.resize_token_embeddings(300)
    assert torch.equal(model.get_input_embeddings().weight, before) and model.config.vocab_size == 262
