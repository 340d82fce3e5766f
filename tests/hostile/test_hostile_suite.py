"""Every hostile submission is contained as cases.yaml says, and every honest twin is graded like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import hostile_suite as suite
import pytest
import torch
from hostile_suite import HostileCase, World
from hostile_table import readme

from grader.record.sandboxes import TRAITS
from grader.sandbox import SandboxError, choose
from kbh_lint import lint

ALL = suite.load_cases()
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
Record = Callable[[str, object], None]
CLOSED = [kind for kind, row in TRAITS.items() if row.closed]
FLOCK = 13
# Twins whose time does not matter run several in one process, and are linted one by one. KBH_HOSTILE_ALL=1 grades each.
TOGETHER = [
    c for c in ALL
    if c.device == "cpu" and not c.least_ms and not c.scratch_gib and not os.environ.get("KBH_HOSTILE_ALL")
]  # fmt: skip
FLOCKS = [TOGETHER[i : i + FLOCK] for i in range(0, len(TOGETHER), FLOCK)]


def of_device(cases: list[HostileCase]) -> list[object]:
    return [
        pytest.param(c, id=c.name, marks=[pytest.mark.gpu(alone=c.alone), NO_GPU] if c.device != "cpu" else [])
        for c in cases
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    if not sys.platform.startswith("linux"):
        pytest.skip("grading needs Linux")
    before = os.environ.get("XDG_CACHE_HOME"), torch.get_num_threads()
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    torch.set_num_threads(1)
    made = World(tmp_path_factory.mktemp("bundles"))
    yield made
    made.close()
    torch.set_num_threads(before[1])
    os.environ.pop("XDG_CACHE_HOME")
    if before[0] is not None:
        os.environ["XDG_CACHE_HOME"] = before[0]


def sandboxed(device: str, wanted: str) -> str:
    try:
        return choose(device="cpu" if device == "cpu" else "cuda", wanted=wanted).record.kind
    except SandboxError as error:
        pytest.skip(f"there is no such sandbox here: {error}")


@pytest.mark.share(4)
@pytest.mark.parametrize("case", of_device(list(ALL)))
def test_a_hostile_submission_is_contained(
    case: HostileCase, world: World, tmp_path: Path, record_property: Record
) -> None:
    record_property("hostile", 1)
    if sandboxed(case.device, "auto") not in CLOSED:
        pytest.skip("hostile submissions are run in a sandbox only")
    got = suite.grade_file(case.file, case, world, tmp_path)
    assert suite.faults(case, got) == []
    if case.share_of_twin:
        assert suite.gain(case, got, suite.grade_file(case.twin, case, world, tmp_path)) == []


@pytest.mark.share(4)
@pytest.mark.parametrize("case", of_device([c for c in ALL if c not in TOGETHER]))
def test_its_honest_twin_is_graded_as_usual(
    case: HostileCase, world: World, tmp_path: Path, record_property: Record
) -> None:
    record_property("twins", 1)
    found = suite.twin_faults(case, suite.grade_file(case.twin, case, world, tmp_path))
    if found and all(suite.SLOW in one for one in found):  # a machine that was kept busy is not so twice
        found = suite.twin_faults(case, suite.grade_file(case.twin, case, world, tmp_path))
    assert found == []


@pytest.mark.share(4)
@pytest.mark.parametrize("cases", FLOCKS, ids=lambda cases: cases[0].name)
def test_honest_twins_that_run_together_are_graded_as_usual(
    cases: Sequence[HostileCase], world: World, tmp_path: Path, record_property: Record
) -> None:
    record_property("twins", len(cases))
    (tmp_path / "copy").mkdir()
    (tmp_path / "together.py").write_text(suite.flock(cases))
    got = suite.grade_file(tmp_path / "together.py", replace(cases[0], evidence=True), world, tmp_path / "copy")
    assert got.cell.outcome in ("accepted", "flagged"), got.cell.reason
    assert got.left == ()
    for case in cases:
        report = lint([case.twin], problem=suite.PROBLEM, problems_dir=suite.DECK).files[0]
        assert (case.name, suite.accused(report.findings)) == (case.name, [])


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", CLOSED)
@pytest.mark.parametrize("case", of_device([c for c in ALL if c.each_kind]))
def test_every_closed_kind_of_sandbox_contains_it(case: HostileCase, kind: str, world: World, tmp_path: Path) -> None:
    if sandboxed(case.device, "auto") == kind:
        pytest.skip("it is the best kind here, in which every case is graded")
    sandboxed(case.device, kind)
    assert suite.faults(case, suite.grade_file(case.file, case, world, tmp_path, kind)) == []


@pytest.mark.share(4)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in ALL if c.control])
def test_without_a_sandbox_it_gets_through(case: HostileCase, world: World, tmp_path: Path) -> None:
    copy = suite.place(case.file, world, tmp_path)
    run = subprocess.run(
        [sys.executable, str(copy)], stdout=subprocess.PIPE, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(suite.HERE.parent.parent), "TMPDIR": str(tmp_path)},
        pass_fds=(world.secret.fileno(),),
    )  # fmt: skip
    assert "BREACH" in run.stdout
    world.recover()


def test_every_case_has_a_submission_and_a_twin_and_every_submission_a_case() -> None:
    names = {case.name for case in ALL}
    assert len(names) == len(ALL)
    assert {path.stem for path in suite.CASES.glob("*.py")} == names | {f"{name}_twin" for name in names}
    assert all(case.proof in suite.PROOFS and case.idea.endswith(".") for case in ALL)
    assert sum(case.device == "cpu" for case in ALL) >= 44
    assert all(suite.MARKER not in case.twin.read_text() for case in ALL)


def test_the_table_of_cases_is_up_to_date() -> None:
    assert (suite.HERE / "README.md").read_text() == readme(), "run python tests/hostile/hostile_table.py"
