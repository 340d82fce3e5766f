"""Many submissions in one command: what they share, and that none of them ends the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from grading import CLEAN, cell, toy_request, trial
from test_baselines import EAGER, WRONG

from grader.cli import grade as grade_cli
from grader.cli.jobs import Done
from grader.judge import empty_calls
from grader.judge import judging as judge
from grader.judge.answers import Called
from grader.judge.empty_calls import empty_calls as asked
from grader.judge.seen import Null, Sample, Seen
from grader.record.cell import TrialResult
from grader.report.summary import render
from grader.report.view import View
from grader.wire.frames import Frame, Kind
from kbh_lint.cli import kbh_main


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two submissions that are flagged and a file that is none; trials are made without a process."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(*_: object, master: bytes, **__: object) -> TrialResult:
        return replace(trial(), master=master.hex(), commitment=judge.commitment(master))

    monkeypatch.setattr(judge, "run_trial", run)
    first = toy_request(tmp_path).submission
    second = first.with_name("second.py")
    second.write_text(first.read_text() + "\n# another\n")
    monkeypatch.chdir(tmp_path)
    options = ["--problem", "toy", "--problems-dir", "deck", "--target", "cpu", "--no-evidence", "--sandbox", "plain"]
    return ["grade", first.name, "missing.py", second.name, *options, "--out", "out"]


def test_one_that_cannot_be_graded_does_not_end_the_others_and_a_table_has_all_verdicts(
    three: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert kbh_main(three) == 2, "the worst of all"
    out, err = capsys.readouterr()
    table = out[out.index("  submission  ") :]
    assert [line.split()[0] for line in table.splitlines()[1:3]] == ["mine.py", "second.py"]
    assert all("flagged, verdict" in line and "peak_fraction" in line for line in table.splitlines()[1:3])
    assert table.endswith("  3 submissions: 2 flagged, 1 could not be graded\n")
    assert "missing.py" in err and len(err.strip().splitlines()) == 1
    assert kbh_main([word for word in three if word != "missing.py"] + ["--format", "json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 2


def test_a_fault_of_ours_ends_one_of_many_and_is_raised_where_it_is_alone(
    three: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = grade_cli.graded

    def breaks(args: object, path: Path, problem: str, display: object) -> Path:
        if path.name == "mine.py":
            raise TypeError("ours")
        return whole(args, path, problem, display)  # type: ignore[arg-type]

    monkeypatch.setattr(grade_cli, "graded", breaks)
    assert kbh_main([word for word in three if word != "missing.py"]) == 2
    out, err = capsys.readouterr()
    assert "second.py: flagged" in out and "2 submissions: 1 flagged, 1 could not be graded" in out
    assert "mine.py: a fault of kbh itself (TypeError); grade it alone to see where" in err and "Traceback" not in err
    with pytest.raises(TypeError, match="ours"):
        kbh_main([word for word in three if not word.endswith("second.py") and word != "missing.py"])


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_interrupted_run_tells_what_was_done_also_out_of_turn(
    three: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    assert kbh_main([word for word in three if word not in ("missing.py", "mine.py")]) == 1
    bundle = next(Path("out").iterdir())
    capsys.readouterr()

    def one_ends(*_: object, **__: object) -> Iterator[tuple[int, Done]]:
        yield 1, Done(bundle)
        raise KeyboardInterrupt

    monkeypatch.setattr(grade_cli, "graded_at_once", one_ends)
    command = [word for word in three if word != "missing.py"]
    assert kbh_main([*command, "--jobs", "2", "--format", form]) == 130
    out, err = capsys.readouterr()
    if form == "json":
        assert [one["cell"]["outcome"] for one in json.loads(out)["cells"]] == ["flagged"]
    else:
        assert "second.py: flagged" in out and "mine.py" not in out
    assert err.splitlines()[-1] == "kbh grade: interrupted; the same command goes on with what is done"


def test_the_table_names_the_verdict_beside_each_score_and_the_baselines_that_were_asked_for() -> None:
    cells = [cell("accepted", baselines=(EAGER, WRONG)), cell("withheld"), cell("wrong", verdict=CLEAN)]
    shown = render([View(one) for one in cells], 0)
    head, accepted, withheld, wrong, last = shown.splitlines()
    assert "over eager" in head and "over library" in head
    assert "accepted, verdict clean" in accepted and "0.457" in accepted and "2 times" in accepted
    assert "withheld, --strict, verdict rubric_leak" in withheld and "none" in withheld and "0.457" not in withheld
    assert "wrong, verdict clean" in wrong and "none" in wrong
    assert last == "  3 submissions: 1 accepted, 1 withheld, 1 wrong"


# --- what an empty call costs ------------------------------------------------------------------------------

NULL = Null(3e-6, 2e-4, 1e-4, 1e-6, 1e-6, 0.9, alone=6e-5, alone_error=1e-6, alone_middle=9e-5)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """The bindings that were measured; the clock is at 1000 s."""
    found: list[object] = []

    def measure(session: object, binding: object) -> Null:
        found.append(binding)
        return NULL

    monkeypatch.setattr(empty_calls, "measure_empty", measure)
    monkeypatch.setattr(
        empty_calls, "_with_calls_alone", lambda session, null: replace(null, alone=8e-5, alone_middle=7e-5)
    )
    monkeypatch.setattr(empty_calls, "device_key", lambda device: f"the {device}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(empty_calls.time, "monotonic", lambda: 1000.0)
    return found


def session(device: str = "cuda", setting: str = "bubblewrap") -> Any:
    def load(*_: object, **__: object) -> Frame:
        return Frame(Kind.READY, 0, (0.9,))

    def call(*_: object) -> Called:
        calls.append(setting)
        return Called(Frame(Kind.DONE, 0, (1e-6,)), 2e-6)

    calls: list[str] = []
    return SimpleNamespace(
        device=torch.device(device), setting=setting, measured={}, load=load, call=call, calls=calls
    )  # fmt: skip


def test_on_a_gpu_an_empty_call_is_measured_once_for_each_problem_shape_and_sandbox(measured: list[object]) -> None:
    first: Any = session()
    assert asked(first, "toy", "8x4") == NULL  # type: ignore[arg-type]
    later: Any = session()
    again = asked(later, "toy", "8x4")  # type: ignore[arg-type]
    assert len(later.calls) == empty_calls.NULL_CALLS, "where in memory later tensors lie depends on them"
    assert again == replace(NULL, earlier=True, alone_middle=7e-5), "the less of both is what a call alone costs"
    assert asked(first, "toy", "8x4") == NULL and len(measured) == 1  # type: ignore[arg-type]
    for other in ((session(), "toy", "9x4"), (session(), "other", "8x4"), (session(setting="plain"), "toy", "8x4")):
        assert not asked(*other).earlier  # type: ignore[arg-type]
    assert len(measured) == 4


def test_it_is_measured_again_when_it_is_old_and_always_on_a_cpu(
    measured: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(session(), "toy", "8x4")  # type: ignore[arg-type]
    monkeypatch.setattr(empty_calls.time, "monotonic", lambda: 1000.0 + empty_calls.VALID_S)
    assert not asked(session(), "toy", "8x4").earlier and len(measured) == 2  # type: ignore[arg-type]
    for _ in range(2):
        assert not asked(session("cpu"), "toy", "8x4").earlier  # type: ignore[arg-type]
    assert len(measured) == 4


def test_a_cell_says_that_an_empty_call_was_measured_before() -> None:
    seen = Seen(samples=[Sample(1e-3)])
    assert seen.result("8x4", NULL, 0.5).timing.notes == ()  # type: ignore[union-attr]
    notes = seen.result("8x4", replace(NULL, earlier=True), 0.5).timing.notes  # type: ignore[union-attr]
    assert notes == ("what an empty call costs was measured in an earlier process",)


@pytest.mark.parametrize(
    "kept", ["", "{", "[]", "{}", '{"when": true}', json.dumps({"when": 999.0, **asdict(NULL), "batch": "0"}), "nan"]
)
def test_a_kept_cost_that_is_none_is_measured_again(kept: str, measured: list[object], tmp_path: Path) -> None:
    asked(session(), "toy", "8x4")  # type: ignore[arg-type]
    [file] = (tmp_path / "kbh" / "empty-calls").iterdir()
    assert asked(session(), "toy", "8x4").earlier  # type: ignore[arg-type]
    file.write_text(kept)
    assert not asked(session(), "toy", "8x4").earlier and len(measured) == 2  # type: ignore[arg-type]
