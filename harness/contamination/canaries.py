"""Honeytokens: random names in files that no agent must see, so that a model's request that holds one gives it away.

One canary for each kind of file is committed, in the manner of BIG-bench; files whose text stored evidence rests on
cannot carry a line and are known by their own lines instead (harness.contamination.hidden). Each run's archive gets a
token of its own, so that another run that reads it is caught.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

__all__ = [
    "CANARIES",
    "CARRIERS",
    "TOKEN_FILE",
    "canary_line",
    "guids",
    "known_tokens",
    "plant",
    "run_tokens",
    "token_line",
]

CANARIES: Mapping[str, str] = {
    "grader": "e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1",
    "solutions": "799e248c-6452-4659-9944-b917ba3ded9c",
    "cases": "a71b9b27-1914-47a6-869b-3b31c8a2496b",
    "results": "36501a4a-f589-4b2c-a2da-2b72f19fde2d",
    "annotations": "65381d7b-ff8a-40fa-9c73-1858ef8c58a5",
    "fixtures": "821f8856-0c4b-4a12-a897-df5398cb47b2",
}
# Where they stand, as patterns below the checkout; a test holds every one of these files to it.
CARRIERS: Mapping[str, tuple[str, ...]] = {
    "grader": (
        "grader/authoring/mutation.py",
        "grader/deck/cases.py",
        "grader/deck/code.py",
        "grader/deck/correctness.py",
        "grader/deck/draw.py",
        "grader/deck/keys.py",
        "grader/deck/mutants.py",
        "grader/deck/precision.py",
        "grader/deck/structure.py",
        "grader/judge/answers.py",
        "grader/judge/judging.py",
        "grader/mutation.py",
        "grader/precision.py",
        "grader/score/peaks.py",
        "grader/score/scoring.py",
        "grader/structure.py",
    ),
    "solutions": ("problems/*/library.py", "examples/01_fp8_gemm/*.py"),
    "cases": ("problems/*/tolerance.json",),
    "results": ("problems/*/evidence/*.json", "docs/results-h200.md"),
    "annotations": (
        "problems/*/solutions.yaml",
        "problems/faults.yaml",
        "problems/goals.yaml",
        "tools/seed_audit.yaml",
    ),
    "fixtures": ("tests/hostile/*.yaml", "tests/idioms/twins.yaml"),
}

TOKEN_FILE = "record/HONEYTOKEN"
MOST_RUNS = 5000
MOST_BYTES = 1000
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_MIDDLE = re.compile(r"-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-")  # quick to say no
_RUN_TOKEN = re.compile(rf"kbh-run-({_GUID.pattern})", re.IGNORECASE)


def canary_line(kind: str) -> str:
    """The line that a file of a kind carries, without the sign of a comment."""
    return f"kbh canary {CANARIES[kind]}: not for training data; an agent that reads this has left its room"


def token_line(token: str) -> str:
    """The line that what is written of a run carries, without the sign of a comment."""
    return f"{token}: the token of this run; a model that is sent it is reading another run's record"


def plant(folder: Path) -> str:
    """Writes a new token into a run's archive; gives it back. Raises OSError."""
    token = f"kbh-run-{uuid.uuid4()}"
    file = folder / TOKEN_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="ascii") as out:
        out.write(token_line(token) + "\n")
    return token


def known_tokens(out_dir: Path) -> dict[str, str]:
    """The tokens of the runs whose archives lie in a folder, each with its run's name. Reads at most MOST_RUNS."""
    found: dict[str, str] = {}
    try:
        with os.scandir(out_dir) as entries:
            names = [entry.name for entry in islice(entries, MOST_RUNS) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return found
    for name in names:
        try:
            fd = os.open(out_dir / name / TOKEN_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        with os.fdopen(fd, "rb") as file:
            text = file.read(MOST_BYTES).decode("ascii", "replace")
        found |= dict.fromkeys(run_tokens(text), name)
    return found


def guids(text: str) -> set[str]:
    """Everything in a text that has the form of a canary."""
    if _MIDDLE.search(text) is None:
        return set()
    return {match.lower() for match in _GUID.findall(text)}


def run_tokens(text: str) -> set[str]:
    """Everything in a text that has the form of a run's token."""
    return {f"kbh-run-{match.lower()}" for match in _RUN_TOKEN.findall(text)}
