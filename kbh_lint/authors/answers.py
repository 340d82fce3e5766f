"""Facts about honest solutions, decoys and promises, from the linter's own reports on the files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kbh_lint.authors.folder import Folder
from kbh_lint.authors.solutions import Decoy, Honest
from kbh_lint.base import folder_facts as kinds
from kbh_lint.base.fact_kind import FactKind
from kbh_lint.findings import Fact, FileReport, Finding
from kbh_lint.rules import Rule
from kbh_lint.verdict import FLAGGED

_UNLISTED = "solutions.yaml does not name it"
Reports = Mapping[str, FileReport]  # relative path in the folder -> report


def files(folder: Folder) -> list[str]:
    """The listed solutions of a problem folder that exist, to be linted."""
    return [file for file in _listed(folder) if (folder.path / file).is_file()]


def _listed(folder: Folder) -> list[str]:
    files = [entry.file for entry in folder.solutions.honest] + [entry.file for entry in folder.solutions.decoys]
    return list(dict.fromkeys(files))


def facts(folder: Folder, reports: Reports, rules: Collection[Rule]) -> Iterator[Fact]:
    """Yields `decoy`, `honest` and `promise` facts, from the linter's reports on the solutions."""
    known = {rule.id for rule in rules}
    promised = {promise.id for promise in folder.problem.promises}
    for honest in folder.solutions.honest:
        state, said = _honest(honest, reports.get(honest.file))
        yield folder.fact_in(kinds.Honest(file=honest.file, state=state, said=said), "solutions.yaml", honest.line)
    for decoy in folder.solutions.decoys:
        state, said = _decoy(decoy, reports.get(decoy.file), known, promised)
        yield folder.fact_in(
            kinds.Decoy(file=decoy.file, rule=decoy.rule, state=state, said=said), "solutions.yaml", decoy.line
        )
    listed = _listed(folder)
    for kind in ("honest", "decoys"):
        for path in sorted((folder.path / kind).glob("*.py")):
            name = str(path.relative_to(folder.path))
            if name not in listed:
                fact: FactKind = kinds.Decoy(file=name, rule="a rule", state="unlisted", said=_UNLISTED)
                if kind == "honest":
                    fact = kinds.Honest(file=name, state="unlisted", said=_UNLISTED)
                yield folder.fact_in(fact, name, 1)
    yield from _promises(folder, reports, rules, known)


def _honest(entry: Honest, report: FileReport | None) -> tuple[str, str]:
    if report is None:
        return "missing", "there is no such file"
    if report.verdict in FLAGGED:
        return "flagged", _classes(report.findings)
    open_ = [promise.id for promise in report.promises if promise.state not in promise.accepts]
    if report.verdict == "unproven" or open_ or not report.promises:
        return "unproven", ", ".join(open_) or next((item.reason for item in report.unread), "no promise was checked")
    return "kept", ""


def _decoy(
    entry: Decoy, report: FileReport | None, rules: Collection[str], promised: Collection[str]
) -> tuple[str, str]:
    if entry.rule not in rules:
        return "unknown-rule", entry.rule
    if entry.promise not in promised:
        return "unknown-promise", entry.promise
    if report is None:
        return "missing", "there is no such file"
    if any(finding.rule == entry.rule and finding.severity != "info" for finding in report.findings):
        return ("flagged", "") if report.verdict in FLAGGED else ("through", f"the verdict is {report.verdict}")
    if report.verdict in FLAGGED:
        return "other-rule", _classes(report.findings) or "a broken promise"
    return "through", f"the verdict is {report.verdict}"


def _classes(findings: Collection[Finding]) -> str:
    return ", ".join(dict.fromkeys(f"{f.rule} {f.leak_class}" for f in findings if f.verdict in FLAGGED))


def _promises(folder: Folder, reports: Reports, rules: Collection[Rule], known: Collection[str]) -> Iterator[Fact]:
    """How many rules can break each promise, how many decoys try, and how many honest solutions show it kept."""
    seen: set[str] = set()
    for index, promise in enumerate(folder.problem.promises):
        if promise.id in seen:
            continue
        seen.add(promise.id)
        decoys = [decoy for decoy in folder.solutions.decoys if decoy.promise == promise.id]
        breaking = {rule.id for rule in rules if rule.breaks in (promise.id, promise.kind)}
        breaking |= {decoy.rule for decoy in decoys if decoy.rule in known}
        yield folder.fact(
            kinds.Promise(
                id=promise.id,
                rules=len(breaking),
                decoys=len(decoys),
                honest=sum(_keeps(reports.get(entry.file), promise.id) for entry in folder.solutions.honest),
            ),
            "promises",
            index,
        )


def _keeps(report: FileReport | None, promise: str) -> bool:
    return report is not None and any(p.id == promise and p.state in p.accepts for p in report.promises)
