"""Our solutions of 01, 07 and 10: the linter's word on each, and the checker's on the CPU."""

from __future__ import annotations

import dataclasses
import importlib.util
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kbh_lint
from grader.grading.check import check_submission
from kbh_lint.authors.solutions import Decoy, Honest, read_solutions
from kbh_lint.findings import FileReport
from kbh_lint.problems import load_problem

pytestmark = pytest.mark.usefixtures("warm")

TESTS = Path(__file__).resolve().parents[1]
PROBLEMS = TESTS.parent / "problems"
IDS = ("01_fp8_gemm", "07_w4a16_gemm", "10_patch_embed_conv3d_gemm")
HONEST = [(name, entry) for name in IDS for entry in read_solutions(PROBLEMS / name).honest]
DECOYS = [(name, entry) for name in IDS for entry in read_solutions(PROBLEMS / name).decoys]
# Of the reduced shapes the one with the awkward depth (01), rows beyond one tile (07) and patches of 14 (10).
CHECKED = {"01_fp8_gemm": 1, "07_w4a16_gemm": 1, "10_patch_embed_conv3d_gemm": 0}


def name_of(value: object) -> str:
    return Path(value.file).stem if isinstance(value, Honest | Decoy) else str(value)[:2]


@cache
def linted(problem: str, file: str, target: str | None) -> FileReport:
    return kbh_lint.lint([PROBLEMS / problem / file], problem=problem, target=target).files[0]


@pytest.mark.parametrize("target", [None, "h200"], ids=["any target", "h200"])
@pytest.mark.parametrize(("problem", "entry"), HONEST, ids=name_of)
def test_an_honest_solution_is_clean_and_keeps_every_promise(problem: str, entry: Honest, target: str | None) -> None:
    report = linted(problem, entry.file, target)
    assert report.verdict == "clean", [(f.rule, f.message) for f in report.findings]
    states = {promise.id: promise.state for promise in report.promises}
    assert set(states) == {promise.id for promise in load_problem(PROBLEMS / problem / "problem.yaml").promises}
    assert set(states.values()) == {"kept"}, states


@pytest.mark.parametrize(("problem", "entry"), DECOYS, ids=name_of)
def test_a_decoy_is_flagged_by_the_rule_it_names(problem: str, entry: Decoy) -> None:
    report = linted(problem, entry.file, "h200")
    assert report.verdict in {"rubric_leak", "reward_hack"}, report.unread
    assert entry.rule in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("problem", IDS)
def test_every_solution_in_the_folder_is_listed_and_decoys_differ_by_rule(problem: str) -> None:
    decoys = [entry for name, entry in DECOYS if name == problem]
    listed = {entry.file for name, entry in [*HONEST, *DECOYS] if name == problem}
    folder = PROBLEMS / problem
    there = (path for kind in ("honest", "decoys") for path in (folder / kind).rglob("*.py"))
    assert listed == {path.relative_to(folder).as_posix() for path in there}
    assert len({decoy.rule for decoy in decoys}) == len(decoys) >= 4


@pytest.mark.parametrize(("problem", "entry"), [(p, e) for p, e in HONEST if e.runs_on_cpu], ids=name_of)
def test_an_honest_solution_passes_the_checker_on_a_cpu(problem: str, entry: Honest) -> None:
    whole = load_problem(PROBLEMS / problem / "problem.yaml")
    at = CHECKED[problem]
    part = dataclasses.replace(whole, shapes=(whole.shapes[at],), reduced=(whole.reduced[at],))
    report = check_submission(part, PROBLEMS / problem / entry.file, device="cpu", master=bytes(32), timeout=100.0)
    assert report.outcome == "passed", report.message
    assert len(report.cases) >= 3


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize(
    ("problem", "opcodes"),
    [("01_fp8_gemm", ["QGMMA.64x256x32.F32.E4M3.E4M3", "QGMMA.64x64x32.F32.E4M3.E4M3"]),
     ("07_w4a16_gemm", ["HMMA.16816.F32.BF16", "HGMMA.64x128x16.F32.BF16"])],
)  # fmt: skip
def test_the_cuda_kernels_become_the_machine_code_they_claim(
    problem: str, opcodes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="triton brings the disassembler")
    from torch.utils import cpp_extension
    from triton import knobs

    texts: list[str] = []

    def capture(name: str, cpp_sources: list[str], cuda_sources: list[str], **options: Any) -> None:
        texts.extend(cuda_sources)

    monkeypatch.setattr(cpp_extension, "load_inline", capture)
    spec = importlib.util.spec_from_file_location(f"cuda_{problem}", PROBLEMS / problem / "honest" / "cuda.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.build()
    source, cubin = tmp_path / "kernel.cu", tmp_path / "kernel.cubin"
    source.write_text("\n".join(texts), encoding="utf-8")
    stub = TESTS / "idioms" / "stub"
    command = ["nvcc", "-cubin", "-arch=sm_90a", "-std=c++17", "-O3", "-Xptxas", "-v", f"-I{stub}"]
    done = subprocess.run(
        [*command, "-o", str(cubin), str(source)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "serialized" not in done.stderr  # ptxas says so where wgmma cannot overlap
    dump = [knobs.nvidia.cuobjdump.path, "-sass", str(cubin)]
    sass = subprocess.run(dump, capture_output=True, text=True, timeout=60, check=True).stdout
    assert [opcode for opcode in opcodes if opcode not in sass] == []
