"""Matrices that align layers: read from every kind of file, applied before the mix, saved with the model."""

import zipfile

import h5py
import numpy as np
import pytest
import torch
from bilm_tf_files import listing, make_options, write_checkpoint
from conftest import make_tiny_config
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refused
from tolerances import REORDERED_FLOAT32
from transformers import AutoModel

from hf_elmo import ElmoCharTokenizer, ElmoModel, load_foreign
from hf_elmo.commands.convert import main
from hf_elmo.conversion.alignment import align_layers, read_matrices
from hf_elmo.conversion.checked_files import ConversionError

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
    elif kind == "npz":
        np.savez_compressed(path, array)
    elif kind == "hdf5":
        with h5py.File(path, "w") as file:
            file["mapping"] = array
    else:
        content = (
            array.astype(np.float64) if kind == "double.pth" else array if kind == "numpy.pth" else torch.tensor(array)
        )
        torch.save(content, path, _use_new_zipfile_serialization=kind != "old.pth")
    return path


KINDS = ["txt", "npy", "npz", "hdf5", "pth", "old.pth", "numpy.pth", "double.pth"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_of_one_layer_is_read_from_every_kind_of_file(tmp_path, matrices, kind):
    path = write(tmp_path / f"es.{kind}", matrices[1])
    found = read_matrices(["-", path, "-"], LAYERS, SIZE).numpy()
    np.testing.assert_array_equal(found[1], matrices[1])
    np.testing.assert_array_equal(found[[0, 2]], np.stack([np.eye(SIZE)] * 2))


def test_one_file_holds_those_of_all_layers(tmp_path, matrices):
    np.save(tmp_path / "all.npy", matrices)
    np.savez(tmp_path / "all.npz", layer_2=matrices[2], layer_0=matrices[0])
    with h5py.File(tmp_path / "all.hdf5", "w") as file:
        for layer, matrix in enumerate(matrices):
            file[f"aligned/{layer}"] = matrix
    torch.save({f"layer{layer}": torch.tensor(matrix) for layer, matrix in enumerate(matrices)}, tmp_path / "all.pth")
    for name in ("all.npy", "all.hdf5", "all.pth"):
        np.testing.assert_array_equal(read_matrices([tmp_path / name], LAYERS, SIZE), matrices)
    found = read_matrices([tmp_path / "all.npz"], LAYERS, SIZE)
    np.testing.assert_array_equal(found[[0, 2]], matrices[[0, 2]])
    np.testing.assert_array_equal(found[1], np.eye(SIZE))


@pytest.mark.parametrize("normalization", ["none", "word"])
def test_layers_are_aligned_before_they_are_mixed_and_nothing_else_is(tmp_path, matrices, normalization):
    model = ElmoModel(make_tiny_config(num_mixes=2, mix_normalization=normalization)).eval()
    with torch.no_grad():
        for mix in model.mixes:
            mix.weight.normal_()
    batch = ElmoCharTokenizer()(["A b c .", "d"], padding=True, return_tensors="pt")
    before = model(**batch, output_hidden_states=True)
    np.save(tmp_path / "all.npy", matrices)
    align_layers(model, [tmp_path / "all.npy"])
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


def test_without_matrices_the_identity_is_drawn(tmp_path):
    model = ElmoModel(make_tiny_config()).eval()
    model.save_pretrained(tmp_path)
    aligned = AutoModel.from_pretrained(tmp_path, align_layers=True)
    batch = ElmoCharTokenizer()(["A b c ."], return_tensors="pt")
    torch.testing.assert_close(aligned(**batch).last_hidden_state, model(**batch).last_hidden_state)


def test_what_is_converted_can_be_aligned_by_the_command(tmp_path, matrices, capsys):
    write_checkpoint(tmp_path / "theirs", make_options())
    model, _ = load_foreign(tmp_path / "theirs")
    size = 2 * model.config.projection_size
    matrix = np.random.default_rng(1).standard_normal((size, size)).astype(np.float32)
    path = write(tmp_path / "es_best_mapping.pth", matrix)
    main([str(tmp_path / "theirs"), str(tmp_path / "ours"), "--alignment_files", "-", str(path), "-"])
    loaded = AutoModel.from_pretrained(tmp_path / "ours")
    np.testing.assert_array_equal(loaded.mixes[0].alignment[1].numpy(), matrix)
    assert "es_best_mapping.pth" in (tmp_path / "ours" / "README.md").read_text()
    again, _ = load_foreign(tmp_path / "theirs", alignment_files=["-", path, "-"])
    assert torch.equal(again.mixes[0].alignment, loaded.mixes[0].alignment)
    np.savez(tmp_path / "all.npz", layer_1=matrix)
    again, _ = load_foreign(tmp_path / "theirs", alignment_files=tmp_path / "all.npz")
    assert torch.equal(again.mixes[0].alignment, loaded.mixes[0].alignment)


class _Runs:
    def __reduce__(self):
        return open, ("ran.txt", "w")


def test_wrong_matrices_are_refused_by_name(tmp_path, matrices, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "theirs", make_options())
    nan = matrices[0].copy()
    nan[3, 4] = np.nan
    names = {
        "small.txt": lambda path: write(path, matrices[0][:3, :3]),
        "whole.npy": lambda path: np.save(path, np.eye(SIZE, dtype=np.int64)),
        "nan.npy": lambda path: write(path, nan),
        "words.txt": lambda path: path.write_text("no matrix\n"),
        "empty.txt": lambda path: path.write_text(""),
        "spaces.txt": lambda path: path.write_text("\x85\u3000", encoding="utf-8"),
        "cut.npy": lambda path: path.write_bytes(write(path, matrices[0]).read_bytes()[:-9]),
        "cut.pth": lambda path: path.write_bytes(write(path, matrices[0]).read_bytes()[:-9]),
        "objects.npy": lambda path: np.save(path, np.array([{}, 1]), allow_pickle=True),
        "code.pth": lambda path: torch.save(_Runs(), path),
        "code.old.pth": lambda path: torch.save({"a": _Runs()}, path, _use_new_zipfile_serialization=False),
        "bomb.npz": lambda path: np.savez_compressed(path, np.zeros(10**7)),
        "no_array.npz": lambda path: zipfile.ZipFile(path, "w").writestr("a.npy", b"no array"),
        "no_header.npy": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x08\x00{'a': (\n"),
        "two.npz": lambda path: np.savez(path, a=matrices[0], b=matrices[1]),
    }
    for name, make in names.items():
        make(tmp_path / name)
        assert_refused(ConversionError, name, read_matrices, ["-", name, "-"], LAYERS, SIZE)
        assert_refused(ConversionError, name, read_matrices, [name], LAYERS, SIZE)
    assert_refused(
        ConversionError, ("small.txt", "(3, 3)", "(12, 12)"), read_matrices, ["-", "small.txt", "-"], LAYERS, SIZE
    )
    assert_refused(ConversionError, ("alignment_files", "2"), read_matrices, ["-", "-"], LAYERS, SIZE)
    assert_refused(FileNotFoundError, "absent", read_matrices, ["-", "absent", "-"], LAYERS, SIZE)
    assert not (tmp_path / "ran.txt").exists()
    before = listing(tmp_path)
    with pytest.raises(SystemExit):
        main([str(tmp_path / "theirs"), str(tmp_path / "ours"), "--alignment_files", "small.txt"])
    assert listing(tmp_path) == before


@given(key=st.text("ab/_0123", min_size=1, max_size=6))
def test_keys_of_all_layers_are_told_by_their_last_number(tmp_path_factory, key):
    path = tmp_path_factory.mktemp("keys") / "all.pth"
    torch.save({key: torch.zeros(SIZE, SIZE)}, path)
    digits = "".join(each if each.isdigit() else " " for each in key).split()
    if digits and int(digits[-1]) < LAYERS:
        assert not read_matrices([path], LAYERS, SIZE)[int(digits[-1])].any()
    else:
        assert_refused(ConversionError, "all.pth", read_matrices, [path], LAYERS, SIZE)
