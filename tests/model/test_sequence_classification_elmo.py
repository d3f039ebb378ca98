"""The classifier of texts and of pairs: what its scores depend on, its losses, what is trained and what it refuses."""

import random

import pytest
import torch
from conftest import make_tiny_config
from examples import examples
from huggingface_hub.errors import StrictDataclassError
from hypothesis import given
from hypothesis import strategies as st
from model_cases import P, make_model, sentence_lists, shared_model
from refusals import assert_refused
from tolerances import BFLOAT16, FLOAT16, LOSS_FLOAT32, REORDERED_FLOAT32, REORDERED_FLOAT64
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    pipeline,
)

from hf_elmo import ElmoCharTokenizer, ElmoForPreTraining, ElmoForSequenceClassification, SequenceClassificationHead
from hf_elmo.model.modeling_elmo import pack_layers
from hf_elmo.text.word_vectors import build_word_table

SMALL = {"hidden_size": 3, "character_filters": ((2, 3),), "character_embedding_size": 2}
HEADS = {
    "pooled": {},
    "pooled_pairs": {},
    "bcn": {},
    "bcn, two mixes": {"encoder": "bcn", "mix_at_output": True, "output_activation": "relu"},
    "esim": {},
    "esim, two mixes": {"encoder": "esim", "mix_at_output": True},
    "esim, no ELMo": {"encoder": "esim", "use_elmo": False},
}
each_head = pytest.mark.parametrize("name", HEADS)


def head_of(name: str, **changes) -> SequenceClassificationHead:
    return SequenceClassificationHead(**{"encoder": name, **SMALL, **HEADS[name], **changes})


def make_classifier(name="pooled", cls=ElmoForSequenceClassification, settings=None, **fields):
    """In evaluation mode, with weights that show any mistake."""
    return make_model(cls, head=head_of(name, **(settings or {})), **{"num_labels": 3, **fields})


@pytest.fixture(scope="module")
def classifiers() -> dict[str, ElmoForSequenceClassification]:
    """One of each head in float64, for tests that change none."""
    return {name: make_classifier(name, dtype=torch.float64) for name in HEADS}


def encode_all(model, texts, others=None, **arguments) -> dict:
    """Texts, or pairs where the model reads them, as words; of each pair the second text is made of the first's."""
    pairs = None
    if model.text_encoder.reads_pairs:
        pairs = others or [text[1:][::-1] for text in texts]
    return dict(
        ElmoCharTokenizer()(texts, pairs, is_split_into_words=True, padding=True, return_tensors="pt", **arguments)
    )


def labels_for(model, count: int) -> torch.Tensor:
    return torch.arange(count) % model.num_labels


def assert_close(found, wanted, tolerance=REORDERED_FLOAT64):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def scatter_words(batch: dict, length: int, seed: int) -> dict:
    """The same words at other places: padding anywhere, the words of a pair's sentences mixed, each in its order."""
    draw = random.Random(seed)
    types = batch.get("token_type_ids", torch.zeros_like(batch["attention_mask"]))
    moved = {key: value.new_zeros(value.shape[0], length, *value.shape[2:]) for key, value in batch.items()}
    for row, mask in enumerate(batch["attention_mask"].bool()):
        sentences = [torch.nonzero(mask & (types[row] == kind)).flatten().tolist() for kind in (0, 1)]
        order = draw.sample([0] * len(sentences[0]) + [1] * len(sentences[1]), int(mask.sum()))
        for place, kind in zip(sorted(draw.sample(range(length), len(order))), order, strict=True):
            source = sentences[kind].pop(0)
            for key, value in batch.items():
                moved[key][row, place] = value[row, source]
    return moved


# What the scores depend on


@each_head
@examples(10)
@given(texts=sentence_lists, extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_scores_depend_on_the_words_and_their_order_alone(name, classifiers, texts, extra, seed):
    model = classifiers[name]
    batch = encode_all(model, texts)
    together = model(**batch).logits
    moved = scatter_words(batch, batch["input_ids"].shape[1] + extra, seed)
    assert_close(model(**moved).logits, together)
    assert_close(model(**encode_all(model, texts, padding_side="left")).logits, together)
    for row, text in enumerate(texts):
        assert_close(together[row], model(**encode_all(model, [text])).logits[0])


@each_head
def test_texts_without_words_and_of_one_word_are_scored(name, classifiers):
    model, others = classifiers[name], [["a"], [], ["c", "d"], []]
    batch = encode_all(model, [["a"], ["b"], [], []], others)
    output = model(**batch, labels=labels_for(model, 4))
    assert output.logits.isfinite().all() and output.logits.shape == (4, 3)
    wanted = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(output.loss, wanted, allow_unused=True)
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_the_pooled_heads_read_mean_and_maximum_of_the_words_without_their_markers(classifiers):
    texts = [["a", "bc", "é"], ["d"]]
    model = classifiers["pooled"]
    batch = encode_all(model, texts)
    words = model.embed(**batch).last_hidden_state
    pools = [torch.cat([row.mean(dim=0), row.amax(dim=0)]) for row in (words[0, 1:4], words[1, 1:2])]
    assert_close(model(**batch).logits, torch.stack([model.classifier(pool) for pool in pools]))
    pairs = classifiers["pooled_pairs"]
    batch = encode_all(pairs, texts[:1], [["c", "d"]])
    words = pairs.embed(**batch).last_hidden_state[0]
    first, second = (torch.cat([part.mean(dim=0), part.amax(dim=0)]) for part in (words[1:4], words[6:8]))
    features = torch.cat([first, second, (first - second).abs(), first * second])
    assert_close(pairs(**batch).logits[0], pairs.classifier(pairs.output(features)))


@pytest.mark.parametrize("name", ["bcn, two mixes", "esim, two mixes"])
def test_the_second_mix_is_read_behind_the_lowest_bilstm(name, classifiers):
    model = classifiers[name]
    batch = encode_all(model, [["a", "b", "c"]])
    seen = {}
    hooks = [
        model.text_encoder.register_forward_hook(lambda _, inputs, __: seen.update(inputs=inputs)),
        model.text_encoder.lstm.register_forward_hook(lambda _, inputs, output: seen.update(lstm=(inputs[0], output))),
    ]
    with torch.no_grad():
        model.elmo.mixes[1].weight.copy_(torch.tensor([0.0, 5.0, -1.0]))
        first, second = model.elmo(**batch).elmo_representations
        model(**batch)
        model.elmo.mixes[1].weight.zero_()
    for hook in hooks:
        hook.remove()
    vectors, mask, mix = seen["inputs"]
    # The words of the first text, without its markers.
    assert_close(vectors[0][mask[0]][:, : 2 * P], first[0, 1:4])
    assert_close(mix[0][mask[0]], second[0, 1:4])
    read = model.text_encoder.integrator if "bcn" in name else model.text_encoder.dense
    read_size = read.input_size / 3 if "bcn" in name else read.in_features / 4
    assert read_size == seen["lstm"][1].shape[-1] + 2 * P


@each_head
def test_layers_computed_before_give_the_same(name, classifiers):
    model = classifiers[name]
    batch = encode_all(model, [["a", "bc", "é"], ["d"]])
    _, layers, _ = model.elmo.run_layers(**batch)
    model.elmo.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM was run"))
    try:
        found = model(**batch, packed_layers=pack_layers(layers)).logits
    finally:
        model.elmo.bilm._forward_hooks.clear()
    assert_close(found, model(**batch).logits)


@each_head
def test_dropout_works_in_training_only(name):
    model = make_classifier(name)
    batch = encode_all(model, [["a", "b"], ["c", "d", "e"]])
    assert torch.equal(model(**batch).logits, model(**batch).logits)
    model.train()
    assert not torch.equal(model(**batch).logits, model(**batch).logits)


# Losses and training


@pytest.mark.parametrize(
    ("labels", "num_labels", "kind", "loss"),
    [
        (torch.tensor([2, 0]), 3, "single_label_classification", nn.functional.cross_entropy),
        (torch.tensor([2, 0], dtype=torch.int32), 3, "single_label_classification", nn.functional.cross_entropy),
        (torch.tensor([[1.0, 0, 1], [0, 0, 0]]), 3, "multi_label_classification", None),
        (torch.tensor([0.25, -3.0]), 1, "regression", nn.functional.mse_loss),
        (torch.tensor([[0.25], [-3.0]]), 1, "regression", nn.functional.mse_loss),
    ],
)
def test_the_loss_is_that_of_the_kind_of_labels(labels, num_labels, kind, loss):
    model = make_classifier(num_labels=num_labels)
    batch = encode_all(model, [["a", "b", "c"], ["d"]])
    assert model.config.problem_type is None
    output = model(**batch, labels=labels)
    if loss is None:
        loss = nn.functional.binary_cross_entropy_with_logits
    elif kind == "single_label_classification":
        labels = labels.long()
    wanted = loss(output.logits.view_as(labels) if kind == "regression" else output.logits, labels)
    assert output.loss.item() == pytest.approx(wanted.item(), rel=LOSS_FLOAT32)
    # Pipelines read it.
    assert model.config.problem_type == kind


def test_several_numbers_for_each_text_are_asked_for_by_the_config():
    model = make_classifier(problem_type="regression")
    batch, labels = encode_all(model, [["a", "b", "c"], ["d"]]), torch.tensor([[1.5, -2.0, 0.0], [0.5, 7.0, 1.0]])
    output = model(**batch, labels=labels)
    assert output.loss.item() == pytest.approx((output.logits - labels).square().mean().item(), rel=LOSS_FLOAT32)


def test_the_penalty_on_the_mixes_is_added_in_training_only():
    silent = {"dropout": 0.0, "output_dropouts": [0.0, 0.0], "hidden_dropout": 0.0}
    plain, penalised = (make_classifier("esim, two mixes", settings=silent, mix_l2=value) for value in (0.0, 0.5))
    batch, labels = encode_all(plain, [["a", "b"]]), torch.tensor([1])
    for model in (plain, penalised):
        with torch.no_grad():
            for mix in model.elmo.mixes:
                mix.weight.copy_(torch.tensor([1.0, -2.0, 3.0]))
    assert torch.equal(penalised(**batch, labels=labels).loss, plain(**batch, labels=labels).loss)
    added = penalised.train()(**batch, labels=labels).loss - plain.train()(**batch, labels=labels).loss
    assert added.item() == pytest.approx(0.5 * 2 * (1 + 4 + 9), rel=LOSS_FLOAT32)


@each_head
@pytest.mark.parametrize("loaded", [False, True])
def test_every_parameter_that_wants_a_gradient_gets_one(name, loaded, tmp_path):
    model = make_classifier(name, num_mixes=3, freeze_bilm=False)
    if loaded:
        model.save_pretrained(tmp_path)
        model = ElmoForSequenceClassification.from_pretrained(tmp_path)
    batch = encode_all(model, [["a", "b", "c"]])
    model.train()(**batch, labels=torch.tensor([1])).loss.backward()
    assert all((parameter.grad is not None) == parameter.requires_grad for parameter in model.parameters())
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert any(name.startswith("elmo.bilm") for name in trained) == model.uses_elmo


def test_a_fresh_head_starts_by_the_rules_of_its_source():
    torch.manual_seed(0)
    model = ElmoForSequenceClassification(make_tiny_config(head=SequenceClassificationHead(encoder="esim")))
    size = model.config.head.hidden_size
    for lstm in (model.text_encoder.lstm, model.text_encoder.composition):
        recurrent = lstm.weight_hh_l0_reverse
        assert_close(recurrent.T @ recurrent, torch.eye(size), 100 * REORDERED_FLOAT32)
        bias = (lstm.bias_ih_l0 + lstm.bias_hh_l0).view(4, size)
        assert torch.equal(bias, torch.tensor([0.0, 1.0, 0.0, 0.0])[:, None].expand_as(bias))
    dense = model.text_encoder.dense.weight
    bound = (6 / sum(dense.shape)) ** 0.5
    assert 0.99 * bound < dense.abs().max() <= bound and not model.text_encoder.dense.bias.any()
    biattentive = ElmoForSequenceClassification(make_tiny_config(head=SequenceClassificationHead(encoder="bcn")))
    assert not biattentive.text_encoder.lstm.bias_hh_l0.any()


@each_head
def test_a_classifier_is_saved_and_loaded_whole(name, tmp_path):
    model = make_classifier(name)
    model.save_pretrained(tmp_path)
    loaded, report = ElmoForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()) and loaded.config.head == model.config.head
    batch = encode_all(model, [["a", "b", "c"], ["d", "e"]])
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)


def test_it_starts_from_any_checkpoint_of_a_bilm(tmp_path):
    base = make_model(ElmoForPreTraining, word_vocab_size=9)
    base.save_pretrained(tmp_path)
    head = {"type": "sequence_classification", "encoder": "esim", "hidden_size": 4, "mix_at_output": True}
    model, report = AutoModelForSequenceClassification.from_pretrained(
        tmp_path, num_labels=4, head=head, output_loading_info=True
    )
    assert {key.split(".")[0] for key in report["missing_keys"]} == {"classifier", "text_encoder", "elmo", "output"}
    assert {key for key in report["missing_keys"] if key.startswith("elmo")} == {
        "elmo.mixes.1.weight",
        "elmo.mixes.1.scale",
    }
    assert model.config.num_mixes == 2 and model.classifier.out_features == 4
    # New parts start by their own rules here too.
    assert torch.equal(model.text_encoder.lstm.bias_hh_l0, torch.tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(4))
    assert torch.equal(
        model.elmo.bilm.layers[0].forward_lstm.weight_hh, base.elmo.bilm.layers[0].forward_lstm.weight_hh
    )


def test_word_vectors_stand_beside_the_mix():
    settings = {"word_table_size": 4, "word_vector_size": 5, "train_word_vectors": False, "character_filters": ()}
    model = make_classifier("bcn", settings=settings)
    batch = encode_all(model, [["a", "b"]])
    assert_refused(ValueError, "word table", model, **batch)
    build_word_table(ElmoCharTokenizer(), ["a", "b"]).fill(model)
    assert model.text_encoder.dense.in_features == 2 * P + 5
    before = model(**batch).logits
    table = model.features.word_table
    with torch.no_grad():
        table.weight[table.places(batch["input_ids"][0, 1:2])] += 1
    assert not torch.equal(model(**batch).logits, before) and not table.weight.requires_grad


@each_head
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, BFLOAT16), (torch.float16, FLOAT16)])
def test_half_precision_gives_nearly_the_same(name, dtype, tolerance):
    model = make_classifier(name)
    batch = encode_all(model, [["a", "b", "c"], ["d"]], [["a"], []])
    wanted = model(**batch, labels=labels_for(model, 2))
    found = model.to(dtype)(**batch, labels=labels_for(model, 2))
    assert found.logits.dtype == dtype and found.loss.dtype == torch.float32
    assert_close(found.logits.float(), wanted.logits, tolerance)


# Tools of transformers


def test_pipelines_classify_texts_and_pairs():
    tokenizer = ElmoCharTokenizer()
    model = make_classifier("bcn", id2label={0: "bad", 1: "fair", 2: "good"})
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    texts = ["a b c", "d", "the cat sat on a mat"]
    for text, found in zip(texts, classify(texts, batch_size=2), strict=True):
        wanted = model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(dim=0)
        assert found == {
            "label": model.config.id2label[int(wanted.argmax())],
            "score": pytest.approx(wanted.max().item(), abs=REORDERED_FLOAT32),
        }
    model = make_classifier("esim", id2label={0: "entailment", 1: "neutral", 2: "contradiction"})
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    pairs = [{"text": "a b c", "text_pair": "d e"}, {"text": "a", "text_pair": "d e f g"}]
    for pair, found in zip(pairs, classify(pairs, batch_size=2, top_k=None), strict=True):
        wanted = model(**tokenizer(**pair, return_tensors="pt")).logits[0].softmax(dim=0)
        scores = {model.config.id2label[index]: score for index, score in enumerate(wanted.tolist())}
        assert {row["label"]: row["score"] for row in found} == pytest.approx(scores, abs=REORDERED_FLOAT32)


def test_an_entailment_model_sorts_texts_into_classes_named_afterwards():
    tokenizer = ElmoCharTokenizer()
    model = make_classifier("esim", id2label={0: "contradiction", 1: "neutral", 2: "entailment"})
    classify = pipeline("zero-shot-classification", model=model, tokenizer=tokenizer, device="cpu")
    labels = ["a b", "c", "d e f"]
    found = classify("the cat sat", candidate_labels=labels, hypothesis_template="this is {} .")
    scores = torch.stack(
        [model(**tokenizer("the cat sat", f"this is {label} .", return_tensors="pt")).logits[0, 2] for label in labels]
    ).softmax(dim=0)
    wanted = dict(zip(labels, scores.tolist(), strict=True))
    assert dict(zip(found["labels"], found["scores"], strict=True)) == pytest.approx(wanted, abs=REORDERED_FLOAT32)


def test_trainer_by_hand_learns_pairs(tmp_path):
    """Whether the second text is the first one, which no bag of words of both could tell."""
    tokenizer, words = ElmoCharTokenizer(), ["a", "bb", "ccc", "dddd"]
    pairs = [(first, second) for first in words for second in words]
    rows = [{**tokenizer(*pair), "labels": int(pair[0] == pair[1])} for pair in pairs]
    silent = {"dropout": 0.0, "hidden_dropout": 0.0, "output_dropouts": [0.0, 0.0]}
    head = SequenceClassificationHead(encoder="esim", hidden_size=12, character_filters=[[1, 8]], **silent)
    model = ElmoForSequenceClassification(make_tiny_config(num_labels=2, head=head))
    arguments = TrainingArguments(
        tmp_path,
        max_steps=60,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        per_device_train_batch_size=16,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(model, arguments, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer))
    trainer.train()
    predicted = trainer.predict(rows)
    assert (predicted.predictions.argmax(axis=1) == predicted.label_ids).all()
    assert predicted.predictions.shape == (16, 2)


# What is refused


@pytest.mark.parametrize("name", ["pooled", "bcn"])
def test_pairs_are_refused_by_an_encoder_of_single_texts(name):
    model = make_classifier(name)
    batch = dict(ElmoCharTokenizer()("a b", "c", return_tensors="pt"))
    assert_refused(ValueError, ("token_type_ids", name, "esim"), model, **batch)
    assert torch.equal(
        model(**{**batch, "token_type_ids": torch.zeros_like(batch["token_type_ids"])}).logits,
        model(batch["input_ids"], batch["attention_mask"]).logits,
    )


@pytest.mark.parametrize("name", ["pooled_pairs", "esim"])
def test_single_texts_are_refused_by_an_encoder_of_pairs(name):
    batch = dict(ElmoCharTokenizer()("a b", return_tensors="pt"))
    assert_refused(ValueError, ("token_type_ids", name, "text_pair"), make_classifier(name), **batch)


@pytest.mark.parametrize(
    ("fields", "labels", "error", "named"),
    [
        ({}, torch.tensor([0, 3]), ValueError, ("labels", "3")),
        ({}, torch.tensor([-100, 1]), ValueError, ("labels", "-100")),
        ({}, torch.tensor([[0], [1]]), ValueError, ("labels", "(2, 1)", "(2,)")),
        ({}, torch.tensor([0]), ValueError, ("labels", "(1,)", "(2,)")),
        ({}, torch.tensor([True, False]), TypeError, ("labels", "bool")),
        ({}, [0, 1], TypeError, ("labels", "list")),
        ({}, torch.tensor([[0.5, 1, 0], [0, 2, 0]]), ValueError, ("labels", "2")),
        ({}, torch.tensor([0.5, 1]), ValueError, ("labels", "(2, 3)")),
        ({"problem_type": "single_label_classification"}, torch.tensor([0.0, 1]), TypeError, ("labels", "float32")),
        ({"problem_type": "multi_label_classification"}, torch.tensor([0, 1]), TypeError, ("labels", "int64")),
        ({"num_labels": 1}, torch.tensor([0, 1]), TypeError, ("labels", "int64", "regression")),
        ({"problem_type": "regression"}, torch.tensor([0.0, 1]), ValueError, ("labels", "(2, 3)")),
    ],
)
def test_bad_labels_are_refused_by_name(fields, labels, error, named):
    model = shared_model(ElmoForSequenceClassification, **{"num_labels": 3, **fields})
    assert_refused(error, named, model, **encode_all(model, [["a"], ["b"]]), labels=labels)
    # What was wrong has settled nothing.
    assert model.config.problem_type == fields.get("problem_type")


def test_what_is_left_out_of_the_settings_is_as_published():
    biattentive = SequenceClassificationHead(encoder="bcn")
    assert (biattentive.output_sizes, biattentive.output_dropouts) == ([1200, 600], [0.1, 0.2, 0.3])
    assert (biattentive.hidden_dropout, biattentive.output_activation) == (0.25, "maxout")
    assert SequenceClassificationHead(encoder="bcn", hidden_size=50).output_sizes == [200, 100]
    own = SequenceClassificationHead(encoder="esim", output_sizes=(7, 6), output_activation="maxout")
    assert (own.output_sizes, own.output_dropouts, own.output_activation) == ([7, 6], [0.5, 0.5, 0.5], "maxout")
    assert SequenceClassificationHead(**{k: v for k, v in own.to_dict().items() if k != "type"}) == own


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"encoder": "cnn"}, "encoder"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_dropout": 1.0}, "hidden_dropout"),
        ({"output_sizes": [0]}, "output_sizes"),
        ({"output_sizes": [2.5]}, "output_sizes"),
        ({"output_sizes": [1] * 1001}, "output_sizes"),
        ({"output_dropouts": [0.5, 0.5]}, "output_dropouts"),
        ({"output_dropouts": [-0.1]}, "output_dropouts"),
        ({"output_dropouts": ["no"]}, "output_dropouts"),
        ({"output_activation": "tanh"}, "output_activation"),
        ({"mix_at_output": True}, "mix_at_output"),
        ({"mix_at_output": True, "encoder": "bcn", "use_elmo": False, "character_filters": [[1, 2]]}, "mix_at_output"),
        ({"use_elmo": False}, "use_elmo"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, named):
    assert_refused(StrictDataclassError, named, SequenceClassificationHead, **settings)
    head = {"type": "sequence_classification", **settings}
    assert_refused(ValueError, ("head", named), make_tiny_config, head=head)
