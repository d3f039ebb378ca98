"""Vectors of uses in two dimensions: on their principal components, or by UMAP."""

from __future__ import annotations

from typing import Literal

import numpy as np

Projection = Literal["pca", "umap"]

# Uses that UMAP takes for near to each, its own default; and how many uses it wants at least.
_UMAP_NEIGHBOURS, _LEAST_FOR_UMAP = 15, 4


def project(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """Vectors (N, D) on their two principal components, (N, 2), and the share of the variance that those have."""
    centred = vectors - vectors.mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    places = np.zeros((len(vectors), 2))
    axes = min(2, len(lengths))
    places[:, :axes] = left[:, :axes] * lengths[:axes]
    total = float((lengths**2).sum())
    return _turned(places), float((lengths[:axes] ** 2).sum()) / total if total else 1.0


def project_by_umap(vectors: np.ndarray) -> np.ndarray | None:
    """Vectors (N, D) so that uses with high cosines lie together, (N, 2), the same each time; None for fewer than four.

    Groups stand out more clearly than on principal components; how far apart they lie means little (McInnes et al.
    2018, section 5).

    Raises: ImportError where umap-learn is not installed.
    """
    try:
        from umap import UMAP
    except ImportError as error:
        raise ImportError("--projection umap needs umap-learn: pip install 'hf_elmo[umap]'.") from error
    if len(vectors) < _LEAST_FOR_UMAP:
        return None
    neighbours = min(_UMAP_NEIGHBOURS, len(vectors) - 1)
    # The default beginning, eigenvectors of the graph, fails for a handful of uses.
    umap = UMAP(neighbours, metric="cosine", init="pca", random_state=0, n_jobs=1)
    return _turned(np.asarray(umap.fit_transform(vectors), dtype=np.float64))


def _turned(places: np.ndarray) -> np.ndarray:
    """An axis may point either way; let it be that in which the farthest place is at the right, or at the top."""
    farthest = places[np.abs(places).argmax(axis=0), [0, 1]]
    return places * np.where(farthest < 0, -1, 1)
