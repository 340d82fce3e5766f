"""A finished grading follows from its samples, its evidence and its sources; what does not is named."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from stored import h200, older

from grader.grading.recomputed import edition_of, faults_of
from grader.grading.request import problem_files
from grader.record.bundle import Bundle
from grader.record.bundle.read import Entry
from grader.score.standard import hardware_file
from kbh_lint.base import paths
from kbh_lint.findings import FileReport
from kbh_lint.problems import Deck, load_deck
from kbh_lint.report.data import file_from_dict

RESULTS = h200()
TRITON, LIBRARY = "01_fp8_gemm-triton", "01_fp8_gemm-library_product"


@cache
def deck() -> Deck:
    return load_deck(paths.problems_dir())


@cache
def stored(name: str, place: Path = RESULTS) -> tuple[tuple[Entry, ...], FileReport]:
    """The entries of a bundle of the H200, and the linter's report in it."""
    (folder,) = place.glob(f"{name}-*")
    bundle = Bundle.open(folder)
    (key,) = (entry.data["report"] for entry in bundle.entries() if entry.kind == "lint")
    return bundle.entries(), file_from_dict(json.loads(bundle.get(key))["files"][0])


def found(entries: Sequence[Entry], report: FileReport) -> list[str]:
    return list(faults_of(entries, deck()[entries[0].data["problem"]["id"]], report))


def changed(name: str, change: Callable[[dict[str, Any]], None], kind: str = "cell") -> list[str]:
    """The faults of a bundle in which the data of its last entry of a kind was changed."""
    entries, report = stored(name)
    made, place = list(entries), max(n for n, entry in enumerate(entries) if entry.kind == kind)
    data = copy.deepcopy(dict(entries[place].data))
    change(data)
    made[place] = replace(entries[place], data=data)
    return found(made, report)


@pytest.mark.parametrize("problem", ["01_fp8_gemm", "04_kahan_softmax", "05_topk_bitonic", "07_w4a16_gemm"])
def test_what_was_graded_on_a_gpu_follows_without_one(problem: str) -> None:
    folders = [folder.name for folder in sorted(RESULTS.glob(f"{problem}-*"))]
    assert len(folders) > 5
    assert {name: faults for name in folders if (faults := found(*stored(name.rpartition("-h200-")[0])))} == {}


def test_a_clock_by_the_bounds_of_an_earlier_version_is_named() -> None:
    assert found(*stored("01_fp8_gemm-narrow_tiles", older())) == [
        "clock of 4096x14336x4096 is proved, and follows from its samples as weak"
    ]


def _samples(data: dict[str, Any], times: float) -> None:
    timing = data["trials"][0]["shapes"][0]["timing"]
    timing["claimed"] = [time * times for time in timing["claimed"]]
    timing["sealed"] = [{**batch, "seconds": batch["seconds"] * times} for batch in timing["sealed"]]


def _score(data: dict[str, Any]) -> None:
    for score in data["shapes"]:
        score["peak_fraction"] *= 1.1
    data["scores"]["peak_fraction"] *= 1.1


def _floor(data: dict[str, Any]) -> None:
    for score in data["shapes"]:
        for name in ("t_floor", "roofline_fraction"):
            score[name] *= 1.2
    data["scores"]["roofline_fraction"] *= 1.2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: _samples(data, 1.01), "t_scored of"),
        (lambda data: _samples(data, 0.5), "its outcome is accepted, and follows as suspect"),
        (_score, "its peak_fraction is"),
        (_floor, "t_floor of"),
        (lambda data: data["shapes"].pop(), "the shapes that have a score"),
        (lambda data: data.update(scores=None), "it has scores where it should have none"),
        (lambda data: data.update(outcome="flagged"), "its outcome is flagged, and follows as accepted"),
        (lambda data: data["target"].update(peak_tflops=1.0), "its peaks are not those"),
        (lambda data: data["target"].update(id="b999"), "there is no target"),
        (lambda data: data["trials"][0]["shapes"][0]["cases"][0].update(error=1e9, tolerance=1e-3), "above its bound"),
        (lambda data: data["trials"][0]["shapes"][0].update(status="wrong"), "not every shape of it is"),
        (lambda data: data["verdict"]["promises"].pop(), "is not listed"),
        (lambda data: data["verdict"]["promises"][0].update(state="unproven"), "and follows as"),
        (lambda data: data["verdict"].update(verdict="interesting"), "its verdict is interesting, and follows"),
        (lambda data: data["verdict"].update(contract="original"), "its contract is"),
        (lambda data: data.update(unstable=not data["unstable"]), "called unstable"),
        (lambda data: data.pop("unstable"), "lacks field"),
    ],
)
def test_a_changed_cell_is_told_by_what_does_not_follow(change: Callable[[dict[str, Any]], None], said: str) -> None:
    assert any(said in fault for fault in changed(TRITON, change)), changed(TRITON, change)


def test_a_leak_that_is_called_clean_does_not_follow_from_its_sources() -> None:
    def clean(data: dict[str, Any]) -> None:
        data["verdict"].update(verdict="clean", accepted=True, findings=[], why="")
        data.update(outcome="accepted", reason="")

    faults = changed(LIBRARY, clean)
    assert any("its verdict is clean, and follows from the sources" in fault for fault in faults)
    assert any(fault.startswith("the finding KBH") and fault.endswith("is left out") for fault in faults)
    assert any("its outcome is accepted, and follows as withheld" in fault for fault in faults)


def test_an_evidence_mismatch_that_is_left_out_of_the_verdict_is_named() -> None:
    entries, _ = stored(TRITON)
    place = next(n for n, entry in enumerate(entries) if entry.kind == "evidence" and "differences" in entry.data)
    data = {**entries[place].data, "differences": ["another output"]}
    made = [*entries[:place], replace(entries[place], data=data), *entries[place + 1 :]]
    faults = found(made, stored(TRITON)[1])
    assert any("follows from the sources and the evidence as reward_hack" in fault for fault in faults)


def test_another_edition_of_the_problem_is_told_from_the_one_of_then() -> None:
    entries, _ = stored("04_kahan_softmax-triton", older())
    problem = deck()["04_kahan_softmax"]
    hashes = problem_files(problem, hardware_file(problem))
    assert edition_of(entries, hashes).other == ("problem.yaml",)
    then = entries[0].data["problem"]["files"]
    assert edition_of(entries, then).other == ()
    assert edition_of([replace(entries[0], data={"problem": 3})], {}).other == ()


def test_it_needs_no_torch() -> None:
    code = "import sys, grader.grading.recomputed; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
