"""`kbh_lint.base.records.dataclass` makes what the standard library would, but for the refusal to assign."""

from __future__ import annotations

import dataclasses
import pickle
import weakref
from typing import Any, ClassVar

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


@dataclass(slots=True)
class Node:
    self: int
    below: list[Node] = dataclasses.field(default_factory=list)
    beside: Any = dataclasses.field(default=None, repr=False, compare=False)
    serial: int = dataclasses.field(init=False)
    depth: int = dataclasses.field(default=4, init=False)
    kinds: ClassVar[tuple[str, ...]] = ("node",)

    def __post_init__(self) -> None:
        self.serial = 10 * self.depth


@dataclass(slots=True)
class Leaf(Node):
    text: str = ""
    self: int = 3


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Held:
    value: int


class Plain(Held):
    """A class that derives from a record, and is none of its own."""


def test_fields_are_set_from_arguments_defaults_and_factories() -> None:
    one = Node(1)
    assert (one.self, one.below, one.beside, one.serial, one.depth) == (1, [], None, 40, 4)
    assert one.below is not Node(1).below and Node(1, [one], beside=2).beside == 2
    assert Node(1, beside=1) == Node(1, beside=2) != Node(2)
    assert repr(Node(1, [Node(2)])) == (
        "Node(self=1, below=[Node(self=2, below=[], serial=40, depth=4)], serial=40, depth=4)"
    )
    with pytest.raises(TypeError, match="below"):
        Node(1, [], below=[])  # type: ignore[misc]
    with pytest.raises(TypeError):
        Node()  # type: ignore[call-arg]


def test_records_inherit_fields_and_keep_their_order() -> None:
    assert [field.name for field in dataclasses.fields(Leaf)] == ["self", "below", "beside", "serial", "depth", "text"]
    assert Leaf.__match_args__ == ("self", "below", "beside", "text") and Leaf.kinds == ("node",)
    assert Leaf() != Node(3) and Leaf().text == "" and Leaf().self == 3
    assert not hasattr(Leaf(), "__dict__") and dataclasses.is_dataclass(Leaf)
    match Leaf(5, text="t"):
        case Node(self=5) as found:
            assert dataclasses.replace(found, beside=1) == found
    assert dataclasses.asdict(Leaf(1)) == {
        "self": 1, "below": [], "beside": None, "serial": 40, "depth": 4, "text": ""
    }  # fmt: skip


def test_a_record_that_holds_itself_can_be_printed() -> None:
    one = Node(1)
    one.below.append(one)
    assert repr(one) == "Node(self=1, below=[...], serial=40, depth=4)"


def test_what_derives_from_a_record_or_refers_to_it_weakly_works() -> None:
    assert Plain(2).value == 2 and Held(1) != Held(1)
    held = Held(1)
    assert weakref.ref(held)() is held


def test_methods_are_compiled_when_they_are_called_first() -> None:
    @dataclass(slots=True)
    class Late:
        value: int

    before = vars(Late)["__init__"]
    assert before(object.__new__(Late), 1) is None and vars(Late)["__init__"] is not before
    assert before(object.__new__(Late), 1) is None  # who holds the first one may go on calling it
    assert Late(1) == Late(1) and "Late" in repr(Late(2))
