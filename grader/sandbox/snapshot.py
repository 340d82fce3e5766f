"""The copy of a submission that is linted and run, so that both see the same bytes whatever becomes of the file."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from grader.sandbox.base import CheckError
from grader.sandbox.folders import remove
from grader.sandbox.spoken import code_of
from kbh_lint.source.submissions import BadInput, Submission, discover

__all__ = ["Snapshot", "snapshot"]

REFERENCE = "reference.py"
SOURCE_TIME = 946_684_800  # of every copy, so that ninja does not find the sources newer than what it made of them

# One of them stands in whatever measures times on a GPU, or has it measured; events alone only order work.
TUNING = (
    "Elapsed", "autotun", "clock", "cudnn.benchmark", "do_bench", "elapsed", "from time", "import time", "inductor",
    "perf_counter", "profil", "timeit", "torch.compile",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The submission as it is linted and run: `file` in a folder that holds its sidecars too.

    `sha256` covers the file and its sidecars; `files` has the hash of each by its relative path.
    """

    file: Path
    text: str
    sha256: str
    files: tuple[tuple[str, str], ...] = ()

    @property
    def triton(self) -> bool:
        """Whether any of its files speaks of Triton."""
        return self.speaks_of("triton")

    @property
    def calls_nvcc(self) -> bool:
        """Whether any of its files speaks of nvcc, or of torch's extension builder, which calls it."""
        return self.speaks_of("nvcc", "cpp_extension")

    @property
    def collects(self) -> bool:
        """Whether what it compiles can be compiled before any of it runs: kernels of this machine's Triton, and nothing
        by nvcc.
        """
        return self.triton and not self.calls_nvcc and _triton_collects()

    @property
    def apart(self) -> bool:
        """Whether its compilers leave the device alone while they work."""
        return self.calls_nvcc or self.collects

    @property
    def tunes(self) -> bool:
        """Whether any of its files may measure times on the device, and choose by them."""
        return self.speaks_of(*TUNING)

    def speaks_of(self, *words: str) -> bool:
        """Whether one of `words` occurs in the code of any of its files; comments do not count."""
        texts = (code_of(name, (self.file.parent / name).read_text("utf-8", "replace")) for name, _ in self.files)
        return any(word in text for text in texts for word in words)


@cache
def _triton_collects() -> bool:
    """Whether the installed Triton, which is not imported, hands kernels to other compilers than its own process."""
    found = find_spec("triton")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    return any((Path(folder) / "runtime" / "_async_compile.py").is_file() for folder in folders)


def snapshot(solution: Path, folder: Path, *, reference: Path | None = None) -> Snapshot:
    """Copies a submission and its sidecars, as the linter reads them, into `folder`. Raises CheckError.

    The file is called solution.py there, whatever its name was, so that it can never hide a library. The problem's
    `reference`, which lies in every workspace as reference.py, is copied too where the submission imports that name and
    has none of its own.
    """
    found: Submission | BadInput = next(discover([solution]))
    if isinstance(found, BadInput):
        raise CheckError(found.message)
    remove(folder)
    folder.mkdir(parents=True)
    hashes: dict[str, str] = {}
    contents = {name: sidecar.text for name, sidecar in found.sidecars.items() if not sidecar.binary}
    for name, text in {**contents, "solution.py": found.text}.items():
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise CheckError(f"{solution}: the sidecar {name} lies outside the submission's folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        os.utime(target, (SOURCE_TIME, SOURCE_TIME))
        hashes[name] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    taken = Snapshot(folder / "solution.py", found.text, found.sha256, tuple(sorted(hashes.items())))
    if reference is None or REFERENCE in hashes or not (reference.is_file() and _imports_reference(found.text)):
        return taken
    shutil.copyfile(reference, folder / REFERENCE)
    shutil.move(folder, aside := folder.with_name(f"{folder.name}-given"))
    try:
        return snapshot(aside / "solution.py", folder)
    finally:
        remove(aside)


def _imports_reference(text: str) -> bool:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return "reference" in names
