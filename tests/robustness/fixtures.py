"""Submissions of ours that the mutations start from: the idioms with their twins, and the rules' examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from kbh_lint.base import paths
from kbh_lint.problems import load_problem
from kbh_lint.rules import load_rules

IDIOMS = Path(__file__).resolve().parents[1] / "idioms"


@dataclass(frozen=True)
class Fixture:
    """A submission and the problem it is for; `sizes` are names that the benchmark itself sets."""

    name: str
    problem: str | None
    text: str
    sizes: frozenset[str]


@cache
def sizes(problem: str | None) -> frozenset[str]:
    """The names of a problem's shape symbols."""
    if problem is None:
        return frozenset()
    shapes = load_problem(paths.problems_dir() / problem / "problem.yaml").shapes
    return frozenset(name for shape in shapes for name in shape.symbols)


def load() -> list[Fixture]:
    """All fixtures, in the order of their names."""
    found: list[tuple[str, str | None, str]] = []
    for name, entry in yaml.safe_load((IDIOMS / "twins.yaml").read_text(encoding="utf-8")).items():
        text = (IDIOMS / f"{name}.py").read_text(encoding="utf-8")
        found.append((name, entry["problem"], text))
        found += [
            (f"{name}-{i}", entry["problem"], text.replace(t["find"], t["replace"]))
            for i, t in enumerate(entry["twins"])
        ]
    for rule in (rule for rule in load_rules(paths.rules_dir()) if not rule.id.startswith(("KBH9", "KBH701"))):
        found += [(f"{rule.id}-{e.name}", e.problem, e.code) for e in (*rule.bad, *rule.good)]
    return [Fixture(name, problem, text, sizes(problem)) for name, problem, text in sorted(found)]
