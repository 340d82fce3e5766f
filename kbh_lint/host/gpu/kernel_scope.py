"""What a kernel sees through its scope, as a key: two kernels of one text are the same only where all of it is."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.values import Brief, Buffer, Func, JitFunction, Made, Scalar, StructArg, Value
from kbh_lint.frontends.walk import all_nodes, by_node, children, walk
from kbh_lint.host.values.objects import Bound, ClassV, Instance, LibObject, Memo
from kbh_lint.host.values.tensors import Tensor, Unknown

MAX_PARTS = 4_000  # of one key
_DEPTH = 8
_BARE = frozenset((int, float, bool, str, type(None)))


def key(kernel: Func) -> Value:
    """Returns a hashable key for all that a kernel and the functions it calls can see: closed-over variables, and
    globals, which may differ at another launch. Tensors and unknown numbers all look alike, for a kernel sees
    neither."""
    return _Parts().function(kernel, 0)


def exact(value: Value) -> Any:
    """Returns a hashable key for a plain value: numbers of different types differ, and other objects are equal only to
    themselves."""
    if type(value) in _BARE:
        return repr(value)
    if isinstance(value, Buffer):
        return Buffer, value.dtype, value.storage, value.content, value.leads, value.role
    if isinstance(value, Func):
        return Func, key(value) if value.env.parent is not None else id(value.node)
    if isinstance(value, Brief):
        return value
    if isinstance(value, (tuple, list)):
        return type(value), tuple(exact(item) for item in value)
    if isinstance(value, Scalar):
        return Scalar, exact(value.value), value.dtype
    if isinstance(value, StructArg):
        return StructArg, tuple((name, exact(item)) for name, item in value.fields)
    return (Made, value.path, exact(value.fields)) if isinstance(value, Made) else repr(value)


@by_node
def free_names(node: ir.FuncDef) -> tuple[str, ...]:
    """Returns all names in a function's text, local ones too, in order."""
    body, below = node.body or (), children(node)  # its parameters, its body, and what else there is
    params, behind = below[: len(node.params)], below[len(node.params) + len(body) :]
    every = (*walk(params), *all_nodes(body), *walk(behind))
    return tuple(dict.fromkeys([item.id for item in every if isinstance(item, ir.Name)]))


def seen(func: Func) -> dict[str, Any]:
    """Returns the current values of a function's names that are bound outside it; dicts and lists are copied."""
    found = {}
    for name in free_names(func.node):
        try:
            value = func.env.lookup(name)
        except KeyError:
            continue
        found[name] = value.copy() if isinstance(value, (dict, list)) else value
    return found


class _Parts:
    """One walk over what a kernel sees, which visits each object once and a bounded number of parts."""

    def __init__(self) -> None:
        self.left = MAX_PARTS
        self.met: dict[int, int] = {}

    def function(self, func: Func, depth: int) -> Any:
        """Returns a hashable key for a function and all that it can see."""
        if id(func) in self.met:
            return "met", self.met[id(func)]
        self.met[id(func)] = len(self.met)
        parts: list[Any] = [id(func.node)]
        for name in free_names(func.node):
            try:
                value = func.env.lookup(name)
            except KeyError:
                continue
            parts.append((name, self.value(value, depth + 1)))
        parts += [(name, self.value(value, depth + 1)) for name, value in func.defaults.items()]
        return tuple(parts)

    def value(self, value: Value, depth: int) -> Any:
        """Returns a hashable key for a value that a kernel can see."""
        self.left -= 1
        if isinstance(value, (Tensor, Unknown)):
            return type(value)
        if self.left < 0 or depth > _DEPTH:
            return exact(value) if isinstance(value, Brief) else object()
        if isinstance(value, (Func, JitFunction)):
            return self.function(value if isinstance(value, Func) else value.func, depth)
        if isinstance(value, (Memo, Bound)):
            return type(value), self.value(value.func, depth + 1)
        if isinstance(value, dict):
            return dict, self.items(value, depth)
        if isinstance(value, (tuple, list)):
            return type(value), tuple(self.value(item, depth + 1) for item in value[: self.left + 1])
        if isinstance(value, (ClassV, Instance, LibObject)):
            if id(value) in self.met:
                return "met", self.met[id(value)]
            self.met[id(value)] = len(self.met)
            if isinstance(value, ClassV):
                return id(value.node), self.items(value.env.vars, depth)
            attrs = self.items(value.attrs, depth)
            return (self.value(value.cls, depth + 1), attrs) if isinstance(value, Instance) else (value.path, attrs)
        return exact(value)

    def items(self, table: dict[Any, Any], depth: int) -> tuple[Any, ...]:
        """Returns a hashable key for a dict of values by name."""
        return tuple((exact(name), self.value(item, depth + 1)) for name, item in list(table.items())[: self.left + 1])
