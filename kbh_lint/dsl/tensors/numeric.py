"""Tensors over memory, for one lane: views are their tensors, an index is a place in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, values
from kbh_lint.base.values import UNKNOWN, DType, Made, Value
from kbh_lint.dsl.tensors import kinds
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.builtins import Args
from kbh_lint.kernels.numeric.dialect import Dialect
from kbh_lint.kernels.numeric.params import parameter
from kbh_lint.kernels.numeric.state import MODES, Chained, Frame, Method, Ptr

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def opens(index: object) -> bool:
    """Whether a coordinate leaves a mode open, so that indexing with it makes a view."""
    return index is None or isinstance(index, tuple) and any(opens(part) for part in index)


def at(ptr: Ptr, index: object, site: int) -> Ptr:
    """The place in the tensor `ptr` of a coordinate."""
    places = _flat(index)
    if not all(isinstance(place, int) for place in places) or len(places) > len(MODES):
        return ops.moved(ptr, UNKNOWN, site)
    return ops.moved(ptr, sum(place * step for place, step in zip(places, MODES, strict=False)), site)


def _flat(index: object) -> list[Any]:
    return [place for part in index for place in _flat(part)] if isinstance(index, tuple) else [index]


def _read(m: Machine, ptr: Ptr | Made, index: object, site: int) -> Any:
    """`tensor[index]`: an element, or a view; or what a dict of the host holds."""
    if isinstance(ptr, Made):
        found = ptr.get(index, UNKNOWN) if isinstance(ptr, kinds.Table) and isinstance(index, str) else UNKNOWN
        return (
            UNKNOWN if found is UNKNOWN else parameter(m, str(index), None, found, Frame([{}], values.Env(), False, 0))
        )
    return _slice(ptr, index, site) if opens(index) else m.read(at(ptr, index, site), site)


def _slice(ptr: Ptr, index: object, site: int) -> Ptr:
    """A view that leaves modes open. Of a tensor that other launches use it is known which part of it that is."""
    fixed = tuple(0 if place is None else place for place in _flat(index))
    known = isinstance(ptr.mem, Chained) and all(isinstance(place, int) for place in fixed)
    return at(ptr, fixed, site) if known else ptr


def fill(m: Machine, c: Args) -> Value:
    """Models `tensor.fill(value)`: all elements hold the value, earlier contents are gone."""
    target, value = c.get(0), c.get(1, "value", 0)
    if isinstance(target, Ptr):
        target.mem.cells.clear()
        m.write(target, value)
        target.mem.default = m.read(target, c.site)
    return None


def held(m: Machine, value: object, site: int) -> Any:
    """The data of a tensor at its place, or the value itself if it is no tensor."""
    return m.read(value, site) if isinstance(value, Ptr) else value


class TensorDialect(Dialect):
    """What is the same in each language of tensors: indices, and objects of the host."""

    elements = True

    def attribute(self, m: Machine, value: object, name: str, frame: Frame) -> Any:
        """The value of an attribute of an element type, a tensor or a host object; None where the language adds nothing
        to it."""
        if isinstance(value, Ptr) and name in ("element_type", "iterator", "layout", "shape", "stride"):
            return DType(value.type.dt) if name == "element_type" else value if name == "iterator" else UNKNOWN
        if isinstance(value, DType) and name == "width":
            return dtypes.BITS.get(value.name, UNKNOWN)
        if isinstance(value, Made) and any(key == name for key, _ in value.fields):
            return parameter(m, f"self.{name}", None, value.get(name), frame)
        if isinstance(value, Made) and value.methods is not None:  # what a class of the submission says of its objects
            found = value.methods.vars.get(name)
            return found if isinstance(found, (bool, int, float, str, DType)) else None
        return super().attribute(m, value, name, frame)

    def method(self, m: Machine, callee: Method, packed: Args) -> Any:
        """The result of calling a method of a tensor or of an object of the submission; NotImplemented for others."""
        value = callee.value
        found = value.methods.vars.get(callee.name) if isinstance(value, Made) and value.methods is not None else None
        if isinstance(found, values.Func):
            return m.calls.invoke(found, [value, *packed.items], packed.keywords, packed.node, packed.frame)
        if isinstance(found, kinds.Static):
            return m.calls.invoke(found.get("func"), packed.items, packed.keywords, packed.node, packed.frame)
        return super().method(m, callee, packed)

    def place(self, value: Ptr, index: object, site: int) -> Ptr:
        """The place of `value[index]`."""
        return at(value, index, site)

    def read(self, m: Machine, value: Ptr | Made, index: object, site: int) -> Any:
        """The value of `value[index]`: an element, a view, or an entry of a dict of the host."""
        return _read(m, value, index, site)
