"""Classes of a submission that containers and holders are given as template arguments: they compare, hash, or end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.values.cpp_objects import CStruct

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

OPERATORS = ("operator()", "operator<", "operator==")
# What gives a value, or gives back what an object held, and does nothing else.
_PLAIN = re.compile(
    r"(.*::)?(\w*([Ff]ree|[Dd]estroy|[Rr]elease|[Dd]elete|[Uu]nmap|[Cc]lose|[Uu]nload|[Hh]ash|combine)\w*|operator\(\)"
    r"|hash_\w+|move|forward|swap|exchange|min|max|size|data|begin|end|get|first|second|tie|make_tuple|make_pair|abs"
    r"|memcmp|strcmp|equal|count|at|str|c_str|length|empty|device|index|value|sizes|strides|numel|data_ptr|static_cast"
    r"|reinterpret_cast|u?int\d*_t|size_t|int|bool|float|double|string_view|lexicographical_compare|T|uintptr_t)"
)


def acting(run: Cpp, value: Value) -> Iterator[Func]:
    """Yields the functions of an object that others call without a word, where they do more than give a value."""
    for name in OPERATORS:
        found = cpp_classes.method(value, name) if isinstance(value, CStruct) else None
        for func in found.funcs if found is not None else ():
            if func.node.body is not None and not func.node.template and func.node.kind != "device" and acts(func.node):
                yield replace(func, env=Env({"this": value}, func.env))


@by_node
def acts(node: ir.FuncDef) -> bool:
    """Whether a function assigns to what is not its own, or calls what may."""
    own = {param.name for param in node.params}
    own |= {part.name for part in walk(node.body or ()) if isinstance(part, ir.Decl)}
    return any(_acts(part, own) for part in walk(node.body or ()))


def _acts(part: object, own: set[str]) -> bool:
    if isinstance(part, ir.Call):
        func = part.func
        name = func.id if isinstance(func, ir.Name) else getattr(func, "name", "")
        return not isinstance(func, ir.Call) and _PLAIN.fullmatch(name) is None
    targets = part.targets if isinstance(part, ir.Assign) else ()
    targets = (part.target,) if isinstance(part, (ir.AugAssign, ir.AssignE)) else targets
    return isinstance(part, ir.Launch) or any(not isinstance(one, ir.Name) or one.id not in own for one in targets)
