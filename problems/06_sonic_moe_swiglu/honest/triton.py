"""Grouped GEMM with SwiGLU in one launch: a program makes one tile of the output of one expert.

The number of tiles of an expert follows from expert_offsets, which only the device knows. So the grid has as many
programs as any routing can need; each one reads the offsets, counts the tiles of every expert, finds its own expert and
tile by a running sum, and leaves when there is none. Gate and up share the rows: one load of x feeds two accumulators,
and SwiGLU is applied to them in float32. Tiles come through tensor descriptors, which read zero past H and I; rows past
the end of an expert belong to the next one and are not stored.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def expert_tile(
    x, gate, up, out, offsets, H, I,
    E: tl.constexpr, EP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    expert = tl.arange(0, EP)
    starts = tl.load(offsets + expert, mask=expert < E, other=0)
    stops = tl.load(offsets + expert + 1, mask=expert < E, other=0)
    columns = tl.cdiv(I, BN)
    tiles = tl.cdiv(stops - starts, BM) * columns
    ends = tl.cumsum(tiles, 0)
    e = tl.sum((ends <= program).to(tl.int32), 0)
    if e >= E:
        return
    mine = expert == e
    first = tl.sum(tl.where(mine, starts, 0), 0)
    stop = tl.sum(tl.where(mine, stops, 0), 0)
    local = program - tl.sum(tl.where(mine, ends - tiles, 0), 0)

    # Bands of GROUP row tiles: neighbours in time share the weights of a column and the rows of a band.
    band = local // (GROUP * columns)
    height = tl.minimum(tl.cdiv(stop - first, BM) - band * GROUP, GROUP)
    inside = local - band * GROUP * columns
    row = first + (band * GROUP + inside % height) * BM
    column = inside // height * BN

    gates = tl.zeros((BM, BN), tl.float32)
    ups = tl.zeros((BM, BN), tl.float32)
    for k in range(0, H, BK):
        a = x.load([row, k])
        gates = tl.dot(a, gate.load([e, k, column]).reshape(BK, BN), gates)
        ups = tl.dot(a, up.load([e, k, column]).reshape(BK, BN), ups)
    result = gates / (1.0 + tl.exp(-gates)) * ups

    rows = row + tl.arange(0, BM)
    cols = column + tl.arange(0, BN)
    at = out + rows[:, None].to(tl.int64) * I + cols[None, :]
    tl.store(at, result.to(tl.bfloat16), mask=(rows < stop)[:, None] & (cols < I)[None, :])


class Model(nn.Module):
    """hidden_states [rows, H] bf16, grouped by expert_offsets [E+1] -> silu(x @ W_gate[e]) * (x @ W_up[e]), bf16."""

    BM, BN, BK, GROUP, WARPS, STAGES = 128, 128, 64, 8, 8, 4

    def __init__(self, T_total: int, H: int, I: int, E: int, K: int) -> None:  # noqa: E741
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states: torch.Tensor, expert_offsets: torch.Tensor) -> torch.Tensor:
        rows, H = hidden_states.shape
        E, _, I = self.W_gate.shape  # noqa: E741
        out = torch.empty(rows, I, dtype=hidden_states.dtype, device=hidden_states.device)
        x = TensorDescriptor.from_tensor(hidden_states, [self.BM, self.BK])
        gate = TensorDescriptor.from_tensor(self.W_gate, [1, self.BK, self.BN])
        up = TensorDescriptor.from_tensor(self.W_up, [1, self.BK, self.BN])
        # Each expert adds at most one tile that is not full.
        programs = (rows // self.BM + E) * triton.cdiv(I, self.BN)
        expert_tile[(programs,)](
            x, gate, up, out, expert_offsets, H, I, E=E, EP=triton.next_power_of_2(E), BM=self.BM, BN=self.BN,
            BK=self.BK, GROUP=self.GROUP, num_warps=self.WARPS, num_stages=self.STAGES,
        )  # fmt: skip
        return out
