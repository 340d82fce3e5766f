"""The table of repeats: how far scored times of several gradings vary, and what a tracer says of the claimed ones."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest
from grading import H200, SCORE, SILICON, cell

from grader.record.bundle import Bundle, BundleError, cell_to_json, trial_to_json
from grader.record.cell import Cell
from grader.report.view import load_view
from grader.silicon import silicon_to_json

FILE = Path(__file__).resolve().parents[2] / "bench" / "repeat.py"
LONG, SHORT = "4096x4096x4096", "32x8192x8192"
SUBMISSION = [("01_fp8_gemm", Path("mine.py"))]


@pytest.fixture
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_repeat", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_repeat"] = module
    spec.loader.exec_module(module)
    return module


def graded(long: float, short: float) -> Cell:
    scores = [
        replace(SCORE, shape=shape, t_scored=t, t_event=t, t_null=3e-6) for shape, t in ((LONG, long), (SHORT, short))
    ]
    return cell(problem="01_fp8_gemm", target=H200, shapes=tuple(scores))


def write(folder: Path, made: Cell, traces: tuple[str, ...] = ()) -> Path:
    """A whole bundle; the traces are two of each shape."""
    source = b"import torch"
    header = {"submission": {"files": {"solution.py": sha256(source).hexdigest()}}}
    with Bundle.create(folder, header, [source]) as opened:
        for trial in made.trials:
            opened.append("trial", trial_to_json(trial))
        if traces:
            keys = tuple(opened.put(text.encode()) for text in traces)
            shapes = tuple(replace(SILICON.shapes[0], shape=score.shape) for score in made.shapes)
            silicon = silicon_to_json(replace(SILICON, capability="9.0", shapes=shapes, traces=keys))
            opened.append("evidence", {"silicon": silicon}, list(dict.fromkeys(keys)))
        opened.append("cell", cell_to_json(made))
    return folder


def trace(*kernels: tuple[float, float]) -> str:
    """What a tracer writes of kernels that start at and last so many microseconds."""
    sizes = {"grid": [1, 1, 1], "block": [32, 1, 1]}
    events = [{"ph": "X", "cat": "kernel", "name": "k", "ts": ts, "dur": dur, "args": sizes} for ts, dur in kernels]
    return json.dumps({"traceEvents": events})


@pytest.mark.parametrize(
    ("long", "short", "met", "told"),
    [
        ([100e-6, 101e-6, 102e-6], [25e-6, 25.05e-6, 25.1e-6], True, "2 of 2 shapes repeat"),
        ([100e-6, 101e-6, 102e-6], [25e-6, 25.2e-6, 25.4e-6], False, "1 of 2 shapes repeat"),
        ([100e-6, 102e-6, 104e-6], [25e-6] * 3, False, "1 of 2 shapes repeat"),
        ([100e-6] * 3, [18e-6, 18.2e-6, 18.4e-6], True, "2 of 2 shapes repeat"),
    ],
    ids=["both", "memory-bound", "compute-bound", "under 20 us"],
)
def test_every_shape_must_repeat_as_its_class_wants(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], long: list[float], short: list[float],
    met: bool, told: str,
) -> None:  # fmt: skip
    bundles = [write(tmp_path / str(i), graded(*times)) for i, times in enumerate(zip(long, short, strict=True))]
    asked = iter(bundles)

    def grade(submissions: list[tuple[str, Path]], evidence: bool) -> list[Path]:
        assert (submissions, evidence) == (SUBMISSION, False)
        return [next(asked)]

    assert bench.repeatability(SUBMISSION, 3, grade) == met
    said = capsys.readouterr().out
    assert told in said and ("MISSED" in said) != met


def test_a_shape_that_one_grading_did_not_score_is_no_repeat(bench: ModuleType) -> None:
    whole = graded(1e-4, 2e-5)
    found = bench.repeats([whole, replace(whole, shapes=whole.shapes[:1])])
    assert [row.shape for row in found] == [LONG] and found[0].variation == 0.0


def test_a_cell_of_a_cpu_has_the_limit_of_a_cpu(bench: ModuleType) -> None:
    made = cell(problem="01_fp8_gemm", shapes=(replace(SCORE, shape="64x128x256"),))
    assert [row.limit for row in bench.repeats([made, made])] == [0.15]


@pytest.mark.parametrize(
    ("second", "met", "told"),
    [
        (trace((0, 10), (12, 10.8)), True, "ok"),
        (trace((0, 5), (40, 10)), False, "MISSED"),  # the tracer's call has a gap that the timed one had not
        ("no trace", False, "no trace  MISSED"),
    ],
    ids=["agrees", "a gap", "none"],
)
def test_claimed_times_are_held_against_the_first_start_and_the_last_end(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str, met: bool, told: str
) -> None:
    traces = (trace((5, 99)), trace((5, 97)), second, second)
    folder = write(tmp_path / "bundle", graded(100e-6, 25e-6), traces)
    assert load_view(folder).silicon is not None
    assert bench.agreement(SUBMISSION, lambda submissions, evidence: [folder]) == met
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("ok") and f"{97:.2f} us" in lines[1] and lines[2].endswith(told)


def test_both_tables_are_told_from_bundles_that_there_are(
    bench: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = (trace((5, 99)), trace((5, 97)), trace((0, 21.5)), trace((0, 22)))
    folders = [write(tmp_path / str(i), graded(1e-4, 25e-6 + i * 1e-8), traces if i else ()) for i in range(3)]
    assert bench.known(folders)
    said = capsys.readouterr().out
    assert "over 3 gradings" in said and "2 of 2 shapes repeat" in said and "4 of 4 shapes agree" in said
    assert bench.known(folders[:1]) and "repeat" not in capsys.readouterr().out


def test_a_folder_that_is_no_bundle_is_named(bench: ModuleType, tmp_path: Path) -> None:
    good = write(tmp_path / "good", graded(1e-4, 25e-6))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match=f"{tmp_path / 'empty'}: entries is missing"):
        bench.known([good, tmp_path / "empty"])
