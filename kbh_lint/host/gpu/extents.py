"""Whether a launch that writes to a tensor that something else computed can have overwritten all of it.

A store counts as one to the whole tensor, for that a grid covers it can rarely be proved. What was there before stays a
part of the tensor only where the programs of the launch are too few, however their tiles lie, or where all its stores
are seen to begin after the tensor does, or to end before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kbh_lint import registry
from kbh_lint.base.dtypes import STORED
from kbh_lint.base.values import Buffer, Descriptor, Scalar
from kbh_lint.host.gpu.kernel_cache import identity, normal_key
from kbh_lint.host.values.tensors import Event, Tensor
from kbh_lint.kernels.extents.stores import store_extents


def keeps_a_part(tensor: Tensor, event: Event) -> bool:
    """Whether a launch overwrites a tensor without reading it, and a part of the former values stays: values computed
    elsewhere, by the same launch in an earlier iteration of this call, or in an earlier call, which covered all of it
    then."""
    content = tensor.storage.content
    made = content.event
    if made is None or any(read is content for read, _ in event.reads):
        return False
    again = made.kind == "launch" and made.loc == event.loc and not _alike(made, event)
    if again and made.call == event.call and (_goes_on(made, event) or _is_section(tensor, event, made)):
        _forget_earlier_calls(tensor, event)
        return True
    if made.loc != event.loc or content.previous is not None:
        return _leaves_some(tensor, event)
    before = again and made.call < event.call
    # that the tensor holds what the earlier launch wrote says nothing of that launch
    return before and _leaves_some(tensor, event) and not _leaves_some(tensor, made, on_data=False)


def _alike(one: Event, other: Event) -> bool:
    """Whether two launches of a kernel have the same grid and are given the same numbers."""
    same = one.attrs["grid"] == other.attrs["grid"] and len(one.attrs["bindings"]) == len(other.attrs["bindings"])
    return same and all(
        _same_numbers(a, b) for a, b in zip(one.attrs["bindings"], other.attrs["bindings"], strict=True)
    )


def _goes_on(one: Event, other: Event) -> bool:
    """Whether a launch in a loop is told from the one before by a number alone, and may write the next part.

    One that has another grid or was compiled for other numbers is a try of the same work, a tuner's, unless it cannot
    be all of the work (`_is_section`): then it is that of one section, say.
    """
    compiled = [
        [{name: value for name, value in binding.items() if isinstance(value, (int, float))} for binding in bindings]
        for bindings in (one.attrs["bindings"], other.attrs["bindings"])
    ]
    return one.attrs["grid"] == other.attrs["grid"] and compiled[0] == compiled[1]


def _same_numbers(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two bindings give the same numbers to the same names."""
    return _numbers(one, other) == _numbers(other, one)


def _numbers(binding: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    """The numbers of a binding that are other objects than those of another one."""
    return {
        name: value
        for name, value in binding.items()
        if value is not other.get(name) and isinstance(value, (int, float, Scalar))
    }


def _leaves_some(tensor: Tensor, event: Event, *, on_data: bool = True) -> bool:
    """Whether the programs of a launch cannot write all of a tensor's memory, or may leave out any of it."""
    return _too_few(tensor, event) or _left_out(tensor, event, on_data=on_data)


def _is_section(tensor: Tensor, event: Event, before: Event) -> bool:
    """Whether the stores of a launch cannot write all of a tensor's memory, whatever conditions on data come to, and it
    does not begin where the one before begins: then it is a try with less of a workspace."""
    if not (_too_few(tensor, event) or _left_out(tensor, event, on_data=False)):
        return False
    return not (_begins(tensor, event) and _begins(tensor, before))


def _begins(tensor: Tensor, event: Event) -> bool:
    """Whether the stores of a launch are seen to begin where a tensor does."""
    ident, bindings = tensor.storage.ident, event.attrs["bindings"]
    stores = [s for facts in event.attrs["distinct"] for s in facts.stores if s.storage == ident]
    if len(bindings) != 1 or not stores or tensor.offset != 0:
        return False
    dims = [tuple(d) if isinstance(d, (tuple, list)) else (d,) for d in (event.attrs["grid"], event.attrs["block"])]
    starts = store_extents(event.attrs["kernel"], bindings[0], *dims).starts
    return all(starts.get((ident, s.loc)) == 0 for s in stores)


def _left_out(tensor: Tensor, event: Event, *, on_data: bool = True) -> bool:
    """Whether the stores of a launch may leave a part of a tensor as it was: by masks and bounds all of them begin
    after the tensor does, or end before, or each depends on a condition on data and the tensor holds what this call
    wrote before."""
    attrs = event.attrs
    kernel, bindings, grid, block = attrs["kernel"], attrs["bindings"], attrs["grid"], attrs["block"]
    size, ident = tensor.storage.size, tensor.storage.ident
    stores = [s for facts in event.attrs["distinct"] for s in facts.stores if s.storage == ident]
    if len(bindings) != 1 or not stores:
        return False
    dims = [tuple(d) if isinstance(d, (tuple, list)) else (d,) for d in (grid, block)]
    found = store_extents(kernel, bindings[0], *dims)
    if on_data and tensor.storage.content.call == event.call and all((ident, s.loc) in found.doubtful for s in stores):
        return True
    bits = counted_bits(event, ident)
    if bits is None or any(f.unread for f in attrs["distinct"]) or not isinstance(size, int) or tensor.offset != 0:
        return False
    if all(found.starts.get((ident, s.loc), 0) > 0 for s in stores):
        return True
    ends = [found.ends.get((ident, s.loc)) for s in stores]
    return all(n is not None and n * bits < size * 8 for n in ends)


def counted_bits(event: Event, ident: int) -> int | None:
    """The bits of an element of a storage as a launch counts it, whose pointer may have been cast to another type; None
    where its pointers do not agree."""
    given = [value for value in event.attrs["bindings"][0].values() if getattr(value, "storage", -1) == ident]
    widths = {STORED.get(value.dtype) for value in given}
    return next(iter(widths)) if len(widths) == 1 else None


def _too_few(tensor: Tensor, event: Event) -> bool:
    """Whether the programs of a launch store too few elements, however their tiles lie."""
    most, size = _most(tensor, event), tensor.storage.size
    return most is not None and isinstance(size, int) and most < size * 8


def _most(tensor: Tensor, event: Event) -> int | None:
    """The bits that the programs of a launch store of a tensor at most; None where that is not known."""
    kernel, bindings, grid = event.attrs["kernel"], event.attrs["bindings"], event.attrs["grid"]
    ident = tensor.storage.ident
    read = kernel.node.kind == "python" and registry.of_kernel(kernel.language).stored_elements is not None
    if not read or len(bindings) != 1 or not isinstance(tensor.storage.size, int):
        return None
    counts = list(grid) if isinstance(grid, (tuple, list)) else [grid]
    sizes = _all_of([n if isinstance(n, int) else None for n in counts])
    if sizes is None or any(f.unread for f in event.attrs["distinct"]):
        return None
    stored = _all_of([n for name, n in _stored(event, bindings[0]).items() if bindings[0][name].storage == ident])
    stores = [s for facts in event.attrs["distinct"] for s in facts.stores if s.storage == ident]
    bits = _all_of([STORED.get(s.dtype) for s in stores])
    return None if stored is None or bits is None else math.prod(sizes) * sum(stored) * max(bits)


def _all_of(numbers: list[int | None]) -> list[int] | None:
    """Some numbers, where there are any and all are known."""
    known = [n for n in numbers if n is not None]
    return known if known and len(known) == len(numbers) else None


def _forget_earlier_calls(tensor: Tensor, event: Event) -> None:
    """Where the launches of a call may write all of a tensor together, what earlier calls left in it is no part of it:
    the first of them that left some of that was followed by others."""
    content, parts = tensor.storage.content, [_most(tensor, event)]
    while content.event is not None and content.event.kind == "launch" and content.call == event.call:
        parts.append(_most(tensor, content.event))
        if content.previous is None or content.previous.call < event.call:
            break
        content = content.previous
    known = [part for part in parts if part is not None]
    if content.call == event.call and (len(known) < len(parts) or sum(known) >= (tensor.storage.size or 0) * 8):
        content.previous = None


def _stored(event: Event, binding: Mapping[str, Any]) -> dict[str, int | None]:
    """The elements that one program stores behind each argument, found once for equal launches."""
    cache: dict[Any, dict[str, int | None]] = event.attrs["answered"].here
    key = ("extent", identity(event.attrs["kernel"]), normal_key(dict(binding)))
    if key not in cache:
        kernel = event.attrs["kernel"]
        found = registry.of_kernel(kernel.language).stored_elements(
            kernel, binding, event.attrs["answered"].budgets.kernels
        )
        memory = {name: arg for name, arg in binding.items() if isinstance(arg, (Buffer, Descriptor))}
        cache[key] = {name: found.get(arg.storage) for name, arg in memory.items()}
    return cache[key]
