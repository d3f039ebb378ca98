"""The one place that asks for h5py, which only the old formats need."""

from __future__ import annotations

from types import ModuleType


def require_h5py(what: str) -> ModuleType:
    """The module h5py, which is an optional dependency.

    Args:
        what: What is read or written as HDF5, in the plural: the beginning of the message.
    Raises: ImportError saying how to get it.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            f"{what} are hdf5 files, and h5py is not installed; run: pip install 'hf_elmo[conversion]'"
        ) from error
    return h5py
