"""CUDA text that was rewritten compiles to the same PTX, names aside."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kbh_lint.rewrite.compose import apply, evasions
from kbh_lint.rewrite.cuda.text import texts
from kbh_lint.rewrite.program import Program
from kbh_lint.rewrite.tree import source_of

IDIOMS = Path(__file__).parents[1] / "idioms"
NVCC = shutil.which("nvcc")
ALL = (
    "cuda-launch-call", "cuda-while", "cuda-dereference", "cuda-macro-strings", "cuda-split-strings",
    "cuda-rename", "cuda-using", "cuda-macros", "cuda-helpers", "cuda-template", "cuda-comments", "cuda-compact",
)  # fmt: skip


def ptx(program: Program, arch: str, folder: Path) -> list[str]:
    """The instructions of a program's CUDA text. Names are numbered as they come, places in the source left out."""
    folder.mkdir()
    path = folder / "kernel.cu"
    path.write_text("\n".join(texts(program, source_of(program))), encoding="utf-8")
    out = folder / "kernel.ptx"
    command = [str(NVCC), "-ptx", f"-arch={arch}", "-std=c++17", f"-I{IDIOMS / 'stub'}", "-o", str(out), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    text = re.sub(r"//.*|^\.(loc|file|section).*", "", out.read_text(encoding="utf-8"), flags=re.M)
    numbers: dict[str, str] = {}
    text = re.sub(r"\b_Z[\w$]+", lambda match: numbers.setdefault(match[0], f"name{len(numbers)}"), text)
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
@pytest.mark.parametrize(("name", "arch"), [("int4/cuda_lop3", "sm_90a")])
def test_all_rewrites_of_a_cuda_text_together_leave_its_ptx(name: str, arch: str, tmp_path: Path) -> None:
    program = Program((IDIOMS / f"{name}.py").read_text(encoding="utf-8"))
    before, applied = ptx(program, arch, tmp_path / "before"), []
    for rewrite in ALL:
        try:
            program = apply(evasions()[rewrite], program, 7)
        except Exception as error:
            assert type(error).__name__ == "NotApplicable", rewrite
            continue
        applied.append(rewrite)
    assert {"cuda-rename", "cuda-using", "cuda-compact", *ALL[:4]} <= set(applied)
    assert ptx(program, arch, tmp_path / "after") == before, applied
    assert len(before) > 50


WORK = re.compile(
    r"(?:@!?%p\d+ )?((?:fma|mma|wgmma|ex2|st\.global|(?:add|sub|mul|div|max)\.[\w.]*f(?:16|32|64)|cvt\.[\w.]*f)[\w.]*)"
)


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", ["int4/cuda_lop3", "int4/cuda_mma", "fp8/mma_sync", "kahan/cuda_kahan"])
def test_arguments_in_a_struct_leave_the_arithmetic_of_a_kernel(name: str, tmp_path: Path) -> None:
    """Loads of the arguments differ, and the order that the compiler chooses."""
    program = Program((IDIOMS / f"{name}.py").read_text(encoding="utf-8"))
    packed = apply(evasions()["cuda-params-struct"], program, 7)

    def work(one: Program, folder: str) -> Counter[str]:
        return Counter(found[1] for line in ptx(one, "sm_90a", tmp_path / folder) if (found := WORK.match(line)))

    before = work(program, "before")
    assert work(packed, "after") == before and sum(before.values()) > 5
