"""What a change needs before it is committed, in under a minute: `make quick`.

Of the files that git says have changed since a commit (default: what is not committed): ruff, mypy, and the tests that
are nearest to them: test files that changed, that carry a module's name, or that import one; then what holds for all
modules (LAW), and those of the folders that belong to its package (PACKAGES). Tests start until the time is over; what
was left out is said. It replaces no `make test`.

Exit codes: 0 nothing is wrong in what ran, 1 something is, 2 git or a commit is missing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 40.0
# Which folders of tests/ belong to a package; the first that is a parent of the module counts.
PACKAGES = {
    "kbh_lint/host": ("host", "cpp", "idioms"),
    "kbh_lint/cpp": ("cpp", "host"),
    "kbh_lint/kernels": ("kernels", "cpp", "idioms"),
    "kbh_lint/frontends": ("frontends", "robustness"),
    "kbh_lint/analyses": ("analyses", "idioms"),
    "kbh_lint/dsl": ("kernels", "host", "idioms"),
    "kbh_lint/ops": ("kernels", "host"),
    "kbh_lint/authors": ("authors",),
    "kbh_lint/rewrite": ("rewrite",),
    "kbh_lint/report": ("report",),
    "kbh_lint/source": ("source",),
    "kbh_lint/fingerprints": ("fingerprints",),
    "kbh_lint/kernelbench.py": ("kernelbench",),
    "kbh_lint/problems": ("problems", "source"),
    "kbh_lint/base": ("kernels", "host", "frontends"),
    "kbh_lint/cli": ("cli",),
    "kbh_lint/lsp": ("cli",),
    "kbh_lint/service": ("cli", "host"),
    "kbh_lint/triage": ("cli", "rules_engine"),
    "kbh_lint/rules": ("rules_engine", "rules"),
    "kbh_lint/engine.py": ("analyses", "host"),
    "kbh_lint": ("rules_engine", "cli", "docs"),
    "rules": ("rules", "rules_engine", "docs"),
    "grader/sandbox": ("grader", "hostile"),
    "grader": ("grader",),
    "problems": ("problems", "authors"),
    "harness/audit": ("audit",),
    "harness": ("harness",),
    "docs": ("docs",),
    "README.md": ("docs",),
    "CONTRIBUTING.md": ("docs",),
    "CHANGELOG.md": ("docs",),
    "tools": ("docs",),
    "bench": ("docs",),
    "examples": ("docs",),
    "results": ("docs",),
}
LAW = "structure"  # arrows and figures, which any module may break


class Budget:
    """A pytest plugin: no test starts when the time is over. `left` counts those."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.ran = self.left = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skips a test that would begin too late."""
        if time.monotonic() > self._until:
            self.left += 1
            pytest.skip("the time of `make quick` is over")
        self.ran += 1


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--since", default="HEAD", metavar="COMMIT", help="compare with this commit (default: HEAD)")
    ask.add_argument("--seconds", type=float, default=SECONDS, help="for tests (default: %(default)s)")
    ask.add_argument("--list", action="store_true", help="print the tests in their order and run nothing")
    given = ask.parse_args(argv)
    try:
        files = changed(given.since)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        print(f"tools/quick.py: git cannot say what changed: {said}", file=sys.stderr)
        return 2
    tests = nearest(files)
    if given.list:
        print(*tests, sep="\n")
        return 0
    if not files:
        print(f"nothing has changed since {given.since}")
        return 0
    code = [str(file) for file in files if file.suffix == ".py"]
    failed = bool(code) and any([_run("ruff", "check", *code), _run("ruff", "format", "--check", *code), _types(code)])
    if tests:
        budget = Budget(given.seconds)
        failed |= pytest.main(["-q", "-x", *map(str, tests)], plugins=[budget]) not in (0, 5)
        print(f"{budget.ran} tests ran" + (f", {budget.left} were left to `make test`" if budget.left else ""))
    return int(failed)


def changed(since: str) -> list[Path]:
    """The files that differ from a commit and are still there, new ones too, relative to the checkout."""
    names: set[str] = set()
    for command in (("diff", "--name-only", "-z", since, "--"), ("ls-files", "-z", "--others", "--exclude-standard")):
        done = subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True)
        names.update(filter(None, done.stdout.split("\0")))
    return sorted(Path(name) for name in names if (ROOT / name).is_file())


def nearest(files: Iterable[Path]) -> list[Path]:
    """Test files for changed files: these, those of their names, those that import them, LAW, their folders'."""
    every = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in every}
    first: list[Path] = []
    second: list[Path] = []
    law: list[Path] = []
    third: list[Path] = []
    for file in files:
        if file in texts:
            first.append(file)
            continue
        top = file.parts[0]
        if file.suffix == ".py" and top in ("kbh_lint", "grader", "harness", "tools", "bench"):
            named = re.compile(rf"(^|/)test_{re.escape(file.stem)}(_|\.)")
            first += [path for path in every if named.search(path.as_posix())]
            dotted = ".".join(file.with_suffix("").parts)
            package, _, name = dotted.rpartition(".")
            used = re.compile(
                rf"^\s*(?:from {re.escape(dotted)} import |import {re.escape(dotted)}\b|"
                rf"from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b)", re.MULTILINE
            )  # fmt: skip
            second += [path for path in every if used.search(texts[path])]
            law = [path for path in every if path.parts[1] == LAW]
        owner = next((key for key in PACKAGES if file.is_relative_to(key)), None)
        for folder in PACKAGES[owner] if owner else ():
            third += [path for path in every if path.parts[1] == folder]
    return list(dict.fromkeys([*first, *second, *law, *third]))


def _types(code: Sequence[str]) -> bool:
    typed = [file for file in code if file.split("/")[0] in ("kbh_lint", "grader", "harness", "bench", "tools")]
    return bool(typed) and _run("mypy", *typed)


def _run(program: str, *arguments: str) -> bool:
    """Whether a program of this environment failed."""
    return subprocess.run([sys.executable, "-m", program, *arguments], cwd=ROOT).returncode != 0


if __name__ == "__main__":
    raise SystemExit(main())
