"""What changed between two texts, line by line, with bounded work: a hostile pair costs no more than a long one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.view.text import LEAST, cost, cut

__all__ = ["Part", "Work", "diff", "lines_of", "parts_within"]

MOST_LINES = 8_000
MOST_EDITS = 400  # beyond it the texts are shown one after the other
CONTEXT = 3
Op = Literal["same", "add", "del"]


@dataclass(frozen=True, slots=True)
class Part:
    """Lines that belong together: added, removed, unchanged ones around them, or a remark (`cut`, `hunk`)."""

    kind: Literal["same", "add", "del", "hunk", "cut"]
    text: str


@dataclass(slots=True)
class Work:
    """How many comparisons are left to all diffs of a page; with none left, texts stand one after the other."""

    left: int = 20_000_000


def lines_of(text: str) -> list[str]:
    """Lines as a diff counts them: a line feed ends one."""
    found = text.replace("\r\n", "\n").split("\n")
    return found[:-1] if found and found[-1] == "" else found


def diff(old: str, new: str, work: Work) -> tuple[Part, ...]:
    """The changed lines with a few around them; nothing where the texts are the same."""
    before, after = lines_of(old), lines_of(new)
    if before == after:
        return ()
    return tuple(_hunks(_script(before, after, work)))


def parts_within(parts: Sequence[Part], most: int) -> tuple[tuple[Part, ...], int]:
    """The first parts that take at most so many bytes of the page, and how many lines are left out."""
    kept: list[Part] = []
    left_out = 0
    for part in parts:
        lines = part.text.count("\n") + 1
        size = cost(part.text) + 2 * lines if len(part.text) <= most else most + 1
        if not left_out and size <= most:
            kept.append(part)
            most -= size
            continue
        if not left_out and most > 4 * LEAST:
            head = cut(part.text, most // 2).head
            kept.append(Part(part.kind, head))
            lines -= head.count("\n")
        left_out += lines
    return tuple(kept), left_out


def _script(before: list[str], after: list[str], work: Work) -> list[tuple[Op, str]]:
    """Lines in order, each with what became of it."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    found: list[tuple[Op, str]] = [*(("del", line) for line in old), *(("add", line) for line in new)]
    if len(old) + len(new) <= MOST_LINES:
        found = _shortest(old, new, work) or found
    tail = before[len(before) - end :]
    return [("same", line) for line in before[:start]] + found + [("same", line) for line in tail]


def _shortest(before: list[str], after: list[str], work: Work) -> list[tuple[Op, str]] | None:
    """The shortest edit script (E. Myers 1986), or None where it takes more than MOST_EDITS edits or too much work."""
    numbers: dict[str, int] = {}
    old, new = ([numbers.setdefault(line, len(numbers)) for line in lines] for lines in (before, after))
    reach, trace = {1: 0}, []
    for edits in range(min(MOST_EDITS, len(old) + len(new)) + 1):
        trace.append(dict(reach))
        work.left -= 2 * edits
        if work.left < 0:
            return None
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            first = x = reach[k + 1] if down else reach[k - 1] + 1
            while x < len(old) and x - k < len(new) and old[x] == new[x - k]:
                x += 1
            work.left -= x - first
            reach[k] = x
            if x >= len(old) and x - k >= len(new):
                return _back(trace, before, after)
    return None


def _back(trace: list[dict[int, int]], old: list[str], new: list[str]) -> list[tuple[Op, str]]:
    """The script that a trace of furthest places stands for."""
    found: list[tuple[Op, str]] = []
    x, y = len(old), len(new)
    for edits in range(len(trace) - 1, -1, -1):
        reach, k = trace[edits], x - y
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        before = k + 1 if down else k - 1
        from_x = reach[before] if edits else 0
        from_y = from_x - before if edits else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            found.append(("same", old[x]))
        if edits:
            found.append(("add", new[y - 1]) if down else ("del", old[x - 1]))
            x, y = from_x, from_y
    found.reverse()
    return found


def _hunks(script: list[tuple[Op, str]]) -> Iterator[Part]:
    """Runs of lines of one kind; long unchanged stretches become a remark."""
    at = 0
    old_line = new_line = 1
    while at < len(script):
        kind, stop = script[at][0], at
        while stop < len(script) and script[stop][0] == kind:
            stop += 1
        lines = [text for _, text in script[at:stop]]
        if kind == "same":
            head = CONTEXT if at else 0
            tail = CONTEXT if stop < len(script) else 0
            hidden = len(lines) - head - tail
            if hidden > 0:
                if head:
                    yield Part("same", "\n".join(lines[:head]))
                if tail:
                    place = new_line + len(lines) - tail
                    yield Part("hunk", f"line {place}")
                    yield Part("same", "\n".join(lines[-tail:]))
            else:
                yield Part("same", "\n".join(lines))
        else:
            yield Part(kind, "\n".join(lines))
        old_line += len(lines) if kind != "add" else 0
        new_line += len(lines) if kind != "del" else 0
        at = stop
