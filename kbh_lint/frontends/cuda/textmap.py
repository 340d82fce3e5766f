"""From an offset of the text that is parsed to an offset of the text that was given."""

from __future__ import annotations

from bisect import bisect_right


class TextMap:
    """Pieces of parsed text, each a straight copy of a place in the given text.

    A piece belongs to a frame: 0 for text copied as it stood, another number for each use of a macro, so that
    a range which starts in a macro body is cut where it leaves that body.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sources: list[int] = []
        self._lengths: list[int] = []
        self._frames: list[int] = []

    def add(self, start: int, source: int, length: int, frame: int) -> None:
        """Records that `length` characters of the parsed text from `start` on were copied from the given text at
        `source`."""
        if self._starts:
            last = len(self._starts) - 1
            reach = self._lengths[last]
            straight = start - self._starts[last] == reach and self._sources[last] + reach == source
            if straight and self._frames[last] == frame:
                self._lengths[last] += length
                return
        self._starts.append(start)
        self._sources.append(source)
        self._lengths.append(length)
        self._frames.append(frame)

    def key(self) -> tuple[tuple[int, ...], ...]:
        """A key that is equal for maps with the same pieces."""
        return tuple(map(tuple, (self._starts, self._sources, self._lengths, self._frames)))

    def source(self, offset: int) -> int:
        """The offset in the given text of the character at `offset` of the parsed text."""
        if not self._starts:
            return 0
        piece = max(bisect_right(self._starts, offset) - 1, 0)
        return self._at(piece, offset)

    def range(self, start: int, end: int) -> tuple[int, int]:
        """The first and the last character of the given text that the parsed text from `start` to `end` stands for.

        Text from elsewhere (a macro argument inside a macro body, a body inside plain text) is left out. Both are
        offsets of characters, so that an empty range is one character.
        """
        if not self._starts:
            return 0, 0
        piece = max(bisect_right(self._starts, start) - 1, 0)
        frame = self._frames[piece]
        first = last = self._at(piece, start)
        final = max(end - 1, start)
        last = max(last, self._at(piece, final))
        piece += 1
        while piece < len(self._starts) and self._starts[piece] <= final:
            if self._frames[piece] == frame:
                last = max(last, self._at(piece, final))
            piece += 1
        return first, last

    def _at(self, piece: int, offset: int) -> int:
        inside = min(max(offset - self._starts[piece], 0), max(self._lengths[piece] - 1, 0))
        return self._sources[piece] + inside
