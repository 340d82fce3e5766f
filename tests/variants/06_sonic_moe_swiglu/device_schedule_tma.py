# expect: kept
"""Torch builds the tile map on the device (cumsum, searchsorted) each call; a persistent kernel uses device-side TMA."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


def _alloc(size, alignment, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


triton.set_allocator(_alloc)


@triton.jit
def _tile(x_desc, wg_desc, wu_desc, y, e, r0, r1, n0, H, I, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    g = tl.zeros((BM, BN), tl.float32)
    u = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, H, BK, warp_specialize=True):
        a = x_desc.load([r0, k])
        g = tl.dot(a, wg_desc.load([e * H + k, n0]), g)
        u = tl.dot(a, wu_desc.load([e * H + k, n0]), u)
    rows = r0 + tl.arange(0, BM)
    cols = n0 + tl.arange(0, BN)
    tl.store(y + rows[:, None].to(tl.int64) * I + cols[None, :], (g * tl.sigmoid(g) * u).to(tl.bfloat16), mask=(rows < r1)[:, None])


@triton.jit(do_not_specialize=["T"])
def persistent(x, wg, wu, y, off, starts, T, H, I, E: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
               SMS: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x, shape=[T, H], strides=[H, 1], block_shape=[BM, BK])
    wg_desc = tl.make_tensor_descriptor(wg, shape=[E * H, I], strides=[I, 1], block_shape=[BK, BN])
    wu_desc = tl.make_tensor_descriptor(wu, shape=[E * H, I], strides=[I, 1], block_shape=[BK, BN])
    nb = tl.cdiv(I, BN)
    total = tl.load(starts + E) * nb
    for job in range(tl.program_id(0), total, SMS):
        m = job // nb
        e = 0
        while tl.load(starts + e + 1) <= m:
            e += 1
        r0 = tl.load(off + e) + (m - tl.load(starts + e)) * BM
        _tile(x_desc, wg_desc, wu_desc, y, e, r0, tl.load(off + e + 1), (job % nb) * BN, H, I, BM, BN, BK)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.E, self.H, self.I = E, H, I
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self._sms = None

    @property
    def sms(self):
        if self._sms is None:
            self._sms = torch.cuda.get_device_properties("cuda").multi_processor_count
        return self._sms

    def forward(self, hidden_states, expert_offsets):
        BM = 128
        tiles = torch.div(expert_offsets.diff() + (BM - 1), BM, rounding_mode="floor")
        starts = torch.nn.functional.pad(tiles.cumsum(0, dtype=torch.int32), (1, 0))
        T = hidden_states.shape[0]
        y = torch.empty((T, self.I), device=hidden_states.device, dtype=torch.bfloat16)
        persistent[(self.sms,)](hidden_states, self.W_gate, self.W_up, y, expert_offsets, starts, T, self.H, self.I,
                                E=self.E, BM=BM, BN=128, BK=64, SMS=self.sms, num_warps=8, num_stages=3)
        return y
