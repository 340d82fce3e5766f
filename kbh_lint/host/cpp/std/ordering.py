"""Functions of C++'s libraries that put elements in order on the host: those of `std`, of `std::ranges`, and of C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.torch import recording
from kbh_lint.host.values.cpp_objects import Pointer, Slot
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_SPACES = frozenset(("", "std", "std::ranges", "ranges", "__gnu_parallel", "boost::sort", "tbb", "oneapi::dpl"))
_ORDERING = frozenset(
    "sort stable_sort partial_sort partial_sort_copy nth_element make_heap push_heap pop_heap sort_heap inplace_merge "
    "qsort qsort_r parallel_sort spreadsort max_element min_element minmax_element".split()
)
_FINDING = frozenset(("max_element", "min_element", "minmax_element"))  # which leave all as it is


def call(run: Cpp, name: str, args: list[Value], loc: ir.Loc | None) -> Value:
    """Records that elements which came out of tensors are put in order; NotImplemented for other functions, and where
    nothing came out of a tensor."""
    space, _, short = name.rpartition("::")
    if short not in _ORDERING or space not in _SPACES:
        return NotImplemented
    plain = [arg.get() if isinstance(arg, Slot) else arg for arg in args]
    places = [one.tensor for one in plain if isinstance(one, Pointer)]
    if places:
        _in_memory(run, name, places, loc, short in _FINDING)
        return Unknown((places[0].storage.content,), name, made=run.interp.trace.round)
    lists = [one for one in plain if isinstance(one, list)]
    made = recording.ordered(run.interp, name, lists, loc) if lists else None
    if made is None:
        return NotImplemented
    found = Unknown(tuple(dict.fromkeys((*made.contents, *run.interp.contents_of(lists)))), name, made=made.made)
    for items in lists if short not in _FINDING else ():
        items[:] = [found] * len(items)
    return found


def _in_memory(run: Cpp, name: str, places: list[Tensor], loc: ir.Loc | None, finds: bool) -> None:
    """Of what lies in a tensor, in pinned memory or on the host: the last place that is given is where it is put."""
    event = recording.record(run.interp, "library", name, loc, places[:1], {"orders": True, "symbol": name})
    if finds:
        recording.make(run.interp, (), places[0].dtype, event=event, device="cpu")
    else:
        recording.write(run.interp, places[-1], event, partial=True)
