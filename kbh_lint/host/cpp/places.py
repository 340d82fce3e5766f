"""Where lvalues of C++ live, what is assigned to them, and what names mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, DType, Env, Overloads, Sym, TypeValue, Value
from kbh_lint.cpp import integers
from kbh_lint.cpp.members import Member
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import templates as cpp_templates
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import containers, parts, texts
from kbh_lint.host.torch import tensor_views
from kbh_lint.host.values import keys
from kbh_lint.host.values.cpp_objects import CStruct, LooseStruct, OwnMethod, Pointer, Slot, library_field
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

MAX_GROWN = 256  # elements of a list that assignments make
_OF_THE_TEXT = (ir.Decl, CppType, Overloads, Member)  # what a name of the file, a type or a function may hold


def place(run: Cpp, node: ir.Expr, env: Env) -> Slot | None:
    """Returns the place (`Slot`) of an lvalue; None for an expression that is no lvalue."""
    kind = _PLACES.get(type(node))
    return None if kind is None else kind(run, node, env)


def _of_name(run: Cpp, node: ir.Name, env: Env) -> Slot | None:
    """Where a variable lies: what a reference refers to, a field of the object whose method runs, a variable of the
    file, or what a scope holds."""
    if "::" in node.id and (member := _static(run, node.id, env)) is not None:
        return member
    found: Env | None = env
    while found is not None and node.id not in found.vars:
        found = found.parent
    this = of_method(env) if found is None or found.outermost else None
    if found is None:
        return Slot(env.vars if this is None else this.attrs, node.id)
    if this is not None and node.id in this.attrs:
        return Slot(this.attrs, node.id)
    value = found.vars[node.id]
    if isinstance(value, ir.Decl):
        return global_slot(run, value, found)
    return value if isinstance(value, Slot) else Slot(found.vars, node.id)


def _of_field(run: Cpp, node: ir.Attr, env: Env) -> Slot | None:
    """Where a field of an object lies, or an item of a pair."""
    owner = field_owner(run, node.value, env)
    if isinstance(node.value, ir.Index) and isinstance(owner, (int, Unknown)):
        owner = _struct_at(run, node.value, env) or owner
    if isinstance(owner, (list, tuple)) and len(owner) == 2 and node.name in ("first", "second"):
        items = parts.items(run, node.value, owner, env)
        return None if items is None else Slot(items, int(node.name == "second"))
    if not isinstance(owner := cpp_classes.pointee(run, owner, node.name, node.loc), LibObject):
        return None
    if node.name not in owner.attrs and env.get(node.name) is not None:
        named = cpp_names.field_of(run.lookup(node.name, env))  # `object.*field`
        return Slot(owner.attrs, named if named in owner.attrs else node.name)
    library_field(owner, node.name)  # what a reference to it is bound to
    return Slot(owner.attrs, node.name)


def _struct_at(run: Cpp, node: ir.Index, env: Env) -> LooseStruct | None:
    """An element that `resize` made, which is a struct when a field of it is assigned; None where there is none."""
    slot = place(run, node, env)
    if slot is None:
        return None
    made = LooseStruct("struct:", {})
    slot.set(made)
    return made


def _of_element(run: Cpp, node: ir.Index, env: Env) -> Slot | None:
    """Where an element lies: what `operator[]` of a class returns a reference to, of a vector, or of a map."""
    owner, key = run.eval(node.value, env), cpp_numbers.plain(run.eval(node.index, env))
    own = cpp_classes.method(owner, "operator[]") if isinstance(owner, LibObject) else None
    if own is not None:
        choice = run.choose(own, [key])
        run.call(choice.func, [key], node.loc, choice.bound, this=owner)
        return run.result_place
    if isinstance(node.value, ir.Attr) and isinstance(owner, Unknown) and isinstance(key, int):
        field = place(run, node.value, env)  # an array in a struct comes to be when an element is assigned
        if field is not None:
            owner = []
            field.set(owner)
    if isinstance(owner, list) and isinstance(key, int):
        while len(owner) <= key < MAX_GROWN:
            owner.append(Unknown())
        return Slot(owner, key) if 0 <= key < len(owner) else None
    if isinstance(owner, dict):
        found = containers.entry(run, owner, key)
        return Slot(owner, containers.hashed(key) if found is keys.MISSING else found)
    return None


def _pointed_to(run: Cpp, node: ir.Unary, env: Env) -> Slot | None:
    """Where `*value` lies: that of the variable whose address is held, or what an operator refers to."""
    if node.op != "*":
        return None
    held = _address_in(run, node.value, env)
    if isinstance(held, Slot):
        return held
    run.result_place = None
    value = _pointed(run, node, env)
    return value if isinstance(value, Slot) else run.result_place


def _address_in(run: Cpp, node: ir.Expr, env: Env) -> Value:
    """What a variable or a field holds, as it is: a pointer to a variable is that variable's place."""
    if isinstance(node, ir.Name):
        try:
            held = env.lookup(node.id)
        except KeyError:
            held = None
        this = of_method(env) if held is None else None
        return held if this is None else this.attrs.get(node.id)
    owner = field_owner(run, node.value, env) if isinstance(node, ir.Attr) else None
    return owner.attrs.get(node.name) if isinstance(owner, LibObject) and isinstance(node, ir.Attr) else None


def _pointed(run: Cpp, node: ir.Unary, env: Env) -> Value:
    """What `*value` points to: an address, or what the operator of an object's class returns a reference to."""
    value = run.eval(node.value, env)
    plain = isinstance(node.value, ir.Name) and node.value.id == "this"
    own = cpp_classes.method(value, "operator*") if isinstance(value, LibObject) and not plain else None
    if own is not None and not own.funcs[-1].node.params:
        run.call(own.funcs[-1], [], node.loc, this=value)
    return value


def _of_call(run: Cpp, node: ir.Call, env: Env) -> Slot | None:
    """What the reference that a call returns refers to."""
    if isinstance(node.func, ir.TypeRef) and node.func.name == "std::get" and node.func.args and len(node.args) == 1:
        owner, index = run.eval(node.args[0], env), run.eval(node.func.args[0], env)
        owner = owner.get() if isinstance(owner, Slot) else owner
        items = parts.items(run, node.args[0], owner, env) if isinstance(owner, (list, tuple)) else None
        return Slot(items, index) if items is not None and isinstance(index, int) else None
    run.result_place = None
    if isinstance(node.func, ir.Attr) and isinstance(node.func.value, (ir.Name, ir.Attr)):  # no call is made twice
        owner = run.eval(node.func.value, env)
        if isinstance(owner, (list, dict)):
            return parts.element(run, owner, node.func.name, run.arguments(node.args, env))
    run.eval(node, env)
    return run.result_place


_PLACES: dict[type[ir.Expr], Callable[[Cpp, Any, Env], Slot | None]] = {
    ir.Call: _of_call,
    ir.Name: _of_name,
    ir.Attr: _of_field,
    ir.Index: _of_element,
    ir.Unary: _pointed_to,
}


def _static(run: Cpp, name: str, env: Env) -> Slot | None:
    """Where a static variable of a class lies."""
    return _lasting(run, run.types.classes.scoped(name, (), env))


def _lasting(run: Cpp, inside: Member | None) -> Slot | None:
    """Where a member of a class lies that lives as long as the run; constants have no place."""
    decl = None if inside is None else inside.node
    if inside is None or not isinstance(decl, ir.Decl) or "static" not in decl.storage or "constexpr" in decl.storage:
        return None
    fixed = decl.type is not None and decl.type.const
    return None if fixed else global_slot(run, decl, inside.owner.env)


def field_owner(run: Cpp, node: ir.Expr, env: Env) -> Value:
    """Returns the object whose field is assigned; fields of library structs are created when first named."""
    if isinstance(node, ir.Attr):
        parent = field_owner(run, node.value, env)
        if isinstance(node.value, ir.Index) and isinstance(parent, (int, Unknown)):
            parent = _struct_at(run, node.value, env) or parent
        found = library_field(parent, node.name) if isinstance(parent, LibObject) else NotImplemented
        if found is not NotImplemented:
            return found
    owner = run.eval(node, env)
    return owner.get() if isinstance(owner, Slot) else owner


def global_slot(run: Cpp, decl: ir.Decl, env: Env) -> Slot:
    """Returns the place of a global variable of the extension, which lives as long as the run."""
    table = run.globals.setdefault((id(decl), decl.name), {})
    if decl.name not in table:
        table[decl.name] = cpp_construction.initial(run, decl, env, lasting=True)
        run.types.declares(table, decl, env)
    return Slot(table, decl.name)


def initialise(run: Cpp, env: Env) -> None:
    """Runs what loading an extension runs: the constructors and calls that initialise its global variables."""
    loaded = run.globals.setdefault((id(env), "loaded"), {})
    if loaded:
        return
    loaded["loaded"] = True
    for decl in [value for value in env.vars.values() if isinstance(value, ir.Decl)]:
        if _acts(decl, env):
            global_slot(run, decl, env)


def _acts(decl: ir.Decl, env: Env) -> bool:
    """Whether making a variable may do more than give it a value: register something elsewhere, say."""
    if isinstance(decl.init, ir.Call) and isinstance(decl.init.func, (ir.Name, ir.Lambda)):
        func = decl.init.func
        if isinstance(func, ir.Lambda) or isinstance(env.get(func.id), Overloads):
            return True
    kind = env.get(decl.type.name) if isinstance(decl.type, ir.TypeRef) and not decl.type.pointers else None
    if not isinstance(kind, CppType) or not isinstance(kind.node, ir.ClassDef):
        return False
    makers = [node for node in kind.node.body if isinstance(node, ir.FuncDef) and node.name == kind.node.name]
    return any(node.body for node in makers)


def assign(run: Cpp, target: ir.Expr, value: Value, env: Env) -> None:
    """Evaluates `target = value`."""
    if isinstance(target, ir.Seq) or isinstance(target, ir.Call) and parts.is_tie(target):
        parts.spread(run, target, value, env)
        return
    if isinstance(target, ir.Index) and _put_in_tensor(run, target, value, env):
        return
    if isinstance(value, Slot) and isinstance(target, ir.Name) and _point_elsewhere(target.id, value, env):
        return
    slot = place(run, target, env)
    if slot is None and parts.is_opaque(run, target, env):
        pass  # a part of what nobody knows
    elif slot is None:
        run.interp.lost("what is assigned to a place that is not known", target.loc)
    else:
        dtype = cpp_templates.noted(run.widths, slot.env, slot.name)
        value = value if dtype is None else cpp_numbers.held(value, dtype)
        old = slot.get() if not isinstance(slot.env, dict) or slot.name in slot.env else None
        if isinstance(old, Slot) and not isinstance(value, Slot):
            slot, old = old, old.get()
        if isinstance(old, CStruct) and cpp_classes.assigned(run, old, value, target.loc):
            return
        slot.set(cpp_numbers.held(_from_braces(run, value, old), old.dt if isinstance(old, integers.Typed) else None))


def _put_in_tensor(run: Cpp, target: ir.Index, value: Value, env: Env) -> bool:
    """`tensor[key] = value`, also through its address, and `text[key] = value`; false where something else has
    elements."""
    owner = run.eval(target.value, env)
    owner = owner.tensor if isinstance(owner, Pointer) else owner
    if not isinstance(owner, (Tensor, str)):
        return False
    key = cpp_numbers.plain(run.eval(target.index, env))
    if isinstance(owner, str):
        texts.put(run, owner, target, key, cpp_numbers.plain(value), env)
        return True
    tensor_views.assign_index(run.interp, owner, key, cpp_numbers.plain(value), target.loc)
    return True


def _from_braces(run: Cpp, value: object, old: object) -> Value:
    """`s = {a, b}`: braces are an object of the type that the place has, and so is what one of its constructors takes,
    as in `: field(tensor)`."""
    given = isinstance(value, (list, int, float, str, Tensor, Pointer))
    kind = old.kwargs.get("type") if given and isinstance(old, LibObject) else None
    if not isinstance(kind, TypeValue):
        return value
    return run.converted(kind.ref, value if isinstance(value, list) else [value], kind.env)


def _point_elsewhere(name: str, address: Slot, env: Env) -> bool:
    """Lets a pointer that points at a number or an object point at another; false when the name is no such pointer."""
    found: Env | None = env
    while found is not None and name not in found.vars:
        found = found.parent
    held = found.vars[name] if found is not None else None
    at = held.get() if isinstance(held, Slot) and (not isinstance(held.env, dict) or held.name in held.env) else None
    plain = isinstance(at, (int, float, str, list, CStruct))
    if found is None or not plain:
        return False
    found.vars[name] = address
    return True


def lookup(run: Cpp, name: str, env: Env) -> Any:
    """Returns what a name means: a local variable, a member of `this`, a name at file scope, or a symbol of a
    library."""
    scope: Env | None = env
    while scope is not None and name not in scope.vars:
        scope = scope.parent
    if scope is not None and not (scope.outermost and _is_member(name, env)):
        value = scope.vars[name]
        if isinstance(value, _OF_THE_TEXT):
            return _of_the_text(run, name, value, env)
        dtype = scope.types.get(name, "") if type(value) is int and scope.types else ""
        return integers.typed(value, dtype) if dtype else value  # what a variable holds, as of most names
    this = of_method(env)
    found = NotImplemented if this is None else _of_object(run, name, this, env)
    if found is NotImplemented and (element := dtypes.from_aten(name)) is not None:
        return DType(element)
    if found is NotImplemented and "::" in name and not run.unbound(name, env):
        found = _of_class(run, name, env)
    return _outside(run, name, env) if found is NotImplemented else found


def _of_the_text(run: Cpp, name: str, value: ir.Decl | CppType | Overloads | Member, env: Env) -> Value:
    """What a declaration of the text is: a constant, the value of a variable, a type or a function of it, or what it
    names outside."""
    if isinstance(value, Member):  # a constant of the class whose function it is
        return cpp_types.constant(run, value)
    if isinstance(value, ir.Decl):
        fixed = "constexpr" in value.storage and value.init is not None
        return cpp_construction.initial(run, value, env) if fixed else global_slot(run, value, env).get()
    if cpp_names.is_alias(value) and cpp_names.is_known(meant := run.outside(name, env)):
        return Sym(meant)
    hidden = cpp_names.hidden(name, value, env)
    return Sym(hidden) if hidden else value


def _of_object(run: Cpp, name: str, this: LibObject, env: Env) -> Value:
    """A field, a constant or a method of the object whose method runs; NotImplemented for other names."""
    if name in this.attrs:
        return this.attrs[name]
    if isinstance(kind := this.kwargs.get("type"), TypeValue) and "::" not in name:
        constant = cpp_types.static_member(run, kind.ref.inside((*kind.ref.member, name)), kind.env)
        if constant is not None:
            return constant
    own = cpp_classes.method(this, name)
    if own is None:
        return NotImplemented
    return OwnMethod("cpp.method", {"this": this, "overloads": own, "args": (), "env": env})


def _of_class(run: Cpp, name: str, env: Env) -> Value:
    """`Alias::member`, `T::value`: what a class has under a name; NotImplemented where there is none."""
    inside = run.types.classes.scoped(name, (), env)
    if inside is None:
        return NotImplemented
    if (static := _lasting(run, inside)) is not None:
        return static.get()
    if inside.constant:
        return cpp_types.constant(run, inside)
    if inside.funcs:
        return Overloads(inside.funcs)
    is_type = isinstance(inside.node, (ir.Using, ir.ClassDef))
    return TypeValue(ir.TypeRef(name, (), ()), env) if is_type else NotImplemented


def _outside(run: Cpp, name: str, env: Env) -> Value:
    """What a name means outside the text, or in the file's scope, where a namespace that is not known stands before it:
    an element type, a limit of a type, a constant, a symbol."""
    if name.startswith("CUDA_R_"):
        run.cuda_types.append(name)
    short = name.rpartition("::")[2]
    meant = run.outside(name, env)
    if "::" in name and short in (whole := _file_scope(env)).vars and not meant.startswith(cpp_names.SPACES):
        return lookup(run, short, whole)
    if short == "nullopt":
        return None
    found = dtypes.from_aten(meant)
    if found is not None:
        return DType(found)
    limit = integers.LIMITS.get(meant.removeprefix("std::"))
    if limit is not None:
        return limit
    return _CONSTANTS[meant] if meant in _CONSTANTS else Sym(meant)


_STRIDED = ("at::kStrided", "torch::kStrided", "c10::kStrided", "at::Layout::Strided", "c10::Layout::Strided")
_CONSTANTS: dict[str, Value] = {
    **{"true": True, "false": False, "NULL": None, "nullptr": None},
    **dict.fromkeys(_STRIDED, Sym("torch.strided")),
}


def of_method(env: Env) -> LibObject | None:
    """Returns the object `this` in a method's scope; None outside methods."""
    this = env.get("this")
    return this if isinstance(this, LibObject) else None


def _is_member(name: str, env: Env) -> bool:
    """Whether a function is one of an object that has a field or method of the name, which hides a name of the file."""
    this = of_method(env)
    return this is not None and (name in this.attrs or cpp_classes.method(this, name) is not None)


def _file_scope(env: Env) -> Env:
    while env.parent is not None:
        env = env.parent
    return env
