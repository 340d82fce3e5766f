"""Code that would crash is told of, without changing a verdict."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

import kbh_lint
from kbh_lint import cli
from kbh_lint.base import paths
from kbh_lint.rules import load_rules
from kbh_lint.service import hygiene

GEMM = next(e.code for r in load_rules(paths.rules_dir()) for e in r.good if e.name == "dot-on-fp8")


def linted(tmp_path: Path, code: str) -> kbh_lint.findings.FileReport:
    path = tmp_path / "solution.py"
    path.write_text(code, encoding="utf-8")
    return kbh_lint.lint([path], problem="01_fp8_gemm", raise_errors=True).files[0]


def test_an_undefined_name_is_told_of_at_its_place_and_changes_no_verdict(tmp_path: Path) -> None:
    found = linted(tmp_path, f"{GEMM}\n\ndef later():\n    return nowhere\n")
    said = [f for f in found.findings if f.rule == "KBH702"]
    assert [(f.span.line, f.span.column, f.severity) for f in said] == [(len(GEMM.splitlines()) + 4, 12, "info")]
    assert found.verdict == "clean"


def test_many_files_are_looked_at_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    real = hygiene._start
    monkeypatch.setattr(hygiene, "_start", lambda ruff, folder: started.append(ruff) or real(ruff, folder))
    found = hygiene.check([(f"{i}.py", f"x = missing_{i}\n") for i in range(40)])
    assert len(started) == 1
    assert [facts[0].attrs["message"] for facts in found] == [f"Undefined name `missing_{i}`" for i in range(40)]


def test_a_package_has_names_that_other_files_do_not_have() -> None:
    text = "place = __path__\nx = nowhere\n"
    found = hygiene.check([("a/__init__.py", text), ("a/b.py", text), ("b/__init__.py", "y = 1\n")])
    assert [[fact.attrs["message"] for fact in facts] for facts in found] == [
        ["Undefined name `nowhere`"], ["Undefined name `__path__`", "Undefined name `nowhere`"], [],
    ]  # fmt: skip


def test_comments_that_switch_checks_off_and_configuration_beside_the_file_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text('lint.ignore = ["F821"]\n')
    found = linted(tmp_path, f"# ruff: noqa\n{GEMM}\n\ndef later():\n    return nowhere  # noqa: F821\n")
    assert [f.rule for f in found.findings] == ["KBH702"]


def test_without_ruff_it_is_said_once_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hygiene, "executable", lambda: None)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(f"{GEMM}\n\ndef later():\n    return nowhere\n")
    files = [str(tmp_path / "a.py"), str(tmp_path / "b.py")]
    assert cli.main(["--problem", "01_fp8_gemm", "--no-cache", *files]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("ruff is not installed") == 1
    assert "KBH7" not in shown.out
    assert cli.main(["--problem", "01_fp8_gemm", "--no-cache", "--output-format", "json", *files]) == 0
    assert all(file["verdict"] == "clean" for file in json.loads(capsys.readouterr().out)["files"])


@pytest.mark.parametrize("text", ["x = (\n", "\x00", "\ud800", "def f(:\n" * 2000, "é = undefined_ü\n"])
def test_no_text_stops_it(text: str) -> None:
    assert len(hygiene.check([("bad.py", text), ("good.py", "x = 1\n")])) == 2


def test_output_that_is_no_json_is_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "ruff"
    fake.write_text("#!/bin/sh\necho '{'\necho '[1]'\necho '{\"filename\": \"7.py\"}'\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setattr(hygiene, "executable", lambda: str(fake))
    assert hygiene.check([("a.py", "x\n")]) == [()]


def test_a_ruff_that_does_not_end_is_ended_and_has_said_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "ruff"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setattr(hygiene, "executable", lambda: str(fake))
    monkeypatch.setattr(hygiene, "TIMEOUT_S", 0.02)
    started: list[subprocess.Popen[bytes] | None] = []
    real = hygiene._start
    monkeypatch.setattr(hygiene, "_start", lambda ruff, folder: started.append(real(ruff, folder)) or started[-1])
    assert hygiene.check([("a.py", "x\n")]) == [()]
    assert [process is not None and process.poll() for process in started] == [-signal.SIGKILL]


def test_a_method_with_other_arguments_than_the_contract_is_told_of(tmp_path: Path) -> None:
    found = linted(tmp_path, GEMM.replace("def forward(self, x):", "def forward(self, x, bias):"))
    assert [f.message for f in found.findings if f.rule == "KBH710"] == ["Model.forward wants 2 arguments and gets 1"]
