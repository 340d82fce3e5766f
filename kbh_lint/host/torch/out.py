"""`out=`: the tensors that a caller brings for the results of an operation of torch, and how these are written there.

As torch does it: one of another shape than its result is given that shape. Of which type it may be depends on the
operation (`holds`): most convert to any type of a kind that holds the result's (no fractions in whole numbers, no whole
numbers in truth values); products, selections and orders take the type of their result alone; a sum is made in the type
of what was brought. Another type is an error. Who spells it otherwise hands on the keyword: `at::mm_out(out, a, b)`
in `host.cpp.library_work` (`aten`), `numpy.add(a, b, out)` in `host.libs.lib_torch`. What makes tensors,
`torch.zeros(3, out=y)`, is in `tensor_makers`: it may be of any type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes
from kbh_lint.base.values import Value
from kbh_lint.host.torch import recording
from kbh_lint.host.torch.signatures import Made, Shape
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.tensors import Event, Tensor, row_major

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# Each kind holds those before it: truth values, whole numbers, fractions, complex numbers.
_KIND = {**dict.fromkeys(dtypes.INTS, 1), "bool": 0, **dict.fromkeys(dtypes.FLOATS, 2), "c64": 3, "c128": 3}
EXACT = frozenset(
    "linear mm bmm mv dot vdot inner matmul addmm addmv addbmm baddbmm tensordot multi_dot softmax log_softmax gelu "
    "hardshrink softshrink softplus logsigmoid abs absolute neg negative sign sgn round floor ceil trunc fix frac "
    "nan_to_num conj_physical bitwise_not float_power heaviside signbit isin isneginf isposinf lerp where tril triu "
    "diag all any amax amin aminmax argmax argmin argsort bucketize searchsorted cummax cummin logcumsumexp sort msort "
    "topk kthvalue median nanmedian mode quantile nanquantile histc norm vector_norm gather index_select masked_select "
    "take take_along_dim nonzero multinomial renorm complex polar frexp det slogdet inv inv_ex inverse qr eigh "
    "cholesky_ex solve".split()
)
"""Operations that take `out=` of the type of their result alone."""
IN_ITS_TYPE = frozenset("sum prod cumsum cumprod".split())
"""Operations that compute in the type of what was brought: running ones in any but truth values."""


def given(kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Returns the tensors that a call is given as `out=`."""
    return tensor_arguments.tensors_in([kwargs["out"]]) if kwargs.get("out") is not None else []


def without(kwargs: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the keywords of a call without `out`."""
    return {key: value for key, value in kwargs.items() if key != "out"}


def write(
    interp: Run, brought: list[Tensor], event: Event, found: Made | list[Made], lies: Callable[[Shape], Shape]
) -> None:
    """Writes the results of `event`, of the shapes and types `found`, into the tensors `brought` as `out=`; `lies`
    returns the strides of a new tensor of a shape."""
    results = found if isinstance(found, list) else [found]
    converts = event.attrs.get("symbol", "").startswith(("numpy.", "cupy"))  # wherever it can
    name = "" if converts else event.name
    for number, target in enumerate(brought):
        shape, dtype = results[number] if number < len(results) else (None, dtypes.UNKNOWN)
        if not holds(name, target.dtype, dtype):
            interp.fails("builtins.RuntimeError", event.loc)
        shaped(target, shape, lies)
        recording.write(interp, target, event)


def shaped(target: Tensor, shape: Shape, lies: Callable[[Shape], Shape]) -> None:
    """Resizes a tensor given as `out=` to the shape of the result."""
    if shape is not None and target.shape is not None and _differ(shape, target.shape):
        target.shape, target.strides = shape, lies(shape) or row_major(shape)


def holds(name: str, target: str, result: str) -> bool:
    """Whether the operation `name` writes a result of the type `result` into a tensor of the type `target`; True where
    a type is not known."""
    if name in EXACT and dtypes.UNKNOWN not in (target, result):
        return target == result
    converted = name in IN_ITS_TYPE and not (name.startswith("cum") and target == "bool")
    return converted or _KIND.get(target, 3) >= _KIND.get(result, 0)


def _differ(one: tuple[Value, ...], other: tuple[Value, ...]) -> bool:
    """Whether two shapes are known to be two: a size that is not known may be any."""
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
