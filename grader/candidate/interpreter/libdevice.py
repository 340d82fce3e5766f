"""Functions of libdevice in Triton's interpreter, as far as their results are known; others are refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import triton.language as tl

from grader.candidate.interpreter.formats import Array
from grader.candidate.interpreter.ops import Handle, InterpreterRefusal

__all__ = ["EXACT", "patch"]

MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")


def _fused(x: Array, y: Array, z: Array) -> Array:
    result: Array = (x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)).astype(np.float32)
    return result


EXACT: Mapping[str, Callable[..., Array]] = {
    "add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide, "sqrt_rn": np.sqrt,
    "fma_rn": _fused, "sqrt": np.sqrt, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "rint": np.rint, "copysign": np.copysign, "isnan": np.isnan, "isinf": np.isinf, "exp": np.exp, "exp2": np.exp2,
    "log": np.log, "log2": np.log2, "log1p": np.log1p, "expm1": np.expm1, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos, "pow": np.power,
}  # fmt: skip
"""On fp32: rounded as IEEE asks, or within the last bit where a GPU's own result may be off by two."""


def patch() -> None:
    """Replace every function of the two libdevice modules, for good: nothing else runs in such a process."""
    for path in MODULES:
        module = importlib.import_module(path)
        for name, member in list(vars(module).items()):
            if callable(member) and not name.startswith("_") and getattr(member, "__module__", "") == path:
                setattr(module, name, _function(name))


def _function(name: str) -> Callable[..., Any]:
    compute = EXACT.get(name)

    def call(*args: object, **_: object) -> Any:
        if compute is None:
            raise InterpreterRefusal(f"libdevice.{name}")
        tensors = [_tensor(arg) for arg in args]
        if any(tensor.dtype != tl.float32 for tensor in tensors):
            raise InterpreterRefusal(f"libdevice.{name} on values that are not fp32")
        data = compute(*(tensor.handle.data for tensor in tensors))
        dtype = tl.int1 if data.dtype == np.bool_ else tl.float32
        block = max((tensor for tensor in tensors), key=lambda tensor: len(tensor.shape))
        return tl.tensor(Handle(data, dtype), block.type.with_element_ty(dtype) if block.type.is_block() else dtype)

    return call


def _tensor(arg: object) -> Any:
    """Numbers beside tensors are fp32."""
    value = tl.core._unwrap_if_constexpr(arg)
    if isinstance(value, tl.tensor):
        return value
    return tl.tensor(Handle(np.array([value], dtype=np.float32), tl.float32), tl.float32)
