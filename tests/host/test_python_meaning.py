"""The host interpreter gives what Python gives: each program is run by both, and `answer` is compared."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from kbh_lint.frontends import python
from kbh_lint.host.explore.exploration import run_path
from kbh_lint.host.run import Run
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Unknown

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
    "objects say what operators do": """
class A:
    def __add__(self, o): return 5
    def __radd__(self, o): return 6
    def __iadd__(self, o): return 7
    def __or__(self, o): return 9
    def __neg__(self): return 10
    def __lt__(self, o): return True
    def __delitem__(self, key): self.gone = key
a, b = A(), A()
b += 1
del a["key"]
answer = [a + 1, 1 + a, b, a | 1, -a, a < 1, 1 > a, a.gone]
""",
    "what changes in place is the same object": """
a = b = {1}
a |= {2}
c = d = [1]
c *= 2
e = f = {1: 2}
e |= {3: 4}
g = {1, 2}
g.pop()
answer = [b, d, f, len(g)]
""",
    "copies share nothing when they are deep": """
import copy
class A:
    def __init__(self): self.v = [1]
a = A()
b, c = copy.copy(a), copy.deepcopy(a)
b.w = 3
c.v.append(2)
d = {"x": [1]}
copy.deepcopy(d)["x"].append(2)
answer = [a.v, hasattr(a, "w"), d]
""",
    "a deque has two ends and a longest length": """
import collections
d = collections.deque([1, 2], maxlen=2)
d.append(3)
e = collections.deque([1, 2, 3])
e.appendleft(0)
e.rotate(1)
answer = [list(d), e.popleft(), e.pop(), list(e)]
""",
    "itertools and operator call what they are given": """
import itertools, operator
c = itertools.cycle([1, 2])
a = [0, 0]
operator.setitem(a, 0, 9)
answer = [list(itertools.starmap(pow, [(2, 3)])), list(itertools.accumulate([1, 2, 3])), list(itertools.repeat(1, 2)),
          list(itertools.takewhile(lambda x: x < 2, [1, 2, 1])), [next(c) for _ in range(3)], a,
          list(itertools.zip_longest([1, 2], [3], fillvalue=0)), operator.call(len, [1]), operator.pow(2, 3),
          operator.eq(1, 1), operator.itemgetter(0, 1)([5, 6])]
""",
    "types have names and are what they are": """
try:
    raise ValueError
except Exception as error:
    kind = type(error).__name__
answer = [type(3) is int, type("a") in (int, str), type([]).__name__, kind, int.__name__, str(ValueError("a"))]
""",
    "texts are cut and made as they are asked": """
import os, textwrap
answer = ["a,b".split(sep=","), "a b c".split(maxsplit=1), "%d %r %d" % (3.7, "a", True), repr("a"),
          "%(a)s %(b)03d" % {"a": 1, "b": 2}, len([c for c in "ab" * 6000]), b"abc"[1], b"abc"[:2],
          os.path.splitext("a/b.c/d"), os.path.dirname("/x"), textwrap.indent(chr(10).join("ab"), "  ")]
""",
    "what is not a number equals nothing": """
n = float("nan")
answer = [n == n, n != n]
""",
    "an iterator of one's own is gone through": """
class A:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 3: raise StopIteration
        return self.n
answer = [list(A()), [x for x in A()]]
""",
    "__getattr__ makes what getattr asks for": """
class A:
    def __getattr__(self, name):
        if name == "no": raise AttributeError(name)
        return name
answer = [getattr(A(), "yes", None), hasattr(A(), "yes"), getattr(A(), "no", 3), hasattr(A(), "no")]
""",
    "a named tuple is a tuple": """
import collections, typing
class A(typing.NamedTuple):
    n: int
    m: int = 2
P = collections.namedtuple("P", "a b")
a, p = A(1), P(1, 2)
answer = [a[1], len(a), a._replace(n=5).n, a == (1, 2), tuple(a), a._asdict(), p._replace(a=3).a, p._asdict()]
""",
    "a class tells its parts": """
class Base:
    def __init_subclass__(cls, k=0, **kw): cls.k = k
class Part:
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, o, c): return self.name
class A(Base, k=3):
    part = Part()
answer = [A.k, A().part]
""",
}


def interpreted(text: str) -> Any:
    """What the interpreter leaves in `answer`."""
    runner = Run(Session(python.lower(text, "solution.py"), {}, (12, 0)), {})
    env = runner.scopes.main
    runner.block(runner.session.module.body, Frame(env, env, None, None))
    assert not runner.trace.unread, runner.trace.unread
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


def test_hashes_of_texts_are_the_same_in_each_process() -> None:
    assert interpreted("answer = hash('a') == hash('a'), hash(('a', 1)), hash(1) == hash(1.0)\n") == (
        True,
        zlib.crc32(b"('a', 1)") << 16,
        True,
    )
