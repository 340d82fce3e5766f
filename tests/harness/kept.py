"""Small runs and a bundle, for tests of archives."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from sample_run import record
from stored import h200

from harness.archive import Archive
from harness.record.archive import RunFolder
from harness.record.usage import Usage

(BUNDLE,) = h200().glob("01_fp8_gemm-library_product-*")


def small_run(out: Path, name: str, *, text: str = "# a kernel\n", **more: Any) -> Path:
    """A run that is over, of four files, one of which all of them share."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    said = {"usage": Usage(), "solution": digest, "roofline_fraction": None, "peak_fraction": None, "outcome": "FAIL"}
    folder = RunFolder.create(out, record(run_id=name, **{**said, **more}))
    folder.write("solution.py", text.encode())
    folder.write("prompt.md", b"Write a kernel.\n")
    folder.release()
    return folder.path


def bundle(out: Path) -> Path:
    """A bundle that was graded on a GPU."""
    out.mkdir(exist_ok=True, parents=True)
    return Path(shutil.copytree(BUNDLE, out / BUNDLE.name))


def tree(folder: Path) -> dict[str, bytes]:
    """What an archive holds, without its index and its lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("index.sqlite", "lock")
    }


def archive_of(folder: Path, *paths: Path) -> Archive:
    """An archive with these entries."""
    made = Archive.create(folder)
    for path in paths:
        made.add(path)
    return made
