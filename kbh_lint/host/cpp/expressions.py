"""Expressions of C++ host code, one function a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env, Func, Overloads, Sym, TypeValue, Value
from kbh_lint.cpp import integers, traits
from kbh_lint.cpp.members import Member
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import calls as cpp_calls
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import copies as cpp_copies
from kbh_lint.host.cpp import lambdas as cpp_lambdas
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import places as cpp_places
from kbh_lint.host.cpp import statements as cpp_statements
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import containers
from kbh_lint.host.cpp.std import texts as cpp_texts
from kbh_lint.host.datamodel import comparisons, operators, subscripts
from kbh_lint.host.torch import tensor_attributes
from kbh_lint.host.values import keys, taint, unknowns
from kbh_lint.host.values.cpp_objects import CStruct, LibraryMethod, OwnMethod, Pointer, Slot, Template
from kbh_lint.host.values.objects import LibObject, Method
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


def e_const(run: Cpp, node: ir.Const, env: Env) -> Value:
    return integers.typed(node.value, node.dt) if node.dt else node.value


def e_name(run: Cpp, node: ir.Name, env: Env) -> Value:
    return cpp_places.lookup(run, node.id, env)


def e_type(run: Cpp, node: ir.TypeRef, env: Env) -> Value:
    if traits.asked(node):
        known = traits.value(run.types, node, env)
        return Unknown((), "a trait of a type") if known is None else known
    found = _found(run, node.name, env)
    own = _own_template(run, node, env)
    if own is not None:
        return own
    if isinstance(found, Overloads):
        return Template("cpp.template", {"overloads": found, "args": node.args, "env": env})
    variable = run.types.classes.variable(node, env)
    if variable is not None:
        return cpp_types.constant(run, variable)
    if node.member and (found is None or isinstance(found, (CppType, TypeValue))):
        value = cpp_types.static_member(run, node, env)
        if value is not None:
            return value
    if isinstance(found, Member):
        return cpp_types.constant(run, found)
    if found is not None and not node.args and not isinstance(found, (CppType, TypeValue)):
        return found
    return TypeValue(node, env)


def _found(run: Cpp, name: str, env: Env) -> Value:
    """What a name is bound to in the text, also through an alias of a namespace of the text; None without it."""
    found = env.get(name)
    if found is None and "::" in name and (meant := run.outside(name, env)) != name:
        found = env.get(meant)
    return found


def _own_template(run: Cpp, node: ir.TypeRef, env: Env) -> OwnMethod | None:
    """`name<arguments>` in a method of a class that has such a method: it hides what the file has of that name."""
    this = cpp_places.of_method(env) if node.args and not node.member else None
    held = cpp_classes.method(this, node.name) if this is not None else None
    scope: Env | None = env if held is not None else None
    while scope is not None and node.name not in scope.vars:
        scope = scope.parent
    if held is None or scope is not None and not scope.outermost:
        return None
    return OwnMethod("cpp.method", {"this": this, "overloads": held, "args": node.args, "env": env})


def e_attr(run: Cpp, node: ir.Attr, env: Env) -> Value:
    owner = run.eval(node.value, env)
    if isinstance(owner, Slot):
        owner = owner.get()
    if isinstance(owner, CStruct):
        owner = cpp_classes.pointee(run, owner, node.name, node.loc)
    if isinstance(owner, LibObject) and node.name in owner.attrs and not cpp_arguments.is_options(owner):
        return owner.attrs[node.name]
    if isinstance(owner, CStruct):
        found = _member(run, owner, node, env)
        if found is not NotImplemented:
            return found
    if isinstance(owner, TypeValue):  # `Class<arguments>::name<more>`
        own = cpp_classes.static_method(run, owner.ref.inside((*owner.ref.member, node.name)), owner.env)
        if own is not None:
            return Template("cpp.template", {"overloads": own, "args": node.args or (), "env": env})
    if isinstance(owner, Func) and node.name == "operator()":  # `lambda.template operator()<256>()`
        return Template("cpp.template", {"overloads": owner, "args": node.args or (), "env": env})
    if isinstance(owner, (tuple, list)) and len(owner) == 2 and node.name in ("first", "second"):
        return owner[node.name == "second"]
    if isinstance(owner, Unknown):
        return owner
    if isinstance(owner, Sym):
        return Sym(f"{owner.path}.{node.name}")
    method = Method(owner, node.name)
    return LibraryMethod("cpp.bound", {"method": method, "args": node.args or (), "env": env})


def _member(run: Cpp, owner: CStruct, node: ir.Attr, env: Env) -> Any:
    """A method or a constant of an object's class, or what a variable that points to a member means there; else
    NotImplemented."""
    found = cpp_classes.method(owner, node.name)
    if found is not None:
        return OwnMethod("cpp.method", {"this": owner, "overloads": found, "args": node.args or (), "env": env})
    kind = owner.kwargs.get("type")
    if isinstance(kind, TypeValue):
        constant = cpp_types.static_member(run, kind.ref.inside((*kind.ref.member, node.name)), kind.env)
        if constant is not None:
            return constant
    held = env.get(node.name)
    held = held.get() if isinstance(held, Slot) else held
    if isinstance(held, ir.Decl):
        held = run.lookup(node.name, env)
    # `(object.*f)(...)`, `object.*field`, `(object->*table[i])(...)`
    return _through(owner, held, env) if held is not None else NotImplemented


def _through(owner: LibObject, held: Value, env: Env) -> Value:
    """What a pointer to a member, or each of a table of them, is of an object."""
    if isinstance(held, (list, tuple)):
        return [_through(owner, one, env) for one in held]
    if isinstance(held, Overloads):
        return OwnMethod("cpp.method", {"this": owner, "overloads": held, "args": (), "env": env})
    field = cpp_names.field_of(held)
    return owner.attrs[field] if field in owner.attrs else Unknown((), "a pointer to a member")


def e_index(run: Cpp, node: ir.Index, env: Env) -> Value:
    owner, key = run.eval(node.value, env), cpp_numbers.plain(run.eval(node.index, env))
    if isinstance(key, CStruct) and not isinstance(owner, (CStruct, dict)):
        key = cpp_numbers.plain(cpp_classes.number(run, key))
    own = cpp_classes.method(owner, "operator[]") if isinstance(owner, LibObject) else None
    if own is not None:
        choice = run.choose(own, [key])
        return run.call(choice.func, [key], node.loc, choice.bound, this=owner)
    if isinstance(owner, str) and isinstance(key, int) and key == len(owner):
        return 0  # what ends a text
    if isinstance(owner, (list, tuple, str)) and isinstance(key, int) and not 0 <= key < len(owner):
        return Unknown((), "an element past the end")
    if isinstance(owner, str) and isinstance(key, int):
        return ord(owner[key])
    if isinstance(owner, dict):
        held = containers.entry(run, owner, key)
        return Unknown((), "a missing entry") if held is keys.MISSING else owner[held]
    if isinstance(owner, (list, tuple, Tensor)):
        return subscripts.get_item(run.interp, owner, key, node.loc)
    if isinstance(owner, Pointer):
        return cpp_copies.element(run.interp, owner, key, node.loc)
    return unknowns.merged(run.interp, owner)


def e_call(run: Cpp, node: ir.Call, env: Env) -> Value:
    if isinstance(node.func, ir.Name) and node.func.id == "..." and node.args:
        return _folded(run, node, env)
    return cpp_calls.call(run, node, env)


def e_binary(run: Cpp, node: ir.Binary, env: Env) -> Value:
    left = run.eval(node.left, env)
    if node.op == ">>" and isinstance(left, cpp_texts.Stream):
        return cpp_texts.taken(left, run.place(node.right, env))
    right = run.eval(node.right, env)
    if node.op != ",":
        return run.binary(node.op, left, right, node.loc)
    own = cpp_classes.operator(run, ",", left, right, node.loc) if isinstance(left, CStruct) else NotImplemented
    return right if own is NotImplemented else own


def e_unary(run: Cpp, node: ir.Unary, env: Env) -> Value:
    return _UNARY.get(node.op, _signed)(run, node, env)


def _address_of(run: Cpp, node: ir.Unary, env: Env) -> Value:
    """`&value`: a place, an element of memory, or a function or a member itself."""
    named = node.value.id if isinstance(node.value, ir.Name) else ""
    if "::" in named or named.startswith(cpp_names.SOLID):
        return run.eval(node.value, env)
    if isinstance(node.value, ir.Index) and isinstance(owner := run.eval(node.value.value, env), Pointer):
        return owner.moved(cpp_numbers.plain(run.eval(node.value.index, env)))
    scope = _of_pointer(run, named, env)
    place = run.place(node.value, env) if scope is None else Slot(scope.vars, named)
    return place if place is not None else run.eval(node.value, env)


def _pointed_to(run: Cpp, node: ir.Unary, env: Env) -> Value:
    """`*value`."""
    if isinstance(node.value, ir.Name):
        scope = _of_pointer(run, node.value.id, env)
        to = scope.vars[node.value.id] if scope is not None else None
        if isinstance(to, Slot) and to.is_filled() and isinstance(inner := to.get(), Slot):
            return inner  # the address that the pointer leads to
    value = run.eval(node.value, env)
    if isinstance(value, Pointer):
        return tensor_attributes.scalar(run.interp, "item", [value.tensor], {}, node.loc)
    own = _own_unary(run, "*", value, node)
    if own is not NotImplemented:
        return own
    value = value.get() if isinstance(value, Slot) else value
    return cpp_texts.at_front(value) if isinstance(value, str) else value


def _not(run: Cpp, node: ir.Unary, env: Env) -> Value:
    """`!value`: what points to something is no zero."""
    value = run.eval(node.value, env)
    own = _own_unary(run, "!", value, node)
    if own is not NotImplemented:
        return own
    value = value.get() if isinstance(value, Slot) else value
    full = isinstance(value, (Pointer, LibObject, Sym)) and not isinstance(value, cpp_texts.Stream)
    return False if full else not run.truth(value, node.loc)


def _signed(run: Cpp, node: ir.Unary, env: Env) -> Value:
    """`+value`, `-value`, `~value`."""
    value = run.eval(node.value, env)
    own = _own_unary(run, node.op, value, node)
    if own is not NotImplemented:
        return own
    value = value.get() if isinstance(value, Slot) else value
    if node.op == "+" and isinstance(value, (Func, Overloads, Pointer)):  # `+[](int x) {...}`: its address
        return value
    if isinstance(value, integers.Typed):
        return integers.typed(value, integers.promoted(value)) if node.op == "+" else integers.negated(value, node.op)
    return operators.unary(run.interp, node.op, value, node.loc)


_UNARY: dict[str, Callable[[Cpp, ir.Unary, Env], Value]] = {"&": _address_of, "*": _pointed_to, "not": _not}


def _of_pointer(run: Cpp, name: str, env: Env) -> Env | None:
    """The scope of a variable that holds the address of a place: its own address is another one than that."""
    scope: Env | None = env
    while scope is not None and name not in scope.vars:
        scope = scope.parent
    return scope if scope is not None and run.types.is_pointer(scope, name) else None


def _own_unary(run: Cpp, op: str, value: Value, node: ir.Unary) -> Value:
    """An operator of the class of an object; NotImplemented without one."""
    held = value.get() if isinstance(value, Slot) else value
    plain = isinstance(node.value, ir.Name) and node.value.id == "this"
    return NotImplemented if plain else cpp_classes.unary(run, op, held, node.loc)


def e_bool(run: Cpp, node: ir.Bool, env: Env) -> Value:
    value: Any = node.op == "and"
    for item in node.values:
        value = run.truth(run.eval(item, env), item.loc)
        if value != (node.op == "and"):
            return value
    return value


def e_compare(run: Cpp, node: ir.Compare, env: Env) -> Value:
    left, right = run.eval(node.left, env), run.eval(node.rights[0], env)
    if isinstance(right, Sym) and isinstance(left, (Sym, LibObject, Unknown)) and not taint.symbol_of(left):
        # a status compared with success: builds and calls succeed
        good = right.path.rsplit("::", 1)[-1] in (
            "kSuccess",
            "cudaSuccess",
            "CUDA_SUCCESS",
            "CUBLAS_STATUS_SUCCESS",
        )
        if good:
            return (node.ops[0] == "==") is not (left is cpp_names.FAILURE)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, LibObject) and one.path.startswith("cpp:") and isinstance(other, (int, float, str)):
            return unknowns.merged(run.interp, one, other, why="a comparison")  # what a method of it said
    if isinstance(left, Pointer) and right in (None, 0):
        return node.ops[0] == "!="
    if isinstance(left, CStruct) is not isinstance(right, CStruct):
        left, right = cpp_numbers.plain(_compared(run, left, right)), cpp_numbers.plain(_compared(run, right, left))
    if integers.is_plain(left) and integers.is_plain(right):
        left, right = integers.alike(left, right)
    return comparisons.compare(run.interp, node.ops[0], left, right, node.loc)


def _compared(run: Cpp, value: Value, other: Value) -> Value:
    """What is compared with a number: the number that an object becomes, unless its class compares with numbers."""
    return cpp_classes.number(run, value) if isinstance(other, (int, float, Unknown)) else value


def e_cond(run: Cpp, node: ir.Cond, env: Env) -> Any:
    test = run.truth(run.eval(node.test, env), node.test.loc)
    return run.eval(node.yes if test else node.no, env)


def e_seq(run: Cpp, node: ir.Seq, env: Env) -> Value:
    if any(isinstance(i, ir.Star) for i in node.items):
        return run.arguments(node.items, env)
    return [run.eval(i, env) for i in node.items]


def e_lambda(run: Cpp, node: ir.Lambda, env: Env) -> Value:
    return Func(node.func, cpp_lambdas.captured(run, node.func, env))


def e_cast(run: Cpp, node: ir.Cast, env: Env) -> Value:
    return cpp_types.cast(run, node.type, run.eval(node.value, env), env)


def e_assign(run: Cpp, node: ir.AssignE, env: Env) -> Value:
    value = run.eval(node.value, env)
    if node.op:
        old = run.eval(node.target, env)
        own = cpp_classes.stepped(run, node, old, node.post)
        if own is not NotImplemented:
            return own
        own = cpp_classes.compound_assign(run, node.op, node.target, old, value, env, node.loc)
        if own is not NotImplemented:
            return own
        value = cpp_texts.changed(run, node, old, value)
        run.assign(node.target, value, env)
        return old if node.post else value
    run.assign(node.target, value, env)
    return value


def e_launch(run: Cpp, node: ir.Launch, env: Env) -> Value:
    return run.launch(node, env)


def e_opaque(run: Cpp, node: ir.Opaque, env: Env) -> Value:
    for child in node.children:
        if child is not None:
            run.statement(child, env) if type(child) in cpp_statements.STATEMENTS else run.eval(child, env)
    return Unknown((), node.reason)


def _folded(run: Cpp, node: ir.Call, env: Env) -> Value:
    """`(f(args) || ...)`, `(a + ... + args)`: the operator between what the pattern is for each of its packs' items, in
    order; `||` and `&&` end where they are decided."""
    op = node.args[0].value if isinstance(node.args[0], ir.Const) else ""
    laid = [(item, run.each(item, env)) for item in node.args[1:]]
    if all(scopes is None for _, scopes in laid):
        run.interp.lost("a fold expression could not be followed", node.loc)
        return Unknown((), "a fold expression")
    value: Any = {"||": False, "&&": True, ",": None}.get(op, _NOTHING)
    for item, scopes in laid:
        for scope in [env] if scopes is None else scopes:
            if op in ("||", "&&"):
                value = run.interp.truth(run.eval(item, scope), item.loc)
                if value == (op == "||"):
                    return value
                continue
            new = run.eval(item, scope)
            value = new if op == "," or value is _NOTHING else run.binary(op, value, new, node.loc)
    return 0 if value is _NOTHING else value


_NOTHING = object()

EXPRESSIONS: dict[type, Callable[[Any, Any, Any], Any]] = {
    ir.Const: e_const, ir.Name: e_name, ir.TypeRef: e_type, ir.Attr: e_attr, ir.Index: e_index,
    ir.Call: e_call, ir.Binary: e_binary, ir.Unary: e_unary, ir.Bool: e_bool, ir.Compare: e_compare,
    ir.Cond: e_cond, ir.Seq: e_seq, ir.Lambda: e_lambda, ir.Cast: e_cast, ir.AssignE: e_assign,
    ir.Launch: e_launch, ir.Opaque: e_opaque,
}  # fmt: skip
