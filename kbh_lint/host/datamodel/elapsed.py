"""Times that work took, where a program measures it to choose the fastest of several ways.

No time is known, so each way may be the fastest. A run takes one for it: what that one's work is like took less than
all other work, which took the same. Further runs take the others. Ways that do the same arithmetic in the same places
are one, whatever their tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Scalar, Value
from kbh_lint.host.values.decisions import Fastest
from kbh_lint.host.values.tensors import Event, Unknown
from kbh_lint.kernels.core.facts import KernelFacts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


class Measured(float):
    """A time that the program measured, or computed from measured times."""


def _arithmetic(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def run(self: Measured, *others: Value) -> Any:
        made = plain(self, *others)
        return Measured(made) if isinstance(made, float) else made

    return run


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "neg", "abs"):
    setattr(Measured, f"__{_name}__", _arithmetic(f"__{_name}__"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reading(Unknown):
    """A reading of a clock; `at` is the number of events until then."""

    at: int = 0


def between(interp: Run, left: Value, right: Value) -> Value:
    """Returns the time between two clock readings, `left - right`, taken in the same call; NotImplemented for
    others."""
    if isinstance(left, Reading) and isinstance(right, Reading) and left.taint == right.taint:
        return time_of(interp, interp.trace.events[right.at : left.at])
    return NotImplemented


def against_seconds(left: Value, right: Value) -> bool:
    """Whether a measured time is compared with a fixed number of seconds, so that the answer is not known."""
    one, other = (left, right) if isinstance(left, Measured) else (right, left)
    known = isinstance(other, Measured) or not isinstance(other, (int, float)) or math.isinf(other)
    return isinstance(one, Measured) and not known


def time_of(interp: Run, events: Sequence[Event]) -> Value:
    """Returns the time that `events` took: the shortest of all that are measured for the variant that this run takes
    for the fastest, a longer one for all others."""
    if not events:
        return Unknown((), "a time")
    key = Fastest(frozenset(map(_work, events)))
    interp.decisions.measured.setdefault(key)
    asked = (known for known in interp.decisions.forced if isinstance(known, Fastest))
    return Measured(0.5 if key == next(asked, next(iter(interp.decisions.measured))) else 1.0)


def _work(event: Event) -> tuple[Value, ...]:
    """What tells the work of one event from that of others: where it is done, how, and on which types."""
    place = event.loc and (event.loc[0].language, *event.loc[1:])
    distinct: list[KernelFacts] = event.attrs.get("distinct", [])
    kernels = frozenset(item for facts in distinct for item in _arithmetic_of(facts.plain()))
    factors = [_size(v) for binding in event.attrs.get("bindings", ())[:1] for v in binding.values()]
    return event.kind, event.name, place if not distinct else None, kernels, tuple(n for n in factors if n is not None)


def _arithmetic_of(facts: KernelFacts) -> Iterable[tuple[Any, ...]]:
    for product in facts.products:
        yield facts.name, product.loc[1:], product.kind, product.a, product.b, product.accumulator, product.mode
    for store in facts.stores:
        yield facts.name, store.loc[1:], store.dtype, frozenset(f for o in store.origins for f in o.flags)
    one: Any
    for one in (*facts.sums, *facts.unpacks, *facts.uses):
        yield facts.name, type(one).__name__, one.loc[1:]
    yield facts.name, bool(facts.unread)


def _size(value: Value) -> str | None:
    """Of a factor that a kernel is given, how large it is, roughly: one of nothing takes work away, and one that is as
    usual goes with the shape. Sizes of tensors are whole numbers.
    """
    given = value.value if isinstance(value, Scalar) else value
    if not isinstance(given, float):
        return None
    usual = given != 0.0 and math.isfinite(given)
    return f"about 2**{32 * round(math.frexp(given)[1] / 32)}" if usual else str(given)
