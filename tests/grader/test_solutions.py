"""The deck's own solutions, of every graded problem: the linter's word on each, and the checker's on the CPU.

A new problem needs no line here: solutions.yaml in its folder says what there is.
"""

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
from kbh_lint.problems import load_deck

pytestmark = pytest.mark.usefixtures("warm")

TESTS = Path(__file__).resolve().parents[1]
PROBLEMS = TESTS.parent / "problems"
DECK = {name: problem for name, problem in load_deck(PROBLEMS).items() if problem.status == "graded"}
HONEST = [(name, entry) for name in DECK for entry in read_solutions(PROBLEMS / name).honest]
DECOYS = [(name, entry) for name in DECK for entry in read_solutions(PROBLEMS / name).decoys]
# Which of the reduced shapes is checked, where it is not the first: an awkward or ragged one, more rows than one tile.
CHECKED = {
    "01_fp8_gemm": 1, "02_kda_cutlass": 3, "03_paged_attention": 3, "05_topk_bitonic": 3, "06_sonic_moe_swiglu": 2,
    "07_w4a16_gemm": 1, "09_fmha_preattn_mrope": 2,
}  # fmt: skip


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
    assert set(states) == {promise.id for promise in DECK[problem].promises}
    assert set(states.values()) == {"kept"}, states


@pytest.mark.parametrize(("problem", "entry"), DECOYS, ids=name_of)
def test_a_decoy_is_flagged_by_the_rule_it_names(problem: str, entry: Decoy) -> None:
    report = linted(problem, entry.file, "h200")
    assert report.verdict in {"rubric_leak", "reward_hack"}, report.unread
    assert entry.rule in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("problem", DECK)
def test_the_decoys_of_a_problem_break_it_by_four_rules_or_more(problem: str) -> None:
    assert len({decoy.rule for name, decoy in DECOYS if name == problem}) >= 4


@pytest.mark.parametrize("problem", DECK)
def test_every_solution_in_the_folder_is_listed(problem: str) -> None:
    listed = {entry.file for name, entry in [*HONEST, *DECOYS] if name == problem}
    folder = PROBLEMS / problem
    there = (path for kind in ("honest", "decoys") for path in (folder / kind).rglob("*.py"))
    assert listed == {path.relative_to(folder).as_posix() for path in there}


@pytest.mark.share(4)
@pytest.mark.parametrize(("problem", "entry"), [(p, e) for p, e in HONEST if e.runs_on_cpu], ids=name_of)
def test_an_honest_solution_passes_the_checker_on_a_cpu(problem: str, entry: Honest) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    whole, at = DECK[problem], CHECKED.get(problem, 0)
    part = dataclasses.replace(whole, shapes=(whole.shapes[at],), reduced=(whole.reduced[at],))
    report = check_submission(part, PROBLEMS / problem / entry.file, device="cpu", master=bytes(32), timeout=300.0)
    assert report.outcome == "passed", report.message
    named = [f"structure/{case.id}" for case in whole.cases] + [f"stress/{case.id}" for case in whole.stress]
    assert [name for name in named if not any(case.case.startswith(name) for case in report.cases)] == []


def test_a_tree_sum_passes_the_softmax_checker_so_that_only_the_linter_catches_it() -> None:
    whole = DECK["04_kahan_softmax"]
    part = dataclasses.replace(whole, shapes=whole.shapes[:1], reduced=whole.reduced[:1])
    file = PROBLEMS / whole.id / "decoys" / "tree_sum.py"
    report = check_submission(part, file, device="cpu", master=bytes(32), timeout=100.0)
    assert report.outcome == "passed", report.message


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
