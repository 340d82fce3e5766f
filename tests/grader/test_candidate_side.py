"""What the submission's process loads of ours: nothing that knows keys, plans, oracles or bounds."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "grader"
ALLOWED = {"candidate", "wire"}  # packages of the grader


def file_of(module: str) -> Path:
    """The file of a module of the grader, which is the first one of a package."""
    place = PACKAGE / module.replace(".", "/")
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def run_time_imports(module: str) -> set[str]:
    """Modules of the grader that one imports when its code runs; those for type checkers alone do not count."""
    tree = ast.parse(file_of(module).read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
            head, _, rest = node.module.partition(".")
            if head == "grader":
                names = {".".join(filter(None, (rest, alias.name))) for alias in node.names}
                found |= {name if file_of(name).is_file() else rest for name in names}
            assert head != "kbh_lint", f"{module} needs the linter"
    return found


def test_the_candidate_s_process_imports_its_own_package_and_what_crosses_the_wire() -> None:
    seen: set[str] = set()
    todo = {"candidate.serve"}
    while todo:
        module = todo.pop()
        seen.add(module)
        todo |= run_time_imports(module) - seen
    assert {module.partition(".")[0] for module in seen} == ALLOWED, sorted(seen)
    assert {"candidate.runner", "candidate.clock.gpu", "wire.channel", "wire.outputs"} <= seen
