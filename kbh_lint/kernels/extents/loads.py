"""The loads in an expression, each under what decides that it is made; pointers that are used otherwise are lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kbh_lint.base import ir, values
from kbh_lint.kernels.core.parameters import matched
from kbh_lint.kernels.extents.expressions import SAME
from kbh_lint.kernels.extents.follow import can_be_followed
from kbh_lint.kernels.extents.intervals import Limits, Linear
from kbh_lint.kernels.extents.parts import Part, boxed
from kbh_lint.kernels.extents.values import Described, Frame, Place, Pointer, Value

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.reads import Reads

MAX_DEPTH = 3  # functions that a kernel calls, one in another
READS = ("__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv")
_PLAIN = (ir.Const, ir.Name)
_ALIASES = (*SAME, "advance", "make_block_ptr", "make_tensor_descriptor")


class Loads:
    """Finds the loads in expressions and records them."""

    def __init__(self, run: Reads) -> None:
        self.run = run

    def visit(self, node: object, limits: Limits) -> None:
        """Records the loads in an expression. Loads on a side of a condition are recorded under the limits that the
        condition gives."""
        run = self.run
        if type(node) in _PLAIN:
            there = run.frame.env.get(getattr(node, "id", ""))
            if type(there) is Place:
                run.note(there.at, limits)
            return
        match node:
            case None | ir.TypeRef():
                return
            case ir.Call():
                self.call(node, limits)
            case ir.Cond(test=test, yes=yes, no=no):
                known = run.value(test)
                self.visit(test, limits)
                self.visit(yes, run.under(known, limits))
                self.visit(no, run.under(known, limits, False))
                self.pointers_in(yes, no)
            case ir.Bool(op="and", values=parts):
                for part in parts:
                    self.visit(part, limits)
                    limits = run.under(run.value(part), limits)
            case ir.Binary(left=left, right=right):
                self.visit(left, limits)
                self.visit(right, limits)
                if not isinstance(run.value(node), Pointer):
                    self.pointers_in(left, right)
            case ir.Index(value=base, index=index):
                self.visit(base, limits)
                self.visit(index, limits)
                self.pointers_in(index)
                if run.cpp:
                    run.note(run.expressions.binary("+", run.value(base), run.value(index)), limits)
            case ir.Unary(op="*", value=base) if run.cpp:
                self.visit(base, limits)
                run.note(run.value(base), limits)
            case ir.AssignE(target=target, value=value) | ir.AugAssign(target=target, value=value):
                self.visit(value, limits)
                self.target(target, node.op, limits)
                if not isinstance(target, ir.Name):
                    self.pointers_in(value)
            case ir.Compare(left=left, rights=rights):
                self._each((left, *rights), limits)
            case ir.Bool(values=parts) | ir.Seq(items=parts):
                self._each(parts, limits)
            case ir.Attr():
                self._member(node, limits)
            case ir.Cast() | ir.Unary(op="&") if self._points(node):
                self._address(node.value, limits)
            case ir.Cast(value=value) | ir.Unary(op=("-" | "+" | "not" | "!" | "~"), value=value):
                self.visit(value, limits)
                self.pointers_in(value)
            case _:
                run.lose(node)

    def _each(self, parts: Iterable[ir.Expr], limits: Limits) -> None:
        """Expressions whose values are used as numbers."""
        for part in parts:
            self.visit(part, limits)
        self.pointers_in(*parts)

    def _member(self, node: ir.Attr, limits: Limits) -> None:
        """`value.name`: a field of a struct in memory, or of another."""
        if isinstance(node.value, ir.Name) and node.value.id not in self.run.frame.env:
            return  # blockIdx.x
        place = self.run.place_of(node)
        if place is None:
            self.visit(node.value, limits)
            self.pointers_in(node.value)
            return
        self.to_place(node, limits)
        if self.run.reads_place(node):
            self.run.note(place, limits)

    def _points(self, node: ir.Cast | ir.Unary) -> bool:
        """Whether a pointer is cast to another, or the place of an element is taken."""
        return (isinstance(node, ir.Unary) or node.type.pointers > 0) and isinstance(self.run.value(node), Pointer)

    def _address(self, node: object, limits: Limits) -> None:
        """What a pointer is made of: another one that is cast, or `x[i]` in `&x[i]`, which is not read."""
        if isinstance(node, (ir.Index, ir.Attr)) or isinstance(node, ir.Unary) and node.op == "*":
            self.to_place(node, limits)
        else:
            self.visit(node, limits)

    def to_place(self, node: object, limits: Limits) -> None:
        """Records what is loaded to compute the address of `node`, but not a load of `node` itself."""
        while isinstance(node, ir.Attr):
            node = node.value
        if isinstance(node, (ir.Index, ir.Unary)):
            self.visit(node.value, limits)
        if isinstance(node, ir.Index):
            self.visit(node.index, limits)
            self.pointers_in(node.index)

    def field(self, target: ir.Attr, limits: Limits) -> None:
        """Records what the assignment to the field `target` loads: of a struct in memory, what its address needs."""
        if self.run.place_of(target) is not None:
            self.to_place(target, limits)
        else:
            self.visit(target, limits)

    def pointers_in(self, *nodes: object) -> None:
        """Marks the storages that pointers in `nodes` lead to as read anywhere, as the pointers are used in unknown
        ways."""
        run = self.run
        env, value = run.frame.env, run.expressions.value
        for node in nodes:
            found = env.get(node.id) if type(node) is ir.Name else value(node)
            if isinstance(found, (Pointer, Described)):  # what is at a `Place` is read
                run.lost.add(found.storage)

    def target(self, target: object, op: str, limits: Limits) -> None:
        """Records the loads for an assignment to `target`, which is read itself only by operators such as `+=`."""
        if isinstance(target, ir.Index) and self.run.cpp and not op:
            self.visit(target.value, limits)
            self.visit(target.index, limits)
        elif isinstance(target, ir.Unary) and target.op == "*" and not op:
            self.visit(target.value, limits)
        elif isinstance(target, ir.Attr) and not op:
            self.field(target, limits)
        elif op or not isinstance(target, ir.Name):
            self.visit(target, limits)

    def call(self, node: ir.Call, limits: Limits) -> None:
        """Records the loads of a call: a load, a store, a function that is followed, or another."""
        run = self.run
        name = run.expressions.called(node.func)
        box = self.box(node, limits) if name in ("load", "store") else None
        if box is not None:
            if name == "load":
                run.put(*box)
            return
        parts = [*node.args, *(value for _, value in node.keywords)]
        if not run.cpp and name in ("load", "store") and node.args and not isinstance(node.args[0], ir.Star):
            for part in parts:
                self.visit(part, limits)
            self.pointers_in(*parts[1:])
            if name == "load":
                run.note(run.value(node.args[0]), self.masked(node, 1, limits))
            return
        if run.cpp and name in READS and len(parts) == 1:
            taken = parts[0]
            if isinstance(taken, ir.Unary) and taken.op == "&" and isinstance(taken.value, (ir.Index, ir.Attr)):
                self.visit(taken.value, limits)
            else:
                self.visit(taken, limits)
                run.note(run.value(taken), limits)
            return
        for part in parts:
            self.visit(part, limits)
        if isinstance(node.func, ir.Attr) and not run.cpp:
            self.visit(node.func, limits)
        inside = self._inside_cpp(node, limits) if run.cpp else self._inside(node, limits)
        if not inside and not (name in _ALIASES and isinstance(run.value(node), (Pointer, Described))):
            self.pointers_in(*parts)

    def masked(self, node: ir.Call, position: int, limits: Limits) -> Limits:
        """`limits` with those added that the mask of a load or store gives; `position` is that of the mask argument."""
        mask = dict(node.keywords).get("mask", node.args[position] if len(node.args) > position else None)
        return limits if mask is None else self.run.under(self.run.value(mask), limits)

    def box(self, node: ir.Call, limits: Limits) -> tuple[int, Part | None] | None:
        """The storage, and the part of it, that a load or store of a descriptor or a block pointer touches; None for
        other calls. Records the loads in the arguments."""
        run = self.run
        if run.cpp or not node.args or isinstance(node.args[0], ir.Star):
            return None
        named, at = dict(node.keywords), node.args[0]
        there = run.value(at)
        if isinstance(there, Described) and there.at is not None:
            checked = named.get("boundary_check")
            axes = [run.value(axis) for axis in checked.items] if isinstance(checked, ir.Seq) else []
            clipped = [axis.const for axis in axes if isinstance(axis, Linear)]
            part = boxed(run.atoms, there, there.at, clipped, limits)
        else:
            box = run.value(node.func.value) if isinstance(node.func, ir.Attr) else None
            if not isinstance(box, Described) or box.at is not None or not isinstance(at, ir.Seq):
                return None
            offsets = [offset for item in at.items if isinstance(offset := run.value(item), Linear)]
            there, part = box, boxed(run.atoms, box, offsets, range(len(box.block)), limits)
        for given in (*node.args, *named.values()):
            self.visit(given, limits)
        self.pointers_in(*node.args[1:], *named.values())
        return there.storage, part

    def _inside(self, node: ir.Call, limits: Limits) -> bool:
        """Follows a Triton function of the submission that the kernel calls, for the loads in it."""
        run = self.run
        try:
            found = run.frame.kernel.env.lookup(node.func.id) if isinstance(node.func, ir.Name) else None
        except KeyError:
            return False
        func = found.func if isinstance(found, values.JitFunction) else None
        if func is None or func.node.body is None or run.statements.depth > MAX_DEPTH:
            return False
        keywords = {name: value for name, value in node.keywords if name is not None}
        if any(isinstance(arg, ir.Star) for arg in node.args) or len(keywords) < len(node.keywords):
            return False
        if not can_be_followed(func, references=True):
            return False
        given, collected, missing = matched(func.node.params, node.args, keywords)
        if collected:
            return False
        inner = {name: run.value(value) for name, value in given.items()}
        for param in missing:
            inner[param.name] = run.argument(func.defaults.get(param.name, values.UNKNOWN))
        self._run(func, inner, limits)
        return True

    def _inside_cpp(self, node: ir.Call, limits: Limits) -> bool:
        """Follows a `__device__` function that is handed a pointer to numbers, for the loads in it."""
        run, func = self.run, self._device_function(node)
        if func is None or len(func.node.params) != len(node.args):
            return False
        inner: dict[str, Value] = {param.name: run.unknown() for param in func.node.template}
        for param, arg in zip(func.node.params, node.args, strict=True):
            given, changed = run.value(arg), isinstance(param.type, ir.TypeRef) and param.type.reference
            if isinstance(given, Pointer) and (changed or not self._takes(func, param, given)):
                return False
            inner[param.name] = given if isinstance(given, (Pointer, Linear)) and not changed else run.unknown()
        if not any(isinstance(given, Pointer) for given in inner.values()):
            return False
        self._run(func, inner, limits)
        return True

    def _takes(self, func: values.Func, param: ir.Param, given: Pointer) -> bool:
        """Whether a parameter counts as the pointer does that it is given, which a template deduces it from."""
        kind = param.type
        if isinstance(kind, ir.TypeRef) and kind.name in {one.name for one in func.node.template}:
            return kind.pointers == 1 and not kind.args
        return self.run.counts_elements(kind) if given.kind is None else self.run.laid(kind) is given.kind

    def _gives(self, func: values.Func, kind: ir.TypeRef) -> bool:
        """Whether a type that a function returns is a number, also one that a template deduces, or nothing."""
        deduced = any(param.name == kind.name for param in func.node.template)
        return kind.name == "void" or deduced or self.run.element(kind) is not None

    def _device_function(self, node: ir.Call) -> values.Func | None:
        """The function of the submission that is called: one that has one overload, and gives back a number or nothing,
        so that it hands no pointer on."""
        run = self.run
        try:
            found = run.frame.kernel.env.lookup(node.func.id) if isinstance(node.func, ir.Name) else None
        except KeyError:
            return None
        func = found.funcs[0] if isinstance(found, values.Overloads) and len(found.funcs) == 1 else found
        if not isinstance(func, values.Func) or run.statements.depth > MAX_DEPTH:
            return None
        body, gives = func.node.body, func.node.returns
        plain = isinstance(gives, ir.TypeRef) and not gives.pointers and self._gives(func, gives)
        return func if plain and body is not None and can_be_followed(func, references=True) else None

    def _run(self, func: values.Func, inner: dict[str, Value], limits: Limits) -> None:
        """Follows a function, with what its parameters stand for."""
        run = self.run
        around, doubt, known = run.limits, run.doubt, run.expressions.known
        run.limits, run.expressions.known = limits, {}
        run.statements.activate(Frame(func, inner), func.node.body)
        run.limits, run.doubt, run.expressions.known = around, doubt, known
