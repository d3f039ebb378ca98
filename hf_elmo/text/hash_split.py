"""A fixed fraction of many texts, chosen by a hash of each text: the same in every order, pass and process."""

from __future__ import annotations

import hashlib


def is_in_fraction(text: str, fraction: float, purpose: str) -> bool:
    """Whether a text belongs to a fraction.

    Args:
        text: The text; equal texts belong together.
        fraction: Size of the fraction, from 0 to 1; a smaller one lies within a larger one.
        purpose: Key of the hash, so that fractions for different purposes do not depend on each other.
    """
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=purpose.encode()).digest()
    return int.from_bytes(digest, "big") < fraction * 2**64
