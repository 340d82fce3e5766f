"""Kinds of objects that host code makes for a kernel of a tensor language, a class each: what a kernel does with one is
decided by its class. `path` is what it is called in reports."""

from __future__ import annotations

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import OBJECT, Made


@dataclass(frozen=True, slots=True)
class Mma(Made):
    """A matrix instruction, with the types that it takes."""

    path: str = "cute.mma"


@dataclass(frozen=True, slots=True)
class Copy(Made):
    """A way to copy; `reduce` says that it adds to what is there."""

    path: str = "cute.copy"


@dataclass(frozen=True, slots=True)
class Layout(Made):
    """A layout, or a tiler: a shape without memory."""

    path: str = "cute.layout"


@dataclass(frozen=True, slots=True)
class StructType(Made):
    """A struct of shared memory: its fields with their element types."""

    path: str = "cute.struct"


@dataclass(frozen=True, slots=True)
class Constants(Made):
    """An array of the host of numbers that are constants of a kernel."""

    path: str = "constants"


@dataclass(frozen=True, slots=True)
class Coordinates(Made):
    """A tensor of coordinates, which has no memory."""

    path: str = "cute.coordinates"


@dataclass(frozen=True, slots=True)
class Object(Made):
    """An object of a class of the submission."""

    path: str = OBJECT


@dataclass(frozen=True, slots=True)
class Class(Made):
    """A class of the submission, or a file beside it."""

    path: str = "class"


@dataclass(frozen=True, slots=True)
class Static(Made):
    """A function under `staticmethod`."""

    path: str = "static"


@dataclass(frozen=True, slots=True)
class ClassMethod(Made):
    """A function under `classmethod`."""

    path: str = "classmethod"


@dataclass(frozen=True, slots=True)
class PropertyOf(Made):
    """A function under `property`."""

    path: str = "property"


@dataclass(frozen=True, slots=True)
class Table(Made):
    """A dict, by its keys."""

    path: str = "dict"


@dataclass(frozen=True, slots=True)
class Namespace(Made):
    """A `types.SimpleNamespace`."""

    path: str = "namespace"
