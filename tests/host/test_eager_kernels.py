"""TileLang functions that are called with tensors and build themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import classes, lint, states

HEAD = """import torch
import torch.nn as nn
import tilelang
import tilelang.language as T
"""
GEMM = """

TUNED@tilelang.jit
def gemm(A, B, S, tile_m, tile_n, deep=64, dtype=T.float8_e4m3fn):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K), dtype)
    S: T.Tensor([N], T.float32)
    C = T.empty((M, N), T.bfloat16)
    rounds = T.ceildiv(K, deep)

    with T.Kernel(T.ceildiv(N, tile_n), T.ceildiv(M, tile_m), threads=128) as (bx, by):
        a, b = T.alloc_shared((tile_m, deep), dtype), T.alloc_shared((tile_n, deep), dtype)
        total = T.alloc_fragment((tile_m, tile_n), T.float32)
        T.clear(total)
        for k in T.Pipelined(rounds, num_stages=3):
            T.copy(A[by * tile_m, k * deep], a)
            T.copy(B[bx * tile_n, k * deep], b)
            T.gemm(a, b, total, transpose_B=True)
        for i, j in T.Parallel(tile_m, tile_n):
            total[i, j] = total[i, j] * S[bx * tile_n + j]
        T.copy(total, C[by * tile_m, bx * tile_n])

    return C
"""
MODEL = """

class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return gemm(CALL)
"""
CALL = "x, self.weight, self.weight_scale, 64, tile_n=128"
WIDE = "x.half(), self.weight.half(), self.weight_scale, 64, tile_n=128, dtype=T.float16"
TUNED = "@tilelang.autotune(configs=[{'tile_n': n, 'deep': d} for n in (64, 128) for d in (64, 128)])\n"


def program(call: str, tuned: str = "", kernel: str = GEMM) -> str:
    return HEAD + kernel.replace("TUNED", tuned) + MODEL.replace("CALL", call)


@pytest.mark.parametrize("tuned", ["", TUNED])
def test_a_kernel_that_builds_itself_is_read(tmp_path: Path, tuned: str) -> None:
    report = lint(tmp_path, program(CALL, tuned))
    assert set(states(report).values()) == {"kept"}
    assert report.verdict == "clean"


@pytest.mark.parametrize("tuned", ["", TUNED])
def test_by_what_its_products_run_on(tmp_path: Path, tuned: str) -> None:
    assert "fp8-upcast-bf16-gemm" in classes(lint(tmp_path, program(WIDE, tuned)))


def test_shapes_may_have_names_of_their_own(tmp_path: Path) -> None:
    kernel = GEMM.replace("    A: T.Tensor((M, K), dtype)\n", "    a_shape = (M, K)\n    A: T.Tensor(a_shape, dtype)\n")
    kernel = kernel.replace(
        "    B: T.Tensor((N, K)", "    turned = dtype is None\n    B: T.Tensor([K, N] if turned else [N, K]"
    )
    assert lint(tmp_path, program(CALL, kernel=kernel)).verdict == "clean"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('M, N, K = T.const("M, N, K")', 'M, N, K, R = T.const("M, N, K, R")'),  # what nothing binds
        ("    B: T.Tensor((N, K), dtype)\n", ""),  # a tensor that is not declared
        ("    return C\n", "    C.add_(1)\n    return C\n"),
    ],
)
def test_another_form_is_not_read(tmp_path: Path, old: str, new: str) -> None:
    assert lint(tmp_path, program(CALL, kernel=GEMM.replace(old, new))).verdict == "unproven"


OVER = (  # another shape over the memory of an input
    ("        T.clear(total)\n", "        flat = T.Tensor((M * K,), dtype, A.data)\n        T.clear(total)\n"),
    (
        "            T.copy(A[by * tile_m, k * deep], a)\n",
        "            for i, j in T.Parallel(tile_m, deep):\n"
        "                a[i, j] = flat[(by * tile_m + i) * K + k * deep + j]\n",
    ),
)


def over(kernel: str) -> str:
    for old, new in OVER:
        assert old in kernel, old
        kernel = kernel.replace(old, new)
    return kernel


def test_another_shape_over_an_input_is_that_input(tmp_path: Path) -> None:
    assert lint(tmp_path, program(CALL, kernel=over(GEMM))).verdict == "clean"
    assert "fp8-upcast-bf16-gemm" in classes(lint(tmp_path, program(WIDE, kernel=over(GEMM))))


def test_a_shape_over_nothing_is_not_read(tmp_path: Path) -> None:
    kernel = over(GEMM).replace("dtype, A.data)", "dtype)")
    assert lint(tmp_path, program(CALL, kernel=kernel)).verdict == "unproven"


def test_columns_of_windows_are_copies(tmp_path: Path) -> None:
    copy, columns = "T.copy(A[by * tile_m, k * deep], a)", "T.im2col(A, a, by, k, 1, 1, 1, 0)"
    assert copy in GEMM
    assert lint(tmp_path, program(CALL, kernel=GEMM.replace(copy, columns))).verdict == "clean"
    assert "fp8-upcast-bf16-gemm" in classes(lint(tmp_path, program(WIDE, kernel=GEMM.replace(copy, columns))))
