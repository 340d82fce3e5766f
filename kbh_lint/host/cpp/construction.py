"""Values of C++ types on the host side: construction, conversion, initial values of variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
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
from kbh_lint.host.cpp import streams
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import copying, endings
from kbh_lint.host.cpp.std.making import MAKERS, Making
from kbh_lint.host.gpu import launch_settings
from kbh_lint.host.values.cpp_objects import CStruct, CutlassOperator, Dim3, Pointer, Slot
from kbh_lint.host.values.objects import Graph, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_HANDLE = re.compile(  # types of the runtime, the driver and their libraries that are pointers
    r"cuda(Stream|Event|Graph|GraphExec|GraphNode|MemPool|Array|Function|Kernel|Library)_t|cu(blas|blasLt|dnn)Handle_t"
    r"|CU(stream|event|graph|graphExec|graphNode|module|function|context|kernel|library)|nvrtcProgram"
)
MAX_ELEMENTS = 256  # of an array that is laid out
MAX_PLAIN = 4096  # of an array of numbers that nothing is given, each with a value of its own
MAX_ALIKE = 1 << 17  # of one whose elements share what nobody knows of them
_UNNAMED = ("auto", "void", "")


def converted(run: Cpp, ref: ir.TypeRef, value: Value, env: Env) -> Value:
    """Returns `value` as a variable, parameter, field or result of the type `ref` holds it: numbers convert, braces
    make an object, objects convert by their operators, numbers and addresses by a constructor. Unchanged where the
    type says nothing."""
    if ref.dims:
        return _array(run, ref, value, True, env) if isinstance(value, list) else value
    if ref.pointers:
        return value
    if isinstance(value, (int, float)):
        return _from_number(run, ref, value, env)
    if isinstance(value, (list, Tensor, Pointer)):
        kind, items = _own_class(run, ref, env), value if isinstance(value, list) else [value]
        return value if kind is None else construct(run, replace(ref, reference=False), items, env, None)
    return _from_object(run, ref, value, env) if isinstance(value, CStruct) else value


def parameter(run: Cpp, kind: Value, value: Value, env: Env) -> Any:
    """Converts an argument to the declared type of its parameter, copying it where it is passed by value. Numbers and
    bytes for pointers, as ctypes passes them, are addresses and texts."""
    if not isinstance(kind, ir.TypeRef) or kind.reference and not kind.const:
        return value
    if kind.pointers:
        value = value.decode("utf-8", "replace") if type(value) is bytes and kind.name == "char" else value
        return cpp_types.cast(run, kind, value, env) if type(value) is int and value else value
    made = converted(run, kind, value, env)
    return made if made is not value or kind.reference else copying.copied(run.interp, value)


def _from_number(run: Cpp, ref: ir.TypeRef, value: float, env: Env) -> Value:
    """A number of a type, or the object of a class that a constructor makes of it."""
    dtype = dtypes.from_cpp(ref.name) if not ref.args and not ref.member else None
    if dtype is None:
        if _own_class(run, ref, env) is not None:
            return construct(run, replace(ref, reference=False), [value], env, None)
        dtype = cpp_types.element(run, ref, env)
    return cpp_numbers.held(value, dtype)


def _from_object(run: Cpp, ref: ir.TypeRef, value: CStruct, env: Env) -> Value:
    """What an object's operators make of it for a type."""
    dtype = dtypes.from_cpp(ref.name) if not ref.args and not ref.member else None
    if dtype is None and _own_class(run, ref, env) is None:
        dtype = cpp_types.element(run, ref, env)
    if dtype is not None:
        made = cpp_classes.conversion(run, value, dtype)
        return value if made is NotImplemented else cpp_numbers.held(made, dtype)
    made = cpp_classes.converted_to(run, value, ref, env) if ref.name not in _UNNAMED else NotImplemented
    return value if made is NotImplemented else made


def _own_class(run: Cpp, ref: ir.TypeRef, env: Env) -> CppType | None:
    """The class of the text that a type names."""
    return None if ref.name in _UNNAMED else cpp_types.own_class(run, ref, env)


def initial(run: Cpp, node: ir.Decl, env: Env, *, lasting: bool = False) -> Value:
    """Evaluates the initial value of a declared variable; of one that is `lasting`, which is zero before it is set."""
    init, ref = node.init, node.type
    if ref is not None and init is not None and not isinstance(init, ir.Seq):
        return _assigned(run, ref, init, env)
    items = _given(run, ref, init.items, env) if isinstance(init, ir.Seq) else []
    if ref is None:
        return items[0] if items else Unknown()
    if ref.dims:
        return _array(run, ref, items, lasting or init is not None, env)
    if isinstance(init, ir.Seq) and any(isinstance(item, ir.AssignE) for item in init.items):
        return _designated(run, ref, init, items, env, node.loc)
    braces = isinstance(init, ir.Seq) and init.kind == "init"
    return construct(run, ref, items, env, node.loc, braces=braces)


def _assigned(run: Cpp, ref: ir.TypeRef, init: ir.Expr, env: Env) -> Value:
    """What a variable of a type holds after `= init`."""
    value = run.eval_place(init, env) if isinstance(init, ir.Name) else run.eval(init, env)
    plain = isinstance(value, Slot) and not ref.reference and ref.name != "auto"
    if plain and not cpp_types.is_pointer(run, ref, env):
        value = value.get()
    if ref.pointers and isinstance(value, (int, Tensor, Pointer)):
        return cpp_types.cast(run, ref, value, env)
    return value if ref.reference or ref.dims else converted(run, ref, value, env)


def _designated(run: Cpp, ref: ir.TypeRef, init: ir.Seq, items: list[Value], env: Env, loc: ir.Loc) -> Value:
    """`S s{.b = 4}`: an object, and then what is given for its fields by their names."""
    made = construct(run, ref, [], env, loc)
    for item, value in zip(init.items, items, strict=True):
        if isinstance(made, LibObject) and isinstance(item, ir.AssignE) and isinstance(item.target, ir.Name):
            made.attrs[item.target.id] = value
    return made


def _given(run: Cpp, ref: ir.TypeRef | None, nodes: tuple[ir.Expr, ...], env: Env) -> list[Value]:
    """What stands in braces, with packs laid out and places for the fields of a class that are references."""
    if any(isinstance(node, ir.Star) for node in nodes):
        return [value.get() if isinstance(value, Slot) else value for value in run.arguments(nodes, env)]
    kind = None if ref is None or ref.dims or ref.name == "auto" else cpp_types.own_class(run, ref, env)
    whole = run.types.classes.defined(*run.types.classes.instance(kind, ref.args, env)) if kind and ref else None
    fields = [member.node.type for member in whole.own if isinstance(member.node, ir.Decl)] if whole is not None else []
    places = [bool(kind and kind.reference and not kind.const) for kind in fields]
    return [
        (place and run.place(node, env)) or run.eval(node, env)
        for node, place in zip_longest(nodes, places[: len(nodes)])
    ]


def _array(run: Cpp, ref: ir.TypeRef, items: list[Any], given: bool, env: Env) -> Value:
    """An array from the values in braces; what they leave out is zero."""
    size = run.eval(ref.dims[0], env)
    one = replace(ref, dims=ref.dims[1:])
    laid = size if isinstance(size, int) and size <= MAX_ELEMENTS else 0
    if not one.dims and (items or laid > 0) and cpp_types.own_class(run, one, env) is not None:
        return _objects(run, one, items, laid, env)
    number = cpp_types.element(run, one, env) is not None
    if not (items or one.dims or one.pointers or number) and laid > 0:
        return [construct(run, one, [], env, None) for _ in range(laid)]  # of a type of a library
    if given and not one.dims and len(items) < laid and (one.pointers or number):
        items = [*items, *[None if one.pointers else 0] * (laid - len(items))]
    count = size if isinstance(size, int) and 0 < size <= MAX_PLAIN and not one.dims else 16
    if not items and number and isinstance(size, int) and MAX_PLAIN < size <= MAX_ALIKE:
        return [Unknown()] * size
    return items or [Unknown() for _ in range(count)]


def _objects(run: Cpp, one: ir.TypeRef, items: list[Value], size: int, env: Env) -> list[Value]:
    """So many objects of a class, from those in braces or what stands in braces for each."""
    rows = [item if isinstance(item, list) else [item] for item in items if not isinstance(item, LibObject)]
    made = [construct(run, one, row, env, None) for row in rows] if len(rows) == len(items) else list(items)
    return made + [construct(run, one, [], env, None) for _ in range(size - len(made))]


def vector(name: str, items: Sequence[Value]) -> Value:
    """Makes a vector of a CUDA type such as `float2` from another vector or from its lanes; lanes not given are
    zero."""
    base, lanes = dtypes.vector_from_cpp(name) or ("?", 0)
    if len(items) == 1 and not isinstance(items[0], (int, float)):
        return items[0]
    given = dict(zip("xyzw"[:lanes], [*items, *[cpp_numbers.held(0, base)] * lanes], strict=False))
    return CStruct(f"struct:{name}", given, (), {"type": Type(base, lanes)})


def _of_library(run: Cpp, ref: ir.TypeRef, env: Env) -> tuple[ir.TypeRef, Env]:
    """The type that an alias of the text stands for, where the text does not define that type; otherwise as it is."""
    try:
        named = None if run.unbound(ref.name, env) else env.lookup(ref.name)
    except KeyError:
        return ref, env
    if not cpp_names.is_alias(named) and not isinstance(named, TypeValue):
        return ref, env
    target, scope = cpp_types.resolve(run, ref, env)
    return (ref, env) if target.member or scope.get(target.name) is not None else (target, scope)


def construct(
    run: Cpp, ref: ir.TypeRef, items: list[Any], env: Env, loc: ir.Loc | None, *, braces: bool = False
) -> Any:
    """Makes an object of a C++ type from constructor arguments, or from a `braces` list. Types that libraries define
    are looked up first (`_MAKERS`), then the submission's own; any other is unknown."""
    ref, env = _of_library(run, ref, env)
    if ref.pointers:
        return items[0] if items else None
    maker = _MAKERS.get(ref.name.rpartition("::")[2])
    made = NotImplemented if maker is None else maker(Making(run, ref, items, env, loc, braces))
    if made is not NotImplemented:
        return made
    target, scope = cpp_types.resolve(run, ref, env)
    lanes = dtypes.vector_from_cpp(target.name) if not target.member else None
    if lanes is not None and lanes[1] > 1:
        return vector(target.name, items)
    scalar = cpp_types.element(run, ref, env)
    if scalar is not None:
        return converted(run, ref, items[0], env) if items else cpp_numbers.held(0, scalar)
    found = None if target.member else cpp_types.class_in(scope, target.name)
    if found is None and not items and _HANDLE.fullmatch(target.name.rpartition("::")[2]):
        return None  # a pointer
    return (
        _unread(run, target, items, scope, loc)
        if found is None
        else cpp_classes.struct(run, found, target, items, scope)
    )


def new(run: Cpp, node: ir.Call, env: Env) -> Value:
    """`new T(a)` and `new T[n]`: a pointer to an object is the object."""
    ref, *rest = node.args
    args = run.arguments(rest, env)
    args = [a.get() if isinstance(a, Slot) else a for a in args]
    if not isinstance(ref, ir.TypeRef):
        return Unknown((), "new")
    if len(args) == 1 and integers.is_plain(args[0]):
        count = min(args[0], MAX_ELEMENTS)
        if ref.pointers or is_handle(run, ref, env):
            return [None for _ in range(count)]
        if cpp_types.element(run, ref, env) is not None:
            return [Unknown() for _ in range(count)]
    return endings.own(construct(run, ref, args, env, node.loc), False)


def is_handle(run: Cpp, ref: ir.TypeRef, env: Env) -> bool:
    """Whether a type is one of the runtime's, the driver's or their libraries' that are pointers: `cudaStream_t`."""
    target, scope = cpp_types.resolve(run, ref, env)
    named = _HANDLE.fullmatch(target.name.rpartition("::")[2])
    return named is not None and not ref.pointers and cpp_types.class_in(scope, target.name) is None


def _unread(run: Cpp, ref: ir.TypeRef, items: list[Value], env: Env, loc: ir.Loc | None) -> LibObject:
    """An object of a type that is defined outside the text: a product of CUTLASS, or one that may hold what it is
    given."""
    pointers = cpp_arguments.pointers(items)
    kind = cpp_cutlass.cutlass(run, ref, env) if not ref.member or ref.member[-1] != "Arguments" else None
    if kind is not None:
        return CutlassOperator("cutlass", {"kind": kind, "pointers": pointers, "__name__": ref.name})
    cpp_arguments.note_fresh(run.interp, ref.name, items, loc)
    return LibObject.by_path(f"cpp:{ref.name}", {"items": list(items), "pointers": pointers}, tuple(items))


def _graph(made: Making) -> Graph:
    """`at::cuda::CUDAGraph`."""
    return Graph()


def _dim3(made: Making) -> Dim3:
    """`dim3`, of which what is not given is one."""
    given = [cpp_numbers.plain(item) for item in made.items[:3]]
    return Dim3("dim3", dict(zip("xyz", [*given, 1, 1, 1], strict=False)))


def _settings(made: Making) -> LibObject:
    """A struct of the runtime or the driver that says how a kernel is launched."""
    return launch_settings.struct(made.ref.name.rpartition("::")[2], made.items)


def _device_pointer(made: Making) -> Value:
    """`thrust::device_ptr`."""
    return made.items[0] if len(made.items) == 1 and isinstance(made.items[0], Pointer) else NotImplemented


_MAKERS: dict[str, Callable[[Making], Value]] = {
    **MAKERS, **streams.OBJECTS, "CUDAGraph": _graph, "dim3": _dim3, "device_ptr": _device_pointer,
    **dict.fromkeys(launch_settings.STRUCTS, _settings),
}  # fmt: skip
