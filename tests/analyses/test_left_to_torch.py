"""For every operation that a problem names, a file that leaves just this one to torch is not clean; its twin is.

A decoy is an honest file with one step exchanged, between two comments or by a replaced line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.findings import FileReport, Report
from kbh_lint.report import full
from kbh_lint.report.data import file_from_dict, file_to_dict

FILES = Path(__file__).parent / "left_to_torch"
DECK = Path(__file__).resolve().parents[2] / "problems"
KDA, PAGED, KAHAN, TOPK = "02_kda_cutlass", "03_paged_attention", "04_kahan_softmax", "05_topk_bitonic"
MOE, ROPE = "06_sonic_moe_swiglu", "09_fmha_preattn_mrope"
Change = Callable[[str], str]


@cache
def text(name: str) -> str:
    """A file of the test, or the deck's honest Triton solution of a problem."""
    file = FILES / f"{name}.py"
    return (file if file.is_file() else DECK / name / "honest" / "triton.py").read_text()


def step(first: str, last: str, code: str) -> Change:
    """Puts code between two comments of `forward`."""

    def change(source: str) -> str:
        before, rest = source.split(f"        # {first}\n")
        return f"{before}{indented(code)}        # {last}\n{rest.split(f'        # {last}' + chr(10))[1]}"

    return change


def swap(*pairs: tuple[str, str]) -> Change:
    """Replaces lines; each must be there."""

    def change(source: str) -> str:
        for old, new in pairs:
            assert old in source, old
            source = source.replace(old, new)
        return source

    return change


def indented(code: str) -> str:
    return "".join(f"        {line}\n" for line in code.strip().split("\n"))


def before(line: str, code: str) -> Change:
    return swap((line, indented(code) + line))


CARRY = "        out = torch.empty_like(v)\n"
CHUNKS = """
qs, ks, vs, gs = (t.transpose(1, 2).reshape(B * H, T // C, C, -1).float() for t in (q, k, v, g))
bs = beta.transpose(1, 2).reshape(B * H, T // C, C, 1).float()
total = gs.cumsum(2)
"""
SOLVE = """
pairs = torch.tril((bs * ks * total.exp()) @ (ks * (-total).exp()).mT, -1)
eye = torch.eye(C, device=q.device)
u = torch.linalg.solve_triangular(eye + pairs, bs * vs, upper=False, unitriangular=True).view(-1, V)
"""
OUTPUT = "        output = torch.empty_like(query)\n"
DENSE = """
kv_cache = GATHERED
block_table = torch.arange(kv_cache.shape[0], device=query.device, dtype=torch.int32).view(block_table.shape)
"""
GATHERED = "rows = kv_cache[block_table.long()].flatten(1, 2).repeat_interleave(self.heads // self.kv, dim=2)\n"
SCORES = (
    GATHERED
    + """
scores = torch.einsum("bhd,bnhd->bhn", query, rows[..., : self.dim]).float() * self.dim**-0.5
past = torch.arange(pages * self.page, device=query.device) >= seq_lens[:, None]
scores = scores.masked_fill(past[:, None], float("-inf"))
"""
)
SOFTMAX = """
weights = torch.exp(scores - scores.amax(-1, keepdim=True))
weights = weights / weights.sum(-1, keepdim=True)
"""
VALUES = GATHERED + 'out = torch.einsum("bhn,bnhd->bhd", weights.to(torch.bfloat16), rows[..., self.dim :])'
ANGLES = """
def pick(cache):
    rows = [ROWS.split(list(self.section) * 2, -1)[i] for i, at in zip(range(6), (pos_t, pos_h, pos_w) * 2)]
    return torch.cat(rows, -1)
cos, sin = pick(self.cos_cache).flatten(0, 1), pick(self.sin_cache).flatten(0, 1)
"""
FIRST = "        q_out = torch.empty("
ROW = "row = tl.where((c < S0)[None, :], at_t, tl.where((c < S0 + S1)[None, :], at_h, at_w)) * D + c[None, :]"
OWN = "self.cos_cache, self.sin_cache, pos_t, pos_h, pos_w, B * T"


def gathered(rows: str) -> Change:
    """The angles of problem 09 gathered by torch."""
    code = indented(ANGLES.replace("ROWS", rows)) + FIRST
    own = (OWN, OWN.replace("self.cos_cache, self.sin_cache", "cos, sin"))
    return swap((FIRST, code), (ROW, "row = token[:, None] * D + c[None, :]"), own)


def turned(x: str) -> Change:
    """q or k of problem 09 turned by torch."""
    code = ANGLES.replace("ROWS", "cache[at]").replace(".flatten(0, 1)", "[:, None].float()")
    code += f"left, right = {x}.transpose(1, 2).float().chunk(2, -1)\n"
    code += f"{x}_out = torch.cat((left, right), -1) * cos + torch.cat((-right, left), -1) * sin\n"
    return before("        return q_out, k_out\n", code + f"{x}_out = {x}_out.to(torch.bfloat16)")


def product(weight: str) -> Change:
    call = f"self.product(hidden_states, self.{weight}, expert_offsets)"
    return swap((call, call.replace("product", "other")))


LOOP = """
left, at = x.clone(), torch.empty(x.shape[0], self.k, dtype=torch.int64, device=x.device)
for j in range(self.k):
    at[:, j] = left.argmax(-1)
    left.scatter_(1, at[:, j : j + 1], float("-inf"))
"""
IN_CHUNKS = """
y = torch.empty_like(x)
for i in range(0, n, 512):
    torch.div(terms[:, i : i + 512], total[:, None], out=y[:, i : i + 512])
"""
ROW_BY_ROW = "y = torch.empty_like(x)\nfor i in range(b):\n    y[i] = terms[i] / total[i]"
TOTAL = "total = terms.sum(dim=-1, dtype=torch.float64).float()"
THREE, FOUR, JOINED, PLACES = "attention_in_three", "softmax_in_four", "swiglu_in_three", "selection_by_place"
LEAK, TOLD, OPEN = "rubric_leak", "interesting", "unproven"
# What torch does: the problem, the honest file, how the step is exchanged, the verdict.
LEFT: dict[str, tuple[str, str, Change, str]] = {
    "the scores inside chunks": (KDA, KDA, before(CARRY, CHUNKS + "scores = torch.tril("
        "(qs * self.scale * total.exp()).bfloat16() @ (ks * (-total).exp()).bfloat16().mT).view(-1, C)"), LEAK),
    "the triangular solve": (KDA, KDA, before(CARRY, CHUNKS + SOLVE), LEAK),
    "the running sums of the gate": (KDA, KDA, swap(
        ("tl.cumsum(tl.load(g + at_k, mask=in_k, other=0.0), 0)", "tl.load(g + at_k, mask=in_k, other=0.0)"),
        ("        read, keep, w = (", "        g = g.view(B, T // C, C, H, K).cumsum(2).view(B, T, H, K)\n"
         "        read, keep, w = (")), TOLD),
    "the pages gathered by an index": (PAGED, PAGED, before(
        OUTPUT, DENSE.replace("GATHERED", "kv_cache[block_table.long()].flatten(0, 1)")), LEAK),
    "the pages gathered by index_select": (PAGED, PAGED, before(
        OUTPUT, DENSE.replace("GATHERED", "kv_cache.index_select(0, block_table.flatten())")), LEAK),
    "the scores of an attention": (PAGED, THREE, step("scores", "softmax", SCORES), LEAK),
    "the softmax of an attention": (PAGED, THREE, step("softmax", "values", SOFTMAX), LEAK),
    "the values of an attention": (PAGED, THREE, step("values", "end", VALUES), LEAK),
    "the maximum of a row": (KAHAN, FOUR, step("top", "exp", "top = x.amax(dim=-1)"), TOLD),
    "the exponentials": (KAHAN, FOUR, step("exp", "sum", "terms = torch.exp(x - top[:, None])"), LEAK),
    "the sum": (KAHAN, FOUR, step("sum", "div", TOTAL), TOLD),
    "the division": (KAHAN, FOUR, step("div", "end", "y = terms / total[:, None]"), LEAK),
    "the division chunk by chunk": (KAHAN, FOUR, step("div", "end", IN_CHUNKS), LEAK),
    "the division row by row": (KAHAN, FOUR, step("div", "end", ROW_BY_ROW), LEAK),
    "all but the division": (KAHAN, FOUR, step("top", "div", "top = x.amax(dim=-1)\n"
        "terms = torch.exp(x - top[:, None])\n" + TOTAL), LEAK),
    "the order": (TOPK, PLACES, swap(), LEAK),
    "the places, one after the other": (TOPK, PLACES, step("places", "values", LOOP), OPEN),
    "the gate's products": (MOE, JOINED, product("W_gate"), LEAK),
    "the other products": (MOE, JOINED, product("W_up"), LEAK),
    "SwiGLU": (MOE, JOINED, step("join", "end", "y = torch.nn.functional.silu(g) * u"), LEAK),
    "SwiGLU in one": (MOE, JOINED, step("join", "end", "y = torch.nn.functional.glu(torch.cat((u, g), -1), -1)"), LEAK),
    "the gate of SwiGLU": (MOE, JOINED, step("join", "end", "y = torch.empty_like(g)\ntorch.mul(g, u, out=y)"), LEAK),
    "SwiGLU of one expert after the other": (MOE, JOINED, step("join", "end",
        "y = torch.empty_like(g)\nfor e in range(64):\n    a, b = e * g.shape[0] // 64, (e + 1) * g.shape[0] // 64\n"
        "    y[a:b] = torch.sigmoid(g[a:b]) * g[a:b] * u[a:b]"), LEAK),
    "the rotation of the queries": (ROPE, ROPE, turned("q"), LEAK),
    "the rotation of the keys": (ROPE, ROPE, turned("k"), LEAK),
    "the angles gathered by an index": (ROPE, ROPE, gathered("cache[at]"), LEAK),
    "the angles gathered as an embedding": (ROPE, ROPE, gathered("torch.nn.functional.embedding(at, cache)"), LEAK),
}  # fmt: skip


def lint(folder: Path, problem: str, code: str) -> FileReport:
    path = folder / "answer.py"
    path.write_text(code)
    return kbh_lint.lint([path], problem=problem, raise_errors=True).files[0]


@pytest.mark.parametrize("name", LEFT)
def test_one_operation_left_to_torch_is_not_clean(name: str, tmp_path: Path) -> None:
    problem, honest, change, verdict = LEFT[name]
    report = lint(tmp_path, problem, change(text(honest)))
    rules = {finding.rule for finding in report.findings}
    assert report.verdict == verdict, (report.findings, report.unread)
    assert rules & {LEAK: {"KBH115", "KBH118"}, TOLD: {"KBH120"}, OPEN: {"KBH120"}}[verdict], report.findings
    assert (verdict == LEAK) == any(promise.state == "broken" for promise in report.promises)


@pytest.mark.parametrize(("problem", "honest"), [(PAGED, THREE), (KAHAN, FOUR), (MOE, JOINED)])
def test_the_same_steps_in_kernels_are_clean(problem: str, honest: str, tmp_path: Path) -> None:
    report = lint(tmp_path, problem, text(honest))
    assert (report.verdict, report.findings) == ("clean", ()), report.unread


def test_a_report_says_who_does_which_share_and_keeps_it(tmp_path: Path) -> None:
    change = LEFT["all but the division"][2]
    report = lint(tmp_path, KAHAN, change(text(FOUR)))
    for shares in report.shares.values():
        assert shares["torch"][0] == 0.8 and shares["library"] == (0.0, 0.0)
        assert round((shares["kernels"][0] or 0) + 0.8, 3) == 1 and 0.6 < shares["torch"][1] < 0.9
    assert file_from_dict(json.loads(json.dumps(file_to_dict(report)))) == report
    lines = full.render(Report((report,)), {}).splitlines()
    assert any("shares of operations and bytes" in line and "torch 80% and 75%" in line for line in lines), lines
    whole = lint(tmp_path, KAHAN, text(FOUR)).shares
    assert whole and all(shares["kernels"] == (1.0, 1.0) for shares in whole.values())


def test_products_that_a_promise_names_are_torchs_operations_where_torch_makes_them(tmp_path: Path) -> None:
    attention = lint(tmp_path, PAGED, (DECK / PAGED / "decoys" / "dense_sdpa.py").read_text())
    assert attention.shares and all(shares["torch"][0] == 1.0 for shares in attention.shares.values())


STATES = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turned(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n).to(tl.bfloat16), mask=at < n)


class Model(nn.Module):
    def __init__(self, B, T, H, K, V, chunk_size=64):
        super().__init__()
        self.chunk = chunk_size

    def forward(self, q, k, v, g, beta):
        q, k, v = (t.transpose(1, 2).unflatten(2, (-1, self.chunk)).float() for t in (q, k, v))
        state, parts = torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], device=q.device), []
        LOOP
        made = torch.stack(parts, 2).flatten(2, 3).transpose(1, 2).contiguous()
        y = torch.empty(made.shape, dtype=torch.bfloat16, device=q.device)
        turned[(triton.cdiv(made.numel(), 1024),)](made, y, made.numel(), BLOCK=1024)
        return y
"""
BODY = """
            parts.append(q[:, :, n] @ state)
            state = state + k[:, :, n].mT @ v[:, :, n]"""


@pytest.mark.parametrize("head", ["for n in range(q.shape[2]):", "for n, _ in enumerate(q.unbind(2)):"])
def test_what_only_the_next_round_reads_counts_in_all_rounds_but_the_last(head: str, tmp_path: Path) -> None:
    shares = lint(tmp_path, KDA, STATES.replace("LOOP", head + BODY)).shares
    kinds = ("library", "torch")
    done = [sum(s[k][0] or 0 for k in kinds) for label, s in shares.items() if label.endswith("x8x128x128x64")]
    a_round = [share / (2 - 1 / rounds) for share, rounds in zip(done, (16, 32, 64), strict=True)]  # of two products
    assert max(a_round) < 1.02 * min(a_round) and 0.2 < min(a_round) < 0.21, done
