"""Python from C++: `py::module_::import("torch").attr("sum")(x)` and what pybind11 makes of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import modules
from kbh_lint.host.values.cpp_objects import PythonObject, Slot
from kbh_lint.host.values.objects import NamedTuple
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_SPACES = ("py", "pybind11", "pybind", "torch::py")
_SETTERS = frozenset(f"{space}::setattr" for space in _SPACES)
_IMPORTS = frozenset(f"{space}::{kind}::import" for space in _SPACES for kind in ("module_", "module"))


def imported(run: Cpp, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Models `py::module_::import(NAME)` and `py::setattr(OBJECT, NAME, VALUE)`; NotImplemented for other functions."""
    if name in _SETTERS and len(args) == 3 and isinstance(args[1], str):
        run.interp.set_attr(plain(args[0]), args[1], plain(args[2]), loc)
        return None
    if name not in _IMPORTS or len(args) != 1 or not isinstance(args[0], str):
        return NotImplemented
    return PythonObject.by_path("cpp:python", {"value": modules.resolve(run.interp, args[0], loc)})


def method(run: Cpp, owner: PythonObject, name: str, args: list[Any], loc: ir.Loc | None) -> Value:
    """Models a method of `py::object`; NotImplemented for those without a model."""
    value = owner.attrs["value"]
    if name == "attr" and len(args) == 1 and isinstance(args[0], str):
        return PythonObject.by_path("cpp:python", {"value": run.interp.get_attr(value, args[0], loc)})
    if name in ("cast", "ptr", "release"):
        return value
    return called(run, owner, args, loc) if name in ("operator()", "call") else NotImplemented


def called(run: Cpp, target: PythonObject, args: list[Any], loc: ir.Loc | None) -> Value:
    """Calls a Python object from C++; returns its result as C++ holds it."""
    return held(run.interp.call(target.attrs["value"], [plain(arg) for arg in args], {}, loc))


def plain(value: Value) -> Value:
    """Converts a C++ value to what Python is given."""
    value = value.get() if isinstance(value, Slot) else value
    return value.attrs["value"] if isinstance(value, PythonObject) else value


def held(value: Value) -> Value:
    """Converts a Python value to what C++ holds: tensors, texts, numbers and containers as they are, others as a
    `py::object`."""
    if isinstance(value, NamedTuple):
        return tuple(value.attrs["items"])
    bare = value is None or isinstance(value, (Tensor, bool, int, float, str, tuple, list, dict))
    return value if bare else PythonObject.by_path("cpp:python", {"value": value})


class PyTuple(list[Any]):
    """A tuple of Python while C++ fills it."""


def interface(name: str, args: Sequence[Value]) -> Value:
    """Models Python's C interface: objects pass through unchanged, and a tuple can be written until Python gets it."""
    if name.endswith(("_Check", "_CheckExact")):
        return True
    if name == "PyTuple_New":
        return PyTuple([None] * (args[0] if args and isinstance(args[0], int) and args[0] < 64 else 0))
    if (
        name in ("PyTuple_SET_ITEM", "PyTuple_SetItem", "PyList_SetItem")
        and len(args) > 2
        and isinstance(args[0], list)
    ):
        if isinstance(args[1], int) and args[1] < len(args[0]):
            args[0][args[1]] = args[2]
        return 0
    if name == "PyTuple_Pack":
        return PyTuple(args[1:])
    if name in ("PyTuple_GET_ITEM", "PyTuple_GetItem") and len(args) > 1 and isinstance(args[0], (list, tuple)):
        return args[0][args[1]] if isinstance(args[1], int) and args[1] < len(args[0]) else Unknown()
    return args[0] if args else None
