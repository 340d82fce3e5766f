"""What str() gives, without asking the program; a made-up but stable text for objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kbh_lint.base.dtypes import torch_name
from kbh_lint.base.values import DType, Value
from kbh_lint.host.values import bounds
from kbh_lint.host.values.named_objects import BuiltinObject, Device
from kbh_lint.host.values.objects import LibObject, kind_of
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source import embedded

if TYPE_CHECKING:
    pass


def show(value: Value) -> str:
    """Returns what `str(value)` gives, without calling methods of the submission; objects get a made-up but stable
    text."""
    if isinstance(value, (str, int, float, bool, type(None), bytes)):
        return str(value)
    if isinstance(value, Unknown):
        return embedded.doubted(repr(value), value)
    if isinstance(value, (list, tuple, set, dict)) and bounds.is_small(value):
        try:
            shown = str(value)[:10_000]
        except Exception:
            return kind_of(value)
        return _with_doubt(shown, value.values() if isinstance(value, dict) else value)
    if isinstance(value, DType):
        return f"torch.{torch_name(value.name)}"
    if isinstance(value, BuiltinObject) and "args" in value.attrs:
        given = value.attrs["args"]  # an exception
        return show(given[0]) if len(given) == 1 else show(tuple(given)) if given else ""
    if isinstance(value, LibObject) and "path" in value.attrs:
        return str(value.attrs["path"])
    if isinstance(value, Device):
        return str(value.attrs.get("type", "cuda"))
    return f"<{kind_of(value)}>"


def _with_doubt(text: str, parts: Iterable[Value]) -> str:
    """A text that was made of `parts`, with those that are not known, some levels deep."""
    level = list(parts)
    for _ in range(4):
        for part in level:
            if isinstance(part, Unknown):
                text = embedded.doubted(text, part)
                break
        level = [item for part in level if isinstance(part, (list, tuple)) for item in part][: bounds.FREE_ITEMS]
    return text
