"""Calls in kernels that are written in Python: arguments, functions, and what the language has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.kernels.core.calls import Calls
from kbh_lint.kernels.core.frames import Env
from kbh_lint.kernels.core.guards import argument
from kbh_lint.kernels.core.joins import tuple_of
from kbh_lint.kernels.core.origins import data_origins
from kbh_lint.kernels.core.parameters import matched
from kbh_lint.kernels.core.value import (
    HANDLE,
    NO_NAMES,
    UNKNOWN_V,
    Cell,
    Struct,
    Unbound,
    V,
    constant,
    leaves,
)
from kbh_lint.kernels.languages.python.arithmetic import elementwise_name
from kbh_lint.kernels.languages.python.call import Call
from kbh_lint.kernels.languages.python.expressions import asked_of_type
from kbh_lint.kernels.languages.python.functions import PYTHON

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


class PythonCalls(Calls):
    """Binds arguments as Python does, and calls what a name leads to."""

    run: PythonRun

    def bind_argument(self, name: str, value: object) -> V:
        """The abstract value of the kernel argument `name`. A field of an object depends only on itself, so that
        launches whose objects differ in other fields share results."""
        deps = frozenset((name.split(".")[0].split("[")[0],))
        if name.startswith(values.FIELD):
            deps |= {name.partition("[")[0]}
        if isinstance(value, (values.Buffer, values.Descriptor)):
            cell = self.run.memory.argument_cell(name, value)
            block = value.block if isinstance(value, values.Descriptor) else ()
            at = self.run.ranges.start(value.storage)
            return V(value.dtype, value.content, deps=NO_NAMES, cells=frozenset((cell,)), shape=block, x=at)
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
        return self.run.names.outer_value(value).with_(deps=deps)

    def run_kernel(self, func: values.Func, args: Mapping[str, object]) -> None:
        """Executes the body of the kernel `func` once."""
        env: Env = {}
        self.run.frame.outer = func.env
        for param in func.node.params:
            if param.name in args:
                given = args[param.name]
                env[param.name] = argument(self.bind_argument(param.name, given), param.name, given)
            elif param.name in func.defaults:
                env[param.name] = self.run.names.outer_value(func.defaults[param.name])
            elif param.default is not None:
                env[param.name] = self.run.expressions.eval(param.default)
            else:
                env[param.name] = V(x=Unbound(param.name), shape=())
        self.inline(func, env, func.node.loc)

    def call_value(self, callee: V, call: Call) -> V:
        """The result of calling a function, built-in or symbol."""
        const = callee.const
        if isinstance(const, values.JitFunction):
            const = const.func
        if isinstance(const, values.Func):
            return self.invoke(const, self.bind_call(const, call), call.loc)
        if isinstance(const, values.Sym):
            call.name = const.path.rpartition(".")[2]
            return self.symbol(const.path, call)
        if isinstance(const, values.DType):  # tl.int32(x)
            return self.run.numbers.convert(call.args[0], const.name, call.loc) if call.args else UNKNOWN_V
        self.run.facts.unread("a call of something unknown", call.loc)
        return self.run.memory.havoc(call.args, "?", call.loc)

    def bind_call(self, func: values.Func, call: Call) -> Env:
        """The parameters of `func` with the values that a call gives them, by name."""
        given, collected, missing = matched(func.node.params, call.args, call.kwargs)
        env: Env = {**given, **{name: V(x=items) for name, items in collected.items()}}
        for param in missing:
            if param.name in func.defaults:
                env[param.name] = self.run.names.outer_value(func.defaults[param.name])
            elif param.default is not None:
                env[param.name] = self.run.expressions.eval(param.default)
            else:
                env[param.name] = UNKNOWN_V
        return env

    def symbol(self, path: str, call: Call) -> V:
        """The result of calling a function of Python or of the language by its full path."""
        if path.startswith("builtins."):
            return PYTHON[path[9:]](call)
        if path.startswith("math."):
            return elementwise_name(call, path[5:])
        if path.startswith("dtype.") and (told := asked_of_type(*path.split(".")[1:])) is not None:
            return constant(told)
        return self.run.language.symbol(path, call)

    def builtin(self, name: str, path: str, call: Call) -> V:
        """The result of calling the operation `name` of the language."""
        made = self.run.language.function(name, call)
        if made is not None:
            return made
        if not self.run.statements.control.doubtful and self.run.language.lacks(path):
            self.run.facts.refused = self.run.facts.refused or f"{path}, which does not exist"
        return self.not_read(f"a call of {path}", call)

    def method(self, base: V, name: str, call: Call) -> V:
        """The result of calling a method, such as `x.to(...)`, `desc.load(...)` or `xs.append(...)`."""
        if isinstance(base.const, values.Func) and name in base.const.attrs:
            return self.call_value(self.run.names.outer_value(base.const.attrs[name]), call)
        if isinstance(base.x, Struct) and name in base.x.fields:
            return self.call_value(base.x.fields[name], call)
        made = self.run.language.method(base, name, call)
        if made is not None:
            return made
        func = call.node.func if isinstance(call.node, ir.Call) else None
        if name == "append" and isinstance(base.x, tuple) and isinstance(func, ir.Attr):
            self.run.names.assign(func.value, tuple_of(base.x + tuple(call.args)))
            return constant(None)
        call.args.insert(0, base)
        made = self.run.language.function(name, call)
        if made is not None:
            return made
        self.run.facts.unread(f"a call of the method {name}", call.loc)
        return self.run.memory.havoc(call.args, "?", call.loc)

    def opaque_call(self, what: str, call: Call) -> V:
        """The result of a call of a barrier, pipeline or scheduler: an object without data. A call that is given data
        is recorded as unread."""
        given = [leaf for value in (*call.args, *call.kwargs.values()) for leaf in leaves(value)]
        if any(data_origins(v.origins) or any(_counts(c) for c in v.cells) for v in given):
            return self.not_read(f"a call of {what}", call)
        return V(x=HANDLE)

    def not_read(self, what: str, call: Call) -> V:
        """The result of a call with an unknown meaning, which is recorded as unread: it may depend on all arguments."""
        self.run.facts.unread(what, call.loc)
        return self.run.memory.havoc(call.args + list(call.kwargs.values()), "?", call.loc)


def _counts(cell: Cell) -> bool:
    """Whether memory may hold what is computed on: all but the barriers and flags that a kernel allocates."""
    return (
        cell.kind == "param"
        or cell.dtype not in dtypes.INTS
        or any(data_origins(value.origins) for value in cell.entries.values())
    )
