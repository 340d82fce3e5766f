"""C++ text as a unit of the IR: offsets of the parsed text to places in the file a reader can open."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import field

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.regexes import regex
from kbh_lint.frontends.cuda.literals import string_offsets
from kbh_lint.frontends.cuda.textmap import TextMap
from kbh_lint.source.spans import Span

_HEAD = 200  # characters of what stands before a namespace's body
_INLINE = regex(r"\binline\s+namespace\b[\w\s]*\{?\s*\Z")
Origin = Callable[[int], tuple[str, int, int]]


@dataclass(frozen=True, slots=True)
class Namespace:
    """The body of a namespace, its qualified name, and the index of the one around it."""

    start: int
    end: int
    name: str
    outer: int | None
    inline: bool = False


@dataclass(slots=True, eq=False)
class CudaUnit:
    """A C++ text that was lowered. Offsets in a `Loc` are of `text`, which is preprocessed and blanked.

    `prepared` is the text after macros and before blanking, of the same length as `text`. `namespaces` are in
    order of their start.
    """

    origin: Origin
    text: str = ""
    prepared: str = ""
    map: TextMap = field(default_factory=TextMap)
    namespaces: list[Namespace] = field(default_factory=list)
    known_types: set[str] = field(default_factory=set)
    language: str = "cuda"
    stopped: bool = False  # an #error is reached in any case
    outermost: set[str] = field(
        default_factory=set
    )  # names of the file that are asked for as `::n` where one hides them

    def span(self, loc: ir.Loc) -> Span:
        """The place of `loc` in the file that a reader can open. For text from a macro it is that of the macro's body,
        or of its argument."""
        first, last = self.map.range(loc[1], loc[2])
        path, line, column = self.origin(first)
        end_path, end_line, end_column = self.origin(last)
        if end_path != path or (end_line, end_column) < (line, column):
            end_line, end_column = line, column
        return Span(path, line, column, end_line, end_column + 1)

    def add_namespace(self, start: int, end: int, name: str) -> None:
        """Records the body of a namespace. To be called in the order of `start`, so that the namespaces around it are
        known."""
        outer = self._namespace_index(start)
        before = self.namespaces[outer].name if outer is not None else ""
        qualified = "::".join(part for part in (before, name) if part)
        inline = _INLINE.search(self.prepared, max(start - _HEAD, 0), start) is not None
        self.namespaces.append(Namespace(start, end, qualified, outer, inline))

    def inline_namespaces(self) -> list[str]:
        """The qualified names of inline namespaces, whose names are those of the namespace around them, too."""
        return list(dict.fromkeys(space.name for space in self.namespaces if space.inline))

    def namespace_at(self, offset: int) -> str:
        """The qualified name of the namespace that holds an offset; empty for the global one."""
        index = self._namespace_index(offset)
        return "" if index is None else self.namespaces[index].name

    def _namespace_index(self, offset: int) -> int | None:
        """The innermost one: the last that starts before `offset`, or one around it."""
        last = bisect_right(self.namespaces, offset, key=lambda namespace: namespace.start) - 1
        index: int | None = last if last >= 0 else None
        while index is not None and self.namespaces[index].end <= offset:
            index = self.namespaces[index].outer
        return index

    def within(self, literal: ir.Const, offset: int, length: int) -> ir.Loc:
        """The location of a part of a string literal's value, such as one instruction of an asm template.

        `offset` counts characters of the value, which may be joined from several adjacent literals.
        """
        _, start, end = literal.loc
        return (self, start + self._place(start, end, offset), start + self._place(start, end, offset + length - 1) + 1)

    def _place(self, start: int, end: int, offset: int) -> int:
        place = 0
        for value_at, text_at in string_offsets(self.prepared[start:end]):
            if value_at > offset:
                break
            place = text_at + offset - value_at
        return min(place, max(end - start - 1, 0))


def lines_origin(text: str, path: str) -> Origin:
    """A function that gives path, line and column of a character of `text`, which is a file of its own."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)

    def origin(offset: int) -> tuple[str, int, int]:
        """The path, line and column of a character."""
        line = bisect_right(starts, offset)
        return path, line, offset - starts[line - 1] + 1

    return origin
