"""Objects of C++ classes of a submission: bases, constructors, destructors, methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env, Overloads, TypeValue, Value
from kbh_lint.cpp import construction, templates
from kbh_lint.cpp.members import Class
from kbh_lint.host.cpp import templates as cpp_templates
from kbh_lint.host.cpp.std import endings
from kbh_lint.host.cpp.std.copying import copied
from kbh_lint.host.python import lanes
from kbh_lint.host.values.cpp_objects import CStruct, Slot, StreamGuard
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


MAX_ARROWS = 4  # `operator->` of what `operator->` gives


def struct(run: Cpp, kind: CppType, ref: ir.TypeRef, items: list[Any], env: Env) -> LibObject:
    """Makes an object of a class of the submission from the arguments `items`, by its constructor or as an
    aggregate."""
    template, classes = kind.node.template, run.types.classes
    kind, bound = classes.instance(kind, ref.args, env)
    node, whole = kind.node, classes.defined(kind, bound)
    made = CStruct(f"struct:{node.name}", {})
    assert isinstance(node, ir.ClassDef)
    made.kwargs = {"kind": kind, "type": TypeValue(ref, env) if template else named(run, kind, node), "class": whole}
    for one in reversed(whole.lineage) if whole is not None else ():  # the furthest base first
        given = items if one is whole else []
        kinds = [run.types.type_of(item) for item in given]
        way = construction.way(run.types, made.kwargs["type"], classes.makers(one), kinds)
        if way.by == "copy":
            same: LibObject = copied(run.interp, items[0], plainly=True)
            return same
        _fields(run, made, one, given if way.by == "aggregate" else [])
        if way.by == "constructor":
            chosen = cpp_templates.choose(run, list(way.makers), given)
            run.call(chosen.func, given, one.node.loc, chosen.bound, this=made)
    endings.begin(run, made)
    return made


def named(run: Cpp, kind: CppType, node: ir.ClassDef) -> TypeValue:
    """Returns the type of a class that is not a template: one object a class, so that equal launches look equal."""
    types: dict[CppType, TypeValue] = run.named
    return types.setdefault(kind, TypeValue(ir.TypeRef(node.name, (), node.loc), kind.env))


def _fields(run: Cpp, made: LibObject, kind: Class, items: Sequence[Value]) -> None:
    run.interp.burn(8 + 4 * len(kind.own))  # structs in structs are many more than their declarations
    for i, member in enumerate(kind.own):
        field, env = member.node, member.owner.env
        assert isinstance(field, ir.Decl)
        if i >= len(items):  # what it is made of may name the fields before it, and call the object's methods
            made.attrs[field.name] = run.initial(field, env if field.init is None else Env({"this": made}, env))
        elif field.type is None:
            made.attrs[field.name] = items[i]
        elif items[i] == [] and not field.type.reference:  # `{}`: as it is made of nothing
            made.attrs[field.name] = run.initial(replace(field, init=ir.Seq("init", (), field.loc)), env)
        else:
            made.attrs[field.name] = run.converted(field.type, items[i], env)


def static_method(run: Cpp, ref: ir.TypeRef, env: Env) -> Overloads | None:
    """Returns the overloads that `Class<arguments>::name` means, also where an alias or `std::conditional` names the
    class; None without any."""
    member = run.types.classes.member(TypeValue(ref.inside(()), env), ref.member, env) if ref.member else None
    return Overloads(member.funcs) if member is not None and member.funcs else None


def of(owner: LibObject) -> Class | None:
    """Returns the submission's C++ class that `owner` is an object of; None where it is of no such class."""
    kind = owner.kwargs.get("class")
    return kind if isinstance(kind, Class) else None


def method(owner: LibObject, name: str) -> Overloads | None:
    """Returns the overloads of the method `name` of an object's class; None where it has no such method."""
    kind = of(owner)
    member = None if kind is None else kind.members.get(name)
    return Overloads(member.funcs) if member is not None and member.funcs else None


def begins_in_scope(run: Cpp, value: Value, env: Env) -> None:
    """Registers what happens to the object `value`, that a variable of this scope now holds, when the scope ends: its
    destructor is called. A guard of the current stream makes its own current until then."""
    if isinstance(value, StreamGuard) and lanes.enter(run.interp, value):
        env.vars.setdefault("~", []).append((value, partial(lanes.leave, run.interp)))
    ending = endings.of(value)
    if ending is not None and ending.owned:
        env.vars.setdefault("~", []).append((value, ending))


def end_scope(run: Cpp, env: Env, returned: Value) -> None:
    """Ends the objects of a scope, the last first: calls their destructors, but for what is `returned`. What was noted
    of its variables is forgotten, which would hold them alive."""
    for held, ending in reversed(env.vars.pop("~", ())):
        if held is not returned:
            ending()
    for noted in run.of_scopes:
        noted.pop(id(env.vars), None)


def operator(run: Cpp, op: str, left: Value, right: Value, loc: ir.Loc | None, place: Value = None) -> Value:
    """Calls the submission's own `operator op` for two operands; NotImplemented where their classes define none.
    `place` is where `left` lies, for an operator that changes it."""
    name = f"operator{op}"
    own = method(left, name) if isinstance(left, LibObject) else None
    if own is not None:
        choice = run.choose(own, [right])
        return run.call(choice.func, [right], loc, choice.bound, this=left)
    kind = next((k for one in (left, right) if isinstance(one, LibObject) and (k := one.kwargs.get("kind"))), None)
    try:
        free = kind.env.lookup(name) if isinstance(kind, CppType) else None
    except KeyError:
        free = None
    if not isinstance(free, Overloads):
        return NotImplemented
    choice = run.choose(free, [left, right])
    return run.call(choice.func, [left if place is None else place, right], loc, choice.bound)


def unary(run: Cpp, op: str, value: Value, loc: ir.Loc | None, given: Sequence[Value] = ()) -> Value:
    """Calls the submission's own unary `operator op` of an object, a method or a function; NotImplemented where it has
    none. `given` is the number that tells `value++`."""
    if not isinstance(value, CStruct):
        return NotImplemented
    own, count = method(value, f"operator{op}"), len(given)
    funcs = [func for func in own.funcs if len(func.node.params) == count and func.node.body is not None] if own else []
    if funcs:
        return run.call(funcs[0], list(given), loc, this=value)
    kind = value.kwargs.get("kind")
    free = kind.env.get(f"operator{op}") if isinstance(kind, CppType) else None
    fitting = [func for func in free.funcs if len(func.node.params) == count + 1] if isinstance(free, Overloads) else []
    if not fitting:
        return NotImplemented
    choice = run.choose(Overloads(fitting), [value, *given])
    return run.call(choice.func, [value, *given], loc, choice.bound)


def stepped(run: Cpp, node: ir.AssignE | ir.AugAssign, old: Value, post: bool) -> Value:
    """Evaluates `++value`, or `value++` where `post`, by an operator of the submission; NotImplemented where it has
    none, or where it is another assignment."""
    one = node.value.loc[:2] == node.loc[:2] if isinstance(node.value, ir.Const) else False
    return unary(run, node.op * 2, old, node.loc, [0] if post else ()) if one else NotImplemented


def pointee(run: Cpp, value: Value, name: str, loc: ir.Loc | None) -> Value:
    """Returns the object to which `operator->` leads, whose member `name` is meant; an object that has the member, and
    any other value, as it is."""
    for _ in range(MAX_ARROWS):
        if not isinstance(value, CStruct) or name in value.attrs or method(value, name) is not None:
            return value
        if method(value, "operator->") is None:
            return value
        value = unary(run, "->", value, loc)
        value = value.get() if isinstance(value, Slot) else value
    return value


def number(run: Cpp, value: Value) -> Value:
    """Returns the number that an object's conversion operator makes of it; any other value as it is."""
    made = conversion(run, value, "i64") if isinstance(value, CStruct) and value.attrs.keys() - set("xyzw") else value
    return value if made is NotImplemented else made


def assigned(run: Cpp, old: Value, value: Value, loc: ir.Loc | None) -> bool:
    """Evaluates `old = value` by the `operator=` of the submission; returns whether an object has one."""
    own = method(old, "operator=") if isinstance(old, CStruct) else None
    funcs = [func for func in own.funcs if func.node.body is not None] if own is not None else []
    if not funcs:
        return False
    choice = run.choose(Overloads(funcs), [value])
    run.call(choice.func, [value], loc, choice.bound, this=old)
    return True


def compound_assign(run: Cpp, op: str, target: ir.Expr, old: Value, by: Value, env: Env, loc: ir.Loc | None) -> Value:
    """Evaluates `target op= by` by an operator of the submission, which is given `target` by reference; NotImplemented
    where there is none."""
    sides = (old, by)
    if not any(isinstance(one, CStruct) for one in sides):
        return NotImplemented
    return operator(run, f"{op}=", old, by, loc, run.place(target, env))


def converted_to(run: Cpp, value: LibObject, ref: ir.TypeRef, env: Env) -> Value:
    """Returns an object converted by its conversion operator to a type that is not a number; NotImplemented where it
    has none."""
    kind = of(value)
    wanted = run.types.key(TypeValue(ref, env)) if kind is not None else None
    if kind is None or wanted is None:
        return NotImplemented
    for made, func in run.types.classes.conversions_of(kind):
        bound: dict[str, Any] = {}
        if func.node.template and isinstance(made, TypeValue):  # `template <class T> operator T*()`
            names = [param.name for param in func.node.template]
            templates.deduce(run.types, made.ref, wanted, names, bound, func.env)
            made = TypeValue(made.ref, Env(bound, made.env))
        if func.node.body is not None and run.types.key(made) == wanted:
            return run.call(func, [], func.node.loc, bound, this=value)
    return NotImplemented


def conversion(run: Cpp, value: LibObject, dtype: str) -> Any:
    """Returns an object converted by its conversion operator to the element type `dtype`; NotImplemented where it has
    none."""
    kind = of(value)
    operators = run.types.classes.conversions_of(kind) if kind is not None else []
    chosen = construction.converter(run.types, operators, dtype)
    return NotImplemented if chosen is None else run.call(chosen, [], chosen.node.loc, this=value)
