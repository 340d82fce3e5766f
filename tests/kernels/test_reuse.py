"""Whether a kernel reads an element of a tensor once or several times, told from its addresses."""

from __future__ import annotations

from textwrap import indent

import pytest

from kbh_lint.base import ir
from kbh_lint.frontends import cuda, python
from kbh_lint.frontends.cuda import lines_origin, walk
from kbh_lint.kernels.extents.reuse import read_once

ROWS = "row = tl.program_id(0)\n"
TILES = "m = tl.program_id(0) * 64\nn = tl.program_id(1) * 64\n"
SWIZZLED = "pid = tl.program_id(0)\nm = (pid % 8) * 64\nn = (pid // 8) * 64\n"
TRITON = {
    "one row a program": (True, ROWS + "a = tl.load(x + row * n + lanes)\ntl.store(y + row * n + lanes, a)"),
    "all of a row in pieces": (
        True,
        ROWS + "for k in range(0, n, 64):\n    a = tl.load(x + row * n + k + lanes)\ntl.store(y + row, a)",
    ),
    "by a pointer that moves": (
        True,
        ROWS + "p = x + row * n\nfor k in range(8):\n    a = tl.load(p)\n    p += 64\ntl.store(y + row, a)",
    ),
    "the same piece every round": (
        False,
        ROWS + "for k in range(8):\n    a = tl.load(x + row * n)\n    tl.store(y + row * n + k, a)",
    ),
    "tiles that a column of programs shares": (
        False,
        TILES + "for k in range(0, K, 64):\n    a = tl.load(x + m * K + k)\ntl.store(y + m * N + n, a)",
    ),
    "the same in one dimension": (
        False,
        SWIZZLED + "for k in range(0, K, 64):\n    a = tl.load(x + m * K + k)\ntl.store(y + m * N + n, a)",
    ),
    "a tile of its own in one dimension": (True, SWIZZLED + "a = tl.load(x + m * N + n)\ntl.store(y + m * N + n, a)"),
    "one vector for all": (False, ROWS + "a = tl.load(x + lanes)\ntl.store(y + row * n + lanes, a)"),
    "one vector for all, with nothing added": (
        False,
        ROWS + "none = row * 0\na = tl.load(x + lanes + none + row % 1)\ntl.store(y + row * n + lanes, a)",
    ),
    "one row a program, with nothing added": (
        True,
        ROWS + "a = tl.load(x + row * n + lanes + (row - row))\ntl.store(y + row * n + lanes, a)",
    ),
}
TRITON |= {
    "the half of an even place": (
        True,
        ROWS + "k = row * 512\nfor r in range(0, 256, 2):\n    a = tl.load(x + (k // 2 + r // 2) * n + lanes)\n"
        "tl.store(y + k, a)",
    ),
    "the half of any place": (False, ROWS + "a = tl.load(x + row // 2 * n + lanes)\ntl.store(y + row * n + lanes, a)"),
    "the half of what was even": (
        False,
        ROWS + "k = row * 2\nk += 1\na = tl.load(x + k // 2 // 2 * n + lanes)\ntl.store(y + row * n + lanes, a)",
    ),
}
WARPS = "const int warp = threadIdx.x {}, lane = threadIdx.x {};"
EACH = (
    "float a = 0; for (int k = warp; k < n; k += 8) a += x[k * 4096 + blockIdx.x * 32 + lane]; "
    "y[blockIdx.x * 16 + threadIdx.x / 16 + n * (threadIdx.x % 16)] = a;"
)
CUDA = {
    "a row a block": (True, "float a = x[blockIdx.x * n + threadIdx.x]; y[blockIdx.x * n + threadIdx.x] = a;"),
    "a thread by its warp and its lane": (True, f"{WARPS.format('/ 32', '% 32')} {EACH}"),
    "the same by shifts": (True, f"{WARPS.format('>> 5', '& 31')} {EACH}"),
    "by a warp of others": (False, f"{WARPS.format('/ 64', '% 32')} {EACH}"),
    "by its lane alone": (
        False,
        "float a = x[blockIdx.x * 32 + threadIdx.x % 32]; y[blockIdx.x * n + threadIdx.x] = a;",
    ),
    "by parts of a part": (False, f"const int t = threadIdx.x % 64, warp = t / 32, lane = t % 32; {EACH}"),
    "a vector for all blocks": (False, "float a = x[threadIdx.x]; y[blockIdx.x * n + threadIdx.x] = a;"),
    "the same with nothing of the block": (
        False,
        "float a = x[threadIdx.x + 0 * blockIdx.x]; y[blockIdx.x * n + threadIdx.x] = a;",
    ),
    "a weight of every row": (
        False,
        "float a = 0; for (int k = 0; k < n; ++k) a += x[threadIdx.x * n + k]; y[blockIdx.x * n + threadIdx.x] = a;",
    ),
}


def first_read(nodes: list[object]) -> ir.Loc:
    """Where `x` is read."""
    for node in nodes:
        if isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name == "load":
            return node.loc
        if isinstance(node, ir.Index) and isinstance(node.value, ir.Name) and node.value.id == "x":
            return node.loc
    raise AssertionError("nothing reads x")


@pytest.mark.parametrize("way", TRITON)
def test_how_often_a_triton_kernel_reads_an_element(way: str) -> None:
    expected, body = TRITON[way]
    module = python.lower("def kernel(x, y, n, m, N, K, lanes):\n" + indent(body, "    ") + "\n", "kernel.py")
    kernel = next(node for node in module.body if isinstance(node, ir.FuncDef))
    assert read_once(kernel, first_read(walk(kernel.body))) is expected


@pytest.mark.parametrize("way", CUDA)
def test_how_often_a_cuda_kernel_reads_an_element(way: str) -> None:
    expected, body = CUDA[way]
    text = "__global__ void kernel(const float* x, float* y, int n) { " + body + " }"
    module = cuda.lower(text, lines_origin(text, "kernel.cu"), defines={}, cuda_arch=900)
    kernel = next(node for node in module.body if isinstance(node, ir.FuncDef))
    assert read_once(kernel, first_read(walk(kernel.body))) is expected


def test_a_load_elsewhere_is_not_judged() -> None:
    module = python.lower("def kernel(x):\n    return x\n\n\nb = f.load(x)\n", "kernel.py")
    kernel = next(node for node in module.body if isinstance(node, ir.FuncDef))
    assert read_once(kernel, first_read(walk(module.body))) is None
