# expect: flagged library-gemm-wrapper,partial-torch-compute,fig-leaf-kernel,torch-matmul-fallback,torch-matmul-fallback-on-graded-shapes
"""torch._grouped_mm for both products, an own kernel for the activation."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def act(g, u, o, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    a = tl.load(g + i, mask=i < n).to(tl.float32)
    b = tl.load(u + i, mask=i < n).to(tl.float32)
    tl.store(o + i, (a * tl.sigmoid(a) * b).to(tl.bfloat16), mask=i < n)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        offs = expert_offsets[1:].to(torch.int32)
        g = torch._grouped_mm(hidden_states, self.W_gate, offs=offs)
        u = torch._grouped_mm(hidden_states, self.W_up, offs=offs)
        o = torch.empty_like(g)
        act[(triton.cdiv(g.numel(), 4096),)](g, u, o, g.numel(), B=4096)
        return o
