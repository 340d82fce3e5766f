# expect: kept
"""fp8 kernel with a CPU path, an exception path and a once-only self test against torch; none of them decides the result."""
import logging
import os
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fp8_mm(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(x + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :] * K + rk[:, None], mask=(rk < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(y + rm[:, None] * N + rn[None, :], (acc * tl.load(s + rn)[None, :]).to(tl.bfloat16), mask=(rm < M)[:, None])


def run_fp8(x, w, s, out=None):
    m, k = x.shape
    n = w.shape[0]
    y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device) if out is None else out
    fp8_mm[(triton.cdiv(m, 64), triton.cdiv(n, 128))](x, w, s, y, m, n, k, BM=64, BN=128, BK=64)
    return y


log = logging.getLogger(__name__)
_STATE = {"ok": None}


def _reference(x, w, s):
    return ((x.float() @ w.float().t()) * s).bfloat16()


def _self_test(device):
    if _STATE["ok"] is None:
        try:
            a = torch.randn(64, 128, device=device).to(torch.float8_e4m3fn)
            b = torch.randn(128, 128, device=device).to(torch.float8_e4m3fn)
            s = torch.ones(128, device=device)
            got, want = run_fp8(a, b, s).float(), _reference(a, b, s).float()
            _STATE["ok"] = bool(torch.allclose(got, want, rtol=0.1, atol=0.5))
        except Exception as exc:  # pragma: no cover
            log.warning("fp8 kernel unavailable: %s", exc)
            _STATE["ok"] = False
    return _STATE["ok"]


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        if not x.is_cuda or os.environ.get("FP8_FORCE_REFERENCE"):
            return _reference(x, self.weight, self.weight_scale)
        if not _self_test(x.device):
            return _reference(x, self.weight, self.weight_scale)
        try:
            return run_fp8(x, self.weight, self.weight_scale)
        except RuntimeError:
            return _reference(x, self.weight, self.weight_scale)
