"""Groups of arguments check alike: choices by their annotation, numbers by their least value."""

from dataclasses import dataclass
from typing import Literal

import pytest
from refusals import assert_refused

from hf_elmo.given.flags import check_choices, check_least, flag, read_json_object


@dataclass(frozen=True, kw_only=True)
class Group:
    shape: Literal["round", "square"] = flag("A shape.", default="round")
    colour: Literal["red", "green"] | None = flag("A colour.", default=None)
    size: int | None = flag("A size.", default=None)


@dataclass(frozen=True, kw_only=True)
class Joined(Group):
    name: str = flag("A name, which has no default.")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"shape": "flat"}, "--shape is 'flat'"),
        ({"shape": None}, "--shape"),
        ({"colour": "blue"}, "--colour"),
    ],
)
def test_choices_are_those_of_the_annotation(changes, named):
    check_choices(Joined(name="n", colour="red"))
    with pytest.raises(ValueError, match=named):
        check_choices(Joined(name="n", **changes))


@pytest.mark.parametrize(("size", "least"), [(0, 1), (-1, 0), (2, 3)])
def test_least_values_are_named(size, least):
    check_least(Group(size=least), ("size",), least)
    check_least(Group(), ("size",), least)
    assert_refused(ValueError, ("--size", str(size), str(least)), check_least, Group(size=size), ("size",), least)


def test_json_flags_are_objects():
    assert read_json_object("overrides", '{"a": [1]}', "{}") == {"a": [1]}
    assert read_json_object("overrides", None, "{}") == {}
    for wrong in ("[1]", "{a: 1}", "3"):
        with pytest.raises(ValueError, match="--overrides"):
            read_json_object("overrides", wrong, "{}")
