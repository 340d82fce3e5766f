"""Triton kernels: names, attributes, indexing and calls of the Python dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.dsl.triton import gluon
from kbh_lint.dsl.triton.arithmetic import elementwise_name
from kbh_lint.dsl.triton.call import Call
from kbh_lint.dsl.triton.functions import BUILTINS, METHODS, PYTHON
from kbh_lint.dsl.triton.names import is_missing
from kbh_lint.frontends.walk import by_node
from kbh_lint.kernels.core.branches import Side
from kbh_lint.kernels.core.expressions import Env
from kbh_lint.kernels.core.facts import Origins
from kbh_lint.kernels.core.identities import Identities, nothing_left
from kbh_lint.kernels.core.joins import join, mix, tuple_of
from kbh_lint.kernels.core.machine import Machine
from kbh_lint.kernels.core.origins import NO_ORIGINS
from kbh_lint.kernels.core.value import NO_NAMES, NOTHING, UNKNOWN_V, Cell, Shape, Struct, Unbound, V, constant, leaves

MAX_TILE = 1 << 20  # elements: Triton's own bound
_PREFIXES = (
    "triton.language.extra.cuda.libdevice.", "triton.language.extra.libdevice.", "triton.language.extra.cuda.",
    "triton.language.math.", "triton.language.standard.", "triton.language.core.", "triton.language.libdevice.",
    "triton.language.", "triton.tools.ragged_tma.",
)  # fmt: skip

_identities = by_node(Identities)


class TritonMachine(Machine):
    """Runs the body of a `@triton.jit` function."""

    def __init__(self, name: str, fuel: int, outer: Callable[[Any], Any] | None = None) -> None:
        super().__init__(name, fuel)
        self.sizes: dict[int, frozenset[str]] = {}  # the arguments behind each tile size
        self.doubtful = 0  # branches around what runs that may be left out
        self.shared: dict[ir.Loc, Cell] = {}  # memory that Gluon kernels allocate, by place

    def sized(self, value: V) -> None:
        """Notes which arguments a tile size came from."""
        for part in leaves(value):
            if isinstance(part.const, int) and part.deps:
                self.sizes[part.const] = self.sizes.get(part.const, NO_NAMES) | part.deps

    def tile(self, shape: Shape, sizes: Iterable[V]) -> None:
        """A tile of a shape is made, from these sizes. Triton has tiles of powers of two, and of so many elements; in
        a branch that a compile-time argument may leave out, it does not matter."""
        known = [size for size in shape if size is not None]
        fits = all(size > 0 and not size & (size - 1) for size in known) and prod(known) <= MAX_TILE
        if fits or self.doubtful or self.refused:
            return
        for size in sizes:
            self.decide(size)
        self.refused = "a tile of a size that Triton does not have"

    def branches(
        self, bodies: Sequence[Iterable[Any]], sides: Sequence[tuple[Side, ...]] = (), test: Origins = NO_ORIGINS
    ) -> bool:
        self.doubtful += 1
        try:
            return super().branches(bodies, sides, test)
        finally:
            self.doubtful -= 1

    # --- arguments ---

    def bind_argument(self, name: str, value: Any) -> V:
        """A kernel argument as an abstract value."""
        deps = frozenset((name.split(".")[0].split("[")[0],))
        if isinstance(value, (values.Buffer, values.Descriptor)):
            cell = self.param_cell(name, value.storage, value.dtype, value.content)
            block = value.block if isinstance(value, values.Descriptor) else ()
            return V(value.dtype, value.content, deps=NO_NAMES, cells=frozenset((cell,)), shape=block)
        if isinstance(value, values.Scalar):
            dtype = value.dtype
            if value.value is values.UNKNOWN:
                return V(dtype, dtype, deps=deps, shape=())
            if dtype == "?":
                dtype = "f32" if isinstance(value.value, float) else "bool" if isinstance(value.value, bool) else "i32"
            return V(dtype, dtype, const=value.value, deps=deps, shape=())
        if isinstance(value, (tuple, list)):
            return tuple_of([self.bind_argument(f"{name}[{i}]", item) for i, item in enumerate(value[:512])])
        if value is values.UNKNOWN:
            return V(x=Unbound(name), deps=deps, shape=())
        return self.outer_value(value).with_(deps=deps)

    def run_kernel(self, func: values.Func, args: Mapping[str, Any]) -> None:
        """Executes the kernel's body once."""
        env: Env = {}
        self.frame.outer = func.env
        for param in func.node.params:
            if param.name in args:
                env[param.name] = self.bind_argument(param.name, args[param.name])
            elif param.name in func.defaults:
                env[param.name] = self.outer_value(func.defaults[param.name])
            elif param.default is not None:
                env[param.name] = self.eval(param.default)
            else:
                env[param.name] = V(x=Unbound(param.name), shape=())
        self.inline(func, env, func.node.loc)

    # --- names ---

    def outer_value(self, value: Any) -> V:
        if value is values.UNKNOWN:
            return UNKNOWN_V
        if isinstance(value, (tuple, list)):
            return tuple_of([self.outer_value(item) for item in value[:512]])
        return constant(value)

    def missing(self, name: str, loc: ir.Loc) -> V:
        return constant(values.Sym("builtins." + name)) if name in PYTHON else UNKNOWN_V

    # --- what does not depend on an operand ---

    def identities(self) -> Identities:
        """Of the function that runs."""
        return _identities(self.frame.func.node)

    def e_cond(self, node: ir.Cond) -> V:
        self.doubtful += 1
        made = super().e_cond(node)
        self.doubtful -= 1
        kept = self.identities().kept(node.test, node.yes, node.no) if made.origins and self.frame.func else None
        return made if kept is None else self.eval(kept)

    def e_binary(self, node: ir.Binary) -> V:
        made = super().e_binary(node)
        gone = made.origins and made.dtype in dtypes.INTS and not made.cells and nothing_left(node)
        return V(made.dtype, made.dtype, shape=made.shape) if gone else made

    # --- attributes, indexing ---

    def e_attr(self, node: ir.Attr) -> V:
        base = self.eval(node.value)
        const = base.const
        if isinstance(const, values.Sym):
            path = f"{const.path}.{node.name}"
            if const.path in ("triton.language", "triton.language.core", gluon.LANGUAGE, "torch"):
                dtype = dtypes.from_triton(node.name) if const.path != "torch" else dtypes.from_torch(node.name)
                if dtype is not None:
                    return constant(values.DType(dtype), base.deps)
            return constant(values.Sym(path), base.deps)
        if isinstance(const, values.DType):
            return dtype_attribute(const.name, node.name, base.deps)
        beside = values.module_names(const)
        if beside is not None:
            return self.outer_value(beside.get(node.name, values.UNKNOWN))
        return self.tensor_attribute(base, node)

    def tensor_attribute(self, base: V, node: ir.Attr) -> V:
        """`x.dtype`, `x.T`, `x.shape`, a field of a struct."""
        name = node.name
        if name in ("dtype", "type", "element_ty", "elem_type"):
            known = base.dtype not in ("?", "")
            deps = frozenset(cell.name for cell in base.cells) | base.deps
            return constant(values.DType(base.dtype), deps) if known else UNKNOWN_V
        if name == "T":
            return base if base.shape is None else base.with_(shape=base.shape[::-1])
        if name == "shape" and isinstance(base.x, tuple):  # of `block_type`
            return base
        if name == "shape":
            return V(x=tuple(V("i32", const=NOTHING if n is None else n) for n in base.shape or ()), deps=base.deps)
        if name == "value":
            return base
        if name in ("block_shape", "block_type"):
            return V(x=tuple(constant(n) for n in base.shape or ()))
        if isinstance(base.x, Struct):
            return base.x.fields.get(name, UNKNOWN_V)
        if isinstance(base.x, Unbound):
            return V(x=Unbound(f"{base.x.path}.{name}"))
        return base.with_(const=NOTHING, x=None, shape=None)

    def e_index(self, node: ir.Index) -> V:
        base = self.eval(node.value)
        if isinstance(base.x, tuple):
            if isinstance(node.index, ir.SliceE):
                return self._tuple_slice(base, node.index)
            index = UNKNOWN_V if isinstance(node.index, ir.Seq) else self.eval(node.index)
            if isinstance(index.const, int) and -len(base.x) <= index.const < len(base.x):
                self.decide(index)
                item: V = base.x[index.const]
                return item
            return mix(list(base.x))
        return self._sliced(base, list(node.index.items) if isinstance(node.index, ir.Seq) else [node.index])

    def _tuple_slice(self, base: V, node: ir.SliceE) -> V:
        bounds = [None if part is None else self.eval(part).const for part in (node.lower, node.upper, node.step)]
        if all(b is None or isinstance(b, int) for b in bounds) and bounds[2] != 0:
            return V(x=base.x[bounds[0] : bounds[1] : bounds[2]])
        return base

    def _sliced(self, base: V, parts: list[Any]) -> V:
        """`x[:, None]` and the like only change the shape."""
        if base.shape is None:
            return base
        shape: list[int | None] = []
        left = list(base.shape)
        for part in parts:
            if isinstance(part, ir.Const) and part.value is None:
                shape.append(1)
            elif isinstance(part, ir.SliceE):
                shape.append(left.pop(0) if left else None)
            elif left:
                left.pop(0)
        return base.with_(shape=tuple(shape) + tuple(left), const=base.const)

    def assign_other(self, target: ir.Expr, value: V) -> None:
        """`xs[i] = value` of a list, a list of lists or a tile."""
        if not isinstance(target, ir.Index):
            return
        base = self.eval(target.value)
        if not isinstance(base.x, tuple):
            self.assign(target.value, join(base, value.with_(const=NOTHING, shape=base.shape, x=None)))
            return
        index = NOTHING if isinstance(target.index, ir.SliceE) else self.eval(target.index).const
        if isinstance(index, int) and -len(base.x) <= index < len(base.x):
            index %= len(base.x)
            changed = [value if i == index else item for i, item in enumerate(base.x)]
        else:
            changed = [join(item, value) for item in base.x]
        self.assign(target.value, tuple_of(changed, base.deps))

    # --- calls ---

    def e_call(self, node: ir.Call) -> V:
        args = self.items(node.args)
        kwargs = {name: self.eval(value) for name, value in node.keywords if name is not None}
        func = node.func
        if isinstance(func, ir.Attr):
            base = self.eval(func.value)
            outside = isinstance(base.const, (values.Sym, values.DType)) or values.module_names(base.const) is not None
            if not outside:
                return self.method(base, func.name, Call(self, args, kwargs, node, func.name))
        callee = self.eval(func)
        return self.call_value(callee, Call(self, args, kwargs, node))

    def call_value(self, callee: V, call: Call) -> V:
        """Calls a known function, built-in or symbol."""
        const = callee.const
        if isinstance(const, values.JitFunction):
            const = const.func
        if isinstance(const, values.Func):
            return self.invoke(const, self.bind_call(const, call), call.loc)
        if isinstance(const, values.Sym):
            call.name = const.path.rpartition(".")[2]
            return self.symbol(const.path, call)
        if isinstance(const, values.DType):  # tl.int32(x)
            return self.convert(call.args[0], const.name, call.loc) if call.args else UNKNOWN_V
        self.unread("a call of something unknown", call.loc)
        return self.havoc(call.args, "?", call.loc)

    def bind_call(self, func: values.Func, call: Call) -> Env:
        """Parameters of an inlined function by name."""
        env: Env = {}
        position = 0
        for param in func.node.params:
            if param.kind == "star":
                env[param.name] = V(x=tuple(call.args[position:]))
                position = len(call.args)
            elif position < len(call.args) and param.kind == "positional":
                env[param.name] = call.args[position]
                position += 1
            elif param.name in call.kwargs:
                env[param.name] = call.kwargs[param.name]
            elif param.name in func.defaults:
                env[param.name] = self.outer_value(func.defaults[param.name])
            elif param.default is not None:
                env[param.name] = self.eval(param.default)
            else:
                env[param.name] = UNKNOWN_V
        return env

    def symbol(self, path: str, call: Call) -> V:
        """Calls something of triton.language or of Python by its full path."""
        if path.startswith("builtins."):
            return PYTHON[path[9:]](call)
        for prefix in _PREFIXES:
            if path.startswith(prefix):
                return self.builtin(path[len(prefix) :].rsplit(".", 1)[-1], path, call)
        if path.startswith(gluon.PREFIX):
            made = gluon.symbol(path, call)
            return made if made is not None else self.builtin(path.rpartition(".")[2], path, call)
        if path in ("triton.cdiv", "triton.next_power_of_2"):
            return BUILTINS[path[7:]](call)
        if path.startswith("math."):
            return elementwise_name(call, path[5:])
        self.unread(f"a call of {path}", call.loc)
        return self.havoc(call.args + list(call.kwargs.values()), "?", call.loc)

    def builtin(self, name: str, path: str, call: Call) -> V:
        """Calls a built-in of triton.language."""
        handler = BUILTINS.get(name)
        if handler is not None:
            return handler(call)
        made = elementwise_name(call, name)
        if made is not UNKNOWN_V:
            return made
        if not self.doubtful and is_missing(path):
            self.refused = self.refused or f"{path}, which does not exist"
        self.unread(f"a call of {path}", call.loc)
        return self.havoc(call.args + list(call.kwargs.values()), "?", call.loc)

    def method(self, base: V, name: str, call: Call) -> V:
        """`x.to(...)`, `desc.load(...)`, `xs.append(...)`."""
        if isinstance(base.const, values.Func) and name in base.const.attrs:
            return self.call_value(self.outer_value(base.const.attrs[name]), call)
        if isinstance(base.x, Struct) and name in base.x.fields:
            return self.call_value(base.x.fields[name], call)
        if gluon.is_memory(base) and name in gluon.METHODS:
            return gluon.METHODS[name](base, call)
        handler = METHODS.get(name)
        if handler is not None:
            return handler(base, call)
        if name == "append" and isinstance(base.x, tuple) and isinstance(call.node.func, ir.Attr):
            self.assign(call.node.func.value, tuple_of(base.x + tuple(call.args)))
            return constant(None)
        if name in BUILTINS:
            call.args.insert(0, base)
            return BUILTINS[name](call)
        call.args.insert(0, base)
        made = elementwise_name(call, name)
        if made is not UNKNOWN_V:
            return made
        self.unread(f"a call of the method {name}", call.loc)
        return self.havoc(call.args, "?", call.loc)


def dtype_attribute(dtype: str, name: str, deps: frozenset[str]) -> V:
    """`dtype.element_ty`, `dtype.is_fp8()` (the call of the result is handled as a method)."""
    if name in ("element_ty", "scalar", "dtype"):
        return constant(values.DType(dtype), deps)
    if name in ("primitive_bitwidth", "itemsize"):
        bits = dtypes.BITS.get(dtype)
        if bits is None:
            return UNKNOWN_V
        return constant(bits if name == "primitive_bitwidth" else bits // 8, deps)
    return constant(values.Sym(f"dtype.{dtype}.{name}"), deps)


MACHINE = TritonMachine
