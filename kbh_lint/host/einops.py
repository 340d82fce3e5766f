"""einops: patterns over named axes, read as the views, reductions and products of torch that they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_letters
from typing import Any

from kbh_lint import ir
from kbh_lint.host import torchlib
from kbh_lint.host.tensors import Tensor

MAX_AXES = 40
Groups = list[tuple[str, ...]]
_PART = re.compile(r"\(([^()]*)\)|(\S+)")


@dataclass(frozen=True, slots=True)
class Plan:
    """Split the axes to `split`, drop the axes `reduced`, order the rest by `order`, insert `added`, merge to `merged`.

    Sizes are None where they are not known; `added` holds the full shape with the new axes, `blank` the same with new
    axes of size 1.
    """

    split: tuple[int | None, ...]
    reduced: tuple[int, ...]
    order: tuple[int, ...]
    blank: tuple[int | None, ...]
    added: tuple[int | None, ...]
    merged: tuple[int | None, ...]


def groups(side: str, rank: int | None = None) -> Groups | None:
    """The axes of one side of a pattern; `...` becomes as many axes as `rank` leaves. None when it cannot be read."""
    found: Groups = [tuple(inside.split()) if not name else (name,) for inside, name in _PART.findall(side)]
    if rank is not None and ("...",) in found:
        at = found.index(("...",))
        found[at : at + 1] = [(f"...{i}",) for i in range(rank - len(found) + 1)]
    # A group of its own is kept for every 1, which no other side names.
    found = [tuple(name for name in group if name != "1") for group in found]
    flat = [name for group in found for name in group]
    return found if len(flat) <= MAX_AXES and len(set(flat)) == len(flat) else None


def plan(pattern: str, shape: tuple[Any, ...], sizes: Mapping[str, Any]) -> Plan | None:
    """How to get from `shape` to what `pattern` asks for; None when the pattern does not fit."""
    before, arrow, after = pattern.partition("->")
    left = groups(before, len(shape))
    if not arrow or left is None or len(left) != len(shape):
        return None
    extra = [name for group in left for name in group if name.startswith("...")]
    if "..." in after:
        after = after.replace("...", " ".join(extra))
    right = groups(after)
    if right is None:
        return None
    known: dict[str, int | None] = {}
    for group, total in zip(left, shape, strict=True):
        _measure(group, total, sizes, known)
    flat = [name for group in left for name in group]
    wanted = [name for group in right for name in group]
    kept = [name for name in flat if name in wanted]
    for name in wanted:
        if name not in flat:
            size = sizes.get(name)
            known[name] = size if isinstance(size, int) else None
    return Plan(
        split=tuple(known[name] for name in flat),
        reduced=tuple(i for i, name in enumerate(flat) if name not in wanted),
        order=tuple(kept.index(name) for name in wanted if name in kept),
        blank=tuple(known[name] if name in kept else 1 for name in wanted),
        added=tuple(known[name] for name in wanted),
        merged=tuple(_times([known[name] for name in group]) for group in right),
    )


def _measure(group: tuple[str, ...], total: Any, sizes: Mapping[str, Any], known: dict[str, int | None]) -> None:
    """Sizes of the axes of one group: as given, and the one that is left from the whole."""
    open_names = []
    product = 1
    for name in group:
        size = sizes.get(name)
        if isinstance(size, int) and size > 0:
            known[name] = size
            product *= size
        else:
            open_names.append(name)
    for name in open_names:
        whole = isinstance(total, int) and len(open_names) == 1
        known[name] = total // product if whole else None


def _times(sizes: list[int | None]) -> int | None:
    product = 1
    for size in sizes:
        if size is None:
            return None
        product *= size
    return product


def call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """`einops.rearrange`, `repeat`, `reduce`, `einsum`; another function makes an unknown tensor."""
    name = path.rsplit(".", 1)[-1]
    if name == "einsum":
        return _einsum(interp, args, loc)
    tensor = args[0] if args else kwargs.get("tensor")
    if isinstance(tensor, (list, tuple)) and torchlib.tensors_in(tensor):
        tensor = torchlib.call(interp, "torch.stack", [list(tensor)], {}, loc)
    pattern = args[1] if len(args) > 1 else kwargs.get("pattern")
    if not isinstance(tensor, Tensor):
        return tensor
    steps = plan(str(pattern), tensor.shape, kwargs) if isinstance(pattern, str) and tensor.shape is not None else None
    if steps is None or name not in ("rearrange", "repeat", "reduce"):
        event = torchlib.record(interp, "copy", name, loc, [tensor], {"cast": False})
        return torchlib.make(interp, None, tensor.dtype, event=event, device=tensor.device)
    if steps.split != tensor.shape:
        tensor = torchlib.view(interp, "reshape", [tensor, steps.split], {}, loc)
    if steps.reduced:
        operation = args[2] if len(args) > 2 else kwargs.get("reduction", "sum")
        how = f"torch.{operation}" if isinstance(operation, str) else "torch.sum"
        tensor = torchlib.call(
            interp, how.replace(".max", ".amax").replace(".min", ".amin"), [tensor, steps.reduced], {}, loc
        )
    if steps.order != tuple(range(len(steps.order))):
        tensor = torchlib.view(interp, "permute", [tensor, steps.order], {}, loc)
    if steps.blank != steps.added:
        tensor = torchlib.view(interp, "reshape", [tensor, steps.blank], {}, loc)
        tensor = torchlib.view(interp, "expand", [tensor, steps.added], {}, loc)
    if steps.merged != steps.added:
        tensor = torchlib.view(interp, "reshape", [tensor, steps.merged], {}, loc)
    return tensor


def _einsum(interp: Any, args: list[Any], loc: ir.Loc | None) -> Any:
    tensors = torchlib.tensors_in(args)
    pattern = next((a for a in args if isinstance(a, str)), "")
    names = list(dict.fromkeys(re.findall(r"[^\s,>()-]+", pattern)))
    letters = dict(zip(names, ascii_letters, strict=False))
    equation = re.sub(r"[^\s,>()-]+", lambda found: letters.get(found[0], "?"), pattern).replace(" ", "")
    return torchlib.call(interp, "torch.einsum", [equation, *tensors], {}, loc)
