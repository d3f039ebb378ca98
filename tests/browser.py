"""Pages as a browser without a window shows them: what they say after their scripts ran, and a photograph."""

import shutil
import subprocess
from pathlib import Path

import pytest

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def dump_page(page: Path, fragment: str = "") -> str:
    """The page's elements after its scripts ran; skips the test where there is no browser."""
    return _run(page, fragment, "--dump-dom").decode("utf-8")


def _run(page: Path, fragment: str, *flags: str) -> bytes:
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip(f"no browser that runs without a window: none of {', '.join(_NAMES)}")
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", *flags]
    return subprocess.run(
        [*words, page.resolve().as_uri() + fragment], check=True, capture_output=True, timeout=120
    ).stdout
