"""Numba's kernels: what their names mean."""

from __future__ import annotations

import math

from kbh_lint.dsl.numba.functions import (
    FUNCTIONS,
    HALVES,
    INDICES,
    LANE,
    LIBDEVICE,
    METHODS,
    WARP_SIZE,
    half,
    libdevice,
)
from kbh_lint.dsl.numba.inference import InferredTypes
from kbh_lint.dsl.numba.types import PACKAGE, element
from kbh_lint.dsl.tensors.run import TensorLanguage
from kbh_lint.kernels.core.value import V, constant
from kbh_lint.kernels.languages.python import arithmetic
from kbh_lint.kernels.languages.python.call import Call

_PLACES = frozenset(f"{PACKAGE}.cuda.{name}" for name in INDICES)
_NUMBERS = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e, "tau": math.tau}


class Numba(TensorLanguage):
    """`@cuda.jit` functions."""

    packages = (PACKAGE,)
    operations = FUNCTIONS
    methods = METHODS
    numbers = InferredTypes
    rows = True

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name` stands for in the module `path`, as in `numba.float32` or `np.int8`; None for
        other names."""
        return element(path, name)

    def attribute(self, path: str, name: str, deps: frozenset[str]) -> V:
        """The value of a module's attribute, such as `cuda.threadIdx.x`, `cuda.laneid` or `math.inf`."""
        full = f"{path}.{name}"
        if full == LANE or path in _PLACES:
            return V("i64", "i64", shape=())
        if full == WARP_SIZE:
            return constant(32)
        if path in ("math", "numpy") and name in _NUMBERS:
            return constant(_NUMBERS[name], deps)
        return super().attribute(path, name, deps)

    def symbol(self, path: str, call: Call) -> V:
        """The result of calling a function of the package or of numpy by its full path."""
        root, _, name = path.partition(".")
        if root == PACKAGE:
            if name.startswith(LIBDEVICE):
                return libdevice(name.removeprefix(LIBDEVICE), call)
            if name.startswith(HALVES):
                return half(name.removeprefix(HALVES), call)
            handler = self.operations.get(name)
            return handler(call) if handler is not None else call.m.calls.not_read(f"a call of {path}", call)
        dtype = element(root, name)
        if dtype is not None and call.args:
            return call.m.numbers.convert(call.args[0], dtype, call.loc)
        made = arithmetic.elementwise_name(call, name) if root in ("numpy", "operator") else None
        return super().symbol(path, call) if made is None or not made.origins and not call.args else made


LANGUAGE = Numba()
