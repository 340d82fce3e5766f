"""CUTLASS's Python DSL (CuTe) on the host: decorators, compiled functions, views, instructions, launches.

A `@cute.jit` function runs here like any other Python. What it makes for kernels are `values.Made`; tensors stay what
they are, for every view of one is a view of its storage. A call of a `@cute.kernel` function waits for its `.launch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Env, Func, Made
from kbh_lint.dsl.cute import instructions as ops
from kbh_lint.dsl.cute import shapes
from kbh_lint.dsl.tensors import host_values, kinds
from kbh_lint.host.datamodel import names
from kbh_lint.host.effects import foreign
from kbh_lint.host.gpu import compiled, launch_arguments, launches, launches_that_fail, pointer_tables
from kbh_lint.host.gpu.kernel_cache import identity
from kbh_lint.host.python import calls
from kbh_lint.host.torch import tensor_views
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.cpp_objects import Pointer
from kbh_lint.host.values.modelled import Library, Modelled, Site, Value, models
from kbh_lint.host.values.objects import ClassV, Instance, Specialized
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

KERNEL, JIT = "cute.kernel", "cute.jit"
_PARTS = ("cute", "utils", "pipeline", "cutlass_dsl", "base_dsl", "torch", "runtime", "_mlir", "typing", "arch")
_DECORATORS = {"jit": JIT, "kernel": KERNEL}
_COPIES = ("Op", "copy", "copy_tv", "copy_atom", "copy_A", "copy_B", "copy_C", "copy_S", "copy_D", "C_atom")
_MARKS = frozenset(("mark_layout_dynamic", "mark_compact_shape_dynamic"))
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


class Decorator(Modelled):
    """`cute.compile` with options, `cute.jit()`: what is called with a function."""

    def __init__(self, path: str) -> None:
        super().__init__("cutlass.decorator", {"path": path})
        self.path_of = path

    def called(self, site: Site) -> Value:
        """The decorated function."""
        if site.args:
            return site.run.decorate(self, site.args[0], site.loc)
        return foreign.foreign(site)


class Launcher(Modelled):
    """A call of a `@cute.kernel` function: it runs when `.launch(...)` is called."""

    def __init__(self, func: Func, bound: dict[str, Value]) -> None:
        super().__init__("cutlass.launcher", {"func": func, "bound": bound})
        self.func, self.bound = func, bound

    @models("launch")
    def launch(
        self, site: Site, *rest: Value, grid: Value = None, block: Value = None, smem: Value = None, **options: Value
    ) -> None:
        """Records a launch of the kernel with the given grid, block and bytes of shared memory."""
        _launch(site.run, self, grid, block, smem, site.loc)

    def called(self, site: Site) -> Value:
        """Records that a kernel was called without `.launch`, whose effect is unknown."""
        return foreign.foreign(site)

    def other(self, site: Site) -> Value:
        """The launcher itself: its other methods only ask for sizes."""
        return self


class Cute(Library):
    """The package `cutlass`, and what is in it of the DSL."""

    def call(self, site: Site) -> Value:
        """The result of calling a function by its path. CUTLASS's older interface to prebuilt kernels counts as unread;
        functions that make matrix instructions are recognised by the form of their names."""
        parts = site.path.split(".")
        if len(parts) < 2 or len(parts) > 2 and parts[1] not in _PARTS:
            return foreign.foreign(site)
        if not ops.is_instruction(site.path):
            return super().call(site)
        first = site.args[0] if site.args else None
        if isinstance(first, kinds.Mma):
            return first
        types = [a.name for a in site.args if isinstance(a, DType)]
        return ops.instruction(site.path, types, ops.named_types(site.kwargs))

    @models("jit", "kernel", "struct", "union")
    def decorator(self, site: Site, *given: Value, **options: Value) -> Value:
        """The decorated function, or for a call with options a decorator."""
        return self.decorate(site, None, given[0]) if given else Decorator(site.path)

    @models("compile")
    def compile(self, site: Site, *given: Value, **named: Value) -> Value:
        """The compiled function of `cute.compile(function, arguments)`; its calls leave out the compile-time
        arguments."""
        return _compiled(given, named) if given else Decorator("cutlass.cute.compile")

    @models("size")
    def size(self, site: Site, a: Value = None, mode: Value = None, *rest: Value, **options: Value) -> Value:
        """The number of elements of a shape, or of those of its modes that `mode` selects."""
        return shapes.count(a, mode)

    @models("cosize", "product")
    def elements(self, site: Site, a: Value = None, *rest: Value, **options: Value) -> Value:
        """The number of elements of a shape."""
        return shapes.count(a, None)

    @models("rank")
    def rank(self, site: Site, a: Value = None, *rest: Value, **options: Value) -> Value:
        """The number of modes of a shape."""
        return shapes.rank(a)

    @models("shape")
    def shape(self, site: Site, a: Value = None, *rest: Value, **options: Value) -> Value:
        """The shape of a tensor or a layout."""
        return shapes.known(shapes.shape_of(a))

    @models("ceil_div")
    def ceil_div(self, site: Site, *given: Value, **options: Value) -> Value:
        """The value of `ceil_div(a, b)`, for numbers or shapes."""
        return shapes.divided(given[0], given[1]) if len(given) > 1 else Unknown((), "ceil_div")

    @models("round_up")
    def round_up(self, site: Site, *given: Value, **options: Value) -> Value:
        """The value of `round_up(a, b)`."""
        return shapes.rounded(given[0], given[1]) if len(given) > 1 else Unknown((), "round_up")

    @models("size_in_bytes")
    def size_in_bytes(self, site: Site, *given: Value, **options: Value) -> Value:
        """The value of `size_in_bytes(type, layout)`."""
        return shapes.bytes_of(list(given))

    @models("make_layout_tv")
    def thread_values(self, site: Site, *given: Value, **options: Value) -> Value:
        """The value of `make_layout_tv(threads, values)`: the tile that all threads cover with their values, and its
        layout."""
        return shapes.thread_values(list(given))

    @models("make_identity_tensor")
    def identity_tensor(self, site: Site, shape: Value = None, *rest: Value, **options: Value) -> Value:
        """A tensor whose elements are their own coordinates."""
        return kinds.Coordinates(fields=(("shape", shapes.shape_of(shape)),))

    @models("const_expr", "dynamic_expr", "as_numeric", "range_constexpr_", "make_warp_uniform")
    def same(self, site: Site, value: Value, *rest: Value, **options: Value) -> Value:
        """Returns the first argument unchanged."""
        return value

    @models("range", "range_constexpr", "range_dynamic")
    def range(self, site: Site, *bounds: Value, **options: Value) -> Value:
        """A range; unknown where its bounds are."""
        return shapes.whole_range(list(bounds))

    @models("printf", "print_tensor", "initialize_cuda_context")
    def nothing(self, site: Site, *given: Value, **options: Value) -> None:
        """Models calls that compute nothing."""

    @models("dtype")
    def dtype(self, site: Site, of: Value = None, *rest: Value, **options: Value) -> Value:
        """The value of `cutlass.dtype(x)`: the element type of `x`."""
        return of if isinstance(of, DType) else Unknown((), "dtype")

    @models("min")
    def least(self, site: Site, *given: Value, **options: Value) -> Value:
        """The value of `cutlass.min(...)`."""
        return shapes.extreme(min, list(given))

    @models("max")
    def greatest(self, site: Site, *given: Value, **options: Value) -> Value:
        """The value of `cutlass.max(...)`."""
        return shapes.extreme(max, list(given))

    @models(*_VIEWS)
    def view(self, site: Site, *given: Value, **named: Value) -> Value:
        """The value of a function that makes a view of its first argument, or a pointer to it."""
        return view(site.run, site.name, list(given), named)

    @models(*_LAYOUTS)
    def layout(self, site: Site, *given: Value, **named: Value) -> Value:
        """The value of a function that makes a layout; only its shape is known."""
        return shapes.layout(site.name, list(given), named)

    def other(self, site: Site) -> Value:
        """The result of any other function. Copies are recognised by the form of their names; anything else counts as
        unread if it is given tensors."""
        name = site.name
        if name.startswith(("make_tiled_tma_atom", "make_im2col_tma_atom")):
            tensors = tensor_arguments.tensors_in(site.args[1:]) + tensor_arguments.tensors_in(site.kwargs)
            return (kinds.Copy(), tensors[0] if tensors else Unknown((), name))
        if name.endswith(_COPIES):
            return kinds.Copy(fields=(("reduce", "Reduce" in name),))
        inputs = tensor_arguments.tensors_in(site.args) + tensor_arguments.tensors_in(site.kwargs)
        if inputs and not name.startswith(("from_tensor", "is_", "get_", "print", "testing")):
            return foreign.unread_call(site.run, site.path, inputs, site.loc)
        return Made(site.path)

    def decorate(self, site: Site, decorator: Value, target: Value) -> Value:
        """The result of `@cute.jit`, `@cute.kernel` or `@cute.struct`; other decorators of the DSL return the function
        unchanged."""
        path = decorator.path_of if isinstance(decorator, Decorator) else site.path
        name = path.rpartition(".")[2]
        if isinstance(target, Func) and name in _DECORATORS:
            target.language = _DECORATORS[name]
        elif isinstance(target, ClassV) and name in ("struct", "union"):
            return _struct(site.run, target)
        return target

    def call_function(self, site: Site, func: Func) -> Value:
        """Calls a function of the DSL on the host; the call of a kernel returns a launcher, which waits for
        `.launch(...)`."""
        if func.language != KERNEL:
            return NotImplemented
        env = Env({}, func.env)
        calls.bind(func, site.args, site.kwargs, env)
        return Launcher(func, env.vars)

    def element_type(self, path: str) -> str | None:
        """The element type that a path such as `cutlass.Float8E4M3FN` names; None for other paths."""
        return dtypes.from_cutlass(path.rpartition(".")[2])

    def tensor_attribute(self, tensor: Tensor, name: str) -> Value:
        """The value of an attribute that CuTe adds to tensors, such as `tensor.iterator`."""
        if name in _MARKS:
            return NotImplemented
        if name == "element_type":
            return DType(tensor.dtype)
        return Pointer(tensor, tensor.dtype) if name == "iterator" else Unknown((), name)

    def set_tensor_attribute(self, tensor: Tensor, name: str, value: Value) -> bool:
        """Executes `tensor.element_type = type`, which says how the bytes are read; returns whether the attribute is
        that one."""
        if name == "element_type" and isinstance(value, DType):
            tensor.dtype = value.name
            return True
        return False

    def tensor_method(self, tensor: Tensor, name: str) -> Value:
        """The result of a method that CuTe adds to tensors: those that mark sizes as dynamic return the tensor
        itself."""
        return tensor if name in _MARKS else NotImplemented

    def made_attribute(self, made: Made, name: str) -> Value:
        """The value of an attribute of an object that the DSL made on the host."""
        if any(key == name for key, _ in made.fields):
            found = made.get(name)
            return found if found is not None else Unknown((), name)
        if isinstance(made, kinds.Mma) and name == "shape_mnk":
            depth = made.get("k")
            return (Unknown((), "M"), Unknown((), "N"), depth if depth is not None else Unknown((), "K"))
        return made if name in ("outer", "inner") else Made(f"{made.path}.{name}")

    def made_call(self, site: Site, made: Made) -> Value:
        """The result of calling an object that the DSL made on the host, or one of its methods: sizes and layouts;
        nothing runs."""
        inputs = tensor_arguments.tensors_in(site.args) + tensor_arguments.tensors_in(site.kwargs)
        if inputs:
            name = made.path.rpartition(".")[2]
            if name in ("partition_A", "partition_B", "partition_C", "partition_S", "partition_D", "from_tensor"):
                return inputs[0] if name != "from_tensor" else Unknown((), name)
            return foreign.unread_call(site.run, made.path, inputs, site.loc)
        return Unknown((), made.path)


def _struct(interp: Run, cls: ClassV) -> Made:
    """The element types of the fields of a struct of shared memory."""
    fields = []
    for stmt in cls.node.body if cls.node is not None else ():
        if isinstance(stmt, ir.Decl) and stmt.annotation is not None:
            fields.append((stmt.name, _field_type(interp, cls, stmt.annotation)))
    return kinds.StructType(fields=tuple(fields))


def _field_type(interp: Run, cls: ClassV, node: ir.Expr) -> DType:
    """`cute.struct.Align[cute.struct.MemRange[T, n], 128]`, or T."""
    while isinstance(node, ir.Index) and isinstance(node.value, ir.Attr) and node.value.name in ("MemRange", "Align"):
        node = node.index.items[0] if isinstance(node.index, ir.Seq) else node.index
    value = interp.eval(node, names.frame_of(interp, cls.env))
    return value if isinstance(value, DType) else DType("?")


def view(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> object:
    """The value of a view of a tensor, of coordinates or of a layout, made by the function `name`."""
    base = args[0] if args else next(iter(kwargs.values()), None)
    dtype = next((a for a in (*args, *kwargs.values()) if isinstance(a, DType)), None)
    if name == "make_ptr":
        return _pointer(interp, args, dtype)
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
        return kinds.Coordinates(fields=(("shape", shapes.shape_of(args[1] if len(args) > 1 else None)),))
    if isinstance(base, Made):
        known = shapes.viewed(name, base.get("shape"), args[1:], kwargs)
        return type(base)(base.path, (("shape", known), *(f for f in base.fields if f[0] != "shape")))
    picked = shapes.viewed(name, shapes.shape_of(base), args[1:], kwargs)
    return picked if picked is not None else Unknown(interp.contents_of(base), name)


def _pointer(interp: Run, args: Sequence[Value], dtype: DType | None) -> Value:
    """`make_ptr(dtype, address, ...)`: to the tensor that lies there."""
    address = next((a for a in args if isinstance(a, (int, Tensor, Pointer)) and not isinstance(a, bool)), None)
    tensor = address if isinstance(address, Tensor) else interp.tensor_at(address)
    tensor = address.tensor if isinstance(address, Pointer) else tensor
    return Pointer(tensor, dtype.name if dtype else tensor.dtype) if tensor is not None else Unknown((), "make_ptr")


def _compiled(given: tuple[Value, ...], named: dict[str, Value]) -> Value:
    target = given[0]
    func = compiled.function(target)
    if func is None:
        return target
    options = ("options", "no_cache", "compile_only")
    names = compiled.parameters(func, target)
    bound = {**dict(zip(names, given[1:], strict=False)), **{k: v for k, v in named.items() if k not in options}}
    fixed = {p.name: bound[p.name] for p in func.node.params if _is_constexpr(p) and p.name in bound}
    return Specialized(target, fixed, scope=identity(func))


def _is_constexpr(param: ir.Param) -> bool:
    node = param.type
    while isinstance(node, ir.Index):
        node = node.value
    text = node.value if isinstance(node, ir.Const) else getattr(node, "name", getattr(node, "id", ""))
    return "Constexpr" in str(text)


# --- launches -----------------------------------------------------------------------------------------------------


def _launch(
    interp: Run, owner: Launcher, grid: Value, block: Value, shared: Value, loc: ir.Loc | None
) -> None:  # fmt: skip
    func, bound = owner.func, owner.bound
    binding = {name: host_values.argument(interp, value) for name, value in bound.items()}
    interp.session.outer = partial(host_values.outer, interp, {})
    facts = interp.analyse_kernel(func, [binding])
    launches_that_fail.check_room(interp, func, facts, block, shared, loc)
    arguments = launch_arguments.trees(interp, {**bound, **_held(bound)})
    tensors = launch_arguments.tensors(arguments.values())
    steer = interp.contents_of([grid, *(v for v in bound.values() if isinstance(v, Unknown))])
    event = launches.record(interp, func, tensors, [binding], facts, grid, loc, steer, block)
    event.attrs["numbers"], event.attrs["starts"] = (
        launches.numbers(interp, bound),
        launch_arguments.starts({name: arguments[name] for name in bound}),
    )
    event.attrs["outer"], event.attrs["scope"] = interp.session.outer, identity(func)
    pointer_tables.after_launch(tensors, event, facts)


def _held(bound: dict[str, Any]) -> dict[str, Any]:
    """What objects among a kernel's arguments hold."""
    owners = [(name, v) for name, v in bound.items() if isinstance(v, Instance)]
    return {f"{name}.{key}": value for name, owner in owners for key, value in owner.attrs.items()}


LIBRARY = Cute()
