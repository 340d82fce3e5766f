"""Measure how exactly a GPU adds fp8 products, beside the model of it that problem 01's tolerance is derived from.

For each K: a Triton kernel that keeps the whole K loop in the tensor core's accumulator, the same kernel promoting to
fp32 every 128 products, torch._scaled_mm with and without fast accumulation, and `grader.deck.precision.matmul`. Each
is held against fp64; `equal` is the share of outputs whose bits agree with the model's.

    python tools/measure_fp8_accumulation.py [--k 32 128 1024 4096 8192] [--size 512] [--out FILE]
    python tools/measure_fp8_accumulation.py --store FILE    # on any machine: into problem 01's tolerance.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grader.deck.precision import matmul
from kbh_lint.base.paths import problems_dir

QUANTILES = (0.5, 0.99, 0.9999)
BLOCK = 64
TILE_K = 128


@triton.jit  # type: ignore[untyped-decorator]
def _product(a, b, y, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROMOTE: tl.constexpr):  # type: ignore[no-untyped-def]
    """y [m, n] f32 = a [m, k] e4m3 @ b [n, k]^T e4m3; `PROMOTE` adds every tile's product in fp32 instead."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + start + inner[None, :])
        right = tl.load(b + columns[None, :] * k + start + inner[:, None])
        if PROMOTE:
            total = tl.dot(left, right, total, max_num_imprecise_acc=BK)
        else:
            total = tl.dot(left, right, total)
    tl.store(y + rows[:, None] * n + columns[None, :], total)


def triton_product(a: torch.Tensor, b: torch.Tensor, promote: bool) -> torch.Tensor:
    """a [M, K] e4m3, b [N, K] e4m3 -> [M, N] f32."""
    out = torch.empty(a.shape[0], b.shape[0], dtype=torch.float32, device=a.device)
    grid = (a.shape[0] // BLOCK, b.shape[0] // BLOCK)
    _product[grid](a, b, out, b.shape[0], a.shape[1], BLOCK, BLOCK, min(a.shape[1], TILE_K), promote, num_warps=4)
    return out


def library_product(a: torch.Tensor, b: torch.Tensor, fast: bool) -> torch.Tensor:
    """The vendor's fp8 GEMM with fp32 output."""
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.T, one, one, out_dtype=torch.float32, use_fast_accum=fast)


def operands(size: int, k: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Operands as problem 01 draws them."""
    torch.manual_seed(k)
    a = (torch.rand(size, k, device=device) * 8 - 4).to(torch.float8_e4m3fn)
    weight = torch.randn(size, k, device=device)
    return a, (weight / (weight.abs().amax(1, keepdim=True) / 448)).to(torch.float8_e4m3fn)


def errors(got: torch.Tensor, exact: torch.Tensor) -> list[float]:
    """Quantiles and maximum of |got - exact| over |exact| + the row's root mean square."""
    scale = exact.abs() + exact.pow(2).mean(-1, keepdim=True).sqrt()
    ratio = ((got.double() - exact).abs() / scale).flatten()
    where = torch.tensor(QUANTILES, dtype=torch.float64, device=ratio.device)
    return [float(f"{value:.3g}") for value in [*ratio.quantile(where).tolist(), ratio.max().item()]]


def measure(size: int, k: int) -> dict[str, Any]:
    """One K: method -> errors, and the share of outputs equal to the model's."""
    a, b = operands(size, k, "cuda")
    exact = a.double() @ b.double().T
    model = matmul(a, b.T, "e4m3-wgmma")
    methods: dict[str, Callable[[], torch.Tensor]] = {
        "model": lambda: model,
        "f32": lambda: matmul(a, b.T),
        "triton": lambda: triton_product(a, b, False),
        "triton, promoted every 128": lambda: triton_product(a, b, True),
        "scaled_mm, fast": lambda: library_product(a, b, True),
        "scaled_mm, not fast": lambda: library_product(a, b, False),
    }
    found: dict[str, Any] = {}
    for name, run in methods.items():
        try:
            got = run()
        except RuntimeError as error:
            found[name] = {"refused": str(error).splitlines()[0]}
            continue
        found[name] = {"errors": errors(got, exact), "equal": round((got == model).float().mean().item(), 4)}
    return found


def store(result: Path) -> int:
    """Put a measurement into problem 01's tolerance.json, as `measured`."""
    path = problems_dir() / "01_fp8_gemm" / "tolerance.json"
    try:
        measured, kept = json.loads(result.read_text()), json.loads(path.read_text())
    except (OSError, ValueError) as fault:
        print(f"cannot read {result} or {path}: {fault}", file=sys.stderr)
        return 2
    text = path.read_text().rstrip().removesuffix("}").rstrip()
    if "measured" in kept:
        text = text[: text.rindex(',\n  "measured"')]
    path.write_text(f'{text},\n  "measured": {json.dumps(measured)}\n}}\n')
    return 0


def main() -> int:
    """Print one line a method and K; with --out also JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--k", type=int, nargs="+", default=[32, 128, 1024, 4096, 8192])
    parser.add_argument("--size", type=int, default=512, help="rows and columns, a multiple of 64")
    parser.add_argument("--out", type=Path, help="write the measurement here too")
    parser.add_argument("--store", type=Path, help="keep a measurement that --out wrote beside the tolerance")
    options = parser.parse_args()
    if options.store:
        return store(options.store)
    if not torch.cuda.is_available():
        print("this measures a GPU and there is none", file=sys.stderr)
        return 2
    if options.size % BLOCK or any(k not in (32, 64) and k % TILE_K for k in options.k):
        print(f"--size must be a multiple of {BLOCK} and each K 32, 64 or a multiple of {TILE_K}", file=sys.stderr)
        return 2
    versions = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    result = {**versions, "size": options.size, "quantiles": [*QUANTILES, 1.0], "k": {}}
    print(*versions.values())
    for k in options.k:
        result["k"][str(k)] = measure(options.size, k)
        for name, row in result["k"][str(k)].items():
            print(f"K={k:<5} {name:27} {row.get('errors') or row['refused']} equal {row.get('equal')}")
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
