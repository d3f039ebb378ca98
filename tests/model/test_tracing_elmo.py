"""Models under torch.compile, torch.export and torch.jit.trace: the same numbers, in one graph."""

import pytest
import torch
from conftest import make_tiny_config
from tolerances import REORDERED_FLOAT32

from hf_elmo import (
    ElmoCharTokenizer,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSemanticRoleLabeling,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    QuestionAnsweringHead,
    SemanticRoleLabelingHead,
    SequenceClassificationHead,
    TokenClassificationHead,
)

WORDS = ["a", "bb", "<S>"]
TABLE = {"word_table_size": len(WORDS), "word_vector_size": 5}
# Without dropout: torch.compile draws other random numbers.
SILENT = {"dropout": 0.0, "hidden_dropout": 0.0, "output_dropouts": [0.0, 0.0], "output_sizes": [3], "hidden_size": 3}
MODELS = {
    "base": (ElmoModel, {"mix_normalization": "batch", "num_mixes": 2}),
    "word table": (ElmoModel, {"token_inputs": "both", "mix_normalization": "word", **TABLE}),
    "no projections": (
        ElmoForPreTraining,
        {
            "project_tokens": False,
            "project_hidden": False,
            "projection_size": 14,
            "cell_size": 14,
            "word_vocab_size": 9,
        },
    ),
    "pretraining": (ElmoForPreTraining, {"word_vocab_size": 9}),
    "adaptive": (
        ElmoForPreTraining,
        {"word_vocab_size": 9, "softmax_type": "adaptive", "adaptive_softmax_cutoffs": [4]},
    ),
    "tagger": (ElmoForTokenClassification, {"num_labels": 4}),
    "tagger with a biLSTM": (
        ElmoForTokenClassification,
        {"num_labels": 4, "classifier_lstm_layers": 2, "classifier_lstm_size": 3, "freeze_bilm": False},
    ),
    "tagger with a CRF": (
        ElmoForTokenClassification,
        {
            "num_labels": 3,
            "id2label": {0: "O", 1: "B-X", 2: "I-X"},
            "head": TokenClassificationHead(output_layer="crf", scheme="IOB2", lstm_layers=1, lstm_size=3, dropout=0.0),
        },
    ),
    "labeller of roles": (
        ElmoForSemanticRoleLabeling,
        {
            "head": SemanticRoleLabelingHead(hidden_size=4, num_layers=2, dropout=0.0, recurrent_dropout=0.0),
            "num_labels": 3,
            "id2label": {0: "O", 1: "B-A0", 2: "I-A0"},
        },
    ),
    "classifier of texts": (
        ElmoForSequenceClassification,
        {"num_labels": 4, "head": SequenceClassificationHead(encoder="bcn", mix_at_output=True, **SILENT)},
    ),
    "classifier of pairs": (
        ElmoForSequenceClassification,
        {"num_labels": 4, "head": SequenceClassificationHead(encoder="esim", **SILENT)},
    ),
    "reader of pairs": (
        ElmoForQuestionAnswering,
        {"head": QuestionAnsweringHead(dropout=0.0, hidden_dropout=0.0, hidden_size=3, mix_at_output=True)},
    ),
    "BiDAF of pairs": (
        ElmoForQuestionAnswering,
        {"head": QuestionAnsweringHead(reader="bidaf", dropout=0.0, hidden_dropout=0.0, hidden_size=3)},
    ),
}
# The quick tests trace the model with a word table, the pre-training one and a tagger with a biLSTM; the slow ones all.
QUICK = ("base", "word table", "pretraining", "tagger with a biLSTM")


def marked(names):
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


each_model = pytest.mark.parametrize("name", marked(MODELS))


def make_model(name: str) -> torch.nn.Module:
    cls, fields = MODELS[name]
    silent = {} if "head" in fields else {"classifier_dropout": 0.0}
    model = cls(make_tiny_config(dropout=0.0, **silent, **fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.7, 0.7)
    if model.base_model.token_encoder.word_table is not None:
        model.base_model.token_encoder.word_table.fill(torch.from_numpy(ElmoCharTokenizer().encode_words(WORDS)))
    return model.eval()


def make_batch(name="base", side="right", repeats=1, words=3) -> dict[str, torch.Tensor]:
    sentences = [["a", "bb", *["a"] * (words - 2)], ["d"]] * repeats
    arguments = {}
    if "pairs" in name:
        arguments["token_type_ids"] = torch.tensor([[0] * (words - 1) + [1], [0] * words] * repeats)
    if "roles" in name:
        arguments["predicate_mask"] = torch.tensor([[0, 1, *[0] * (words - 2)], [1, *[0] * (words - 1)]] * repeats)
    return dict(
        ElmoCharTokenizer()(
            sentences,
            is_split_into_words=True,
            add_special_tokens=False,
            padding=True,
            padding_side=side,
            return_tensors="pt",
        ),
        **arguments,
    )


def tensors_of(output) -> dict[str, torch.Tensor]:
    found = {name: value for name, value in output.items() if isinstance(value, torch.Tensor)}
    if "state" in output:
        found |= dict(output.state)
    return found


def assert_same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=REORDERED_FLOAT32, atol=REORDERED_FLOAT32)


@each_model
def test_a_compiled_model_is_one_graph_with_the_same_numbers_and_gradients(name):
    model, batch = make_model(name).train(), make_batch(name, side="left")
    if "reader" in name or "BiDAF" in name:
        batch |= {side: torch.tensor([2, -100]) for side in ("start_positions", "end_positions")}
    elif name not in ("base", "word table"):
        labels = [1, 3] if "classifier" in name else [[1, 2, 0], [-100, -100, 2]]
        batch["labels"] = torch.tensor(labels)
    torch._dynamo.reset()
    results = []
    for function in (model, torch.compile(model, fullgraph=True, backend="eager")):
        model.zero_grad()
        output = function(**batch)
        (output.loss if "loss" in output else output[0].square().sum()).backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        results.append({**tensors_of(output), **gradients})
    assert_same(results[1], results[0])


def test_a_compiled_model_carries_its_state():
    model, batch = make_model("base"), make_batch()
    state = model(**batch).state.detach()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        assert_same(tensors_of(compiled(**batch, state=state)), tensors_of(model(**batch, state=state)))


@pytest.mark.skipif(torch.__version__.startswith("2.6"), reason="torch 2.6 exports no open number of sentences")
@each_model
def test_an_exported_model_takes_batches_of_any_size(name):
    model, batch = make_model(name), make_batch(name)
    # Two markers and a word; other sizes that are small make torch.export expect no others.
    sizes = {0: torch.export.Dim("sentences"), 1: torch.export.Dim("words", min=3)}
    with torch.no_grad():
        exported = torch.export.export(model, (), batch, dynamic_shapes=dict.fromkeys(batch, sizes)).module()
        for repeats, words in ((1, 3), (3, 4), (2, 9)):
            other = make_batch(name, repeats=repeats, words=words)
            assert_same(tensors_of(exported(**other)), tensors_of(model(**other)))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_model_can_be_recorded_by_jit_trace():
    model, batch, other = make_model("tagger with a biLSTM"), make_batch(), make_batch(side="left")
    model.config.return_dict = False
    with torch.no_grad():
        traced = torch.jit.trace(model, tuple(batch.values()))
        torch.testing.assert_close(traced(*other.values())[0], model(**other)[0], rtol=0, atol=REORDERED_FLOAT32)
