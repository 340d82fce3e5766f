"""What holds of every format, asked of each row of `FORMATS`: a new one needs no line here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from kbh_lint.findings import FileReport, Finding, PromiseState, Related, Report, Unread
from kbh_lint.report.formats import FORMATS, Given
from kbh_lint.report.text import clean
from kbh_lint.source.spans import Span

HOSTILE = [
    "\x1b[2J\x07\x00", "a\r\nb\x0b\x0cc", "\x85\x9b31m", "\u202e\u2066\u200b\u2028", "\ud800", "\ufffe\uffff\U0001ffff",
    "]]> <!-- & &#27; <a b='\"'/>", "%0A::error::", "- |\n x: [", "```\n# clean", "\\", "日本",
]  # fmt: skip
GIVEN = Given(dict, colour=False, quiet=False, version="0")
EVERY = pytest.mark.parametrize("form", FORMATS)


def hostile(text: str, folder: Path) -> Report:
    """A report in which every text that may come from a submission is this one."""
    path = str(folder / re.sub(r"[\0/]", "", text)) + ".py"
    here = Span(path, 1, 1, 1, 2)
    finding = Finding("KBH101", "n", "some-class", "rubric_leak", "error", "high", "source", text, here,
                      (Related(here, text),), (text,), text)  # fmt: skip
    promise = PromiseState(text, "broken", {text: "broken"}, (Related(here, text),), text)
    flagged = FileReport(path, text, text, text, "rubric_leak", (promise,), (finding,), (Unread(text, here),), (text,),
                         (text,), text)  # fmt: skip
    unproven = FileReport(path, None, None, None, "unproven", (), (), (Unread(text),), (text,))
    return Report((flagged, unproven), (text,))


def rendered(form: str, report: Report) -> str:
    return FORMATS[form].render(report, GIVEN)


@EVERY
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_of_a_submission_drives_a_terminal_or_breaks_the_form(form: str, text: str, tmp_path: Path) -> None:
    said = rendered(form, hostile(text, tmp_path))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]", said), said
    said.encode("utf-8")
    if FORMATS[form].for_people:
        assert not set("\u202e\u2066\u200b\u2028") & set(said)
    if said.startswith("<"):
        ElementTree.fromstring(said)
    elif said.startswith(("{", "[")):
        json.loads(said)
    elif said.startswith("---"):
        assert list(yaml.safe_load_all(said))


def test_what_is_cleaned_may_stand_in_xml() -> None:
    every = "".join(map(chr, range(0x110000)))
    marks = clean(every).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert ElementTree.fromstring(f"<t>{marks}</t>").text == clean(every)


@EVERY
def test_an_unproven_file_says_so_and_why(form: str) -> None:
    unread = FileReport("a.py", None, None, None, "unproven", (), (), (Unread("the binary k.so has no source"),))
    said = rendered(form, Report((unread,)))
    assert "unproven" in said and "k.so" in said and "clean" not in said
    open_promise = PromiseState("fp8-products", "unproven", {"M=1": "unproven"})
    unshown = FileReport("a.py", "01_fp8_gemm", "deck", None, "unproven", (open_promise,))
    said = rendered(form, Report((unshown,)))
    assert "unproven" in said and "fp8-products" in said and "clean" not in said


@EVERY
def test_a_promise_that_is_broken_without_a_finding_is_told(form: str) -> None:
    broken = PromiseState("int4-packed", "broken", {"M=1": "broken"}, (), "the host expands it")
    said = rendered(form, Report((FileReport("a.py", "07_w4a16_gemm", "deck", None, "rubric_leak", (broken,)),)))
    assert "int4-packed" in said and "broken" in said.lower()


@EVERY
def test_errors_of_the_run_stand_where_their_reader_looks(form: str) -> None:
    said = rendered(form, Report((), ("nope.py: there is no such file",)))
    assert "nope.py: there is no such file" in said or not FORMATS[form].for_people


@EVERY
def test_a_report_gives_one_text_also_of_no_file(form: str, tmp_path: Path) -> None:
    for report in (Report(()), hostile("x", tmp_path)):
        assert rendered(form, report) == rendered(form, report)
        assert rendered(form, report).endswith("\n") or not rendered(form, report)
