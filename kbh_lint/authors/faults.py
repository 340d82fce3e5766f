"""`faults.yaml`: every known fault of the public deck, and who catches it here."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from kbh_lint.authors.code import implemented, parsed
from kbh_lint.authors.folder import at, read_yaml
from kbh_lint.base import folder_facts as kinds
from kbh_lint.base.records import dataclass
from kbh_lint.findings import Fact, fact_of
from kbh_lint.marked import DataError, Fields, Map
from kbh_lint.problems import load_problem

_GRADER = Path(__file__).resolve().parents[2] / "grader" / "deck"  # beside this package, in a checkout and installed
_ID = re.compile(r"KF\d{2,3}")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `problem` is an id or `deck`; `caught_by` are rule ids, `case:ID`, `mutant:ID`, or `human`."""

    id: str
    problem: str
    fault: str
    caught_by: tuple[str, ...]
    why: str
    line: int


def read_faults(path: Path) -> tuple[Fault, ...]:
    """The faults of a deck; none without the file. Raises DataError naming file and line."""
    data = read_yaml(path)
    if data is None:
        return ()
    fields = Fields(data, str(path), "the faults")
    items = fields.items("faults")
    fields.done()
    found: dict[str, Fault] = {}
    for item, line in zip(items, items.lines, strict=True):
        if not isinstance(item, Map):
            raise DataError(str(path), line, "a fault must be a mapping")
        entry = Fields(item, str(path), "a fault")
        fault = Fault(
            entry.text("id"), entry.text("problem"), entry.text("fault"), entry.texts("caught_by"),
            entry.text("why", ""), line,
        )  # fmt: skip
        entry.done()
        if not _ID.fullmatch(fault.id) or fault.id in found:
            raise entry.fail("id", f"`{fault.id}` must be KF and two or three digits, and stand only once")
        found[fault.id] = fault
    return tuple(found.values())


def facts(deck: Path, rules: Collection[str]) -> Iterator[Fact]:
    """Yields `fault` facts: known faults that nobody catches, or whose catcher does not exist."""
    path = deck / "faults.yaml"
    for fault in read_faults(path):
        span = at(path, fault.line)
        if not fault.caught_by:
            yield fact_of(kinds.Fault(id=fault.id, state="no-catcher", named=""), span)
        for name in fault.caught_by:
            state = _trouble(name, fault, deck, rules)
            if state:
                yield fact_of(kinds.Fault(id=fault.id, state=state, named=name), span)


def _trouble(name: str, fault: Fault, deck: Path, rules: Collection[str]) -> str:
    """What is wrong with one catcher; empty when it is there."""
    if name == "human":
        return "" if fault.why else "no-reason"
    kind, _, rest = name.partition(":")
    folder = deck / fault.problem
    if kind == "case":
        return "" if rest in _case_ids(folder) else "unknown-catcher"
    if kind == "mutant":
        return "" if rest in _mutant_ids(folder) else "unknown-catcher"
    return "" if name in rules else "unknown-catcher"


def _case_ids(folder: Path) -> set[str]:
    ids = set(implemented(folder) or ())
    try:
        problem = load_problem(folder / "problem.yaml")
    except DataError:
        return ids
    return ids | {case.id for case in problem.cases} | {stress.id for stress in problem.stress}


def _mutant_ids(folder: Path) -> set[str]:
    """Every text in mutants.py, and in the module of those that all problems share: an id is one of them."""
    trees = [parsed(folder, "mutants.py"), parsed(_GRADER, "mutants.py")]
    nodes = [node for tree in trees if tree is not None for node in ast.walk(tree)]
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
