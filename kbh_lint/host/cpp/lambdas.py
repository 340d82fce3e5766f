"""Functions that C++ holds as values: lambdas and what they capture, methods of objects, objects with `operator()`, and
what std::bind and std::mem_fn make of them; and those that a stream or a node of a graph calls on the host.

What a launch that is given a lambda finds in it is `host.gpu.lambdas`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.regexes import regex
from kbh_lint.base.values import DType, Env, Func, Overloads, Sym, Value
from kbh_lint.cpp.members import ClassEnv
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp.std.copying import copied
from kbh_lint.host.python import lanes
from kbh_lint.host.values.cpp_objects import Bound, OwnMethod, Slot, Template
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

DISPATCHERS = ("AT_DISPATCH", "AT_PRIVATE")  # macros that begin so call the lambdas that they are given
_DONE = Sym("cudaSuccess")
_PLACE = regex(r"(?:.*::)?_([1-9])$")


def is_callable(value: Value) -> bool:
    """Whether a value can be called, as far as the source shows."""
    if isinstance(value, (Func, Overloads, Template, OwnMethod, Bound)):
        return True
    return isinstance(value, LibObject) and cpp_classes.method(value, "operator()") is not None


def standard(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Value:
    """Models a function of the standard library (`std::invoke`, `std::bind`) that calls or binds its first argument;
    NotImplemented for others. Arguments of std::bind are copied unless in a std::ref, and placeholders stay open."""
    plain = [_value(a) for a in args]
    if not name.startswith("std::") or not plain or not is_callable(plain[0]):
        return NotImplemented
    func, *rest = plain
    match name.removeprefix("std::"):
        case "invoke" | "invoke_r":
            return invoke(run, func, args[1:], loc)
        case "apply" if rest and isinstance(rest[0], (tuple, list)):
            return invoke(run, func, list(rest[0]), loc)
        case "visit":
            return invoke(run, func, rest, loc)
        case "bind":
            return Bound("cpp.bind", {"func": func, "args": rest, "more": False})
        case "mem_fn" | "bind_front":  # what they are called with comes behind what they have
            return Bound("cpp.bind", {"func": func, "args": rest, "more": True})
    return NotImplemented


def invoke(run: Cpp, target: Value, args: list[Any], loc: ir.Loc | None) -> Any:
    """Models `std::invoke(target, args...)`: a method takes its object from the first argument."""
    target = _value(target)
    if isinstance(target, Bound):
        held = target.attrs["args"]
        if target.attrs["more"]:
            return invoke(run, target.attrs["func"], [*held, *args], loc)
        return invoke(run, target.attrs["func"], [_filled(item, args) for item in held], loc)
    this: Any = None
    given: tuple[ir.Expr, ...] = ()
    env = None
    if isinstance(target, (Template, OwnMethod)):
        this, given, env = target.attrs.get("this"), target.attrs["args"], target.attrs["env"]
        target = target.attrs["overloads"]
    elif isinstance(target, LibObject) and (own := cpp_classes.method(target, "operator()")) is not None:
        this, target = target, own
    if isinstance(target, Sym):
        return run.library(target.path, (), [_value(a) for a in args], loc)
    if not isinstance(target, (Func, Overloads)):
        return run.opaque("what is called as a value", [target, *args], loc)
    if this is None and args and _takes_object(target, _value(args[0])):
        this, args = _value(args[0]), args[1:]
    choice = run.choose(target, [_value(a) for a in args], given, env)
    fitted = [a if _by_place(choice.func, i) else _value(a) for i, a in enumerate(args)]
    return run.call(choice.func, fitted, loc, choice.bound, this=this)


def on_stream(run: Cpp, name: str, args: list[Value], loc: ir.Loc | None) -> Value:
    """Models `cudaLaunchHostFunc(stream, f, data)` and `cudaStreamAddCallback(stream, f, data, flags)`: the host calls
    the function in the order of the stream's work. NotImplemented where the function is not known."""
    func = _value(args[1]) if len(args) > 2 else None
    if not is_callable(func):
        return NotImplemented
    with lanes.on(run.interp, _value(args[0])):
        invoke(run, func, [args[0], _DONE, args[2]] if "AddCallback" in name else [args[2]], loc)
    return _DONE


def of_node(params: Mapping[str, Value]) -> list[Value] | None:
    """Returns the function that a node of a graph calls on the host, by its `cudaHostNodeParams`, and what the function
    is given; None where it is not known."""
    func = _value(params.get("fn"))
    return [func, params.get("userData")] if is_callable(func) else None


def _value(value: Value) -> Any:
    return value.get() if isinstance(value, Slot) else value


def _filled(held: Value, args: Sequence[Value]) -> Value:
    """What a call gives for a place of a std::bind."""
    match = _PLACE.match(held.path) if isinstance(held, Sym) else None
    at = int(match[1]) - 1 if match is not None else -1
    return args[at] if 0 <= at < len(args) else held


def _takes_object(target: Func | Overloads, first: Value) -> bool:
    """Whether a function is a method of what it is called with first."""
    func = target.funcs[-1] if isinstance(target, Overloads) else target
    own = cpp_classes.method(first, func.node.name) if isinstance(first, LibObject) else None
    return isinstance(func.env, ClassEnv) and own is not None and "static" not in func.node.attributes


def _by_place(func: Func, at: int) -> bool:
    """Whether a parameter is a reference through which the function may change what it is given, or an address."""
    kind = func.node.params[at].type if at < len(func.node.params) else None
    return isinstance(kind, ir.TypeRef) and bool(kind.pointers or kind.reference and not kind.const)


def captured(run: Cpp, func: ir.FuncDef, env: Env) -> Env:
    """Returns the scope of a lambda: copies of what it captures by value, over the scope in which it is written."""
    own: dict[str, Any] = {}
    for capture in func.captures:
        if capture.init is not None:
            place = run.place(capture.init, env) if capture.reference else None
            own[capture.name] = place if place is not None else copied(run.interp, run.eval(capture.init, env))
        elif not capture.reference and capture.name != "this":
            held = _local(env, capture.name)
            if held is not None:
                own[capture.name] = copied(run.interp, held.vars[capture.name])
    return Env(own, env) if own else env


def _local(env: Env, name: str) -> Env | None:
    """The scope below that of the file which has a name."""
    inner: Env | None = env
    while inner is not None and not inner.outermost:
        if name in inner.vars:
            return inner
        inner = inner.parent
    return None


def dispatch(run: Cpp, node: ir.Call, env: Env) -> Value:
    """Models `AT_DISPATCH_*`: runs the lambda with `scalar_t` as the tensor's element type."""
    kind = run.eval(_dispatched_on(node.args), env) if node.args else None
    for label, func in _lambdas(node.args):
        wanted = run.eval(label, env) if label is not None else kind
        if wanted == kind or not isinstance(kind, DType) or not isinstance(wanted, DType):
            made = kind if isinstance(kind, DType) else wanted if isinstance(wanted, DType) else DType("f32")
            return run.call(Func(func, Env({"scalar_t": made}, env)), [], node.loc)
    run.interp.lost("a dispatch by element types could not be followed", node.loc)
    return None


def _dispatched_on(args: tuple[ir.Expr, ...]) -> ir.Expr:
    """The type that is dispatched on: it stands before the name; `_AND2` takes two more types before it."""
    named = next((i for i, arg in enumerate(args) if isinstance(arg, ir.Const) and isinstance(arg.value, str)), 1)
    return args[max(named - 1, 0)]


def _lambdas(args: tuple[ir.Expr, ...]) -> list[tuple[ir.Expr | None, ir.FuncDef]]:
    """The lambdas among the arguments of a dispatch, with the type that each is for: that of AT_DISPATCH_CASE."""
    found: list[tuple[ir.Expr | None, ir.FuncDef]] = []
    for arg in args:
        if isinstance(arg, ir.Lambda):
            found.append((None, arg.func))
        elif isinstance(arg, ir.Call):
            case = isinstance(arg.func, ir.Name) and arg.func.id == "AT_DISPATCH_CASE"
            found += [(arg.args[0] if case else label, func) for label, func in _lambdas(arg.args)]
        elif isinstance(arg, ir.Opaque):
            found += _lambdas(tuple(child for child in arg.children if child is not None))
    return found
