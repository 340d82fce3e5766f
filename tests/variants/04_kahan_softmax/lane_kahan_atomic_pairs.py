# expect: kept
"""Per-lane Kahan vectors in Triton over column chunks, partial pairs in a workspace, graph-captured with a refilled input."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def chunk_kernel(x, part, n, CHUNK: tl.constexpr, LANES: tl.constexpr):
    row, c = tl.program_id(0), tl.program_id(1)
    base = x + row.to(tl.int64) * n + c * CHUNK
    lane = tl.arange(0, LANES)
    m = tl.full((LANES,), -float("inf"), tl.float32)
    for o in tl.static_range(0, CHUNK, LANES):
        m = tl.maximum(m, tl.load(base + o + lane))
    top = tl.max(m, 0)
    s = tl.zeros((LANES,), tl.float32)
    e = tl.zeros((LANES,), tl.float32)
    for o in tl.static_range(0, CHUNK, LANES):
        v = tl.exp(tl.load(base + o + lane) - top) - e
        t = s + v
        e = (t - s) - v
        s = t
    slot = part + (row * tl.num_programs(1) + c) * 3
    tl.store(slot, top)
    tl.store(slot + 1, tl.sum(s, 0))
    tl.store(slot + 2, tl.sum(e, 0))


@triton.jit
def finish_kernel(x, y, part, n, CHUNKS: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr):
    row, c = tl.program_id(0), tl.program_id(1)
    top = -float("inf")
    for i in range(CHUNKS):
        top = tl.maximum(top, tl.load(part + (row * CHUNKS + i) * 3))
    s = 0.0
    e = 0.0
    for i in range(CHUNKS):
        p = part + (row * CHUNKS + i) * 3
        f = tl.exp(tl.load(p) - top)
        v = (tl.load(p + 1) - tl.load(p + 2)) * f - e
        t = s + v
        e = (t - s) - v
        s = t
    inv = 1.0 / s
    lane = tl.arange(0, LANES)
    for o in tl.static_range(0, CHUNK, LANES):
        idx = row.to(tl.int64) * n + c * CHUNK + o + lane
        tl.store(y + idx, tl.exp(tl.load(x + idx) - top) * inv)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.static = None

    def _go(self, x, y, part):
        b, n = x.shape
        chunk = 4096
        grid = (b, n // chunk)
        chunk_kernel[grid](x, part, n, CHUNK=chunk, LANES=1024)
        finish_kernel[grid](x, y, part, n, CHUNKS=n // chunk, CHUNK=chunk, LANES=1024)

    def forward(self, x):
        if self.static is None or self.static[0].shape != x.shape:
            sx, sy = torch.empty_like(x), torch.empty_like(x)
            part = torch.empty(x.shape[0], x.shape[1] // 4096, 3, device=x.device)
            sx.copy_(x)
            self._go(sx, sy, part)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._go(sx, sy, part)
            self.static = (sx, sy, graph)
        sx, sy, graph = self.static
        sx.copy_(x)
        graph.replay()
        return sy.clone()
