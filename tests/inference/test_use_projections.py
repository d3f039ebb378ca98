"""Vectors in two dimensions: principal components keep distances, UMAP keeps neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.inference.use_projections import project, project_by_umap


@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 100))
def test_what_lies_in_a_plane_keeps_its_distances(count, dims, seed):
    rng = np.random.default_rng(seed)
    flat = rng.normal(size=(count, 2))
    turned = flat @ np.linalg.qr(rng.normal(size=(dims, 2)))[0].T + rng.normal(size=dims)
    places, shown = project(turned)

    def distances(points):
        return np.linalg.norm(points[:, None] - points, axis=-1)

    np.testing.assert_allclose(distances(places), distances(flat), atol=1e-6)
    assert shown == pytest.approx(1)


def test_which_way_an_axis_points_is_no_accident_of_the_computation():
    vectors = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_allclose(project(vectors[:, ::-1])[0], project(vectors)[0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_umap_lays_what_is_alike_together_the_same_each_time():
    pytest.importorskip("umap")
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(3, 20)) * 10
    vectors = (np.repeat(middles, 12, axis=0) + rng.normal(size=(36, 20))).astype(np.float32)
    places = project_by_umap(vectors)
    assert places.shape == (36, 2)
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) // 12 == np.arange(36) // 12).all()
    np.testing.assert_array_equal(project_by_umap(vectors), places)
    # A handful is laid out, too; less than that is left to the principal components.
    assert project_by_umap(vectors[:4]).shape == (4, 2) and project_by_umap(vectors[:3]) is None
