"""Tensors of one whole number that a submission keeps: flags and counters, by the value that they hold.

A number is known from where it was made until something else writes there; launches are analysed at it (see
`kernels.scalars`) and may leave another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base.dtypes import INTS
from kbh_lint.base.values import UNKNOWN, Scalar, Value
from kbh_lint.host.values.cpp_objects import Pointer
from kbh_lint.host.values.tensors import Content, Tensor
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.kernels.core.flags import PREFIX

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MARK = "number"  # in the notes of the content that `Memory.numbers` speaks of
_MADE = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "zero": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
_FILLED = frozenset(("full", "full_like", "new_full", "fill", "tensor", "as_tensor", "new_tensor", "scalar_tensor"))


def noticed(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], made: Value) -> None:
    """Remembers the number in the tensor `made`, which a call of torch returned or changed, if it holds one whole
    number."""
    if not isinstance(made, Tensor) or not _is_flag(made):
        return
    value = _MADE.get(name)
    if name in _FILLED:
        given = kwargs.get("fill_value", kwargs.get("data", args[-1] if args else None))
        while isinstance(given, (list, tuple)) and len(given) == 1:
            given = given[0]
        value = int(given) if isinstance(given, (bool, int)) else None
    if value is not None:
        _put(interp, made, value)


def stepped(interp: Run, name: str, args: list[Any]) -> None:
    """Updates the known number of a flag after `flag += step` or `flag -= step`. The caller has checked both by
    `known`."""
    target, step = args[0], args[1]
    old = interp.memory.numbers.get(target.storage.ident)
    _put(interp, target, old + step if name == "add" else old - step)


def known(interp: Run, value: Value) -> int | None:
    """Returns the known number that a one-element tensor holds; None where there is none."""
    tensor = value.tensor if isinstance(value, Pointer) else value
    if not isinstance(tensor, Tensor) or not tensor.storage.content.notes.get(MARK) or not _is_flag(tensor):
        return None
    found = interp.memory.numbers.get(tensor.storage.ident)
    return found if isinstance(found, int) else None


def values(interp: Run, bound: Mapping[str, Value]) -> dict[str, Scalar]:
    """Returns the known numbers of the flags among a launch's arguments, as arguments of its analysis."""
    if not interp.memory.numbers:
        return {}
    found = {name: known(interp, value) for name, value in bound.items()}
    return {PREFIX + name: Scalar(number) for name, number in found.items() if number is not None}


def after_launch(interp: Run, bound: Mapping[str, Value], facts: Sequence[KernelFacts]) -> None:
    """Updates flags to the numbers that a launch stored to them, where all its configurations store the same."""
    if not any(f.settings for f in facts):
        return
    for name, left in facts[0].settings:
        value = bound.get(name)
        tensor = value.tensor if isinstance(value, Pointer) else value
        if isinstance(tensor, Tensor) and left is not UNKNOWN and all((name, left) in f.settings for f in facts):
            storage = tensor.storage
            storage.content = Content(storage, storage.content.dtype, interp.trace.call_index, "constant")
            _put(interp, tensor, int(left))


def _put(interp: Run, tensor: Tensor, value: int) -> None:
    interp.memory.numbers[tensor.storage.ident] = value
    tensor.storage.content.notes[MARK] = True


def _is_flag(tensor: Tensor) -> bool:
    whole = tensor.shape is not None and not tensor.is_slice
    return whole and tensor.dtype in INTS and all(size == 1 for size in tensor.shape or ())
