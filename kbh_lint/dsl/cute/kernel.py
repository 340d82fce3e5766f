"""CuTe DSL kernels: tensors over memory, what their indices mean, objects that the host made, calls.

A CuTe tensor is a value with the cells of memory behind it. Layouts, partitions and slices only say which part of it a
thread works on, so all of them are views of the same cells. Loading gives a value without cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.dsl.cute import instructions as ops
from kbh_lint.dsl.cute.functions import METHODS, symbol
from kbh_lint.dsl.cute.memory import TENSOR_MEMORY, struct_fields
from kbh_lint.dsl.triton.arithmetic import elementwise_name
from kbh_lint.dsl.triton.call import Call
from kbh_lint.dsl.triton.functions import PYTHON
from kbh_lint.dsl.triton.kernel import TritonMachine
from kbh_lint.kernels.core.expressions import Env
from kbh_lint.kernels.core.joins import join, tuple_of
from kbh_lint.kernels.core.origins import data_origins, flagged, union
from kbh_lint.kernels.core.value import HANDLE, NOTHING, UNKNOWN_V, Cell, CType, Struct, Unbound, V, constant, leaves

_TYPE_NAMES = frozenset(("element_type", "dtype", "value_type"))
_PARTS = {"atom": 0, "tma_tensor": 1}  # of what makes a TMA atom
_SELF_NAMES = frozenset(("iterator", "ptr", "data", "value", "ir_value", "T", "llvm_ptr"))
_SIZE_NAMES = frozenset(("shape", "stride", "layout", "leading_dim", "alignment", "memspace", "type", "size"))
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and_": "&", "or_": "|"}
_PLAIN = (int, float, str, bytes, values.DType, values.Sym, values.Func, values.Made, values.JitFunction)


class CuteMachine(TritonMachine):
    """Runs the body of a `@cute.kernel` function."""

    def __init__(self, name: str, fuel: int, outer: Callable[[Any], Any] | None = None) -> None:
        super().__init__(name, fuel)
        self.convert_outer = outer
        self.memories: dict[Any, Cell] = {}  # registers, shared and tensor memory, by the place that allocates it
        self.attributes: dict[tuple[int, str], V] = {}  # what the kernel assigned to attributes of objects
        self.rounds: list[int] = []  # where the loops that are unrolled stand: memory made in one is its own
        self.objects: dict[Any, values.Made] = {}  # those that the kernel makes, by the place of the call

    # --- arguments and names ---

    def bind_argument(self, name: str, value: Any) -> V:
        if isinstance(value, values.Made):
            return V(const=value, x=None)
        if isinstance(value, (values.DType, values.Sym, values.Func, values.JitFunction)):
            return constant(value)
        if isinstance(value, values.Scalar) and value.value is values.UNKNOWN and value.dtype == "?":
            return V(x=Unbound(name))  # a number, or a tensor in something that was not looked into
        return super().bind_argument(name, value)

    def outer_value(self, value: Any) -> V:
        if value is None or isinstance(value, (*_PLAIN, tuple, list)) or value is values.UNKNOWN:
            return super().outer_value(value)
        seen = self.convert_outer(value) if self.convert_outer is not None else values.UNKNOWN
        return V(x=HANDLE) if seen is values.UNKNOWN else constant(seen)

    def memory(self, kind: str, dtype: str, loc: ir.Loc, name: str = "") -> V:
        """A tensor over memory that is allocated here; one call of a function has one of it. A block has one tensor
        memory, whichever warp asks for it."""
        key = name if name == TENSOR_MEMORY else (kind, name, loc, self.frame.key, *self.rounds)
        cell = self.memories.get(key)
        if cell is None:
            cell = self.memories[key] = Cell(kind, f"{name or kind} {len(self.memories)}", -1, dtype)
        return V(dtype, dtype, cells=frozenset((cell,)))

    # --- attributes ---

    def e_attr(self, node: ir.Attr) -> V:
        base = self.eval(node.value)
        const = base.const
        if isinstance(const, values.Sym) and const.path.partition(".")[0] == "cutlass":
            dtype = dtypes.from_cutlass(node.name)
            if dtype is not None:
                return constant(values.DType(dtype), base.deps)
            return constant(32) if node.name == "WARP_SIZE" else constant(values.Sym(f"{const.path}.{node.name}"))
        if isinstance(const, (values.Sym, values.DType)):
            return _type_attribute(const, node.name) if isinstance(const, values.DType) else self._named(node, base)
        if isinstance(const, values.Made):
            return self.made_attribute(base, const, node)
        if isinstance(base.x, Struct):
            return base.x.fields.get(node.name, UNKNOWN_V)
        if node.name in _TYPE_NAMES:
            return constant(values.DType(base.dtype)) if base.dtype not in ("?", "") else UNKNOWN_V
        if isinstance(base.x, tuple) and node.name in _PARTS and len(base.x) > _PARTS[node.name]:
            item: V = base.x[_PARTS[node.name]]
            return item
        if node.name in _SIZE_NAMES:
            return V("i32", "i32")
        if node.name in _SELF_NAMES:
            return base
        return V(x=HANDLE)

    def _named(self, node: ir.Attr, base: V) -> V:
        """An attribute of a module other than `cutlass`."""
        path = f"{base.const.path}.{node.name}"
        dtype = dtypes.from_torch(node.name) if base.const.path == "torch" else None
        return constant(values.DType(dtype)) if dtype is not None else constant(values.Sym(path))

    def made_attribute(self, base: V, made: values.Made, node: ir.Attr) -> V:
        """An attribute of something that the host, or a constructor, made."""
        name = node.name
        assigned = self.attributes.get((id(made.methods), name)) if made.path == ops.OBJECT else None
        if assigned is not None:
            return assigned
        if any(key == name for key, _ in made.fields):
            return self.bind_argument(f"self.{name}" if made.path == ops.OBJECT else name, made.get(name))
        if made.path == ops.MMA and name == "shape_mnk":
            sizes = (NOTHING, NOTHING, made.get("k") or NOTHING)
            return V(x=tuple(V("i32", "i32", const=size, shape=()) for size in sizes))
        if made.path == ops.LAYOUT and name in ("outer", "inner"):
            return base
        found = made.methods.vars.get(name) if made.methods is not None else None
        if isinstance(found, values.Made) and found.path == ops.PROPERTY:
            return self.invoke(
                found.get("func"), self.bind_call(found.get("func"), Call(self, [base], {}, node)), node.loc
            )
        if found is not None and (made.path == ops.CLASS or not isinstance(found, (values.Func, values.Made))):
            return self.outer_value(found)
        if made.path == ops.OBJECT and found is None:
            self.unread(f"an attribute {name} that nothing assigned on the host", node.loc)
        return V(x=HANDLE)

    def _unrolled(self, node: ir.For, items: tuple[V, ...]) -> bool:
        if node.orelse or len(items) < 2:
            return super()._unrolled(node, items)
        for at, item in enumerate(items):
            self.rounds.append(at)
            super()._unrolled(node, (item,))
            self.rounds.pop()
        return True

    # --- indices ---

    def coordinate(self, node: Any) -> tuple[V, bool]:
        """The value of an index, and whether it leaves a mode open, which makes a view of what is indexed."""
        if isinstance(node, ir.SliceE):
            return UNKNOWN_V, True
        if isinstance(node, ir.Seq):
            parts = [self.coordinate(item) for item in node.items]
            return tuple_of([value for value, _ in parts]), any(open_ for _, open_ in parts)
        value = self.eval(node)
        return value, any(leaf.const is None for leaf in leaves(value))

    def placed(self, base: V, index: V) -> V:
        """A tensor at a coordinate: loads through it depend on where the coordinate came from."""
        origins = base.origins
        for leaf in leaves(index):
            origins = union(origins, leaf.origins)
        return base.with_(origins=origins, shape=None)

    def e_index(self, node: ir.Index) -> V:
        base = self.eval(node.value)
        if isinstance(base.x, tuple) or isinstance(base.const, (values.Sym, values.DType)):
            return base if base.known else super().e_index(node)
        index, is_view = self.coordinate(node.index)
        if isinstance(base.const, values.Made) and base.const.path == ops.TABLE:
            found = index.known and any(key == index.const for key, _ in base.const.fields)
            return self.bind_argument(str(index.const), base.const.get(index.const)) if found else V(x=HANDLE)
        if base.cells:
            at = self.placed(base, index)
            return at if is_view else self.load(at, "?", node.loc).with_(const=NOTHING)
        if isinstance(base.x, Unbound):
            self.unread(f"what the argument {base.x.path} holds", node.loc)
        if isinstance(base.const, values.Made):
            coordinates = base.const.path == ops.COORDINATES and not is_view
            return V("i32", "i32", shape=()) if coordinates else base
        return base.with_(const=NOTHING, origins=union(base.origins, flagged(index.origins, "index")))

    def assign_other(self, target: ir.Expr, value: V) -> None:
        if isinstance(target, ir.Attr):
            base = self.eval(target.value)
            if isinstance(base.const, values.Made) and base.const.path == ops.OBJECT:
                self.set_attribute(base.const, target.name, value)
            elif isinstance(base.x, Struct):
                self.assign(target.value, base.with_(x=Struct({**base.x.fields, target.name: value}, base.x.type)))
            return
        base = self.eval(target.value) if isinstance(target, ir.Index) else UNKNOWN_V
        if not base.cells or not isinstance(target, ir.Index):
            if base.x is HANDLE or isinstance(base.const, values.Made):
                self.unread("a store to memory that is not known", target.loc)
            else:
                super().assign_other(target, value)
            return
        index, _ = self.coordinate(target.index)
        if value.cells and not all(cell.kind == "param" and value.dtype == "i64" for cell in value.cells):
            value = self.load(value, "?", target.loc)
        self.store(self.placed(base, index), value, target.loc)

    # --- objects ---

    def set_attribute(self, made: values.Made, name: str, value: V) -> None:
        """A weak update, for a loop may have assigned it before; calls that read it run again."""
        key = (id(made.methods), name)
        old = self.attributes.get(key)
        if old is None and any(field == name for field, _ in made.fields):
            old = self.bind_argument(f"self.{name}", made.get(name))
        new = value if old is None else join(old, value)
        if new is not old:
            self.attributes[key] = new
            self.memory_version += 1

    def instantiate(self, cls: values.Made, call: Call) -> V:
        """An object of a class of the submission; one place of the program makes one of them."""
        made = self.objects.get(call.loc)
        if made is None:
            members = dict(cls.methods.vars) if cls.methods is not None else {}
            made = self.objects[call.loc] = values.Made(ops.OBJECT, (), values.Env(members))
        found = V(const=made)
        start = made.methods.vars.get("__init__") if made.methods is not None else None
        if isinstance(start, values.Func):
            self.method(found, "__init__", call)
            return found
        names = cls.get("names", ())
        for name, value in (*zip(names, call.args, strict=False), *call.kwargs.items()):
            self.set_attribute(made, name, value)
        return found

    # --- calls ---

    def s_class(self, node: ir.ClassDef) -> bool:
        """`@cute.struct` inside a kernel: its fields are memory."""
        fields = tuple((s.name, self.field_type(s.annotation)) for s in node.body if isinstance(s, ir.Decl))
        self.frame.env[node.name] = constant(values.Made(ops.STRUCT, fields))
        return True

    def field_type(self, node: Any) -> Any:
        """The element type of a field: `cute.struct.Align[cute.struct.MemRange[T, n], 128]`, or T."""
        while isinstance(node, ir.Index):
            inner = node.index.items[0] if isinstance(node.index, ir.Seq) else node.index
            outer = node.value
            if not isinstance(outer, ir.Attr) or outer.name not in ("MemRange", "Align"):
                break
            node = inner
        value = self.eval(node) if node is not None else UNKNOWN_V
        return value.const if isinstance(value.const, values.DType) else values.DType("?")

    def symbol(self, path: str, call: Call) -> V:
        if path.partition(".")[0] == "cutlass":
            return symbol(path, call)
        if path.startswith("builtins."):
            return PYTHON[path[9:]](call)
        if path.startswith("operator.") and len(call.args) == 2:
            return self.binary(_OPERATORS.get(path[9:], "+"), call.args[0], call.args[1], call.loc)
        if path.startswith("math."):
            return elementwise_name(call, path[5:])
        if path == "types.SimpleNamespace":
            return V(x=Struct(dict(call.kwargs), CType()))
        return self.not_read(f"a call of {path}", call)

    def call_value(self, callee: V, call: Call) -> V:
        const = callee.const
        if isinstance(const, values.Made) and const.path == ops.STATIC:
            func = const.get("func")
            return self.invoke(func, self.bind_call(func, call), call.loc)
        if isinstance(const, values.Made) and const.path == ops.LAYOUT:  # layout(coordinate)
            return V("i32", "i32", shape=())
        if isinstance(const, values.Made) and const.path == ops.STRUCT:  # over memory that was allocated as bytes
            return struct_fields(const, call)
        if isinstance(const, values.Made) and const.path == ops.CLASS:
            return self.instantiate(const, call)
        if isinstance(const, values.Made) and const.methods is not None:
            return self.method(callee, "__call__", call)
        if callee.x is HANDLE or isinstance(const, values.Made):
            return self.opaque_call("an object that was made outside the kernel", call)
        return super().call_value(callee, call)

    def method(self, base: V, name: str, call: Call) -> V:
        made = base.const
        if isinstance(made, values.Made) and made.methods is not None:
            found = made.methods.vars.get(name)
            if isinstance(found, values.Made) and found.path == ops.CLASSMETHOD:
                call.args.insert(0, base)
                return self.invoke(found.get("func"), self.bind_call(found.get("func"), call), call.loc)
            if isinstance(found, values.Func):
                if made.path != ops.CLASS:
                    call.args.insert(0, base)
                return self.invoke(found, self.bind_call(found, call), call.loc)
            if isinstance(found, values.Made) and found.path == ops.STATIC:
                return self.invoke(found.get("func"), self.bind_call(found.get("func"), call), call.loc)
            if any(key == name for key, _ in made.fields):
                return self.call_value(self.bind_argument(name, made.get(name)), call)
        handler = METHODS.get(name)
        if handler is not None:
            return handler(base, call)
        if isinstance(base.x, Struct) and name in base.x.fields:
            return self.call_value(base.x.fields[name], call)
        if isinstance(made, values.Made) or base.x is HANDLE:
            return self.opaque_call(f"the method {name}", call)
        if name == "append" and isinstance(base.x, tuple):
            return super().method(base, name, call)
        call.args.insert(0, base)
        value = elementwise_name(call, name)
        return value if value is not UNKNOWN_V else self.opaque_call(f"the method {name}", call)

    def opaque_call(self, what: str, call: Call) -> V:
        """Barriers, pipelines, schedulers: nothing of numbers, unless they are given some."""
        given = [leaf for value in (*call.args, *call.kwargs.values()) for leaf in leaves(value)]
        if any(data_origins(v.origins) or any(_counts(c) for c in v.cells) for v in given):
            return self.not_read(f"a call of {what}", call)
        return V(x=HANDLE)

    def not_read(self, what: str, call: Call) -> V:
        """A call whose meaning is not known, of something that holds data."""
        self.unread(what, call.loc)
        return self.havoc(call.args + list(call.kwargs.values()), "?", call.loc)

    def bind_call(self, func: values.Func, call: Call) -> Env:
        env = super().bind_call(func, call)
        rest = func.node.params[-1] if func.node.params else None
        if rest is not None and rest.kind == "doublestar":
            named = {p.name for p in func.node.params}
            extra = {k: v for k, v in call.kwargs.items() if k not in named}
            env[rest.name] = V(x=Struct(extra, CType())) if extra else UNKNOWN_V
        return env


def _counts(cell: Cell) -> bool:
    """Whether memory may hold what is computed on: all but the barriers and flags that a kernel allocates."""
    return (
        cell.kind == "param"
        or cell.dtype not in dtypes.INTS
        or any(data_origins(value.origins) for value in cell.entries.values())
    )


def _type_attribute(dtype: values.DType, name: str) -> V:
    """`Float32.width`, `Float32.inf`."""
    bits = dtypes.BITS.get(dtype.name)
    if name == "width" and bits is not None:
        return constant(bits if dtype.name != "bool" else 1)
    if name in ("is_float", "is_integer"):
        return constant((dtype.name in dtypes.FLOATS) == (name == "is_float"))
    if name in ("inf", "nan", "zero"):
        return V(dtype.name, dtype.name, const=float(name.replace("zero", "0")), shape=())
    return constant(dtype) if name in ("mlir_type", "dtype") else UNKNOWN_V


MACHINE = CuteMachine
