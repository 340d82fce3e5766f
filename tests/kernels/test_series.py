"""Power series of triangular matrices: those that end early are found, exact ones and what is no series are not."""

from __future__ import annotations

import textwrap

import pytest

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, Buffer, Scalar, Sym
from kbh_lint.dsl.triton.series import short_series
from kbh_lint.frontends import python

KERNEL = """
def square(x):
    return tl.dot(x, x)

def kernel(x, v, out, trips, N: tl.constexpr, STEPS: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    at = i * N + j
    raw = tl.load(x + at)
    A = tl.where(i > j, raw, 0.0)
    eye = tl.where(i == j, 1.0, 0.0)
{body}
    tl.store(out + at, tl.dot(T.to(tl.bfloat16), tl.load(v + at)))
"""
DOUBLED = """
P, T = -A, eye - A
for _ in tl.static_range(STEPS):
    P = square(P)
    T += tl.dot(P, T)
"""
FACTORS = """
P, T = A, eye + A
for _ in range(STEPS):
    P = tl.dot(P.to(tl.bfloat16), P.to(tl.bfloat16)).to(tl.float32)
    T = tl.dot(T, eye + P)
"""
NEWTON = """
T = eye - A
for _ in tl.static_range(STEPS):
    T = tl.dot(T, 2.0 * eye - tl.dot(eye + A, T))
"""
HORNER = """
T = eye
for _ in tl.static_range(STEPS):
    T = eye - tl.dot(A, T)
"""
BY_MASK = """
low = (i > j).to(tl.float32)
L = low * raw
T = eye - L + tl.dot(L, L)
"""


def found(body: str, size: int = 64, steps: int = 5, trips: object = UNKNOWN) -> list[tuple[int, int]]:
    """(terms, needed) of the short series of a kernel with this body."""
    module = python.lower(KERNEL.replace("{body}", textwrap.indent(body.strip("\n"), "    ")), "kernel.py")
    env = values.Env({"tl": Sym("triton.language")})
    funcs = [s for s in module.body if isinstance(s, ir.FuncDef)]
    for node in funcs:
        env.vars[node.name] = values.JitFunction(values.Func(node, env))
    memory = {name: Buffer("f32", number, "f32") for number, name in enumerate(("x", "v", "out"), 1)}
    made, _ = short_series(values.Func(funcs[-1], env), {**memory, "trips": Scalar(trips), "N": size, "STEPS": steps})
    return [(series.terms, series.needed) for series in made]


@pytest.mark.parametrize(
    ("body", "size", "steps", "terms"),
    [(DOUBLED, 64, 3, 16), (FACTORS, 64, 4, 32), (NEWTON, 32, 2, 8), (HORNER, 16, 7, 8), (BY_MASK, 16, 0, 3)],
)
def test_a_series_that_ends_early_is_found(body: str, size: int, steps: int, terms: int) -> None:
    assert found(body, size, steps) == [(terms, size)]


@pytest.mark.parametrize(
    ("body", "size", "steps"),
    [(DOUBLED, 64, 5), (DOUBLED, 16, 3), (FACTORS, 64, 5), (NEWTON, 32, 4), (HORNER, 16, 15)],
)
def test_a_series_with_all_its_terms_is_exact(body: str, size: int, steps: int) -> None:
    assert found(body, size, steps) == []


@pytest.mark.parametrize(
    "body",
    [
        DOUBLED.replace("tl.static_range(STEPS)", "range(trips)"),
        DOUBLED.replace("    T +=", "    if trips > 2:\n        P = A\n    T +="),
        "T = eye + tl.dot(raw, raw)",
        "T = tl.dot(A, A)",
        "T = eye - A",
        "T = eye - tl.where((i > j) & (i // 16 == j // 16), A, 0.0)\nT = tl.dot(T, T)",
    ],
    ids=["trips nobody knows", "a step nobody knows", "no triangle", "no series", "two terms", "a mask of blocks"],
)
def test_what_is_not_known_to_be_a_short_series_is_none(body: str) -> None:
    assert found(body, steps=2) == []
