"""The host interpreter gives what Python gives: each program is run by both, and `answer` is compared."""

from __future__ import annotations

from typing import Any

import pytest

from kbh_lint.frontends import python
from kbh_lint.host.frames import Frame
from kbh_lint.host.run import Runner, Session, run_path
from kbh_lint.host.tensors import Unknown

SAME = {
    "members of an Enum have names and values": """
import enum
class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"
answer = [Mode.FAST.value, Mode.SLOW.name, Mode("slow") is Mode.SLOW, Mode["FAST"] is Mode.FAST,
          Mode.FAST in (Mode.SLOW,), [mode.name for mode in Mode], Mode.FAST == "fast"]
""",
    "auto numbers the members": """
import enum
class Mode(enum.Enum):
    A = enum.auto()
    B = enum.auto()
class Bits(enum.IntFlag):
    A = enum.auto()
    B = enum.auto()
    C = enum.auto()
answer = [Mode.A.value, Mode.B.value, Bits.C | Bits.A]
""",
    "a bare raise raises what is handled": """
answer = []
try:
    try:
        raise KeyError("a")
    except KeyError:
        try:
            raise ValueError("b")
        except ValueError:
            answer.append("inner")
        raise
except KeyError:
    answer.append("outer")
""",
    "a return in finally takes the place of an exception": """
def f():
    try:
        raise ValueError("a")
    finally:
        return 3
answer = f()
""",
    "suppress and __exit__ swallow exceptions": """
import contextlib
answer = []
class Guard:
    def __enter__(self):
        return self
    def __exit__(self, kind, value, traceback):
        answer.append(kind is ValueError)
        return kind is ValueError
with contextlib.suppress(KeyError, ValueError):
    raise ValueError("a")
with Guard():
    raise ValueError("a")
try:
    with Guard():
        raise KeyError("a")
except KeyError:
    answer.append("out")
with Guard():
    pass
""",
    "a Counter counts from nothing": """
import collections
c = collections.Counter("abca")
c["z"] += 1
answer = [c["a"], c["z"], c["none"], len(c)]
""",
    "isinstance takes unions": """
answer = [isinstance(3, int | float), isinstance("3", int | float), isinstance(None, int | None)]
answer.append(isinstance(3, (str, int | None)))
""",
    "delattr deletes": """
class A:
    pass
a = A()
a.q = 1
delattr(a, "q")
answer = hasattr(a, "q")
""",
    "a namespace holds functions": """
import types
def go(x):
    return x + 1
ns = types.SimpleNamespace(go=go, n=4)
ns.m = 5
answer = [ns.go(2), ns.n, ns.m, hasattr(ns, "n"), hasattr(ns, "k")]
""",
    "cache_clear forgets": """
import functools
answer = []
@functools.lru_cache
def f(n):
    answer.append(n)
f(1), f(1)
f.cache_clear()
f(1)
""",
    "a class says what truth, equality and assignment are": """
class Empty:
    def __len__(self):
        return 0
class No:
    def __bool__(self):
        return False
    def __eq__(self, other):
        return other == 3
class Table(dict):
    pass
class Doubled:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, 2 * value)
class Tripled(Doubled):
    def __setattr__(self, name, value):
        super().__setattr__(name, 3 * value)
class Five:
    def __get__(self, owner, cls):
        return 5
class Caller:
    five = Five()
    def __call__(self):
        return "class"
a, b, caller = Doubled(), Tripled(), Caller()
a.n = b.n = 1
caller.__call__ = lambda: "object"
answer = [bool(Empty()), not No(), No() == 3, No() == 4, No() != 3, 3 == No(), bool(Table()),
          a.n, b.n, caller.five, caller(),
          "no" if not Empty() else "yes"]
""",
    "__post_init__ runs after the fields are set": """
import dataclasses
@dataclasses.dataclass
class Base:
    n: int
@dataclasses.dataclass
class Config(Base):
    m: int = 2
    def __post_init__(self):
        self.k = self.n * self.m
answer = Config(3).k
""",
}


def interpreted(text: str) -> Any:
    """What the interpreter leaves in `answer`."""
    runner = Runner(Session(python.lower(text, "solution.py"), {}, (12, 0)), {})
    env = runner.world.module_env
    runner.block(runner.session.module.body, Frame(env, env, None, None))
    assert not runner.unread, runner.unread
    return env.vars["answer"]


def executed(text: str) -> Any:
    """What Python leaves in `answer`."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "solution.py", "exec", dont_inherit=True), scope)
    return scope["answer"]


@pytest.mark.parametrize("name", SAME)
def test_a_program_means_what_it_means_in_python(name: str) -> None:
    assert interpreted(SAME[name]) == executed(SAME[name])


COSTLY = {
    "a power to a modulus": "a = (1 << 15000) + 1\nfor i in range(40):\n    answer = pow(a, a + 1, a + 2)\n",
    "a power by names": "answer = pow(base=3, exp=3_000_000)\n",
    "a rounding by name": "answer = round(5, ndigits=-3_000_000)\n",
    "digits of a long number": "answer = int('1' * 400_000, 2)\n",
}


@pytest.mark.parametrize("name", COSTLY)
def test_long_numbers_are_refused_or_paid_for(name: str) -> None:
    path = run_path(Session(python.lower(COSTLY[name], "solution.py"), {}, (12, 0)), None, None, {})
    assert path.failed or isinstance(path.env.vars["answer"], Unknown)
