"""Each form of a compensated sum in sum_forms.yaml is one by source and in machine code, and a control in neither."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import compensation_cuda_support
import compensation_support
import pytest
import yaml

from grader.silicon.sass.census import census

ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "sum_forms.yaml").read_text(encoding="utf-8"))
EVERY = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
FUNCTIONS = re.compile(r"\b(fma|abs|where|minimum|maximum)\(")
HELPERS = """
__device__ inline float where(bool first, float a, float b) { return first ? a : b; }
__device__ inline float minimum(float a, float b) { return fminf(a, b); }
__device__ inline float maximum(float a, float b) { return fmaxf(a, b); }
"""
SOURCE = "by source; what counts is in kbh_lint/kernels/numeric/residuals.py"
MACHINE = "in machine code; what counts is in grader/silicon/sass/residuals.py"


def state(row: dict[str, Any]) -> list[str]:
    """The names that last from one step to the next."""
    return str(row.get("state", "s c")).split()


def python(row: dict[str, Any]) -> str:
    lines = [line.strip() for line in row["step"].split(";") if line.strip()]
    return re.sub(r"(\d)f\b", r"\1", FUNCTIONS.sub(r"tl.\1(", "\n".join(lines)))


def cuda(row: dict[str, Any]) -> str:
    """The step with its locals declared; Triton's names of functions in C++."""
    known, lines = set(state(row)), []
    for line in (line.strip() for line in row["step"].split(";") if line.strip()):
        name = line.split()[0]
        lines.append(f"{'' if name in known else 'float '}{line};")
        known.add(name)
    return re.sub(
        r"\bv\b", "e", re.sub(r"\b(fma|abs)\(", lambda m: {"fma": "fmaf(", "abs": "fabsf("}[m[1]], " ".join(lines))
    )


def began(row: dict[str, Any]) -> str:
    """What lasts, in C++, before the first step."""
    return f"float {', '.join(f'{name} = 0.0f' for name in state(row))};"


def wanted(row: dict[str, Any]) -> bool:
    return bool(row.get("compensated", True))


@EVERY
def test_a_form_is_told_in_triton(row: dict[str, Any]) -> None:
    began = "".join(f"    {name} = 0.0\n" for name in state(row))
    text = compensation_support.ROW.replace("    s = 0.0\n    c = 0.0\n", began)
    found = compensation_support.row(python(row), row["total"], text=text)
    assert (found.state == "effective") == wanted(row), f"{found.state} {SOURCE}"


@EVERY
def test_a_form_is_told_in_cuda(row: dict[str, Any]) -> None:
    text = compensation_cuda_support.KERNEL.replace("float s = 0.0f, c = 0.0f;", began(row))
    text = text.replace("LOOP", cuda(row)).replace("TOTAL", row["total"])
    found = compensation_cuda_support.facts(HELPERS + text)
    assert (found.state == "effective") == wanted(row), f"{found.state} {found.unread} {SOURCE}"


@pytest.fixture(scope="module")
def residuals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How many residuals the kernel of each row holds."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    knobs = pytest.importorskip("triton", reason="triton brings the disassembler").knobs
    folder = tmp_path_factory.mktemp("forms")
    kernels = [
        f'extern "C" __global__ void form{number}(const float* x, float* y, int n) {{ {began(row)}'
        f" for (int i = threadIdx.x; i < n; i += 32) {{ const float e = x[i]; {cuda(row)} }}"
        f" y[threadIdx.x] = {row['total']}; }}"
        for number, row in enumerate(ROWS)
    ]
    (folder / "forms.cu").write_text(HELPERS + "\n".join(kernels), encoding="utf-8")
    command = ["nvcc", "-cubin", "-arch=sm_90a", "-O3", "-o", "forms.cubin", "forms.cu"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    dump = [knobs.nvidia.nvdisasm.path, "-c", "forms.cubin"]
    text = subprocess.run(dump, cwd=folder, check=True, capture_output=True, text=True, timeout=100).stdout
    found = {one.kernel: one.residuals for one in census(text)}
    return {row["name"]: found[f"form{number}"] for number, row in enumerate(ROWS)}


@EVERY
def test_a_form_is_told_in_machine_code(row: dict[str, Any], residuals: dict[str, int]) -> None:
    if row.get("machine", True):
        assert (residuals[row["name"]] > 0) == wanted(row), f"{residuals[row['name']]} {MACHINE}"
