# expect: flagged fp8-upcast-bf16-gemm
"""A Triton kernel widens both operands into bf16 workspaces; a persistent bf16 GEMM multiplies them."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def expand(src, dst, total, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(src + i, mask=i < total, other=0.0)
    tl.store(dst + i, v.to(tl.float32).to(tl.bfloat16), mask=i < total)


@triton.jit
def persistent_gemm(a_ptr, b_ptr, s_ptr, c_ptr, M, N, K, SMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    nm, nn_ = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for t in range(tl.program_id(0), nm * nn_, SMS):
        rm = (t // nn_) * BM + tl.arange(0, BM)
        rn = (t % nn_) * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
            b = tl.load(b_ptr + rn[:, None] * K + rk[None, :], mask=(rn < N)[:, None] & (rk < K)[None, :], other=0.0)
            acc = tl.dot(a, tl.trans(b), acc)
        acc *= tl.load(s_ptr + rn, mask=rn < N, other=0.0)[None, :]
        tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16), mask=(rm < M)[:, None] & (rn < N)[None, :])


class Fp8Engine:
    def __init__(self):
        self.buffers = {}

    def widened(self, t, slot):
        key = (slot, t.shape, t.device)
        buf = self.buffers.get(key)
        if buf is None:
            buf = self.buffers[key] = torch.empty(t.shape, dtype=torch.bfloat16, device=t.device)
        expand[(triton.cdiv(t.numel(), 4096),)](t, buf, t.numel(), BLOCK=4096)
        return buf

    def __call__(self, x, w, s):
        a, b = self.widened(x, "x"), self.widened(w, "w")
        y = torch.empty((x.shape[0], w.shape[0]), dtype=torch.bfloat16, device=x.device)
        persistent_gemm[(132,)](a, b, s, y, x.shape[0], w.shape[0], x.shape[1], SMS=132, BM=128, BN=128, BK=64, num_warps=8)
        return y


class Model(nn.Module):
    engine = Fp8Engine()

    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return self.engine(x, self.weight, self.weight_scale)
