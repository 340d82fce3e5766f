"""FP8 GEMM under `triton.autotune`, with a heuristic that drops the depth mask where tiles divide the depth."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K = 4096, 4096, 4096


def _configs() -> list[triton.Config]:
    table = [(128, 256, 64, 8), (128, 128, 128, 8), (64, 128, 128, 4)]
    return [
        triton.Config(
            {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "OPERAND": tl.float8e4nv}, num_warps=w, num_stages=st
        )
        for bm, bn, bk, w in table
        for st in (3, 4)
    ]


@triton.autotune(configs=_configs(), key=["m", "n", "k"])
@triton.heuristics({"EVEN_K": lambda args: args["k"] % args["BLOCK_K"] == 0})
@triton.jit
def tuned_gemm(
    x_ptr, w_ptr, s_ptr, y_ptr, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    OPERAND: tl.constexpr, EVEN_K: tl.constexpr,
):
    rm = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    xs = x_ptr + (rm % m)[:, None] * k + rk[None, :]
    ws = w_ptr + (rn % n)[None, :] * k + rk[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BLOCK_K)):
        if EVEN_K:
            a = tl.load(xs)
            b = tl.load(ws)
        else:
            left = k - step * BLOCK_K
            a = tl.load(xs, mask=rk[None, :] < left, other=0.0)
            b = tl.load(ws, mask=rk[:, None] < left, other=0.0)
        acc += tl.dot(a.to(OPERAND), b.to(OPERAND))
        xs += BLOCK_K
        ws += BLOCK_K
    acc = acc * tl.load(s_ptr + rn, mask=rn < n, other=1.0)[None, :]
    tl.store(y_ptr + rm[:, None] * n + rn[None, :], acc.to(tl.bfloat16), mask=(rm[:, None] < m) & (rn[None, :] < n))


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.empty(N, K)
        nn.init.normal_(w, std=0.02)
        s = w.abs().amax(dim=-1, keepdim=True) / 448.0
        self.register_buffer("weight", (w / s).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", s.squeeze(-1).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        m, k = x.shape
        n = self.N
        y = torch.empty((m, n), dtype=torch.bfloat16, device=x.device)

        def grid(meta):
            return triton.cdiv(n, meta["BLOCK_N"]), triton.cdiv(m, meta["BLOCK_M"])

        tuned_gemm[grid](x.contiguous(), self.weight, self.weight_scale, y, m, n, k)
        return y


def get_inputs():
    return [torch.empty((M, K)).uniform_(-4, 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
