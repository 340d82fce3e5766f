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
    """One call of an operation: its arguments by parameter, with defaults filled in."""

    name: str
    given: dict[str, Any]
    inputs: Sequence[Tensor]  # all tensors among the arguments, in order

    def tensor(self, key: str) -> Tensor | None:
        """Returns the tensor given for the parameter `key`; None where there is none."""
        value = self.given.get(key)
        return value if isinstance(value, Tensor) else None

    def shape(self, key: str = "input") -> Shape:
        """Returns the shape of the tensor given for the parameter `key`; None where not known."""
        found = self.tensor(key)
        return found.shape if found is not None else None

    def number(self, key: str) -> int | None:
        """Returns the whole number given for the parameter `key`; None when it is not known to be one."""
        value = self.given.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def axis(self, key: str = "dim", rank: int | None = None) -> int | None:
        """Returns a dimension of the input given for the parameter `key`, counted from the front; None when not known
        or out of range."""
        shape = self.shape()
        size = rank if rank is not None else len(shape) if shape is not None else None
        value = self.number(key)
        if value is None or size is None or not -max(size, 1) <= value < max(size, 1):
            return None
        return value % size if size else 0

    @property
    def dtype(self) -> str:
        """The element type that the call asks for, or else that of its first tensor."""
        asked = self.asked
        return asked if asked is not None else self.inputs[0].dtype if self.inputs else UNKNOWN

    @property
    def asked(self) -> str | None:
        """The element type that the call names; None where it names none."""
        for key in ("dtype", "out_dtype"):
            if isinstance(self.given.get(key), DType):
                return str(self.given[key].name)
        return None

    @property
    def common(self) -> str:
        """The element type that the call asks for, or else the one to which all its tensors promote."""
        return self.asked or promotion.result_type(self.inputs)


Rule = Callable[[Called], "Made | list[Made]"]  # one result, or several
Table = dict[str, tuple[str, Rule]]  # parameters and rule by the name of the operation


def each(names: str, signature: str, rule: Rule) -> Table:
    """Makes a table in which several operations share a signature and a rule."""
    return dict.fromkeys(names.split(), (signature, rule))


@lru_cache(maxsize=512)
def _defaults(signature: str) -> dict[str, Value]:
    """What parameters are where a call gives nothing for them."""
    return {name.lstrip("*"): () if name.startswith("*") else default for name, default in parameters(signature)}


@lru_cache(maxsize=512)
def parameters(signature: str) -> tuple[tuple[str, Any], ...]:
    """Parses a signature `"input dim=None *sizes"` into names and defaults; REQUIRED stands for no default."""
    out: list[tuple[str, Any]] = []
    for part in signature.split():
        name, given, default = part.partition("=")
        out.append((name, ast.literal_eval(default) if given else REQUIRED))
    return tuple(out)


def bind(signature: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Binds the arguments of a call to a signature; returns values by parameter, or None when the call does not fit.
    Element types may stand anywhere, as torch's overloads allow; keywords that say nothing of a shape are ignored."""
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
