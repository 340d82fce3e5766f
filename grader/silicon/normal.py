"""Machine code without what two builds of one source may differ in, as a digest for each function.

Left out are the numbers of labels, which count through a whole file, and the eight digits that nvcc puts into the names
of what has internal linkage: they are a hash of where the source file lies. Instructions with all their modifiers and
operands, their addresses within the function, and where each label stands all count. Values in constant memory do not:
they are data and no instructions.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["Digest", "plain_name"]

_LABEL = re.compile(r"\.L_(?:x_)?\d+")
_INTERNAL = re.compile(r"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}(?=_)")


def plain_name(name: str) -> str:
    """A symbol without the hash of the place of its file."""
    return _INTERNAL.sub(r"\1", name) if "__" in name or "_INTERNAL_" in name else name


class Digest:
    """The SHA-256 of a function's code, fed line by line."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._labels: dict[str, str] = {}

    def step(self, line: str) -> None:
        """One instruction with its address, or one label with its colon."""
        if ".L_" in line:
            line = _LABEL.sub(self._number, line)
        self._hash.update(" ".join(plain_name(line).split()).encode() + b"\n")

    def done(self) -> str:
        """The digest in hex."""
        return self._hash.hexdigest()

    def _number(self, label: re.Match[str]) -> str:
        """Labels by the order in which a function names them first."""
        return self._labels.setdefault(label.group(), f".L{len(self._labels)}")
