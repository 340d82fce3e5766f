"""`out=`: the tensors that a caller brings for the results of an operation of torch, and how these are written there.

As torch does it: one of another shape than its result is given that shape, and one whose type is of a kind that cannot
hold the result's (fractions in whole numbers, whole numbers in truth values) is an error. Who spells it otherwise hands
it on as the keyword: `at::mm_out(out, a, b)` in `host.cpp.library_work` (`aten`), `numpy.add(a, b, out)` in
`host.libs.lib_torch`. What makes tensors, `torch.zeros(3, out=y)`, is in `tensor_makers`: it may be of any type.
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


def given(kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that a call is given as `out=`."""
    return tensor_arguments.tensors_in([kwargs["out"]]) if kwargs.get("out") is not None else []


def without(kwargs: Mapping[str, Value]) -> dict[str, Value]:
    """The keywords that an operation reads."""
    return {key: value for key, value in kwargs.items() if key != "out"}


def write(
    interp: Run, brought: list[Tensor], event: Event, found: Made | list[Made], lies: Callable[[Shape], Shape]
) -> None:
    """`event` writes its results, of the shapes and types `found`, into what the caller brought for them; `lies` says
    with which strides a new tensor of a shape would lie in memory."""
    results = found if isinstance(found, list) else [found]
    for number, target in enumerate(brought):
        shape, dtype = results[number] if number < len(results) else (None, dtypes.UNKNOWN)
        if not _holds(target.dtype, dtype):
            interp.fails("builtins.RuntimeError", event.loc)
        shaped(target, shape, lies)
        recording.write(interp, target, event)


def shaped(target: Tensor, shape: Shape, lies: Callable[[Shape], Shape]) -> None:
    """What was brought is given the shape of a result."""
    if shape is not None and target.shape is not None and _differ(shape, target.shape):
        target.shape, target.strides = shape, lies(shape) or row_major(shape)


def _holds(target: str, result: str) -> bool:
    """Whether a tensor of one type may take a result of another, as `torch.can_cast(result, target)` says."""
    return _KIND.get(target, 3) >= _KIND.get(result, 0)


def _differ(one: tuple[Value, ...], other: tuple[Value, ...]) -> bool:
    """Whether two shapes are known to be two: a size that is not known may be any."""
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
