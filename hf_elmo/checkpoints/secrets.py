"""Access tokens: found where they may be, kept off command lines and screens and out of files that are shared."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path

# Access tokens as the Hub makes them; those of OAuth are JSON web tokens behind a prefix.
_LIKE_A_TOKEN = rb"\b(?:(?:hf|api_org)_[A-Za-z0-9]{30,}|hf_(?:oauth|jwt)_[\w.\-]{20,})"
_LIKE_A_TOKEN_IN_FILE = re.compile(_LIKE_A_TOKEN)
_LIKE_A_TOKEN_IN_TEXT = re.compile(_LIKE_A_TOKEN.decode("ascii"))


def check_command_line(arguments: Sequence[str]) -> None:
    """Check that a command holds no access token: results files and lists of processes show commands to others.

    Args:
        arguments: The words of the command.
    Raises: ValueError, without the token.
    """
    for argument in arguments:
        flag = argument.partition("=")[0].replace("-", "_")
        is_flag = argument.startswith("-") and flag.endswith("_token")
        if is_flag or redact(argument) != argument:
            raise ValueError(
                "the command line holds an access token, which results.json and the machine's list of processes would "
                "show; leave it out and run `hf auth login` or set HF_TOKEN. If it was a real one, have the Hub "
                "replace it: it has been seen."
            )


def redact(text: str, token: str | None = None) -> str:
    """The text with each access token in it masked: the given one, HF_TOKEN's, and what looks like one."""
    for known in (token or "", os.environ.get("HF_TOKEN", "").strip()):
        # What is shorter is no token, and stands in any text.
        if len(known) >= 8:
            text = text.replace(known, "<token>")
    return _LIKE_A_TOKEN_IN_TEXT.sub("<token>", text)


def find_token(token: str | None) -> str | None:
    """The given token, or the one of this machine."""
    # Only here: commands that print their help check their words for tokens, too, and need not wait for it.
    from huggingface_hub import get_token

    token = token or get_token()
    # The transport's own message about a header that cannot be sent holds the header.
    if token is not None and not re.fullmatch(r"[!-~]{8,}", token):
        raise ValueError(
            "the access token is not one: it is too short or holds blanks, control characters or letters beyond ASCII; "
            "run `hf auth login`, or set HF_TOKEN again."
        )
    return token


def require_token(token: str | None) -> str:
    found = find_token(token)
    if found is None:
        raise ValueError(
            "push_to_hub needs a login, but there is no token; run `hf auth login`, or set HF_TOKEN to a token with "
            "write access."
        )
    return found


def holds_token(path: Path, token: str | None) -> bool:
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if token is not None and content.find(token.encode("ascii")) >= 0:
            return True
        # Weights are for their exact bytes only: they are large, and any letters stand in them by chance.
        return path.suffix != ".safetensors" and bool(_LIKE_A_TOKEN_IN_FILE.search(content))
