"""How many examples a property is tried on, in the profile that runs."""

from typing import Any

from hypothesis import settings

# Of a property that does not say otherwise: in every run of the tests, and in that of the slow ones.
USUAL, THOROUGH = 20, 200


def examples(number: int, **others: Any) -> settings:
    """So many in the usual profile, and as many times more in another one as that has for all properties."""
    return settings(max_examples=number * settings().max_examples // USUAL, **others)
