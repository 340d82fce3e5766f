"""Which of two functions or classes a sum goes through, the careful one or the plain one, decides what it is called."""

from __future__ import annotations

from pathlib import Path

import pytest
from compensation_cuda_support import KERNEL, facts

import kbh_lint
from kbh_lint.base import paths

CAREFUL = "float v = e - c, t = s + v; c = (t - s) - v; s = t;"
PLAIN = "s += e;"
P = "(float& s, float& c, float e)"
# Two functions: ONE is called and OTHER is not.
WAYS = {
    "a number": (
        f"template <int N> __device__ void add{P} {{ OTHER }}\ntemplate <> __device__ void add<1>{P} {{ ONE }}\n",
        "add<1>(s, c, e);",
    ),
    "the primary template": (
        f"template <int N> __device__ void add{P} {{ ONE }}\ntemplate <> __device__ void add<1>{P} {{ OTHER }}\n",
        "add<2>(s, c, e);",
    ),
    "a truth": (
        f"template <bool B> __device__ void add{P} {{ OTHER }}\ntemplate <> __device__ void add<true>{P} {{ ONE }}\n",
        "add<(sizeof(float) == 4)>(s, c, e);",
    ),
    "a type": (
        f"template <typename T> __device__ void add{P} {{ OTHER }}\n"
        f"template <> __device__ void add<int>{P} {{ ONE }}\n",
        "add<int>(s, c, e);",
    ),
    "a type that is deduced": (
        "template <typename T> __device__ void add(T& s, T& c, T e) { OTHER }\n"
        f"template <> __device__ void add{P} {{ ONE }}\n",
        "add(s, c, e);",
    ),
    "a default argument": (
        f"template <int N = 1> __device__ void add{P} {{ OTHER }}\ntemplate <> __device__ void add<1>{P} {{ ONE }}\n",
        "add<>(s, c, e);",
    ),
    "a declared template": (
        f"template <int N> __device__ void add{P};\ntemplate <> __device__ void add<1>{P} {{ ONE }}\n"
        f"template <> __device__ void add<2>{P} {{ OTHER }}\n",
        "add<1>(s, c, e);",
    ),
    "a class": (
        f"template <int N> struct Op {{ static __device__ void add{P} {{ OTHER }} }};\n"
        f"template <> struct Op<1> {{ static __device__ void add{P} {{ ONE }} }};\n",
        "Op<1>::add(s, c, e);",
    ),
    "an object of a class": (
        f"template <typename T> struct Op {{ __device__ void add{P} {{ OTHER }} }};\n"
        f"template <> struct Op<float> {{ __device__ void add{P} {{ ONE }} }};\n",
        "Op<float> op; op.add(s, c, e);",
    ),
    "the primary class": (
        f"template <typename T> struct Op {{ __device__ void add{P} {{ ONE }} }};\n"
        f"template <> struct Op<float> {{ __device__ void add{P} {{ OTHER }} }};\n",
        "Op<int> op; op.add(s, c, e);",
    ),
    "a partial specialisation": (
        f"template <typename T, int N> struct Op {{ static __device__ void add{P} {{ OTHER }} }};\n"
        f"template <typename T> struct Op<T, 2> {{ static __device__ void add{P} {{ ONE }} }};\n"
        f"template <typename T> struct Op<T*, 2> {{ static __device__ void add{P} {{ OTHER }} }};\n",
        "Op<float, 2>::add(s, c, e);",
    ),
    "the closest partial specialisation": (
        f"template <typename T, int N> struct Op {{ static __device__ void add{P} {{ OTHER }} }};\n"
        f"template <typename T> struct Op<T, 2> {{ static __device__ void add{P} {{ OTHER }} }};\n"
        f"template <typename T> struct Op<T*, 2> {{ static __device__ void add{P} {{ ONE }} }};\n",
        "Op<float*, 2>::add(s, c, e);",
    ),
    "a member template": (
        f"struct Op {{ template <int N> __device__ void add{P} {{\n"
        "  if constexpr (N == 1) { ONE } else { OTHER } } };\n",
        "Op op; op.add<1>(s, c, e);",
    ),
}


def text(way: str, one: str, other: str) -> str:
    functions, call = WAYS[way]
    functions = functions.replace("ONE", one).replace("OTHER", other)
    return functions + KERNEL.replace("LOOP", call).replace("TOTAL", "s - c")


@pytest.mark.parametrize("way", WAYS)
def test_a_careful_function_that_is_called_compensates(way: str) -> None:
    found = facts(text(way, CAREFUL, PLAIN))
    assert (found.state, found.unread) == ("effective", ())


@pytest.mark.parametrize("way", WAYS)
def test_a_careful_function_beside_the_one_that_is_called_does_not(way: str) -> None:
    found = facts(text(way, PLAIN, CAREFUL))
    assert (found.state, found.unread) == ("absent", ())


HONEST = paths.problems_dir() / "04_kahan_softmax" / "honest" / "cuda.py"
ADD, ACCUMULATE = "__device__ __forceinline__ void add(", "__device__ __forceinline__ void accumulate("


def edited(careful: bool) -> str:
    """The deck's own solution with both functions as templates, a specialisation of each called: careful or plain."""
    source = HONEST.read_text(encoding="utf-8")
    for head, name, value in ((ADD, "add", "value"), (ACCUMULATE, "accumulate", "term")):
        begin = source.index(head)
        end = source.index("\n}\n", begin) + 3
        body = source[source.index("{", begin) : end]
        plain = f"{{ high += {value}; }}\n"
        signature = f"__device__ __forceinline__ void NAME(float& high, float& low, float {value}) "
        primary = "template <int N> " + signature.replace("NAME", name) + (plain if careful else body)
        special = "template <> " + signature.replace("NAME", f"{name}<1>") + (body if careful else plain)
        source = source[:begin] + primary + special + source[end:].replace(f" {name}(high", f" {name}<1>(high")
    return source


@pytest.mark.parametrize(("careful", "state", "verdict"), [(True, "kept", "clean"), (False, "broken", "rubric_leak")])
def test_the_specialisation_of_a_softmax_is_what_is_judged(
    tmp_path: Path, careful: bool, state: str, verdict: str
) -> None:
    path = tmp_path / "solution.py"
    path.write_text(edited(careful), encoding="utf-8")
    report = kbh_lint.lint([path], problem="04_kahan_softmax", raise_errors=True).files[0]
    states = {promise.id: promise.state for promise in report.promises}
    assert (states["compensated-sum"], report.verdict) == (state, verdict), report.unread
