"""Text of a run as the page shows it: nothing hidden in it, and of bounded length.

Sizes here are bytes of the page: what a text takes once its hidden characters are written out and it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kbh_lint.report.text import clean

__all__ = ["Cut", "cap_within", "cost", "cut", "short", "shown", "visible"]

LEAST = 64  # bytes: a text is never cut below this


class _Visible(dict[int, str]):
    """Characters by their codes, found when first needed."""

    def __missing__(self, code: int) -> str:
        found = self[code] = clean(chr(code))
        return found


_VISIBLE = _Visible({ord("\n"): "\n", ord("\t"): "\t"})


@dataclass(frozen=True, slots=True)
class Cut:
    """A text with its middle left out: so many characters between `head` and `tail`."""

    head: str
    left_out: int = 0
    tail: str = ""

    @property
    def text(self) -> str:
        """The kept text, with a sentence for what was cut."""
        if not self.left_out:
            return self.head
        return f"{self.head}\n[{self.left_out:,} characters are left out here]\n{self.tail}"


def visible(text: str) -> str:
    """The text with control, bidirectional, private and other hidden characters written out; lines stay lines."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def shown(value: object) -> Any:
    """What a template puts in: text made visible, everything else as it is."""
    return visible(value) if type(value) is str else value


def cost(text: str) -> int:
    """The bytes that a text takes on the page once it is escaped."""
    text = visible(text)
    angles, others = text.count("<") + text.count(">"), text.count("&") + text.count('"') + text.count("'")
    return (len(text) if text.isascii() else len(text.encode())) + 3 * angles + 4 * others


def cut(text: str, most: int) -> Cut:
    """The text where it takes at most so many bytes, else its beginning and its end."""
    most = max(most, LEAST)
    if len(text) <= most and cost(text) <= most:
        return Cut(text)
    head = _fitting(text, most * 3 // 4)
    tail = _fitting(text[::-1][: most // 4], most // 4)
    left = len(text) - head - tail
    return Cut(text[:head], left, text[len(text) - tail :]) if left > 0 else Cut(text)


def short(text: str, most: int = 120) -> str:
    """One line of at most about so many bytes."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most and cost(line) <= most and len(text) <= 4 * most:
        return line
    return line[: _fitting(line, most - 3)].rstrip() + "..."


def cap_within(sizes: Iterable[int], total: int) -> int:
    """The largest whole number c for which the sum of min(size, c) is at most `total`; the largest size if all fit."""
    ordered = sorted(sizes)
    left, count = total, len(ordered)
    for index, size in enumerate(ordered):
        if size * (count - index) > left:
            return max(left // (count - index), 0)
        left -= size
    return ordered[-1] if ordered else total


def _fitting(text: str, most: int) -> int:
    """How many characters from the beginning take at most so many bytes; it may be a few fewer than could."""
    count = min(len(text), most)
    while count > 0:
        taken = cost(text[:count])
        if taken <= most:
            break
        count = min(count - 1, count * most // taken)
    return count
