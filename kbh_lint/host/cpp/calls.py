"""Calls in C++ host code: functions of the text, methods of tensors, at:: and torch::, the CUDA libraries, CUTLASS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Env, Func, Overloads, Sym, TypeValue, Value
from kbh_lint.cpp import integers, layout
from kbh_lint.cpp.domain import Type
from kbh_lint.cpp.overloads import Choice
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
from kbh_lint.host.cpp.std import functions as cpp_std
from kbh_lint.host.cpp.std.making import CONTAINERS
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
    Slot,
    Template,
)
from kbh_lint.host.values.objects import Blob, LibObject, Method
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp

CHECKS = frozenset(
    "TORCH_CHECK AT_ASSERT AT_ASSERTM C10_CUDA_CHECK AT_CUDA_CHECK TORCH_INTERNAL_ASSERT CUDA_CHECK "
    "CUTE_CHECK_ERROR CUTE_CHECK_LAST CUTE_STATIC_ASSERT CUTE_STATIC_ASSERT_V CUTLASS_ASSERT "
    "assert C10_CUDA_KERNEL_LAUNCH_CHECK TORCH_CUBLAS_CHECK TORCH_WARN printf fprintf static_assert".split()
)


DISPATCHERS = ("AT_DISPATCH", "AT_PRIVATE")


def call(run: Cpp, node: ir.Call, env: Env) -> Any:
    """Evaluate a C++ call expression, and note where nothing is known of what a call did with fresh memory."""
    before = len(run.interp.trace.events)
    run.called = None
    value = _call(run, node, env)
    called, run.called = run.called, None
    if called is not None and len(run.interp.trace.events) == before:
        cpp_arguments.unanswered(run.interp, *called, value, node.loc)
    return value


def _call(run: Cpp, node: ir.Call, env: Env) -> Any:
    func = node.func
    if isinstance(func, ir.Name) and (func.id in CHECKS or func.id.startswith("TORCH_CHECK")):
        return _checked(run, node, env)
    if isinstance(func, ir.Name) and func.id.startswith(DISPATCHERS):
        return cpp_lambdas.dispatch(run, node, env)
    if isinstance(func, ir.Name) and func.id in ("sizeof", "alignof"):
        return _sizeof(run, node, env, aligned=func.id == "alignof")
    if isinstance(func, ir.Name) and func.id == "new":
        return _new(run, node, env)
    if isinstance(func, ir.Attr) and func.name == "emplace" and _put(run, func, node, env):
        return None
    if isinstance(func, ir.Attr) and func.name == "reset" and _reset(run, func, node, env):
        return None
    if isinstance(func, ir.Name) and func.id in device_flags.SYMBOL_CALLS:
        done = device_flags.symbol_call(run, func.id, node, env)
        if done is not NotImplemented:
            return done
    target = run.eval(func, env)
    args = run.arguments(node.args, env)
    if isinstance(target, Slot):
        target = target.get()
    run.called, run.result_place = (target, args), None
    if isinstance(target, Unknown) and any(isinstance(a, Sym) and a.path.startswith("CU_TENSOR_MAP") for a in args):
        return cpp_libraries.tensor_map(args)  # the driver's function, found in a way that could not be followed
    if isinstance(target, LibObject):
        return _object(run, target, args, node, env)
    if isinstance(target, (Overloads, Func)):
        return _chosen(run, run.choose(target, args, (), env, node.args), args, node, env)
    if isinstance(target, Sym) and target.path in cpp_std.EXCHANGES:
        args = [run.place(item, env) or value for item, value in zip(node.args, args, strict=False)]
    args = [cpp_numbers.plain(a.get() if isinstance(a, Slot) and not _wants_place(target) else a) for a in args]
    if isinstance(target, Tensor):  # operator() on an accessor, or a functional cast of a tensor
        return target
    if isinstance(target, TypeValue):
        return _type_call(run, target, args, node, env)
    if isinstance(target, DType) or hasattr(target, "node"):
        ref = (
            func
            if isinstance(func, ir.TypeRef)
            else ir.TypeRef(func.id if isinstance(func, ir.Name) else "?", (), node.loc)
        )
        return cpp_construction.construct(run, ref, args, env, node.loc)
    if isinstance(target, Sym):
        name = target.path
        if "::" not in name and cpp_names.is_operation(name) and any(isinstance(a, Tensor) for a in args):
            name = f"at::{name}"  # found by the namespace of its argument
        return cpp_libraries.library(run, name, (), args, node.loc)
    if isinstance(target, Blob):
        return foreign.call_blob(run.interp, target, args, {}, node.loc)
    made = cpp_libraries.opaque(run, "unknown function", args, node.loc)
    return unknowns.merged(run.interp, target, made) if isinstance(target, Unknown) else made


def _chosen(run: Cpp, choice: Choice, args: list[Any], node: ir.Call, env: Env, this: Value = None) -> Any:
    """Calls the function that a call means."""
    args = run.by_reference(choice.func, node.args, args, env)
    return run.call(choice.func, args, node.loc, choice.bound, this=this)


def _wants_place(target: Value) -> bool:
    """Library functions that write through an address."""
    return isinstance(target, Sym) and target.path.startswith(("cu", "nvrtc", "memcpy", "std::"))


def _checked(run: Cpp, node: ir.Call, env: Env) -> Any:
    """A check macro: what it runs matters, what it tests is taken to hold."""
    name = node.func.id if isinstance(node.func, ir.Name) else ""
    if name == "C10_CUDA_KERNEL_LAUNCH_CHECK" and run.refused_launch:
        run.interp.fails("builtins.RuntimeError", node.loc)
    for arg in node.args[:1]:
        if isinstance(arg, ir.Const) and not arg.value:
            exceptions.raise_("RuntimeError", [], node.loc)
        works = any(isinstance(n, (ir.Call, ir.Launch)) for n in (arg, getattr(arg, "left", None)))
        if works or run.failed and isinstance(arg, (ir.Name, ir.Compare)):
            value = run.eval(arg, env)
            if run.failed and (value is cpp_names.FAILURE or value is False):
                run.interp.fails("builtins.RuntimeError", node.loc)
    return None


def _sizeof(run: Cpp, node: ir.Call, env: Env, *, aligned: bool) -> Any:
    """`sizeof(T)`, `sizeof(value)`, `alignof(T)`."""
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


def _new(run: Cpp, node: ir.Call, env: Env) -> Any:
    """`new T(a)` and `new T[n]`: a pointer to an object is the object."""
    ref, *rest = node.args
    args = run.arguments(rest, env)
    args = [a.get() if isinstance(a, Slot) else a for a in args]
    if not isinstance(ref, ir.TypeRef):
        return Unknown((), "new")
    if cpp_types.element(run, ref, env) is not None and len(args) == 1 and integers.is_plain(args[0]):
        return [Unknown() for _ in range(min(args[0], cpp_construction.MAX_ELEMENTS))]
    return cpp_construction.construct(run, ref, args, env, node.loc)


def _reset(run: Cpp, func: ir.Attr, node: ir.Call, env: Env) -> bool:
    """`pointer.reset(new T)`, `optional.reset()`; false when it is a method of something else."""
    held = run.eval(func.value, env)
    pointed = held is None or isinstance(held, CStruct)
    if not pointed or isinstance(held, LibObject) and cpp_classes.method(held, "reset") is not None:
        return False
    place = run.place(func.value, env)
    if place is not None:
        place.set(run.eval(node.args[0], env) if node.args else None)
    return place is not None


def _put(run: Cpp, func: ir.Attr, node: ir.Call, env: Env) -> bool:
    """`optional.emplace(value)`; false when it is a method of something else."""
    if len(node.args) != 1 or run.eval(func.value, env) is not None:
        return False
    place = run.place(func.value, env)
    if place is not None:
        place.set(run.eval(node.args[0], env))
    return place is not None


def _type_call(run: Cpp, target: TypeValue, args: list[Any], node: ir.Call, env: Env) -> Any:
    """`T(a)`, `T{a}` and calls of templates outside the text: `std::min<int>(a, b)`."""
    ref = target.ref
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
    if short in ("make_unique", "make_shared", "make_intrusive") and ref.args and isinstance(ref.args[0], ir.TypeRef):
        return cpp_construction.construct(run, ref.args[0], args, env, node.loc)
    meant = run.outside(ref.name, env)
    if meant.startswith(cpp_names.SOLID) and meant.count("::") > 1:  # `cub::DeviceReduce::Sum<T*>(...)`
        return cpp_libraries.library(run, meant, ref.args, args, node.loc)
    if dtypes.from_cpp(ref.name) or cpp_types.element(run, ref, env):
        value = args[0] if args else 0
        return cpp_types.cast(run, ref, value, env)
    if short in CONTAINERS:
        return cpp_construction.construct(run, ref, args, env, node.loc, braces=node.braces)
    if short[:1].islower() and short not in ("dim3",) and not short.endswith("_t"):
        return cpp_libraries.library(run, ref.name, ref.args, args, node.loc)
    return cpp_construction.construct(run, ref, args, env, node.loc)


def _object(run: Cpp, target: LibObject, args: list[Any], node: ir.Call, env: Env) -> Any:
    if isinstance(target, Template):
        choice = run.choose(target.attrs["overloads"], args, target.attrs["args"], env, node.args)
        return target if choice.func.node.kind == "global" else _chosen(run, choice, args, node, env)
    if isinstance(target, OwnMethod):
        choice = run.choose(target.attrs["overloads"], args, target.attrs["args"], env, node.args)
        return _chosen(run, choice, args, node, env, target.attrs["this"])
    if isinstance(target, LibraryMethod):
        method: Method = target.attrs["method"]
        plain = [a.get() if isinstance(a, Slot) else a for a in args]
        asked = library_methods.Asked(run, method.name, target.attrs["args"], plain, node, env)
        return library_methods.call(method.self, asked)
    if isinstance(target, PythonObject):
        return cpp_python.called(run, target, args, node.loc)
    if isinstance(target, Bound):
        return cpp_lambdas.invoke(run, target, args, node.loc)
    if isinstance(target, CutlassOperator):
        return library_work.cutlass_run(run, target, [a.get() if isinstance(a, Slot) else a for a in args], node.loc)
    if isinstance(target, CStruct):
        found = cpp_classes.method(target, "operator()")
        if found is not None:
            return _chosen(run, run.choose(found, args, (), env, node.args), args, node, env, target)
    return cpp_libraries.opaque(run, target.path, [target, *args], node.loc)
