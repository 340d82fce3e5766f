"""Tables of pointers that Python fills, for kernels of CUDA and Triton."""

from __future__ import annotations

from pathlib import Path

import pytest
from pointer_table_programs import BY_TABLES, HEAD, MODEL, cuda, linted

PARTS = (
    BY_TABLES
    + """
void run(at::Tensor xs, at::Tensor gates, at::Tensor ups, at::Tensor ys, at::Tensor n, int64_t H, int64_t I) {
  grouped<<<dim3((I + 127) / 128, 64, n.size(0)), 128>>>((const bf16**)xs.data_ptr(), (const bf16**)gates.data_ptr(),
      (const bf16**)ups.data_ptr(), (bf16**)ys.data_ptr(), n.data_ptr<int>(), H, I);
}
"""
)
PIECES = "void run(at::Tensor xs, at::Tensor gates, at::Tensor ups, at::Tensor ys, at::Tensor n, int64_t H, int64_t I);"
TRITON = """import triton
import triton.language as tl


@triton.jit
def grouped(xs, gates, ups, ys, counts, H, I, E: tl.constexpr, B: tl.constexpr, PROGRAMS: tl.constexpr):
    tile = tl.program_id(0)
    last = 0
    for e in range(E):
        m = tl.load(counts + e)
        columns = tl.cdiv(I, B)
        tiles = tl.cdiv(m, B) * columns
        while tile >= last and tile < last + tiles:
            x = tl.load(xs + e).to(tl.pointer_type(tl.bfloat16))
            gate = tl.load(gates + e).to(tl.pointer_type(tl.bfloat16))
            up = tl.load(ups + e).to(tl.pointer_type(tl.bfloat16))
            y = tl.load(ys + e).to(tl.pointer_type(tl.bfloat16))
            rows = (tile - last) // columns * B + tl.arange(0, B)
            cols = (tile - last) % columns * B + tl.arange(0, B)
            ks = tl.arange(0, B)
            g = tl.zeros((B, B), tl.float32)
            u = tl.zeros((B, B), tl.float32)
            for k in range(0, H, B):
                a = tl.load(x + rows[:, None] * H + k + ks[None, :], mask=rows[:, None] < m, other=0.0)
                g = tl.dot(a, tl.load(gate + (k + ks)[:, None] * I + cols[None, :]), g)
                u = tl.dot(a, tl.load(up + (k + ks)[:, None] * I + cols[None, :]), u)
            r = g / (1.0 + tl.exp(-g)) * u
            tl.store(y + rows[:, None] * I + cols[None, :], r.to(tl.bfloat16), mask=rows[:, None] < m)
            tile += PROGRAMS
        last += tiles
"""
ARITHMETIC = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        first, n = FIRST
        e = torch.arange(E, device=dev)
        xs = hidden_states.data_ptr() + first * (2 * H)
        ys = out.data_ptr() + first * (2 * I)
        gates = self.W_gate.data_ptr() + e * (2 * H * I)
        ups = self.W_up.data_ptr() + e * (2 * H * I)
        LAUNCH
        return out
"""
OF_OFFSETS = "expert_offsets[:-1].long(), expert_offsets[1:] - expert_offsets[:-1]"
ALIKE = "[torch.full((E,), hidden_states.shape[0] // E, device=dev) * k for k in (torch.arange(E, device=dev), 1)]"
LISTS = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        n = expert_offsets[1:] - expert_offsets[:-1]
        off = expert_offsets.tolist()
        table = lambda rows: torch.tensor([r.data_ptr() for r in rows], dtype=torch.int64, device=dev)
        xs, ys = (table([t[off[e]:] for e in range(E)]) for t in (hidden_states, out))
        gates, ups = table(self.W_gate.unbind(0)), table([self.W_up[e] for e in range(E)])
        LAUNCH
        return out
"""
ONE_TABLE = """
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        off = expert_offsets.tolist()
        host = torch.empty(4, E, dtype=torch.int64)
        for e in range(E):
            host[0, e] = hidden_states[off[e]:].data_ptr()
            host[1, e] = self.W_gate[e].data_ptr()
            host[2, e] = self.W_up[e].data_ptr()
            host[3, e] = out[off[e]:].data_ptr()
        xs, gates, ups, ys = host.to(dev, non_blocking=True)
        n = expert_offsets[1:] - expert_offsets[:-1]
        LAUNCH
        return out
"""
KEPT = """
        n = expert_offsets[1:] - expert_offsets[:-1]
        out = hidden_states.new_empty(hidden_states.shape[0], I)
        off = expert_offsets.tolist()
        table = lambda rows: torch.tensor([r.data_ptr() for r in rows], dtype=torch.int64, device=dev)
        if self.kept is None:
            self.kept = WHAT
        WHAT = self.kept
        xs, ys = XS, table([out[off[e]:] for e in range(E)])
        LAUNCH
        return out
"""
WEIGHTS = "table(self.W_gate.unbind(0)), table(self.W_up.unbind(0))"
ROWS = "table([hidden_states[off[e]:] for e in range(E)])"
KEEPS_WEIGHTS = (
    KEPT.replace("self.kept = WHAT", f"self.kept = {WEIGHTS}").replace("WHAT = self", "gates, ups = self")
).replace("XS", ROWS)
KEEPS_ROWS = (
    KEPT.replace("self.kept = WHAT", f"self.kept = {ROWS}")
    .replace("WHAT = self.kept", f"gates, ups = {WEIGHTS}")
    .replace("XS", "self.kept")
)
PLACES = LISTS.replace(
    "xs, ys = (table([t[off[e]:] for e in range(E)]) for t in (hidden_states, out))",
    """places = lambda t, row: [t.data_ptr() + 2 * row * off[e] for e in range(E)]
        xs, ys = (torch.tensor(places(t, row), dtype=torch.int64, device=dev)
                  for t, row in ((hidden_states, H), (out, I)))""",
)
IN_PYTHON = {"lists": LISTS, "one table": ONE_TABLE, "sums": PLACES, "weights kept": KEEPS_WEIGHTS,
             "arithmetic": ARITHMETIC.replace("FIRST", OF_OFFSETS)}  # fmt: skip
LEAKS_IN_PYTHON = {
    "rows alike": (ARITHMETIC.replace("FIRST", ALIKE), "input-structure-hardcode"),
    "rows of the first call": (KEEPS_ROWS, "captures-user-input-as-static-buffer"),
}
WITH_TRITON = "grouped[(264,)](xs, gates, ups, ys, n, H, I, E=E, B=64, PROGRAMS=264)"


@pytest.mark.parametrize("how", IN_PYTHON)
@pytest.mark.parametrize("language", ["CUDA", "Triton"])
def test_tables_that_python_fills(tmp_path: Path, how: str, language: str) -> None:
    body = IN_PYTHON[how]
    text = cuda(PARTS, PIECES, body) if language == "CUDA" else HEAD + TRITON + MODEL + body
    verdict, found, states = linted(tmp_path, text.replace("LAUNCH", WITH_TRITON))
    assert (verdict, found, set(states.values())) == ("clean", set(), {"kept"})


@pytest.mark.parametrize("how", LEAKS_IN_PYTHON)
@pytest.mark.parametrize("language", ["CUDA", "Triton"])
def test_leaks_behind_tables_that_python_fills(tmp_path: Path, how: str, language: str) -> None:
    body, leak = LEAKS_IN_PYTHON[how]
    text = cuda(PARTS, PIECES, body) if language == "CUDA" else HEAD + TRITON + MODEL + body
    verdict, found, _ = linted(tmp_path, text.replace("LAUNCH", WITH_TRITON))
    assert verdict == "rubric_leak" and leak in found


def test_addresses_that_lead_to_nothing_known_prove_nothing(tmp_path: Path) -> None:
    body = LISTS.replace("        LAUNCH", "        ys = torch.zeros(E, dtype=torch.int64, device=dev)\n        LAUNCH")
    verdict, found, states = linted(tmp_path, cuda(PARTS, PIECES, body))
    assert (verdict, found, set(states.values())) == ("unproven", set(), {"unproven"})
