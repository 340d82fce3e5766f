"""Operators on abstract values: promotion, conversions, nibble unpacking, pending products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.ir import Loc
from kbh_lint.kernels.core import guards
from kbh_lint.kernels.core.folding import as_type, compared, fold, is_edge, is_zero
from kbh_lint.kernels.core.joins import broadcast, mix, tuple_of, wider
from kbh_lint.kernels.core.origins import NO_ORIGINS, cut_short, data_origins, flagged, rounded, union, union_casts
from kbh_lint.kernels.core.value import (
    LITERAL,
    NO_LOCS,
    NOTHING,
    TWIDDLED,
    Mul,
    Offset,
    Shape,
    Struct,
    Unbound,
    V,
    constant,
    everywhere,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


_VAGUE = ("?", LITERAL)
_BIT_OPS = frozenset({"<<", ">>", "&", "|", "^"})
_NIBBLE_MASKS = frozenset(
    {
        0xF, 0xF0, 0x0F0F, 0xF0F0, 0x000F000F, 0x00F000F0, 0x0F0F0F0F, 0xF0F0F0F0, 0x0F000F00, 0xF000F000,
        0x0F0F0F0F0F0F0F0F,
    }
)  # fmt: skip
CUTTING = frozenset(("&", ">>", "//", "/"))


def is_nibble_mask(mask: int) -> bool:
    """Whether a bit mask takes 4-bit fields out of a wider integer."""
    return mask & 0xFFFFFFFF in _NIBBLE_MASKS or mask in _NIBBLE_MASKS


class Numbers:
    """Operators and conversions; `c_rules` selects C++ promotions and division."""

    c_rules = False

    def __init__(self, run: Run) -> None:
        self.run = run

    def convert(self, value: V, target: str, loc: Loc) -> V:
        """`value` converted to the type `target`; recorded as a cast if it is loaded data whose type changes."""
        made = guards.made(self._convert(value, target, loc), "convert", target, value)
        return self.run.ranges.converted(value, made, target) if self.run.ranges.given else made

    def _convert(self, value: V, target: str, loc: Loc) -> V:
        if target in _VAGUE or (value.dtype == target and value.content in (target, "?", LITERAL)):
            return value
        if isinstance(value.x, (tuple, Struct)):
            value = mix([value])
        data = data_origins(value.origins)
        if not data:
            const = as_type(value.const, target)
            keep = value.x if isinstance(value.x, (Unbound, Mul)) else None
            return V(target, target, value.origins, value.casts, const, value.deps, value.cells, value.shape, keep)
        source = value.content if value.content not in _VAGUE else value.dtype
        if source == target:
            return value.with_(dtype=target, content=target, x=value.x if isinstance(value.x, Mul) else None)
        if source in _VAGUE and target in dtypes.INTS:
            return value.with_(dtype=target, content="?", const=NOTHING)
        if source in dtypes.INTS and target in dtypes.INTS:
            return value.with_(dtype=target, const=NOTHING)
        if value.dtype in dtypes.INTS and target in dtypes.INTS:  # float bits in an integer only change its width
            return value.with_(dtype=target, const=NOTHING)
        self.run.facts.add_cast(source, target, data, loc)
        made = V(
            target, target, rounded(value.origins, source, target), union_casts(value.casts, frozenset((loc,))),
            NOTHING, value.deps, value.cells, value.shape, value.x if isinstance(value.x, Mul) else None,
        )  # fmt: skip
        if value.totals:
            made.totals = self.run.products.loops.rounded(value.totals, source, target, loc)
        return made

    def bitcast(self, value: V, target: str, loc: Loc) -> V:
        """The bits of `value` read as type `target`: a conversion, where integer operations have changed these bits."""
        if target in _VAGUE or value.dtype == target:
            return value
        content = value.content
        if target not in dtypes.FLOATS:
            if value.dtype in dtypes.FLOATS and content in _VAGUE:
                content = value.dtype
            return value.with_(dtype=target, content=content, const=NOTHING, ct=None)
        if value.x is TWIDDLED and content != target and content not in _VAGUE:
            data = data_origins(value.origins)
            if data:
                self.run.facts.add_cast(content, target, data, loc)
                return V(
                    target, target, flagged(value.origins, "cast"), union_casts(value.casts, frozenset((loc,))),
                    NOTHING, value.deps, value.cells, value.shape,
                )  # fmt: skip
        keeps = content in dtypes.FLOATS and value.dtype in dtypes.INTS and content != target
        return value.with_(
            dtype=target,
            content=content if keeps and value.x is not TWIDDLED else target,
            const=NOTHING,
            x=None,
            ct=None,
        )

    def promote(self, op: str, a: V, b: V) -> str:
        """The element type in which `a op b` is computed."""
        x, y = a.dtype, b.dtype
        if x == LITERAL or y == LITERAL:
            literal, other = (a, y) if x == LITERAL else (b, x)
            if other == LITERAL:
                return "f32" if op == "/" and not self.c_rules else LITERAL
            if isinstance(literal.const, float) and other in dtypes.INTS:
                return "f32"
            return "f32" if op == "/" and not self.c_rules and other in dtypes.INTS else other
        if x == "?" or y == "?":
            return "?" if not (x in dtypes.FLOATS or y in dtypes.FLOATS) else wider(x, y)
        if x in dtypes.INTS and y in dtypes.INTS:
            if op == "/" and not self.c_rules:
                return "f32"
            if self.c_rules and dtypes.BITS[x] < 32 and dtypes.BITS[y] < 32:
                return "i32"
            return wider(x, y)
        if {x, y} == {"bf16", "f16"}:
            return "f32"
        return wider(x, y)

    def folded(self, op: str, a: V, b: V) -> object:
        """The constant result of `a op b` for two constants; NOTHING when there is none."""
        return fold(op, a.const, b.const, c_division=self.c_rules)

    def binary(self, op: str, a: V, b: V, loc: Loc) -> V:
        """The value of `a op b`."""
        made = guards.made(self._binary(op, a, b, loc), "binary", op, a, b)
        return self.run.ranges.combined(op, a, b, made) if self.run.ranges.given else made

    def _binary(self, op: str, a: V, b: V, loc: Loc) -> V:
        deps = a.deps if not b.deps else a.deps | b.deps
        if a.const is not NOTHING and b.const is not NOTHING:
            known = self._known(op, a, b, deps)
            if known is not None:
                return known
        if op in CUTTING and (a.origins or b.origins):
            a, b = self._cut(op, a, b), self._cut(op, b, a) if op == "&" else b
        if isinstance(a.x, (tuple, Struct)) or isinstance(b.x, (tuple, Struct)):
            longer = _concatenated(op, a, b)
            if longer is not None:
                return longer
            a, b = _one_value(a), _one_value(b)
        shape = a.shape if a.shape == b.shape else broadcast(a.shape, b.shape)
        if a.cells or b.cells or isinstance(a.x, Unbound) or isinstance(b.x, Unbound):
            address = self._address(op, a, b, shape, deps)
            if address is not None:
                return address
        if op in _BIT_OPS:
            return self._bits(op, a, b, shape, deps, loc)
        if op in ("%", "//", "/") and b.const == 16 and self._nibbles(a, narrow_only=True):
            self.run.facts.decide(b)
            a = self.run.facts.add_unpack(a, loc)
        if not a.origins and not b.origins:
            dtype = self.promote(op, a, b)
            return V(dtype, dtype, const=NOTHING, deps=deps, shape=shape)
        return self._numbers(op, a, b, shape, deps, loc)

    def _known(self, op: str, a: V, b: V, deps: frozenset[str]) -> V | None:
        """The value of an operation on two known ones; None where it has none."""
        value = self.folded(op, a, b)
        if value is NOTHING:
            return None
        if self.c_rules and not isinstance(value, str):
            return V(self.promote(op, a, b), LITERAL, const=value, deps=deps)
        return constant(value, deps)

    def _cut(self, op: str, value: V, by: V) -> V:
        """The bits of a float as an integer of the same width lose their lowest ones: its origins say how many."""
        if not isinstance(by.const, int) or isinstance(by.const, bool) or value.dtype not in ("i32", "u32"):
            return value
        number = by.const & 0xFFFFFFFF
        lowest = max((number & -number).bit_length() - 1, 0)
        count = by.const if op == ">>" else lowest if op == "&" or number == 1 << lowest else 0
        if not 0 < count < 32 or not value.origins:
            return value
        self.run.facts.decide(by)
        return value.with_(origins=cut_short(value.origins, count))

    def _numbers(self, op: str, a: V, b: V, shape: Shape | None, deps: frozenset[str], loc: Loc) -> V:
        target = self.promote(op, a, b)
        mark: Mul | None = None
        if op == "*":
            mark = self.run.products.multiply_mark(a, b, loc) or _scaled(a, b)
        elif op in ("+", "-"):
            mark = self._added(a, b, target, loc)
        if target in dtypes.FLOATS:
            self.run.facts.arithmetic = self.run.facts.arithmetic or bool(
                data_origins(a.origins) or data_origins(b.origins)
            )
            if a.dtype != target or a.content not in (target, "?", LITERAL):
                a = self.convert(a, target, loc)
            if b.dtype != target or b.content not in (target, "?", LITERAL):
                b = self.convert(b, target, loc)
            content = target
        else:
            content = wider(a.content, b.content)
            if content in dtypes.FLOATS and target not in dtypes.FLOATS:
                return V(
                    target, content, union(a.origins, b.origins), union_casts(a.casts, b.casts), NOTHING, deps,
                    shape=shape, x=TWIDDLED,
                )  # fmt: skip
        zero = (a if is_zero(a) else b if is_zero(b) else None) if op == "*" else None
        if zero is not None:
            self.run.facts.decide(zero)
            self.run.facts.lose(a, b, loc)
        made = V(
            target,
            content,
            NO_ORIGINS if zero is not None else union(a.origins, b.origins),  # nothing is left of the other factor
            NO_LOCS if zero is not None else union_casts(a.casts, b.casts),
            NOTHING,
            deps,
            shape=shape,
            x=mark,
        )
        if (a.totals or b.totals or op == "*") and zero is None:
            made.totals = self.run.products.in_numbers(op, a, b, made, loc)
        return self.run.products.summed(made, target, mark.loc) if mark is not None and mark.terms > 2 else made

    def _added(self, a: V, b: V, dtype: str, loc: Loc) -> Mul | None:
        """What stays pending of `a + b`: a sum of products, or a product plus something that is no data."""
        if isinstance(a.x, Mul) and isinstance(b.x, Mul):
            return Mul(a.x.factors, a.x.loc, a.x.terms + b.x.terms)
        if isinstance(a.x, Mul):
            return a.x if not data_origins(b.origins) else None
        if isinstance(b.x, Mul):
            return b.x if not data_origins(a.origins) else None
        return None

    def _address(self, op: str, a: V, b: V, shape: Shape | None, deps: frozenset[str]) -> V | None:
        """A place in memory, which an argument of unknown kind may be; None for a number."""
        unbound = None
        if op in ("+", "-") and a.dtype not in dtypes.FLOATS and b.dtype not in dtypes.FLOATS:
            unbound = a.x if isinstance(a.x, Unbound) else b.x if isinstance(b.x, Unbound) else None
        if not a.cells and not b.cells and unbound is None:
            return None
        origins = union(a.origins, b.origins)
        casts = union_casts(a.casts, b.casts)
        base = a if a.cells or (isinstance(a.x, Unbound) and not b.cells) else b
        if op == "-" and a.cells and b.cells and not (a.cells - b.cells):
            return V("i64", "i64", origins, casts, deps=deps, shape=shape)
        extra: Any = unbound
        if isinstance(base.x, Offset):
            extra = self.moved(op, base, b if base is a else a)
        return V(base.dtype, base.content, origins, casts, NOTHING, deps, a.cells | b.cells, shape, extra, base.ct)

    def moved(self, op: str, base: V, other: V) -> Offset:
        """The constant byte offset of the address `base op other`; unknown unless `other` is a constant."""
        at: Offset = base.x
        if op not in ("+", "-") or not isinstance(other.const, int) or at.bytes is None or other.cells:
            return at.moved(None)
        self.run.facts.decide(other)
        return at.moved((other.const if op == "+" else -other.const) * self.run.memory.stride(base))

    def _nibbles(self, value: V, *, narrow_only: bool) -> bool:
        """Whether `value` is loaded integer data out of which 4-bit fields can be taken."""
        data = data_origins(value.origins)
        if not data or value.dtype in dtypes.FLOATS or value.content in dtypes.FLOATS:
            return False
        if narrow_only:
            return any(o.dtype in ("u8", "i8", "u4", "i4") for o in data)
        return True

    def _bits(self, op: str, a: V, b: V, shape: Shape | None, deps: frozenset[str], loc: Loc) -> V:
        if op in ("&", "|", "^") and a.dtype == b.dtype == "bool":
            return V("bool", "bool", union(a.origins, b.origins), union_casts(a.casts, b.casts), deps=deps, shape=shape)
        if b.deps and b.known:
            self.run.facts.decide(b)
        a, b = self._unpacked(op, a, b, loc)
        shifted = op in ("<<", ">>")
        dtype = a.dtype if shifted and a.dtype != LITERAL else self.promote(op, a, b)
        dtype = "i32" if dtype == LITERAL else dtype
        origins = union(a.origins, b.origins)
        if not origins:
            return V(dtype, dtype, deps=deps, shape=shape)
        if shifted and a.origins:
            content = a.content
        else:
            content = wider(a.content if a.origins else "?", b.content if b.origins else "?")
        return V(
            dtype, content if content != LITERAL else dtype, origins, union_casts(a.casts, b.casts), NOTHING, deps,
            shape=shape, x=TWIDDLED,
        )  # fmt: skip

    def _unpacked(self, op: str, a: V, b: V, loc: Loc) -> tuple[V, V]:
        """The operands of a mask or a shift; one out of which 4-bit fields are taken is noted as unpacked."""
        if op == "&":
            mask = everywhere(b)
            if isinstance(mask, int) and is_nibble_mask(mask) and self._nibbles(a, narrow_only=False):
                return self.run.facts.add_unpack(a, loc), b
            if isinstance(a.const, int) and is_nibble_mask(a.const) and self._nibbles(b, narrow_only=False):
                return a, self.run.facts.add_unpack(b, loc)
        elif op == ">>" and everywhere(b) == 4 and self._nibbles(a, narrow_only=True):
            return self.run.facts.add_unpack(a, loc), b
        return a, b

    def compare(self, op: str, a: V, b: V) -> V:
        """The truth of the comparison `a op b`, as a value."""
        made = guards.made(self._compare(op, a, b), "compare", op, a, b)
        return self.run.ranges.compared(op, a, b, made) if self.run.ranges.given else made

    def _compare(self, op: str, a: V, b: V) -> V:
        deps = a.deps if not b.deps else a.deps | b.deps
        if a.const is not NOTHING and b.const is not NOTHING:
            holds = compared(op, a.const, b.const)
            if holds is not None:
                return constant(holds, deps)
        if op in ("in", "not in") and a.known and isinstance(b.x, tuple) and all(item.known for item in b.x):
            inside = any(type(item.const) is type(a.const) and item.const == a.const for item in b.x)
            return constant(inside == (op == "in"), deps)
        if op in ("is", "is not", "==", "!=") and (a.cells or isinstance(a.x, tuple)) and b.const is None:
            return constant(op in ("is not", "!="), frozenset(cell.name for cell in a.cells) | deps)
        origins = union(a.origins, b.origins)
        edge = is_edge(a.const) or is_edge(b.const)
        if origins and edge and (a.dtype in dtypes.FLOATS or b.dtype in dtypes.FLOATS):
            origins = flagged(origins, "zero")
        return V("bool", "bool", origins, union_casts(a.casts, b.casts), deps=deps,
                 shape=broadcast(a.shape, b.shape))  # fmt: skip

    def unary(self, op: str, value: V, loc: Loc) -> V:
        """The value of `op value`, `op` being `-`, `+`, `~` or `not`."""
        if op in "-~" and self.run.ranges.given and not value.known:
            made = self._unary(op, value)
            return self.run.ranges.negated(value, made) if op == "-" else V.with_(made)
        return guards.made(self._unary(op, value), "unary", op, value)

    def _unary(self, op: str, value: V) -> V:
        const = value.const
        if const is not NOTHING and isinstance(const, (int, float)):
            if op == "not":
                return constant(not const, value.deps)
            if op == "-":
                return constant(-const, value.deps) if not self.c_rules else value.with_(const=-const)
            if op == "~" and isinstance(const, int):
                return value.with_(const=~const, dtype=value.dtype if value.dtype != "bool" else LITERAL)
            return value
        if op == "not":
            if const is not NOTHING:
                return constant(not const, value.deps)
            return V("bool", "bool", value.origins, value.casts, deps=value.deps, shape=value.shape)
        if op == "~" and value.origins and value.dtype != "bool":
            return value.with_(x=TWIDDLED)
        return value

    def truth(self, value: V) -> bool | None:
        """Whether a value is known to be true or false, else None; records the arguments that decided it."""
        if value.const is not NOTHING:
            if not self.run.facts.tests.note(value):
                self.run.facts.decide(value)
            try:
                return bool(value.const)
            except (TypeError, ValueError):
                return None
        if isinstance(value.x, tuple):
            return bool(value.x)
        return None

    def augmented(self, op: str, old: V, value: V, loc: ir.Loc) -> V:
        """The new value of `target op= value`."""
        if op in ("+", "-"):
            value = self.run.products.accumulate(
                old, value, self.promote(op, old, value), loc, self.run.frame.loops > 0
            )
        return self.binary(op, old, value, loc)


def _scaled(a: V, b: V) -> Mul | None:
    """What stays pending of a product of data that is multiplied by something that is no data."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one.x, Mul) and not data_origins(other.origins):
            return one.x
    return None


def _concatenated(op: str, a: V, b: V) -> V | None:
    """The sum of two tuples."""
    return tuple_of(a.x + b.x) if op == "+" and isinstance(a.x, tuple) and isinstance(b.x, tuple) else None


def _one_value(value: V) -> V:
    """What stands for a tuple or a struct in an operation on numbers."""
    return mix([value]) if isinstance(value.x, (tuple, Struct)) else value
