"""Groups that a kernel chooses for blocks, and not for rows: offsets are compared with places of blocks alone.

Where the rows that a kernel reads and writes have nothing to do with offsets, and these are compared with numbers that
follow from a few indices of blocks, then all rows at the same such indices are of the group that was found there. That
is right for no more rows than there are such blocks. What is not understood says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kbh_lint.base import ir, values
from kbh_lint.kernels.extents.assigned import assigned_names
from kbh_lint.kernels.extents.chosen_values import (
    CHOSEN,
    NONE,
    OFFSET,
    PLACE,
    VARIES,
    Marks,
    Undecided,
    Values,
    is_address,
    names_in,
)
from kbh_lint.kernels.extents.loads import READS

MAX_DEPTH = 6
MAX_ROUNDS = 8
MAX_STEPS = 30_000
_SKIPPED = (ir.Using, ir.ClassDef, ir.Import, ir.Scope, ir.Assert, ir.Jump)


def chosen_by(
    kernel: values.Func, args: Mapping[str, object], offsets: Collection[str], rows: frozenset[str]
) -> frozenset[int] | None:
    """The axes of the grid whose block indices alone decide which group a block works on; None where the kernel
    distinguishes single rows, or that is unknown.

    `offsets` are the parameters with the offsets of groups; `rows` are the pointer parameters whose rows the offsets
    count.
    """
    walker = _Walk(kernel, args, offsets, rows)
    try:
        for _ in range(MAX_ROUNDS):
            before = walker.state()
            walker.block(kernel.node.body or ())
            if walker.state() == before:
                break
        else:
            return None
    except (Undecided, RecursionError):
        return None
    return frozenset(walker.axes) if walker.asked and rows <= walker.touched else None


class _Walk(Values):
    """Follows statements, in no order: a name has the marks of all that it is given."""

    def __init__(
        self, kernel: values.Func, args: Mapping[str, object], offsets: Collection[str], rows: frozenset[str]
    ) -> None:
        super().__init__(kernel, args, offsets, rows)
        self.frames: dict[tuple[int, ...], dict[str, Marks]] = {}
        self.first: dict[tuple[tuple[int, ...], str], int] = {}  # the branch that a name is first assigned in
        self.place: tuple[int, ...] = ()  # the calls that lead to where the walk is
        self.branch = 0
        self.control: Marks = NONE
        self.looped: frozenset[str] = frozenset()  # what the loops around it assign
        self.returned: Marks = NONE
        self.steps = 0

    def state(self) -> object:
        """A copy of what is known of names so far, to see whether another walk changes it."""
        frames = {place: dict(names) for place, names in self.frames.items()}
        return dict(self.names), frames, set(self.axes), self.asked

    def block(self, body: Sequence[ir.Stmt]) -> None:
        """Follows the statements of a block."""
        for stmt in body:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise Undecided
            self.statement(stmt)

    def statement(self, stmt: ir.Stmt) -> None:
        """Follows one statement."""
        match stmt:
            case ir.Assign(targets=targets, value=value):
                marks = self.carried((value,), self.of(value))
                for target in targets:
                    self.assign(target, marks)
            case ir.AugAssign(target=target, value=value):
                self.assign(target, self.carried((target, value), self.all_of((target, value))))
            case ir.Decl():
                self.declared(stmt)
            case ir.ExprS(value=value):
                self.of(value)
            case ir.Block(body=body):
                self.block(body)
            case ir.Return(value=value):
                self.returned |= self.of(value) | self.control
            case ir.If(test=test, body=body, orelse=orelse):
                self.under(self.compare(self.of(test)), id(stmt), (*body, *orelse))
            case ir.For() | ir.CFor() | ir.While():
                self.rounds(stmt)
            case ir.Asm():
                self.assembly(stmt)
            case _ if not isinstance(stmt, _SKIPPED):
                raise Undecided

    def rounds(self, stmt: ir.For | ir.CFor | ir.While) -> None:
        """Follows a loop: its variables have another value in each iteration."""
        if isinstance(stmt, ir.For):
            marks = self.of(stmt.iterable)
            if OFFSET in marks or is_address(marks):
                raise Undecided
            self.assign(stmt.target, marks | {VARIES})
            self.loop(stmt, marks, stmt.body)
        elif isinstance(stmt, ir.CFor):
            self.block(stmt.init)
            self.loop(stmt, self.compare(self.of(stmt.test)), stmt.body, stmt.step)
        else:
            self.loop(stmt, self.compare(self.of(stmt.test)), stmt.body)

    def assembly(self, stmt: ir.Asm) -> None:
        """Follows inline PTX: its outputs may differ from lane to lane."""
        marks = NONE.union(*(self.of(value) for _, value in stmt.inputs))
        if OFFSET in marks or PLACE in marks:
            raise Undecided
        self.access(marks)
        for _, target in stmt.outputs:
            self.assign(target, frozenset((VARIES,)) | marks & {CHOSEN})

    def declared(self, stmt: ir.Decl) -> None:
        """Follows a declaration with its initial value."""
        if isinstance(stmt.init, ir.Lambda):
            self.lambdas[stmt.name] = stmt.init.func
            return
        marks = self.carried((stmt.init,), self.of(stmt.init))
        if self.is_constructed(stmt):
            marks |= {VARIES}
        self.assign(ir.Name(stmt.name, stmt.loc), marks)

    def is_constructed(self, stmt: ir.Decl) -> bool:
        """Whether a declaration may call a constructor of the submission, which is not followed and may store values
        that differ from lane to lane."""
        if stmt.type is None or stmt.type.pointers or not (stmt.init is None or isinstance(stmt.init, ir.Seq)):
            return False
        return isinstance(self.scope.get(stmt.type.name), values.CppType)

    def carried(self, parts: tuple[object, ...], marks: Marks) -> Marks:
        """`marks` of a value computed from `parts`, marked as varying if a loop around it changes one of its names. An
        offset that is only loaded keeps its mark."""
        if not self.looped or OFFSET in marks and len(parts) == 1 and self.is_read(parts[0]):
            return marks
        return marks | {VARIES} if names_in(parts) & self.looped else marks

    def is_read(self, node: object) -> bool:
        """Whether an expression is an unchanged element of memory."""
        while isinstance(node, ir.Cast):
            node = node.value
        read = isinstance(node, ir.Call) and (self.called(node) in READS or self.called(node) == "load")
        return read or isinstance(node, ir.Index) or isinstance(node, ir.Unary) and node.op == "*"

    def under(self, test: Marks, branch: int, body: Sequence[ir.Stmt]) -> None:
        """Follows `body`, which runs where a condition with the marks `test` holds: variables that it changes depend on
        the condition. `branch` identifies the side."""
        around = self.control, self.branch
        if CHOSEN in test:
            self.control, self.branch = self.control | {CHOSEN}, branch
        self.block(body)
        self.control, self.branch = around

    def loop(self, node: ir.Stmt, test: Marks, body: Sequence[ir.Stmt], step: object = None) -> None:
        """Follows the body of a loop that runs while a condition with the marks `test` holds."""
        around = self.looped
        self.looped = around | assigned_names(tuple(body), self.cpp)
        if step is not None:
            self.looped |= assigned_names(step, self.cpp)
        self.under(test, id(node), body)
        if step is not None:
            self.of(step)
        self.looped = around

    def assign(self, target: object, marks: Marks) -> None:
        """Gives a value with these marks to a name, a tuple of names or a place in memory."""
        if isinstance(target, (ir.Seq, ir.Star)):
            for item in target.items if isinstance(target, ir.Seq) else (target.value,):
                self.assign(item, marks)
            return
        if isinstance(target, (ir.Name, ir.Decl)):
            name = target.id if isinstance(target, ir.Name) else target.name
            first = self.first.setdefault((self.place, name), 0 if name in self.names else self.branch)
            if self.control and first != self.branch:
                marks = marks | self.control
            self.names[name] = self.checked(self.names.get(name, NONE) | marks)
            return
        base = target
        while isinstance(base, (ir.Index, ir.Attr, ir.Unary, ir.Cast)):
            if isinstance(base, ir.Index):
                self.of(base.index)
            base = base.value
        if isinstance(base, ir.Name) and not is_address(self.names.get(base.id, NONE)):
            self.names[base.id] = self.checked(self.names.get(base.id, NONE) | marks | self.control)
            return
        place = self.of(self.address(target))
        if not is_address(place) or marks & {OFFSET, CHOSEN}:
            raise Undecided
        self.access(place | self.control)

    def address(self, target: object) -> object:
        """The expression for the address that an assignment to `target` writes to."""
        if isinstance(target, ir.Index):
            return ir.Binary("+", target.value, target.index, target.loc)
        return target.value if isinstance(target, (ir.Unary, ir.Attr, ir.Cast)) else target

    # --- functions of the submission ---

    def inline(self, func: ir.FuncDef, scope: values.Env | None, node: ir.Call) -> Marks:
        if len(self.place) >= MAX_DEPTH or func.body is None or any(key is None for key, _ in node.keywords):
            raise Undecided
        params = [param.name for param in func.params]
        given = [*zip(params, node.args, strict=False), *((key, value) for key, value in node.keywords if key)]
        marks = {name: self.of(value) for name, value in given}
        outer = self.names, self.scope, self.place, self.returned, self.looped
        self.place = (*self.place, id(node))
        if scope is not None:
            self.names, self.scope = self.frames.setdefault(self.place, {}), scope
        for param in func.params:
            known = marks.get(param.name, NONE)
            self.names[param.name] = self.names.get(param.name, NONE) | known
        self.returned, self.looped = NONE, frozenset() if scope is not None else self.looped
        self.block(func.body)
        after, made = self.names, self.returned
        self.names, self.scope, self.place, self.returned, self.looped = outer
        for name, value in given:
            more = after.get(name, NONE) - marks[name]
            if more:
                self.given_back(value, more)
        return made

    def given_back(self, node: object, marks: Marks) -> None:
        """Adds `marks` to the variables in `node`, an argument that a function may have written to."""
        for name in names_in((node,)):
            if name in self.names and not is_address(self.names[name]):
                self.names[name] = self.checked(self.names[name] | marks)
