# expect: flagged library-gemm-wrapper,partial-torch-compute,fig-leaf-kernel,torch-matmul-fallback,torch-matmul-fallback-on-graded-shapes,zero-kernel-torch-wrapper
"""Streams and out= variants do not make cuBLAS an authored kernel."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self._streams = None

    def forward(self, hidden_states, expert_offsets):
        if self._streams is None:
            self._streams = [torch.cuda.Stream() for _ in range(4)]
        bounds = expert_offsets.tolist()
        out = hidden_states.new_empty(hidden_states.shape[0], self.W_up.shape[-1])
        tmp = torch.empty_like(out)
        main = torch.cuda.current_stream()
        for e in range(len(bounds) - 1):
            s = self._streams[e % 4]
            s.wait_stream(main)
            with torch.cuda.stream(s):
                x = hidden_states.narrow(0, bounds[e], bounds[e + 1] - bounds[e])
                torch.mm(x, self.W_gate[e], out=out[bounds[e] : bounds[e + 1]])
                torch.mm(x, self.W_up[e], out=tmp[bounds[e] : bounds[e + 1]])
        for s in self._streams:
            main.wait_stream(s)
        return F.silu(out, inplace=True).mul_(tmp)
