"""What is exported to ONNX gives the model's own numbers in onnxruntime, on batches of any size."""

import re

import numpy as np
import pytest
import torch
from class_cases import CASES, config_of
from conftest import make_tiny_config
from tolerances import ONNX_SCORES, REORDERED_FLOAT32
from transformers import AutoConfig, AutoTokenizer

from hf_elmo import ElmoCharTokenizer, ElmoForCoreferenceResolution, ElmoForPreTraining, ElmoModel
from hf_elmo.cli import command_line
from hf_elmo.inference import onnx_export
from hf_elmo.inference.onnx_export import export_onnx

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(not onnx_export.CAN_RECORD_STEPS, reason="this torch records no steps")

# Those that have a graph.
TASKS = ("tokens", "texts", "pairs", "answers", "roles")


def save(model, directory):
    model.save_pretrained(directory)
    ElmoCharTokenizer().save_pretrained(directory)
    return model.eval()


def test_vectors_and_layers_are_those_of_the_model(tmp_path, capsys):
    model = save(ElmoForPreTraining(make_tiny_config(word_vocab_size=9, num_hidden_layers=1)), tmp_path / "elmo")
    argv = ["export", str(tmp_path / "elmo"), str(tmp_path / "onnx")]
    command_line.main([*argv, "--output_hidden_states"])
    said = capsys.readouterr().out
    assert "model.onnx" in said and "last_hidden_state, hidden_states.0, hidden_states.1\n" in said
    assert AutoConfig.from_pretrained(tmp_path / "onnx").model_type == "elmo"
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    for texts in (["a"], ["a bb ccc d e", "f"], ["g h"] * 4):
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        found = session.run(None, {name: value.numpy() for name, value in batch.items()})
        with torch.no_grad():
            own = model.elmo(**batch, output_hidden_states=True)
        for values, wanted in zip(found, (own.last_hidden_state, *own.hidden_states), strict=True):
            np.testing.assert_allclose(values, wanted.numpy(), rtol=0, atol=REORDERED_FLOAT32)
    with pytest.raises(SystemExit):
        command_line.main(argv)
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_every_tasks_model_is_exported_and_compared(name, tmp_path):
    model_class = CASES[name].cls
    save(model_class(config_of(name)), tmp_path / "model")
    _, outputs, exactness = export_onnx(str(tmp_path / "model"), tmp_path / "onnx")
    assert "logits" in outputs and model_class.__name__ in exactness
    assert float(re.search(r"within ([\d.e+-]+),", exactness)[1]) < ONNX_SCORES


@pytest.mark.slow
def test_numbers_that_differ_leave_nothing_behind(tmp_path, monkeypatch):
    save(ElmoModel(make_tiny_config()), tmp_path / "elmo")
    named = onnx_export._Outputs.named

    def other(outputs, inputs):
        length = inputs["input_ids"].shape[1]
        found = named(outputs, inputs)
        return {name: value + 0.01 for name, value in found.items()} if length == 14 else found

    monkeypatch.setattr(onnx_export._Outputs, "named", other)
    with pytest.raises(ArithmeticError, match=r"last_hidden_state.* 3 sentences of up to 12 words"):
        export_onnx(str(tmp_path / "elmo"), tmp_path / "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["elmo"]


def test_models_without_a_fixed_graph_are_refused_in_one_line(tmp_path, capsys):
    table = make_tiny_config(token_inputs="both", word_table_size=3, word_vector_size=4)
    for model, *named in (
        (ElmoForCoreferenceResolution(config_of("coreference")), "ElmoForCoreferenceResolution", "ElmoModel"),
        (ElmoModel(table), "table of word vectors"),
    ):
        save(model, tmp_path / "elmo")
        with pytest.raises(SystemExit) as ended:
            command_line.main(["export", str(tmp_path / "elmo"), str(tmp_path / "onnx")])
        error = capsys.readouterr().err
        assert ended.value.code == 2 and all(name in error for name in named) and error.count("error: ") == 1
        assert not (tmp_path / "onnx").exists()
