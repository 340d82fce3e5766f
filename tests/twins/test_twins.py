"""Each way of writing C++ is honest as it stands, and does not hide a leak that is put around it.

A row is tried on one program, and with one fault, by its place in the table; `KBH_TWINS=all` tries it on every program
with every fault, which is what to run after a change of how C++ is followed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from linted import report_of
from twin_kernels import HOST, Idiom
from twin_programs import FAULTS, PROGRAMS, Program

from kbh_lint.findings import FileReport

ALL = os.environ.get("KBH_TWINS") == "all"
HERE = Path(__file__).parent
TABLES = {
    name: yaml.safe_load((HERE / f"{name}.yaml").read_text()) for name in ("hosts", "launches", "devices", "kept")
}
ROWS = [*TABLES["hosts"], *TABLES["launches"]]
CLASSES = {
    "kernel": {"preunpacked-int4", "input-structure-hardcode"},
    "operands": {"input-structure-hardcode"},
    "kept": {"output-memoization"},
}


def tried(programs: Sequence[Program], at: int) -> list[tuple[Program, str]]:
    """The programs that a row is tried on, each without a fault and with one."""
    out = []
    for program in programs if ALL else (programs[at % len(programs)],):
        faults = [fault for fault in FAULTS if fault != "operands" or program.operands]
        out += [(program, fault) for fault in ("", *(faults if ALL else [faults[at // len(programs) % len(faults)]]))]
    return out


def cases() -> list[tuple[str, Program, str, str]]:
    """Name, program, fault (empty: none) and the text that defines `run_`."""
    out = []
    for at, row in enumerate(ROWS):
        text = row.get("first", "") + "\n" + row["text"]
        out += [(row["name"], program, fault, text) for program, fault in tried(PROGRAMS, at)]
    for at, row in enumerate(TABLES["devices"]):
        words = {name: spelled for name, spelled in row.items() if name not in ("name", "pre")}
        written = Idiom(row["name"], row.get("pre", "") + "\n", words).programs()
        out += [(f"device, {row['name']}", program, fault, HOST) for program, fault in tried(written, at)]
    return out


def linted(tmp_path: Path, program: Program, text: str) -> FileReport:
    return report_of(tmp_path, text, program.problem)


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("program", "fault", "text"),
    [pytest.param(*case[1:], id=f"{case[0]}-{case[1].problem[:2]}-{case[2] or 'honest'}") for case in cases()],
)
def test_a_way_of_writing_is_clean_and_hides_nothing(tmp_path: Path, program: Program, fault: str, text: str) -> None:
    report = linted(tmp_path, program, program.text(text, fault))
    said = [(finding.rule, finding.message) for finding in report.findings], report.promises, report.unread
    if fault:
        assert report.verdict in ("rubric_leak", "reward_hack"), said
        assert {finding.leak_class for finding in report.findings} & CLASSES[fault], said
    else:
        assert report.verdict == "clean", said
        assert {promise.state for promise in report.promises} <= {"kept", "kept-by-precision"}, said


@pytest.mark.parametrize("row", TABLES["kept"], ids=lambda row: row["name"])
def test_what_is_kept_is_found_wherever_it_lies(tmp_path: Path, row: dict[str, str]) -> None:
    for program in PROGRAMS if ALL else PROGRAMS[len(row["name"]) % len(PROGRAMS) :][:1]:
        report = linted(tmp_path, program, program.text(row["text"]))
        assert "output-memoization" in {finding.leak_class for finding in report.findings}, report.promises


def test_rows_have_names_of_their_own() -> None:
    for rows in (ROWS, TABLES["devices"], TABLES["kept"]):
        names = [row["name"] for row in rows]
        assert len(names) == len(set(names))


WAYS_TO_FILL = {
    "a function of a library": "vendor::fill(y, a);",
    "a method of an object of a library": "vendor::Engine engine; engine.fill(y);",
    "a value that nobody knows": "auto fill = vendor::find(a); fill(y);",
    "an address of it": "Y* at = y.data_ptr<Y>(); int done = vendor::fill(at, a.data_ptr<A>());",
    "what holds it": "struct Held { Tensor y; } held{y}; auto done = vendor::fill(held, a);",
}


@pytest.mark.parametrize("way", WAYS_TO_FILL)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.problem[:2])
def test_what_an_unread_call_was_given_is_not_called_unwritten(tmp_path: Path, program: Program, way: str) -> None:
    """No kernel runs. Where nothing was given the output, that is a leak; where something was, nothing is known."""
    host = "Tensor run_(FOUR) { Tensor y = EMPTY; DO return y; }"
    report = linted(tmp_path, program, program.text(host.replace("DO", WAYS_TO_FILL[way])))
    assert report.verdict == "unproven", [finding.message for finding in report.findings]
    assert not any("nothing that makes the result" in promise.reason for promise in report.promises), report.promises
    report = linted(tmp_path, program, program.text(host.replace("DO", "int64_t n = y.numel(); TORCH_CHECK(n > 0);")))
    assert "unwritten-output" in {finding.leak_class for finding in report.findings}
