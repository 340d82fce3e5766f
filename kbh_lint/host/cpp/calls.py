"""Calls in C++ host code: functions of the text, methods of tensors, at:: and torch::, the CUDA libraries, CUTLASS."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.by_class import ByClass
from kbh_lint.base.values import CppType, DType, Env, Func, Overloads, Sym, TypeValue, Value
from kbh_lint.cpp import integers, layout
from kbh_lint.cpp.domain import Type
from kbh_lint.cpp.overloads import Choice
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.cpp import device_flags, library_methods, library_work
from kbh_lint.host.cpp import lambdas as cpp_lambdas
from kbh_lint.host.cpp import libraries as cpp_libraries
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import python_objects as cpp_python
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import calling, endings, holders, texts
from kbh_lint.host.cpp.std import functions as cpp_std
from kbh_lint.host.cpp.std import outputs as cpp_outputs
from kbh_lint.host.cpp.std.making import MAKERS
from kbh_lint.host.datamodel import exceptions
from kbh_lint.host.effects import foreign
from kbh_lint.host.values import unknowns
from kbh_lint.host.values.cpp_objects import (
    Bound,
    CStruct,
    CutlassOperator,
    LibraryMethod,
    OwnMethod,
    PythonObject,
    Schema,
    Slot,
    Template,
)
from kbh_lint.host.values.objects import Blob, LibObject, Method
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

CHECKS = frozenset(
    "AT_ASSERT AT_ASSERTM C10_CUDA_CHECK AT_CUDA_CHECK TORCH_INTERNAL_ASSERT CUDA_CHECK "
    "CUTE_CHECK_ERROR CUTE_CHECK_LAST CUTE_STATIC_ASSERT CUTE_STATIC_ASSERT_V CUTLASS_ASSERT "
    "assert C10_CUDA_KERNEL_LAUNCH_CHECK TORCH_CUBLAS_CHECK TORCH_WARN printf fprintf static_assert".split()
)


def call(run: Cpp, node: ir.Call, env: Env) -> Any:
    """Evaluates a C++ call expression; notes the call where an unknown callee was given memory that nothing has written
    yet."""
    before = len(run.interp.trace.events)
    run.called = None
    value = _call(run, node, env)
    called, run.called = run.called, None
    if called is not None and len(run.interp.trace.events) == before:
        cpp_arguments.note_unknown_call(run.interp, *called, value, node.loc)
    return value


def _call(run: Cpp, node: ir.Call, env: Env) -> Value:
    func = node.func
    made: Value = NotImplemented
    if isinstance(func, ir.Name):
        written = _written(func.id)
        made = NotImplemented if written is None else written(run, node, env)
    elif isinstance(func, ir.Attr) and func.name in holders.METHODS:
        made = holders.METHODS[func.name](run, func, node, env)
    if made is not NotImplemented:
        return made
    target = run.eval(func, env)
    args = run.arguments(node.args, env)
    if isinstance(target, Slot):
        target = target.get()
    run.called, run.result_place = (target, args), None
    return _ROWS[type(target)](run, target, args, node, env)


# --- macros, operators, and methods that put something in the place of their object: calls that are known by what is
# written, before anything is evaluated. NotImplemented where it is a call like others after all.


def _written(name: str) -> _Written | None:
    """What knows a call by the name that it is written with."""
    if name.startswith(cpp_lambdas.DISPATCHERS):
        return cpp_lambdas.dispatch
    return _checked if name.startswith("TORCH_CHECK") else _BY_NAME.get(name)


def _checked(run: Cpp, node: ir.Call, env: Env) -> Value:
    """A check macro: what it runs matters, what it tests is taken to hold."""
    name = node.func.id if isinstance(node.func, ir.Name) else ""
    if name == "C10_CUDA_KERNEL_LAUNCH_CHECK" and run.refused_launch:
        run.interp.fails("builtins.RuntimeError", node.loc)
    two = name[-3:] in ("_EQ", "_NE", "_LE", "_LT", "_GE", "_GT")
    for arg in node.args[: 2 if two else 1]:
        if not two and isinstance(arg, ir.Const) and not arg.value:
            exceptions.raise_("RuntimeError", [], node.loc)
        if _fails(run, _held(run, arg, env)):
            run.interp.fails("builtins.RuntimeError", node.loc)
    return None


def _held(run: Cpp, tested: ir.Expr, env: Env) -> Value:
    """What a condition that is taken to hold comes to. Of `a && b` all is asked, as what stands before each part held;
    of `a || b` what stands behind parts that are not known to hold. Nothing is where nothing could be done or fail."""
    if not _does(tested) and not (run.failed and isinstance(tested, (ir.Name, ir.Compare, ir.Bool))):
        return None
    if not isinstance(tested, ir.Bool):
        return run.eval(tested, env)
    value: Value = None
    for part in tested.values:
        value = _held(run, part, env) if tested.op == "and" or _does(part) else run.eval(part, env)
        if _fails(run, value) if tested.op == "and" else value is True:
            break
    return value


def _fails(run: Cpp, value: Value) -> bool:
    """Whether what a check tests says that something failed."""
    return run.failed and (value is cpp_names.FAILURE or value is False)


@by_node
def _does(tested: ir.Expr) -> bool:
    """Whether a condition calls, launches or assigns."""
    return any(isinstance(node, (ir.Call, ir.Launch, ir.AssignE)) for node in walk(tested))


def _sizeof(run: Cpp, node: ir.Call, env: Env) -> Value:
    """`sizeof(T)`, `sizeof(value)`, `alignof(T)`."""
    aligned = isinstance(node.func, ir.Name) and node.func.id == "alignof"
    written = node.args[0] if node.args else None
    if isinstance(written, ir.TypeRef):
        found = layout.measured(run.types, written, env, aligned=aligned)
    else:
        value = run.eval(written, env) if written is not None else None
        kind = run.types.of_argument(written, value, env)
        vague = kind is None or type(value) in (int, float) and kind == run.types.type_of(value)  # an int, or a double
        key = None if vague else run.types.key(kind)
        found = (layout.alignment if aligned else layout.size)(key) if isinstance(key, Type) else None
    return Unknown((), "sizeof") if found is None else integers.typed(found, "u64")


def _symbol_call(run: Cpp, node: ir.Call, env: Env) -> Value:
    """A copy to or from a variable of the device."""
    return device_flags.symbol_call(run, node.func.id, node, env) if isinstance(node.func, ir.Name) else NotImplemented


_Written = Callable[["Cpp", ir.Call, Env], Value]
_BY_NAME: dict[str, _Written] = {
    **dict.fromkeys(CHECKS, _checked),
    **dict.fromkeys(("sizeof", "alignof"), _sizeof),
    "new": cpp_construction.new,
    "delete": endings.delete,
    **dict.fromkeys(device_flags.SYMBOL_CALLS, _symbol_call),
}


# --- calls of values, by their classes


def _values(args: list[Value]) -> list[Value]:
    """Arguments as values, and not the places where they lie."""
    return [cpp_numbers.plain(a.get() if isinstance(a, Slot) else a) for a in args]


def _chosen(run: Cpp, choice: Choice, args: list[Any], node: ir.Call, env: Env, this: Value = None) -> Value:
    """Calls the function that a call means."""
    args = _by_reference(run, choice.func, node.args, args, env)
    return run.call(choice.func, args, node.loc, choice.bound, this=this)


def _by_reference(run: Cpp, func: Func, nodes: tuple[ir.Expr, ...], args: list[Value], env: Env) -> list[Value]:
    """Replaces the arguments that `func` takes by non-const reference by the places where they lie."""
    if func.node.body is None or any(isinstance(node, ir.Star) for node in nodes):
        return args
    out = list(args)
    for i, (param, node) in enumerate(zip(func.node.params, nodes, strict=False)):
        kind = param.type
        changed = isinstance(kind, ir.TypeRef) and kind.reference and not kind.const
        if changed and i < len(out) and isinstance(node, (ir.Name, ir.Attr, ir.Index, ir.Unary, ir.Call)):
            place = run.given.pop(id(node), None) if isinstance(node, ir.Call) else run.place(node, env)
            out[i] = place or out[i]
    return out


def _function(run: Cpp, target: Overloads | Func, args: list[Value], node: ir.Call, env: Env) -> Value:
    """A function of the text."""
    return _chosen(run, run.choose(target, args, (), env, node.args), args, node, env)


def _template(run: Cpp, target: Template, args: list[Value], node: ir.Call, env: Env) -> Value:
    """`f<int>(a)`; of a kernel, which is launched, the kernel."""
    choice = run.choose(target.attrs["overloads"], args, target.attrs["args"], env, node.args)
    return target if choice.func.node.kind == "global" else _chosen(run, choice, args, node, env)


def _own_method(run: Cpp, target: OwnMethod, args: list[Value], node: ir.Call, env: Env) -> Value:
    """A method of an object of the text."""
    choice = run.choose(target.attrs["overloads"], args, target.attrs["args"], env, node.args)
    return _chosen(run, choice, args, node, env, target.attrs["this"])


def _library_method(run: Cpp, target: LibraryMethod, args: list[Value], node: ir.Call, env: Env) -> Value:
    """A method of another value."""
    method: Method = target.attrs["method"]
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    if isinstance(method.self, Tensor):
        plain = [cpp_classes.number(run, a) for a in plain]
    asked = library_methods.Asked(run, method.name, target.attrs["args"], plain, node, env)
    return library_methods.call(method.self, asked)


def _python(run: Cpp, target: PythonObject, args: list[Value], node: ir.Call, env: Env) -> Value:
    """A function of Python."""
    return cpp_python.called(run, target, args, node.loc)


def _bound(run: Cpp, target: Bound, args: list[Value], node: ir.Call, env: Env) -> Value:
    """What std::bind made."""
    return cpp_lambdas.invoke(run, target, args, node.loc)


def _cutlass(run: Cpp, target: CutlassOperator, args: list[Value], node: ir.Call, env: Env) -> Value:
    """`operator()` of an operator of CUTLASS."""
    return library_work.cutlass_run(run, target, [a.get() if isinstance(a, Slot) else a for a in args], node.loc)


def _struct(run: Cpp, target: CStruct, args: list[Value], node: ir.Call, env: Env) -> Value:
    """`operator()` of an object of the text."""
    found = cpp_classes.method(target, "operator()")
    if found is None:
        return _object(run, target, args, node, env)
    return _chosen(run, run.choose(found, args, (), env, node.args), args, node, env, target)


def _operation(run: Cpp, target: Schema, args: list[Value], node: ir.Call, env: Env) -> Value:
    """What `torch::jit::Operator::getOperation()` is, which is given a stack."""
    made = library_work.boxed(run, target, args, node.loc)
    return _object(run, target, args, node, env) if made is NotImplemented else made


def _object(run: Cpp, target: LibObject, args: list[Value], node: ir.Call, env: Env) -> Value:
    """An object of a library, of which nothing is known."""
    calling.may_call(run, target.path, target.attrs.get("items", ()), node.loc)
    return cpp_libraries.opaque(run, target.path, [target, *args], node.loc)


def _type(run: Cpp, target: TypeValue, args: list[Any], node: ir.Call, env: Env) -> Value:
    """`T(a)`, `T{a}` and calls of templates outside the text: `std::min<int>(a, b)`."""
    ref, args = target.ref, _values(args)
    short = ref.name.rpartition("::")[2]
    if ref.member:
        own = cpp_classes.static_method(run, ref, env)
        if own is not None:
            return _chosen(run, run.choose(own, args, (), env, node.args), args, node, env)
        meant = cpp_names.outside("::".join((ref.name, *ref.member)), env, run.types.classes)
        if cpp_names.is_known(meant):
            return cpp_libraries.library(run, meant, ref.args, args, node.loc)
        resolved, scope = cpp_types.resolve(run, ref, env)
        if ref.member[-1] in ("get_workspace_size", "can_implement", "get_smem_size"):
            return 0
        if ref.member[-1][:1].islower():
            return cpp_libraries.library(run, "::".join((ref.name, *ref.member)), ref.args, args, node.loc)
        return cpp_construction.construct(run, resolved, args, scope, node.loc)
    owner, _, name = ref.name.rpartition("::")
    if owner:  # `Alias::name<arguments>(...)`
        own = cpp_classes.static_method(run, ir.TypeRef(owner, (), (), (name,)), env)
        if own is not None:
            return _chosen(run, run.choose(own, args, ref.args, env, node.args), args, node, env)
    if (
        short in ("make_unique", "make_shared", "make_intrusive", "make_optional", "make_any")
        and ref.args
        and isinstance(ref.args[0], ir.TypeRef)
    ):
        return cpp_construction.construct(run, ref.args[0], args, env, node.loc)
    meant = run.outside(ref.name, env)
    if meant.startswith(cpp_names.SOLID) and meant.count("::") > 1:  # `cub::DeviceReduce::Sum<T*>(...)`
        return cpp_libraries.library(run, meant, ref.args, args, node.loc)
    if dtypes.from_cpp(ref.name) or cpp_types.element(run, ref, env):
        value = args[0] if args else 0
        return cpp_types.cast(run, ref, value, env)
    if short in MAKERS:
        return cpp_construction.construct(run, ref, args, env, node.loc, braces=node.braces)
    if not node.braces and _is_function(run, ref, env):
        return cpp_libraries.library(run, meant, ref.args, args, node.loc)
    return cpp_construction.construct(run, ref, args, env, node.loc, braces=node.braces)


def _is_function(run: Cpp, ref: ir.TypeRef, env: Env) -> bool:
    """Whether what is written like a type and called is rather a function template of a library: by its small letter,
    unless the text defines a class of that name."""
    short = ref.name.rpartition("::")[2]
    if not short[:1].islower() or short.endswith("_t") or short == "dim3":
        return False
    target, scope = cpp_types.resolve(run, ref, env)
    return bool(target.member) or cpp_types.class_in(scope, target.name) is None


def _plain_type(run: Cpp, target: DType | CppType, args: list[Value], node: ir.Call, env: Env) -> Value:
    """`T(a)` of a type that is one name."""
    name = node.func.id if isinstance(node.func, ir.Name) else "?"
    ref = node.func if isinstance(node.func, ir.TypeRef) else ir.TypeRef(name, (), node.loc)
    return cpp_construction.construct(run, ref, _values(args), env, node.loc)


def _symbol(run: Cpp, target: Sym, args: list[Value], node: ir.Call, env: Env) -> Value:
    """A function outside the text, some of which write through references or addresses."""
    name = target.path
    popped = name.endswith("jit::pop")
    if popped or name in cpp_std.EXCHANGES:
        args = [run.place(item, env) or value for item, value in zip(node.args, args, strict=False)]
    by_place = popped or name.startswith(("cu", "nvrtc", "memcpy", "memset", "std::")) or cpp_outputs.by_address(name)
    args = [cpp_numbers.plain(a) for a in args] if by_place else _values(args)
    name = cpp_names.by_arguments(name, args)
    letters = texts.laid(node.args, args) if name.startswith("std::") else {}
    made = cpp_libraries.library(run, name, (), [letters.get(i, arg) for i, arg in enumerate(args)], node.loc)
    texts.put_back(run, node.args, letters, args, env)
    if made is not None and made is run.unread and any(map(cpp_libraries.is_address, node.args)):
        cpp_libraries.changed(run, name, node.loc)
    return made


def _tensor(run: Cpp, target: Tensor, args: list[Value], node: ir.Call, env: Env) -> Value:
    """`operator()` of an accessor, or a functional cast of a tensor."""
    return target


def _blob(run: Cpp, target: Blob, args: list[Value], node: ir.Call, env: Env) -> Value:
    """A function of machine code."""
    return foreign.call_blob(run.interp, target, _values(args), {}, node.loc)


def _unknown(run: Cpp, target: Unknown, args: list[Value], node: ir.Call, env: Env) -> Value:
    """What nobody knows; the driver's function that makes descriptors is known by what it is given."""
    if any(isinstance(a, Sym) and a.path.startswith("CU_TENSOR_MAP") for a in args):
        return cpp_libraries.tensor_map(args)
    return unknowns.merged(run.interp, target, _other(run, target, args, node, env))


def _other(run: Cpp, target: Value, args: list[Value], node: ir.Call, env: Env) -> Value:
    """What is no function here."""
    return cpp_libraries.opaque(run, "unknown function", _values(args), node.loc)


_ROWS = ByClass[Callable[["Cpp", Any, list[Value], ir.Call, Env], Value]](
    {
        **dict.fromkeys((Overloads, Func), _function),
        Template: _template,
        OwnMethod: _own_method,
        LibraryMethod: _library_method,
        PythonObject: _python,
        Bound: _bound,
        CutlassOperator: _cutlass,
        CStruct: _struct,
        Schema: _operation,
        LibObject: _object,
        TypeValue: _type,
        **dict.fromkeys((DType, CppType), _plain_type),
        Sym: _symbol,
        Tensor: _tensor,
        Blob: _blob,
        Unknown: _unknown,
    },
    _other,
)
