# expect: flagged library-gemm-wrapper
"""The library's 4-bit product, with the weights repacked for it at the first call."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self._packed = None

    def forward(self, x):
        if self._packed is None:
            q = torch.stack((self.w_q & 15, self.w_q >> 4), 1).reshape(-1, self.w_q.shape[1]).t().contiguous()
            q = (q[:, ::2] << 4 | q[:, 1::2]).to(torch.uint8)
            self._packed = torch.ops.aten._convert_weight_to_int4pack(q, 8)
            self._sz = torch.stack((self.scales, (8 - self.zeros) * self.scales), -1).contiguous()
        return torch.ops.aten._weight_int4pack_mm(x, self._packed, 128, self._sz)
