"""Per-run annotations: YAML with the verdict and the lines it rests on, quoted to the letter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbh_lint.findings import FileReport, Report
from kbh_lint.report.text import Sources
from kbh_lint.rules import describe_shapes
from kbh_lint.source.resolve import RUN_FILES
from kbh_lint.source.spans import Span

if TYPE_CHECKING:
    from kbh_lint.rules import Rule

MAX_QUOTES = 12
MAX_QUOTE_LINES = 20
MAX_RUN_BYTES = 1024**2
# What a run archive may call each field.
_RUN_KEYS = {
    "run_id": ("run_id", "id"),
    "model": ("model",),
    "harness": ("harness",),
    "effort": ("effort", "reasoning_effort"),
    "peak_fraction": ("peak_fraction",),
}


def render(report: Report, rules: Mapping[str, Rule]) -> str:
    """One YAML document a file. Fields of the run come from run.json or result.json beside it, where there is one."""
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """Writes texts of several lines as blocks."""

    def text(dumper: yaml.representer.BaseRepresenter, value: str) -> yaml.Node:
        value = value.encode("utf-8", "backslashreplace").decode()  # YAML has no lone surrogates
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    sources = Sources()
    return "".join(
        yaml.dump(_annotation(file, rules, sources), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110,
                  explicit_start=True)
        for file in report.files
    )  # fmt: skip


def _annotation(file: FileReport, rules: Mapping[str, Rule], sources: Sources) -> dict[str, object]:
    run = _run(Path(file.path))
    return {
        "run_id": run["run_id"] or _run_id(Path(file.path)),
        "model": run["model"],
        "harness": run["harness"],
        "effort": run["effort"],
        "problem": file.problem,
        "peak_fraction": run["peak_fraction"],
        "verdict": file.verdict,
        "summary": _summary(file),
        "quotes": _quotes(file, sources),
        "implication": _implication(file, rules),
        "promises": {promise.id: promise.state for promise in file.promises},
        "findings": [
            {
                "rule": finding.rule,
                "class": finding.leak_class,
                "verdict": finding.verdict,
                "lines": _lines(finding.span),
                "message": finding.message,
            }
            for finding in file.findings
        ],
    }


def _run_id(path: Path) -> str:
    """A solution.py is called after its folder."""
    return path.resolve().parent.name if path.stem == "solution" else path.stem


def _run(path: Path) -> dict[str, object]:
    found: dict[str, Any] = {}
    for name in RUN_FILES:
        try:
            with open(path.parent / name, "rb") as stream:
                data = json.loads(stream.read(MAX_RUN_BYTES))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            found = {**data, **found}
    run: dict[str, Any] = {}
    for field, keys in _RUN_KEYS.items():
        values = (found.get(key) for key in keys)
        run[field] = next((value for value in values if isinstance(value, (str, int, float))), None)
    return run


def _summary(file: FileReport) -> str:
    if file.findings:
        return " ".join(dict.fromkeys(_sentence(finding.message) for finding in file.findings))
    broken = [f"The promise {p.id} is broken on {_shapes(p.shapes)}." for p in file.promises if p.state == "broken"]
    if broken:
        return " ".join(broken)
    if file.verdict == "unproven":
        reasons = [_sentence(item.reason) for item in file.unread]
        reasons += [f"The promise {p.id} could not be shown." for p in file.promises if p.state == "unproven"]
        return " ".join(reasons)
    return "Every promise is kept." if file.verdict == "clean" else "No rule matched."


def _shapes(shapes: Mapping[str, str]) -> str:
    return describe_shapes(sum(state == "broken" for state in shapes.values()), len(shapes))


def _implication(file: FileReport, rules: Mapping[str, Rule]) -> str:
    said = (rules[finding.rule].why for finding in file.findings if finding.rule in rules)
    return " ".join(dict.fromkeys(" ".join(why.split()) for why in said))


def _quotes(file: FileReport, sources: Sources) -> list[dict[str, Any]]:
    places = [(finding.span, finding.message) for finding in file.findings]
    places += [(item.span, item.message) for finding in file.findings for item in finding.related]
    places += [(item.span, item.message) for promise in file.promises for item in promise.evidence]
    quotes: dict[tuple[str, int, int], dict[str, Any]] = {}
    for span, label in places:
        last = min(span.end_line, span.line + MAX_QUOTE_LINES - 1)
        text = sources.text(span.path, span.line, last)
        if text.strip() and len(quotes) < MAX_QUOTES:
            quote = {"file": span.path, "lines": _lines(span, last), "label": label, "text": text}
            quotes.setdefault((span.path, span.line, last), quote)
    return list(quotes.values())


def _lines(span: Span, last: int | None = None) -> str:
    end = span.end_line if last is None else last
    return str(span.line) if end <= span.line else f"{span.line}-{end}"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    if text.partition(" ")[0].isalpha():  # a name such as torch.matmul keeps its case
        text = text[:1].upper() + text[1:]
    return text + ("" if text.endswith((".", "!", "?")) else ".")
