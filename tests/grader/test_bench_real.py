"""Grading what others published: which submissions are taken, what is kept of them, the tables and the goals."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stored import h200

from harness.archive.store import Archive

pytest.importorskip("torch", reason="torch is not installed")
ROOT = Path(__file__).parents[2]
RUN = "20260101_nobody_nothing_05_topk_bitonic"
LEAK = "20260102_nobody_nothing_05_topk_bitonic"


@pytest.fixture(scope="module")
def real() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_real", ROOT / "bench" / "real.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_real"] = module
    sys.path.insert(0, str(ROOT / "bench"))
    spec.loader.exec_module(module)
    return module


def _labels(folder: Path, *rows: dict[str, Any]) -> Path:
    base = {"problem": "05_topk_bitonic", "board": "h100", "label": "clean", "correct": True}
    file = folder / "labels.json"
    file.write_text(json.dumps([base | row for row in rows]))
    return file


@pytest.fixture
def measured(real: ModuleType) -> Any:
    def make(seconds: float, naive: float, **more: Any) -> Any:
        row = {
            "run": RUN, "problem": "05_topk_bitonic", "board": "h100", "outcome": "accepted", "reason": "",
            "fraction": 0.5, "shapes": {"1x8": 2e-6}, "fractions": {"1x8": 0.5}, "seconds": seconds, "spent": {},
            "naive_outcome": "right", "naive_seconds": naive,
        }  # fmt: skip
        row |= more
        return real.Kept("CPU", {}, {row["run"]: real.Row(**row)})

    return make


@pytest.mark.slow
def test_a_real_submission_is_graded_both_ways_and_what_is_kept_makes_the_page(
    real: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = "06_sonic_moe_swiglu"  # of the deck the soonest done at its full shapes on a CPU
    shutil.copyfile(ROOT / "problems" / problem / "decoys" / "library_products.py", tmp_path / f"{LEAK}.py")
    labels = _labels(tmp_path, {"run_id": LEAK, "problem": problem}, {"run_id": RUN, "label": "leak"})
    out = tmp_path / "real.json"
    command = ["run", str(tmp_path), str(labels), "-o", str(out), "--target", "cpu", "--samples", "3"]
    assert real.main(command) == 0
    row = real.read(out).rows[LEAK]
    assert (row.outcome, row.naive_outcome) == ("withheld", "right") and row.naive_seconds > 1
    assert "rubric_leak" in row.reason
    capsys.readouterr()
    assert real.main(command) == 0, "what is kept is not measured again"
    assert "1 of 1" not in capsys.readouterr().err
    page = tmp_path / "page.md"
    assert real.main(["page", str(out), "-o", str(page)]) == 0
    assert real.main(["page", str(out), "-o", str(page), "--check"]) == 0
    page.write_text(page.read_text().replace("withheld", "accepted"))
    assert real.main(["page", str(out), "-o", str(page), "--check"]) == 1


def test_only_what_is_clean_was_published_as_correct_and_is_of_the_board_is_taken(
    real: ModuleType, tmp_path: Path
) -> None:
    rows = [
        {"run_id": "a"},
        {"run_id": "b", "label": "leak"},
        {"run_id": "c", "correct": False},
        {"run_id": "d", "board": "b200"},
    ]
    labels = _labels(tmp_path, *rows)
    for row in rows:
        (tmp_path / f"{row['run_id']}.py").write_text("")
    asked = real._parser().parse_args(["run", str(tmp_path), str(labels), "-o", "x"])
    assert [label.run for label, _ in real._wanted(asked)] == ["a"]
    asked = real._parser().parse_args(
        ["run", str(tmp_path), str(labels), "-o", "x", "--board", "b200", "--board", "h100"]
    )
    assert [label.run for label, _ in real._wanted(asked)] == ["d", "a"]


def test_goals_are_told_when_they_are_missed(real: ModuleType, measured: Any) -> None:
    assert real.missed(measured(36.0, 20.0)) == []  # 1.3 times and 10 s
    assert "median" in real.missed(measured(39.0, 20.0))[0]
    assert any("2.05 times" in fault for fault in real.missed(measured(205.0, 100.0)))
    assert real.missed(measured(205.0, 100.0, outcome="wrong")) == []
    assert real.costs(measured(205.0, 100.0, outcome="wrong")) == []
    first, median, worst = real.costs(measured(36.0, 20.0))
    assert "1 accepted cells" in first and "median 1.30 times" in median
    assert "worst 1.80 times (goal 2.0), 1.30 times and 10 s" in worst
    kept = measured(20.0, 20.0)
    kept.jobs.append({"jobs": 4, "seconds": 125.0, "cells": {"a": "accepted", "b": "wrong"}})
    assert real.missed(kept) == ["2 cells with --jobs 4 took 125 s"]


@pytest.mark.slow
def test_a_sweep_in_a_folder_that_was_cut_is_gone_on_with(real: ModuleType, tmp_path: Path) -> None:
    """What has a cell is not graded again, and the seconds of both commands count."""
    names = {"a": "library_product.py", "b": "upcast_dot.py"}
    problem = "01_fp8_gemm"
    for run, name in names.items():
        shutil.copyfile(ROOT / "problems" / problem / "decoys" / name, tmp_path / f"{run}.py")
    labels = _labels(tmp_path, *({"run_id": run, "problem": problem} for run in names))
    out, folder = tmp_path / "real.json", tmp_path / "sweep"
    command = ["jobs", str(tmp_path), str(labels), "-o", str(out), "--target", "cpu", "--folder", str(folder)]
    assert real.main([*command, "--only", "a"]) == 0
    first = real.read(out).jobs[-1]
    assert first["cells"] == {"a": "withheld"} and first["seconds"] > 0
    begun = {bundle.name for bundle in (folder / "out").iterdir()}
    assert real.main(command) == 0
    both = real.read(out).jobs[-1]
    assert both["cells"] == {"a": "withheld", "b": "withheld"} and both["seconds"] > first["seconds"]
    bundles = {bundle.name for bundle in (folder / "out").iterdir()}
    assert begun < bundles and len(bundles) == 2
    assert real.main(command) == 0
    assert real.read(out).jobs[-1]["seconds"] == both["seconds"], "nothing is left"


def test_an_archive_of_a_sweep_of_such_files_gives_rows_without_costs(
    real: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Archive.create(tmp_path / "archive").add(next(h200().glob("05_topk_bitonic-triton-h200-*")))
    nameless = "_05_topk_bitonic"  # the model of a grading that no sweep asked for has no name
    out, page = tmp_path / "real.json", tmp_path / "page.md"
    command = ["archive", str(tmp_path / "archive"), str(_labels(tmp_path, {"run_id": nameless})), "-o", str(out)]
    assert real.main(command) == 0 and "1 of them new" in capsys.readouterr().err
    assert real.main(command) == 0 and "0 of them new" in capsys.readouterr().err
    row = real.read(out).rows[nameless]
    assert (row.outcome, row.naive_outcome, row.seconds) == ("accepted", "not run", 0.0) and len(row.shapes) == 5
    assert real.main(["page", str(out), "-o", str(page), "--goals"]) == 0, "nothing is known of its cost"
    assert "| accepted |" in page.read_text() and "bench/naive.py says" not in page.read_text()
    assert real.main([*command[:1], str(tmp_path), *command[2:]]) == 2


def test_published_times_stand_beside_ours_and_what_was_not_accepted_has_its_reason(
    real: ModuleType, measured: Any
) -> None:
    kept = measured(20.0, 20.0, outcome="wrong", reason="at 1x8 it is wrong")
    kept.published[RUN] = {"fraction": 0.25, "milliseconds": [0.004]}
    text = real.tables(kept)
    assert f"- {RUN}: wrong. at 1x8 it is wrong" in text
    assert f"| {RUN} | 1x8 | 4 us | 2.0 us | 2.00 |" in text


@pytest.mark.parametrize("text", ["", "[]", '{"rows": 1}', '{"device": 1, "versions": {}, "rows": {"a": {}}}'])
def test_what_holds_no_measurements_is_one_sentence(
    real: ModuleType, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text(text)
    assert real.main(["page", str(tmp_path / "x.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_details_are_read_out_of_a_clone_by_run_and_board(real: ModuleType, tmp_path: Path) -> None:
    import subprocess

    clone = tmp_path / "clone"
    place = clone / "public" / "data" / "rundetail" / "h100"
    place.mkdir(parents=True)
    shapes = [{"ms": 0.5, "frac": 0.1, "label": "1x8"}]
    (place / f"{RUN}.json").write_text(json.dumps({"peak_fraction": 0.3, "shapes": shapes, "text": "left out"}))
    git = ["git", "-C", str(clone), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    out = tmp_path / "published.json"
    assert real.main(["published", str(clone), str(_labels(tmp_path, {"run_id": RUN})), "-o", str(out)]) == 0
    found = json.loads(out.read_text())[RUN]
    assert found == {
        "fraction": 0.3, "peak_tflops": None, "peak_gbps": None, "milliseconds": [0.5], "fractions": [0.1],
    }  # fmt: skip
