"""The one place that asks for packages that only some uses need."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(package: str, what: str, extra: str) -> ModuleType:
    """A package that is an optional dependency.

    Args:
        package: Its name, as it is imported.
        what: What is read or written by it, in the plural: the beginning of the message.
        extra: The extra of hf_elmo that brings it.
    Raises: ImportError saying how to get it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"{what} need {name}, not installed; run: pip install 'hf_elmo[{extra}]'") from error
