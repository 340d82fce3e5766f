"""Numeric library functions that Triton, libdevice and CUDA share, by their plain names."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import UNKNOWN, Sym, Value
from kbh_lint.kernels.numeric import integers, ops
from kbh_lint.kernels.numeric.builtins import Args, Builtin, either, named
from kbh_lint.kernels.numeric.ctypes import scalar
from kbh_lint.kernels.numeric.numbers import EXP, Num, exact, literal, rounded
from kbh_lint.kernels.numeric.state import Bits, Obj, Ptr, Reference

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

_ONE = literal(1.0)
_WHOLE: dict[str, Callable[[float], int]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}


def exponential(m: Machine, c: Args) -> Value:
    """The value of `exp(x)` and the like."""
    value = c.number(m, 0)
    return UNKNOWN if value is None else m.numbers.exp(value)


def sigmoid(m: Machine, c: Args) -> Value:
    """The value of `1 / (1 + exp(-x))`."""
    value = c.number(m, 0)
    if value is None:
        return UNKNOWN
    grown = m.numbers.exp(m.numbers.neg(value))
    one = Num(_ONE.q, _ONE.f, grown.dt)
    return m.numbers.div(one, m.numbers.add(one, grown, c.site))


def transcendental(name: str) -> Builtin:
    """The function `name`: log, sqrt and the like. A root depends on the data of its argument; the result of any other
    counts as an exponential."""

    def apply(m: Machine, c: Args) -> Value:
        value = c.number(m, 0)
        if value is None:
            return UNKNOWN
        keep = name in ("sqrt", "rsqrt", "cbrt")
        src = value.src if keep else (EXP if value.src else 0)
        return m.numbers.function(name, value, "f32" if value.dt == "lit" else value.dt, src)

    return apply


def whole(kind: str) -> Builtin:
    """The function floor, ceil or rint. Its result is a new exact value: what is cut off is no rounding error of a
    sum."""

    def apply(m: Machine, c: Args) -> Value:
        value = c.number(m, 0)
        if value is None or not math.isfinite(value.f):
            return UNKNOWN if value is None else value
        cut: Callable[[float], int] = _WHOLE.get(kind, round)
        f = m.numbers.settle(float(cut(value.f)))
        return Num(exact(f), f, value.dt, value.src)

    return apply


def extreme(sign: float) -> Builtin:
    """The function max (`sign` 1) or min (`sign` -1), of two or more values."""

    def apply(m: Machine, c: Args) -> Value:
        items = list(c.items) + [c.keywords[k] for k in ("x", "y") if k in c.keywords]
        if not items:
            return UNKNOWN
        out = items[0]
        for i, item in enumerate(items[1:]):
            out = _larger(m, out, item, sign, c.site + i % 8)
        return out

    return apply


def _larger(m: Machine, a: object, b: object, sign: float, site: int) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        pair = integers.alike(a, b)
        return integers.typed(max(pair) if sign > 0 else min(pair), integers.common(a, b))
    if isinstance(a, Obj) and isinstance(b, Obj):
        return Obj({k: _larger(m, v, b.fields.get(k, v), sign, site) for k, v in a.fields.items()}, a.type)
    if not (isinstance(a, Num) or isinstance(b, Num)):
        return UNKNOWN
    x, y = ops.number(a, m.numbers, site), ops.number(b, m.numbers, site)
    if x is None or y is None:
        return UNKNOWN
    chosen = y if m.numbers.settle(math.isnan(x.f) or (y.f - x.f) * sign > 0) else x
    dt = m.numbers.promoted(x.dt, y.dt)
    return Num(chosen.q, chosen.f, dt, x.src | y.src, chosen.near, chosen.wide)


def absolute(m: Machine, c: Args) -> Value:
    """The value of `abs(x)`."""
    value = c.get(0, "x")
    if isinstance(value, Num):
        return m.numbers.neg(value) if m.numbers.settle(value.f < 0) else value
    return integers.typed(abs(value), integers.promoted(value)) if isinstance(value, int) else value


def fused(m: Machine, c: Args) -> Value:
    """The value of `fma(x, y, z)`."""
    a, b, d = c.number(m, 0, "x"), c.number(m, 1, "y"), c.number(m, 2, "z")
    if a is None or b is None or d is None:
        return UNKNOWN
    return m.numbers.fma(a, b, d, c.site)


def operation(op: str) -> Builtin:
    """The function for a named operator, such as `__fadd_rn` or `libdevice.sub_rn`."""

    def apply(m: Machine, c: Args) -> Value:
        return ops.arithmetic(op, c.get(0), c.get(1), m.numbers, c.site, True)

    return apply


def reciprocal(m: Machine, c: Args) -> Value:
    """The value of `1 / x`."""
    value = c.number(m, 0)
    return UNKNOWN if value is None else m.numbers.div(Num(_ONE.q, _ONE.f, value.dt), value)


def negative(m: Machine, c: Args) -> Value:
    """The value of `-x`."""
    return ops.negated(c.get(0), m.numbers)


def power(m: Machine, c: Args) -> Value:
    """The value of `pow(x, y)`; a constant to the power of data counts as an exponential."""
    a, b = c.number(m, 0), c.number(m, 1)
    if a is None or b is None:
        return UNKNOWN
    if not a.src:
        return m.numbers.exp(b)
    return m.numbers.function("pow", m.numbers.mul(a, b), m.numbers.promoted(a.dt, b.dt), a.src | b.src)


def same(m: Machine, c: Args) -> Any:
    """Returns the first argument unchanged."""
    return c.get(0)


def nothing(m: Machine, c: Args) -> Value:
    """Models a call without a result and without an effect on values."""
    return None


def unknown(m: Machine, c: Args) -> Value:
    """Models a function whose result is unknown."""
    return UNKNOWN


def to_type(dt: str) -> Builtin:
    """The function that converts its argument to the element type `dt`."""

    def apply(m: Machine, c: Args) -> Value:
        return m.ctypes.convert(c.get(0), scalar(dt), c.site)

    return apply


def test(kind: str) -> Builtin:
    """The function isnan, isinf, isfinite or signbit."""

    def apply(m: Machine, c: Args) -> Value:
        value = c.get(0)
        f = value.f if isinstance(value, Num) else 0.0
        if kind == "signbit":
            return m.numbers.settle(math.copysign(1.0, f) < 0)
        return m.numbers.settle({"isnan": math.isnan, "isinf": math.isinf}.get(kind, math.isfinite)(f))

    return apply


def select(m: Machine, c: Args) -> Value:
    """The value of `where(condition, a, b)`."""
    given = c.get(0, "condition")
    condition = ops.truth(given)
    m.decided(c.node, condition)
    a, b = c.get(1, "x"), c.get(2, "y")
    if condition is UNKNOWN or isinstance(given, integers.Elsewhere) and ops.sources(a) and not ops.sources(b):
        return either(a, b)
    chosen = a if condition else b
    if isinstance(chosen, Num) and isinstance(a, Num) and isinstance(b, Num) and a.dt != b.dt:
        dt = m.numbers.promoted(a.dt, b.dt)
        return Num(chosen.q, rounded(chosen.f, dt), dt, chosen.src, chosen.near)
    return chosen


def other_lane(index: int) -> Builtin:
    """The function for a shuffle: its result is what another lane holds as the argument at `index`."""

    def apply(m: Machine, c: Args) -> Value:
        return ops.perturbed(c.get(index), m.numbers, c.site)

    return apply


def lane_sum(m: Machine, c: Args) -> Value:
    """The sum of the argument over all lanes."""
    value = c.get(0, "input")
    return m.numbers.reduced(value, c.site) if isinstance(value, Num) else UNKNOWN


def lane_extreme(sign: float) -> Builtin:
    """The function for a maximum (`sign` 1) or minimum (-1) over all lanes."""

    def apply(m: Machine, c: Args) -> Value:
        value = c.get(0, "input")
        out = m.numbers.beyond(value, c.site, sign) if isinstance(value, Num) else value
        return (out, UNKNOWN) if c.keywords.get("return_indices") is True else out

    return apply


def combined(m: Machine, value: object, combine: object, c: Args) -> Value:
    """A reduction over lanes with the function `combine`, which is applied to the values of a few other lanes."""
    if isinstance(combine, Sym) and combine.path.rsplit(".", 1)[-1] in ("plus", "Sum", "add", "_sum_combine"):
        return m.numbers.reduced(value, c.site) if isinstance(value, Num) else UNKNOWN
    total = value
    for i in range(3):
        other = ops.perturbed(value, m.numbers, c.site + i)
        parts = [*total, *other] if isinstance(total, tuple) and isinstance(other, tuple) else [total, other]
        total = m.calls.invoke(combine, parts, {}, c.node, c.frame)
    return total


def to_bits(m: Machine, c: Args) -> Value:
    """The bit pattern of a float, as `__float_as_uint(x)` gives it."""
    value = c.get(0)
    return Bits(value) if isinstance(value, Num) else UNKNOWN


def from_bits(dt: str) -> Builtin:
    """The function that reads a bit pattern as a float of type `dt`: the float that the pattern was taken from, else
    some value that counts as an exponential."""

    def apply(m: Machine, c: Args) -> Value:
        value = c.get(0)
        if isinstance(value, Bits) and value.value is not None:
            return value.value
        if isinstance(value, int):
            return UNKNOWN
        return m.numbers.data(c.site, dt, EXP)

    return apply


MATH: dict[str, Builtin] = {
    **named("exp exp2 exp10 expm1 fast_expf fast_exp2f ex2 hexp hexp2", exponential),
    **{n: transcendental(n) for n in (
        "log", "log2", "log10", "log1p", "lg2", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan", "tanh", "erf", "erfc",
        "sinh", "cosh", "atan", "lgamma", "sqrt_rn", "fast_tanhf",
    )},
    **{n: whole(n) for n in ("floor", "ceil", "trunc", "rint", "round", "nearbyint", "roundeven")},
    **{n: test(n) for n in ("isnan", "isinf", "isfinite", "isfinited", "finitef", "signbit")},
    **{n: operation(o) for n, o in (
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"), ("fdiv", "/"), ("fdividef", "/"),
    )},
    "sigmoid": sigmoid, "max": extreme(1.0), "min": extreme(-1.0), "fmax": extreme(1.0), "fmin": extreme(-1.0),
    "maximum": extreme(1.0), "minimum": extreme(-1.0), "abs": absolute, "fabs": absolute, "fma": fused,
    "rcp": reciprocal, "neg": negative, "pow": power, "powf": power, "fast_powf": power,
}  # fmt: skip

_ROUNDINGS = ("_rn", "_rz", "_ru", "_rd", "_approx", "_ftz")


def math_builtin(name: str) -> Builtin | None:
    """The function of this name, without the marks for element type and rounding: `__fadd_rn` is `add`. None for
    unknown names."""
    if name in MATH:
        return MATH[name]
    plain = name
    for suffix in _ROUNDINGS:
        plain = plain.removesuffix(suffix)
    plain = plain.removeprefix("__")
    for candidate in (plain, plain.removesuffix("f"), plain[1:], plain[1:].removesuffix("f"), plain[2:]):
        if len(candidate) > 1 and candidate in MATH:
            return MATH[candidate]
    return None


def atomic_add(m: Machine, c: Args) -> Value:
    """The old value of an atomic addition, which is executed. Other blocks add to the same memory, so the old value is
    unknown, but depends on the same data."""
    pointer, value = c.get(0, "pointer"), c.get(1, "val")
    if not isinstance(value, Num):
        return UNKNOWN
    if isinstance(pointer, Ptr) and pointer.mem.written(pointer.off):
        old = m.read(pointer, c.site)
    else:
        old = ops.perturbed(value, m.numbers, c.site)
    total = ops.arithmetic("+", old, value, m.numbers, c.site, True)
    if isinstance(pointer, Ptr):
        m.write(pointer, total)
    else:
        m.stores.append(("?", value.f))
    return old


def larger(sign: float) -> Builtin:
    """The function atomicMax (`sign` 1) or atomicMin (-1). Bit patterns of floats are compared as the integers that the
    pointer's type says."""

    def apply(m: Machine, c: Args) -> Value:
        pointer, value = c.get(0, "pointer"), c.get(1, "val")
        if not isinstance(pointer, Ptr | Reference):
            return UNKNOWN
        old = _held(m, pointer, c)
        one, other = _float(old), _float(value)
        if old is UNKNOWN or value is UNKNOWN:  # what other blocks have left there by now is like this value
            _put(m, pointer, value)
        elif isinstance(value, Bits) and one is not None and other is not None:
            unsigned = pointer.type.dt.startswith("u") if isinstance(pointer, Ptr) and pointer.type.dt else sign < 0
            a, b = (_pattern(num.f, unsigned) for num in (one, other))
            _put(m, pointer, other if m.numbers.settle((b - a) * sign > 0) else one)
            return Bits(one)
        else:
            _put(m, pointer, extreme(sign)(m, Args([old, value], {}, c.site, c.node, c.frame)))
        return old

    return apply


def exchanged(m: Machine, c: Args) -> Value:
    """The old value of an atomicExch, which is executed."""
    pointer = c.get(0, "pointer")
    if not isinstance(pointer, Ptr | Reference):
        return UNKNOWN
    old = _held(m, pointer, c)
    _put(m, pointer, c.get(1, "val"))
    return old


def _held(m: Machine, pointer: Ptr | Reference, c: Args) -> Any:
    """What is in memory; UNKNOWN where this program has put nothing there."""
    if isinstance(pointer, Reference):
        return m.places.load(pointer.place, c.node, c.frame)
    return m.read(pointer, c.site) if pointer.mem.written(pointer.off) else UNKNOWN


def _put(m: Machine, pointer: Ptr | Reference, value: object) -> None:
    held = _float(value)
    value = value if held is None else held
    if isinstance(pointer, Reference):
        m.places.store(pointer.place, value)
    else:
        m.write(pointer, value)


def _float(value: object) -> Num | None:
    """The float that a value is, or is the bit pattern of."""
    if isinstance(value, Bits) and not value.above:
        value = value.value
    return value if isinstance(value, Num) else None


def _pattern(value: float, unsigned: bool) -> int:
    """The bits of a float as an integer."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return int(struct.unpack("<I" if unsigned else "<i", packed)[0])
