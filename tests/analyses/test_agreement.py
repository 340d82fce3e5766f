"""What holds on every path and shape is a fact; what only may hold decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.analyses.agreement import agree
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts
from kbh_lint.base.facts import Crash
from kbh_lint.findings import FileReport
from kbh_lint.host.values.path_runs import Call, PathRun, ShapeRun

HONEST = (Path(__file__).parents[1] / "idioms" / "fp8" / "triton_dot.py").read_text(encoding="utf-8")
START = "        rows, depth = x.shape\n"
SLOW = "return (x.bfloat16() @ self.weight.bfloat16().T) * self.weight_scale"


def lint(folder: Path, before: str) -> FileReport:
    """The honest kernel with some lines at the start of forward."""
    assert HONEST.count(START) == 1
    indented = "".join(f"        {line}\n" for line in before.splitlines())
    path = folder / "solution.py"
    path.write_text(HONEST.replace(START, START + indented), encoding="utf-8")
    return kbh_lint.lint([path], problem="01_fp8_gemm", raise_errors=True).files[0]


def states(report: FileReport) -> dict[str, str]:
    return {promise.id: promise.state for promise in report.promises}


@pytest.mark.parametrize(
    "test", ["torch.rand(1).item() > 0.5", "x[0, 0].float() > 0", "__import__('random').random() > 0.5"]
)
def test_a_branch_that_nobody_can_decide_leaves_a_promise_open(tmp_path: Path, test: str) -> None:
    report = lint(tmp_path, f"if {test}:\n    {SLOW}")
    assert states(report)["fp8-products"] == "unproven"
    assert report.verdict != "clean"


def test_a_branch_on_the_shape_is_decided_for_each_shape(tmp_path: Path) -> None:
    report = lint(tmp_path, f"if rows <= 64:\n    {SLOW}")
    (promise,) = [p for p in report.promises if p.id == "fp8-products"]
    assert sorted(set(promise.shapes.values())) == ["broken", "kept"]
    assert promise.state == "broken"
    assert all(
        set(f.shapes) <= {s for s, state in promise.shapes.items() if state == "broken"} for f in report.findings
    )


@pytest.mark.parametrize(
    "test", ["not x.is_cuda", "x.dtype != torch.float8_e4m3fn", "x.dim() != 2", "not torch.cuda.is_available()"]
)
def test_a_branch_that_no_graded_run_takes_is_no_finding(tmp_path: Path, test: str) -> None:
    report = lint(tmp_path, f"if {test}:\n    {SLOW}")
    assert (report.verdict, report.findings) == ("clean", ())


def path_with(state: str, *kinds: str, ended: bool = True) -> tuple[PathRun, list[ShapeFacts]]:
    run = ShapeRun("s", None, calls=[Call([], None)] if ended else [])
    facts = ShapeFacts("s", [ShapeFact(Crash(what=kind, message=""), None) for kind in kinds])
    facts.states["p"] = state  # type: ignore[assignment]
    return PathRun({}, shapes=[run]), [facts]


@pytest.mark.parametrize(
    ("states", "agreed"),
    [
        (["kept"], "kept"),
        (["kept", "kept"], "kept"),
        (["broken", "broken"], "broken"),
        (["kept", "broken"], "unproven"),
        (["kept", "unproven"], "unproven"),
        (["broken", "unproven"], "unproven"),
        (["kept", "kept-by-precision"], "kept-by-precision"),
        (["kept-by-precision", "kept"], "kept-by-precision"),
        (["kept", "emulated"], "emulated"),
    ],
)
def test_paths_agree_on_a_state_or_leave_it_open(states: list[str], agreed: str) -> None:
    paths, facts = zip(*(path_with(state) for state in states), strict=True)
    (shape,) = agree(list(paths), list(facts))
    assert shape.states["p"] == agreed


def test_only_facts_of_every_path_stay_and_paths_that_break_off_do_not_count() -> None:
    found = [path_with("kept", "a", "b"), path_with("kept", "a"), path_with("broken", "c", ended=False)]
    paths, facts = zip(*found, strict=True)
    (shape,) = agree(list(paths), list(facts))
    assert [seed.fact for seed in shape.seeds] == [Crash(what="a", message="")]
    assert shape.states["p"] == "kept"
