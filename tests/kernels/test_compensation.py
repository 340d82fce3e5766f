"""Compensated sums in Triton kernels: what counts as one, what only looks like one."""

from __future__ import annotations

import re
import textwrap

import pytest
from compensation_support import HEAD, MERGE, PERSISTENT, ROW, STEP, X, Y, facts, row, scope
from hypothesis import given, settings
from hypothesis import strategies as st

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN, DType, Scalar
from kbh_lint.kernels.numeric.compensation import evaluate


def lines(locs: tuple[ir.Loc, ...], text: str) -> list[str]:
    """The source lines of places, without indentation."""
    rows = (HEAD + text).splitlines()
    return [rows[loc[1] - 1].strip() for loc in locs]


KAHAN = """
t = v - c
u = s + t
c = (u - s) - t
s = u
"""
NEUMAIER = """
u = s + v
c += tl.where(tl.abs(s) >= tl.abs(v), (s - u) + v, (v - u) + s)
s = u
"""
NEUMAIER_BRANCH = """
u = s + v
if tl.abs(s) >= tl.abs(v):
    c = c + ((s - u) + v)
else:
    c = c + ((v - u) + s)
s = u
"""
TWO_SUM = """
u = s + v
b = u - s
c += (s - (u - b)) + (v - b)
s = u
"""
FAST_TWO_SUM = """
u = s + v
c += v - (u - s)
s = u
"""
DOUBLE_SINGLE = """
h = s + v
b = h - s
low = (s - (h - b)) + (v - b) + c
s = h + low
c = low - (s - h)
"""


KLEIN = """
u = s + v
d = tl.where(tl.abs(s) >= tl.abs(v), (s - u) + v, (v - u) + s)
s = u
w = c + d
f = tl.where(tl.abs(c) >= tl.abs(d), (c - w) + d, (d - w) + c)
c = w + f
"""
SORTED = """
u = s + v
c += tl.minimum(s, v) - (u - tl.maximum(s, v))
s = u
"""
FUSED = """
u = s + v
c += tl.fma(u - s, -1.0, v)
s = u
"""
DOUBLED = """
u = s + v
c += (s.to(tl.float64) + v.to(tl.float64) - u.to(tl.float64)).to(tl.float32)
s = u
"""
EXTRACTED = """
high = (v + 4096.0) - 4096.0
s += high
c += v - high
"""


@pytest.mark.parametrize(
    ("loop", "total"),
    [
        (KLEIN, "s + c"),
        (SORTED, "s + c"),
        (FUSED, "s + c"),
        (DOUBLED, "s + c"),
        (EXTRACTED, "s + c"),
        (KAHAN, "s"),
        (KAHAN, "s - c"),
        (NEUMAIER, "s + c"),
        (NEUMAIER_BRANCH, "s + c"),
        (TWO_SUM, "s + c"),
        (FAST_TWO_SUM, "s + c"),
        (DOUBLE_SINGLE, "s + c"),
    ],
)
def test_a_compensation_term_that_reaches_the_store_is_effective(loop: str, total: str) -> None:
    found = row(loop, total)
    assert found.state == "effective"
    assert found.stored_params == ("y",)
    assert found.unread == ()


def test_the_place_of_the_residual_and_the_sum_without_one_are_reported() -> None:
    body = textwrap.indent(textwrap.dedent(KAHAN).strip("\n"), " " * 8)
    text = ROW.replace("{LOOP}", body).replace("{TOTAL}", "s")
    found = facts(text)
    assert lines(found.sites, text) == ["c = (u - s) - t"]
    assert lines(found.sums, text) == ["v = tl.sum(e, 0)"]


@pytest.mark.parametrize(
    "loop",
    [
        "s += v",
        "high = v.to(tl.bfloat16).to(tl.float32)\ns += high\nc += v - high",  # of the terms, not of the sum
        "s = s + v\nc = (s - s) - v",
        "t = v - c\nu = s + t\nc = (u - u) * t\ns = u",
        "t = v - c\nu = s + t\nc = ((u - s) - t) * 0.0\ns = u",
        "t = v - c\nu = s + t\nc = (u - s)\ns = u",
        "t = v - c\nu = s + t\nc = c * 0\ns = u",
    ],
)
def test_arithmetic_that_yields_no_rounding_error_for_the_sum_does_not_count(loop: str) -> None:
    found = row(loop)
    assert found.state in ("absent", "vacuous")
    assert found.stored_params == ()


def test_a_plain_sum_is_absent_and_its_places_are_reported() -> None:
    text = ROW.replace("{LOOP}", "        s += v").replace("{TOTAL}", "s")
    found = facts(text)
    assert found.state == "absent"
    assert set(lines(found.sums, text)) == {"v = tl.sum(e, 0)", "s += v"}


@pytest.mark.parametrize("loop", [KAHAN, NEUMAIER, TWO_SUM])
def test_a_loop_that_runs_once_makes_the_compensation_vacuous(loop: str) -> None:
    found = row(loop, "s + c", n=1024)
    assert (found.state, found.reason) == ("vacuous", "trips")
    assert row(loop, "s + c", n=4096).state == "effective"


@pytest.mark.parametrize(
    ("loop", "total"),
    [
        ("u = s + v\nc = (u - s) - v\ns = u", "s"),
        ("c = 0.0\nt = v - c\nu = s + t\nc = (u - s) - t\ns = u", "s"),
        (NEUMAIER, "s"),
        (TWO_SUM, "s + c * 0.0"),
    ],
)
def test_a_compensation_term_that_nothing_stored_depends_on_is_vacuous(loop: str, total: str) -> None:
    found = row(loop, total)
    assert (found.state, found.reason) == ("vacuous", "unused")


TWICE = """
u = s + v
b = u - s
c += tl.where(tl.abs(s) >= tl.abs(v), (s - u) + v, (v - u) + s)
w += (s - (u - b)) + (v - b)
s = u
"""


@pytest.mark.parametrize(
    ("loop", "total", "state"),
    [
        (NEUMAIER, "(s + c) - (c - (c - ((s + c) - s)))", "vacuous"),  # s, by the error of s + c
        (NEUMAIER, "(s + c) + (c - ((s + c) - s))", "effective"),  # twice as precise
        (TWO_SUM, "(s + c) - ((s + c) - s)", "vacuous"),
        (TWICE, "s + (c - w)", "vacuous"),  # the error, and the same found in another way
        (TWICE, "s + (c + w) * 0.5", "effective"),
        (TWICE, "s + (c * 2.0 - w)", "effective"),
        ("t = v - c\nu = s + t\nc = (u - s) - t\ns = u + c", "s", "vacuous"),  # put back what the next step takes off
    ],
)
def test_an_error_that_is_taken_off_again_compensates_nothing(loop: str, total: str, state: str) -> None:
    found = row(loop, total, ROW.replace("c = 0.0", "c = 0.0\n    w = 0.0"))
    assert found.state == state


def test_kahan_discards_its_last_error_so_two_iterations_are_not_enough() -> None:
    assert row(KAHAN, "s", n=2048).state == "vacuous"
    assert row(KAHAN, "s - c", n=2048).state == "effective"
    assert row(KAHAN, "s", n=3072).state == "effective"


def test_unknown_trip_counts_are_taken_to_be_many() -> None:
    assert row(KAHAN, n=Scalar(UNKNOWN)).state == "effective"


def test_trips_can_be_forced() -> None:
    body = textwrap.indent(textwrap.dedent(KAHAN).strip("\n"), " " * 8)
    kernel = scope(ROW.replace("{LOOP}", body).replace("{TOTAL}", "s")).vars["kernel"].func
    args = {"x": X, "y": Y, "n": 1024, "BLOCK": 1024}
    assert evaluate(kernel, args).state == "vacuous"
    assert evaluate(kernel, args, trips="many").state == "effective"


def test_words_without_arithmetic_are_no_compensation() -> None:
    loop = """
    # Kahan summation: kahan_c carries the compensation
    kahan_c = c
    kahan_y = v - kahan_c
    s = s + kahan_y
    """
    assert row(loop).state == "absent"


def test_compensating_the_logits_is_not_compensating_the_sum() -> None:
    loop = """
    logit = tl.load(x + start + offs)
    shifted = logit - m
    lost = (logit - shifted) - m
    s += tl.sum(tl.exp(shifted + lost), 0)
    """
    assert row(loop).state == "absent"


F64 = """
def kernel(x, y, n, BLOCK: tl.constexpr, ACC: tl.constexpr):
    m = 0.0
    d = tl.full((), 0.0, dtype=ACC)
    for start in range(0, n, BLOCK):
        v = tl.load(x + start + tl.arange(0, BLOCK))
        new = tl.maximum(m, tl.max(v, 0))
        d = d * tl.exp(m - new).to(ACC) + tl.sum(tl.exp(v - new).to(ACC), 0)
        m = new
    tl.store(y, (1.0 / d).to(tl.float32))
"""


def test_a_sum_in_f64_is_precise() -> None:
    assert facts(F64, ACC=DType("f64")).state == "precise"
    assert facts(F64, ACC=DType("f32")).state == "absent"


def test_an_f64_sum_that_is_not_stored_does_not_count() -> None:
    text = F64.replace("m = new", "m = new\n        s = s + tl.sum(tl.exp(v - new), 0)").replace(
        "m = 0.0", "m = 0.0\n    s = 0.0"
    )
    assert facts(text.replace("(1.0 / d)", "(1.0 / s)"), ACC=DType("f64")).state == "absent"


def test_refining_a_reciprocal_is_no_compensation_of_the_sum() -> None:
    loop = "s += v"
    assert row(loop, "s").state == "absent"
    newton = "s += v\nr = 1.0 / s\nerr = tl.fma(-s, r, 1.0)\nr = tl.fma(r, err, r)\nc = r"
    assert row(newton, "1.0 / c").state == "absent"


def test_rounding_to_an_integer_by_a_magic_number_is_no_compensation() -> None:
    text = """
    def kernel(x, y, n, BLOCK: tl.constexpr):
        s = 0.0
        for k in range(0, n, BLOCK):
            v = tl.load(x + k)
            z = v + 12582912.0
            whole = z - 12582912.0
            part = v - whole
            poly = part * 0.6931 + 1.0
            s += (poly.to(tl.int32, bitcast=True) + (z.to(tl.int32, bitcast=True) << 23)).to(tl.float32, bitcast=True)
        tl.store(y, s)
    """
    assert facts(text).state == "absent"


def test_splitting_into_narrow_parts_is_no_compensation() -> None:
    text = """
    def kernel(x, y, n, BLOCK: tl.constexpr):
        e = tl.exp(tl.load(x))
        high = e.to(tl.bfloat16)
        low = (e - high.to(tl.float32)).to(tl.bfloat16)
        tl.store(y, tl.sum(high.to(tl.float32)) + tl.sum(low.to(tl.float32)))
    """
    assert facts(text).state == "absent"


def test_a_call_that_cannot_be_followed_leaves_the_question_open() -> None:
    found = row("s, c = mystery(s, c, v)")
    assert found.state == "unknown"
    assert any("mystery" in reason for reason, _ in found.unread)


def test_an_endless_loop_ends() -> None:
    assert row("while True:\n    s += v").state in ("absent", "unknown")


def test_fuel_bounds_the_work() -> None:
    nest = "for a in range(9):\n    for b in range(9):\n        for d in range(9):\n            s += v"
    body = textwrap.indent(nest, " " * 8)
    kernel = scope(ROW.replace("{LOOP}", body).replace("{TOTAL}", "s")).vars["kernel"].func
    found = evaluate(kernel, {"x": X, "y": Y, "n": 8192, "BLOCK": 1024}, fuel=50)
    assert found.state == "unknown"
    assert "too many steps" in found.unread[0][0]


def test_endless_recursion_is_cut() -> None:
    text = "def again(v):\n    return again(v) + v\n\n" + textwrap.dedent(
        """
        def kernel(x, y, n, BLOCK: tl.constexpr):
            tl.store(y, again(tl.exp(tl.load(x))))
        """
    )
    assert facts(text).state == "unknown"


def test_the_answer_is_the_same_every_time() -> None:
    kernel = scope(MERGE).vars["kernel"].func
    args = {"x": X, "y": Y, "n": 32, "BLOCK": 1}
    assert evaluate(kernel, args) == evaluate(kernel, args)


def test_missing_arguments_are_unknown_not_an_error() -> None:
    body = textwrap.indent(textwrap.dedent(KAHAN).strip("\n"), " " * 8)
    kernel = scope(ROW.replace("{LOOP}", body).replace("{TOTAL}", "s")).vars["kernel"].func
    assert evaluate(kernel, {}).state == "effective"


def test_summing_the_logits_with_care_is_not_summing_the_exponentials_with_care() -> None:
    text = PERSISTENT.replace("v = tl.sum(tl.exp(", "a = tl.sum((").replace(
        "{STEP}", STEP.replace("v - c", "a - c") + "            z += tl.sum(tl.exp(a))\n"
    )
    text = text.replace("c = 0.0\n", "c = 0.0\n        z = 0.0\n").replace(
        "tl.store(y + row, s)", "tl.store(y + row, s / z)"
    )
    assert facts(text).state == "absent"


_ATOMS = st.sampled_from(["s", "c", "v", "t", "u", "0.0", "1e30", "n", "offs", "m", "e"])
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<<", "&"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        st.tuples(st.sampled_from(["tl.exp", "tl.abs", "tl.sum", "-", "~", "tl.max", "tl.log"]), inner).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
        st.tuples(inner, inner, inner).map(lambda p: f"tl.where({p[0]} > {p[1]}, {p[1]}, {p[2]})"),
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("sctu"), _EXPRESSIONS), min_size=1, max_size=6))
def test_no_arithmetic_makes_the_evaluation_fail(steps: list[tuple[str, str]]) -> None:
    loop = "t = v\nu = v\n" + "\n".join(f"{name} = {value}" for name, value in steps)
    assert row(loop, "s + c").state in ("effective", "vacuous", "absent", "precise", "unknown")


@settings(max_examples=20, deadline=None)
@given(st.permutations(["s", "c", "t", "u", "v"]))
def test_names_do_not_matter(names: list[str]) -> None:
    plain = dict(zip(["s", "c", "t", "u", "v"], (f"{n}_{i}" for i, n in enumerate(names)), strict=True))
    text = ROW.replace("{LOOP}", textwrap.indent(textwrap.dedent(KAHAN).strip("\n"), " " * 8))
    text = text.replace("{TOTAL}", "s")
    for old, new in plain.items():
        text = re.sub(rf"\b{old}\b", new, text)
    assert facts(text).state == "effective"


GROWN = """
def grow(v):
    v = tl.maximum(1.0 + v / 256.0, 0.0)
    for _ in tl.static_range(8):
        v *= v
    return v

def kernel(x, y, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
{LINES}
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, n, BLOCK):
        top = tl.maximum(top, tl.load(x + start + lanes, mask=start + lanes < n, other=float("-inf")))
    peak = tl.max(top, axis=0)
    s = tl.zeros((BLOCK,), tl.float32)
    c = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        e = grow(tl.load(x + start + lanes, mask=start + lanes < n, other=float("-inf")) - peak)
        addend = e - c
        t = s + addend
        c = (t - s) - addend
        s = t
    total = tl.sum(s, axis=0)
    for start in range(0, n, BLOCK):
        e = grow(tl.load(x + start + lanes, mask=start + lanes < n, other=float("-inf")) - peak)
        tl.store(y + start + lanes, e / total, mask=start + lanes < n)
"""


def test_a_residual_does_not_depend_on_the_numbers_that_other_lines_draw() -> None:
    states = {}
    for count in range(12, 26):
        lines = "\n".join(f"    unused{i} = tl.program_id(0) + {i}" for i in range(count))
        kernel = scope(GROWN.replace("{LINES}", lines)).vars["kernel"].func
        arguments = {"x": X, "y": Y, "n": 8192, "BLOCK": 1024}
        states[count] = evaluate(kernel, arguments, assume_exp_inputs=True).state
    assert set(states.values()) == {"effective"}, states
