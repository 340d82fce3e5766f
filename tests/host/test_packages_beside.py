"""Packages of Python that lie beside a solution: what they import from one another, and what is run of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, DOT, GRID, HEAD, KERNEL, MODEL, OUTPUT, TILES, WIDE

import kbh_lint
from kbh_lint.findings import FileReport

LAUNCH = f"        run({ARGUMENTS})\n        return y\n"
MAIN = f"# kbh: problem=01_fp8_gemm\n{HEAD}IMPORT\n" + MODEL.replace("SETUP\n", "").replace("BODY", OUTPUT + LAUNCH)
RUN = f"""

def run(x, w, s, y, M, N, K):
    gemm[{GRID}](x, w, s, y, M, N, K, **tiles.chosen())
"""
FILES = {
    "ours/__init__.py": "from .launch import run as start\n",
    "ours/launch.py": f"{HEAD}from . import tiles\nfrom .kernels.product import gemm\n{RUN}",
    "ours/tiles.py": f"if __name__ == '__main__':\n    raise SystemExit\n\n\ndef chosen():\n    return dict({TILES})\n",
    "ours/kernels/product.py": f"from ..tiles import chosen as _chosen\n{HEAD}{KERNEL}",
}
IMPORTS = (
    "from ours.launch import run",
    "from ours import start as run",
    "import ours.launch\nrun = ours.launch.run",
    "import ours.launch as l\nrun = l.run",
    "from ours.launch import *",
)


def lint(folder: Path, files: dict[str, str], solution: str) -> FileReport:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "mine.py").write_text(solution)
    return kbh_lint.lint([folder / "mine.py"], raise_errors=True).files[0]


@pytest.mark.parametrize("statement", IMPORTS)
def test_a_package_beside_is_run(tmp_path: Path, statement: str) -> None:
    report = lint(tmp_path, FILES, MAIN.replace("IMPORT", statement))
    assert report.verdict == "clean", [(f.rule, f.message) for f in report.findings]


@pytest.mark.parametrize("statement", IMPORTS)
def test_what_its_kernels_do_is_the_submissions(tmp_path: Path, statement: str) -> None:
    wide = {**FILES, "ours/kernels/product.py": FILES["ours/kernels/product.py"].replace(DOT, WIDE)}
    assert "KBH101" in {finding.rule for finding in lint(tmp_path, wide, MAIN.replace("IMPORT", statement)).findings}


def test_a_package_that_is_not_there_is_a_library(tmp_path: Path) -> None:
    report = lint(tmp_path, {}, MAIN.replace("IMPORT", "from ours.launch import run"))
    assert report.verdict != "clean"
