# expect: flagged partial-torch-compute
"""Scores and the triangular solve in torch, the recurrence in Triton."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def recurrence(qg, kd, u, w, aqk, last, o, N, C: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    bh = tl.program_id(0)
    dv = tl.program_id(1) * BV + tl.arange(0, BV)
    dk, c = tl.arange(0, K), tl.arange(0, C)
    s = tl.zeros((K, BV), tl.float32)
    for n in range(N):
        r = ((bh * N + n) * C + c)[:, None]
        sb = s.to(tl.bfloat16)
        x = (tl.load(u + r * V + dv[None, :]) - tl.dot(tl.load(w + r * K + dk[None, :]), sb)).to(tl.bfloat16)
        y = tl.dot(tl.load(qg + r * K + dk[None, :]), sb) + tl.dot(tl.load(aqk + r * C + c[None, :]), x)
        tl.store(o + r * V + dv[None, :], y.to(tl.bfloat16))
        s = s * tl.load(last + (bh * N + n) * K + dk)[:, None] + tl.dot(tl.trans(tl.load(kd + r * K + dk[None, :])), x)


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.scale = K**-0.5
        self.C = chunk_size
        self.register_buffer("_dummy", torch.zeros(1), persistent=False)

    def forward(self, q, k, v, g, beta):
        B, T, H, K = q.shape
        V, C = v.shape[-1], self.C
        q, k, v, g = (x.transpose(1, 2).reshape(B * H, T // C, C, -1).float() for x in (q, k, v, g))
        be = beta.transpose(1, 2).reshape(B * H, T // C, C, 1).float()
        gc = g.cumsum(2)
        ka, kb = k * gc.exp(), k * gc.neg().exp()
        a = torch.tril(torch.einsum("bncd,bnmd->bncm", ka * be, kb), -1)
        eye = torch.eye(C, device=a.device).expand_as(a)
        inv = torch.linalg.solve_triangular(eye + a, eye, upper=False)
        u = torch.matmul(inv, v * be).contiguous()
        w = torch.matmul(inv, ka * be).bfloat16()
        qg = (q * self.scale * gc.exp()).bfloat16()
        aqk = torch.tril(torch.matmul(qg.float(), kb.mT)).bfloat16()
        end = gc[:, :, -1:]
        kd = (k * (end - gc).exp()).bfloat16()
        o = torch.empty(B * H, T, V, dtype=torch.bfloat16, device=v.device)
        recurrence[(B * H, V // 32)](qg, kd, u, w, aqk, end.exp().contiguous(), o, T // C, C=C, K=K, V=V, BV=32)
        return o.view(B, H, T, V).transpose(1, 2).contiguous()
