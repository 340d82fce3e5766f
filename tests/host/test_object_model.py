"""Objects, functions and exceptions whose meaning is set at run time: what then runs is what decides."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, LEAK, WORK, check_what_holds, lint, model, states

TWO = "def two(): return 2\ndef three(): return 3\n"
RANKED = """
class Ranked:
    def __init__(self, rank): self.rank = rank
    def __lt__(self, other): return self.rank > other.rank
"""
FIELD = """
class Field:
    def __get__(self, owner, cls=None): return owner.held + 1
    def __set__(self, owner, value): owner.held = value
class Owner:
    field = Field()
    @property
    def fixed(self): return 7
"""

# What stands before the class, what forward does first, and what then holds.
HOLDS = {
    "a descriptor that is set": (FIELD, "o = Owner()\no.field = 4\n", "o.field == 5 and o.held == 4"),
    "a property hides what an object holds": (FIELD, "o = Owner()\no.__dict__['fixed'] = 1\n", "o.fixed == 7"),
    "an object of another class": (
        "class A:\n    n = 1\nclass B:\n    n = 2\n", "a = A()\na.__class__ = B\n", "a.n == 2",
    ),
    "what __new__ makes of another class": (
        "class A:\n    n = 1\nclass B:\n    def __new__(cls): return A()\n    def __init__(self): self.n = 2\n",
        "", "B().n == 1",
    ),
    "objects in their own order": (RANKED, "r = [Ranked(1), Ranked(2)]\n", "sorted(r)[0].rank == 2 == min(r).rank"),
    "an order by a function": (
        "import functools\n", "key = functools.cmp_to_key(lambda a, b: b - a)\n", "sorted([1, 3, 2], key=key)[0] == 3",
    ),
    "items by number": (
        "class A:\n    def __getitem__(self, i):\n        if i > 1: raise IndexError\n        return i\n",
        "", "list(A()) == [0, 1]",
    ),
    "defaults that are replaced": ("def f(a, b=1): return b\nf.__defaults__ = (2,)\n", "", "f(0) == 2"),
    "code that is replaced": (TWO + "two.__code__ = three.__code__\n", "", "two() == 3"),
    "what functools.wraps wrapped": (
        "import functools\n" + TWO + "@functools.wraps(three)\ndef one(): return 1\n", "", "one.__wrapped__() == 3",
    ),
    "an attribute that is deleted": (
        "class A:\n    n = 1\n    def __delattr__(self, name): A.n = 2\n", "a = A()\ndel a.n\n", "A.n == 2",
    ),
    "parts of a number": ("", "", "(1 + 2j).imag == 2 == (2).numerator"),
    "the name of an exception after its handler": (
        "", "try:\n    raise KeyError\nexcept KeyError as e:\n    pass\n", "'e' not in locals()",
    ),
    "a copy as its class makes it": (
        "import copy\nclass A:\n    n = 1\n    def __copy__(self):\n        a = A()\n"
        "        a.n = 2\n        return a\n",
        "", "copy.copy(A()).n == 2",
    ),
    "attributes of a function under a cache": (
        "import functools\n@functools.lru_cache(maxsize=None)\ndef f(a):\n"
        "    if not hasattr(f, 'kept'): f.kept = {1: 2}\n    return f.kept.get(a, 5)\n",
        "", "f(3) == 5 and f(1) == 2 and f.kept == {1: 2} and hasattr(f, '__name__') and not hasattr(f, 'other')",
    ),
    "a cache of one": (
        "import functools\nseen = []\n@functools.lru_cache(maxsize=1)\ndef f(a): seen.append(a)\n",
        "f.cache_clear()\nseen.clear()\nf(1)\nf(2)\nf(2)\nf(1)\n", "seen == [1, 2, 1]",
    ),
}  # fmt: skip
UNSURE = {
    "numbers of the library": ("import fractions\n", "fractions.Fraction(1, 2) == 0.5"),
}


@pytest.mark.parametrize("what", HOLDS)
def test_what_holds_in_python_holds_here(tmp_path: Path, what: str) -> None:
    check_what_holds(tmp_path, *HOLDS[what])


@pytest.mark.parametrize("what", UNSURE)
def test_what_is_not_known_of_the_library_is_a_decision(tmp_path: Path, what: str) -> None:
    before, holds = UNSURE[what]
    report = lint(tmp_path, HEAD + before + KERNEL + model(f"if {holds}:\n    {LEAK}{WORK}return y\n"))
    assert set(states(report).values()) != {"kept"}


def test_work_that_hangs_on_the_thread_that_calls_is_told(tmp_path: Path) -> None:
    test = "threading.current_thread() is threading.main_thread()"
    report = lint(tmp_path, HEAD + "import threading\n" + KERNEL + model(f"if {test}:\n    {LEAK}{WORK}return y\n"))
    assert "grader-sniffing" in {finding.leak_class for finding in report.findings}


def test_an_empty_queue_raises_where_that_is_caught(tmp_path: Path) -> None:
    body = f"try:\n    jobs.get_nowait()\nexcept queue.Empty:\n    {LEAK}{WORK}return y\n"
    report = lint(tmp_path, HEAD + "import queue\njobs = queue.Queue()\n" + KERNEL + model(body))
    assert set(states(report).values()) != {"kept"}
