"""FP8 GEMM replayed from a CUDA graph; each call refills the static input and copies the result out."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

M, N, K = 4096, 4096, 4096


@triton.jit
def graph_gemm(x_ptr, w_ptr, s_ptr, y_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, k, BK):
        rk = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * k + rk[None, :], mask=(rm < m)[:, None] & (rk < k)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[:, None] * k + rk[None, :], mask=(rn < n)[:, None] & (rk < k)[None, :], other=0.0)
        acc += tl.dot(x, tl.trans(w))
    acc *= tl.load(s_ptr + rn, mask=rn < n, other=0.0)[None, :]
    tl.store(y_ptr + rm[:, None] * n + rn[None, :], acc.to(tl.bfloat16), mask=(rm < m)[:, None] & (rn < n)[None, :])


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.randn(N, K) * 0.02
        scale = w.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (w / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._captured = None

    def _step(self) -> None:
        m, k = self._x.shape
        n = self.N
        bm = 64 if m <= 64 else 128
        graph_gemm[(triton.cdiv(m, bm), triton.cdiv(n, 128))](
            self._x, self.weight, self.weight_scale, self._y, m, n, k, BM=bm, BN=128, BK=128, num_warps=8
        )

    def _capture(self, x: torch.Tensor) -> None:
        self._x = torch.empty_like(x)
        self._y = torch.empty(x.shape[0], self.N, dtype=torch.bfloat16, device=x.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph
        self._captured = (x.shape, x.device, self.weight.data_ptr(), self.weight_scale.data_ptr())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._captured != (x.shape, x.device, self.weight.data_ptr(), self.weight_scale.data_ptr()):
            self._capture(x)
        self._x.copy_(x)
        self._graph.replay()
        return self._y.clone()


def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
