"""The code of one function as a digest that is the same for two builds of one source, and for two tools that print it.

Left out are the names of labels, for which their places stand; the eight digits that nvcc puts into the names of what
has internal linkage, a hash of where the source file lies; the order of operands and their `.reuse` marks, in which
the tools differ; and what lies outside of the function, whose address is known only when it is loaded. Instructions
with all other modifiers, operands and their places in the function count. Values in constant memory do not: they are
data.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["Digest", "plain_name"]

ELSEWHERE = "*"
_TARGET = re.compile(r"`\(([^`]*)\)")
_INTERNAL = re.compile(r"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}(?=_)")
_SEPARATOR = re.compile(r",\s*|\s+")


def plain_name(name: str) -> str:
    """A symbol without the part that is a hash of its file's path."""
    return _INTERNAL.sub(r"\1", name) if "__" in name or "_INTERNAL_" in name else name


class Digest:
    """The digest of a function, fed line by line. `relocated`: the loader writes numbers into its instructions."""

    def __init__(self) -> None:
        self.relocated = False
        self._lines: list[tuple[int, str]] = []
        self._labels: dict[str, int] = {}
        self._waiting: list[str] = []

    def label(self, name: str) -> None:
        """Notes a label that marks the next instruction."""
        self._waiting.append(name)

    def step(self, address: int, text: str) -> None:
        """Takes in one instruction, with its guard and operands, and its address in the function."""
        self._labels |= dict.fromkeys(self._waiting, address)
        self._waiting.clear()
        self._lines.append((address, text))
        self.relocated |= "@lo(" in text or "@hi(" in text

    def done(self) -> str:
        """The digest in hex."""
        digest = hashlib.sha256()
        end = self._lines[-1][0] if self._lines else 0
        self._labels |= dict.fromkeys(self._waiting, end + 1)
        for address, text in self._lines:
            if "`" in text:
                text = _TARGET.sub(self._place, text)
            words = _SEPARATOR.split(text.replace(".reuse", "").strip())
            digest.update(f"{address:x} {' '.join(sorted(words))}\n".encode())
        return digest.hexdigest()

    def _place(self, target: re.Match[str]) -> str:
        place = self._labels.get(target.group(1))
        return ELSEWHERE if place is None else f"{place:#x}"
