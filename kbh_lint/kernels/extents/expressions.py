"""Expressions of kernels in Python and CUDA C++ as addresses, and as sums of program ids, lanes and arguments.

What an expression comes to is what tells one domain from another: here a call is known by a few names, and all that is
no sum is one number of which nothing is known. With the abstract values of `core.expressions` it would share a table of
node types and nothing else, so each domain evaluates its own; the walk around expressions is shared (`core.walker`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp import integers
from kbh_lint.kernels.core.walker import OutOfFuel
from kbh_lint.kernels.extents.intervals import Linear, add, highest, lowest
from kbh_lint.kernels.extents.values import Described, Pointer, Test, Value
from kbh_lint.ops.catalogue import BY_POINTERS, spellings

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.follow import Follow

SAME = ("multiple_of", "max_contiguous", "max_constancy", "expand_dims", "broadcast_to", "cast", "to", "reshape",
        "__builtin_assume_aligned", "view", "static_cast")  # fmt: skip
_OPERATIONS = frozenset(("+", "-", "*", "//", "%", "<<", ">>", "&"))
_EXTREMES = {word: kind for kind in ("min", "max") for word in spellings(kind, f"reduce_{kind}", languages=BY_POINTERS)}
_OF_NUMBERS = frozenset((*SAME, *_EXTREMES, "arange", "cdiv"))  # functions that make numbers of numbers
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
NEVER = ((Linear(1), Linear(0), 0),)  # what holds nowhere: one is at most nothing
_OUTSIDE = values.Sym("")  # what a name stands for that the submission does not bind


class Expressions:
    """Evaluates expressions, in the frame of the walk: with `whole`, also the arguments of calls of which nothing is
    known whatever they are given."""

    whole = True
    handlers: dict[type, Callable[[Any, Any], Value]]  # by the kind of a node, what works out its value

    def __init__(self, run: Follow) -> None:
        self.run = run

    def value(self, node: object) -> Value:
        """The value of an expression: a sum, an address, a tensor's box or a condition."""
        run = self.run
        run.steps += 1  # as `run.step()`, of which most calls would be made here
        if run.steps > run.most:
            raise OutOfFuel
        handler = self.handlers.get(type(node))
        return run.unknown() if handler is None else handler(self, node)

    def _const(self, node: ir.Const) -> Value:
        return Linear(node.value) if isinstance(node.value, int) else self.run.position()

    def _name(self, node: ir.Name) -> Value:
        frame = self.run.frame
        found = frame.env.get(node.id)
        if found is None:
            given = frame.kernel.env.get(node.id)
            number = None if self.run.types is None or isinstance(given, int) else self.run.types.number(node)
            found = frame.env[node.id] = self.run.argument(given if number is None else number)
        return found

    def _type(self, node: ir.TypeRef) -> Value:
        """`Traits<T>::kTile`."""
        number = None if self.run.types is None else self.run.types.number(node)
        return self.run.unknown() if number is None else Linear(number)

    def _binary(self, node: ir.Binary) -> Value:
        return self.binary(node.op, self.value(node.left), self.value(node.right))

    def _compare(self, node: ir.Compare) -> Value:
        if len(node.ops) != 1:
            return self.run.unknown()
        return self.compare(node.ops[0], self.value(node.left), self.value(node.rights[0]))

    def _bool(self, node: ir.Bool) -> Value:
        return self.both(node.op == "and", [self.value(part) for part in node.values])

    def _unary(self, node: ir.Unary) -> Value:
        if node.op == "&":
            return self.run.address(node.value)
        inner = self.value(node.value)
        if node.op == "not" and isinstance(inner, Test):
            return Test(inner.no, inner.yes, inner.doubt)
        if node.op == "not" and isinstance(inner, Linear) and not inner.terms:
            return Linear(int(not inner.const))
        return self.binary("-", Linear(0), inner) if node.op == "-" else self.run.unknown()

    def _cond(self, node: ir.Cond) -> Value:
        """A choice: the side that constants decide, or a number between the ends of both."""
        run = self.run
        test, outside = self.value(node.test), run.limits
        known = self.decided(test)
        if known is not None:
            return self.value(node.yes if known else node.no)
        sides: list[Value] = []
        ends: list[tuple[int | None, int | None]] = []
        for part, holds in ((node.yes, True), (node.no, False)):
            limits, side = run.under(test, outside, holds), self.value(part)
            sides.append(side)
            if isinstance(side, Linear):
                ends.append((lowest(run.atoms, side, limits), highest(run.atoms, side, limits)))
        if len(sides) != len(ends):
            return run.unknown()
        lows, highs = ([end[i] for end in ends] for i in (0, 1))
        low = None if None in lows else min(low for low in lows if low is not None)
        high = None if None in highs else max(high for high in highs if high is not None)
        made = run.atoms.between(low, high)
        if run.doubts(test) or not all(map(run.placed, sides)):
            run.chosen.add(made.terms[0][0])
        return made

    def _cast(self, node: ir.Cast) -> Value:
        inner = self.value(node.value)
        if isinstance(inner, Linear) and not node.type.pointers:
            return self.held(inner, self.run.element(node.type))
        return self.run.pointed(inner, node.type) if node.type.pointers and isinstance(inner, Pointer) else inner

    def held(self, number: Linear, dtype: str | None) -> Value:
        """The number as an integer type holds it: a known one modulo 2 to the width of `dtype`; otherwise unknown,
        unless the type is wide enough for all that the number may be."""
        if dtype not in dtypes.INTS:
            return number
        if not number.terms:
            return Linear(int(integers.held(number.const, dtype)))
        if dtypes.BITS[dtype] >= 32:
            return number
        atoms, limits = self.run.atoms, self.run.limits
        low, high = lowest(atoms, number, limits), highest(atoms, number, limits)
        if low is None or high is None or any(integers.held(end, dtype) != end for end in (low, high)):
            return self.run.unknown()
        return number

    def _index(self, node: ir.Index) -> Value:
        """`x[:, None]` is x; an element of memory is not known."""
        return self.value(node.value) if _widens(node.index) else self.run.unknown()

    def _attr(self, node: ir.Attr) -> Value:
        base = node.value.id if isinstance(node.value, ir.Name) else ""
        axes = self.run.axes.get(base)
        if axes is None or base in self.run.frame.env or node.name not in ("x", "y", "z"):
            return self.run.member(node) if self.run.cpp else self.run.unknown()
        return axes["xyz".index(node.name)]

    def decided(self, test: Value) -> bool | None:
        """The truth of a condition that constants decide; None for others."""
        if isinstance(test, Linear):
            return None if test.terms else bool(test.const)
        if not isinstance(test, Test) or not {*NEVER} & {*test.yes, *test.no}:
            return None
        return NEVER[0] not in test.yes

    # --- operators ---

    def both(self, conjoined: bool, parts: list[Value]) -> Value:
        """The conjunction (`conjoined`) or disjunction of several conditions."""
        tests = [p for p in parts if isinstance(p, Test)]
        yes, no = tuple(x for t in tests for x in t.yes), tuple(x for t in tests for x in t.no)
        doubt = any(self.run.doubts(p) for p in parts)
        return Test(yes, (), doubt) if conjoined else Test((), no, doubt)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """The value of `a op b`."""
        if type(a) is Linear and type(b) is Linear:  # as most are
            whole = "//" if op == "/" and self.run.cpp else op
            return self.run.atoms.apply(whole, a, b) if whole in _OPERATIONS else self.run.unknown()
        if op in ("&", "|") and isinstance(a, Test) and isinstance(b, Test):
            return self.both(op == "&", [a, b])
        if op == "+" and isinstance(b, Pointer):
            a, b = b, a
        if isinstance(a, Pointer) and isinstance(b, Linear) and op in ("+", "-"):
            atoms = self.run.atoms
            by = b if a.unit == 1 else atoms.apply("*", b, Linear(a.unit))
            return Pointer(a.storage, atoms.apply(op, a.offset, by), a.unit, a.kind)
        return self.run.unknown()

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """The condition `a op b`."""
        if not (isinstance(a, Linear) and isinstance(b, Linear)):
            return Test(doubt=True)
        whole = not self.run.cpp or a.const >= 0 and b.const >= 0  # below zero types of C++ differ in what a number is
        if not a.terms and not b.terms and op in _COMPARISONS and whole:
            return Test((), NEVER) if _COMPARISONS[op](a.const, b.const) else Test(NEVER, ())
        doubt = not (self.run.placed(a) and self.run.placed(b))
        less, more = ((a, b, 1),), ((b, a, 0),)
        if op in (">", "<="):
            less, more = ((b, a, 1),), ((a, b, 0),)
        if op in ("<", ">"):
            return Test(less, more, doubt)
        if op in (">=", "<="):
            return Test(more, less, doubt)
        same = ((a, b, 0), (b, a, 0))
        return Test(same, (), doubt) if op == "==" else Test((), same if op == "!=" else (), doubt)

    # --- calls ---

    def _call(self, node: ir.Call) -> Value:
        run, name = self.run, self.called(node.func)
        made = None if name else run.inlined(node)
        if made is not None and len(made) == 1:
            return made[0]
        row = None if run.cpp else _OF_TILES.get(name)
        own = row(self, node) if row is not None else None
        if own is not None:
            return own
        name_of_type = _type_name(node.func) if run.cpp and len(node.args) == 1 and name not in SAME else ""
        kind = run.element(ir.TypeRef(name_of_type, (), node.loc)) if name_of_type else None
        if kind is None and name not in _OF_NUMBERS and not self.whole:
            return run.unknown()  # whatever it is given
        numbers = [self.value(a) for a in node.args]
        if name in SAME and numbers:
            return run.unknown() if name == "cast" and isinstance(numbers[0], Pointer) else numbers[0]
        if kind is not None and kind in dtypes.INTS and isinstance(numbers[0], Linear):
            return self.held(numbers[0], kind)  # size_t(i)
        pair = [n for n in numbers if isinstance(n, Linear)]
        return self._of_two(name, *pair) if len(pair) == len(numbers) == 2 else run.unknown()

    def _as_type(self, node: ir.Call) -> Value | None:
        """`tile.to(dtype)`."""
        if not isinstance(node.func, ir.Attr):
            return None
        base = self.value(node.func.value)
        return self.run.unknown() if isinstance(base, Pointer) else base

    def _advanced(self, node: ir.Call) -> Value:
        """`advance(box, steps)`."""
        numbers = [self.value(a) for a in node.args]
        if len(numbers) == 2 and isinstance(numbers[0], Described):
            return self.moved(numbers[0], node.args[1], Linear(1))
        return self.run.unknown()

    def _of_grid(self, node: ir.Call, kind: str) -> Value:
        """`program_id(axis)`, `num_programs(axis)`."""
        numbers = [self.value(a) for a in node.args]
        axis = numbers[0] if numbers else self.value(dict(node.keywords).get("axis"))
        at = axis.const if isinstance(axis, Linear) and not axis.terms else -1
        return self.run.axes[kind][at] if 0 <= at < 3 else self.run.unknown()

    def _of_two(self, name: str, a: Linear, b: Linear) -> Value:
        """A function of two numbers."""
        atoms = self.run.atoms
        if name == "arange" and not a.terms and not b.terms:
            return atoms.between(a.const, b.const - 1)
        if name in _EXTREMES:
            return atoms.apply(_EXTREMES[name], a, b)
        if name == "cdiv" and not b.terms:
            return atoms.apply("//", atoms.apply("+", a, Linear(b.const - 1)), b)
        return self.run.unknown()

    def _made(self, node: ir.Call) -> Value:
        """`make_tensor_descriptor(base, shape, strides, block_shape)` and `make_block_ptr(base, shape, strides,
        offsets, block_shape, order)`."""
        names = ["base", "shape", "strides", "block_shape"]
        if self.called(node.func) == "make_block_ptr":
            names.insert(3, "offsets")
        told = dict(zip(names, node.args, strict=False)) | {name: value for name, value in node.keywords if name}
        base = self.value(told["base"]) if "base" in told else None
        parts: list[tuple[Linear, ...]] = []
        for name in names[1:]:
            seq = told.get(name)
            numbers = [self.value(item) for item in seq.items] if isinstance(seq, ir.Seq) else []
            parts.append(tuple(number for number in numbers if isinstance(number, Linear)))
        rank = len(parts[0])
        block = tuple(size.const for size in parts[-1] if not size.terms)
        if not isinstance(base, Pointer) or not rank or any(len(part) != rank for part in (*parts, block)):
            return self.run.unknown()
        at = parts[2] if len(parts) == 4 else None
        return Described(base.storage, base.offset, parts[0], parts[1], block, at)

    def moved(self, box: Described, by: object, times: Linear) -> Value:
        """A block pointer advanced by `by` elements along each axis, `times` times."""
        steps = [self.value(step) for step in by.items] if isinstance(by, ir.Seq) else []
        if box.at is None or len(steps) != len(box.at) or not all(isinstance(step, Linear) for step in steps):
            return self.run.unknown()
        moves = [self.run.atoms.apply("*", step, times) for step in steps if isinstance(step, Linear)]
        return box._replace(at=tuple(add(at, move) for at, move in zip(box.at, moves, strict=True)))

    def called(self, func: object) -> str:
        """The plain name of a function of the language, such as `load`; empty for other functions."""
        frame = self.run.frame
        found = frame.called.get(id(func))
        if found is None:
            found = frame.called[id(func)] = self._called(func, frame.kernel)
        return found

    def _called(self, func: object, kernel: values.Func) -> str:
        name = func.id.rsplit("::", 1)[-1] if isinstance(func, ir.Name) else getattr(func, "name", "")
        root = func
        while isinstance(root, ir.Attr):
            root = root.value
        if not isinstance(root, ir.Name) or name == "to":
            return name if name == "to" else ""
        return name if isinstance(kernel.env.get(root.id, _OUTSIDE), values.Sym) else ""


Expressions.handlers = {
    ir.Const: Expressions._const, ir.Name: Expressions._name, ir.Binary: Expressions._binary,
    ir.Call: Expressions._call, ir.Compare: Expressions._compare, ir.Bool: Expressions._bool,
    ir.Unary: Expressions._unary, ir.Cond: Expressions._cond, ir.Cast: Expressions._cast,
    ir.Index: Expressions._index, ir.Attr: Expressions._attr, ir.TypeRef: Expressions._type,
}  # fmt: skip

_OF_TILES: dict[str, Callable[[Expressions, ir.Call], Value | None]] = {  # calls that only languages in Python have
    "to": Expressions._as_type,
    "make_tensor_descriptor": Expressions._made,
    "make_block_ptr": Expressions._made,
    "advance": Expressions._advanced,
    "program_id": lambda self, node: self._of_grid(node, "program_id"),
    "num_programs": lambda self, node: self._of_grid(node, "num_programs"),
}


def _type_name(func: object) -> str:
    """The name of what is called if it may be a type of numbers."""
    if isinstance(func, ir.TypeRef):
        return "" if func.pointers or func.dims else func.name
    return func.id if isinstance(func, ir.Name) else ""


def _widens(index: object) -> bool:
    """Whether an index is only made of `:` and None."""
    parts = index.items if isinstance(index, ir.Seq) else (index,)
    return all(isinstance(p, ir.SliceE) or isinstance(p, ir.Const) and p.value is None for p in parts)
