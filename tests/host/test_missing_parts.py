"""Modules and sources that are not there: what they may have done is not known, and nothing is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model

LOAD = HEAD + "from torch.utils.cpp_extension import load\n\next = load(name='ext', sources=['product.cu'])\n"
KEPT = "if self.y is None:\n    self.y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)\n"
SETUP = "self.y = None"
CALL = "(x, self.weight, self.weight_scale"
UNREAD = {
    "a workspace of a source": (LOAD, f"{KEPT}ext.run{CALL}, self.y)\nreturn self.y"),
    "its address": (LOAD, f"{KEPT}ext.run(x.data_ptr(), self.weight.data_ptr(), self.y.data_ptr())\nreturn self.y"),
    "two calls of it": (LOAD, f"{KEPT}ext.first{CALL}, self.y)\next.second(self.weight_scale, self.y)\nreturn self.y"),
    "a workspace that is cleared": (LOAD, f"{KEPT}self.y.zero_()\next.run{CALL}, self.y)\nreturn self.y"),
    "a module": (HEAD + "from gemm_parts import product\n", f"return product{CALL})"),
    "a class of a module": (HEAD + "import gemm_parts\n", f"return gemm_parts.Plan(M, N, K).run{CALL})"),
    "a package of its own": (HEAD + "from .parts import build\n", f"return build.product{CALL})"),
    "a package above": (HEAD + "from ..parts.build import product as run\n", f"return run{CALL})"),
}
TWICE = f"{OUTPUT.strip()}\ngemm[{GRID}](held, self.weight, self.weight_scale, y, M, N, K, {TILES})\nreturn y"


@pytest.mark.parametrize("way", UNREAD)
def test_a_part_that_is_not_there_leaves_everything_open(tmp_path: Path, way: str) -> None:
    head, body = UNREAD[way]
    report = lint(tmp_path, head + KERNEL + model(body, SETUP))
    assert report.verdict == "unproven", report.findings


def test_a_published_library_is_no_missing_part(tmp_path: Path) -> None:
    text = HEAD + "import gemlite\n" + KERNEL + model(f"return gemlite.product{CALL})", SETUP)
    assert "foreign-library-compute" in classes(lint(tmp_path, text))


def test_a_copy_of_the_first_input_stays_one_beside_what_could_not_be_read(tmp_path: Path) -> None:
    body = f"if self.y is None:\n    self.y = x.clone()\next.warm(x)\nheld = self.y\n{TWICE}"
    assert classes(lint(tmp_path, LOAD + KERNEL + model(body, SETUP))) == {"identity-keyed-input-cache"}
