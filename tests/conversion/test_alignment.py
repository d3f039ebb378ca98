"""Matrices that align layers: read from every kind of file, applied before the mix, saved with the model."""

import numpy as np
import pytest
import torch
from bilm_tf_files import make_options, write_checkpoint
from conftest import make_tiny_config
from refusals import Code, assert_refused
from tolerances import REORDERED_FLOAT32
from transformers import AutoModel

from hf_elmo import ElmoCharTokenizer, ElmoModel
from hf_elmo.cli.command_line import main
from hf_elmo.conversion.alignment import align_layers

LAYERS, SIZE = 3, 12


@pytest.fixture
def matrices():
    return np.random.default_rng(0).standard_normal((LAYERS, SIZE, SIZE)).astype(np.float32)


def write(path, array):
    """A matrix, as programs publish it, in the kind of file that its name says."""
    kind = path.name.split(".", 1)[1]
    if kind == "txt":
        np.savetxt(path, array)
    elif kind == "npy":
        np.save(path, array)
    else:
        content = (
            array.astype(np.float64) if kind == "double.pth" else array if kind == "numpy.pth" else torch.tensor(array)
        )
        torch.save(content, path, _use_new_zipfile_serialization=kind != "old.pth")
    return path


@pytest.mark.parametrize("kind", ["txt", "npy", "old.pth", "numpy.pth", "double.pth"])
def test_a_matrix_of_one_layer_is_read_from_every_kind_of_file(tmp_path, matrices, kind):
    model = ElmoModel(make_tiny_config())
    align_layers(model, ["-", write(tmp_path / f"es.{kind}", matrices[1]), "-"])
    found = model.mixes[0].alignment.numpy()
    np.testing.assert_array_equal(found[1], matrices[1])
    np.testing.assert_array_equal(found[[0, 2]], np.stack([np.eye(SIZE)] * 2))


@pytest.mark.parametrize("normalization", ["none", "word"])
def test_layers_are_aligned_before_they_are_mixed_and_nothing_else_is(tmp_path, matrices, normalization):
    model = ElmoModel(make_tiny_config(num_mixes=2, mix_normalization=normalization)).eval()
    with torch.no_grad():
        for mix in model.mixes:
            mix.weight.normal_()
    batch = ElmoCharTokenizer()(["A b c .", "d"], padding=True, return_tensors="pt")
    before = model(**batch, output_hidden_states=True)
    align_layers(model, [write(tmp_path / f"{layer}.npy", matrix) for layer, matrix in enumerate(matrices)])
    after = model(**batch, output_hidden_states=True)
    assert all(torch.equal(*pair) for pair in zip(before.hidden_states, after.hidden_states, strict=True))
    for mix, found in zip(model.mixes, after.elmo_representations, strict=True):
        wanted = 0
        for share, layer, matrix in zip(torch.softmax(mix.weight, 0), before.hidden_states, matrices, strict=True):
            aligned = layer @ torch.from_numpy(matrix).T
            if normalization == "word":
                aligned = torch.nn.functional.layer_norm(aligned, (SIZE,), eps=1e-12)
            wanted = wanted + share * aligned * batch["attention_mask"].unsqueeze(-1)
        torch.testing.assert_close(found, mix.scale * wanted, rtol=0, atol=10 * REORDERED_FLOAT32)
    model.save_pretrained(tmp_path / "saved")
    loaded, report = AutoModel.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not any(report.values()) and loaded.config.align_layers
    assert torch.equal(loaded(**batch).last_hidden_state, after.last_hidden_state)
    loaded.freeze_bilm(False)
    sum(mix.sum() for mix in loaded.train()(**batch).elmo_representations).backward()
    assert all(mix.alignment.grad is None and mix.weight.grad is not None for mix in loaded.mixes)


def test_what_is_converted_can_be_aligned_by_the_command(tmp_path, matrices):
    write_checkpoint(tmp_path / "theirs", make_options())
    path = write(tmp_path / "es_best_mapping.pth", matrices[1])
    main(["convert", str(tmp_path / "theirs"), str(tmp_path / "ours"), "--alignment_files", "-", str(path), "-"])
    loaded = AutoModel.from_pretrained(tmp_path / "ours")
    np.testing.assert_array_equal(loaded.mixes[0].alignment[1].numpy(), matrices[1])
    assert "es_best_mapping.pth" in (tmp_path / "ours" / "README.md").read_text()


def test_wrong_matrices_are_refused_by_name(tmp_path, matrices, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nan = matrices[0].copy()
    nan[3, 4] = np.nan
    names = {
        "small.txt": lambda path: write(path, matrices[0][:3, :3]),
        "nan.npy": lambda path: write(path, nan),
        "objects.npy": lambda path: np.save(path, np.array([{}, 1]), allow_pickle=True),
        "code.pth": lambda path: torch.save(Code(), path),
    }
    model = ElmoModel(make_tiny_config())
    for name, make in names.items():
        make(tmp_path / name)
        assert "\n" not in assert_refused(ValueError, name, align_layers, model, ["-", name, "-"])
    assert_refused(ValueError, ("alignment_files", "2", "3"), align_layers, model, ["-", "-"])
    assert not (tmp_path / "ran").exists() and not model.config.align_layers
