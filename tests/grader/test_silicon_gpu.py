"""The whole of the evidence on a GPU with Nsight Compute: what the deck's own solutions really executed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.deck.keys import new_master
from grader.grading.linting import lint_snapshot
from grader.judge.judging import build, default_options, run_trial
from grader.judge.turns import alone
from grader.sandbox import SandboxError, choose
from grader.sandbox.folders import remove
from grader.sandbox.snapshot import snapshot
from grader.silicon import Silicon
from grader.silicon.gather import gather
from grader.silicon.ncu import Unavailable, find_ncu
from kbh_lint.findings import State
from kbh_lint.problems import load_problem

pytestmark = pytest.mark.gpu
DECK = Path(__file__).parents[2] / "problems"
LAYERS = ("source", "sass", "counters", "run")


def seen(folder: Path, name: str, file: str) -> tuple[Silicon, dict[str, State]]:
    """What profilers see of a solution of the deck, and the source layer's states."""
    problem = load_problem(DECK / name / "problem.yaml")
    wanted = ("fp8-products", "int4-packed", "compensated-sum")
    promises = tuple(replace(p, settled_by=LAYERS) if p.kind in wanted else p for p in problem.promises)
    problem = replace(problem, promises=promises)
    taken = snapshot(DECK / name / file, folder / "submission")
    options = replace(default_options("cuda", timeout=300), samples=24, warmups=2, batches=1)
    try:
        sandbox = choose(device="cuda")
        find_ncu()
    except (SandboxError, Unavailable) as error:
        pytest.skip(str(error))
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("the expected states are those of sm_90a")
    source = lint_snapshot(taken, name, "h200").report.promises
    caches = folder / "caches"
    scratch = folder / "scratch"  # the same for all, as in a grading: compilers note paths

    def emptied() -> Path:
        remove(scratch)
        return scratch

    build(
        problem, taken, device="cuda", scale="full", options=options, sandbox=sandbox, scratch=scratch,
        caches=caches, progress=lambda text: None,
    )  # fmt: skip
    trial = run_trial(
        problem, taken, index=0, device="cuda", scale="full", master=new_master(), options=options, sandbox=sandbox,
        scratch=scratch, caches=caches, keep_log=lambda text: "", progress=lambda text: None,
    )  # fmt: skip
    assert trial.status == "right", trial.message
    silicon = gather(
        problem, taken, trial, device="cuda", scale="full", options=options, sandbox=sandbox,
        scratch=emptied, caches=caches, promises=source, keep=lambda text: "",
        progress=lambda text: None, held=lambda: alone("cuda"),  # two that count at once get no counters
    )  # fmt: skip
    return silicon, {promise.id: promise.state for promise in source}


def test_fp8_products_that_were_written_also_ran_on_every_shape(tmp_path: Path) -> None:
    silicon, source = seen(tmp_path, "01_fp8_gemm", "honest/triton.py")
    assert source["fp8-products"] == "kept"
    states = {layer: states["fp8-products"] for layer, states in silicon.layers.items()}
    assert states == {"sass": "kept", "counters": "kept"}, (silicon.reasons, silicon.notes)
    assert silicon.findings == ()
    assert all(shape.tensor["fp8"] >= 0.999 * shape.needed for shape in silicon.shapes)


def test_products_that_were_widened_are_broken_in_machine_code_and_in_the_counters(tmp_path: Path) -> None:
    silicon, source = seen(tmp_path, "01_fp8_gemm", "decoys/upcast_dot.py")
    assert source["fp8-products"] == "broken"
    assert {states["fp8-products"] for states in silicon.layers.values()} == {"broken"}, (
        silicon.reasons,
        silicon.notes,
    )
    assert len(silicon.layers) == 2
    assert all(shape.tensor["bf16"] >= 0.999 * shape.needed for shape in silicon.shapes)
