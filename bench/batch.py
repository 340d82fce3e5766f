"""What many submissions in one `kbh grade` save beside as many commands: `python bench/batch.py [FILE ...]`.

Grades each file alone once, so that all find their compiled code; then all in one command, and each in a command of its
own, in the order one, many, many, one, so that a machine that slows down slows both. Prints wall-clock seconds and, on
a GPU, the overhead that was taken off each sealed call in both: it must not depend on how many commands there were.

Without files: the honest Triton solution of 05_topk_bitonic and two of its decoys.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ("honest/triton.py", "decoys/builtin_topk.py", "decoys/sort_keys.py")
GRADE = "import sys; from kbh_lint.cli import kbh_main; sys.exit(kbh_main(['grade', *sys.argv[1:]]))"
TIMEOUT_S = 3600.0


class BatchError(Exception):
    """A command did not grade every file; the text is one sentence."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("files", nargs="*", type=Path, metavar="FILE", help="submissions whose problem can be told")
    ask.add_argument("--target", default="auto", help="as kbh grade")
    asked = ask.parse_args(argv)
    files = asked.files or [ROOT / "problems" / "05_topk_bitonic" / name for name in DEFAULT]
    try:
        with tempfile.TemporaryDirectory(prefix="kbh-batch-") as folder:
            for file in files:
                _seconds([file], asked.target, Path(folder) / "first")
            one, many = _pairs(files, asked.target, Path(folder))
            print(report(len(files), one, many, _overheads(Path(folder) / "one"), _overheads(Path(folder) / "many")))
    except BatchError as error:
        print(f"bench/batch.py: {error}", file=sys.stderr)
        return 2
    return 0


def report(
    count: int, one: Sequence[float], many: Sequence[float], ours: Sequence[float], alone: Sequence[float]
) -> str:
    """The seconds of both ways, their ratio, and the median overhead of a sealed call in each."""
    lines = [
        f"{count} submissions in one command  {median(one):8.2f} s",
        f"{count} commands                    {median(many):8.2f} s",
        f"ratio                         {median(many) / median(one):8.2f}",
    ]
    if ours and alone:
        lines.append(f"overhead of a sealed call     {median(ours) * 1e6:8.2f} us and {median(alone) * 1e6:.2f} us")
    return "\n".join(lines)


def _pairs(files: Sequence[Path], target: str, folder: Path) -> tuple[list[float], list[float]]:
    one, many = [], []
    for order in (("one", "many"), ("many", "one")):
        for way in order:
            if way == "one":
                one.append(_seconds(files, target, folder / "one"))
            else:
                many.append(sum(_seconds([file], target, folder / "many") for file in files))
    return one, many


def _seconds(files: Sequence[Path], target: str, out: Path) -> float:
    """Wall-clock seconds of one command. Raises BatchError when it leaves a file out."""
    options = ["--no-evidence", "--fresh", "--format", "json", "--target", target, "--out", str(out)]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", GRADE, *map(str, files), *options], cwd=ROOT, capture_output=True, text=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    try:
        graded = len(json.loads(done.stdout)["cells"])
    except (ValueError, KeyError, TypeError):
        graded = 0
    if graded != len(files):
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise BatchError(f"kbh grade graded {graded} of {len(files)} files: {said[-1][:300]}")
    return seconds


def _overheads(folder: Path) -> list[float]:
    """Seconds a call that were taken off every sealed batch in the bundles below a folder."""
    found = []
    for file in sorted(folder.glob("*/entries/*.json")):
        entry = json.loads(file.read_text(encoding="utf-8"))
        for shape in entry["data"]["shapes"] if entry["kind"] == "trial" else ():
            for batch in (shape["timing"] or {}).get("sealed", ()):
                found.append(batch["overhead"] / batch["rounds"])
    return found


if __name__ == "__main__":
    sys.exit(main())
