"""No output shows a number without the verdict on it, and kbh show says what is wrong with a bundle."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from grading import H200, SCORE, SILICON, SOURCE, cell, trial

from grader.cli.display import Display
from grader.cli.grade import as_json
from grader.grading.regrade import compare
from grader.record.bundle import Bundle, cell_to_json, trial_to_json
from grader.record.cell import CaseOutcome, Cell, Scores
from grader.record.words import seconds, short
from grader.report import cell_text, page
from grader.report.view import View, load_view
from kbh_lint.cli import kbh_main

OUTCOMES = ("accepted", "flagged", "withheld", "suspect", "wrong", "refused")
RENDERERS: dict[str, Callable[[View], str]] = {
    "text": cell_text.render,
    "coloured text": lambda view: cell_text.render(view, colour=True),
    "one line": lambda view: short(view.cell),
    "JSON": lambda view: json.dumps(as_json([view], [])),
    "page": lambda view: page.render([view]),
    "page of several": lambda view: page.render([view, view]),
}


def view(outcome: str, **changes: object) -> View:
    return View(cell(outcome, **changes), SOURCE, "e" * 64, "kbh-results/x")


@pytest.mark.parametrize("name", RENDERERS)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_output_of_every_outcome_names_outcome_and_verdict_and_a_score_only_where_there_is_one(
    name: str, outcome: str
) -> None:
    shown, made = RENDERERS[name](view(outcome)), cell(outcome)
    assert outcome in shown and made.verdict.verdict in shown
    assert ("0.4567" in shown or "0.457" in shown) == (made.scores is not None)


@pytest.mark.parametrize("name", [name for name in RENDERERS if name != "JSON"])
@pytest.mark.parametrize("outcome", ["accepted", "flagged"])
def test_each_score_has_its_verdict_on_the_same_line(name: str, outcome: str) -> None:
    made = view(outcome)
    text = re.sub(r"<tr><td class=.file.>", "\n<tr>", RENDERERS[name](made).replace("\n<td", "<td"))
    lines = [line for line in text.splitlines() if re.search(r"\b0\.457\b", line)]
    assert lines and all(outcome in line and made.cell.verdict.verdict in line for line in lines)


def test_a_cell_cannot_be_made_with_a_score_that_its_outcome_does_not_allow() -> None:
    for outcome in OUTCOMES[2:]:
        with pytest.raises(ValueError, match="has no score"):
            cell(outcome, scores=Scores(0.5, 0.5, 0.5))


def test_scores_on_measured_peaks_are_labelled_and_those_on_a_datasheet_say_so() -> None:
    measured, datasheet = cell_text.render(view("accepted")), cell_text.render(view("accepted", target=H200))
    assert "of this machine's measured peak" in measured and "CPU (reduced shapes)" in measured
    assert "of the datasheet's peak" in datasheet and "measured peak" not in datasheet


def test_the_text_has_the_line_of_code_the_promises_and_what_did_not_look() -> None:
    text = cell_text.render(view("flagged"))
    assert "3 |     total = tl.dot(a.to(tl.bfloat16), b)" in text
    assert "promise fp8: BROKEN (source BROKEN; not looked at: sass)" in text
    assert text.index("rubric_leak") < text.index("promise") < text.index("t_scored") < text.index("peak_fraction")
    assert "1.9 ms (1 of 10 vetoed)" in text and "note: a note" in text and "1.2%" in text


def test_what_profilers_saw_is_shown_with_what_could_not_be_had() -> None:
    seen = replace(view("flagged"), silicon=SILICON)
    for shown in (cell_text.render(seen), page.render([seen])):
        text = re.sub(r"<[^>]*>", " ", shown)
        assert re.search(r"64x16x32 +1 +2 +1.5 ms +1.6 ms +75% +bf16 1.00 +1.50", text)
        assert "no trace: the tracer is not installed" in text


def test_what_the_host_adds_is_a_column_of_its_own_only_where_somebody_looked() -> None:
    launched = view("accepted", shapes=(replace(SCORE, t_ungated=2.15e-3),))
    for name in ("text", "page"):
        assert "launch" not in RENDERERS[name](view("accepted")).replace("launches", "")
        assert "+250 us" in RENDERERS[name](launched) and "never scored" in RENDERERS[name](launched)


def test_calls_that_were_compared_on_rows_are_told_with_their_number() -> None:
    made = trial()
    case = CaseOutcome("timed/1", True, 1e-5, 1e-4, rows=4352, of_rows=262144)
    shape = replace(made.shapes[0], cases=(*made.shapes[0].cases, case))
    shown = view("accepted", trials=(replace(made, shapes=(shape,)),))
    for name in ("text", "page"):
        assert "1 of them on drawn rows, at least 4,352 of 262,144" in RENDERERS[name](shown)
        assert "drawn rows" not in RENDERERS[name](view("accepted"))


def test_what_a_submission_says_cannot_drive_a_terminal() -> None:
    evil = "\x1b[2J\x1b]0;x\x07\u202e 0.99 accepted"
    for name, render in RENDERERS.items():
        shown = render(view("wrong", reason=evil, file="a\x1b[31m.py", trials=(trial("wrong", evil),)))
        assert not set("\x1b\x07\u202e") & set(re.sub(r"\x1b\[[0-9;]*m", "", shown) if "text" in name else shown)


def test_one_line_times_have_three_digits_and_a_unit() -> None:
    given = {None: "-", 0.0: "0 ns", 2.5e-7: "250 ns", 1.234e-6: "1.23 us", 0.0567: "56.7 ms", 12.3: "12.3 s"}
    assert {value: seconds(value) for value in given} == given and seconds(float("inf")) == "infinite"


# --- kbh show ----------------------------------------------------------------------------------------------


def bundle(folder: Path, made: Cell, finished: bool = True) -> Path:
    source = "\n".join(SOURCE).encode()
    with Bundle.create(folder, {}, []) as first:
        key = first.put(source)
        log = first.put(b"hello from the kernel")
    header = {"submission": {"sha256": made.submission, "files": {"solution.py": key}}}
    place = folder.with_name(folder.name + "-b")
    with Bundle.create(place, header, [source]) as opened:
        assert opened.put(b"hello from the kernel") == log
        trials = tuple(replace(one, log=log) for one in made.trials)
        for one in trials:
            opened.append("commitment", {"trial": one.index, "commitment": one.commitment})
            opened.append("trial", trial_to_json(one), [log])
        if finished:
            opened.append("cell", cell_to_json(replace(made, trials=trials)))
    return place


def test_show_prints_a_bundle_as_text_one_line_json_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, html = bundle(tmp_path / "x", cell("flagged")), tmp_path / "page.html"
    assert kbh_main(["show", str(folder), "--html", str(html)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("solution.py: flagged, verdict rubric_leak") and "tl.dot(a.to(tl.bfloat16)" in out
    assert f"head   {Bundle.open(folder).head}" in out and "hello from the kernel" in html.read_text()
    assert kbh_main(["show", str(folder), "--format", "short"]) == 0
    assert "solution.py: flagged, verdict rubric_leak: peak_fraction 0.457" in capsys.readouterr().out
    assert kbh_main(["show", str(folder), "--format", "json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["cells"]
    assert shown["cell"]["verdict"]["verdict"] == "rubric_leak" and shown["silicon"] is None


def test_show_of_what_is_broken_unfinished_or_no_bundle_is_a_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = bundle(tmp_path / "x", cell("flagged"))
    entry = whole / "entries" / "000003.json"
    entry.write_bytes(entry.read_bytes().replace(b'"right"', b'"wrong"', 1))
    open_ = bundle(tmp_path / "y", cell("flagged"), finished=False)
    for folder, words in (
        (whole, "chain of hashes"),
        (open_, "is not finished: 1 trial is done"),
        (tmp_path, "entries"),
    ):
        assert kbh_main(["show", str(folder)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and words in err and len(err.splitlines()) == 1


def test_show_verify_tells_a_key_that_is_not_the_one_committed_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kbh_main(["show", "--verify", str(bundle(tmp_path / "x", cell("flagged")))]) == 2
    out, err = capsys.readouterr()
    assert "flagged" in out and "bundle is whole" not in out and "000003.json" in err


def test_a_cell_whose_trials_are_others_than_its_entries_is_not_shown(tmp_path: Path) -> None:
    made = bundle(tmp_path / "x", cell("flagged"), finished=False)
    with Bundle.open(made, write=True) as opened:
        opened.append("cell", cell_to_json(cell("accepted")))
    assert kbh_main(["show", str(made)]) == 2


def test_show_needs_neither_torch_nor_triton(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "x", cell("flagged"))
    code = (
        "import sys; sys.modules['torch'] = sys.modules['triton'] = sys.modules['numpy'] = None; "
        f"from kbh_lint.cli import kbh_main; sys.exit(kbh_main(['show', {str(folder)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "flagged" in done.stdout, done.stderr


# --- a second grading, and the display ---------------------------------------------------------------------


def timed(factor: float) -> Cell:
    return cell("accepted", shapes=(replace(SCORE, t_scored=SCORE.t_scored * factor),))


@pytest.mark.parametrize(
    ("factor", "word"), [(1.0, "same"), (1.09, "same"), (0.92, "same"), (1.2, "slower"), (0.8, "faster")]
)
def test_a_second_grading_is_faster_or_slower_only_beyond_the_noise_limit_which_is_named(
    factor: float, word: str
) -> None:
    found = compare(timed(1.0), timed(factor), 0.1)
    assert found.word == word and "noise limit of 10.0%" in found.text.replace("is 10", "of 10")


def test_a_second_grading_with_another_verdict_outcome_or_promise_says_that_first() -> None:
    found = compare(timed(1.0), cell("flagged"), 0.1)
    assert found.word == "verdict changed"
    assert "the outcome accepted is now flagged" in found.text and "the promise fp8 kept is now broken" in found.text


def test_times_of_two_machines_are_not_compared() -> None:
    found = compare(timed(1.0), replace(timed(0.1), target=H200), 0.1)
    assert found.word == "same" and "two machines" in found.text


class Terminal(StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_the_display_shows_nothing_before_two_seconds_and_then_what_was_done_and_is_done() -> None:
    from grader.grading.grade import Progress

    now, stream = [0.0], Terminal()
    display = Display(stream=stream, clock=lambda: now[0])
    display.start("my.py")
    display(Progress("lint", "done", "clean"))
    display(Progress("trial", "begin", of="1 of 2"))
    assert stream.getvalue() == ""
    now[0] = 12.4
    display(Progress("trial", "at", "64x16x32: call 3 of 9\x1b[2J", "1 of 2"))
    shown = stream.getvalue()
    assert "my.py\n" in shown and "✓ lint           clean\n" in shown and "\x1b[2J" not in shown
    assert "trial 1 of 2   64x16x32: call 3 of 9" in shown and "12 s" in shown
    display.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_without_a_terminal_the_display_prints_finished_stages_only_when_asked() -> None:
    from grader.grading.grade import Progress

    for verbose, expected in ((False, ""), (True, "my.py\n  ✓ lint           clean\n")):
        stream = StringIO()
        display = Display(verbose=verbose, stream=stream)
        display.start("my.py")
        display(Progress("lint", "begin"))
        display(Progress("lint", "done", "clean"))
        assert stream.getvalue().replace("+", "✓") == expected


def test_that_a_grading_waits_is_told_also_without_a_terminal() -> None:
    from grader.grading.grade import Progress

    stream = StringIO()
    display = Display(stream=stream)
    display.start("my.py")
    display(Progress("lint", "done", "clean"))
    assert stream.getvalue() == ""
    display(Progress("trial", "wait", "waiting for another grading", "1 of 2"))
    assert stream.getvalue().endswith("  trial 1 of 2: waiting for another grading\n")


def test_load_view_needs_no_more_than_the_folder(tmp_path: Path) -> None:
    made = cell("flagged")
    found = load_view(bundle(tmp_path / "x", made))
    assert found.cell.verdict == made.verdict and found.line(3).strip().startswith("total") and found.line(99) == ""
