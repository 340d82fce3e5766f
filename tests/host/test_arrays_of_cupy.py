"""Arrays of CuPy: shapes and types as numpy has them, memory that torch has, too, and work that is a library's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linted import cases, report_of
from test_launchers_of_python import KERNEL

from kbh_lint.base.dtypes import from_torch
from kbh_lint.frontends import python
from kbh_lint.host.run import Run
from kbh_lint.host.torch.arrays.calls import dtype_of
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Tensor

SOFTMAX, SELECTION = "04_kahan_softmax", "05_topk_bitonic"
GIVEN = """
a = cp.zeros((4, 6), cp.float32)
b = cp.ones((6, 5), dtype=cp.float32)
c = cp.zeros((2, 4, 6), "f4")
v = cp.arange(6, dtype=cp.int64)
w = cp.zeros(6, cp.float32)
h = cp.zeros((4, 6), cp.float16)
"""
SAME = """
a @ b
cp.matmul(a, b)
cp.dot(a, b)
a.dot(b)
c @ b
cp.matmul(c, b, out=cp.zeros((2, 4, 5), cp.float32))
cp.tensordot(a, b, axes=1)
cp.tensordot(a, c, axes=([1], [2]))
cp.einsum("ij,jk->ik", a, b)
cp.outer(w, w)
cp.vdot(w, w)
a.max(axis=1)
a.max(1, None, True)
cp.max(a, axis=0, keepdims=True)
cp.amin(a)
a.sum(axis=-1)
v.sum()
cp.sum(a, axis=(0, 1))
a.mean(axis=1, keepdims=True)
a.argmax(axis=1)
cp.any(a > 0, axis=1)
a.std(axis=0)
a.cumsum(axis=1)
cp.cumsum(a, 1)
cp.cumsum(a)
cp.median(a, axis=1)
cp.sort(a, axis=1)
cp.argsort(a, axis=-1)
cp.partition(a, 2, axis=1)
cp.argpartition(a, 2, axis=1)
a.argpartition(2, axis=1)
cp.exp(a)
cp.exp(v)
cp.add(a, w)
cp.add(a, w, cp.empty((4, 6), cp.float32))
a + w
a * 2
1.0 / a
-a
v // 2
v ** 2
a > w
cp.maximum(a, 0)
cp.where(a > 0, a, 0)
cp.clip(a, 0, 1)
a.clip(0, 1)
cp.power(a, 2)
cp.logical_and(a > 0, a < 1)
cp.bitwise_and(v, 3)
cp.left_shift(v, 1)
cp.rint(a)
cp.add.reduce(a, axis=1)
cp.maximum.reduce(a, axis=0)
cp.add.accumulate(a, axis=1)
cp.multiply.outer(w, w)
a.take(v[:3], axis=1)
cp.take(a, v[:3], axis=1)
cp.take(a, v)
a.take(v[:2], 0)
cp.take_along_axis(a, v[None, :], axis=1)
a[:, 1:3]
a[1]
a[:, v]
a[a > 0].dtype
a.reshape(3, 8)
a.reshape((3, -1))
cp.reshape(a, (24,))
a.ravel()
a.flatten()
a.T
c.T
a.transpose()
c.transpose(0, 2, 1)
c.transpose((2, 0, 1))
cp.transpose(c, (1, 0, 2))
cp.swapaxes(c, 0, 1)
cp.moveaxis(c, 0, -1)
cp.expand_dims(a, 1)
a[:, None].squeeze(1)
cp.squeeze(a[None])
cp.broadcast_to(w, (4, 6))
cp.concatenate([a, a], axis=1)
cp.concatenate((a, a))
cp.stack([a, a])
cp.vstack([a, a])
cp.hstack([a, a])
cp.tile(w, 2)
cp.repeat(a, 2, axis=1)
a.repeat(3, axis=0)
cp.split(a, 2, axis=1)
cp.flip(a, 1)
cp.roll(a, 1, axis=1)
cp.tril(a)
a.astype(cp.float16)
a.astype("int32")
a.astype(cp.float32, copy=False)
a.view(cp.int32)
h.view("u2")
a.copy()
cp.ascontiguousarray(a.T)
cp.zeros(3)
cp.empty((2, 3), "f8")
cp.ones_like(a)
cp.zeros_like(a, dtype=cp.int32)
cp.full((2, 2), 1.5, cp.float32)
cp.arange(5)
cp.arange(0, 6, 2, dtype=cp.int32)
cp.linspace(0, 1, 5)
cp.eye(3, dtype=cp.float32)
cp.asarray(a)
cp.array(a, dtype=cp.float16)
cp.linalg.inv(a[:, :4])
cp.linalg.solve(a[:, :4], a)
cp.linalg.norm(a, axis=1)
cp.linalg.cholesky(a[:, :4])
cp.searchsorted(w, w)
cp.diagonal(a)
a.size
a.nbytes
a.ndim
a.strides
a.T.strides
a.itemsize
len(a)
a.shape
cp.shape(a)
a.dtype == cp.float32
a.dtype == cp.int32
cp.dtype("float32") == a.dtype
isinstance(a, cp.ndarray)
a[..., cp.newaxis].shape
[row.shape for row in a]
""".strip().splitlines()


def _seen(program: str) -> Any:
    run = Run(Session(python.lower(f"import cupy as cp\n{GIVEN}{program}\n", "solution.py"), {}, (9, 0)), {})
    env = run.scopes.main
    run.block(run.session.module.body, Frame(env, env, None, None))
    assert not run.trace.unread, run.trace.unread
    return env.vars["answer"]


def _shown(value: Any) -> Any:
    """Shape and type of an array, of all in a list; other values as they are."""
    if isinstance(value, (list, tuple)) and any(isinstance(one, (np.ndarray, Tensor)) for one in value):
        return [_shown(one) for one in value]
    if isinstance(value, Tensor):
        return tuple(value.shape) if value.shape is not None else None, value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return tuple(value.shape), dtype_of(str(value.dtype))
    if isinstance(value, np.dtype):
        return from_torch(str(value))
    return getattr(value, "name", value)


@pytest.mark.parametrize("text", SAME)
@pytest.mark.filterwarnings("ignore")
def test_an_operation_has_the_shape_and_type_that_numpy_gives(text: str) -> None:
    scope: dict[str, Any] = {"cp": np}
    exec(GIVEN.replace("zeros((4, 6), cp.float32)", "eye(4, 6, dtype=cp.float32)"), scope)  # of ours
    assert _shown(_seen(f"answer = {text}")) == _shown(eval(text, scope))  # of ours


# --- memory that torch and CuPy share

SETUP = '\nimport cupy as cp\n\nROWS = cp.RawModule(code=TEXT).get_function("rows")\n'
AROUND = """

class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x):
        y = torch.empty_like(x)
{body}
        return y
"""
LAUNCH = "ROWS((self.batch,), (1024,), ({}, {}, cp.int32(self.vocab)))"
SHARED = cases("""\
# views by DLPack
a, out = cp.from_dlpack(x.detach()), cp.from_dlpack(y)
LAUNCH(a, out)
# views by asarray, reshaped
a, out = cp.asarray(x).reshape(-1), cp.asarray(y).ravel()
LAUNCH(a, out)
# addresses of views
LAUNCH(cp.asarray(x).data.ptr, cp.asarray(y).__cuda_array_interface__["data"][0])
# on torch's stream
with cp.cuda.Stream.from_external(torch.cuda.current_stream()):
    LAUNCH(cp.asarray(x), cp.asarray(y))
# on a stream that is waited for
stream = cp.cuda.Stream(non_blocking=True)
with stream:
    LAUNCH(cp.asarray(x), cp.asarray(y))
stream.synchronize()
# the result in an array
out = cp.empty(tuple(x.shape), dtype=cp.float32)
LAUNCH(x.data_ptr(), out)
y = torch.as_tensor(out, device="cuda")
# the result in an array, by DLPack
out = cp.zeros((self.batch, self.vocab), cp.float32)
LAUNCH(cp.from_dlpack(x), out)
y = torch.from_dlpack(out)
# memory that torch owns
memory = cp.cuda.UnownedMemory(y.data_ptr(), y.numel() * 4, y)
out = cp.ndarray(tuple(y.shape), cp.float32, cp.cuda.MemoryPointer(memory, 0))
LAUNCH(cp.asarray(x), out)
# rows one by one
a, out = cp.asarray(x), cp.asarray(y)
for i in range(self.batch):
    ROWS((1,), (1024,), (a[i], out[i], cp.int32(self.vocab)))
""")


def _launched(text: str) -> str:
    lines = []
    for line in text.splitlines():
        head, call, rest = line.partition("LAUNCH(")
        lines.append(f"        {head}{LAUNCH.format(*rest[:-1].split(', ', 1))}" if call else f"        {line}")
    return "\n".join(lines)


@pytest.mark.parametrize("how", SHARED)
def test_memory_is_lent_both_ways(tmp_path: Path, how: str) -> None:
    report = report_of(tmp_path, KERNEL + SETUP + AROUND.format(body=_launched(SHARED[how])), SOFTMAX)
    assert (report.verdict, [finding.rule for finding in report.findings]) == ("clean", [])


# --- work that is a library's: it is told as torch's is

WHOLE = """
import cupy as cp
import cupyx.scipy.special
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x):
{body}
"""
WORK = {
    "a softmax by parts": (
        SOFTMAX,
        "e = torch.exp(x - x.amax(1, keepdim=True))\nreturn e / e.sum(1, keepdim=True)",
        "a = cp.from_dlpack(x)\ne = cp.exp(a - a.max(axis=1, keepdims=True))\n"
        "return torch.from_dlpack(e / e.sum(axis=1, keepdims=True))",
    ),
    "a softmax": (
        SOFTMAX,
        "return torch.softmax(x, 1)",
        "return torch.as_tensor(cupyx.scipy.special.softmax(cp.asarray(x), axis=1))",
    ),
    "a selection": (
        SELECTION,
        "order = torch.argsort(x, dim=1)[:, -self.sizes[2] :]\nreturn torch.take_along_dim(x, order, dim=1), order",
        "a = cp.asarray(x)\norder = cp.argsort(a, axis=1)[:, -self.sizes[2] :]\n"
        "return torch.as_tensor(cp.take_along_axis(a, order, axis=1)), torch.as_tensor(order)",
    ),
}
BESIDE = {
    "maxima": ("x - x.amax(1, keepdim=True)", "cp.asarray(x) - cp.asarray(x).max(axis=1, keepdims=True)"),
    "maxima of a ufunc": (
        "x - x.amax(1, keepdim=True)", "cp.asarray(x) - cp.maximum.reduce(cp.asarray(x), axis=1, keepdims=True)",
    ),
    "exponentials": ("torch.exp(x)", "cp.exp(cp.asarray(x))"),
    "exponentials in place": (
        "torch.exp(x, out=torch.empty_like(x))", "cp.exp(cp.asarray(x), cp.empty_like(cp.asarray(x)))",
    ),
    "a sorted row": ("torch.sort(x, dim=1)[0]", "cp.sort(cp.asarray(x), axis=1)"),
    "a product": ("x @ x.mT @ x", "cp.asarray(x) @ cp.asarray(x).T @ cp.asarray(x)"),
    "a solve": (
        "torch.linalg.solve(x @ x.mT, x)", "cp.linalg.solve(cp.dot(cp.asarray(x), cp.asarray(x).T), cp.asarray(x))",
    ),
    "a sum": ("x.cumsum(1)", "cp.cumsum(cp.asarray(x), axis=1)"),
    "a fused function": ("torch.exp(x) * 2", "cp.fuse(lambda a: cp.exp(a) * 2)(cp.asarray(x))"),
}  # fmt: skip


def _told(folder: Path, text: str, problem: str) -> tuple[str, set[str]]:
    report = report_of(folder, text, problem)
    return report.verdict, {finding.rule for finding in report.findings} - {"KBH502"}  # which names torch's alone


@pytest.mark.parametrize("work", WORK)
def test_work_of_cupy_is_told_as_torchs_is(tmp_path: Path, work: str) -> None:
    problem, *bodies = WORK[work]
    first, second = (
        _told(tmp_path, WHOLE.format(body="\n".join(f"        {line}" for line in body.splitlines())), problem)
        for body in bodies
    )
    assert first == second and first[0] != "clean"


@pytest.mark.parametrize("work", BESIDE)
def test_work_of_cupy_beside_a_kernel_is_told_as_torchs_is(tmp_path: Path, work: str) -> None:
    of_torch, of_cupy = (
        KERNEL + SETUP + AROUND.format(body=_launched(f"a = {given}\nLAUNCH(a, y)")) for given in BESIDE[work]
    )
    first, second = _told(tmp_path, of_torch, SOFTMAX), _told(tmp_path, of_cupy, SOFTMAX)
    assert first == second and first[0] != "clean"


@pytest.mark.parametrize("call", ["cp.gradient(cp.asarray(x), axis=1)", "cupyx.scipy.ndimage.laplace(cp.asarray(x))"])
def test_what_cupy_computes_that_nobody_knows_is_of_others(tmp_path: Path, call: str) -> None:
    verdict, rules = _told(tmp_path, WHOLE.format(body=f"        return torch.as_tensor({call})"), SOFTMAX)
    assert verdict != "clean" and "KBH504" in rules


# --- kernels of expressions are the submission's own

EXPRESSIONS = """
import cupy as cp
import torch
import torch.nn as nn

TOP = cp.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", "-3.0e38f", "top")
PLAIN = cp.ReductionKernel("T x, T top", "T y", "exp(x - top)", "a + b", "y = a", "0", "plain")
DIVIDE = cp.ElementwiseKernel("T x, T top, T total", "T y", "y = exp(x - top) / total", "divide")
SUM = cp.RawKernel(r'''
extern "C" __global__ void sums(const float* x, const float* tops, float* totals, int n) {
    __shared__ float part[256], rest[256];
    float s = 0.f, c = 0.f;
    for (int i = threadIdx.x; i < n; i += 256) {
        float v = expf(x[(size_t)blockIdx.x * n + i] - tops[blockIdx.x]), y = __fsub_rn(v, c), t = __fadd_rn(s, y);
        c = __fsub_rn(__fsub_rn(t, s), y);
        s = t;
    }
    part[threadIdx.x] = s;
    rest[threadIdx.x] = -c;
    __syncthreads();
    if (threadIdx.x == 0) {
        s = 0.f;
        c = 0.f;
        for (int i = 0; i < 256; ++i) {
            float y = __fsub_rn(__fadd_rn(part[i], rest[i]), c), t = __fadd_rn(s, y);
            c = __fsub_rn(__fsub_rn(t, s), y);
            s = t;
        }
        totals[blockIdx.x] = s;
    }
}
''', "sums")


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x):
        a = cp.from_dlpack(x.detach())
        tops = TOP(a, axis=1)
        totals = cp.empty(self.batch, cp.float32)
        SUM((self.batch,), (256,), (a, tops, totals, cp.int32(self.vocab)))
        return torch.from_dlpack(DIVIDE(a, tops[:, None], totals[:, None]))
"""
LAUNCHED = "        SUM((self.batch,), (256,), (a, tops, totals, cp.int32(self.vocab)))\n"


def test_kernels_of_expressions_are_followed(tmp_path: Path) -> None:
    assert _told(tmp_path, EXPRESSIONS, SOFTMAX) == ("clean", set())
    plain = EXPRESSIONS.replace(LAUNCHED, "        totals = PLAIN(a, tops[:, None], axis=1)\n")
    assert _told(tmp_path, plain, SOFTMAX)[1] == {"KBH103"}
    unknown = EXPRESSIONS.replace('"y = exp(x - top) / total"', "open(__file__).read()")
    assert _told(tmp_path, unknown, SOFTMAX)[0] == "unproven"


def test_a_finding_points_at_the_expression(tmp_path: Path) -> None:
    plain = EXPRESSIONS.replace(LAUNCHED, "        totals = PLAIN(a, tops[:, None], axis=1)\n")
    (finding,) = report_of(tmp_path, plain, SOFTMAX).findings
    lines = plain.splitlines()
    places = [finding.span, *(related.span for related in finding.related)]
    assert any(place is not None and "PLAIN" in lines[place.line - 1] for place in places)


# --- other packages that compute on arrays are libraries

OTHERS = {
    "cuda.compute": "import cuda.compute\n", "cuda.cccl": "import cuda.cccl.parallel.experimental as parallel\n",
    "numba": "from numba import cuda\n", "nvmath": "import nvmath\n", "jax": "import jax\nimport jax.numpy as jnp\n",
}  # fmt: skip
TOPS = {
    "cuda.compute": "cuda.compute.reduce_into(x, tops, cuda.compute.OpKind.MAXIMUM, x.numel(), None)",
    "cuda.cccl": "parallel.algorithms.reduce_into(x, tops, max, None)(None, x, tops, x.numel(), None)",
    "numba": "tops = cuda.reduce(lambda a, b: max(a, b))(cuda.as_cuda_array(x))",
    "nvmath": "tops = nvmath.linalg.advanced.matmul(x, x.mT)",
    "jax": "tops = torch.from_dlpack(jnp.max(jax.dlpack.from_dlpack(x), axis=1))",
}


@pytest.mark.parametrize("package", OTHERS)
def test_what_other_packages_compute_is_not_the_submissions(tmp_path: Path, package: str) -> None:
    text = EXPRESSIONS.replace("import torch\n", f"import torch\n{OTHERS[package]}", 1)
    text = text.replace(
        "        tops = TOP(a, axis=1)\n", f"        tops = x.new_empty(self.batch)\n        {TOPS[package]}\n"
    )
    assert _told(tmp_path, text.replace("tops[:, None]", "cp.asarray(tops)[:, None]"), SOFTMAX)[0] != "clean"
