"""A loop keeps copies of its operands for its stages: the handler runs where no GPU has the shared memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, lint

from kbh_lint.dsl.triton import stages

# The deck's problem of experts in 16 bits: its three shapes have I of 1536, 1024 and 4096.
KERNEL = """
@triton.jit
def product(x, g, u, y, off, H, I, E,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    e = tl.program_id(0)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    first = tl.load(off + e)
    last = tl.load(off + e + 1)
    for start in range(first, last, BM):
        rm = start + tl.arange(0, BM)
        xp = x + rm[:, None].to(tl.int64) * H + rk[None, :]
        wo = e.to(tl.int64) * H * I + rk[:, None] * I + rn[None, :]
        gp = g + wo
        up = u + wo
        ga = tl.zeros((BM, BN), tl.float32)
        ua = tl.zeros((BM, BN), tl.float32)
        for k in range(0, H, BK):
            a = tl.load(xp, mask=(rm < last)[:, None], other=0.0)
            b = tl.load(gp)
            c = tl.load(up)
            ga = tl.dot(a, b, ga)
            ua = tl.dot(a, c, ua)
            xp += BK
            gp += BK * I
            up += BK * I
        out = ga * tl.sigmoid(ga) * ua
        tl.store(y + rm[:, None].to(tl.int64) * I + rn[None, :], out.to(tl.bfloat16), mask=(rm < last)[:, None])
"""
MODEL = """

class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))

    def forward(self, hidden_states, expert_offsets):
        E, H, I = self.W_gate.shape
        y = hidden_states.new_empty(hidden_states.shape[0], I)
        try:
            product[(E, I // 128)](hidden_states, self.W_gate, self.W_up, y, expert_offsets, H, I, E, OPTIONS)
        except triton.runtime.errors.OutOfResources:
            ends = expert_offsets.tolist()
            for e in range(E):
                rows = hidden_states[ends[e]:ends[e + 1]]
                y[ends[e]:ends[e + 1]] = nn.functional.silu(rows @ self.W_gate[e]) * (rows @ self.W_up[e])
        return y
"""
TILES = "BM=256, BN=128, BK=128"  # 128 KiB a stage
CONFIG = "triton.Config(dict(BM=256, BN=128, BK=128), num_stages=%d)"


def tuned(*configs: str) -> str:
    return f"\n@triton.autotune([{', '.join(configs)}], key=['H'])" + KERNEL


def without_a_kernel(tmp_path: Path, kernel: str, options: str) -> set[str]:
    """The rules that say that a library does the work."""
    report = lint(tmp_path, HEAD + kernel + MODEL.replace("OPTIONS", options), "06_sonic_moe_swiglu")
    return {finding.rule for finding in report.findings} & {"KBH110", "KBH112", "KBH116", "KBH119"}


# Products are read where a table says: 64 KiB a stage of what is read in order, or 128 KiB in all.
GATHERED = (
    KERNEL.replace("            b =", "            i = tl.load(off + k + rk)\n            b =")
    .replace("tl.load(gp)", "tl.load(g + PLACE)").replace("tl.load(up)", "tl.load(u + PLACE)")
)  # fmt: skip
BY_ELEMENTS = GATHERED.replace("PLACE", "i[:, None] + (rn * E)[None, :]")
BY_ROWS = GATHERED.replace("PLACE", "e * H * I + i[:, None] * I + rn[None, :]")

LEAKS = {
    "by the keyword": (KERNEL, f"{TILES}, num_stages=4"),
    "by what nobody says": (KERNEL, TILES),
    "under every configuration": (tuned(CONFIG % 3, CONFIG % 5), ""),
    "under the default of a configuration": (tuned("triton.Config(dict(BM=256, BN=128, BK=128))"), ""),
    "behind a test on data": (
        KERNEL.replace("    for start in", "    if first < last:\n     for start in").replace(
            "\n        ", "\n          ").replace("\n          BM", "\n            BM"), f"{TILES}, num_stages=4",
    ),
    "made without a decorator": (KERNEL.replace("@triton.jit", "") + "\n\nproduct = triton.jit(product)\n", TILES),
    "in rows that are found by a sum": (
        KERNEL.replace("    first = tl.load(off + e)\n", """    at = tl.arange(0, 256)
    lo = tl.load(off + at, mask=at < E, other=0)
    hi = tl.load(off + at + 1, mask=at < E, other=0)
    ends = tl.cumsum(hi - lo, axis=0)
    first = tl.sum(tl.where(at == e, ends - hi + lo, 0), axis=0)
"""), TILES,
    ),
    "loaded in the product": (
        KERNEL.replace("            b = tl.load(gp)\n", "").replace("tl.dot(a, b,", "tl.dot(a, tl.load(gp),"),
        f"{TILES}, num_stages=4",
    ),
    "beside a gather of elements": (BY_ELEMENTS, f"{TILES}, num_stages=5"),
    "by rows of a table": (BY_ROWS, f"{TILES}, num_stages=5"),
}  # fmt: skip


@pytest.mark.parametrize("way", LEAKS)
def test_the_handler_runs_where_the_stages_do_not_fit(tmp_path: Path, way: str) -> None:
    assert without_a_kernel(tmp_path, *LEAKS[way]) >= {"KBH110", "KBH119"}


def test_one_shape_alone_may_take_the_handler(tmp_path: Path) -> None:
    options = "BM=256 if I > 2048 else 128, BN=128, BK=128 if I > 2048 else 64, num_stages=4"
    assert without_a_kernel(tmp_path, KERNEL, options) == {"KBH116"}


def inside(change: str, to: str) -> str:
    assert change in KERNEL
    return KERNEL.replace(change, to)


HONEST = {
    "with two stages": (KERNEL, f"{TILES}, num_stages=2"),
    "with one configuration that fits": (tuned(CONFIG % 4, CONFIG % 2), ""),
    "at 192 KiB": (KERNEL, "BM=128, BN=128, BK=64, num_stages=5"),
    "of a configuration that is not known": (
        tuned(CONFIG % 4, "triton.Config(dict(BM=256, BN=128, BK=128), num_stages=int(torch.rand(1)))"), ""),
    "with operands that are loaded before": (
        KERNEL.replace("        for k in", "        a, b, c = tl.load(xp), tl.load(gp), tl.load(up)\n        for k in")
        .replace("            a = tl.load(xp, mask=(rm < last)[:, None], other=0.0)\n", "")
        .replace("            b = tl.load(gp)\n            c = tl.load(up)\n", ""), f"{TILES}, num_stages=4"),
    "with operands that are computed": (
        inside("(a, b, ga)", "(a, b + c, ga)").replace("(a, c, ua)", "(a * 2, c - b, ua)"), f"{TILES}, num_stages=4"),
    "in a loop that is unrolled": (inside("in range(0, H, BK)", "in tl.static_range(0, 2048, BK)"),
                                   f"{TILES}, num_stages=4"),
    "with stages of its own": (inside("in range(0, H, BK)", "in tl.range(0, H, BK, num_stages=1)"),
                               f"{TILES}, num_stages=4"),
    "in rows that begin anywhere": (inside(" * H + rk[None, :]", " * H + (rk * 2 // 2 * 3)[None, :]").replace(
        "* I + rn[None, :]\n        gp", "* I + (rn * 3)[None, :]\n        gp"), f"{TILES}, num_stages=4"),
    "at places that are loaded": (inside("            b =", "            xp += tl.load(off + k) * 0\n            b ="),
                                  f"{TILES}, num_stages=4"),
    "beside a gather of elements, at 192 KiB": (BY_ELEMENTS, f"{TILES}, num_stages=4"),
    "by rows of a table, whose loads take half of the stages": (BY_ROWS, f"{TILES}, num_stages=4"),
    "with a counter that is handed on": (
        inside("        for k in", "        last = 0\n        for k in").replace(
            "            up += BK * I\n", "            up += BK * I\n            last = k\n").replace(
            "        out = ga", "        out = (1 + last) * ga"), f"{TILES}, num_stages=4"),
    "with operands that stay": (inside("            xp += BK\n", "").replace("            gp += BK * I\n", "").replace(
        "            up += BK * I\n", ""), f"{TILES}, num_stages=4"),
    "with multiples that are not told": (
        KERNEL.replace("@triton.jit", "@triton.jit(do_not_specialize=['H', 'I'])"), f"{TILES}, num_stages=4"),
    "with multiples that a call does not tell": (
        KERNEL.replace("@triton.jit", "") + "\n\nproduct = triton.jit(product, do_not_specialize=['H', 'I'])\n", TILES),
    "under a test that may leave it out": (
        inside("BK: tl.constexpr)", "BK: tl.constexpr, MORE: tl.constexpr = True)").replace(
            "    for start in", "    if MORE:\n     for start in").replace(
            "\n        ", "\n          "), f"{TILES}, num_stages=4"),
}  # fmt: skip


@pytest.mark.parametrize("way", HONEST)
def test_it_is_not_looked_at_where_they_may(tmp_path: Path, way: str) -> None:
    assert not without_a_kernel(tmp_path, *HONEST[way])


def test_a_kernel_without_a_product_has_no_operands(tmp_path: Path) -> None:
    kernel = KERNEL.replace("ga = tl.dot(a, b, ga)", "ga += tl.sum(a) + tl.sum(b)")
    kernel = kernel.replace("ua = tl.dot(a, c, ua)", "ua += tl.sum(a) * tl.sum(c)")
    assert not without_a_kernel(tmp_path, kernel, f"{TILES}, num_stages=4")


@pytest.mark.parametrize("way", ["with operands that are loaded before", "with operands that are computed"])
def test_a_kernel_is_followed_only_where_its_text_may_keep_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    read: list[object] = []
    body = stages._Reading.body
    monkeypatch.setattr(stages._Reading, "body", lambda self, *given: read.append(self) or body(self, *given))
    without_a_kernel(tmp_path, *HONEST[way])
    assert not read
    without_a_kernel(tmp_path, KERNEL, f"{TILES}, num_stages=4")
    assert read
