"""The kernel analysis stops, says why, and never raises, whatever the kernel looks like."""

from __future__ import annotations

import random
import re
import textwrap
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbh_lint.base import ir, values
from kbh_lint.base.limits import Budget
from kbh_lint.base.values import Buffer, Scalar, Sym
from kbh_lint.frontends import cuda, python
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

BUFFERS: dict[str, Any] = {
    "x": Buffer("e4m3", 1, "e4m3"),
    "w": Buffer("e4m3", 2, "e4m3"),
    "out": Buffer("bf16", 9, "bf16"),
    "n": Scalar(1 << 20, "i32"),
}


AT: Any = None  # where nothing is said


def triton(source: str, **args: Any) -> KernelFacts:
    module = python.lower(textwrap.dedent(source), "kernel.py")
    env = values.Env({"tl": Sym("triton.language")})
    funcs = [s for s in module.body if isinstance(s, ir.FuncDef)]
    for node in funcs:
        env.vars[node.name] = values.JitFunction(values.Func(node, env))
    return analyze(values.Func(funcs[-1], env), {**BUFFERS, **args})


def cpp(source: str, **args: Any) -> list[KernelFacts]:
    module = cuda.lower(source, cuda.lines_origin(source, "kernel.cu"))
    env = cuda.module_env(module)
    found = [f for v in env.vars.values() if isinstance(v, values.Overloads) for f in v.funcs]
    return [analyze(f, {**BUFFERS, **args}) for f in found if f.node.kind == "global"]


def reasons(facts: KernelFacts) -> str:
    return "; ".join(reason for reason, _ in facts.unread)


def test_a_kernel_over_the_bound_is_unread_and_keeps_what_was_found() -> None:
    lines = "\n".join(f"    v{i} = tl.load(x + {i}) + tl.load(w + {i})" for i in range(3000))
    source = "def kernel(x, w, out, n):\n" + lines + "\n    tl.store(out, v0)\n"
    module = python.lower(source, "kernel.py")
    env = values.Env({"tl": Sym("triton.language")})
    node = next(s for s in module.body if isinstance(s, ir.FuncDef))
    facts = analyze(values.Func(node, env), BUFFERS, budget=Budget(500))
    assert "too large" in reasons(facts)
    assert facts.loads and not facts.stores


def test_endless_loops_and_recursion_end() -> None:
    facts = triton(
        """
        def helper(v, n):
            return helper(v + 1, n) + helper(v + 2, n)

        def kernel(x, w, out, n):
            v = tl.load(x)
            while True:
                v = v + helper(v, n)
            tl.store(out, v)
        """
    )
    assert "recursion through helper" in reasons(facts)


def test_mutual_recursion_in_cuda_ends() -> None:
    (facts,) = cpp(
        "__device__ float a(float v);\n"
        "__device__ float b(float v) { return a(v) + a(v * 2.f); }\n"
        "__device__ float a(float v) { return b(v) * b(v + 1.f); }\n"
        "__global__ void kernel(const float* x, float* out) { for (;;) out[0] = a(x[0]); }"
    )
    assert "recursion" in reasons(facts)


@pytest.mark.parametrize(
    "body",
    [
        "t = (1, 2)\n" + "\n".join("    t = (t, t)" for _ in range(60)) + "\n    tl.store(out, t[0])",
        "a = (1, 2)\n    b = (3, 4)\n"
        + "\n".join("    a = (a, a)\n    b = (b, b)" for _ in range(60))
        + "\n    if n > tl.program_id(0):\n        a = b\n    tl.store(out, a[0])",
        "t = [i for i in range(1 << 40)]\n    tl.store(out, t[0])",
        "k = 2\n" + "\n".join("    k = k ** 64" for _ in range(40)) + "\n    tl.store(out, k)",
        "s = 'a'\n" + "\n".join("    s = s + s" for _ in range(60)) + "\n    tl.store(out, 1)",
        "\n".join(f"    {'    ' * d}for i{d} in range(n):" for d in range(15)).lstrip()
        + f"\n    {'    ' * 15}tl.store(out, tl.load(x + i0))",
    ],
)
def test_values_that_grow_without_end_stay_small(body: str) -> None:
    started = time.process_time()
    facts = triton("def kernel(x, w, out, n):\n    " + body + "\n")
    assert time.process_time() - started < 2
    assert [s.param for s in facts.stores] == ["out"]


def test_many_variables_under_many_branches_stop_at_the_bound() -> None:
    names = "\n".join(f"    v{i} = tl.load(x + {i})" for i in range(2000))
    tests = "\n".join(f"    if tl.program_id(0) > {i}:\n        v{i} = v{i} + 1" for i in range(2000))
    started = time.process_time()
    facts = triton(f"def kernel(x, w, out, n):\n{names}\n{tests}\n    tl.store(out, v0)\n")
    assert time.process_time() - started < 8
    assert "too large" in reasons(facts)


GEMM = """
@triton.jit
def widen(v, TO: tl.constexpr):
    if TO is not None:
        v = v.to(TO)
    return v

@triton.jit
def kernel(x, w, out, n, BM: tl.constexpr, BK: tl.constexpr, FAST: tl.constexpr, SPLIT: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, n, BK):
        a = tl.load(x + rm[:, None] * n + (k + rk)[None, :], mask=rk[None, :] < n - k, other=0.0)
        b = tl.load(w + rm[None, :] * n + (k + rk)[:, None])
        if FAST:
            acc = tl.dot(a, b, acc)
        else:
            acc += tl.dot(widen(a, tl.bfloat16), widen(b, tl.bfloat16))
    if SPLIT > 1:
        tl.atomic_add(out + rm[:, None] * n + rm[None, :], acc)
    else:
        tl.store(out + rm[:, None] * n + rm[None, :], acc.to(tl.bfloat16))
"""
KERNEL = """
struct Tile { float acc[4]; int at; __device__ void add(float v) { acc[at & 3] += v; } };
template <int BM, bool FAST>
__global__ void kernel(const __nv_fp8_e4m3* __restrict__ x, const uint8_t* w, __nv_bfloat16* out, int n) {
  extern __shared__ uint8_t smem[];
  __nv_bfloat16* tile = reinterpret_cast<__nv_bfloat16*>(smem + BM * 16);
  Tile t{};
  uint32_t a[4] = {0, 0, 0, 0}, b[2];
  for (int k = threadIdx.x; k < n; k += blockDim.x) {
    if constexpr (FAST) {
      *(uint4*)(smem + k * 16) = *(const uint4*)(x + k * 16);
    } else {
      tile[k] = __float2bfloat16(float(x[k]) * (float)((w[k] >> 4) & 0xF));
    }
    t.add(float(x[k]) * float(w[k] & 15));
  }
  __syncthreads();
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1]) : "r"((uint32_t)__cvta_generic_to_shared(smem)));
  float d[4] = {0.f};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = __float2bfloat16(d[i] + t.acc[i]);
}
"""


def damaged(text: str, seed: int) -> str:
    """`text` with a few of its words and lines dropped, doubled, swapped or replaced."""
    rng = random.Random(seed)
    parts = re.split(r"(\W)", text)
    words = [i for i, part in enumerate(parts) if part.strip()]
    for _ in range(rng.randint(1, 6)):
        at, other = rng.choice(words), rng.choice(words)
        act = rng.randrange(4)
        if act == 0:
            parts[at] = ""
        elif act == 1:
            parts[at] = parts[at] + " " + parts[at]
        elif act == 2:
            parts[at], parts[other] = parts[other], parts[at]
        else:
            parts[at] = rng.choice(["x", "0", "acc", "tl.load", "None", "(", "[0]", "*", "&", "n", "BM", ".to", "a"])
    return "".join(parts)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 32))
def test_damaged_triton_kernels_are_read_as_far_as_they_go(seed: int) -> None:
    try:
        module = python.lower(damaged(GEMM, seed), "kernel.py")
    except SyntaxError:
        return
    env = values.Env({"tl": Sym("triton.language"), "triton": Sym("triton")})
    for node in module.body:
        if isinstance(node, ir.FuncDef):
            env.vars[node.name] = values.JitFunction(values.Func(node, env))
    for found in list(env.vars.values()):
        if isinstance(found, values.JitFunction):
            facts = analyze(found.func, {**BUFFERS, "BM": 64, "BK": 32, "FAST": True, "SPLIT": 1})
            assert "failed" not in reasons(facts)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 32))
def test_damaged_cuda_kernels_are_read_as_far_as_they_go(seed: int) -> None:
    for facts in cpp(damaged(KERNEL, seed), BM=64, FAST=bool(seed & 1)):
        assert "failed" not in reasons(facts)


def summary(facts: KernelFacts) -> Any:
    return (
        {
            (p.kind, p.a, p.b, p.rows, p.a_origins, p.b_origins, p.loc[1:], p.casts and len(p.casts))
            for p in facts.products
        },
        {(c.source, c.target, c.origins, c.loc[1:]) for c in facts.casts},
        {(s.param, s.dtype, s.origins, s.loc[1:]) for s in facts.stores},
        {(u.origins, u.loc[1:]) for u in facts.unpacks},
    )


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([16, 32, 64]), st.sampled_from([16, 32, 64]), st.booleans(), st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 16, 1024]), st.sampled_from([16, 32]), st.sampled_from([32, 64]), st.booleans(),
    st.sampled_from([1, 2]), st.sampled_from([512, 4096]),
)  # fmt: skip
def test_bindings_that_agree_on_what_decided_give_the_same_facts(
    bm: int, bk: int, fast: bool, split: int, n: int, bm2: int, bk2: int, fast2: bool, split2: int, n2: int
) -> None:
    first = {"BM": bm, "BK": bk, "FAST": fast, "SPLIT": split, "n": Scalar(n, "i32")}
    second = {"BM": bm2, "BK": bk2, "FAST": fast2, "SPLIT": split2, "n": Scalar(n2, "i32")}
    one = triton(GEMM, **first)
    mixed = {name: first[name] if name in one.decided else second[name] for name in first}
    if one.tests.hold(AT, mixed, first):
        assert summary(triton(GEMM, **mixed)) == summary(one)
    else:
        assert any(first[name] != mixed[name] for name in one.tests.names)


@pytest.mark.parametrize("expression", ["N ** 64", "(N ** 0) + N * N * N * N", "N % 3", "2 ** 64 ** 64"])
def test_constants_of_any_length_are_not_computed_with(expression: str) -> None:
    start = time.process_time()
    facts = triton(
        f"def kernel(x, out, N: tl.constexpr):\n    tl.store(out, tl.load(x + ({expression})))\n", N=7**70_000
    )
    assert facts.stores
    assert time.process_time() - start < 1


@pytest.mark.parametrize("body", ["case {}:", "case {}: out[{}] = 1;", "case {}: {{ out[{}] = 1; break; }}"])
def test_a_switch_of_thousands_of_cases_spends_steps_not_time(body: str) -> None:
    cases = "\n".join(body.format(i, i) for i in range(1500))
    start = time.process_time()
    (facts,) = cpp(
        f"__global__ void kernel(const float* x, float* out) {{ switch (int(x[0])) {{ {cases} default: ; }} }}"
    )
    assert time.process_time() - start < 8
    assert facts.stores or body == "case {}:"
