"""Values of C++ types on the host side: construction, conversion, initial values of variables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, Env, TypeValue, Value
from kbh_lint.cpp import integers
from kbh_lint.cpp.domain import Type
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import cutlass as cpp_cutlass
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import calling, containers, copying
from kbh_lint.host.values import bounds
from kbh_lint.host.values.cpp_objects import CStruct, CutlassOperator, Dim3, Pointer, Slot
from kbh_lint.host.values.objects import Graph, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp

MAX_ELEMENTS = 256  # of an array that is laid out
MAX_PLAIN = 4096  # of an array of numbers that nothing is given


# What holds one value, or none: it is followed as that value.
HOLDERS = frozenset(
    "optional unique_ptr shared_ptr weak_ptr intrusive_ptr variant any reference_wrapper MaybeOwned function".split()
)
VIEWS = frozenset({"ArrayRef", "TensorList", "ITensorListRef", "span"})  # of elements that lie elsewhere
CONTAINERS = VIEWS | {"vector", "initializer_list", "array", "deque", "list", "SmallVector", "DimVector"}
SIZED = frozenset({"vector", "deque", "list", "SmallVector", "DimVector"})  # `(3)` makes three elements


def converted(run: Cpp, ref: ir.TypeRef, value: Value, env: Env) -> Any:
    """A value as a variable, parameter, field or result of a type holds it: numbers convert, braces make an object,
    objects convert by their operators, and numbers by a constructor. Itself where the type says nothing."""
    number = isinstance(value, (bool, int, float))
    if ref.dims:
        return _array(run, ref, value, True, env) if isinstance(value, list) else value
    if ref.pointers or not (number or isinstance(value, (list, LibObject))):
        return value
    if isinstance(value, LibObject) and not isinstance(value, CStruct):
        return value
    dtype = dtypes.from_cpp(ref.name) if not ref.args and not ref.member else None
    if dtype is None or isinstance(value, list):
        kind = None if ref.name in ("auto", "void", "") else _class(run, ref, env)
        if kind is not None and not isinstance(value, LibObject):
            return construct(
                run, replace(ref, reference=False), value if isinstance(value, list) else [value], env, None
            )
        dtype = cpp_types.element(run, ref, env) if kind is None and not isinstance(value, list) else None
    if isinstance(value, LibObject) and dtype is not None:
        made = cpp_classes.conversion(run, value, dtype)
        return value if made is NotImplemented else cpp_numbers.held(made, dtype)
    if isinstance(value, LibObject) and ref.name not in ("auto", "void", ""):
        made = cpp_classes.converted_to(run, value, ref, env)
        return value if made is NotImplemented else made
    return cpp_numbers.held(value, dtype) if number else value


def _class(run: Cpp, ref: ir.TypeRef, env: Env) -> CppType | None:
    """The class of the text that a type is."""
    target, scope = cpp_types.resolve(run, ref, env)
    try:
        found = scope.lookup(target.name)
    except KeyError:
        return None
    return found if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and not target.member else None


def initial(run: Cpp, node: ir.Decl, env: Env) -> Any:
    """The value of a declared variable."""
    init = node.init
    ref = node.type
    if ref is not None and init is not None and not isinstance(init, ir.Seq):
        value = run.eval(init, env)
        plain = isinstance(value, Slot) and not ref.reference and ref.name != "auto"
        if plain and not cpp_types.is_pointer(run, ref, env):
            value = value.get()
        if ref.pointers and isinstance(value, (int, Tensor, Pointer)):
            return cpp_types.cast(run, ref, value, env)
        return value if ref.reference or ref.dims else converted(run, ref, value, env)
    items = _given(run, ref, init.items, env) if isinstance(init, ir.Seq) else []
    if ref is None:
        return items[0] if items else Unknown()
    if ref.dims:
        return _array(run, ref, items, init is not None, env)
    named = any(isinstance(i, ir.AssignE) for i in init.items) if isinstance(init, ir.Seq) else False
    if named and isinstance(init, ir.Seq):  # `S s{.b = 4}`
        made = construct(run, ref, [], env, node.loc)
        for item, value in zip(init.items, items, strict=True):
            if isinstance(made, LibObject) and isinstance(item, ir.AssignE) and isinstance(item.target, ir.Name):
                made.attrs[item.target.id] = value
        return made
    braces = isinstance(init, ir.Seq) and init.kind == "init"
    return construct(run, ref, items, env, node.loc, braces=braces)


def _given(run: Cpp, ref: ir.TypeRef | None, nodes: tuple[ir.Expr, ...], env: Env) -> list[Any]:
    """What stands in braces, with places for the fields of a class that are references."""
    kind = None if ref is None or ref.dims or ref.name == "auto" else _class(run, ref, env)
    whole = run.types.classes.defined(*run.types.classes.instance(kind, ref.args, env)) if kind and ref else None
    fields = [member.node.type for member in whole.own if isinstance(member.node, ir.Decl)] if whole is not None else []
    places = [bool(kind and kind.reference and not kind.const) for kind in fields]
    return [
        (place and run.place(node, env)) or run.eval(node, env)
        for node, place in zip_longest(nodes, places[: len(nodes)])
    ]


def _array(run: Cpp, ref: ir.TypeRef, items: list[Any], given: bool, env: Env) -> Any:
    """An array from the values in braces; what they leave out is zero."""
    size = run.eval(ref.dims[0], env)
    one = replace(ref, dims=ref.dims[1:])
    kind = None if one.dims else _class(run, one, env)
    if kind is not None and (items or isinstance(size, int) and 0 < size <= MAX_ELEMENTS):
        rows = [item if isinstance(item, list) else [item] for item in items if not isinstance(item, LibObject)]
        made = [construct(run, one, row, env, None) for row in rows] if len(rows) == len(items) else list(items)
        more = size - len(made) if isinstance(size, int) and size <= MAX_ELEMENTS else 0
        return made + [construct(run, one, [], env, None) for _ in range(more)]
    if given and not one.dims and isinstance(size, int) and len(items) < size <= MAX_ELEMENTS:
        if cpp_types.element(run, one, env) is not None and not ref.pointers:
            items = [*items, *[0] * (size - len(items))]
    count = size if isinstance(size, int) and 0 < size <= MAX_PLAIN and not one.dims else 16
    return items or [Unknown() for _ in range(count)]


def _fresh(run: Cpp, ref: ir.TypeRef, env: Env) -> Any:
    """What `map[key]` makes of a value type: zero, an object without arguments, a tensor that is not defined yet."""
    made = construct(run, ref, [], env, None)
    opaque = isinstance(made, LibObject) and not isinstance(made, CStruct)
    return Unknown((), "a missing entry") if opaque else made


def vector(name: str, items: list[Any]) -> Any:
    """A `float2` or its like, of one of its kind or of its lanes; those that are not given are zero."""
    base, lanes = dtypes.vector_from_cpp(name) or ("?", 0)
    if len(items) == 1 and not isinstance(items[0], (int, float)):
        return items[0]
    given = dict(zip("xyzw"[:lanes], [*items, *[cpp_numbers.held(0, base)] * lanes], strict=False))
    return CStruct(f"struct:{name}", given, (), {"type": Type(base, lanes)})


def _elements(run: Cpp, ref: ir.TypeRef, given: list[Any], count: int, env: Env) -> list[Any]:
    """So many elements of a vector, each an object of its own where they are of a class of the text."""
    one = ref.args[0] if ref.args else None
    if given or not isinstance(one, ir.TypeRef) or one.pointers or _class(run, one, env) is None:
        return [copying.copied(run.interp, given[0] if given else 0) for _ in range(count)]
    return [construct(run, one, [], env, None) for _ in range(count)]


def _vector(run: Cpp, ref: ir.TypeRef, items: list[Any], env: Env) -> list[Any]:
    """A vector of some elements, which knows how to make more where they are objects."""
    one = ref.args[0] if ref.args else None
    if not isinstance(one, ir.TypeRef) or one.pointers:
        return list(items)
    if one.name.rpartition("::")[2] in ("pair", "tuple"):
        return containers.objects(items, tuple)
    if _class(run, one, env) is None:
        return list(items)
    return containers.objects(items, lambda given: construct(run, one, given, env, None))


def _of_library(run: Cpp, ref: ir.TypeRef, env: Env) -> tuple[ir.TypeRef, Env]:
    """The type that an alias of the text stands for, where the text does not define that type; otherwise as it is."""
    try:
        named = env.lookup(ref.name)
    except KeyError:
        return ref, env
    if not cpp_names.is_alias(named) and not isinstance(named, TypeValue):
        return ref, env
    target, scope = cpp_types.resolve(run, ref, env)
    return (ref, env) if target.member or scope.get(target.name) is not None else (target, scope)


def construct(
    run: Cpp, ref: ir.TypeRef, items: list[Any], env: Env, loc: ir.Loc | None, *, braces: bool = False
) -> Any:
    """An object of a C++ type from constructor arguments, or from what stands in `braces`."""
    ref, env = _of_library(run, ref, env)
    short = ref.name.rpartition("::")[2]
    if ref.pointers:
        return items[0] if items else None
    if short in ("thread", "jthread"):
        return calling.thread(run, items, loc)
    if short in HOLDERS:
        return items[0] if items else None
    if short in ("pair", "tuple"):
        if len(items) == 1 and isinstance(items[0], (tuple, list)):
            return list(items[0])
        kinds = [one for one in ref.args if isinstance(one, ir.TypeRef)]
        return list(items) if items else [construct(run, one, [], env, loc) for one in kinds]
    if "set" in short or "map" in short:
        made = containers.keyed(short, items)
        if isinstance(made, containers.Entries) and len(ref.args) > 1 and isinstance(ref.args[1], ir.TypeRef):
            made.fresh = partial(_fresh, run, ref.args[1], env)
        if made is not None:
            return made
    if short in CONTAINERS:
        if len(items) == 1 and isinstance(items[0], list):
            return items[0]
        if len(items) == 2 and isinstance(items[0], list) and not braces:  # two iterators, or an address and a number
            whole = not integers.is_plain(items[1])
            return items[0] if short in VIEWS and whole else items[0][: None if whole else items[1]]
        count = items[0] if items and not braces and short in SIZED and integers.is_plain(items[0]) else -1
        if 0 <= count <= bounds.MAX_WIDTH and len(items) <= 2:
            return _elements(run, ref, items[1:], count, env)
        return _vector(run, ref, items, env)
    if short in ("Tensor",):
        return items[0] if items else None
    if short == "CUDAGraph":
        return Graph()
    if short == "dim3":
        return Dim3(
            "dim3",
            {
                "x": cpp_numbers.plain(items[0]) if items else 1,
                "y": cpp_numbers.plain(items[1]) if len(items) > 1 else 1,
                "z": cpp_numbers.plain(items[2]) if len(items) > 2 else 1,
            },
        )
    target, scope = cpp_types.resolve(run, ref, env)
    lanes = dtypes.vector_from_cpp(target.name) if not target.member else None
    if lanes is not None and lanes[1] > 1:
        return vector(target.name, items)
    scalar = cpp_types.element(run, ref, env)
    if scalar is not None:
        return converted(run, ref, items[0], env) if items else cpp_numbers.held(0, scalar)
    try:
        found = scope.lookup(target.name)
    except KeyError:
        found = None
    if isinstance(found, CppType) and isinstance(found.node, ir.ClassDef) and not target.member:
        return cpp_classes.struct(run, found, target, items, scope)
    kind = cpp_cutlass.cutlass(run, target, scope) if not target.member or target.member[-1] != "Arguments" else None
    pointers = cpp_arguments.pointers(items)
    if kind is not None:
        return CutlassOperator("cutlass", {"kind": kind, "pointers": pointers, "__name__": target.name})
    cpp_arguments.given(run.interp, target.name, items, loc)
    return LibObject.by_path(f"cpp:{target.name}", {"items": list(items), "pointers": pointers}, tuple(items))
