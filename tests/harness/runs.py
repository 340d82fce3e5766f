"""A small problem and scripted conversations, for tests of whole runs: real rooms, proxy and agent, no model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from harness.record.archive import RunFolder
from harness.record.run import RunRecord

sys.path.append(str(Path(__file__).resolve().parents[1] / "grader"))

from grading import AUTHORED, KERNEL
from toy import PROBLEM, TOY, toy_problem

__all__ = ["KERNEL", "Turn", "archives", "deck", "kbh_run", "record_of", "script"]

Turn = dict[str, Any]


def deck(folder: Path) -> Path:
    """A folder of problems that holds the toy problem, with a prompt and promises that a Triton kernel keeps."""
    place = folder / "deck"
    place.mkdir()
    toy_problem(place)
    before, _, after = PROBLEM.partition("promises:\n")
    rest = after[after.index("bans:") :]
    (place / "toy" / "problem.yaml").write_text(f"{before}promises: {AUTHORED}\n{rest}")
    shutil.copy(TOY / "prompt.in.md", place / "toy")
    return place


def script(folder: Path, *turns: Turn, name: str = "script.yaml", **more: Any) -> Path:
    """A script's file. A conversation that does not end by itself gets an end."""
    listed = [*turns, {"text": "Done.", "end": True}]
    file = folder / name
    file.write_text(yaml.safe_dump({"turns": listed, **more}))
    return file


def kbh_run(
    folder: Path, problems: Path, played: Path, *more: str, agent: str = "mini", **env: str
) -> subprocess.Popen[str]:
    """`kbh run` on the toy problem, in a process of its own."""
    words = [agent, "scripted/some-model", "toy", "--script", str(played), "--problems-dir", str(problems)]
    words += ["--target", "cpu", "--out", str(folder / "runs"), "--samples", "3", "--no-evidence", *more]
    program = "from harness.running.cli import main; import sys; raise SystemExit(main(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "KBH_LOCK_DIR": str(folder), **env},
    )  # fmt: skip


def archives(folder: Path) -> list[RunFolder]:
    """The archives of the runs, in the order of their trials."""
    found = [RunFolder(path) for path in sorted((folder / "runs").iterdir())]
    return sorted(found, key=lambda archive: archive.load().trial)


def record_of(folder: Path) -> RunRecord:
    """The record of the only run."""
    (archive,) = archives(folder)
    return archive.load()


def as_json(text: str) -> list[dict[str, Any]]:
    """The runs that --format json printed."""
    found: list[dict[str, Any]] = json.loads(text)["runs"]
    return found
