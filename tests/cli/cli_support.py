"""Runs the command line with the fake engine, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DRIVER = (
    "import sys; sys.path[:0] = [{here!r}, {root!r}]; from kbh_lint.service import api; api.ENGINE = 'fake_engine'; "
    "from kbh_lint.cli import {entry}; raise SystemExit({entry}())"
)

RULE = """\
id: {id}
name: {name}
class: {leak_class}
verdict: {verdict}
severity: {severity}
confidence: high
scope: any
summary: A library does the work.
why: The number then measures the library.
remedy: Write the kernel.
references: [some-run]
when: {{fact: {fact}}}
message: "the work is done by {{symbol}}"
examples:
  bad:
    - {{name: one, code: "a = 1\\nb = 2\\n"}}
    - {{name: two, code: "a = 1\\nb = 3\\n"}}
  good:
    - {{name: one, code: "a = 1\\nb = 4\\n"}}
    - {{name: two, code: "a = 1\\nb = 5\\n"}}
"""


def write_rule(folder: Path, **changes: str) -> Path:
    """A rule file that matches every fact of one kind."""
    values = {"id": "KBH101", "name": "library-work", "leak_class": "library-gemm-wrapper", "verdict": "rubric_leak"}
    values |= {"severity": "error", "fact": "library-work", **changes}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{values['id']}-{values['name']}.yaml"
    path.write_text(RULE.format(**values))
    return path


def kbh(*args: str, cwd: Path, entry: str = "main", **env: str) -> subprocess.CompletedProcess[str]:
    """`kbh-lint ARGS` (or `kbh` with entry="kbh_main") in `cwd`; the user's cache secret lies there too."""
    code = DRIVER.format(here=str(HERE), root=str(ROOT), entry=entry)
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=cwd,
        env={**os.environ, "XDG_CACHE_HOME": str(cwd / "xdg"), "NO_COLOR": "1", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
