"""Where a sum is kept and how its data is read: reductions, helpers, trees, descriptors, persistent loops."""

from __future__ import annotations

import textwrap

import pytest
from compensation_support import MERGE, PERSISTENT, ROW, STEP, X, Y, Z, facts, row, scope

from kbh_lint.kernels.numeric.compensation import evaluate


def test_rescaling_the_pair_with_the_running_maximum_keeps_it() -> None:
    text = """
    def kernel(x, y, n, BLOCK: tl.constexpr):
        offs = tl.arange(0, BLOCK)
        m = tl.full([1], float("-inf"), dtype=tl.float32)
        s = tl.zeros([1], dtype=tl.float32)
        c = tl.zeros([1], dtype=tl.float32)
        start = 0
        while start < n:
            v = tl.load(x + start + offs, mask=start + offs < n, other=float("-inf")).to(tl.float32)
            new = tl.maximum(m, tl.max(v, axis=0, keep_dims=True))
            scale = tl.exp(m - new)
            s *= scale
            c *= scale
            add = tl.sum(tl.where(start + offs < n, tl.exp(v - new), 0.0), axis=0, keep_dims=True) - c
            t = s + add
            c = (t - s) - add
            s, m = t, new
            start += BLOCK
        tl.store(y, 1.0 / s)
    """
    assert facts(text).state == "effective"
    assert facts(text, n=1000).state == "vacuous"
    assert facts(text.replace("c *= scale", "c = c * scale * 0")).state in ("absent", "vacuous")


REDUCE = """
def combine(s1, c1, s2, c2):
    s = s1 + s2
    b = s - s1
    return s, c1 + c2 + ((s1 - (s - b)) + (s2 - b))

def kernel(x, y, n, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    e = tl.exp(v - tl.max(v, 0))
    s, c = tl.reduce((e, tl.zeros_like(e)), 0, combine)
    tl.store(y + tl.arange(0, BLOCK), e / (s + c))
"""


def test_a_reduction_whose_combine_function_keeps_pairs_is_effective() -> None:
    assert facts(REDUCE).state == "effective"
    assert facts(REDUCE.replace("(s + c)", "s")).state == "vacuous"
    assert facts(REDUCE.replace(" + ((s1 - (s - b)) + (s2 - b))", "")).state == "absent"
    assert facts(REDUCE.replace("tl.reduce", "tl.associative_scan")).state == "effective"


def test_a_helper_function_is_followed() -> None:
    text = """
    def add(s, c, v):
        y = v - c
        t = s + y
        return t, (t - s) - y

    def kernel(x, y, n, BLOCK: tl.constexpr):
        s = tl.zeros((BLOCK,), tl.float32)
        c = tl.zeros((BLOCK,), tl.float32)
        for k in tl.range(0, n, BLOCK, num_stages=2):
            s, c = add(s, c, tl.exp2(tl.load(x + k + tl.arange(0, BLOCK)) * 1.44269504))
        tl.store(y, tl.sum(s) - tl.sum(c))
    """
    assert facts(text).state == "effective"
    assert facts(text.replace("tl.sum(s) - tl.sum(c)", "tl.sum(s)")).state == "effective"
    assert facts(text.replace("(t - s) - y", "c")).state == "absent"


def test_code_unrolled_by_hand_is_effective() -> None:
    step = "    t{i} = e{i} - c\n    u = s + t{i}\n    c = (u - s) - t{i}\n    s = u\n"
    head = "def kernel(x, y, n, BLOCK: tl.constexpr):\n    s = 0.0\n    c = 0.0\n"
    loads = "".join(f"    e{i} = tl.exp(tl.load(x + {i}))\n" for i in range(4))
    steps = "".join(step.replace("{i}", str(i)) for i in range(4))
    assert facts(head + loads + steps + "    tl.store(y, s)\n").state == "effective"


def test_partial_sums_of_an_earlier_kernel_count_as_exponentials() -> None:
    kernel = scope(MERGE).vars["kernel"].func
    args = {"x": X, "y": Y, "n": 32, "BLOCK": 1}
    assert evaluate(kernel, args).state == "effective"
    assert evaluate(kernel, args, assume_exp_inputs=False).state == "absent"


def test_a_stored_compensation_term_names_the_parameter_it_goes_to() -> None:
    text = (
        MERGE.replace("x, y, n", "x, y, z, n")
        .replace("- c\n", "\n")
        .replace("tl.store(y, s)", "tl.store(y, s)\n    tl.store(z, c)")
    )
    found = facts(text, n=32, z=Z)
    assert found.state == "effective"
    assert found.stored_params == ("z",)


def test_pairs_survive_a_tree_of_splits() -> None:
    text = """
    def kernel(x, y, n, BLOCK: tl.constexpr):
        e = tl.exp(tl.load(x + tl.arange(0, BLOCK)))
        a, b = tl.split(tl.reshape(e, [BLOCK // 2, 2]))
        s = a + b
        bb = s - a
        err = (a - (s - bb)) + (b - bb)
        tl.store(y, tl.sum(s) + tl.sum(err))
    """
    assert facts(text).state == "effective"


def test_inline_assembly_is_followed() -> None:
    asm = 'tl.inline_asm_elementwise("{op}.rn.f32 $0, $1, $2;", "=f,f,f", [{a}, {b}], tl.float32, True, 1)'

    def op(name: str, a: str, b: str) -> str:
        return asm.replace("{op}", name).replace("{a}", a).replace("{b}", b)

    loop = "\n".join(
        [
            f"t = {op('sub', 'v', 'c')}",
            f"u = {op('add', 's', 't')}",
            f"w = {op('sub', 'u', 's')}",
            f"c = {op('sub', 'w', 't')}",
            "s = u",
        ]
    )
    assert row(loop).state == "effective"


def test_an_atomic_sum_is_reported_as_a_plain_one() -> None:
    text = """
    def kernel(x, y, n, BLOCK: tl.constexpr):
        tl.atomic_add(y, tl.sum(tl.exp(tl.load(x + tl.arange(0, BLOCK))), 0))
    """
    found = facts(text)
    assert found.state == "absent"
    assert len(found.sums) == 2


BLOCK_POINTERS = """
def kernel(x, y, n, BLOCK: tl.constexpr):
        p = tl.make_block_ptr(base=x, shape=(n,), strides=(1,), offsets=(0,), block_shape=(BLOCK,), order=(0,))
        s = 0.0
        c = 0.0
        for k in range(0, tl.cdiv(n, BLOCK)):
            v = tl.sum(tl.exp(tl.load(p, boundary_check=(0,), padding_option="zero")), axis=0)
{STEP}            p = tl.advance(p, (BLOCK,))
        tl.store(y, s)
"""
DESCRIPTORS = """
def kernel(x, y, n, BLOCK: tl.constexpr):
        d = tl.make_tensor_descriptor(x, shape=[8, n], strides=[n, 1], block_shape=[1, BLOCK])
        s = tl.zeros((1,), dtype=tl.float32)
        c = tl.zeros((1,), dtype=tl.float32)
        for k in range(0, n, BLOCK):
            v = tl.sum(tl.math.exp2(d.load([tl.program_id(0), k])), axis=1)
{STEP}        tl.store(y, s)
"""
ROWS_AND_COLUMNS = """
def kernel(x, y, n, BLOCK: tl.constexpr):
        r = tl.program_id(0) * 4 + tl.arange(0, 4)
        m = tl.full((4,), float("-inf"), tl.float32)
        s = tl.zeros((4,), tl.float32)
        c = tl.zeros_like(s)
        for k in tl.range(0, n, BLOCK, num_stages=3):
            cols = k + tl.arange(0, BLOCK)
            mask = (r[:, None] < 8) & (cols[None, :] < n)
            a = tl.load(x + r[:, None] * n + cols[None, :], mask=mask, other=float("-inf"))
            new = tl.maximum(m, tl.max(a, axis=1))
            safe = tl.where(new == float("-inf"), 0.0, new)
            scale = tl.where(m == float("-inf"), 0.0, tl.exp(m - safe))
            v = tl.sum(tl.where(mask, tl.exp(a - safe[:, None]), 0.0), axis=1)
            s *= scale
            c *= scale
            m = new
{STEP}        tl.store(y + r, s)
"""


@pytest.mark.parametrize("text", [BLOCK_POINTERS, DESCRIPTORS, ROWS_AND_COLUMNS, PERSISTENT])
def test_ways_to_read_a_row_do_not_matter(text: str) -> None:
    assert facts(text.replace("{STEP}", STEP)).state == "effective"
    assert facts(text.replace("{STEP}", STEP.replace("v - c", "v"))).reason == "unused"
    assert facts(text.replace("{STEP}", "            s += v\n")).state == "absent"


def test_a_default_argument_decides_a_branch() -> None:
    text = PERSISTENT.replace("{STEP}", STEP).replace(
        "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, ON: tl.constexpr = {D}"
    )
    text = text.replace("c = (t - s) - w", "c = ((t - s) - w) if ON else 0.0")
    assert facts(text.replace("{D}", "True")).state == "effective"
    assert facts(text.replace("{D}", "False")).state == "absent"


SCAN = """
def pairs(a, low, b, other):
    t = a + b
    z = t - a
    return t, low + other + ((a - (t - z)) + (b - z))


def kernel(x, y, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + offs, mask=offs < n, other=-float("inf")))
    highs, lows = tl.associative_scan((e, tl.zeros((BLOCK,), tl.float32)), 0, pairs)
    high = tl.sum(tl.where(offs == PLACE, highs, 0.0), 0)
    low = tl.sum(tl.where(offs == PLACE, lows, 0.0), 0)
    tl.store(y + offs, e / (TOTAL), mask=offs < n)
"""


@pytest.mark.parametrize(("place", "total", "state"), [
    ("BLOCK - 1", "high + low", "effective"), ("BLOCK - 1", "high", "vacuous"), ("BLOCK", "high + low", "vacuous"),
])  # fmt: skip
def test_the_last_lane_of_a_scan_holds_the_sum(place: str, total: str, state: str) -> None:
    assert facts(SCAN.replace("PLACE", place).replace("TOTAL", total)).state == state


@pytest.mark.parametrize(("period", "state"), [("8", "effective"), ("1000000", "absent")])
def test_a_fold_that_a_mask_chooses_in_some_rounds_is_met(period: str, state: str) -> None:
    loop = f"""
i += 1
part += v
go = i % {period} == 0
a = tl.where(go, part - c, 0.0)
t = s + a
c = tl.where(go, (t - s) - a, c)
s = t
part = tl.where(go, 0.0, part)
"""
    text = ROW.replace("    s = 0.0", "    i = 0\n    part = 0.0\n    s = 0.0")
    body = textwrap.indent(loop.strip("\n"), " " * 8)
    assert facts(text.replace("{LOOP}", body).replace("{TOTAL}", "s + part"), n=131072).state == state
