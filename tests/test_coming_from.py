"""The lines of docs/coming_from.md, on small files as the other programs write them."""

import importlib.util
import re

import numpy as np
import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```py\n(.*?)```", PAGE, flags=re.DOTALL | re.MULTILINE))


def assert_near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_what_old_users_had_they_have_again(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    from bilm_tf_files import make_options, write_checkpoint
    from elmoformanylangs_files import write_model

    write_checkpoint(tmp_path / "downloaded" / "elmo", make_options())
    write_checkpoint(tmp_path / "downloaded" / "seqvec", make_options(), seed=1)
    write_model(tmp_path / "downloaded" / "manylangs")
    monkeypatch.chdir(tmp_path)
    found = {}
    for heading, block in BLOCKS.items():
        if heading != "flair" or importlib.util.find_spec("flair"):
            found[heading] = {}
            exec(block, found[heading])
    layers = found["AllenNLP: vectors"]["layers"]
    assert layers.shape == (3, 4, 12)
    mixes = found["AllenNLP: the ELMo layer of a model of one's own"]
    assert mixes["below"].shape == mixes["above"].shape == (1, 6, 12)
    # Fresh mixes are the mean of the layers, which those who keep no directory get too.
    for mixed in (mixes["below"], mixes["above"], found["bilm-tf"]["vectors"]):
        assert_near(mixed[0, 1:-1].detach(), layers.mean(0))
    protein = found["SeqVec"]
    assert protein["residues"].shape == (8, 12)
    assert_near(protein["protein"], protein["residues"].mean(0))
    (vectors,) = found["ELMoForManyLangs"]["vectors"]
    assert_near(vectors, found["ELMoForManyLangs"]["embedder"].embed_sentence(["나무", "boat"], layers="all").mean(0))
    if "flair" in found:
        assert_near(np.stack([token.embedding for token in found["flair"]["sentence"]]), layers.mean(0))
