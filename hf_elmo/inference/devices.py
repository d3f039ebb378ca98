"""The device that a user names, or the best one that is there."""

from __future__ import annotations

import torch


def usable_device(name: str | None = None) -> torch.device:
    """The device of that name, "cuda:1" for example; None takes a GPU where there is one.

    Raises: ValueError where it cannot be used.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        # A device can be well named and still be absent, or unable to give anything back.
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device {name!r} cannot be used here ({str(error).splitlines()[0]}); leave it out, or name one that can."
        ) from error
    return torch.device(name)
