"""Where CUTLASS's headers lie on this machine, for submissions in CUDA that include them.

They are bound read-only into a submission's sandbox and stand on the include path of its compilers. Nothing of them is
imported or run here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["Cutlass", "CutlassError", "find", "use"]

VARIABLES = ("CUTLASS_PATH", "CUTLASS_DIR")
PACKAGE = "cutlass_library"  # what nvidia-cutlass installs; the headers lie in its folder `source`
MOST_BYTES = 1 << 20
_NUMBER = re.compile(r"^\s*#\s*define\s+CUTLASS_(MAJOR|MINOR|PATCH)\s+(\d{1,6})\b", re.M)


class CutlassError(Exception):
    """The folder that was named holds no CUTLASS; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Cutlass:
    """Headers: the folders of the include path in order, and the version that they name."""

    folders: tuple[Path, ...]
    version: str

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment variables that let g++, nvcc (through its preprocessor) and builds of a submission's own find
        CUTLASS.
        """
        before = environment.get("CPLUS_INCLUDE_PATH")
        path = os.pathsep.join([*map(str, self.folders), *([before] if before else [])])
        first = self.folders[0]
        top = first.parent if first.name == "include" else first
        return {"CPLUS_INCLUDE_PATH": path, **dict.fromkeys(VARIABLES, str(top))}


def use(folder: Path) -> None:
    """Takes CUTLASS from a folder in this process from now on. Raises CutlassError when there is none in it."""
    if _in(folder) is None:
        raise CutlassError(f"{folder} holds no CUTLASS: there is no include/cutlass/cutlass.h below it")
    os.environ[VARIABLES[0]] = str(folder.resolve())


def find() -> Cutlass | None:
    """CUTLASS as CUTLASS_PATH or CUTLASS_DIR name it, else that of the package nvidia-cutlass, or None.

    Raises CutlassError when a variable names a folder without it.
    """
    for name in VARIABLES:
        if os.environ.get(name):
            found = _in(Path(os.environ[name]))
            if found is None:
                raise CutlassError(f"{name} names a folder that holds no CUTLASS: {os.environ[name]}")
            return found
    spec = find_spec(PACKAGE)
    places = (spec.submodule_search_locations or []) if spec is not None else []
    return next((found for place in places if (found := _in(Path(place) / "source")) is not None), None)


def _in(folder: Path) -> Cutlass | None:
    """CUTLASS in a checkout, or in its folder `include` itself."""
    for include in (folder / "include", folder):
        if (include / "cutlass" / "cutlass.h").is_file():
            util = include.parent / "tools" / "util" / "include"
            folders = (include.resolve(), *([util.resolve()] if util.is_dir() else []))
            return Cutlass(folders, _version(include / "cutlass" / "version.h"))
    return None


def _version(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            numbers = dict(_NUMBER.findall(stream.read(MOST_BYTES)))
    except OSError:
        numbers = {}
    return ".".join(numbers.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
