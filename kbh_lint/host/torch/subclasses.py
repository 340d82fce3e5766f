"""Subclasses of `torch.Tensor` whose methods run when a result is used, and views that compute when they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.torch import recording, tensor_views
from kbh_lint.host.values.objects import ClassV
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

SUBCLASSING = frozenset({"as_subclass", "_make_subclass", "_make_wrapper_subclass"})
_LAZY = frozenset({"_neg_view", "conj", "_conj", "adjoint", "H", "mH"})
_RESOLVING = frozenset({"resolve_neg", "resolve_conj", "clone"})
_COMPLEX = frozenset({"view_as_complex", "complex", "polar"})


def subclass(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `x.as_subclass(cls)`, `torch.Tensor._make_subclass(cls, x)` and `_make_wrapper_subclass(cls, size,
    dtype=...)`."""
    kinds = [a for a in args if isinstance(a, ClassV)]
    source = next((a for a in args if isinstance(a, Tensor)), None)
    if source is None:
        source = recording.make(interp, None, "?", "empty")
    made = tensor_views.alias(source, source.shape, source.strides)
    made.attrs["subclass"] = kinds[0] if kinds else None
    return made


def viewed(name: str, source: Value, value: Value, loc: ir.Loc | None) -> Any:
    """Returns the result `value` of a tensor method; a view that torch computes only when it is read is marked as
    lazy."""
    if not isinstance(value, Tensor):
        return value
    base = name.rpartition(".")[2]
    if base in _LAZY and (base == "_neg_view" or isinstance(source, Tensor) and source.attrs.get("complex")):
        value = tensor_views.alias(value, value.shape, value.strides)
        value.attrs.update(lazy=base, lazy_loc=loc, complex=base != "_neg_view")
    elif base in _RESOLVING and value.attrs.get("lazy"):
        value = tensor_views.alias(value, value.shape, value.strides)
        value.attrs.pop("lazy")
    elif base in _COMPLEX:
        value.attrs["complex"] = True
    return value


def part(owner: Tensor, name: str) -> Tensor | None:
    """Returns `z.imag` or `z.real` of a complex tensor as a view; None for all else."""
    if name not in ("imag", "real") or not owner.attrs.get("complex"):
        return None
    made = tensor_views.alias(owner, None, None, "f32")  # the shape of a complex view is not followed
    made.attrs.pop("complex")
    return made
