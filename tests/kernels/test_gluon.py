"""Gluon kernels: their products, on which types, from shared memory, tensor memory and registers."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.findings import FileReport

HEAD = """\
import torch
import torch.nn as nn
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout, allocate_tensor_memory, get_tmem_reg_layout, tcgen05_commit, tcgen05_mma
)
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def fetch(a_desc, b_desc, a_smem, b_smem, bar, m, n, k):
    mbarrier.expect(bar, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(a_desc, [m, k], bar, a_smem)
    tma.async_copy_global_to_shared(b_desc, [n, k], bar, b_smem)
    mbarrier.wait(bar, phase=0)


@gluon.jit
def gemm(a_desc, b_desc, scale, y, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    a_smem = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b_smem = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    regs: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BN, 32])
START
    for k in range(0, K, BK):
        fetch(a_desc, b_desc, a_smem, b_smem, bar, m, n, k)
STEP
END
    rows = m + gl.arange(0, BM, layout=gl.SliceLayout(1, regs))
    cols = n + gl.arange(0, BN, layout=gl.SliceLayout(0, regs))
    out = acc * gl.load(scale + cols)[None, :]
    gl.store(y + rows[:, None] * N + cols[None, :], out.to(gl.bfloat16))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        (M, K), N = x.shape, self.weight.shape[0]
        y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
        layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float8e4nv)
        a = TensorDescriptor.from_tensor(x, [64, 64], layout)
        b = TensorDescriptor.from_tensor(self.weight, [128, 64], layout)
        gemm[(triton.cdiv(M, 64), N // 128)](a, b, self.weight_scale, y, N, K, BM=64, BN=128, BK=64, num_warps=4)
        return y
"""
ZERO = "acc = gl.zeros([BM, BN], gl.float32, layout=regs)"
TMEM = (
    "lay: gl.constexpr = TensorMemoryLayout([BM, BN], col_stride=1)\n"
    "    tmem = allocate_tensor_memory(gl.float32, [BM, BN], lay)"
)
WAYS = {
    "wgmma": (
        ZERO,
        "acc = warpgroup_mma(a_smem, b_smem.permute((1, 0)), acc, is_async=True)",
        "acc = warpgroup_mma_wait(0, deps=[acc])",
    ),
    "mma.sync": (ZERO, "acc = mma_v2(a_smem.load(regs), b_smem.permute((1, 0)).load(regs), acc)", "pass"),
    "tcgen05": (
        TMEM,
        "tcgen05_mma(a_smem, b_smem.permute((1, 0)), tmem, use_acc=k != 0)\n        tcgen05_commit(bar)",
        "acc = tmem.load(get_tmem_reg_layout(gl.float32, (BM, BN), lay, 4))",
    ),
}
WIDE = "acc = mma_v2(a_smem.load(regs).to(gl.bfloat16), b_smem.permute((1, 0)).load(regs).to(gl.bfloat16), acc)"


def lint(folder: Path, start: str, step: str, end: str, edits: tuple[tuple[str, str], ...] = ()) -> FileReport:
    text = HEAD.replace("START", f"    {start}").replace("STEP", f"        {step}").replace("END", f"    {end}")
    for old, new in edits:
        text = text.replace(old, new)
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem="01_fp8_gemm", raise_errors=True).files[0]


@pytest.mark.parametrize("way", WAYS)
def test_an_fp8_product_in_gluon_keeps_the_promises(tmp_path: Path, way: str) -> None:
    report = lint(tmp_path, *WAYS[way])
    assert {p.state for p in report.promises} == {"kept"}, ([h.reason for h in report.unread], report.findings)
    assert report.verdict == "clean"


def test_functions_do_what_they_do_under_other_names(tmp_path: Path) -> None:
    spelled = "tma.async_copy_global_to_shared("
    assert spelled in HEAD
    report = lint(
        tmp_path,
        *WAYS["wgmma"],
        edits=((spelled, "fill("), ("\nclass Model", f"\nfill = {spelled[:-1]}\n\nclass Model")),
    )
    assert {p.state for p in report.promises} == {"kept"}, ([h.reason for h in report.unread], report.findings)


def test_a_product_of_widened_operands_in_gluon_breaks_them(tmp_path: Path) -> None:
    report = lint(tmp_path, ZERO, WIDE, "pass")
    assert "fp8-upcast-bf16-gemm" in {f.leak_class for f in report.findings}, [h.reason for h in report.unread]


def test_what_gluon_has_and_is_not_known_leaves_promises_open(tmp_path: Path) -> None:
    report = lint(tmp_path, ZERO, "acc = gl.nvidia.hopper.future_mma(a_smem, b_smem, acc)", "pass")
    assert report.verdict == "unproven"


KEPT = (
    "kept = gl.allocate_shared_memory(gl.KIND, [BM, BN], a_desc.layout)\n"
    "    kept.store(gl.zeros([BM, BN], gl.KIND, layout=regs))\n    acc = gl.zeros([BM, BN], gl.float32, layout=regs)"
)
ANEW = "acc = mma_v2(a_smem.load(regs), b_smem.permute((1, 0)).load(regs), gl.zeros([BM, BN], gl.float32, layout=regs))"
ROUNDS = {
    "an accumulator": (
        "acc = mma_v2(a_smem.load(regs), b_smem.permute((1, 0)).load(regs), kept.load(regs).to(gl.float32))\n"
        "        kept.store(acc.to(gl.KIND))",
        True,
    ),
    "a sum": (f"{ANEW}\n        acc += kept.load(regs).to(gl.float32)\n        kept.store(acc.to(gl.KIND))", True),
    "begun anew": (f"{ANEW}\n        kept.store(acc.to(gl.KIND))\n        acc = kept.load(regs) + acc", False),
}


@pytest.mark.parametrize("way", ROUNDS)
def test_a_total_that_shared_memory_keeps_in_16_bits(tmp_path: Path, way: str) -> None:
    step, found = ROUNDS[way]
    for kind in ("bfloat16", "float32"):
        report = lint(tmp_path, KEPT, step, "pass", edits=(("KIND", kind),))
        narrow = {f.rule for f in report.findings if "accumulators" in f.message}
        assert narrow == ({"KBH403"} if found and kind == "bfloat16" else set()), [h.reason for h in report.unread]
