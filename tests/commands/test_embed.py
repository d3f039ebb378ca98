"""scripts/embed.py from the command line."""

import gzip
import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT, make_tiny_config

from hf_elmo import ElmoCharTokenizer, ElmoModel

h5py = pytest.importorskip("h5py", reason="vectors are written as HDF5")


def run_script(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "embed.py"), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


def test_a_text_file_becomes_a_file_of_vectors(tmp_path):
    ElmoModel(make_tiny_config()).save_pretrained(tmp_path / "elmo")
    ElmoCharTokenizer().save_pretrained(tmp_path / "elmo")
    with gzip.open(tmp_path / "text.txt.gz", "wt", encoding="utf-8") as file:
        file.write("A call returns a value .\n\nCall it !\n")
    names = {"--model_name_or_path": "elmo", "--input_file": "text.txt.gz", "--output_file": "v.hdf5"}
    paths = [word for flag, name in names.items() for word in (flag, str(tmp_path / name))]
    arguments = [*paths, "--layers", "all", "--max_words_per_batch", "7", "--max_words_per_chunk", "3"]
    result = run_script(*arguments, "--device", "cpu")
    assert (result.returncode, result.stderr) == (0, "")
    size = os.path.getsize(tmp_path / "v.hdf5") / 1e6
    assert re.search(r"Embedded 3 sentences of 9 words \(all\): [\d,]+ words/s on cpu in float32", result.stdout)
    assert f"{tmp_path / 'v.hdf5'}, {size:.1f} MB" in result.stdout
    with h5py.File(tmp_path / "v.hdf5") as file:
        assert {name: file[name].shape for name in file} == {"0": (3, 6, 12), "1": (3, 0, 12), "2": (3, 3, 12)}
    again = run_script(*arguments)
    assert again.returncode == 2 and again.stderr.count("\n") == 1
    assert "error: output_file" in again.stderr and "--overwrite_output_file" in again.stderr


def test_help_names_the_arguments():
    result = run_script("--help")
    assert result.returncode == 0
    for name in ("model_name_or_path", "input_file", "output_file", "layers", "max_words_per_chunk", "store_sentences"):
        assert f"--{name}" in result.stdout
