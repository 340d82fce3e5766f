"""The parameters of torch's operations by name, and what one call gives for them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kbh_lint.base.dtypes import UNKNOWN
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import DType, Value
from kbh_lint.host.torch import promotion
from kbh_lint.host.values.tensors import Tensor

Shape = tuple[Any, ...] | None
Made = tuple[Shape, str]  # the shape and element type of one result
NOTHING: Made = (None, UNKNOWN)
REQUIRED: Any = object()
_ALIASES = {
    "axis": "dim", "axes": "dim", "keepdims": "keepdim", "self": "input", "x": "input", "a": "input", "A": "input",
    "x1": "input", "input1": "input", "anchor": "input", "x2": "other", "input2": "other", "B": "other",
    "mat2": "other", "arrays": "tensors",
}  # fmt: skip


@dataclass(slots=True)
class Called:
    """One call of an operation: the given arguments by parameter, defaults where none was given."""

    name: str
    given: dict[str, Any]
    inputs: Sequence[Tensor]  # all tensors among the arguments, in order

    def tensor(self, key: str) -> Tensor | None:
        """The tensor given for a parameter."""
        value = self.given.get(key)
        return value if isinstance(value, Tensor) else None

    def shape(self, key: str = "input") -> Shape:
        """The shape of the tensor given for a parameter."""
        found = self.tensor(key)
        return found.shape if found is not None else None

    def number(self, key: str) -> int | None:
        """The whole number given for a parameter; None when it is not known to be one."""
        value = self.given.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def axis(self, key: str = "dim", rank: int | None = None) -> int | None:
        """A dimension of the input, from the front; None when it is not known or out of range."""
        shape = self.shape()
        size = rank if rank is not None else len(shape) if shape is not None else None
        value = self.number(key)
        if value is None or size is None or not -max(size, 1) <= value < max(size, 1):
            return None
        return value % size if size else 0

    @property
    def dtype(self) -> str:
        """The element type of the first tensor, or the one that was asked for."""
        asked = self.asked
        return asked if asked is not None else self.inputs[0].dtype if self.inputs else UNKNOWN

    @property
    def asked(self) -> str | None:
        """The element type that the call names."""
        for key in ("dtype", "out_dtype"):
            if isinstance(self.given.get(key), DType):
                return str(self.given[key].name)
        return None

    @property
    def common(self) -> str:
        """The element type that all tensors of the call promote to, or the one that was asked for."""
        return self.asked or promotion.result_type(self.inputs)


Rule = Callable[[Called], "Made | list[Made]"]  # one result, or several
Table = dict[str, tuple[str, Rule]]  # parameters and rule by the name of the operation


def each(names: str, signature: str, rule: Rule) -> Table:
    """The same parameters and rule for several operations."""
    return dict.fromkeys(names.split(), (signature, rule))


@lru_cache(maxsize=512)
def _defaults(signature: str) -> dict[str, Value]:
    """What parameters are where a call gives nothing for them."""
    return {name.lstrip("*"): () if name.startswith("*") else default for name, default in parameters(signature)}


@lru_cache(maxsize=512)
def parameters(signature: str) -> tuple[tuple[str, Any], ...]:
    """Names and defaults of `"input dim=None *sizes"`; REQUIRED where there is none."""
    out: list[tuple[str, Any]] = []
    for part in signature.split():
        name, given, default = part.partition("=")
        out.append((name, ast.literal_eval(default) if given else REQUIRED))
    return tuple(out)


def bind(signature: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a call gives for each parameter; None when it is no call of this signature. Element types may stand
    anywhere, as torch's overloads allow; keywords that say nothing of a shape are not looked at.
    """
    known, out = parameters(signature), dict(_defaults(signature))
    plain = [arg for arg in args if not isinstance(arg, DType)]
    for dtype in args:
        if isinstance(dtype, DType):
            out["dtype"] = dtype
    for name, _ in known:
        if name.startswith("*"):
            out[name[1:]] = tuple(plain[0]) if len(plain) == 1 and isinstance(plain[0], (list, tuple)) else tuple(plain)
            plain = []
        elif plain:
            out[name] = plain.pop(0)
    if plain:
        return None
    for name, value in kwargs.items():
        key = name if name in out else _ALIASES.get(name, name)
        out[key] = value
    return None if any(value is REQUIRED for value in out.values()) else out
