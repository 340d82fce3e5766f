"""Which part of a storage the loads of a launch can read at most: from where to where, and how many elements.

A storage counts only where every use of a pointer to it is understood: what is cast, handed to a function that is not
followed, kept in a struct or chosen between may be read anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.frontends.walk import by_node, children, walk
from kbh_lint.kernels.core.walker import Enough, OutOfFuel
from kbh_lint.kernels.extents.assigned import AROUND
from kbh_lint.kernels.extents.expressions import Expressions
from kbh_lint.kernels.extents.follow import NOT_FOLLOWED, Follow, can_be_followed
from kbh_lint.kernels.extents.intervals import Limits, Linear
from kbh_lint.kernels.extents.loads import READS, Loads
from kbh_lint.kernels.extents.parts import Part, addressed
from kbh_lint.kernels.extents.statements import own_expressions, unpacked
from kbh_lint.kernels.extents.values import Described, Dims, Laid, Place, Pointer, Value, counts_whole

_AROUND = (*AROUND, ir.For, ir.With)
_POINTING = (Pointer, Place, Described, values.Buffer, values.Descriptor)

Parts = dict[int, list[Part]]  # by storage
Ranges = Mapping[int, tuple[int, int]]  # by storage, what the whole numbers in it are between


def read_parts(
    kernel: values.Func, args: Mapping[str, object], grid: Dims, block: Dims, ranges: Ranges | None = None,
    asked: frozenset[int] | None = None,
) -> Parts:  # fmt: skip
    """The parts that the loads of a launch can read, by storage; storages with an unbounded load are left out. Where
    only some are `asked` for, others may be left out, too."""
    return parts_under(kernel, args, grid, block, ranges or {}, asked)[0]


def parts_under(
    kernel: values.Func, args: Mapping[str, object], grid: Dims, block: Dims, ranges: Ranges,
    asked: frozenset[int] | None = None, sizes: Mapping[int, int] | None = None,
) -> tuple[Parts, frozenset[int]]:  # fmt: skip
    """The parts of `read_parts`, and the storages whose `ranges` they depend on. Of a storage of which `sizes` says how
    many elements it has, parts that together may be all of it are left out, too, where it is asked for."""
    if not can_be_followed(kernel, references=True):
        return {}, frozenset()
    with Reads(kernel, args, grid, block, ranges) as follow:
        follow.asked, known = asked, follow.expressions
        follow.sizes = sizes or {}
        try:
            follow.run()
        except (*NOT_FOLLOWED, Enough):
            return {}, frozenset(known.met)
        return {at: parts for at, parts in follow.parts.items() if at not in follow.lost}, frozenset(known.met)


class Reads(Follow):
    """A walk that records the address of every load, under the limits that hold there."""

    expressions: Remembered

    def __init__(
        self,
        kernel: values.Func,
        args: Mapping[str, Any],
        grid: Dims,
        block: Dims,
        ranges: Ranges | None = None,
    ) -> None:
        super().__init__(kernel, args, grid, block)
        whole = {b.storage for b in args.values() if isinstance(b, values.Buffer) and b.dtype == b.content}
        ends = {at: between for at, between in (ranges or {}).items() if at in whole}
        self.expressions = Remembered(self, ends)
        self.loads = Loads(self)
        self.parts: Parts = {}
        self.lost: set[int] = set()
        self.asked: frozenset[int] | None = None  # the storages that alone count; None for all
        self.sizes: Mapping[int, int] = {}  # of storages that do not count any more once all of them may be touched
        self.widths: dict[int, int | None] = {}  # of the elements of a storage that offsets count, in bits
        for param in kernel.node.params if self.cpp else ():
            there = self._of_structs(param, args.get(param.name)) or self.frame.env.get(param.name)
            if isinstance(there, Pointer) and there.kind is not None:
                self.frame.env[param.name] = there
            elif isinstance(there, Pointer):
                bits = self._width(param.type)
                self.widths[there.storage] = bits if self.widths.get(there.storage, bits) == bits else None
        for name, given in args.items():
            if not isinstance(self.frame.env.get(name), (Pointer, Described)):
                self.lost |= set(_storages(given))

    def begins(self, stmt: object) -> None:
        """Records what a statement loads. Most statements name no pointer and are skipped. Raises Enough when what is
        asked about may be read anywhere, so that the rest of the kernel says no more of it."""
        self.expressions.known.clear()
        if self.points(stmt):
            self.look(stmt)
            if self.asked is not None and self.settled(self.asked):
                raise Enough

    def settled(self, asked: frozenset[int]) -> bool:
        """Whether nothing can be said of any of the storages that are asked for."""
        return all(at in self.lost or self.whole(at, self.parts) for at in asked)

    def whole(self, at: int, parts: Parts) -> bool:
        """Whether some parts of a storage may be all of it, by where they end and by how many elements they have."""
        size, touched = self.sizes.get(at), parts.get(at)
        if size is None or not touched or max(p.end for p in touched) - max(min(p.first for p in touched), 0) < size:
            return False
        counts = [part.count for part in touched]
        return None in counts or sum(count or 0 for count in counts) >= size

    def look(self, stmt: object) -> None:
        """Records the loads in a statement's own expressions, and the pointers that it passes on."""
        if isinstance(stmt, ir.Switch):
            self.loads.visit(stmt.value, self.limits)
            self.loads.pointers_in(stmt.value)
        elif isinstance(stmt, (ir.ExprS, ir.Decl, ir.Assign, ir.AugAssign, ir.If, ir.For)):
            for node in own_expressions(stmt):
                self.loads.visit(node, self.limits)
            if isinstance(stmt, ir.Assign):
                self._assigned(stmt)
            elif isinstance(stmt, ir.Decl) and stmt.type is not None:
                if stmt.type.dims or stmt.type.reference and self.place_of(stmt.init) is None:
                    self.lose(stmt.init)
        elif isinstance(stmt, ir.Return):
            self.loads.visit(stmt.value, self.limits)
            self.loads.pointers_in(stmt.value)
        elif isinstance(stmt, (ir.CFor, ir.While)):
            self.lose(stmt.test, getattr(stmt, "step", None))
        elif not isinstance(stmt, ir.Block):
            self.lose(stmt)

    def _assigned(self, stmt: ir.Assign) -> None:
        """Looks at where an assignment stores, and at pointers that it hands on."""
        for target in stmt.targets:
            if isinstance(target, ir.Attr):
                self.loads.field(target, self.limits)
        if unpacked(stmt) or self._of_language(stmt.value):
            return  # each value is visited, and a name that stands for a pointer is one
        if any(isinstance(target, ir.Seq) for target in stmt.targets):
            self.lose(stmt.value)
        elif not all(isinstance(target, ir.Name) for target in stmt.targets):
            self.loads.pointers_in(stmt.value)

    def _of_language(self, value: object) -> bool:
        """Whether an expression calls a function of the language, whose results are none of the pointers it is given:
        `tl.reduce((a, b), 0, f)`."""
        return isinstance(value, ir.Call) and bool(self.expressions.called(value.func))

    def points(self, stmt: object) -> bool:
        """Whether a name in a statement stands for a pointer to a storage that counts, or for an object that contains
        one."""
        frame, asked = self.frame, self.asked
        env, around = frame.env, frame.around
        for name in _names(stmt):
            there: object = env.get(name)
            if there is None:
                if name not in around:
                    around[name] = frame.kernel.env.get(name)
                there = around[name]
            if isinstance(there, _POINTING) and (asked is None or there.storage in asked):
                return True
        return False

    def ends(self, stmt: object) -> None:
        self.expressions.known.clear()

    def entered(self) -> None:
        self.expressions.known.clear()

    def differs(self, *ways: Value | None) -> None:
        for value in ways:
            self.lose_value(value)

    def passed(self, before: Mapping[str, Value]) -> None:
        """Marks the storages of variables as read anywhere that point to another storage than in `before`."""
        after = self.frame.env
        for name, old in before.items():
            new = after.get(name)
            if old is not new and getattr(old, "storage", None) != getattr(new, "storage", None):
                for value in (old, new):
                    self.lose_value(value)

    def forget(self, names: Collection[str]) -> None:
        if names:
            self.expressions.known.clear()
        env = self.frame.env
        for name in names:
            old = env.get(name)
            if isinstance(old, Pointer):
                env[name] = old._replace(offset=self.unknown())
            elif isinstance(old, Place):
                env[name] = Place(old.at._replace(offset=self.unknown()))
            elif isinstance(old, Described):
                env[name] = old._replace(at=None if old.at is None else tuple(self.unknown() for _ in old.at))
            else:
                env[name] = self.unknown()

    # --- pointers of C++ ---

    def pointed(self, pointer: Pointer, kind: ir.TypeRef) -> Value:
        """The pointer `reinterpret_cast<const float4*>(x)`; an index on it counts as many elements as `kind` holds."""
        if kind.pointers != 1:
            return self.unknown()
        laid = self.laid(kind)
        bits, given = self._width(kind) if laid is None else laid.bits, self.widths.get(pointer.storage)
        if not bits or not given or not counts_whole(laid, bits, given):
            return self.unknown()
        return Pointer(pointer.storage, pointer.offset, bits // given, laid)

    def address(self, node: object) -> Value:
        """The value of `&x[i]`."""
        return self.place_of(node) or self.unknown()

    def place_of(self, node: object) -> Pointer | None:
        """The address of an element of memory, or of a field of one; None for other expressions."""
        found: Value | None = None
        if not self.cpp:
            return None
        if isinstance(node, ir.Index):
            found = self.expressions.binary("+", self.value(node.value), self.value(node.index))
        elif isinstance(node, ir.Unary) and node.op == "*":
            found = self.value(node.value)
        elif isinstance(node, ir.Attr):
            found = self._of_field(node)[0]
        elif isinstance(node, ir.Name):
            held = self.frame.env.get(node.id)
            found = held.at if isinstance(held, Place) else None
        return found if isinstance(found, Pointer) else None

    def _of_field(self, node: ir.Attr) -> tuple[Pointer | None, bool]:
        """The place of `node.name`, and whether that is an array."""
        owner: Value | None = self.place_of(node.value)
        if owner is None:  # value->name
            inner = node.value
            owner = self.frame.env.get(inner.id) if isinstance(inner, ir.Name) else self.value(inner)
        width = self.widths.get(owner.storage) if isinstance(owner, Pointer) else None
        if not isinstance(owner, Pointer) or owner.kind is None or width is None:
            return None, False
        field = owner.kind.fields.get(node.name)
        if field is None:
            return None, False
        offset = self.atoms.apply("+", owner.offset, Linear(field.at // width))
        return Pointer(owner.storage, offset, field.bits // width, field.kind), field.count is not None

    def member(self, node: ir.Attr) -> Value:
        found, array = self._of_field(node)
        return found if found is not None and array else self.unknown()

    def referred(self, node: object) -> Value:
        found = self.place_of(node)
        return self.unknown() if found is None else Place(found)

    def reads_place(self, node: object) -> bool:
        """Whether an expression for a place in memory reads it; an array does not, as it stands for its address."""
        return not (isinstance(node, ir.Attr) and self._of_field(node)[1])

    def laid(self, kind: object) -> Laid | None:
        """The memory layout of the struct or vector that a pointer of type `kind` leads to; None for other types."""
        if self.types is None or not isinstance(kind, ir.TypeRef) or kind.member or kind.dims:
            return None
        return self.types.laid(replace(kind, pointers=0))

    def _of_structs(self, param: ir.Param, given: object) -> Pointer | None:
        """What a parameter stands for that leads to structs, or to vectors."""
        if not isinstance(given, values.Buffer) or not isinstance(param.type, ir.TypeRef) or param.type.pointers != 1:
            return None
        width, laid = dtypes.BITS.get(given.dtype), self.laid(param.type)
        if laid is None or width is None or not counts_whole(laid, laid.bits, width):
            return None
        self.widths[given.storage] = width if self.widths.get(given.storage, width) == width else None
        return Pointer(given.storage, Linear(0), laid.bits // width, laid)

    def _width(self, kind: object) -> int | None:
        """The bits of the numbers that a pointer of a written type leads to."""
        if not isinstance(kind, ir.TypeRef) or kind.args or kind.member or kind.dims:
            return None
        element = self.element(replace(kind, pointers=0))
        return None if element is None else dtypes.BITS.get(element)

    # --- what is noted ---

    def lose(self, *nodes: object) -> None:
        """Marks the storages of pointers that are named in or below `nodes` as read anywhere."""
        for node in walk(tuple(nodes)):
            if isinstance(node, ir.Name):
                self.lose_value(self.frame.env.get(node.id))

    def lose_value(self, value: object) -> None:
        """Marks the storage that a value points to as read anywhere."""
        if isinstance(value, (Pointer, Place, Described)):
            self.lost.add(value.storage)

    def note(self, where: object, limits: Limits) -> None:
        """Records a load from the address `where`."""
        if isinstance(where, Pointer):
            self.put(where.storage, addressed(self.atoms, where.offset, limits, where.unit))

    def put(self, storage: int, part: Part | None) -> None:
        """Records a load of a part of `storage`; `part` is None for an unbounded load."""
        if part is None:
            self.lost.add(storage)
        else:
            self.parts.setdefault(storage, []).append(part)


class Remembered(Expressions):
    """What an expression stands for is worked out once in a statement, as each expression around it asks again. An
    answer that is there costs as many of the steps as it did. An element of an input of whole numbers lies in the
    input's range. Loads are looked for apart (`Loads`), so that not all of an expression is worked out."""

    whole = False

    def __init__(self, run: Reads, ranges: Ranges) -> None:
        super().__init__(run)
        self.ranges = ranges
        self.met: set[int] = set()  # the storages whose ranges counted
        self.known: dict[int, tuple[Value, int]] = {}

    def value(self, node: object) -> Value:
        run = self.run
        known = self.known.get(id(node))
        if known is not None:
            run.steps += known[1]
            if run.steps > run.most:
                raise OutOfFuel
            return known[0]
        before = run.steps
        found = self._element(node) if self.ranges else None
        if found is None:
            run.steps += 1  # as in `Expressions.value`, of which most calls would be made here
            if run.steps > run.most:
                raise OutOfFuel
            if type(node) is ir.Name:
                return run.frame.env.get(node.id) or self._name(node)
            if type(node) is ir.Const:
                return self._const(node)
            handler = self.handlers.get(type(node))
            found = run.unknown() if handler is None else handler(self, node)
        self.known[id(node)] = found, run.steps - before
        return found

    def _element(self, node: object) -> Value | None:
        """An element of an input of whole numbers that lies in a known range; None for another expression."""
        if isinstance(node, (ir.Index, ir.Unary, ir.Call)):
            there = self._loaded(node)
            if isinstance(there, Pointer) and there.storage in self.ranges:
                low, high = self.ranges[there.storage]
                self.met.add(there.storage)
                if isinstance(node, ir.Call) and not self.run.cpp and (len(node.args) > 1 or node.keywords):
                    return self.run.atoms.between(min(low, 0), max(high, 0))  # lanes that are masked hold 0
                return Linear(low) if low == high else self.run.atoms.between(low, high)
        return None

    def _loaded(self, node: ir.Index | ir.Unary | ir.Call) -> object:
        """The address that an expression loads from; None where it loads nothing, or something else where masked."""
        cpp = self.run.cpp
        if isinstance(node, ir.Call) and self.called(node.func) == "load" and not cpp and node.args:
            other = dict(node.keywords).get("other", node.args[2] if len(node.args) > 2 else None)
            plain = other is None or isinstance(other, ir.Const) and other.value == 0
            return self.value(node.args[0]) if plain else None
        if not cpp:
            return None
        if isinstance(node, ir.Index):
            base = self.value(node.value)
            return base if isinstance(base, Pointer) else None
        if isinstance(node, ir.Call) and self.called(node.func) in READS and len(node.args) == 1:
            taken = node.args[0]
            address = taken.value if isinstance(taken, ir.Unary) and taken.op == "&" else None
            return self._loaded(address) if isinstance(address, ir.Index) else self.value(taken)
        return self.value(node.value) if isinstance(node, ir.Unary) and node.op == "*" else None


@by_node
def _names(stmt: object) -> frozenset[str]:
    """The names in or below a statement."""
    if isinstance(stmt, _AROUND):  # statements in it are asked about, too
        return frozenset().union(*map(_names, children(stmt)))
    return frozenset([node.id for node in walk(stmt) if isinstance(node, ir.Name)])


def _storages(given: object) -> Iterator[int]:
    """The storages that an argument leads to."""
    if isinstance(given, (values.Buffer, values.Descriptor)):
        yield given.storage
    elif isinstance(given, (values.StructArg, values.Made)):
        for _, part in given.fields:
            yield from _storages(part)
    elif isinstance(given, (tuple, list)):
        for part in given:
            yield from _storages(part)
