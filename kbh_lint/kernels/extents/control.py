"""Control flow where addresses are followed: both sides of a branch, and one iteration of a loop that stands for all.

What a loop assigns is not known in it, but for a variable that counts, and for what each iteration adds the same to: in
iteration `n` it is where it began, and `n` times that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.kernels.core.walker import Control, Exit, together
from kbh_lint.kernels.extents.assigned import assigned_each_time, assigned_names
from kbh_lint.kernels.extents.intervals import Limits, Linear, add, highest, scaled
from kbh_lint.kernels.extents.values import Described, Env, Test, Value

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.follow import Follow


class OneRound(Control[Value]):
    """The control flow of the address analysis: it follows both sides of a branch, and one iteration of a loop for all,
    under the limits that hold there."""

    def __init__(self, run: Follow) -> None:
        self.run = run

    def unread(self, what: str, node: ir.Stmt) -> None:
        """Does nothing: `follow.can_be_followed` refuses kernels with such statements before the walk."""

    # --- branches ---

    def test(self, node: ir.If) -> tuple[Value, bool | None]:
        """Evaluates a condition. Its truth is never returned, as `either` takes both sides under their limits."""
        self.run.computed(node.test)
        return Test(doubt=True) if assigned_names(node.test, self.run.cpp, self.run.keeps) else self.run.value(
            node.test
        ), None

    def either(self, node: ir.If, test: Value) -> Exit:
        """Follows both sides of a branch, each under the limits that its condition gives, except a side that constants
        exclude.

        Behind a side that leaves (returns, breaks), the limits of the other side hold; what runs there is doubtful if
        the condition depends on loaded data.
        """
        run, frame = self.run, self.run.frame
        before, limits, doubt = run.env, run.limits, run.doubt
        here = doubt or run.doubts(test)
        ends = []
        sides = ((node.body, run.under(test, limits)), (node.orelse, run.under(test, limits, False)))
        known = run.expressions.decided(test)
        for body, inside in sides:
            frame.env, run.limits, run.doubt = dict(before), inside, here
            why = run.statements.side(body)
            if why in ("break", "continue"):  # and what it leaves goes on with what names stand for here
                run.passed(before)
            ends.append((why, frame.env, run.limits, run.doubt))
        if known is not None:
            why, frame.env, run.limits, run.doubt = ends[not known]
            run.limits, run.doubt = (limits, doubt) if why is None else (run.limits, run.doubt)
            run.passed(before)
            return why
        gone, left = ends[0][0], ends[1][0]
        if gone is None and left is None:
            run.limits, run.doubt = limits, doubt
            self._join(ends[0][1])
        elif gone is None:
            frame.env, run.limits, run.doubt = ends[0][1:]
        run.passed(before)
        return together((gone, left))

    def _join(self, other: Mapping[str, Value]) -> None:
        """Of a name that stands for one thing here and for another there nothing is known."""
        env = self.run.frame.env
        for name in other.keys() | env.keys():
            one, two = other.get(name), env.get(name)
            if one is not two and one != two:
                self.run.differs(one, two)
                env[name] = self.run.unknown()

    def cases(self, node: ir.Switch) -> Exit:
        """Follows each case of a switch under its label, with the cases that control falls into; the variables that the
        switch assigns are unknown behind it."""
        run, frame, walk = self.run, self.run.frame, self.run.statements
        run.computed(node.value)
        value = run.value(node.value)
        before, limits, doubt = run.env, run.limits, run.doubt
        here = doubt or run.doubts(value)
        ends: list[Exit] = [] if any(not labels for labels, _ in node.cases) else [None]
        for position, (labels, _) in enumerate(node.cases):
            frame.env, run.limits, run.doubt = dict(before), limits, here
            if len(labels) == 1:
                run.limits = run.under(run.expressions.compare("==", value, run.value(labels[0])), limits)
            why: Exit = None
            for body in walk.falling(node, position):
                why = walk.side(body)
                if why is not None:
                    break
            ends.append(None if why == "break" else why)
            run.passed(before)
        frame.env, run.limits, run.doubt = dict(before), limits, here if any(ends) else doubt
        run.assigned(node)
        return together(ends)

    # --- loops ---

    def each(self, node: ir.For) -> Exit:
        """Follows one iteration of a loop over an iterable, which stands for all."""
        self.run.computed(node.iterable)
        before, limits = self._enter(node)
        iterations = self.run.atoms.between(0, None)
        self.run.limits, iterations = self.counted(node, limits, iterations)
        self._carried(node, before, iterations)
        self._round(node, before, limits)
        return self.run.statements.block(node.orelse)

    def iterations(self, node: ir.While | ir.CFor) -> Exit:
        """Follows one iteration of a loop with a test, which stands for all."""
        run = self.run
        start: Env = {}
        if isinstance(node, ir.CFor):
            start = {n.name: run.env[n.name] for n in node.init if isinstance(n, ir.Decl)}
        before, limits = self._enter(node)
        self._carried(node, before, run.atoms.between(0, None))
        if node.test is not None:
            inside = limits
            for name, first in start.items():
                step = node.step if isinstance(node, ir.CFor) else None
                if self._rises(step, name, node.body) and isinstance(first, Linear):
                    now = run.env[name] = run.position() if run.placed(first) else run.env[name]
                    inside = run.under(Test(((first, now, 0),)), inside) if isinstance(now, Linear) else inside
            if not (isinstance(node, ir.While) and node.once or assigned_names(node.test, run.cpp, run.keeps)):
                inside = run.under(run.value(node.test), inside)
            run.limits = inside
        self._round(node, before, limits)
        return None

    def _enter(self, node: ir.For | ir.While | ir.CFor) -> tuple[Env, Limits]:
        """Begins a loop: what names stood for before it, and the limits there."""
        before = dict(self.run.frame.env)
        self.run.assigned(node)
        return before, self.run.limits

    def _round(self, node: ir.For | ir.While | ir.CFor, before: Mapping[str, Value], limits: Limits) -> None:
        """The iteration that stands for all: its step is what `_carried` and the limits of the counter say."""
        run, doubt = self.run, self.run.doubt
        run.statements.side(node.body)
        run.doubt, run.limits = doubt, limits
        run.assigned(node)
        run.passed(before)

    def counted(self, node: ir.For, limits: Limits, iterations: Linear) -> tuple[Limits, Linear]:
        """Follows `for i in range(...)`: the limits on the loop variable, and the number of the current iteration."""
        run, call = self.run, node.iterable
        if not isinstance(node.target, ir.Name):
            return limits, iterations
        now = run.env[node.target.id] = run.unknown()
        if not isinstance(call, ir.Call) or run.expressions.called(call.func) not in ("range", "static_range"):
            return limits, iterations
        given = [run.value(a) for a in call.args]
        if not 1 <= len(given) <= 3 or not all(isinstance(g, Linear) for g in given):
            return limits, iterations
        first, last = (Linear(0), given[0]) if len(given) == 1 else (given[0], given[1])
        step = given[2] if len(given) == 3 else Linear(1)
        if isinstance(step, Linear) and not step.terms and step.const > 0:
            assert isinstance(first, Linear) and isinstance(last, Linear)
            left = highest(run.atoms, add(add(last, first, -1), Linear(1), -1), limits)
            iterations = run.atoms.between(0, None if left is None else max(left, 0) // step.const)
            if run.placed(first):
                now = run.env[node.target.id] = add(first, scaled(iterations, step.const))
            limits = run.under(Test(((first, now, 0), (now, last, 1))), limits)
        return limits, iterations

    def _rises(self, step: object, name: str, body: tuple[object, ...]) -> bool:
        """Whether a loop variable only grows: by `i += n` of something that is not negative, and nowhere else."""
        if not (isinstance(step, ir.AssignE) and isinstance(step.target, ir.Name) and step.target.id == name):
            return False
        by = self.run.value(step.value)
        if step.op != "+" or not isinstance(by, Linear) or name in assigned_names(body, True, self.run.keeps):
            return False
        most = highest(self.run.atoms, Linear(-by.const, tuple((a, -f) for a, f in by.terms)), {})
        return most is not None and most <= 0

    def _carried(self, node: ir.For | ir.CFor | ir.While, before: Mapping[str, Value], iterations: Linear) -> None:
        """What a name that each iteration adds the same to is after so many: where it began, and so many times that."""
        run = self.run
        added: dict[str, list[Any]] = {}
        for stmt in node.body:
            name, by = self._adds(stmt.value if isinstance(stmt, ir.ExprS) else stmt)
            if name:
                added.setdefault(name, []).append(by)
        if not added or _continues(node.body):
            return
        changed = assigned_each_time(node, run.cpp, run.keeps)
        for name, (step, *more) in added.items():
            first, parts = before.get(name), list(walk(step))
            if more or changed.count(name) > 1 or any(isinstance(part, (ir.Call, ir.Index)) for part in parts):
                continue
            if first is None or {part.id for part in parts if isinstance(part, ir.Name)} & set(changed):
                continue
            if isinstance(first, Described):
                run.env[name] = run.expressions.moved(first, step, iterations)
                continue
            by = run.value(step)
            if isinstance(by, Linear) and not isinstance(first, Test):
                run.env[name] = run.expressions.binary("+", first, run.atoms.apply("*", by, iterations))

    def _adds(self, node: object) -> tuple[str, Any]:
        """The name that a statement adds something to, and what: `p += n`, `p = p + n`, `p = tl.advance(p, n)`."""
        if isinstance(node, (ir.AugAssign, ir.AssignE)) and node.op == "+" and isinstance(node.target, ir.Name):
            return node.target.id, node.value
        if not isinstance(node, ir.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ir.Name):
            return "", None
        name, value = node.targets[0].id, node.value
        sides: tuple[Any, ...] = ()
        if isinstance(value, ir.Binary) and value.op == "+":
            sides = (value.left, value.right)
        elif isinstance(value, ir.Call) and len(value.args) == 2:
            sides = value.args if self.run.expressions.called(value.func) == "advance" else ()
        added = bool(sides) and isinstance(sides[0], ir.Name) and sides[0].id == name
        return (name, sides[1]) if added else ("", None)


@by_node
def _continues(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether something in a loop goes on to the next iteration."""
    return any(isinstance(node, ir.Jump) and node.kind == "continue" for node in walk(body))
