"""Texts of the submission's own objects, what leaving a context calls, and small parts of the standard library."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import check_what_holds

NAMED = """
class Named:
    def __init__(self, name): self.name = name
    def __str__(self): return self.name
    def __repr__(self): return "r" + self.name
    def __format__(self, how): return self.name + how
"""
DATA = """
import dataclasses
@dataclasses.dataclass
class Data:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)
"""
LEAVING = """
import contextlib
left = []
class Way:
    def __enter__(self): return 3
    def __exit__(self, *raised): left.append(raised[0]); return True
    def close(self): left.append(4)
"""
HEAP = "import bisect, heapq\n"

# What stands before the class, what forward does first, and what then holds.
HOLDS = {
    "an f-string": (NAMED, "", "f'{Named(\"a\")}{Named(\"b\")!r}{Named(\"c\"):d}' == 'arbcd'"),
    "str and repr": (NAMED, "", "str(Named('a')) + repr(Named('b')) == 'arb'"),
    "a format": (NAMED, "", "'{} {n}'.format(Named('a'), n=Named('b')) == 'a b'"),
    "a conversion": (NAMED, "", "'%s.%d' % (Named('a'), 1) == 'a.1'"),
    "a list of objects": (NAMED, "", "str([Named('a'), (Named('b'),)]) == '[ra, (rb,)]'"),
    "an object of a dataclass": (DATA, "", "repr(Data(3, ['x'])) == \"Data(a=3, b=['x'])\""),
    "a member of an enumeration": ("import enum\nclass E(enum.Enum):\n    A = 1\n", "", "f'{E.A}' == 'E.A'"),
    "a copy with another field": (DATA, "", "dataclasses.replace(Data(2, [1]), a=5) == Data(5, [1])"),
    "fields by name": (DATA, "", "dataclasses.asdict(Data(2)) == {'a': 2, 'b': []}"),
    "fields in turn": (DATA, "", "[f.name for f in dataclasses.fields(Data)] == ['a', 'b']"),
    "a heap": (HEAP, "h = [3, 1, 2]\nheapq.heapify(h)\nheapq.heappush(h, 0)\n", "heapq.heappop(h) == 0 and h[0] == 1"),
    "a sorted list": (HEAP, "h = [1, 3]\nbisect.insort(h, 2)\n", "h == [1, 2, 3] and bisect.bisect(h, 2) == 2"),
    "a callback at the end": (
        LEAVING, "with contextlib.ExitStack() as s:\n    s.callback(left.append, 5)\n", "left[-1] == 5",
    ),
    "a context that is put on a stack": (
        LEAVING,
        "with contextlib.ExitStack() as s:\n    three = s.enter_context(Way())\n    raise KeyError\n",
        "three == 3 and left[-1] is KeyError",
    ),
    "a stack that is closed": (
        LEAVING, "s = contextlib.ExitStack()\ns.push(lambda *r: left.append(6))\ns.close()\n", "left[-1] == 6",
    ),
    "a stack that gave all away": (
        LEAVING,
        "left.clear()\nwith contextlib.ExitStack() as s:\n    s.callback(left.append, 5)\n    t = s.pop_all()\n",
        "not left and [t.close()] and left",
    ),
    "a generator on a stack": (
        LEAVING
        + "@contextlib.contextmanager\ndef way():\n    left.append(8)\n    try:\n        yield 5\n"
        + "    finally:\n        left.append(9)\n",
        "with contextlib.ExitStack() as s:\n    five, at = s.enter_context(way()), left[-1]\n",
        "five == 5 and at == 8 and left[-1] == 9",
    ),
    "what is closed at the end": (LEAVING, "with contextlib.closing(Way()):\n    pass\n", "left[-1] == 4"),
    "a context that does nothing": (LEAVING, "with contextlib.nullcontext() as n:\n    pass\n", "n is None"),
}  # fmt: skip


@pytest.mark.parametrize("what", HOLDS)
def test_what_holds_in_python_holds_here(tmp_path: Path, what: str) -> None:
    check_what_holds(tmp_path, *HOLDS[what])
