"""Objects of libraries that several parts ask for, each of a class of its own: that class says what one is, and `path`
only what reports call it."""

from __future__ import annotations

from typing import Any

from kbh_lint.base.values import Env, Value
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor


class Property(LibObject):
    """`property(fget, fset)`, or `functools.cached_property`, which keeps its first result."""

    def __init__(self, fget: object, fset: object = None, cached: bool = False) -> None:
        super().__init__("property", {"fget": fget, "fset": fset, "cached": cached})

    @property
    def getter(self) -> Value:
        """The function that reads the property, `fget`."""
        return self.attrs["fget"]

    @property
    def setter(self) -> Value:
        """The function that assigns the property, `fset`; None where it is read-only."""
        return self.attrs.get("fset")

    @property
    def cached(self) -> bool:
        """Whether the property keeps its first result (`cached_property`)."""
        return bool(self.attrs.get("cached"))


class Cell(LibObject):
    """A closure cell of `function.__closure__`: a variable of an enclosing function."""

    def __init__(self, env: Env, name: str) -> None:
        super().__init__("types.CellType", {"name": name})
        self.env, self.name = env, name


class _Method(LibObject):
    @property
    def func(self) -> Any:
        """The decorated function."""
        return self.attrs["func"]


class StaticMethod(_Method):
    """`staticmethod(func)`."""

    def __init__(self, func: object) -> None:
        super().__init__("staticmethod", {"func": func})


class ClassMethod(_Method):
    """`classmethod(func)`."""

    def __init__(self, func: object) -> None:
        super().__init__("classmethod", {"func": func})


class OwnModule(LibObject):
    """The submission, or a file beside it, as a module object."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__("module", names)


class Super(LibObject):
    """`super()` in a method of `cls`, for `owner`."""

    def __init__(self, owner: object, cls: object) -> None:
        super().__init__("super", {"self": owner, "cls": cls})


class Environment(LibObject):
    """`os.environ`."""

    def __init__(self) -> None:
        super().__init__("os.environ")


class Storage(LibObject):
    """The `torch.UntypedStorage` of a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__("torch.UntypedStorage", {"tensor": tensor})


class UnreadKernel(LibObject):
    """A kernel in a language that is not read, or that is compiled from a text that is not known."""

    def __init__(self, name: str, func: object = None) -> None:
        super().__init__("unread.kernel", {"name": name} if func is None else {"name": name, "func": func})


class OpenFile(LibObject):
    """A file that is open."""

    def __init__(self, name: str, mode: str) -> None:
        super().__init__("file", {"name": name, "mode": mode})


class FilePath(LibObject):
    """A `pathlib.Path`."""

    def __init__(self, text: str) -> None:
        super().__init__("pathlib.Path", {"path": text})

    @property
    def text(self) -> Any:
        """The path as a text."""
        return self.attrs["path"]


def joined_path(left: Value, right: Value) -> str:
    """Joins two paths, given as texts: `left / right`."""
    return str(right) if str(right).startswith("/") else f"{left}/{right}"
