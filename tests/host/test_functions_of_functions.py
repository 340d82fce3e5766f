"""Functions that torch makes of functions: what runs in a batch, back through a function or beside it, is work of the
function's own kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HONEST = (Path(__file__).parents[2] / "problems/10_patch_embed_conv3d_gemm/honest/triton.py").read_text(
    encoding="utf-8"
)
ZEROS = "torch.zeros(patches, embed, dtype=x.dtype, device=x.device)"
WAYS = {
    "each sample of a batch": "torch.vmap(torch.mv, (None, 0), 1)(weight, part)",
    "by the name in torch.func": "torch.func.vmap(torch.mv, in_dims=(None, 0), out_dims=1)(weight, part)",
    "a batch of batches": "torch.vmap(torch.vmap(torch.dot, (0, None)), (None, 0), 1)(weight, part)",
    "of what is named": "torch.vmap(lambda row: weight @ row['row'], out_dims=1)({'row': part})",
    "back through a product": f"torch.func.vjp(lambda a: a @ weight, {ZEROS})[1](part)[0].T",
    "beside a product": "torch.func.jvp(lambda a: weight @ a.T, (torch.zeros_like(part),), (part,))[1]",
    "along a product": "torch.func.linearize(lambda a: weight @ a.T, torch.zeros_like(part))[1](part)",
    "the gradient of a sum": f"torch.func.grad(lambda a: ((a @ weight) * part).sum())({ZEROS}).T",
    "by autograd": f"(lambda a: torch.autograd.grad(a @ weight, a, part)[0].T)({ZEROS}.requires_grad_())",
}
VIEWS = {
    "rows that are copied": "weight = torch.vmap(lambda row: row.contiguous())(weight)\n",
    "two views at once": "weight, _ = torch.vmap(lambda row: (row, row[:1]))(weight)\n",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_product_by_a_function_of_functions_is_torchs(tmp_path: Path, way: str) -> None:
    more = f"        part = rows[:, :weight.shape[1]]\n        y = {WAYS[way]}.reshape(y.shape)\n        return y\n"
    report = report_of(tmp_path, HONEST.replace("        return y\n", more), "10_patch_embed_conv3d_gemm")
    assert report.verdict == "rubric_leak" and not report.unread, report
    assert any(finding.span.line > 100 for finding in report.findings), "a place of the submission"


@pytest.mark.parametrize("way", VIEWS)
def test_views_in_batches_change_nothing(tmp_path: Path, way: str) -> None:
    text = HONEST.replace(
        "        embed, depth = weight.shape\n", f"        {VIEWS[way]}        embed, depth = weight.shape\n"
    )
    report = report_of(tmp_path, text, "10_patch_embed_conv3d_gemm")
    assert report.verdict == "clean", report
