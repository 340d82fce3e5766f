"""`kbh_lint.base.records.dataclass` makes what the standard library would, but for the refusal to assign."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from kbh_lint.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: str = "r"


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    left: int


@dataclass(slots=True)
class Loose:
    left: int


@dataclass(frozen=True)
class Own:
    left: int

    def __hash__(self) -> int:
        return 7


def test_frozen_records_compare_hash_and_print_as_frozen_dataclasses_do() -> None:
    like: Any = dataclasses.make_dataclass("Pair", [("left", int), ("right", str)], frozen=True)
    assert Pair(1, "a") == Pair(1, "a") != Pair(2, "a")
    assert hash(Pair(1, "a")) == hash(like(1, "a"))
    assert repr(Pair(1)) == "Pair(left=1, right='r')"
    assert dataclasses.replace(Pair(1), left=2) == Pair(2) == pickle.loads(pickle.dumps(Pair(2)))


def test_records_that_are_their_own_identity_and_own_hashes_stay_so() -> None:
    one, other = Place(1), Place(1)
    assert one != other and len({one, other}) == 2
    assert hash(Own(1)) == 7


def test_a_record_that_is_not_frozen_has_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(Loose(1))
