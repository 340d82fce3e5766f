"""Functions that torch's inductor gives its kernels, ready made, and that others call: `triton_helpers`."""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.dsl.triton import arithmetic as numbers
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V
from kbh_lint.kernels.languages.python import arithmetic as shared
from kbh_lint.kernels.languages.python.call import Call, first

_SPACES = (
    "torch._inductor.runtime.triton_helpers.", "torch._inductor.runtime.triton_compat.",
    "torch._inductor.triton_helpers.", "torch._inductor.triton_compat.",
)  # fmt: skip
_AGAIN = {"tl": "triton.language.", "math": "triton.language.math.", "libdevice": "triton.language.extra.libdevice."}


def again(path: str) -> str:
    """Returns the path in triton.language of what inductor's modules only name again, as `triton_helpers.libdevice`;
    other paths unchanged."""
    space = next((space for space in _SPACES if path.startswith(space)), "")
    head, _, rest = path.removeprefix(space).partition(".")
    return _AGAIN[head] + rest if space and rest and head in _AGAIN else path


def symbol(path: str, call: Call) -> V | None:
    """The result of calling one of these functions by its full path; None for all others."""
    space = next((space for space in _SPACES if path.startswith(space)), "")
    row = _ROWS.get(path.removeprefix(space)) if space else None
    if row is None:
        return None
    if "sort" in path or "bitonic" in path:
        call.m.facts.use(path, call.loc)
    return row(call)


def _asked(call: Call, position: int, name: str) -> V:
    return call.get(position, name) or UNKNOWN_V


def _over(call: Call, value: V, position: int, flag: str) -> V:
    """`value` reduced over the axis that stands at a position."""
    made = value.with_(origins=flagged(value.origins, flag), x=None)
    return numbers.reduced(Call(call.m, [value, _asked(call, position, "dim")], {}, call.node), made)


def _in_order(call: Call) -> V:
    """Values, and the places that go with them, in the order of the values."""
    value, place = first(call), _asked(call, 1, "idxs")
    there = place.with_(origins=union(place.origins, flagged(value.origins, "index")), shape=value.shape)
    return V(x=(value.with_(x=None, const=NOTHING), there.with_(x=None, const=NOTHING)))


def _extreme_with_place(call: Call) -> V:
    """The largest or smallest value, and the place that goes with it."""
    value, place = first(call), _asked(call, 1, "index")
    there = place.with_(origins=union(place.origins, flagged(value.origins, "max")))
    return V(x=(_over(call, value, 2, "max"), _over(call, there, 2, "max")))


def _reduction(call: Call) -> V:
    return _over(call, first(call), 1, "reduce")


def _one_selected(call: Call) -> V:
    """The sum of what a mask leaves of a tile."""
    return _over(call, first(call), 2, "reduce")


def _as_float(call: Call) -> V:
    return call.m.numbers.convert(first(call), "f32", call.loc)


def _apart(call: Call) -> V:
    """A mantissa and an exponent."""
    value = first(call).with_(x=None, const=NOTHING)
    return V(x=(value, value.with_(dtype="i32", ct=None)))


def _moments(count: int) -> Callable[[Call], V]:
    """Running sums that each call adds to: each of what comes of it is made of all."""

    def run(call: Call) -> V:
        made = mix(call.args) if call.args else UNKNOWN_V
        call.m.facts.add_sum(made.dtype, made.origins, call.loc)
        each = made.with_(origins=flagged(made.origins, "reduce"), x=None, const=NOTHING)
        return V(x=(each,) * count)

    return run


_ROWS: dict[str, Callable[[Call], V]] = {
    **dict.fromkeys(("sort_with_index", "_bitonic_merge_with_index", "_compare_and_swap_with_index"), _in_order),
    **dict.fromkeys(("max_with_index", "min_with_index"), _extreme_with_place),
    **dict.fromkeys(("max2", "min2"), numbers.extreme),
    **dict.fromkeys(("maximum", "minimum"), shared.bound),
    **dict.fromkeys(("any", "prod"), _reduction),
    "select_one": _one_selected,
    "exp": lambda call: shared.elementwise_name(call, "exp"),
    "promote_to_tensor": first,
    "fp8e4m3fn_to_float32": _as_float,
    "frexp": _apart,
    "div_floor_integer": lambda call: call.m.numbers.binary("//", first(call), _asked(call, 1, "b"), call.loc),
    "remainder_integer": lambda call: call.m.numbers.binary("%", first(call), _asked(call, 1, "b"), call.loc),
    "pow_integer": lambda call: shared.elementwise_name(call, "pow"),
    **dict.fromkeys(("welford_reduce", "welford_combine", "welford"), _moments(3)),
    **dict.fromkeys(("online_softmax_reduce", "online_softmax_combine"), _moments(2)),
}
