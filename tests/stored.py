"""Gradings of the H200 that lie packed, unpacked once for all tests of a process: what results/ holds, and a few of
earlier versions, whose entries are older and whose problems were edited since.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from grader.record.bundle.packed import unpacked

__all__ = ["h200", "older"]

TESTS = Path(__file__).resolve().parent


def h200() -> Path:
    """The folder of the bundles; it is gone when this process ends, and not when one that it forked does."""
    return _folder(TESTS.parent / "results" / "h200.tar.xz")


def older() -> Path:
    """The same of earlier versions."""
    return _folder(TESTS / "grader" / "older.tar.xz")


@cache
def _folder(packed: Path) -> Path:
    top = Path(tempfile.mkdtemp(prefix="kbh-stored-"))
    mine = os.getpid()
    atexit.register(lambda: shutil.rmtree(top, ignore_errors=True) if os.getpid() == mine else None)
    with unpacked(packed) as place:
        return Path(shutil.copytree(place, top / place.name))
