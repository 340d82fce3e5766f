"""Headers of the submission's own: `#include "mma.cuh"` of a text that is compiled brings the file's text in.

What a build gets is one text a source file, as a preprocessor sees it: the header's text stands in the place of the
line, and its characters keep their own places. Headers of libraries are left as they are.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from kbh_lint.base.regexes import regex
from kbh_lint.source.embedded import MAX_TEXT, FileText, Piece, Text, concat, cut

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_INCLUDE = regex(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*', re.M)
_ONCE = regex(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.M)
MAX_DEPTH = 24
MAX_INCLUDED = 256


def spliced(interp: Run, text: str) -> str:
    """Returns a source text with `#include` lines replaced by the submission's own headers that they name."""
    return _Splicer(interp).splice(text, "", 0) if "include" in text and interp.files.texts else text


def found(interp: Run, path: str, folder: str = "") -> tuple[str, str] | None:
    """Returns the (name, text) of the submission's file that a text in `folder` includes as `path`, or None. A build
    may add any include folder, so a file whose path ends in `path` matches as well; of several, the one nearest to
    `folder`."""
    files = interp.files.texts
    near = posixpath.normpath(posixpath.join(folder, path))
    if near in files:
        return near, files[near]
    wanted = posixpath.normpath(path).lstrip("./")
    ends = [name for name in files if name == wanted or name.endswith(f"/{wanted}")]
    best = max(ends, key=lambda name: (len(posixpath.commonprefix([name, near])), -len(name), name), default=None)
    return None if best is None else (best, files[best])


class _Splicer:
    """Splices the submission's own headers into one text; `once` names those with `#pragma once` that are in it."""

    def __init__(self, interp: Run) -> None:
        self.interp = interp
        self.once: set[str] = set()
        self.count = self.size = 0

    def splice(self, text: str, folder: str, depth: int) -> str:
        """Replaces the `#include` lines of a text in `folder` by the headers that they name, recursively."""
        parts: list[str] = []
        at = 0
        for match in _INCLUDE.finditer(text):
            path = match[1] or match[2]
            file = found(self.interp, path, folder) if depth < MAX_DEPTH and self.count < MAX_INCLUDED else None
            if file is None:
                continue
            name, body = file
            if name not in self.once:
                self.count += 1
                self.size += len(body)
            if self.size > MAX_TEXT // 2:
                break
            parts.append(cut(text, at, match.start()))
            at = match.end()
            if name in self.once:
                continue
            if _ONCE.search(body):
                self.once.add(name)
            parts.append(self.splice(_placed(name, body), posixpath.dirname(name), depth + 1))
        return concat([*parts, cut(text, at, len(text))]) if parts else text


def _placed(name: str, body: str) -> str:
    """A file's text whose characters know where they stand."""
    return body if isinstance(body, Text) else Text(body, (Piece(0, len(body), FileText(name, body), 0),))
