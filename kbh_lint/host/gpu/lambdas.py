"""Lambdas of C++ that launches are given, alone or within other arguments: what a kernel finds of what they capture.

How one is made and called in host code is `host.cpp.lambdas`; how its captures are read from the text,
`frontends.cuda.lambdas`. A call of one in a kernel is a call of a method of the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env, Func, TypeValue, Value
from kbh_lint.host.values.cpp_objects import CStruct, Slot
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_MISSING = object()


def as_object(interp: Run, func: Func) -> LibObject:
    """Returns a C++ lambda as an object: its captures are fields, its body is `operator()`. A capture by value holds
    the copy made where the lambda is written (`host.cpp.lambdas.captured`), one by reference the value at the launch.
    nvcc refuses the latter in device code (`frontends.cuda.refused`): where the program handles such a failure the
    build fails, elsewhere the lambda is read all the same, for what it was meant to do."""
    held: dict[str, Any] = {}
    for capture in func.node.captures:
        value = _around(func.env, capture.name)
        if value is not _MISSING and capture.name != "this":
            value = value.get() if isinstance(value, Slot) else value
            held[capture.name] = as_object(interp, value) if is_lambda(value) else value
    types = {name: value.kwargs.get("type") for name, value in held.items() if isinstance(value, LibObject)}
    known: dict[Any, TypeValue] = interp.session.functors
    key = id(func.node), *((name, types.get(name)) for name in held)
    if key not in known:
        known[key] = _functor_type(func, held, types)
    name = known[key].ref.name
    made = CStruct(f"struct:{name}", held)
    made.kwargs = {"kind": known[key].env.vars[name], "type": known[key]}
    return made


def is_lambda(value: Value) -> TypeGuard[Func]:
    """Whether a value is a C++ lambda of host code."""
    return isinstance(value, Func) and value.node.kind == "lambda"


def _around(env: Env, name: str) -> Any:
    """What a name holds around a lambda, below the scope of the file."""
    inner: Env | None = env
    while inner is not None and not inner.outermost:
        if name in inner.vars:
            return inner.vars[name]
        inner = inner.parent
    return _MISSING


def _functor_type(func: Func, fields: Iterable[str], types: Mapping[str, Value]) -> TypeValue:
    """The class of a lambda. A field is of the type of the object that it holds, or `auto`."""
    node, env = func.node, func.env
    while not env.outermost and env.parent is not None:
        env = env.parent
    own = Env({}, env)
    body: list[ir.Stmt] = []
    for field in fields:
        kind = types.get(field)
        if isinstance(kind, TypeValue):
            own.vars[f"__type_{field}"] = CppType(ir.Using(f"__type_{field}", kind.ref, node.loc), kind.env)
        ref = ir.TypeRef(f"__type_{field}" if isinstance(kind, TypeValue) else "auto", (), node.loc)
        body.append(ir.Decl(field, ref, None, frozenset(), node.loc))
    body.append(replace(node, name="operator()", kind="method"))
    name = f"__lambda_{node.loc[1]}"
    own.vars[name] = CppType(ir.ClassDef(name, (), tuple(body), node.loc), own)
    return TypeValue(ir.TypeRef(name, (), node.loc), own)
