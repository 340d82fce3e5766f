"""What each reporter prints, and that no text in a report can break one."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sarif_schema import SCHEMA as SARIF_SCHEMA

import kbh_lint
from kbh_lint.findings import FileReport, Finding, PromiseState, Related, Report, Unread
from kbh_lint.report import annotation, concise, full, github, json_v1, sarif
from kbh_lint.report.data import file_from_dict, file_to_dict
from kbh_lint.report.formats import FORMATS, Given
from kbh_lint.report.text import Sources, clean, excerpt, width
from kbh_lint.rules import Rule, parse_rule
from kbh_lint.source.spans import Span

PUBLISHED: Any = jsonschema.Draft202012Validator(
    json.loads((Path(kbh_lint.__file__).parent / "schemas" / "report-v1.json").read_text())
)
SARIF: Any = jsonschema.Draft202012Validator(SARIF_SCHEMA, format_checker=jsonschema.FormatChecker())

CODE = """\
import torch
def forward(x, w):
    a = x.to(torch.bfloat16)
    return a @ w.T
"""
RULE = """\
id: KBH101
name: bf16-product
class: fp8-upcast-bf16-gemm
verdict: rubric_leak
severity: error
confidence: high
scope: promise
breaks: fp8-products
summary: The product runs on bf16.
why: The cell then measures a bf16 kernel.
remedy: Multiply the fp8 operands.
references: []
when: {fact: product}
message: m
examples:
  bad: [{name: a, code: "1"}, {name: b, code: "2"}]
  good: [{name: a, code: "3"}, {name: b, code: "4"}]
"""


@pytest.fixture
def rules() -> dict[str, Rule]:
    return {"KBH101": parse_rule(RULE, "KBH101-bf16-product.yaml")}


@pytest.fixture
def report(tmp_path: Path) -> Report:
    path = tmp_path / "solution.py"
    path.write_text(CODE)
    name = str(path)
    finding = Finding(
        "KBH101",
        "bf16-product",
        "fp8-upcast-bf16-gemm",
        "rubric_leak",
        "error",
        "high",
        "source",
        "the product runs on bf16 on 1 of 2 graded shapes",
        Span(name, 4, 12, 4, 19),
        (Related(Span(name, 3, 9, 3, 29), "cast here"),),
        ("M=1",),
        "fp8-products",
    )
    promise = PromiseState("fp8-products", "broken", {"M=1": "broken", "M=3": "kept"}, (), "bf16 operands")
    other = PromiseState("authored", "broken", {"M=1": "broken"}, (Related(Span(name, 4, 1, 4, 2), "here"),))
    unread = Unread("a binary without source", Span(name, 1, 1, 1, 7))
    file = FileReport(
        name,
        "01_fp8_gemm",
        "deck",
        "h100",
        "rubric_leak",
        (promise, other),
        (finding,),
        (unread,),
        ("a note",),
        ("launch: k",),
        "file name",
    )
    clean_file = FileReport("other.py", None, None, None, "clean")
    return Report((file, clean_file), ("nope.py: there is no such file",))


def test_full_shows_code_caret_related_place_reason_shapes_and_promises(report: Report, rules: dict[str, Rule]) -> None:
    text = full.render(report, rules)
    path = report.files[0].path
    for part in (
        f"{path}: rubric_leak  (01_fp8_gemm, contract deck, h100)",
        f" --> {path}:4:12\n4 |     return a @ w.T\n  |            ^^^^^^^\n",
        "3 |     a = x.to(torch.bfloat16)\n  |         -------------------- cast here\n",
        "breaks fp8-products, verdict rubric_leak, class fp8-upcast-bf16-gemm, high confidence, on M=1\n",
        "why: The cell then measures a bf16 kernel.",
        "fix: Multiply the fp8 operands.",
        "promise fp8-products: BROKEN (bf16 operands)\n      on M=1: broken\n      on M=3: kept\n",
        "promise authored: BROKEN\n      4 |     return a @ w.T\n        | ^ here\n",
        "unread: a binary without source",
        "note: a note",
        "    launch: k",
        "error: nope.py: there is no such file",
        "2 files: 1 rubric_leak, 1 clean",
    ):
        assert part in text
    assert "\x1b" not in text


def test_full_in_colour_says_the_same(report: Report, rules: dict[str, Rule]) -> None:
    coloured = full.render(report, rules, colour=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == full.render(report, rules)


def test_a_finding_on_all_shapes_does_not_list_them(report: Report, rules: dict[str, Rule]) -> None:
    file = report.files[0]
    everywhere = replace(file.findings[0], shapes=("M=1", "M=3"))
    text = " ".join(full.render(Report((replace(file, findings=(everywhere,)),)), rules).split())
    assert "on all 2 graded shapes" in text and "M=1; M=3" not in text


def test_quiet_leaves_out_clean_files(report: Report, rules: dict[str, Rule]) -> None:
    assert "other.py" not in full.render(report, rules, quiet=True)
    assert full.render(Report((report.files[1],)), rules, quiet=True).strip() == ""


def test_concise_has_one_line_a_finding_and_one_for_a_promise_without_one(report: Report) -> None:
    path = report.files[0].path
    assert concise.render(report).splitlines() == [
        f"{path}:4:12: KBH101 [rubric_leak] the product runs on bf16 on 1 of 2 graded shapes",
        f"{path}:1:1: promise authored is broken",
        "error: nope.py: there is no such file",
        "2 files: 1 rubric_leak, 1 clean",
    ]


def test_json_fits_the_published_schema_and_reads_back(report: Report) -> None:
    data = json.loads(json_v1.render(report, "0.1.0"))
    PUBLISHED.validate(data)
    assert data["version"] == 1
    assert data["tool"] == {"name": "kbh-lint", "version": "0.1.0"}
    finding = data["files"][0]["findings"][0]
    assert (finding["line"], finding["column"], finding["end_line"], finding["end_column"]) == (4, 12, 4, 19)
    assert finding["class"] == "fp8-upcast-bf16-gemm"
    assert finding["related"][0]["line"] == 3 and finding["related"][0]["message"] == "cast here"
    assert "trace" not in data["files"][1]
    assert tuple(file_from_dict(file) for file in data["files"]) == report.files


def test_the_published_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED.schema)
    jsonschema.Draft202012Validator.check_schema(SARIF.schema)


@pytest.mark.parametrize("missing", ["verdict", "findings", "promises", "unread"])
def test_the_published_schema_refuses_a_file_without_its_fields(report: Report, missing: str) -> None:
    data = json.loads(json_v1.render(report, "0.1.0"))
    del data["files"][0][missing]
    with pytest.raises(jsonschema.ValidationError, match=missing):
        PUBLISHED.validate(data)


def test_sarif_fits_the_standard(report: Report, rules: dict[str, Rule]) -> None:
    data = json.loads(sarif.render(report, rules, "0.1.0"))
    SARIF.validate(data)
    run = data["runs"][0]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == ["KBH101", "broken-promise"]
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
    first = run["results"][0]
    assert first["level"] == "error"
    region = {"startLine": 4, "startColumn": 12, "endLine": 4, "endColumn": 19}
    assert first["locations"][0]["physicalLocation"]["region"] == region
    assert first["relatedLocations"][0]["message"]["text"] == "cast here"
    invocation = run["invocations"][0]
    assert invocation["executionSuccessful"] is False
    said = [item["message"]["text"] for item in invocation["toolExecutionNotifications"]]
    assert said == ["a binary without source", "nope.py: there is no such file"]


@pytest.mark.skipif("KBH_SARIF_SCHEMA" not in os.environ, reason="KBH_SARIF_SCHEMA does not name the official schema")
def test_sarif_fits_the_official_schema(report: Report, rules: dict[str, Rule]) -> None:
    official = json.loads(Path(os.environ["KBH_SARIF_SCHEMA"]).read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(official)
    kind(official).validate(json.loads(sarif.render(report, rules, "0.1.0")))


def test_a_path_with_spaces_and_marks_is_an_escaped_uri_in_sarif(report: Report, rules: dict[str, Rule]) -> None:
    file = report.files[0]
    moved = replace(file.findings[0], span=Span("my runs/é#1.py", 1, 1, 1, 2))
    data = json.loads(sarif.render(Report((replace(file, findings=(moved,)),)), rules, "0"))
    place = data["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place["uri"] == "my%20runs/%C3%A9%231.py"


def test_github_escapes_what_would_end_a_command_or_a_property(report: Report) -> None:
    file = report.files[0]
    odd = replace(file.findings[0], message="50%\nof, it::x", span=Span("a,b:c.py", 4, 12, 4, 19), related=())
    line = github.render(Report((replace(file, findings=(odd,), promises=()),))).splitlines()[0]
    assert line == (
        "::error file=a%2Cb%3Ac.py,line=4,endLine=4,title=kbh-lint%3A KBH101 rubric_leak,col=12,endColumn=19"
        "::50%25%0Aof, it::x (on M=1)"
    )


def test_an_annotation_quotes_to_the_letter_and_takes_the_run_from_its_archive(
    report: Report, rules: dict[str, Rule]
) -> None:
    folder = Path(report.files[0].path).parent
    (folder / "run.json").write_text(json.dumps({"run_id": "r1", "model": "m", "harness": "h", "effort": "high"}))
    (folder / "result.json").write_text(json.dumps({"peak_fraction": 0.5, "model": "not this one"}))
    first, second = yaml.safe_load_all(annotation.render(report, rules))
    assert (first["run_id"], first["model"], first["effort"], first["peak_fraction"]) == ("r1", "m", "high", 0.5)
    assert first["quotes"][0] == {
        "file": report.files[0].path,
        "lines": "4",
        "label": "the product runs on bf16 on 1 of 2 graded shapes",
        "text": "    return a @ w.T",
    }
    assert first["promises"] == {"fp8-products": "broken", "authored": "broken"}
    assert first["implication"] == "The cell then measures a bf16 kernel."
    assert (second["run_id"], second["verdict"], second["quotes"]) == ("other", "clean", [])


def test_escape_sequences_in_code_cannot_reach_the_terminal(tmp_path: Path, rules: dict[str, Rule]) -> None:
    path = tmp_path / "x.py"
    path.write_text("a = '\x1b[2J\u202e'\n")
    span = Span(str(path), 1, 1, 1, 9)
    finding = Finding("KBH101", "n", "c", "bug", "error", "high", "source", "see \x1b[31m\x07", span)
    text = full.render(Report((FileReport(str(path), None, None, None, "bug", (), (finding,)),)), rules)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "a = '\\x1b[2J\\u202e'" in text


def test_a_caret_stands_under_its_code_after_wide_characters_and_tabs(tmp_path: Path) -> None:
    line = "\tx = '日本' + y"
    text, skip, length = excerpt(line, line.index("y") + 1, line.index("y") + 2)
    assert text == "    x = '日本' + y"
    assert (skip, length) == (width("    x = '日本' + "), 1)


def test_a_line_of_a_hundred_thousand_columns_is_cut_around_the_mark() -> None:
    line = "a" * 50_000 + "MARK" + "b" * 50_000
    text, skip, length = excerpt(line, 50_001, 50_005)
    assert len(text) < 130
    assert text[skip : skip + length] == "MARK"


_TEXT = st.text(max_size=30) | st.sampled_from(["\x1b[2J", "%0A::error", "a\nb", "\ud800", "\u202e", "日本", "- |\n x"])
_NUMBER = st.integers(1, 12) | st.integers(1, 10**9)


@st.composite
def _reports(draw: st.DrawFn, path: str) -> Report:
    def span() -> Span:
        line, column = draw(_NUMBER), draw(_NUMBER)
        return Span(draw(st.sampled_from([path, "gone.py"]) | _TEXT.filter(lambda t: "\0" not in t)),
                    line, column, line + draw(st.integers(0, 3)), draw(_NUMBER))  # fmt: skip

    finding = Finding(
        "KBH101",
        "n",
        "some-class",
        draw(st.sampled_from(["rubric_leak", "interesting"])),
        draw(st.sampled_from(["error", "warning", "info"])),
        "high",
        "source",
        draw(_TEXT),
        span(),
        (Related(span(), draw(_TEXT)),),
        (draw(_TEXT),),
        draw(st.none() | _TEXT),
    )
    promise = PromiseState(draw(_TEXT), draw(st.sampled_from(["kept", "broken"])), {draw(_TEXT): "kept"},
                           (Related(span(), draw(_TEXT)),), draw(_TEXT))  # fmt: skip
    name, unread = draw(_TEXT.filter(lambda t: "\0" not in t)), Unread(draw(_TEXT), span())
    file = FileReport(name, draw(st.none() | _TEXT), None, None, "rubric_leak", (promise,), (finding,), (unread,),
                      (draw(_TEXT),), (draw(_TEXT),))  # fmt: skip
    return Report((file,), (draw(_TEXT),))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(data=st.data(), code=st.text(max_size=300))
def test_no_text_in_a_report_breaks_a_reporter(
    data: st.DataObject, code: str, tmp_path: Path, rules: dict[str, Rule]
) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(code.encode("utf-8", "surrogatepass"))
    report = data.draw(_reports(str(path)))
    shown = full.render(report, rules) + concise.render(report)
    assert not any(char < " " and char != "\n" or char in "\x7f\u202e\ud800" for char in shown)
    plain = Given(lambda: rules, colour=False, quiet=False, version="0")
    every = "".join(form.render(report, plain) for form in FORMATS.values())
    assert not any(char < " " and char != "\n" or char == "\ud800" for char in every)
    assert all(line.startswith("::") for line in github.render(report).split("\n")[:-1])
    (note,) = yaml.safe_load_all(annotation.render(report, rules))
    for quote in note["quotes"]:
        first = int(quote["lines"].split("-")[0])
        assert quote["text"].split("\n")[0] == Sources().line(quote["file"], first)
    parsed = json.loads(json_v1.render(report, "0"))
    PUBLISHED.validate(parsed)
    assert file_from_dict(file_to_dict(report.files[0])) == report.files[0]
    SARIF.validate(json.loads(sarif.render(report, rules, "0")))


def test_source_lines_end_only_at_line_feeds(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(b"a\x0cb\r\nc\n")
    sources = Sources()
    assert sources.line(str(path), 1) == "a\x0cb"
    assert sources.line(str(path), 2) == "c"
    assert sources.line(str(path), 9) is None
    assert clean("a\x0cb") == "a\\x0cb"
