"""What a kind of facts is: a class whose fields are the attributes that rules may ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, dataclass_transform

Names = tuple[str, ...]  # of inputs, weights, functions, element types


@dataclass_transform(eq_default=True, kw_only_default=True, frozen_default=True)
class FactKind:
    """What all kinds of facts have: fields by name, which mypy knows as those of a frozen dataclass.

    They are no dataclasses, because to compile the methods of fifty of these takes a tenth of the start of the linter.
    """

    def __init__(self, **attrs: object) -> None:
        missing = [name for name in fields_of(type(self)) if name not in attrs and not hasattr(type(self), name)]
        unknown = attrs.keys() - set(fields_of(type(self)))
        if missing or unknown:
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields_of(type(self)))}, not {', '.join(attrs)}")
        vars(self).update(attrs)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *sorted(vars(self).items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def attrs(self) -> dict[str, Any]:
        """The known attributes of the fact, by name, in the order of the class."""
        found = {name: getattr(self, name) for name in fields_of(type(self))}
        return {name: value for name, value in found.items() if value is not None}


_SPLIT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def kind_name(kind: type[FactKind]) -> str:
    """The name that rules use: that of the class in lower case, its words joined by `-`."""
    return _SPLIT.sub("-", kind.__name__).lower()


def fields_of(kind: type[FactKind]) -> tuple[str, ...]:
    """The names of a kind's attributes, in order."""
    return tuple(vars(kind).get("__annotations__", ()))


def kinds_among(names: Mapping[str, object]) -> dict[str, type[FactKind]]:
    """The kinds that a module defines, by the names that rules use."""
    found = [kind for kind in names.values() if isinstance(kind, type) and issubclass(kind, FactKind)]
    return {kind_name(kind): kind for kind in found if kind is not FactKind}
