"""The one place that asks for packages that only some uses need."""

from __future__ import annotations

import importlib
from types import ModuleType


def require(package: str, what: str, extra: str) -> ModuleType:
    """An optional package, by which `what` (plural) is read or written; ImportError names the extra that brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"{what} need {name}, not installed; run: pip install 'hf_elmo[{extra}]'") from error
