"""Which part of a storage the loads of a launch can read at most: from where to where, and how many elements.

A storage counts only where every use of a pointer to it is understood: what is cast, handed to a function that is not
followed, kept in a struct or chosen between may be read anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kbh_lint import ir, values
from kbh_lint.frontends.walk import walk
from kbh_lint.kernels.extents.intervals import Limits, Linear, highest, lowest
from kbh_lint.kernels.extents.reach import SAME, Dims, Follow, Pointer, TooLong, can_be_followed

MAX_DEPTH = 3  # functions that a kernel calls, one in another
_READS = ("__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv")


@dataclass(frozen=True, slots=True)
class Part:
    """What is read at one place of a kernel: from element `first`, up to before element `end`, at most `count`."""

    first: int
    end: int
    count: int | None


def read_parts(kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> dict[int, list[Part]]:
    """The parts of each load, by storage; a storage of which not every load is bounded is left out."""
    body = kernel.node.body or ()
    if not can_be_followed(body):
        return {}
    follow = _Reads(kernel, args, grid, block)
    try:
        follow.run(body, {})
    except (TooLong, RecursionError):
        return {}
    return {at: parts for at, parts in follow.parts.items() if at not in follow.lost}


class _Reads(Follow):
    """Notes the address of every load, under the conditions that hold where it stands."""

    def __init__(self, kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> None:
        super().__init__(kernel, args, grid, block)
        self.parts: dict[int, list[Part]] = {}
        self.lost: set[int] = set()
        self.depth = 0
        for name, given in args.items():
            if not isinstance(self.env.get(name), Pointer):
                self.lost |= set(_storages(given))

    # --- statements ---

    def _statement(self, stmt: object, limits: Limits) -> Limits:
        if isinstance(stmt, (ir.ExprS, ir.Decl, ir.Assign, ir.AugAssign, ir.If, ir.For)):
            for node in _expressions(stmt):
                self._visit(node, limits)
            if isinstance(stmt, ir.Assign) and any(isinstance(target, ir.Seq) for target in stmt.targets):
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

    def _other_places(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """A name that was assigned on the way may point into another storage than it did, or than is known now."""
        for name in before.keys() | after.keys():
            old, new = before.get(name), after.get(name)
            if getattr(old, "storage", None) != getattr(new, "storage", None) and name in before:
                self.lost |= {value.storage for value in (old, new) if isinstance(value, Pointer)}

    def _forget(self, names: set[str]) -> None:
        for name in names:
            old = self.env.get(name)
            self.env[name] = Pointer(old.storage, self.unknown()) if isinstance(old, Pointer) else self.unknown()

    def _lose(self, *nodes: object) -> None:
        """Pointers that are named in or below nodes may be read anywhere."""
        for node in walk(tuple(nodes)):
            if isinstance(node, ir.Name):
                self._lose_value(self.env.get(node.id))

    def _lose_value(self, value: object) -> None:
        if isinstance(value, Pointer):
            self.lost.add(value.storage)

    # --- expressions ---

    def _visit(self, node: object, limits: Limits) -> None:
        """Looks for loads in an expression; what decides whether a side of it is computed holds there."""
        match node:
            case None | ir.Const() | ir.Name() | ir.TypeRef():
                return
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
            case ir.Call():
                self._call_of(node, limits)
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
        if not inside and not (name in SAME and isinstance(self.value(node), Pointer)):
            self._pointers_in(*parts)

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
        env, kernel = self.env, self.kernel
        self.env, self.kernel, self.depth = inner, func, self.depth + 1
        self.run(func.node.body, limits)
        self.env, self.kernel, self.depth = env, kernel, self.depth - 1
        return True

    def _note(self, where: object, limits: Limits) -> None:
        if not isinstance(where, Pointer):
            return
        part = self._part(where.offset, limits)
        if part is None:
            self.lost.add(where.storage)
        else:
            self.parts.setdefault(where.storage, []).append(part)

    def _part(self, address: Linear, limits: Limits) -> Part | None:
        if limits.get((), 0) < 0:
            return Part(0, 0, 0)  # never
        first, last = lowest(self.atoms, address, limits), highest(self.atoms, address, limits)
        if first is None or last is None:
            return None
        return Part(first, max(last + 1, 0), self._count(address, limits))

    def _count(self, address: Linear, limits: Limits) -> int | None:
        """How many values a sum has at most: the product of how many the numbers have that it is made of."""
        atoms: set[int] = set()
        stack = [address]
        while stack:
            for atom, _ in stack.pop().terms:
                if atom in self.atoms.made:
                    stack += self.atoms.made[atom][1:]
                else:
                    atoms.add(atom)
        count = 1
        for atom in atoms:
            one = Linear(0, ((atom, 1),))
            low, high = lowest(self.atoms, one, limits), highest(self.atoms, one, limits)
            if low is None or high is None:
                return None
            count *= max(high - low + 1, 0)
        return count


def _expressions(stmt: object) -> Iterator[Any]:
    """The expressions that a statement computes itself, once and before all else."""
    if isinstance(stmt, ir.Decl):
        yield stmt.init
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
