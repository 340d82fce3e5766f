"""Calls in kernels on tensors: of objects, of classes, and of what was made outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kbh_lint.base import values
from kbh_lint.dsl.tensors import kinds
from kbh_lint.dsl.tensors.memory import struct_fields
from kbh_lint.kernels.core import guards
from kbh_lint.kernels.core.frames import Env
from kbh_lint.kernels.core.value import HANDLE, UNKNOWN_V, CType, Struct, Unbound, V, constant
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.kernels.languages.python.calls import PythonCalls

if TYPE_CHECKING:
    from kbh_lint.dsl.tensors.run import TensorRun

from kbh_lint.kernels.languages.python.arithmetic import elementwise_name

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and_": "&", "or_": "|"}


class TensorCalls(PythonCalls):
    """Binds and calls arguments and functions that are objects of the host."""

    run: TensorRun

    def run_kernel(self, func: values.Func, args: Mapping[str, object]) -> None:
        ids = [id(one) for one in guards.objects(args.values())]
        self.run.objects.given = {one: at for at, one in enumerate(ids) if ids.count(one) == 1}
        super().run_kernel(func, args)

    def bind_argument(self, name: str, value: object) -> V:
        if isinstance(value, values.Made):
            return V(const=value, x=None)
        if isinstance(value, (values.DType, values.Sym, values.Func, values.JitFunction)):
            return constant(value)
        if isinstance(value, values.Scalar) and value.value is values.UNKNOWN and value.dtype == "?":
            return V(x=Unbound(name))  # a number, or a tensor in something that was not looked into
        return super().bind_argument(name, value)

    def symbol(self, path: str, call: Call) -> V:
        if path.startswith("operator.") and len(call.args) == 2:
            return self.run.numbers.binary(_OPERATORS.get(path[9:], "+"), call.args[0], call.args[1], call.loc)
        if path == "types.SimpleNamespace":
            return V(x=Struct(dict(call.kwargs), CType()))
        if path == "contextlib.nullcontext":
            return first(call) if call.args else constant(None)
        return super().symbol(path, call)

    def call_value(self, callee: V, call: Call) -> V:
        const = callee.const
        if isinstance(const, kinds.Static):
            func = const.get("func")
            return self.invoke(func, self.bind_call(func, call), call.loc)
        if isinstance(const, kinds.Layout):  # layout(coordinate)
            return V("i32", "i32", shape=())
        if isinstance(const, kinds.StructType):  # over memory that was allocated as bytes
            return struct_fields(const, call)
        if isinstance(const, kinds.Class):
            return self.run.objects.instantiate(const, call)
        if isinstance(const, values.Made) and const.methods is not None:
            return self.method(callee, "__call__", call)
        if callee.x is HANDLE or isinstance(const, values.Made):
            return self.opaque_call("an object that was made outside the kernel", call)
        return super().call_value(callee, call)

    def method(self, base: V, name: str, call: Call) -> V:
        made = base.const
        if isinstance(made, values.Made) and made.methods is not None:
            found = made.methods.vars.get(name)
            if isinstance(found, kinds.ClassMethod):
                call.args.insert(0, base)
                return self.invoke(found.get("func"), self.bind_call(found.get("func"), call), call.loc)
            if isinstance(found, values.Func):
                if not isinstance(made, kinds.Class):
                    call.args.insert(0, base)
                return self.invoke(found, self.bind_call(found, call), call.loc)
            if isinstance(found, kinds.Static):
                return self.invoke(found.get("func"), self.bind_call(found.get("func"), call), call.loc)
            if any(key == name for key, _ in made.fields):
                return self.call_value(self.bind_argument(name, made.get(name)), call)
        result = self.run.language.method(base, name, call)
        if result is not None:
            return result
        if isinstance(base.x, Struct) and name in base.x.fields:
            return self.call_value(base.x.fields[name], call)
        if isinstance(made, values.Made) or base.x is HANDLE:
            return self.opaque_call(f"the method {name}", call)
        if name == "append" and isinstance(base.x, tuple):
            return super().method(base, name, call)
        call.args.insert(0, base)
        value = elementwise_name(call, name)
        return value if value is not UNKNOWN_V else self.opaque_call(f"the method {name}", call)

    def bind_call(self, func: values.Func, call: Call) -> Env:
        env = super().bind_call(func, call)
        rest = func.node.params[-1] if func.node.params else None
        if rest is not None and rest.kind == "doublestar":
            named = {p.name for p in func.node.params}
            extra = {k: v for k, v in call.kwargs.items() if k not in named}
            env[rest.name] = V(x=Struct(extra, CType())) if extra else UNKNOWN_V
        return env
