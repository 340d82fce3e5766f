"""Code that would crash, found before it takes a GPU: ruff over copies of the submissions, one process for all.

Findings become facts `broken-code`, and those findings of severity info, which change no verdict and no exit code. Ruff
is optional (the `hygiene` extra). It parses and never imports what it reads, ignores all configuration, and is bounded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kbh_lint.base.facts import BrokenCode
from kbh_lint.findings import Fact, fact_of
from kbh_lint.source.spans import Span

# What raises when it is parsed or run: no style, no unused names.
RULES = {
    "E9": "syntax", "F501": "format", "F502": "format", "F503": "format", "F505": "format", "F506": "format",
    "F507": "format", "F508": "format", "F509": "format", "F521": "format", "F524": "format", "F525": "format",
    "F62": "syntax", "F631": "comparison", "F632": "comparison", "F633": "comparison", "F634": "comparison",
    "F70": "syntax", "F821": "name", "F822": "name", "F823": "name", "PLE0117": "syntax", "PLE0118": "syntax",
    "PLE0604": "name", "PLE1132": "syntax",
}  # fmt: skip
PACKAGE = "__init__.py"
MISSING = "ruff is not installed, so nobody looked for code that cannot run (the `hygiene` extra)"
TIMEOUT_S = 30.0
MAX_OUTPUT = 4 * 1024**2
MAX_FINDINGS = 20  # of one file
MAX_MESSAGE = 200
BATCH = 500  # files a process
SAID = "said.jsonl"


def executable() -> str | None:
    """The path of ruff: beside this Python first, then on the search path."""
    beside = shutil.which("ruff", path=os.path.dirname(sys.executable))
    return beside or shutil.which("ruff")


def check(files: Sequence[tuple[str, str]]) -> list[tuple[Fact, ...]]:
    """Facts `broken-code` of each (path, text), in order; none where ruff is missing, fails or takes too long."""
    found: list[tuple[Fact, ...]] = []
    for start in range(0, len(files), BATCH):
        with checking(files[start : start + BATCH]) as facts:
            found += facts()
    return found


@contextmanager
def checking(files: Sequence[tuple[str, str]]) -> Iterator[Callable[[], list[tuple[Fact, ...]]]]:
    """As `check`, while the block runs; yields a function that waits for the facts and returns them."""
    ruff = executable()
    if ruff is None or not files:
        yield lambda: [()] * len(files)
        return
    with _started(ruff, files[:BATCH]) as first:
        yield lambda: [*first(), *check(files[BATCH:])]


@contextmanager
def _started(ruff: str, files: Sequence[tuple[str, str]]) -> Iterator[Callable[[], list[tuple[Fact, ...]]]]:
    """A process of ruff over copies of the files, ended with the block; and what waits for its facts."""
    with tempfile.TemporaryDirectory(prefix="kbh-hygiene-") as folder:
        for index, (path, text) in enumerate(files):
            place = Path(folder, f"{index}.py")
            if Path(path).name == PACKAGE:  # which has names of its own, such as __path__
                place = Path(folder, str(index), PACKAGE)
                place.parent.mkdir()
            place.write_text(text, encoding="utf-8", errors="replace")
        process = _start(ruff, folder)
        try:
            yield lambda: _facts(_said(process, Path(folder)), files)
        finally:
            if process is not None:
                process.kill()
                process.wait()
                if process.stderr is not None:
                    process.stderr.close()


def _start(ruff: str, folder: str) -> subprocess.Popen[bytes] | None:
    """Ruff over a folder, which writes one item a finding to the file SAID; None when it cannot be started."""
    command = [
        ruff, "check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--ignore-noqa", "--no-respect-gitignore",
        "--select", ",".join(RULES), "--output-format", "json-lines", "--target-version", "py313", ".",
    ]  # fmt: skip
    try:
        with Path(folder, SAID).open("wb") as stream:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.PIPE, cwd=folder,
                env={"PATH": os.defpath, "NO_COLOR": "1"},
            )  # fmt: skip
    except OSError:
        return None


def _said(process: subprocess.Popen[bytes] | None, folder: Path) -> list[dict[str, Any]]:
    """What ruff says of the files of a folder, one item a finding; nothing when it takes too long."""
    if process is None:
        return []
    try:
        # The end of a pipe is seen at once; without one the end of ruff is only asked for now and then.
        process.communicate(timeout=TIMEOUT_S)
        with (folder / SAID).open("rb") as stream:
            text = stream.read(MAX_OUTPUT)
    except (OSError, subprocess.SubprocessError):
        return []
    return list(_items(text.split(b"\n")))


def _facts(items: Iterable[dict[str, Any]], files: Sequence[tuple[str, str]]) -> list[tuple[Fact, ...]]:
    out: list[list[Fact]] = [[] for _ in files]
    for item in items:
        index, fact = _fact(item, files)
        if fact is not None and len(out[index]) < MAX_FINDINGS:
            out[index].append(fact)
    return [tuple(facts) for facts in out]


def _items(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    """The JSON objects among lines; the last may be cut off by the bound."""
    for line in lines:
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(item, dict):
            yield item


def _fact(item: dict[str, Any], files: Sequence[tuple[str, str]]) -> tuple[int, Fact | None]:
    """The file an item speaks of, by number, and the fact; None for what cannot be placed."""
    try:
        place = Path(item["filename"])
        index = int(place.parent.name if place.name == PACKAGE else place.stem)
        start, end = item["location"], item["end_location"]
        code, path = str(item["code"] or "E999"), files[index][0]
        last = files[index][1].count("\n") + (not files[index][1].endswith("\n"))
        rows = [min(int(place["row"]), last) for place in (start, end)]
        span = Span(path, rows[0], int(start["column"]), rows[1], int(end["column"]))
        message = str(item["message"]).split("\n")[0][:MAX_MESSAGE]
    except (KeyError, ValueError, TypeError, IndexError):
        return 0, None
    kind = next((what for prefix, what in RULES.items() if code.startswith(prefix)), "syntax")
    return index, fact_of(BrokenCode(what=kind, code=code, message=message.rstrip(".")), span)
