# expect: flagged identity-keyed-input-cache,pointer-keyed-stale-state
"""The tile schedule is derived from offsets once and found again by id()."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tiles_kernel(x, wg, wu, y, sched, H, I, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    t, nb = tl.program_id(0), tl.program_id(1)
    e = tl.load(sched + t * 3).to(tl.int64)
    rows = tl.load(sched + t * 3 + 1) + tl.arange(0, BM)
    end = tl.load(sched + t * 3 + 2)
    cols = nb * BN + tl.arange(0, BN)
    g = tl.zeros((BM, BN), tl.float32)
    u = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, H, BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * H + k[None, :], mask=(rows < end)[:, None], other=0.0)
        at = e * H * I + k[:, None] * I + cols[None, :]
        g = tl.dot(a, tl.load(wg + at), g)
        u = tl.dot(a, tl.load(wu + at), u)
    tl.store(y + rows[:, None] * I + cols[None, :], (g * tl.sigmoid(g) * u).to(tl.bfloat16), mask=(rows < end)[:, None])


_SCHEDULES = {}


def schedule_for(offsets, bm):
    key = (id(offsets), bm)
    found = _SCHEDULES.get(key)
    if found is None:
        o = offsets.tolist()
        rows = [(e, r, o[e + 1]) for e in range(len(o) - 1) for r in range(o[e], o[e + 1], bm)]
        found = _SCHEDULES[key] = torch.tensor(rows, dtype=torch.int32, device=offsets.device)
    return found


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        sched = schedule_for(expert_offsets, 64)
        _, H, I = self.W_gate.shape
        y = hidden_states.new_empty(hidden_states.shape[0], I)
        tiles_kernel[(sched.shape[0], I // 128)](hidden_states, self.W_gate, self.W_up, y, sched, H, I, BM=64, BN=128, BK=64)
        return y
