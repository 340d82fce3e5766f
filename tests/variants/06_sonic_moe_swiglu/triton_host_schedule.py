# expect: kept
"""Host-side tile schedule rebuilt on every call from offsets; the kernel class holds strategy objects."""
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _silu(x):
    return x * (1.0 / (1.0 + tl.exp(-x)))


@triton.jit
def _gemm_swiglu(x_ptr, wg_ptr, wu_ptr, y_ptr, tiles_ptr, H, I,
                 BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    nb = tl.cdiv(I, BN)
    tile = pid // nb
    cols = (pid % nb) * BN + tl.arange(0, BN)
    e = tl.load(tiles_ptr + 3 * tile).to(tl.int64)
    r0 = tl.load(tiles_ptr + 3 * tile + 1)
    r1 = tl.load(tiles_ptr + 3 * tile + 2)
    rows = r0 + tl.arange(0, BM)
    k = tl.arange(0, BK)
    a = tl.make_block_ptr(x_ptr, (r1, H), (H, 1), (r0, 0), (BM, BK), (1, 0))
    g = tl.make_block_ptr(wg_ptr + e * H * I, (H, I), (I, 1), (0, (pid % nb) * BN), (BK, BN), (1, 0))
    u = tl.make_block_ptr(wu_ptr + e * H * I, (H, I), (I, 1), (0, (pid % nb) * BN), (BK, BN), (1, 0))
    ag = tl.zeros((BM, BN), tl.float32)
    au = tl.zeros((BM, BN), tl.float32)
    for _ in range(tl.cdiv(H, BK)):
        t = tl.load(a, boundary_check=(0,), padding_option="zero")
        ag += tl.dot(t, tl.load(g))
        au += tl.dot(t, tl.load(u))
        a = tl.advance(a, (0, BK))
        g = tl.advance(g, (BK, 0))
        u = tl.advance(u, (BK, 0))
    out = (_silu(ag) * au).to(y_ptr.type.element_ty)
    tl.store(y_ptr + rows[:, None].to(tl.int64) * I + cols[None, :], out, mask=(rows < r1)[:, None])


@dataclass
class Tile:
    bm: int = 128
    bn: int = 128
    bk: int = 64
    warps: int = 8
    stages: int = 3
    extra: dict = field(default_factory=dict)


class Strategy(ABC):
    @abstractmethod
    def schedule(self, offsets: torch.Tensor) -> torch.Tensor: ...

    @property
    def tile(self) -> Tile:
        return self._tile

    def __init__(self, tile: Tile):
        self._tile = tile


class HostSchedule(Strategy):
    def schedule(self, offsets):
        bounds = offsets.cpu().tolist()
        rows = []
        for e, (lo, hi) in enumerate(zip(bounds[:-1], bounds[1:])):
            for r in range(lo, hi, self.tile.bm):
                rows.append((e, r, hi))
        return torch.tensor(rows, dtype=torch.int32).to(offsets.device, non_blocking=True)


class Model(nn.Module):
    strategies = {"host": HostSchedule}

    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.empty(E, H, I, dtype=torch.bfloat16))
        self.strategy = self.strategies["host"](Tile(bm=128 if T_total * K // E > 64 else 64))

    def forward(self, hidden_states, expert_offsets):
        t = self.strategy.tile
        tiles = self.strategy.schedule(expert_offsets)
        _, H, I = self.W_gate.shape
        y = torch.empty(hidden_states.size(0), I, dtype=hidden_states.dtype, device=hidden_states.device)
        grid = (tiles.size(0) * triton.cdiv(I, t.bn),)
        _gemm_swiglu[grid](hidden_states, self.W_gate, self.W_up, y, tiles, H, I,
                           BM=t.bm, BN=t.bn, BK=t.bk, GROUP=8, num_warps=t.warps, num_stages=t.stages, **t.extra)
        return y
