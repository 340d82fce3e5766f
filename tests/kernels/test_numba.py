"""Numba's kernels: other spellings of one sum and one product, the types that are inferred, and what is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint
from kbh_lint.base import ir, values
from kbh_lint.findings import FileReport
from kbh_lint.frontends import python
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

VARIANTS = Path(__file__).parents[1] / "variants"
KAHAN = (VARIANTS / "04_kahan_softmax/numba_kahan_rows.py").read_text(encoding="utf-8")
PLAIN = (VARIANTS / "04_kahan_softmax/leak_numba_plain_sum.py").read_text(encoding="utf-8")
GEMV = (VARIANTS / "07_w4a16_gemm/numba_gemv.py").read_text(encoding="utf-8")

STEP = "    y = term - rest\n    t = total + y\n    return t, (t - total) - y\n"
JIT = "@cuda.jit\ndef softmax"
LAUNCH = "softmax[x.shape[0], THREADS, stream](cuda.as_cuda_array(x), cuda.as_cuda_array(y), self.vocab)"
TERM = "math.exp(x[row, j] - top))\n    sums"
COMPENSATED = {
    "libdevice's operations": (
        STEP,
        "    y = cuda.libdevice.fsub_rn(term, rest)\n    t = cuda.libdevice.fadd_rn(total, y)\n"
        "    return t, cuda.libdevice.fsub_rn(cuda.libdevice.fsub_rn(t, total), y)\n",
    ),
    "libdevice's exponential": (TERM, TERM.replace("math.exp", "cuda.libdevice.fast_expf")),
    "a base-2 exponential": (
        TERM,
        TERM.replace("math.exp(x[row, j] - top)", "cuda.libdevice.exp2f((x[row, j] - top) * float32(1.4427))"),
    ),
    "a signature as text": (JIT, JIT.replace("jit", 'jit("void(float32[:, ::1], float32[:, ::1], int32)")')),
    "flags of the compiler": (JIT, JIT.replace("jit", "jit(fastmath=True, max_registers=40, cache=True)")),
    "rows as views": ("    top = LOWEST\n", "    top = LOWEST\n    x, y, row = x[row : row + 1], y[row:], 0\n"),
    "numpy's type": ("total = float32(0.0)", "total = np.float32(0.0)"),
    "a local array": (
        "        total, rest = kahan(total, rest, math.exp(x[row, j] - top))\n",
        "        pair[0], pair[1] = kahan(pair[0], pair[1], math.exp(x[row, j] - top))\n"
        "    total, rest = pair[0], pair[1]\n",
    ),
    "tensors as they are": (LAUNCH, "softmax[(x.shape[0],), (THREADS,)](x, y, self.vocab)"),
    "a configuration by its method": (LAUNCH, "softmax.configure(x.shape[0], THREADS)(x, y, self.vocab)"),
    "all threads of a task": (LAUNCH, "softmax.forall(x.shape[0] * THREADS, THREADS)(x, y, self.vocab)"),
}
TREE = (
    "            total, rest = kahan(sums[tid], rests[tid], sums[tid + width])\n"
    "            total, rest = kahan(total, rest, -rests[tid + width])\n",
    "            total = sums[tid] + sums[tid + width]\n",
)
UNCOMPENSATED = {
    "a rest that nothing uses": [("y = term - rest", "y = term"), TREE, ("sums[0] - rests[0]", "sums[0]")],
    "a rest that comes to nothing": [("(t - total) - y", "(t - total) - (t - total)")],
}
SUMS = ("sums = cuda.shared.array(THREADS, float32)", "sums = cuda.shared.array(THREADS, numba.float64)")
TOPS = ("tops = cuda.shared.array(THREADS, float32)", "tops = cuda.shared.array(THREADS, dtype=numba.float64)")
WIDE = {
    "a constant with a point": [("total = float32(0.0)", "total = 0.0"), SUMS],
    "a maximum that begins with Python's": [("top = LOWEST", "top = -math.inf"), TOPS, SUMS],
    "a whole number": [("total = float32(0.0)", "total = 0"), SUMS],
}
NARROW = {
    "a constant of numpy": [("LOWEST = float32(-3.0e38)", "LOWEST = np.float32(-3.0e38)")],
    "an array of fp32": [("top = LOWEST", "top = -math.inf"), ("float32(0.0)", "numba.types.f4(0)")],
}


def linted(tmp_path: Path, text: str, edits: list[tuple[str, str]], problem: str) -> FileReport:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "solution.py"
    path.write_text(
        text.replace("import torch\n", "import numba\nimport numpy as np\nimport torch\n", 1), encoding="utf-8"
    )
    return lint([path], problem=problem, raise_errors=True).files[0]


def states(report: FileReport) -> dict[str, str]:
    return {promise.id: promise.state for promise in report.promises}


@pytest.mark.parametrize("how", COMPENSATED)
def test_a_compensated_sum_in_other_words_is_kept(tmp_path: Path, how: str) -> None:
    edits = [COMPENSATED[how]]
    if "pair[0]" in edits[0][1]:
        edits.append(
            ("    rest = float32(0.0)\n", "    pair = cuda.local.array(2, float32)\n    pair[0] = pair[1] = 0\n")
        )
    report = linted(tmp_path, KAHAN, edits, "04_kahan_softmax")
    assert (report.verdict, states(report)["compensated-sum"]) == ("clean", "kept"), (report.findings, report.unread)


@pytest.mark.parametrize("how", UNCOMPENSATED)
def test_a_compensation_that_is_lost_is_told(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, KAHAN, UNCOMPENSATED[how], "04_kahan_softmax")
    assert (report.verdict, states(report)["compensated-sum"]) == ("rubric_leak", "broken"), report.unread


@pytest.mark.parametrize("how", WIDE)
def test_a_sum_in_the_type_that_numba_infers_is_in_fp64(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, PLAIN, WIDE[how], "04_kahan_softmax")
    assert (report.verdict, states(report)["compensated-sum"]) == ("clean", "kept-by-precision"), report.findings


@pytest.mark.parametrize("how", NARROW)
def test_a_sum_that_goes_through_fp32_is_a_plain_one(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, PLAIN, NARROW[how], "04_kahan_softmax")
    assert (report.verdict, states(report)["compensated-sum"]) == ("rubric_leak", "broken"), report.unread


ACC = "                    part[r] += low * wide(x[first + r, 2 * at])\n"
SIGNED = GEMV[GEMV.index("@cuda.jit(void(") : GEMV.index("def gemm")]
LAUNCHED = "gemm[grid, 128, stream]("
TABLED = [
    (
        "GROUP = 128\n",
        "GROUP = 128\nTABLE = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], dtype=np.float32)\n",
    ),
    ("low = float32(packed & 0xF)", "low = cuda.const.array_like(TABLE)[packed & 0xF]"),
    ("high = float32(packed >> 4)", "high = TABLE[packed >> 4]"),
]
KEPT = {
    "no signature": [(SIGNED, "@cuda.jit\n")],
    "a signature in a list": [
        (SIGNED, "@cuda.jit(['void(i2[:, :], u1[:, :], i2[:, :], i2[:, :], u2[:, :], i4, i4)'])\n")
    ],
    "another name of the module": [(SIGNED, "@numba.cuda.jit\n"), ("cuda.grid(1)", "numba.cuda.grid(1)")],
    "a product that is added at once": [
        (
            ACC,
            ACC.replace(
                "+= low * wide(x[first + r, 2 * at])", "= libdevice.fmaf_rn(low, wide(x[first + r, 2 * at]), part[r])"
            ),
        )
    ],
    "numbers of a table": TABLED,
    "a number of bits by a method": [
        ("libdevice.int_as_float(int32(bits) << int32(16))", "(int32(bits) << int32(16)).view(float32)")
    ],
    "atomics": [
        ("y[first + r, n] = narrow(acc[r])", "cuda.atomic.add(y, (first + r, n), acc[r])"),
        (
            "y = torch.empty(m, self.n, dtype=torch.bfloat16, device=x.device)",
            "y = torch.zeros(m, self.n, device=x.device)",
        ),
        ("y.view(torch.uint16)", "y"),
        ("return y\n", "return y.bfloat16()\n"),
        (SIGNED, "@cuda.jit\n"),
    ],
    "memory that all of a block see": [
        ("    part = cuda.local.array(ROWS, float32)\n", "    part = cuda.shared.array(0, float32)\n"),
        (LAUNCHED, LAUNCHED.replace("stream]", "stream, 4 * ROWS]")),
    ],
    "copies that go through the host": [
        ("x.contiguous().view(torch.int16), self.w_q", "cuda.to_device(x.view(torch.int16), stream=stream), self.w_q"),
        (
            "y = torch.empty(m, self.n, dtype=torch.bfloat16, device=x.device)",
            "y = cuda.device_array((m, self.n), np.uint16)",
        ),
        ("y.view(torch.uint16)", "y"),
        ("return y\n", "return torch.from_numpy(y.copy_to_host()).view(torch.bfloat16).to(x.device)\n"),
    ],
    "an array that numba makes": [
        (
            "y = torch.empty(m, self.n, dtype=torch.bfloat16, device=x.device)",
            "y = cuda.device_array((m, self.n), dtype=np.uint16)",
        ),
        ("y.view(torch.uint16)", "y"),
        ("return y\n", "return torch.as_tensor(y, device='cuda').view(torch.bfloat16)\n"),
    ],
}
UNREAD = {
    "an operation that is not known": [(ACC, ACC.replace("low *", "cuda.unheard_of(low) *"))],
    "a function of another file": [
        (ACC, ACC.replace("low *", "outside(low) *")),
        ("GROUP = 128\n", "GROUP = 128\noutside = cuda.declare_device('outside', 'float32(float32)')\n"),
    ],
    "arguments too many": [(", m, self.k)", ", m, self.k, 1)")],
    "a kernel without threads": [("[grid, 128, stream]", "[128]")],
    "a ufunc": [(SIGNED, "@numba.vectorize(['u2(u2)'], target='cuda')\n")],
    "a table of data": [
        *TABLED[1:],
        ("GROUP = 128\n", "GROUP = 128\nTABLE = None\n"),
        (
            "        m = x.shape[0]\n",
            "        global TABLE\n        TABLE = self.w_q.cpu().numpy()\n        m = len(x)\n",
        ),
    ],
}


@pytest.mark.parametrize("how", KEPT)
def test_one_product_in_other_words_is_kept(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, GEMV, KEPT[how], "07_w4a16_gemm")
    assert set(states(report).values()) == {"kept"}, (report.verdict, report.findings, report.promises)


@pytest.mark.parametrize("how", UNREAD)
def test_what_is_not_read_is_not_called_clean(tmp_path: Path, how: str) -> None:
    report = linted(tmp_path, GEMV, UNREAD[how], "07_w4a16_gemm")
    assert report.verdict == "unproven", (report.verdict, report.findings)


def facts(body: str, **scope: values.Value) -> KernelFacts:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    module = python.lower(f"def kernel(x, y, n):\n{lines}\n", "kernel.py")
    (node,) = (statement for statement in module.body if isinstance(statement, ir.FuncDef))
    names = {"cuda": values.Sym("numba.cuda"), "np": values.Sym("numpy"), "math": values.Sym("math"), **scope}
    func = values.Func(node, values.Env(names), language="numba.kernel")
    buffers = {"x": values.Buffer("f32", 1, "f32"), "y": values.Buffer("f64", 2, "f64")}
    return analyze(func, {**buffers, "n": values.Scalar(7)})


TYPES = {
    "x[0] * np.float32(2)": "f32",
    "x[0] * 2.0": "f64",
    "x[0] * 2": "f64",
    "x[0] / n": "f64",
    "x[0] * SINGLE": "f32",
    "x[0] ** 2": "f32",
    "max(x[0], np.float32(0))": "f32",
    "x[0] * np.int16(3)": "f32",
    "math.exp(x[0])": "f32",
    "x[0] * math.pi": "f64",
    "x[0] * DOUBLE": "f64",
    "cuda.libdevice.expf(x[0] * 2.0)": "f32",
    "cuda.fma(x[0], x[1], x[2])": "f32",
    "cuda.shfl_xor_sync(-1, x[0], 1) + x[1]": "f32",
    "x[0] + cuda.grid(1)": "f64",
}


@pytest.mark.parametrize("expression", TYPES)
def test_an_operation_has_the_type_that_numba_infers(expression: str) -> None:
    """What is summed in a loop is a sum in the type of the operation."""
    body = f"total = np.float32(0)\nfor i in range(n):\n    total += {expression}\ny[0] = total"
    found = facts(body, SINGLE=values.Single(0.5), DOUBLE=0.5)
    assert (found.unread, {total.dtype for total in found.sums}) == ([], {TYPES[expression]})


@pytest.mark.parametrize(
    "how", ["y[i][j] = x[j]", "line = y[i]\nline[j] = x[j]", "y[i, :][j] = x[j]", "y[i:, 0][j] = x[j]"]
)
def test_a_store_into_a_row_is_one_into_the_array(how: str) -> None:
    found = facts(f"i, j = cuda.grid(2)\n{how}")
    assert ([s.param for s in found.stores], found.unread) == (["y"], [])
