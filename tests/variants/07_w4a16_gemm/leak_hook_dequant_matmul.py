# expect: flagged preunpacked-int4
"""Dense bf16 weights made in a load_state_dict post hook; cuBLAS through the @ operator on every call."""
import torch
import torch.nn as nn


def _dense(w_q, scales, zeros, group):
    k2, n = w_q.shape
    q = torch.empty(k2 * 2, n, dtype=torch.bfloat16, device=w_q.device)
    q[0::2] = (w_q & 0x0F).to(torch.bfloat16)
    q[1::2] = (w_q >> 4).to(torch.bfloat16)
    z = zeros.repeat_interleave(group, dim=0)
    s = scales.repeat_interleave(group, dim=0)
    return q.sub_(z).mul_(s)


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.group = group_size
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.wd = None
        self.register_load_state_dict_post_hook(self._after)

    @staticmethod
    def _after(module, keys):
        module.wd = _dense(module.w_q, module.scales, module.zeros, module.group)

    def forward(self, x):
        return x @ self.wd
