"""Which part of a storage the loads of a launch can read at most: from where to where, and how many elements.

A storage counts only where every use of a pointer to it is understood: what is cast, handed to a function that is not
followed, kept in a struct or chosen between may be read anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.records import dataclass
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.extents.intervals import Limits, Linear, add, highest, lowest
from kbh_lint.kernels.extents.reach import (
    MAX_STEPS,
    SAME,
    Described,
    Dims,
    Follow,
    Pointer,
    TooLong,
    Value,
    can_be_followed,
    unpacked,
)

MAX_DEPTH = 3  # functions that a kernel calls, one in another
_PLAIN = (ir.Const, ir.Name)
_ALIASES = (*SAME, "advance", "make_block_ptr", "make_tensor_descriptor")
_READS = ("__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv")


@dataclass(frozen=True, slots=True)
class Part:
    """What is read at one place of a kernel: from element `first`, up to before element `end`, at most `count`."""

    first: int
    end: int
    count: int | None


Ranges = Mapping[int, tuple[int, int]]  # by storage, what the whole numbers in it are between


def read_parts(
    kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims, ranges: Ranges | None = None
) -> dict[int, list[Part]]:
    """The parts of each load, by storage; a storage of which not every load is bounded is left out."""
    body = kernel.node.body or ()
    if not can_be_followed(body):
        return {}
    follow = Reads(kernel, args, grid, block, ranges)
    try:
        follow.run(body, {})
    except (TooLong, RecursionError):
        return {}
    return {at: parts for at, parts in follow.parts.items() if at not in follow.lost}


class Reads(Follow):
    """Notes the address of every load, under the conditions that hold where it stands."""

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
        self.ranges = {at: ends for at, ends in (ranges or {}).items() if at in whole}
        self.parts: dict[int, list[Part]] = {}
        self.lost: set[int] = set()
        self.depth = 0
        self.known: dict[int, tuple[Value, int]] = {}  # what expressions of a statement stand for, see `value`
        for name, given in args.items():
            if not isinstance(self.env.get(name), (Pointer, Described)):
                self.lost |= set(_storages(given))

    # --- statements ---

    def _statement(self, stmt: object, limits: Limits) -> Limits:
        self.known.clear()
        limits = self._noted(stmt, limits)
        self.known.clear()
        return limits

    def _noted(self, stmt: object, limits: Limits) -> Limits:
        if isinstance(stmt, (ir.ExprS, ir.Decl, ir.Assign, ir.AugAssign, ir.If, ir.For)):
            for node in _expressions(stmt):
                self._visit(node, limits)
            if isinstance(stmt, ir.Assign) and unpacked(stmt):
                pass  # each value is visited, and a name that stands for a pointer is one
            elif isinstance(stmt, ir.Assign) and any(isinstance(target, ir.Seq) for target in stmt.targets):
                self._lose(stmt.value)
            elif isinstance(stmt, ir.Assign) and not all(isinstance(target, ir.Name) for target in stmt.targets):
                self._pointers_in(stmt.value)
            elif isinstance(stmt, ir.Decl) and stmt.type is not None and stmt.type.dims:
                self._lose(stmt.init)
        elif isinstance(stmt, (ir.CFor, ir.While)):
            self._lose(stmt.test, getattr(stmt, "step", None))
        elif not isinstance(stmt, ir.Block):
            self._lose(stmt)
        return super()._statement(stmt, limits)

    def _loop(self, stmt: ir.For | ir.CFor | ir.While, limits: Limits) -> None:
        before = dict(self.env)
        super()._loop(stmt, limits)
        self._other_places(before, self.env)

    def _if(self, stmt: ir.If, limits: Limits) -> Limits:
        before = dict(self.env)
        limits = super()._if(stmt, limits)
        self._other_places(before, self.env)
        return limits

    def _differ(self, *ways: object) -> None:
        for value in ways:
            self._lose_value(value)

    def _other_places(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """A name that was assigned on the way may point into another storage than it did, or than is known now."""
        for name, old in before.items():
            new = after.get(name)
            if old is not new and getattr(old, "storage", None) != getattr(new, "storage", None):
                self.lost |= {value.storage for value in (old, new) if isinstance(value, (Pointer, Described))}

    def _forget(self, names: Collection[str]) -> None:
        if names:
            self.known.clear()
        for name in names:
            old = self.env.get(name)
            if isinstance(old, Pointer):
                self.env[name] = Pointer(old.storage, self.unknown())
            elif isinstance(old, Described):
                self.env[name] = old._replace(at=None if old.at is None else tuple(self.unknown() for _ in old.at))
            else:
                self.env[name] = self.unknown()

    def _lose(self, *nodes: object) -> None:
        """Pointers that are named in or below nodes may be read anywhere."""
        for node in walk(tuple(nodes)):
            if isinstance(node, ir.Name):
                self._lose_value(self.env.get(node.id))

    def _lose_value(self, value: object) -> None:
        if isinstance(value, (Pointer, Described)):
            self.lost.add(value.storage)

    # --- expressions ---

    def value(self, node: object) -> Value:
        """What an expression stands for, which is worked out once in a statement: each expression around it asks again.
        An answer that is there costs as many of the steps as it did."""
        if type(node) in _PLAIN:
            return Follow.value(self, node)
        known = self.known.get(id(node))
        if known is not None:
            self.steps += known[1]
            if self.steps > MAX_STEPS:
                raise TooLong
            return known[0]
        before = self.steps
        found = self._worked_out(node) if self.ranges else Follow.value(self, node)
        self.known[id(node)] = found, self.steps - before
        return found

    def _worked_out(self, node: object) -> Value:
        """What an expression stands for; an element of an input of whole numbers lies in the input's range."""
        if isinstance(node, (ir.Index, ir.Unary, ir.Call)):
            there = self._loaded(node)
            if isinstance(there, Pointer) and there.storage in self.ranges:
                low, high = self.ranges[there.storage]
                return self.atoms.between(min(low, 0), max(high, 0))  # lanes that are masked hold 0
        return Follow.value(self, node)

    def _loaded(self, node: ir.Index | ir.Unary | ir.Call) -> object:
        """The address that an expression loads from; None where it loads nothing, or something else where masked."""
        if isinstance(node, ir.Call) and self._called(node.func) == "load" and not self.cpp and node.args:
            other = dict(node.keywords).get("other", node.args[2] if len(node.args) > 2 else None)
            plain = other is None or isinstance(other, ir.Const) and other.value == 0
            return self.value(node.args[0]) if plain else None
        if not self.cpp:
            return None
        if isinstance(node, ir.Index):
            base = self.value(node.value)
            return base if isinstance(base, Pointer) else None
        if isinstance(node, ir.Call) and self._called(node.func) in _READS and len(node.args) == 1:
            taken = node.args[0]
            address = taken.value if isinstance(taken, ir.Unary) and taken.op == "&" else None
            return self._loaded(address) if isinstance(address, ir.Index) else self.value(taken)
        return self.value(node.value) if isinstance(node, ir.Unary) and node.op == "*" else None

    def _visit(self, node: object, limits: Limits) -> None:
        """Looks for loads in an expression; what decides whether a side of it is computed holds there."""
        if type(node) in _PLAIN:
            return
        match node:
            case None | ir.TypeRef():
                return
            case ir.Call():
                self._call_of(node, limits)
            case ir.Cond(test=test, yes=yes, no=no):
                known = self.value(test)
                self._visit(test, limits)
                self._visit(yes, self._under(known, limits))
                self._visit(no, self._under(known, limits, False))
                self._pointers_in(yes, no)
            case ir.Bool(op="and", values=parts):
                for part in parts:
                    self._visit(part, limits)
                    limits = self._under(self.value(part), limits)
            case ir.Binary(left=left, right=right):
                self._visit(left, limits)
                self._visit(right, limits)
                if not isinstance(self.value(node), Pointer):
                    self._pointers_in(left, right)
            case ir.Index(value=base, index=index):
                self._visit(base, limits)
                self._visit(index, limits)
                self._pointers_in(index)
                if self.cpp:
                    self._note(self._binary("+", self.value(base), self.value(index)), limits)
            case ir.Unary(op="*", value=base) if self.cpp:
                self._visit(base, limits)
                self._note(self.value(base), limits)
            case ir.AssignE(target=target, value=value) | ir.AugAssign(target=target, value=value):
                self._visit(value, limits)
                self._target(target, node.op, limits)
                if not isinstance(target, ir.Name):
                    self._pointers_in(value)
            case ir.Compare(left=left, rights=rights):
                for part in (left, *rights):
                    self._visit(part, limits)
                self._pointers_in(left, *rights)
            case ir.Bool(values=parts) | ir.Seq(items=parts):
                for part in parts:
                    self._visit(part, limits)
                self._pointers_in(*parts)
            case (
                ir.Cast(value=value) | ir.Attr(value=value) | ir.Unary(op=("-" | "+" | "not" | "!" | "~"), value=value)
            ):
                self._visit(value, limits)
                self._pointers_in(value)
            case _:
                self._lose(node)

    def _pointers_in(self, *nodes: object) -> None:
        """Values that are pointers are used in a way that is not followed."""
        for node in nodes:
            self._lose_value(self.env.get(node.id) if isinstance(node, ir.Name) else self.value(node))

    def _target(self, target: object, op: str, limits: Limits) -> None:
        """What is assigned to is not read, but for what `+=` adds to."""
        if isinstance(target, ir.Index) and self.cpp and not op:
            self._visit(target.value, limits)
            self._visit(target.index, limits)
        elif not isinstance(target, ir.Name):
            self._visit(target, limits)

    def _call_of(self, node: ir.Call, limits: Limits) -> None:
        name = self._called(node.func)
        box = self._box(node, limits) if name in ("load", "store") else None
        if box is not None:
            if name == "load":
                self._put(*box)
            return
        parts = [*node.args, *(value for _, value in node.keywords)]
        if not self.cpp and name in ("load", "store") and node.args and not isinstance(node.args[0], ir.Star):
            given = dict(node.keywords)
            position = 1 if name == "load" else 2
            mask = given.get("mask", node.args[position] if len(node.args) > position else None)
            for part in parts:
                self._visit(part, limits)
            self._pointers_in(*parts[1:])
            if name == "load":
                self._note(self.value(node.args[0]), limits if mask is None else self._under(self.value(mask), limits))
            return
        if self.cpp and name in _READS and len(parts) == 1:
            taken = parts[0]
            if isinstance(taken, ir.Unary) and taken.op == "&" and isinstance(taken.value, ir.Index):
                self._visit(taken.value, limits)
            else:
                self._visit(taken, limits)
                self._note(self.value(taken), limits)
            return
        for part in parts:
            self._visit(part, limits)
        if isinstance(node.func, ir.Attr) and not self.cpp:
            self._visit(node.func, limits)
        inside = not self.cpp and self._inside(node, limits)
        if not inside and not (name in _ALIASES and isinstance(self.value(node), (Pointer, Described))):
            self._pointers_in(*parts)

    def _box(self, node: ir.Call, limits: Limits) -> tuple[int, Part | None] | None:
        """`d.load([i, j])`, `d.store([i, j], value)`, and loads and stores of block pointers: the storage, and the
        part of it that is in the box; None for other calls. Looks for loads in the arguments."""
        if self.cpp or not node.args or isinstance(node.args[0], ir.Star):
            return None
        named, at = dict(node.keywords), node.args[0]
        there = self.value(at)
        if isinstance(there, Described) and there.at is not None:
            checked = named.get("boundary_check")
            axes = [self.value(axis) for axis in checked.items] if isinstance(checked, ir.Seq) else []
            part = self._boxed(there, there.at, [axis.const for axis in axes if isinstance(axis, Linear)], limits)
        else:
            box = self.value(node.func.value) if isinstance(node.func, ir.Attr) else None
            if not isinstance(box, Described) or box.at is not None or not isinstance(at, ir.Seq):
                return None
            offsets = [offset for item in at.items if isinstance(offset := self.value(item), Linear)]
            there, part = box, self._boxed(box, offsets, range(len(box.block)), limits)
        for given in (*node.args, *named.values()):
            self._visit(given, limits)
        self._pointers_in(*node.args[1:], *named.values())
        return there.storage, part

    def _boxed(self, box: Described, at: Sequence[Linear], clipped: Collection[int], limits: Limits) -> Part | None:
        """The part of a tensor in a box that begins at `at`, of which nothing outside is touched on some axes."""
        if not len(at) == len(box.shape) == len(box.strides) == len(box.block):
            return None
        first, last = box.start, box.start
        count = self._together([atom for atom, _ in box.start.terms], limits)
        for axis, (offset, block) in enumerate(zip(at, box.block, strict=True)):
            low, high = lowest(self.atoms, offset, limits), highest(self.atoms, add(offset, Linear(block - 1)), limits)
            if axis in clipped:
                size = highest(self.atoms, box.shape[axis], limits)
                low = max(low or 0, 0)
                high = high if size is None else size - 1 if high is None else min(high, size - 1)
            stride = box.strides[axis]
            if low is None or high is None or stride.terms or stride.const < 0:
                return None
            first, last = add(first, Linear(low * stride.const)), add(last, Linear(high * stride.const))
            count = None if count is None else count * max(high - low + 1, 0)
        begin, end = lowest(self.atoms, first, limits), highest(self.atoms, last, limits)
        return None if begin is None or end is None else Part(begin, max(end + 1, 0), count)

    def _put(self, storage: int, part: Part | None) -> None:
        if part is None:
            self.lost.add(storage)
        else:
            self.parts.setdefault(storage, []).append(part)

    def _inside(self, node: ir.Call, limits: Limits) -> bool:
        """Follows a Triton function of the submission that the kernel calls, for the loads in it."""
        try:
            found = self.kernel.env.lookup(node.func.id) if isinstance(node.func, ir.Name) else None
        except KeyError:
            return False
        func = found.func if isinstance(found, values.JitFunction) else None
        if func is None or func.node.body is None or self.depth >= MAX_DEPTH or not can_be_followed(func.node.body):
            return False
        keywords = {name: value for name, value in node.keywords if name is not None}
        if any(isinstance(arg, ir.Star) for arg in node.args) or len(keywords) < len(node.keywords):
            return False
        names = [param.name for param in func.node.params]
        given = {**dict(zip(names, node.args, strict=False)), **keywords}
        inner = {name: self.value(value) for name, value in given.items()}
        for name in names:
            if name not in inner:
                inner[name] = self._argument(func.defaults.get(name, values.UNKNOWN))
        env, kernel, known = self.env, self.kernel, self.known
        self.env, self.kernel, self.known, self.depth = inner, func, {}, self.depth + 1
        self.run(func.node.body, limits)
        self.env, self.kernel, self.known, self.depth = env, kernel, known, self.depth - 1
        return True

    def _note(self, where: object, limits: Limits) -> None:
        if not isinstance(where, Pointer):
            return
        self._put(where.storage, self._part(where.offset, limits))

    def _part(self, address: Linear, limits: Limits) -> Part | None:
        if limits.get((), 0) < 0:
            return Part(0, 0, 0)  # never
        first, last = lowest(self.atoms, address, limits), highest(self.atoms, address, limits)
        if first is None or last is None:
            return None
        return Part(first, max(last + 1, 0), self._count(address, limits))

    def _count(self, address: Linear, limits: Limits) -> int | None:
        """How many values a sum has at most: as many as the numbers with the largest factors have together, times
        the room that the rest of the sum has, wherever the sum is cut."""
        terms = sorted(address.terms, key=lambda term: -abs(term[1]))
        best: int | None = None
        for cut in range(len(terms) + 1):
            large = self._together([atom for atom, _ in terms[:cut]], limits)
            if large is None:
                break
            room = self._room(Linear(0, tuple(sorted(terms[cut:]))), limits)
            best = large * room if room is not None and (best is None or large * room < best) else best
        return best

    def _together(self, atoms: list[int], limits: Limits) -> int | None:
        """How many values some numbers have together at most."""
        count, seen = 1, set[int]()
        stack = list(atoms)
        while stack:
            atom = stack.pop()
            if atom in self.atoms.made:
                stack += [part for side in self.atoms.made[atom][1:] for part, _ in side.terms]
            elif atom not in seen:
                seen.add(atom)
                room = self._room(Linear(0, ((atom, 1),)), limits)
                if room is None:
                    return None
                count *= room
        return count

    def _room(self, value: Linear, limits: Limits) -> int | None:
        low, high = lowest(self.atoms, value, limits), highest(self.atoms, value, limits)
        return None if low is None or high is None else max(high - low + 1, 0)


def _expressions(stmt: object) -> Iterator[Any]:
    """The expressions that a statement computes itself, once and before all else."""
    if isinstance(stmt, ir.Decl):
        yield stmt.init
    elif isinstance(stmt, ir.Assign) and unpacked(stmt):
        yield from (value for _, value in unpacked(stmt))
    elif isinstance(stmt, ir.Assign):
        yield stmt.value
        for target in stmt.targets:
            if isinstance(target, ir.Index):
                yield target.index
            elif not isinstance(target, (ir.Name, ir.Seq)):
                yield target
    elif isinstance(stmt, ir.AugAssign):
        yield stmt
    elif isinstance(stmt, ir.If):
        yield stmt.test
    elif isinstance(stmt, ir.For):
        yield stmt.iterable
    elif isinstance(stmt, ir.ExprS):
        yield stmt.value


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
