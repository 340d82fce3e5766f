"""Fills the blocks of README.md that show what the tool prints; with --check only compares them.

A block starts with a comment `<!-- begin: kbh-lint ARGUMENTS -->` and ends with `<!-- end -->`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- begin: kbh-lint (?P<arguments>.+?) -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    """Entry point; returns the exit code."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    fresh = BLOCK.sub(lambda block: f"{block[1]}```text\n{output(block['arguments'])}\n```\n{block[3]}", text)
    if fresh == text:
        return 0
    if "--check" in sys.argv[1:]:
        print("README.md does not show what the tool prints now; run `make docs`", file=sys.stderr)
        return 1
    readme.write_text(fresh)
    return 0


def output(arguments: str) -> str:
    """What kbh-lint prints for some arguments, in the project's folder."""
    command = [sys.executable, "-m", "kbh_lint", *shlex.split(arguments)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 2:
        raise SystemExit(f"kbh-lint {arguments}: {done.stderr.strip()}")
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


if __name__ == "__main__":
    sys.exit(main())
