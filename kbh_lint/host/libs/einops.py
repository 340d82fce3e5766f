"""einops on abstract tensors: layout by pattern, no arithmetic of its own (but for reduce)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Value
from kbh_lint.host.torch import recording, torchlib
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    pass

MAX_PATTERN = 400


class Einops(Library):
    """The package `einops`."""

    @models("einsum")
    def einsum(self, site: Site, *tensors_and_pattern: Value) -> Value:
        """Models `einops.einsum(*tensors, pattern)` by torch's einsum."""
        *tensors, pattern = tensors_and_pattern
        return torchlib.call(site.run, "torch.einsum", [pattern, *tensors], {}, site.loc)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): rearrange, repeat, reduce, pack and unpack, as
        (tensor, pattern, axis sizes by name)."""
        tensors = tensor_arguments.tensors_in(site.args[:1])
        if not tensors:
            return Unknown(tuple(site.run.contents_of(site.args)), site.path)
        pattern = next((str(a) for a in site.args[1:] if isinstance(a, str)), "")
        sizes = {k: v for k, v in site.kwargs.items() if isinstance(v, int)}
        shape = rearranged(tensors[0].shape, pattern, sizes)
        kind = "op" if site.name == "reduce" else "copy"
        event = recording.record(site.run, kind, site.name, site.loc, tensors, {"cast": False})
        return recording.make(site.run, shape, tensors[0].dtype, event=event, device=tensors[0].device)


def rearranged(shape: tuple[Value, ...] | None, pattern: str, sizes: dict[str, int]) -> tuple[Value, ...] | None:
    """Returns the shape after a pattern such as `b (n c) h d -> b h n c d`; None when it cannot be told."""
    left, arrow, right = pattern.partition("->")
    if shape is None or not arrow or len(pattern) > MAX_PATTERN or "..." in pattern:
        return None
    groups = _groups(left)
    if len(groups) != len(shape):
        return None
    known: dict[str, Any] = dict(sizes)
    for group, size in zip(groups, shape, strict=True):
        missing = [axis for axis in group if axis not in known and axis != "1"]
        if len(missing) == 1 and isinstance(size, int):
            done = 1
            for axis in group:
                done *= known.get(axis, 1) if axis not in missing else 1
            known[missing[0]] = size // done if done else None
    out: list[Any] = []
    for group in _groups(right):
        total: Any = 1
        for axis in group:
            size = 1 if axis == "1" else known.get(axis)
            total = total * size if isinstance(total, int) and isinstance(size, int) else None
        out.append(total)
    return tuple(out)


def _groups(side: str) -> list[list[str]]:
    """`b (n c) d` -> [[b], [n, c], [d]]."""
    out: list[list[str]] = []
    inside: list[str] | None = None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            inside = []
        elif word == ")":
            out.append(inside or [])
            inside = None
        elif inside is not None:
            inside.append(word)
        else:
            out.append([word])
    return out
