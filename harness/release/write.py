"""Makes a release of an archive: the archive as one file with its hash, and what follows from it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.record.bundle.read import canonical
from harness.archive.layout import StoreError
from harness.archive.scratch import scratch
from harness.archive.store import Archive
from harness.release.contents import MADE_WITH, documents, made_with
from harness.release.entries import Checker, Told, Verified
from harness.release.pack import ARCHIVE, HEAD, NAMES, head_bytes, pack_archive, room, sha256_of
from harness.release.sources import Linter
from harness.release.tar import CHUNK, END, header, padding

__all__ = ["write_release"]


def write_release(
    archive: Archive, target: Path, options: Mapping[str, Any], *, lint: bool = True, jobs: int | str = "auto",
    problems_dir: Path | None = None, told: Told = lambda done, total, what: None,
) -> Verified:  # fmt: skip
    """Writes a release into a new folder, or into a new file that ends in `.tar`, and gives what its check finds.

    Nothing is written where an entry is not whole. What does not follow (by another version of the linter, say) is in
    the release all the same, and `kbh verify` will name it. Raises StoreError.
    """
    if os.path.lexists(target):
        raise StoreError(f"{target} is there already")
    ids = archive.ids()
    if not ids:
        raise StoreError(f"{archive.folder} has no entries")
    found = Verified()
    with scratch("kbh-release-") as place:
        checker = Checker(archive, found, Linter(problems_dir, jobs, place), lint, problems_dir)
        checker.check(place, told)
        if len(checker.facts) < len(ids) or checker.broken:
            raise StoreError(f"{archive.folder} is not whole (kbh verify says more): {found.faults[0]}")
        made = documents(checker.facts, checker.gathered, options)
        made["environment.json"] = {MADE_WITH: made_with(), **made["environment.json"]}
        folder = place / "release"
        folder.mkdir()
        for file, value in made.items():
            rows = value if file.endswith(".jsonl") else [value]
            with (folder / file).open("wb") as written:
                for row in rows:
                    written.write(canonical(json.loads(json.dumps(row))))
        unpacked, count = pack_archive(archive, ids, folder / ARCHIVE)
        files = {file: sha256_of(folder / file) for file in (ARCHIVE, *made)}
        (folder / HEAD).write_bytes(head_bytes(files, ids, unpacked, count, options))
        found.id = sha256_of(folder / HEAD)[0]
        _put(folder, target)
    return found


def _put(folder: Path, target: Path) -> None:
    """Brings the files to where they belong, as a whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.parent / f".{target.name}.{os.getpid()}"
    try:
        room(target.parent, sum(path.stat().st_size for path in folder.iterdir()))
        if target.name.endswith(".tar"):
            with half.open("xb") as made:
                for name in NAMES:
                    path = folder / name
                    size = path.stat().st_size
                    made.write(header(name, size))
                    with path.open("rb") as file:
                        while data := file.read(CHUNK):
                            made.write(data)
                    made.write(padding(size))
                made.write(END)
        else:
            shutil.copytree(folder, half)
        os.rename(half, target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    finally:
        if half.is_dir():
            shutil.rmtree(half, ignore_errors=True)
        else:
            half.unlink(missing_ok=True)
