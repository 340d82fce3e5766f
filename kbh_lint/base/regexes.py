"""`regex` is `re.compile` of the standard library for patterns that many runs do without: one is compiled when it is
used first. Those of C++ and PTX are a twentieth of a cold start, and most submissions hold neither."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    regex = re.compile
else:

    class regex:
        """A pattern that has the methods of a compiled one, each once it was asked for."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._text, self._flags = text, flags

        def __getattr__(self, name: str) -> object:
            found = getattr(re.compile(self._text, self._flags), name)
            setattr(self, name, found)
            return found
