"""The lines of docs/coming_from.md, on small files as the other programs write them."""

import functools
import importlib.util
import re

import numpy as np
import pytest
import torch
from conftest import ROOT

BLOCKS = dict(
    re.findall(
        r"^## ([^\n]+)\n(?:(?!^## ).)*?```py\n(.*?)```",
        (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run the block of a heading where the files lie that it names, after those before it; returns its names."""
    pytest.importorskip("h5py")
    from bilm_tf_files import make_options, write_checkpoint
    from elmoformanylangs_files import write_model

    folder = tmp_path_factory.mktemp("coming_from")
    write_checkpoint(folder / "downloaded" / "elmo", make_options())
    write_checkpoint(folder / "downloaded" / "seqvec", make_options(), seed=1)
    write_model(folder / "downloaded" / "manylangs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)

        @functools.cache
        def run(heading: str) -> dict:
            namespace: dict = {}
            exec(BLOCKS[heading], namespace)
            return namespace

        yield run


def test_allennlps_users_get_its_layers_and_mixes(run):
    vectors = run("AllenNLP: vectors")
    assert vectors["layers"].shape == (3, 4, 12)
    mixes = run("AllenNLP: the ELMo layer of a model of one's own")
    assert mixes["below"].shape == mixes["above"].shape == (1, 6, 12)
    # Fresh mixes are the mean of the layers.
    np.testing.assert_allclose(mixes["below"][0, 1:-1].detach(), vectors["layers"].mean(0), atol=1e-6)


def test_bilm_tfs_users_need_no_directory(run):
    found = run("bilm-tf")
    assert found["vectors"].shape == (1, 6, 12) and found["vectors"].isfinite().all()


def test_seqvecs_users_get_residues_and_a_protein(run):
    found = run("SeqVec")
    assert found["residues"].shape == (8, 12)
    np.testing.assert_allclose(found["protein"], torch.tensor(found["residues"]).mean(dim=0), atol=1e-6)


def test_elmoformanylangs_users_get_its_average(run):
    found = run("ELMoForManyLangs")
    (vectors,) = found["vectors"]
    layers = found["embedder"].embed_sentence(["나무", "boat"], layers="all")
    np.testing.assert_allclose(vectors, layers.mean(0), atol=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("flair") is None, reason="flair is not installed")
def test_flairs_users_get_its_average(run):
    layers = run("AllenNLP: vectors")["layers"]
    sentence = run("flair")["sentence"]
    np.testing.assert_allclose(np.stack([token.embedding for token in sentence]), layers.mean(0), atol=1e-6)
