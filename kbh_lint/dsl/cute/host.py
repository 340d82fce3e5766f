"""CUTLASS's Python DSL (CuTe) on the host: decorators, compiled functions, views, instructions, launches.

A `@cute.jit` function runs here like any other Python. What it makes for kernels are `values.Made`; tensors stay what
they are, for every view of one is a view of its storage. A call of a `@cute.kernel` function waits for its `.launch`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kbh_lint import dtypes, ir, registry
from kbh_lint.dsl.cute import instructions as ops
from kbh_lint.dsl.cute import shapes
from kbh_lint.host.effects import foreign
from kbh_lint.host.gpu import launch_arguments, launches
from kbh_lint.host.gpu.kernel_cache import identity
from kbh_lint.host.python import attributes, calls
from kbh_lint.host.torch import tensor_views
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.library_objects import ClassMethod, OwnModule, Property, StaticMethod
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import Bound, ClassV, Instance, LibObject, Memo, Pointer, Specialized, find_method
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.values import UNKNOWN, DType, Env, Func, Made, Scalar, Sym

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

KERNEL, JIT = "cute.kernel", "cute.jit"
_PARTS = ("cute", "utils", "pipeline", "cutlass_dsl", "base_dsl", "torch", "runtime", "_mlir", "typing", "arch")
_DECORATORS = {"jit": JIT, "kernel": KERNEL}
_MAX_FIELDS = 200
_DEPTH = 3
_VIEWS = frozenset(
    "from_dlpack local_tile zipped_divide tiled_divide logical_divide flat_divide group_modes select append prepend "
    "append_ones prepend_ones slice_ domain_offset composition coalesce flatten filter filter_zeros assume "
    "make_tensor recast_tensor recast_ptr make_ptr".split()
)
_LAYOUTS = frozenset(
    "make_layout make_ordered_layout make_identity_layout make_composed_layout tile_to_shape recast_layout "
    "make_smem_layout make_smem_layout_a make_smem_layout_b make_smem_layout_epi make_smem_layout_atom make_swizzle "
    "right_inverse left_inverse complement".split()
)


def is_dsl(path: str) -> bool:
    """Whether a path is of the DSL: not of CUTLASS's older Python interface to prebuilt kernels."""
    parts = path.split(".")
    return parts[0] == "cutlass" and len(parts) > 1 and (parts[1] in _PARTS or len(parts) == 2)


def decorate(interp: Run, path: str, target: Any) -> Any:
    """`@cute.jit`, `@cute.kernel`, `@cute.struct`; other decorators of the DSL change nothing."""
    name = path.rpartition(".")[2]
    if isinstance(target, Func) and name in _DECORATORS:
        target.language = _DECORATORS[name]
    elif isinstance(target, ClassV) and name in ("struct", "union"):
        return _struct(interp, target)
    return target


def _struct(interp: Run, cls: ClassV) -> Made:
    """The element types of the fields of a struct of shared memory."""
    fields = []
    for stmt in cls.node.body if cls.node is not None else ():
        if isinstance(stmt, ir.Decl) and stmt.annotation is not None:
            fields.append((stmt.name, _field_type(interp, cls, stmt.annotation)))
    return Made(ops.STRUCT, tuple(fields))


def _field_type(interp: Run, cls: ClassV, node: Any) -> DType:
    """`cute.struct.Align[cute.struct.MemRange[T, n], 128]`, or T."""
    while isinstance(node, ir.Index) and isinstance(node.value, ir.Attr) and node.value.name in ("MemRange", "Align"):
        node = node.index.items[0] if isinstance(node.index, ir.Seq) else node.index
    value = interp.eval(node, interp.frame_of(cls.env))
    return value if isinstance(value, DType) else DType("?")


# --- calls --------------------------------------------------------------------------------------------------------


def call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A call of something under `cutlass`."""
    if not is_dsl(path):
        return foreign.foreign(interp, path, args, kwargs, loc)
    name = path.rpartition(".")[2]
    if name in _DECORATORS or name in ("struct", "union"):
        return decorate(interp, path, args[0]) if args else LibObject("cute.decorator", {"path": path})
    if name == "compile":
        return _compiled(interp, args, kwargs)
    if ops.is_instruction(path):
        first = args[0] if args else None
        if isinstance(first, Made) and first.path == ops.MMA:
            return first
        types = [a.name for a in args if isinstance(a, DType)]
        return ops.instruction(path, types, ops.named_types(kwargs))
    handler = _CALLS.get(name)
    if handler is not None:
        return handler(interp, args, kwargs)
    if name in _VIEWS:
        return view(interp, name, args, kwargs)
    if name in _LAYOUTS:
        return shapes.layout(name, args, kwargs)
    if name.startswith(("make_tiled_tma_atom", "make_im2col_tma_atom")):
        tensors = tensor_arguments.tensors_in(args[1:]) + tensor_arguments.tensors_in(kwargs)
        return (Made(ops.COPY), tensors[0] if tensors else Unknown((), name))
    if name.endswith(
        ("Op", "copy", "copy_tv", "copy_atom", "copy_A", "copy_B", "copy_C", "copy_S", "copy_D", "C_atom")
    ):
        return Made(ops.COPY, (("reduce", "Reduce" in name),))
    inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
    if inputs and not name.startswith(("from_tensor", "is_", "get_", "print", "testing")):
        return foreign.unread_call(interp, path, inputs, loc)
    return Made(path)


def view(interp: Run, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A view of a tensor, of coordinates or of a layout."""
    base = args[0] if args else next(iter(kwargs.values()), None)
    dtype = next((a for a in (*args, *kwargs.values()) if isinstance(a, DType)), None)
    if name == "make_ptr":
        address = next((a for a in args if isinstance(a, (int, Tensor, Pointer)) and not isinstance(a, bool)), None)
        tensor = address if isinstance(address, Tensor) else interp.tensor_at(address)
        if isinstance(address, Pointer):
            tensor = address.tensor
        return Pointer(tensor, dtype.name if dtype else tensor.dtype) if tensor is not None else Unknown((), name)
    if isinstance(base, Pointer):
        if name == "recast_ptr":
            return Pointer(base.tensor, dtype.name if dtype else base.dtype, base.offset)
        shape = shapes.shape_of(args[1] if len(args) > 1 else kwargs.get("layout"))
        return tensor_views.alias(base.tensor, shape, None, base.dtype, offset=base.elements())
    if isinstance(base, Tensor):
        found = shapes.viewed(name, base.shape, args[1:], kwargs)
        made = tensor_views.alias(
            base, found, base.strides if found == base.shape else None, dtype.name if dtype else None
        )
        if name == "domain_offset":
            made.offset = None
        return made
    if name == "make_tensor":
        return Made(ops.COORDINATES, (("shape", shapes.shape_of(args[1] if len(args) > 1 else None)),))
    if isinstance(base, Made):
        known = shapes.viewed(name, base.get("shape"), args[1:], kwargs)
        return Made(base.path, (("shape", known), *(f for f in base.fields if f[0] != "shape")))
    picked = shapes.viewed(name, shapes.shape_of(base), args[1:], kwargs)
    return picked if picked is not None else Unknown(interp.contents_of(base), name)


def _compiled(interp: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """cute.compile(function, arguments): later calls leave the compile-time arguments out."""
    if not args:
        return LibObject("cute.decorator", {"path": "cutlass.cute.compile"})
    func = _function(interp, args[0])
    if func is None:
        return args[0]
    given = {k: v for k, v in kwargs.items() if k not in ("options", "no_cache", "compile_only")}
    names = _parameters(func, args[0])
    bound = {**dict(zip(names, args[1:], strict=False)), **given}
    fixed = {p.name: bound[p.name] for p in func.node.params if _is_constexpr(p) and p.name in bound}
    return Specialized(args[0], fixed, scope=identity(func))


def call_compiled(interp: Run, made: Specialized, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A call of a compiled function, with or without the compile-time arguments."""
    func = _function(interp, made.func)
    row = registry.of_function(func.language) if func is not None else None
    if row is not None:
        own = row.library.launch(Site(interp, "", loc, args, kwargs), made)
        if own is not NotImplemented:
            return own
    if func is not None and identity(func) != made.scope:
        inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
        return foreign.unread_call(interp, "a compiled function whose names mean something else now", inputs, loc)
    names = _parameters(func, made.func) if func is not None else []
    if len(args) != len(names):
        names = [name for name in names if name not in made.fixed]
    bound = {**made.fixed, **dict(zip(names, args, strict=False)), **kwargs}
    return interp.call(made.func, [], bound, loc)


def compiled_method(
    interp: Run, made: Specialized, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """Methods of a compiled function: it is moved to a device, or called in two steps."""
    if name == "to":
        return made
    if name == "generate_execution_args":
        return (LibObject("cute.arguments", {"args": list(args), "kwargs": kwargs}), None)
    if name == "run_compiled_program" and args and isinstance(args[0], LibObject):
        return call_compiled(interp, made, args[0].attrs["args"], args[0].attrs["kwargs"], loc)
    if name in ("__call__", "run_compiled_program"):
        return call_compiled(interp, made, args, kwargs, loc)
    return Unknown(interp.contents_of(args), f"a compiled function's {name}")


def _function(interp: Run, value: Any) -> Func | None:
    """The function behind what is compiled: a method, or the `__call__` of an object."""
    if isinstance(value, Instance):
        value = find_method(value, "__call__")
    while isinstance(value, (Bound, Memo)):
        value = value.func
    return value if isinstance(value, Func) else None


def _parameters(func: Func, value: Any) -> list[str]:
    """Its parameters' names, without `self` where that is bound."""
    names = [p.name for p in func.node.params]
    return names[1:] if isinstance(value, (Instance, Bound)) else names


def _is_constexpr(param: ir.Param) -> bool:
    node = param.type
    while isinstance(node, ir.Index):
        node = node.value
    text = node.value if isinstance(node, ir.Const) else getattr(node, "name", getattr(node, "id", ""))
    return "Constexpr" in str(text)


# --- launches -----------------------------------------------------------------------------------------------------


def launcher(interp: Run, func: Func, args: list[Any], kwargs: dict[str, Any]) -> LibObject:
    """A kernel with its arguments, that `.launch(...)` runs."""
    env = Env({}, func.env)
    calls.bind(func, args, kwargs, env)
    return LibObject("cute.launcher", {"func": func, "bound": env.vars})


def launch(interp: Run, owner: LibObject, kwargs: dict[str, Any], loc: ir.Loc | None) -> None:
    """Records the launch of a kernel."""
    func, bound = owner.attrs["func"], owner.attrs["bound"]
    binding = {name: argument(interp, value) for name, value in bound.items()}
    interp.session.outer = partial(outer, interp, {})
    facts = interp.analyse_kernel(func, [binding])
    arguments = {name: launch_arguments.tree(interp, value) for name, value in {**bound, **_held(bound)}.items()}
    tensors = launch_arguments.tensors(arguments.values())
    grid, block = kwargs.get("grid"), kwargs.get("block")
    steer = interp.contents_of([grid, *(v for v in bound.values() if isinstance(v, Unknown))])
    event = launches.record(interp, func, tensors, [binding], facts, grid, loc, steer, block)
    event.attrs["numbers"], event.attrs["starts"] = (
        launches.numbers(interp, bound),
        launch_arguments.starts({name: arguments[name] for name in bound}),
    )
    event.attrs["outer"], event.attrs["scope"] = interp.session.outer, identity(func)


def _held(bound: dict[str, Any]) -> dict[str, Any]:
    """What objects among a kernel's arguments hold."""
    owners = [(name, v) for name, v in bound.items() if isinstance(v, Instance)]
    return {f"{name}.{key}": value for name, owner in owners for key, value in owner.attrs.items()}


def argument(interp: Run, value: Any, level: int = 0) -> Any:
    """A launch argument as the kernel analysis takes it; objects of the submission with what they hold."""
    if isinstance(value, Made):
        return value
    if isinstance(value, Instance):
        return _object(interp, value, level)
    if isinstance(value, (tuple, list)):
        return tuple(argument(interp, v, level + 1) for v in list(value)[:_MAX_FIELDS])
    table = value if isinstance(value, dict) else _namespace(value)
    if table is not None and level < _DEPTH:
        return _table(interp, ops.TABLE if table is value else ops.NAMESPACE, table, level)
    if level and isinstance(value, (bool, int, float, str)) and interp.tensor_at(value) is None:
        return value
    return launch_arguments.of(interp, value, isinstance(value, bool))


def _namespace(value: Any) -> dict[str, Any] | None:
    """What a `types.SimpleNamespace` holds; None for anything else."""
    return value.attrs if isinstance(value, LibObject) and value.path == "types.SimpleNamespace" else None


def _table(interp: Run, kind: str, table: dict[Any, Any], level: int) -> Made:
    """A dict, or a namespace, by its keys."""
    items: list[tuple[Any, Any]] = [(k, v) for k, v in table.items() if isinstance(k, (str, int, DType))]
    return Made(kind, tuple((k, argument(interp, v, level + 1)) for k, v in items[:_MAX_FIELDS]))


def outer(interp: Run, known: dict[int, Any], value: Any) -> Any:
    """A value of the host that a kernel sees through its scope; UNKNOWN where kernels cannot use it."""
    while isinstance(value, Memo):
        value = value.func
    if isinstance(value, (ClassV, Instance)):
        if id(value) not in known:
            known[id(value)] = (
                value,
                _class(interp, value) if isinstance(value, ClassV) else _object(interp, value, 0),
            )
        return known[id(value)][1]
    if isinstance(value, OwnModule):  # a file beside the submission
        return Made(ops.CLASS, (), Env(value.attrs))
    if isinstance(value, dict) or _namespace(value) is not None:
        return argument(interp, value)
    return value if isinstance(value, (Func, Made, DType, Sym, int, float, str, tuple)) else UNKNOWN


def _class(interp: Run, cls: ClassV) -> Made:
    """A class of the submission, whose objects a kernel makes."""
    fields = (("name", cls.name), ("names", tuple(cls.fields)), ("dataclass", cls.dataclass))
    return Made(ops.CLASS, fields, _methods(interp, cls, 0))


def _methods(interp: Run, cls: ClassV, level: int) -> Env:
    found: dict[str, Any] = {}
    for base in reversed(cls.mro()):
        found.update((name, _member(interp, value, level)) for name, value in base.env.vars.items())
    return Env(found)


def _object(interp: Run, owner: Instance, level: int) -> Made | Scalar:
    if level >= _DEPTH:
        return Scalar(UNKNOWN)
    items = list(owner.attrs.items())[:_MAX_FIELDS]
    return Made(
        ops.OBJECT, tuple((k, argument(interp, v, level + 1)) for k, v in items), _methods(interp, owner.cls, level)
    )


def _member(interp: Run, value: Any, level: int) -> Any:
    """What a class holds under a name."""
    if isinstance(value, StaticMethod):
        return Made(ops.STATIC, (("func", value.func),))
    if isinstance(value, ClassMethod):
        return Made(ops.CLASSMETHOD, (("func", value.func),))
    if isinstance(value, Property):
        return Made(ops.PROPERTY, (("func", value.getter),))
    return value if isinstance(value, (Func, Made, DType, Sym, int, float, str)) else Scalar(UNKNOWN)


# --- attributes ---------------------------------------------------------------------------------------------------


def tensor_attribute(interp: Run, tensor: Tensor, name: str, loc: ir.Loc | None) -> Any:
    """What CuTe adds to a tensor."""
    if name == "element_type":
        return DType(tensor.dtype)
    return Pointer(tensor, tensor.dtype) if name == "iterator" else Unknown((), name)


def made_attribute(interp: Run, made: Made, name: str, loc: ir.Loc | None) -> Any:
    """An attribute of something that the DSL made on the host."""
    if any(key == name for key, _ in made.fields):
        found = made.get(name)
        return found if found is not None else Unknown((), name)
    if made.path == ops.MMA and name == "shape_mnk":
        depth = made.get("k")
        return (Unknown((), "M"), Unknown((), "N"), depth if depth is not None else Unknown((), "K"))
    return made if name in ("outer", "inner") else Made(f"{made.path}.{name}")


def made_call(interp: Run, made: Made, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A call of something made, or of its method: on the host it yields sizes and layouts, and runs nothing."""
    inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
    if inputs:
        name = made.path.rpartition(".")[2]
        if name in ("partition_A", "partition_B", "partition_C", "partition_S", "partition_D", "from_tensor"):
            return inputs[0] if name != "from_tensor" else Unknown((), name)
        return foreign.unread_call(interp, made.path, inputs, loc)
    return Unknown((), made.path)


_CALLS: dict[str, Callable[[Any, list[Any], dict[str, Any]], Any]] = {
    "size": lambda i, a, k: shapes.count(a[0] if a else None, k.get("mode", a[1] if len(a) > 1 else None)),
    "cosize": lambda i, a, k: shapes.count(a[0] if a else None, None),
    "rank": lambda i, a, k: shapes.rank(a[0] if a else None),
    "shape": lambda i, a, k: shapes.known(shapes.shape_of(a[0] if a else None)),
    "product": lambda i, a, k: shapes.count(a[0] if a else None, None),
    "ceil_div": lambda i, a, k: shapes.divided(a[0], a[1]) if len(a) > 1 else Unknown((), "ceil_div"),
    "round_up": lambda i, a, k: shapes.rounded(a[0], a[1]) if len(a) > 1 else Unknown((), "round_up"),
    "size_in_bytes": lambda i, a, k: shapes.bytes_of(a),
    "make_layout_tv": lambda i, a, k: shapes.thread_values(a),
    "make_identity_tensor": lambda i, a, k: Made(ops.COORDINATES, (("shape", shapes.shape_of(a[0] if a else None)),)),
    **dict.fromkeys(
        ("const_expr", "dynamic_expr", "as_numeric", "range_constexpr_", "make_warp_uniform"), lambda i, a, k: a[0]
    ),
    "range": lambda i, a, k: shapes.whole_range(a), "range_constexpr": lambda i, a, k: shapes.whole_range(a),
    "range_dynamic": lambda i, a, k: shapes.whole_range(a),
    **dict.fromkeys(("printf", "print_tensor", "initialize_cuda_context"), lambda i, a, k: None),
    "dtype": lambda i, a, k: a[0] if a and isinstance(a[0], DType) else Unknown((), "dtype"),
    "min": lambda i, a, k: shapes.extreme(min, a), "max": lambda i, a, k: shapes.extreme(max, a),
}  # fmt: skip


def dtype_of(path: str) -> DType | None:
    """The element type that a path under `cutlass` names."""
    found = dtypes.from_cutlass(path.rpartition(".")[2])
    return DType(found) if found is not None else None


attributes.OF_LIBRARIES[Made] = made_attribute
attributes.TENSOR_OF_LIBRARIES.update(
    dict.fromkeys(("element_type", "iterator", "memspace", "leading_dim"), tensor_attribute)
)
