"""Lints files with the lowest and the newest versions that pyproject.toml allows: `python tools/ranges.py PATH...`.

A report is one answer, whatever versions of its libraries a user has. The linter's own dependencies are installed twice
into environments of their own (.venv-lowest, .venv-newest), and both must give the report that this environment gives,
byte for byte. The newest are what the package index offers inside the ranges; nothing else is installed.

Exit codes: 0 the reports are one, 1 they differ or a linter failed, 2 an environment could not be made.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINT = "import sys; from kbh_lint.cli import main; sys.exit(main(sys.argv[1:]))"
TIMEOUT_S = 1200.0
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)>=(?P<least>[0-9.]+)(?P<rest>(,<[0-9.]+)?)")


class RangeError(Exception):
    """An environment could not be made, or a requirement not be read; the text is one sentence."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("paths", nargs="+", metavar="PATH", help="what is linted")
    paths: list[str] = ask.parse_args(argv).paths
    wanted = requirements((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    try:
        here = report(Path(sys.executable), paths)
        if not here["files"]:
            raise RangeError(f"there is nothing to lint in {', '.join(paths)}")
        failed = False
        for name, chosen in wanted.items():
            python = environment(ROOT / f".venv-{name}", chosen)
            versions = ", ".join(installed(python, chosen))
            there = report(python, paths)
            different = differences(here, there)
            failed |= bool(different)
            print(f"{name}: {versions}: {len(there['files'])} files, {different or 'the same reports'}")
    except RangeError as error:
        print(f"tools/ranges.py: {error}", file=sys.stderr)
        return 2
    return 1 if failed else 0


def requirements(text: str) -> dict[str, list[str]]:
    """What is installed, for pip: `lowest` pins what pyproject.toml's ranges begin with, `newest` has the ranges."""
    listed = tomllib.loads(text)["project"]["dependencies"]
    lowest = []
    for one in listed:
        found = _REQUIREMENT.fullmatch(one.replace(" ", ""))
        if found is None:
            raise RangeError(f"pyproject.toml wants {one}, which has no lowest version: write NAME>=VERSION")
        lowest.append(f"{found['name']}=={found['least']}")
    return {"lowest": lowest, "newest": list(listed)}


def environment(folder: Path, wanted: Sequence[str]) -> Path:
    """The Python of an environment that holds what is wanted and nothing else of ours."""
    python = folder / "bin" / "python"
    try:
        if not python.exists():
            _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--upgrade", *wanted])
    except (OSError, subprocess.SubprocessError) as error:
        raise RangeError(f"{folder.name} could not be made with {', '.join(wanted)}: {_last(error)}") from None
    return python


def installed(python: Path, wanted: Sequence[str]) -> list[str]:
    """Names and versions as the environment has them."""
    names = [re.split(r"[=<>]", one)[0] for one in wanted]
    code = "import sys; from importlib.metadata import version; [print(name, version(name)) for name in sys.argv[1:]]"
    return _run([str(python), "-c", code, *names]).stdout.splitlines()


def report(python: Path, paths: Sequence[str]) -> dict[str, Any]:
    """The linter's whole report, by a fresh process. A process that ends by a signal has none."""
    command = [
        str(python),
        "-c",
        LINT,
        "--no-cache",
        "--exit-zero",
        "--output-format",
        "json",
        "--jobs",
        "auto",
        *paths,
    ]
    try:
        done = _run(command)
    except subprocess.CalledProcessError as error:
        return {"files": [], "failed": f"exit code {error.returncode}: {_last(error)}"}
    return dict(json.loads(done.stdout))


def differences(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The files whose reports differ, by name; empty when there are none."""
    if "failed" in other:
        return str(other["failed"])
    if one == other:
        return ""
    mine, theirs = ({str(file["path"]): file for file in each["files"]} for each in (one, other))
    names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
    return f"{len(names)} reports differ: {', '.join(names[:5]) or 'in what they say of all'}"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)


def _last(error: Exception) -> str:
    said = str(getattr(error, "stderr", "") or error).strip().splitlines()
    return said[-1] if said else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
