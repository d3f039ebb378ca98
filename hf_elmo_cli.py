"""The console script `hf-elmo`. It stands beside the package, whose import takes seconds: no --help waits for them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType


def main() -> None:
    """Run `hf-elmo COMMAND ...`; where help is asked for, without what the package imports for its models."""
    if not sys.argv[1:] or {"-h", "--help"} & set(sys.argv[1:]):
        package = ModuleType("hf_elmo")
        package.__path__ = [str(Path(__file__).with_name("hf_elmo"))]
        sys.modules["hf_elmo"] = package
    from hf_elmo.cli.command_line import main as run

    run()
