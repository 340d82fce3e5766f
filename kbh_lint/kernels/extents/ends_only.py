"""Whether a kernel takes offsets for the ends of groups alone, so that nothing in it begins at one.

Rows belong to a group from one offset on up to the next: where an offset is larger, the group before it has more rows
and the group behind it fewer. A kernel in which no address and no number that is stored comes from offsets, and in
which whatever runs for some offsets runs for larger ones too, never leaves a row to another group: it has other places
where groups begin. What is not understood says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.frontends.walk import all_nodes, walk
from kbh_lint.kernels.core.branches import last
from kbh_lint.kernels.extents.assigned import assigned_names
from kbh_lint.kernels.extents.growing import CONDITIONS, POINTERS, How, Unsure, met, under
from kbh_lint.kernels.extents.growing_values import Values

MAX_DEPTH = 6
MAX_ROUNDS = 6
MAX_STEPS = 20_000
_LEAVES = (ir.Return, ir.Jump)
_SKIPPED = (ir.Using, ir.ClassDef, ir.Import, ir.Scope, ir.Assert)


def only_ends(kernel: values.Func, args: Mapping[str, object], offsets: Mapping[str, frozenset[int]]) -> bool:
    """Whether a kernel uses the offsets in the parameters `offsets` only as the ends of groups. For each parameter, the
    indices of the elements that are the same in all legal offsets."""
    nodes = all_nodes(kernel.node.body or ())
    if any(isinstance(node, (ir.Lambda, ir.FuncDef, ir.Opaque)) for node in nodes):
        return False
    walker = _Walk(kernel, args, offsets)
    try:
        walker.block(kernel.node.body or ())
    except (Unsure, RecursionError):
        return False
    return True


class _Walk(Values):
    """Follows statements: what names are, and on which conditions each runs."""

    def block(self, body: Sequence[ir.Stmt]) -> None:
        """Follows the statements of a block."""
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: ir.Stmt) -> None:
        """Follows one statement; raises Unsure where it uses offsets in a way that is not known."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Unsure
        handler = _STATEMENTS.get(type(stmt))
        if handler is not None:
            handler(self, stmt)
        elif not isinstance(stmt, _SKIPPED):
            self.other(stmt)

    def given(self, node: ir.Assign) -> None:
        """Follows an assignment."""
        parts = self.items(node.value)
        for target in node.targets:
            self.assign(target, parts)

    def leaves(self, node: ir.Return | ir.Jump) -> None:
        """Follows a return, a break or a continue."""
        if isinstance(node, ir.Jump):
            self.jumped |= self.control is not How.NOT
            return
        self.returned.append(self.items(node.value) if node.value is not None else [])
        self.unsure_return |= self.control is not self.entered

    def other(self, stmt: ir.Stmt) -> None:
        """Handles a statement that is not followed: raises Unsure if it uses offsets."""
        if isinstance(stmt, ir.Asm):
            ways = [self.of(value) for _, value in stmt.inputs]
            copies = "cp.async.c" in "".join(str(p.value) for p in walk((stmt.template,)) if isinstance(p, ir.Const))
            if any(way is not How.NOT and not (copies and way is How.DATA) for way in ways):
                raise Unsure
            for _, target in stmt.outputs:
                self.assign(target, [How.NOT])
            self.acts()
            return
        for node in walk((stmt,)):
            if isinstance(node, ir.Name) and self.names.get(node.id, How.NOT) is not How.NOT:
                raise Unsure
        self.acts()

    # --- branches and loops ---

    def branch(self, node: ir.If) -> None:
        """Follows both sides of a branch and joins the variables behind them."""
        test = self.of(node.test)
        if test not in (How.NOT, *CONDITIONS):
            raise Unsure
        before, around = self.names, self.control
        ends = []
        for body, holds in ((node.body, test), (node.orelse, self.turned(test))):
            self.names, self.control = dict(before), under(around, holds)
            self.block(body)
            leaves = isinstance(last(tuple(body)), _LEAVES)
            if test is not How.NOT and not leaves and any(isinstance(part, _LEAVES) for part in walk(tuple(body))):
                raise Unsure
            ends.append((leaves, self.names, self.control))
        stay = [end for end in ends if not end[0]]
        if len(stay) == 1:  # what follows runs on that side alone
            _, self.names, self.control = stay[0]
            return
        self.names, self.control = self.joined(ends[0][1], ends[1][1]), around
        if test is not How.NOT:
            self.vague((*node.body, *node.orelse))
        elif stay:  # a side may have left further in
            self.control = under(under(around, ends[0][2]), ends[1][2])

    def joined(self, one: Mapping[str, How], other: Mapping[str, How]) -> dict[str, How]:
        """The variables behind a branch, given those behind each side."""
        return {name: met(one.get(name, How.NOT), other.get(name, How.NOT)) for name in one.keys() | other.keys()}

    def vague(self, body: object, but: frozenset[str] = frozenset()) -> None:
        """Makes the variables that `body` assigns unknown data, except those in `but`: whether the body runs depends on
        offsets."""
        for name in assigned_names(body, False) - but:
            if self.names.get(name, How.NOT) in POINTERS:
                raise Unsure
            self.names[name] = How.DATA

    def counted(self, node: ir.For) -> None:
        """Follows a `for` over a range or another iterable."""
        call, test = node.iterable, How.NOT
        ways = [self.of(part) for part in call.args] if isinstance(call, ir.Call) else [self.of(call)]
        if any(way is not How.NOT for way in ways):
            ranged = isinstance(call, ir.Call) and self.called(call) in ("range", "static_range")
            end = 0 if len(ways) == 1 else 1
            if not ranged or any(way is not (How.MORE if at == end else How.NOT) for at, way in enumerate(ways)):
                raise Unsure
            test = How.HOLDS
        self.assign(node.target, [How.NOT])
        self.loop(
            test, node.body, node, frozenset(part.id for part in walk((node.target,)) if isinstance(part, ir.Name))
        )

    def tested(self, node: ir.CFor | ir.While) -> None:
        """Follows a loop with a test: a `while` or a C++ `for`."""
        if isinstance(node, ir.CFor):
            self.block(node.init)
        step = node.step if isinstance(node, ir.CFor) else None
        test = self.of(node.test) if node.test is not None else How.NOT
        self.loop(test, node.body, node, assigned_names(step, False), step, node.test)

    def loop(
        self, test: How, body: Sequence[ir.Stmt], node: object, counters: frozenset[str], step: object = None,
        asked: object = None,
    ) -> None:  # fmt: skip
        """Follows the iterations of a loop until the variables stop changing."""
        around, outer, before = self.control, self.jumped, dict(self.names)
        counting = self.counting
        if self._by_one(node):
            self.counting = counting | assigned_names(node, False)
        self.jumped, reached = False, around
        for _ in range(MAX_ROUNDS):
            start = dict(self.names)
            self.control = under(reached, test)
            self.block(body)
            reached, round_before = under(reached, self.control), reached  # a round comes after what did not leave
            if self.jumped:  # the next round may come from further up
                self.vague(body, counters)
            if step is not None:
                self.of(step)
            self.names = self.joined(start, self.names)
            test = self.of(asked) if asked is not None else test
            if self.names == start and reached is round_before:
                break
        else:
            raise Unsure
        self.counting = counting
        if test is not How.NOT or self.jumped:
            self.vague(node)
        returns = any(isinstance(part, ir.Return) for part in walk(tuple(body)))
        self.control = self.control if returns else around
        self.names = self.joined(before, self.names)
        self.jumped = outer

    def _by_one(self, node: object) -> bool:
        """Whether a loop may go from one group to the next: no place is then done for one group alone. One that goes on
        by the size of the grid, or of a tile, does not."""
        if isinstance(node, ir.For):
            call = node.iterable
            step = call.args[2] if isinstance(call, ir.Call) and len(call.args) == 3 else ir.Const(1, node.loc)
        else:
            steps = [part for part in walk((node,)) if isinstance(part, (ir.AugAssign, ir.AssignE)) and part.op in "+-"]
            return any(part.op and _unit(part.value) for part in steps) or isinstance(node, ir.While)
        return _unit(step)

    # --- functions of the submission ---

    def inline(self, func: values.Func, node: ir.Call) -> list[How]:
        """How the results of a function depend on offsets; its body is followed for the arguments of this call."""
        given = _bound(func, node)
        if self.depth >= MAX_DEPTH:
            raise Unsure
        names = {name: self.of(value) for name, value in given.items()}
        numbers = {name: n for name, value in given.items() if (n := self.number(value)) is not None}
        kept = self.names, self.numbers, self.scope, self.types, self.returned, self.control, self.entered
        unsure, jumped = self.unsure_return, self.jumped
        self.names, self.numbers, self.scope, self.types, self.returned = names, numbers, func.env, {}, []
        self.entered, self.unsure_return, self.jumped = self.control, False, False
        for param in func.node.params:
            self.typed(param.name, param.type)
        counting = self.counting
        self.counting = frozenset(name for name, value in given.items() if self.counts(value))
        self.depth += 1
        self.block(func.node.body or ())
        self.depth -= 1
        self.counting = counting
        made, vague, after = self.returned, self.unsure_return, self.names
        self.names, self.numbers, self.scope, self.types, self.returned, self.control, self.entered = kept
        self.unsure_return, self.jumped = unsure, jumped
        for param in func.node.params:
            if param.name in given and _refers(param):
                self.assign(given[param.name], [How.DATA if vague else after.get(param.name, How.NOT)])
        return _given_back(made, vague)


def _bound(func: values.Func, node: ir.Call) -> dict[str, ir.Expr]:
    """The arguments of a call by the names of parameters."""
    params, body = func.node.params, func.node.body
    given: dict[str, ir.Expr] = dict(zip([param.name for param in params], node.args, strict=False))
    given |= {name: value for name, value in node.keywords if name is not None}
    if body is None or len(node.args) > len(params) or len(given) < len(node.args) + len(node.keywords):
        raise Unsure
    if any(isinstance(part, (ir.Lambda, ir.FuncDef, ir.Opaque)) for part in walk(body)):
        raise Unsure
    return given


def _refers(param: ir.Param) -> bool:
    """Whether what a parameter is given may be assigned through it."""
    return isinstance(param.type, ir.TypeRef) and param.type.reference and not param.type.const


def _given_back(made: list[list[How]], vague: bool) -> list[How]:
    """What a function gives, of what each `return` does; `vague` where offsets decide which of them."""
    if len({len(one) for one in made}) > 1:
        raise Unsure
    ways = made[0] if made else []
    for more in made[1:]:
        ways = [met(a, b) for a, b in zip(ways, more, strict=True)]
    if vague and any(way in POINTERS for way in ways):
        raise Unsure
    return [How.DATA] * len(ways) if vague else ways


_STATEMENTS: dict[type, Callable[[_Walk, Any], object]] = {
    ir.Assign: _Walk.given,
    ir.AugAssign: lambda walk, node: walk.assign(node.target, [walk.binary(node.op, node.target, node.value)]),
    ir.Decl: _Walk.declare,
    ir.ExprS: lambda walk, node: walk.of(node.value),
    ir.Block: lambda walk, node: walk.block(node.body),
    ir.If: _Walk.branch,
    ir.For: _Walk.counted,
    ir.CFor: _Walk.tested,
    ir.While: _Walk.tested,
    ir.Return: _Walk.leaves,
    ir.Jump: _Walk.leaves,
}


def _unit(node: object) -> bool:
    """Whether a step is one, or one back."""
    node = node.value if isinstance(node, ir.Unary) and node.op == "-" else node
    return isinstance(node, ir.Const) and node.value == 1
