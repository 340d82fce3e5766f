"""Special methods of objects that are handed to code which never called them: it may ask an object for its number, its
text, its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import Raised
from kbh_lint.host.values.library_objects import ClassMethod, StaticMethod
from kbh_lint.host.values.objects import Bound, ClassV, Instance, Method, is_module
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

OBJECTS = frozenset((Instance, ClassV))
MAX_ASKED = 4  # objects of one call
_OTHERS = ("eq", "ne", "lt", "le", "gt", "ge", "divmod", "rdivmod", "pow", "rpow")  # which take another of the kind
_OF_OBJECTS = frozenset(
    f"__{name}__"
    for name in (
        *_OTHERS,
        *"index int float complex bytes bool fspath str repr format hash length_hint sizeof dir round trunc floor "
        "ceil abs getstate setstate reduce reduce_ex array array_ufunc array_function array_wrap dlpack "
        "dlpack_device buffer torch_function torch_dispatch".split(),
    )
) | {"write", "find_spec", "exec_module"}  # of what stands for a file, or finds and loads modules
_OF_CLASSES = frozenset(("__torch_function__", "__torch_dispatch__", "__subclasshook__", "from_param", "find_spec"))
_OF_METACLASSES = frozenset(("__subclasscheck__", "__instancecheck__"))
# What gives a value and does nothing else.
_PLAIN = frozenset(
    "hash isinstance issubclass len tuple list dict set frozenset str repr format int float bool abs min max sum round "
    "sorted id type getattr hasattr super range zip enumerate map filter any all ord chr join items keys values "
    "get encode decode hexdigest digest numel size dim data_ptr stride element_size split strip startswith endswith "
    "lower upper replace copy TypeError ValueError NotImplementedError KeyError AttributeError __eq__ __hash__ __str__ "
    "__repr__ __format__ __reduce__ __reduce_ex__ __getstate__ item tolist is_contiguous".split()
)


def call(run: Run, func: Value, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None) -> Value:
    """Calls a function of a library that is given objects of the submission. Where it calls none of their methods,
    whether the real one does is a decision: in a run of its own it calls those that do more than give a value."""
    before = run.entered
    own: Any = func if callable(func) and getattr(func, "__kbh_builtin__", False) else None
    value = run.call_library(func, args, kwargs, loc) if own is None else own(run, args, kwargs, loc)
    if run.entered == before and not run.handing:
        path = func.name if isinstance(func, Method) else getattr(func, "path", "a built-in function")
        may_ask(run, path, args, kwargs, loc)
    return value


def may_ask(run: Run, path: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> None:
    """Lets code that is not followed call special methods of the objects that it is given, in a run of its own."""
    owners = [value for value in (*args, *kwargs.values()) if isinstance(value, (Instance, ClassV))][:MAX_ASKED]
    found = [(owner, *row) for owner in owners for row in _acting(owner)]
    if not found or run.handing:
        return
    if not run.decisions.choice(("asked", run.place(found[0][2].node.loc), path), taint.presumed(False)):
        return
    run.handing = True
    try:
        for owner, name, func in found:
            with suppress(Raised):  # whoever calls it may catch that
                run.call(Bound(owner, func), _given(owner, name, func), {}, loc)
    finally:
        run.handing = False


def _acting(owner: Instance | ClassV) -> list[tuple[str, Func]]:
    """The special methods of an object, or of a class that is handed on, that do more than give a value."""
    if isinstance(owner, Instance):
        return [] if is_module(owner.cls) else _named(owner, owner.cls, _OF_OBJECTS)
    of_meta = _named(owner, owner.meta, _OF_METACLASSES) if owner.meta is not None else []
    return _named(owner, owner, _OF_CLASSES) + of_meta


def _named(owner: Value, cls: ClassV, names: Iterable[str]) -> list[tuple[str, Func]]:
    found = []
    for one in cls.mro():
        for name in one.env.vars.keys() & names:
            func = one.env.vars[name]
            func = func.func if isinstance(func, (ClassMethod, StaticMethod)) else func
            if isinstance(func, Func) and acts(func.node):
                found.append((name, func))
    return sorted(found, key=lambda row: row[0])


def _given(owner: Value, name: str, func: Func) -> list[Value]:
    """Arguments for a special method: another of the kind is the object itself, all else nobody knows."""
    least = sum(param.kind == "positional" and param.name not in func.defaults for param in func.node.params) - 1
    other = owner if name.strip("_") in _OTHERS else Unknown((), "an argument")
    return [other] * max(least, 0)


@by_node
def acts(node: ir.FuncDef) -> bool:
    """Whether a function changes something, or calls what may: all but what works out a value of its arguments."""
    return any(map(_acts, walk(node.body or ())))


def _acts(part: object) -> bool:
    if isinstance(part, ir.Call):
        return (part.func.id if isinstance(part.func, ir.Name) else getattr(part.func, "name", "")) not in _PLAIN
    targets = part.targets if isinstance(part, ir.Assign) else (part.target,) if isinstance(part, ir.AugAssign) else ()
    changed = any(isinstance(target, (ir.Attr, ir.Index)) for target in targets)
    return changed or isinstance(part, (ir.Scope, ir.Delete))
