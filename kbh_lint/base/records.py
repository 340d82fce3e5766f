"""`dataclass` as the standard library has it, where `frozen=True` is a promise to mypy alone.

A frozen class sets each field through `object.__setattr__`, and two more methods are compiled for it at import:
together a twentieth of what linting costs. That nobody assigns to a field is for mypy to say; such a class compares
and hashes as a frozen one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses

    def dataclass(made: type | None = None, /, **how: bool) -> object:
        """See above; the arguments are those of `dataclasses.dataclass`."""

        def make(made: type) -> type:
            frozen = how.get("frozen", False)
            hashed = frozen and how.get("eq", True) and vars(made).get("__hash__") is None
            return dataclasses.dataclass(made, **how | ({"frozen": False, "unsafe_hash": hashed} if frozen else {}))

        return make if made is None else make(made)
