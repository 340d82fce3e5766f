"""Statements of kernel code: branches, loops, switches and scopes, executed until what they join stops changing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.kernels.core.branches import Pair, Side, meet, merge, returns, runs_once
from kbh_lint.kernels.core.expressions import MAX_UNROLL
from kbh_lint.kernels.core.facts import Origins, Wait
from kbh_lint.kernels.core.frames import Env, OutOfFuel
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import NO_ORIGINS, choosing, flagged, testing, union
from kbh_lint.kernels.core.value import NO_NAMES, NOTHING, UNKNOWN_V, V

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


MAX_PASSES = 5
MAX_TESTED = 32  # cases of a switch on data that are told apart


class Statements:
    """Executes statements; languages add declarations and the like."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.asked: list[V] = []  # what decided whether the loop goes on, and branches in it
        self.statements: dict[type, Callable[[Any], bool]] = {
            ir.Assign: self.s_assign, ir.AugAssign: self.s_augassign, ir.ExprS: self.s_expr, ir.If: self.s_if,
            ir.For: self.s_for, ir.While: self.s_while, ir.CFor: self.s_cfor, ir.Return: self.s_return,
            ir.Jump: self.s_jump, ir.Decl: self.s_decl, ir.Block: self.s_block, ir.Switch: self.s_switch,
            ir.With: self.s_with, ir.FuncDef: self.s_func, ir.Asm: self.s_asm, ir.Using: self.s_using,
            ir.ClassDef: self.s_class, ir.Opaque: self.s_opaque, ir.Try: self.s_try,
        }  # fmt: skip

    def s_decl(self, node: ir.Decl) -> bool:
        """A declaration."""
        return True

    def s_asm(self, node: ir.Asm) -> bool:
        """An inline assembly statement."""
        return True

    def s_using(self, node: ir.Using) -> bool:
        """A local type alias."""
        return True

    def s_class(self, node: ir.ClassDef) -> bool:
        """A local class."""
        return True

    def block(self, body: Iterable[Any] | None) -> bool:
        """Executes statements; false when control never reaches their end."""
        return all(self.execute(node) for node in body or ())

    def execute(self, node: object) -> bool:
        """Executes one statement; false when control does not go on after it."""
        run = self.run
        run.fuel -= 1
        if run.fuel < 0:
            raise OutOfFuel
        handler = self.statements.get(type(node))
        return True if handler is None else handler(node)

    def s_assign(self, node: ir.Assign) -> bool:
        value = self.self_addition(node.targets[0], node.value)
        if value is None:
            value = self.run.expressions.eval(node.value)
        for target in node.targets:
            self.run.names.assign(target, value)
        return True

    def self_addition(self, target: object, value: object) -> V | None:
        """`x = x + e` and `x = e + x` as `x += e`; None for anything else."""
        if not isinstance(value, ir.Binary) or value.op not in ("+", "-") or not isinstance(target, ir.Name):
            return None
        for own, other in ((value.left, value.right), (value.right, value.left)):
            if isinstance(own, ir.Name) and own.id == target.id:
                return self.run.numbers.augmented(
                    value.op, self.run.expressions.eval(own), self.run.expressions.eval(other), value.loc
                )
        return None

    def s_augassign(self, node: ir.AugAssign) -> bool:
        old = self.run.expressions.eval(node.target)
        self.run.names.assign(
            node.target, self.run.numbers.augmented(node.op, old, self.run.expressions.eval(node.value), node.loc)
        )
        return True

    def s_expr(self, node: ir.ExprS) -> bool:
        self.run.expressions.eval(node.value)
        return True

    def s_if(self, node: ir.If) -> bool:
        test = self.run.expressions.eval(node.test)
        known = self.run.numbers.truth(test)
        if self.run.frame.loops:
            self.asked.append(test)
        if known is not None:
            return self.block(node.body if known else node.orelse)
        self.run.facts.add_choice(test, node.loc)
        start = self.run.frame.env
        sides = self.run.sides.of(test, node.loc)
        falls = self.branches([node.body, node.orelse], [(side,) for side in sides], choosing(testing(test.origins)))
        if sides:
            self.run.sides.rest(sides, (returns(node.body), returns(node.orelse)))
        if test.origins and falls:
            self.chosen(start, flagged(test.origins, "index"))
        return falls

    def chosen(self, start: Env, origins: Origins) -> None:
        """Adds the origins of a branch's condition to the variables that the branch assigned, flagged `index`: their
        values depend on that data by control, not by arithmetic."""
        env = self.run.frame.env
        for name, value in env.items():
            if start.get(name, value) is not value:
                both = union(value.origins, origins)
                if both is not value.origins:
                    env[name] = value.with_(origins=both)

    def branches(
        self, bodies: Sequence[Iterable[Any]], sides: Sequence[tuple[Side, ...]] = (), test: Origins = NO_ORIGINS
    ) -> bool:
        """Executes each body from the same start and joins what comes out; its `sides` get the products of each."""
        frame = self.run.frame
        start = frame.env
        self.run.step(len(start) >> 5)
        merged: Env | None = None
        for position, body in enumerate(bodies):
            frame.env = dict(start)
            with self.run.sides.watching(*sides[position] if sides else ()):
                falls = self.block(body)
            if falls:
                merged = frame.env if merged is None else merge(merged, frame.env, test)
        frame.env = start if merged is None else merged
        return merged is not None

    def looped(self, body: Callable[[], bool], test: V = UNKNOWN_V) -> None:
        """Executes a loop's body until the joined variables stop changing; `test` says whether it runs at all."""
        frame = self.run.frame
        frame.loops += 1
        self.run.memory.repeats += 1
        late, chose = self.run.memory.late_write, choosing(testing(test.origins))
        for _ in range(MAX_PASSES):
            self.run.memory.late_write = False
            self.run.step(len(frame.env) >> 5)
            before = frame.env
            frame.env = dict(before)
            jumps: list[tuple[str, Env]] = []
            frame.jumps.append(jumps)
            if body():
                jumps.append(("", frame.env))
            frame.jumps.pop()
            changed = self.run.memory.late_write
            after = dict(before)
            for _, end in jumps:
                for name, value in end.items():
                    old = after.get(name)
                    if old is None:
                        after[name] = value
                    elif old is not value:
                        new = meet(old, value, chose)
                        if new is not old:
                            after[name] = new
                            changed = changed or name in before
            frame.env = after
            if not changed:
                break
        frame.loops -= 1
        self.run.memory.repeats -= 1
        self.run.memory.late_write = late

    def s_for(self, node: ir.For) -> bool:
        iterable = self.run.facts.add_bound(self.run.expressions.eval(node.iterable), node.loc)
        if isinstance(iterable.const, range) and len(iterable.const) < 2:
            self.run.facts.decide(iterable)
            if not len(iterable.const):
                return self.block(node.orelse)
        if isinstance(iterable.x, tuple) and len(iterable.x) <= MAX_UNROLL:
            return self.unrolled(node, iterable.x)
        element = (
            self.run.expressions.elements(iterable)[0]
            if not isinstance(iterable.const, range)
            else V("i32", "i32", shape=())
        )

        def body() -> bool:
            self.run.names.assign(node.target, element)
            return self.block(node.body)

        if isinstance(iterable.x, tuple):
            element = mix(list(iterable.x))
        self.looped(body)
        return self.block(node.orelse)

    def unrolled(self, node: ir.For, items: tuple[V, ...]) -> bool:
        frame = self.run.frame
        left: list[Env] = []
        frame.loops += 1
        self.run.memory.repeats += 1
        for item in items:
            jumps: list[tuple[str, Env]] = []
            frame.jumps.append(jumps)
            self.run.names.assign(node.target, item)
            falls = self.block(node.body)
            frame.jumps.pop()
            left += [env for kind, env in jumps if kind == "break"]
            ends = [frame.env] if falls else []
            ends += [env for kind, env in jumps if kind == "continue"]
            if not ends:
                break
            frame.env = ends[0]
            for env in ends[1:]:
                merge(frame.env, env)
        frame.loops -= 1
        self.run.memory.repeats -= 1
        for env in left:
            merge(frame.env, env)
        return self.block(node.orelse)

    def s_while(self, node: ir.While) -> bool:
        sides: Pair | tuple[()] = ()
        test = UNKNOWN_V

        def body() -> bool:
            if not node.once:
                self.asked.append(self.run.facts.add_bound(self.run.expressions.eval(node.test), node.loc))
            with self.run.sides.watching(*sides[:1]):
                falls = self.block(node.body)
            if node.once:
                self.asked.append(self.run.facts.add_bound(self.run.expressions.eval(node.test), node.loc))
            return falls

        if not node.once:
            test = self.run.expressions.eval(node.test)
            if self.run.numbers.truth(test) is False:
                return True
            sides = self.run.sides.of(test, node.loc) if runs_once(node.body) else ()
        with self.waiting(node.loc):
            self.looped(body, test)
        if sides:
            self.run.sides.rest(sides, (returns(node.body), False))
        return True

    @contextmanager
    def waiting(self, loc: ir.Loc) -> Iterator[None]:
        """Around a loop: notes the data that it waits for, when all it does is to look at it again."""
        start, asked, written = self.run.frame.env, self.asked, self.run.memory.written
        self.asked, self.run.memory.written = [], set()
        yield
        origins, deps = NO_ORIGINS, NO_NAMES
        for value in self.asked:
            origins, deps = union(origins, value.origins), deps | value.deps
        names = {origin.param for origin in origins}
        end = self.run.frame.env
        changed = [end.get(name, value) for name, value in start.items() if end.get(name, value) is not value]
        idle = all(v.origins and names.issuperset(o.param for o in v.origins) for v in changed)
        if idle and all(kind == "param" and name in names for kind, name in self.run.memory.written):
            if origins:
                self.run.facts.waits[loc] = Wait(origins, deps, loc)
            self.run.flags.awaited(deps)
            self.run.memory.alone = False
        self.asked, self.run.memory.written = asked, written | self.run.memory.written

    def s_cfor(self, node: ir.CFor) -> bool:
        self.run.names.enter_scope()
        self.block(node.init)
        test = UNKNOWN_V if node.test is None else self.run.expressions.eval(node.test)
        skipped = self.run.numbers.truth(test) is False
        sides = self.run.sides.of(test, node.loc) if runs_once(node.body) else ()
        for name in stepped_names(node.step):
            value = self.run.frame.env.get(name)
            if value is not None and value.const is not NOTHING:
                self.run.frame.env[name] = value.with_(const=NOTHING, deps=NO_NAMES)

        def body() -> bool:
            if node.test is not None:
                self.asked.append(self.run.facts.add_bound(self.run.expressions.eval(node.test), node.loc))
            with self.run.sides.watching(*sides[:1]):
                self.block(node.body)
            if node.step is not None:
                self.run.expressions.eval(node.step)
            return True

        if not skipped:
            with self.waiting(node.loc):
                self.looped(body, test)
        if sides:
            self.run.sides.rest(sides, (returns(node.body), False))
        self.run.names.leave_scope()
        return True

    def s_return(self, node: ir.Return) -> bool:
        if node.value is not None:
            value = self.run.expressions.eval(node.value)
            frame = self.run.frame
            frame.returned = value if frame.returned is None else join(frame.returned, value)
        return False

    def s_jump(self, node: ir.Jump) -> bool:
        if node.kind == "goto":  # what stands between it and its label may run too, and what follows the label does
            self.run.facts.unread("a goto", node.loc)
            return True
        if self.run.frame.jumps and node.kind in ("break", "continue"):
            self.run.frame.jumps[-1].append((node.kind, dict(self.run.frame.env)))
        return False

    def s_block(self, node: ir.Block) -> bool:
        self.run.names.enter_scope()
        falls = self.block(node.body)
        self.run.names.leave_scope()
        return falls

    def s_switch(self, node: ir.Switch) -> bool:
        value = self.run.expressions.eval(node.value)
        start = self.run.frame.env
        taken = [position for position, case in enumerate(node.cases) if self._may_be(value, case[0])]
        bodies: list[Iterable[Any]] = [self._falling(node.cases, position) for position in taken]
        if all(labels for labels, _ in node.cases):
            bodies.append(())
        jumps: list[tuple[str, Env]] = []
        self.run.frame.jumps.append(jumps)
        places = [(labels[0] if labels else node).loc for labels, _ in (node.cases[at] for at in taken)]
        sides = self._sides_of_cases(value, places[: len(bodies) - 1])
        test = choosing(testing(value.origins))
        falls = self.branches(bodies, [own for _, own in sides], test)
        self.run.frame.jumps.pop()
        for position, (pair, _) in zip(taken, sides, strict=False):
            if pair:
                self.run.sides.rest(pair, (returns(node.cases[position][1]), False))
        for kind, env in jumps:
            if kind == "continue":  # of the loop around it
                if self.run.frame.jumps:
                    self.run.frame.jumps[-1].append((kind, env))
            elif falls:
                merge(self.run.frame.env, env, test)
            else:
                self.run.frame.env, falls = env, True
        if value.origins and falls:
            self.chosen(start, flagged(value.origins, "index"))
        return falls

    def _may_be(self, value: V, labels: tuple[ir.Expr, ...]) -> bool:
        """Whether a switch on `value` may go to these labels; none are the default."""
        if not labels or not value.known:
            return True
        return any(
            self.run.numbers.compare("==", value, self.run.expressions.eval(label)).const is not False
            for label in labels
        )

    def _falling(self, cases: tuple[tuple[Any, tuple[Any, ...]], ...], position: int) -> Iterator[Any]:
        """The statements from one case on; executing them ends at the first that ends the case."""
        for at in range(position, len(cases)):
            self.run.step()
            yield from cases[at][1]

    def _sides_of_cases(self, value: V, labels: list[ir.Loc]) -> list[tuple[Pair | tuple[()], tuple[Side, ...]]]:
        """The pairs of a switch on data, as a chain of tests for one case after another: the pair that each tests for,
        and the sides its body is on. The last bodies are what no test finds."""
        made: list[tuple[Pair | tuple[()], tuple[Side, ...]]] = []
        others: tuple[Side, ...] = ()
        for loc in labels[:MAX_TESTED]:
            pair = self.run.sides.of(value, loc)
            if not pair:
                return []
            made.append((pair, (pair[0], *others)))
            others = (*others, pair[1])
        return made + [((), others)] * (len(labels) + 1 - len(made))

    def s_with(self, node: ir.With) -> bool:
        for item, target in node.items:
            value = self.run.expressions.eval(item)
            if target is not None:
                self.run.names.assign(target, value)
        return self.block(node.body)

    def s_try(self, node: ir.Try) -> bool:
        return self.block(node.body) and self.block(node.orelse) and self.block(node.final)

    def s_func(self, node: ir.FuncDef) -> bool:
        self.run.frame.env[node.name] = self.run.names.closure(node)
        return True

    def s_opaque(self, node: ir.Opaque) -> bool:
        self.run.expressions.e_opaque(node)
        return True


def stepped_names(step: object) -> list[str]:
    """The variables that the step of a C++ `for` changes."""
    if isinstance(step, ir.AssignE) and isinstance(step.target, ir.Name):
        return [step.target.id]
    if isinstance(step, ir.Binary) and step.op == ",":
        return stepped_names(step.left) + stepped_names(step.right)
    return []
