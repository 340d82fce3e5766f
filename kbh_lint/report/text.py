"""Text helpers that reporters share: source lines by place, widths, and output that cannot drive a terminal."""

from __future__ import annotations

import unicodedata
from pathlib import Path

MAX_SOURCE_BYTES = 4 * 1024**2
WINDOW = 110  # columns of a code line that are shown around the caret
TAB = 4

_RESET = "\x1b[0m"
_STYLES = {"red": "\x1b[1;31m", "yellow": "\x1b[1;33m", "blue": "\x1b[1;34m", "green": "\x1b[1;32m", "bold": "\x1b[1m"}
# Characters that show nothing, or reorder what is shown around them.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


class Paint:
    """Colours text, or leaves it alone."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, style: str) -> str:
        return f"{_STYLES[style]}{text}{_RESET}" if self._on and text else text


class Sources:
    """Lines of files, read when first needed; a file that cannot be read has none."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def line(self, path: str, number: int) -> str | None:
        """The line without its end, or None."""
        lines = self._lines(path)
        return lines[number - 1] if 1 <= number <= len(lines) else None

    def text(self, path: str, first: int, last: int) -> str:
        """Lines `first` to `last`, as they stand in the file."""
        return "\n".join(self._lines(path)[max(0, first - 1) : last])

    def _lines(self, path: str) -> list[str]:
        if path not in self._files:
            self._files[path] = _read(path)
        return self._files[path]


def _read(path: str) -> list[str]:
    try:
        with open(Path(path), "rb") as stream:
            data = stream.read(MAX_SOURCE_BYTES)
    except (OSError, ValueError):
        return []
    # Only line feeds end a line: str.splitlines would also split at form feeds and drift from the spans.
    return [line.removesuffix("\r") for line in data.decode("utf-8", "replace").split("\n")]


def clean(text: str) -> str:
    """`text` with control and invisible characters written out, so that hostile source cannot drive the terminal.

    What is left may stand in XML, once its marks are escaped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(char) for char in text)


def one_line(text: str) -> str:
    """`text` on one line, cleaned."""
    return clean(" ".join(text.split()))


def _visible(char: str) -> str:
    if char == "\t":
        return " " * TAB
    code = ord(char)
    if unicodedata.category(char) in _HIDDEN or code & 0xFFFE == 0xFFFE:  # the last two of a plane are no characters
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    return char


def width(text: str) -> int:
    """Terminal columns that cleaned text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def excerpt(line: str, column: int, end_column: int) -> tuple[str, int, int]:
    """The part of a code line to show: the text, the columns to skip and the columns to mark.

    `column` and `end_column` count characters from 1. A long line is cut to a window around the mark."""
    start = min(max(column - 1, 0), len(line))
    stop = min(max(end_column - 1, start + 1), max(len(line), start + 1))
    cut = 0 if len(line) <= WINDOW else max(0, min(start - WINDOW // 3, len(line) - WINDOW))
    shown = line[cut : cut + WINDOW]
    before, marked = clean(line[cut:start]), clean(line[start : min(stop, cut + WINDOW)])
    lead, tail = "..." if cut else "", "..." if cut + WINDOW < len(line) else ""
    return lead + clean(shown) + tail, width(lead + before), max(1, width(marked))
