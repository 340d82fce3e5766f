"""Control flow where nothing runs: both sides of a branch are taken and joined, loops run until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.kernels.core.branches import Pair, Side, goes_on, meet, merge, returns, runs_once
from kbh_lint.kernels.core.expressions import MAX_UNROLL
from kbh_lint.kernels.core.facts import Origins, Wait
from kbh_lint.kernels.core.frames import Env
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.origins import NO_ORIGINS, choosing, flagged, testing, union
from kbh_lint.kernels.core.rounds import in_first_round, moves
from kbh_lint.kernels.core.value import NO_NAMES, NOTHING, UNKNOWN_V, V
from kbh_lint.kernels.core.walker import Control, Exit, together

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run

MAX_PASSES = 5
MAX_TESTED = 32  # cases of a switch on data that are told apart


class FixPoint(Control[V]):
    """The control flow of the provenance analysis: where a condition is unknown both sides are executed, and variables
    are joined behind them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.asked: list[V] = []  # what decided whether the loop goes on, and branches in it
        self.doubtful = 0  # branches around what runs that may be left out

    def unread(self, what: str, node: ir.Stmt) -> None:
        self.run.facts.unread(what, node.loc)

    def left(self, kind: str) -> None:
        frame = self.run.frame
        if frame.jumps:
            frame.jumps[-1].append((kind, dict(frame.env)))

    # --- branches ---

    def test(self, node: ir.If) -> tuple[V, bool | None]:
        """Evaluates the condition of a branch: its value, and its truth where that is known, else None."""
        test = self.run.expressions.eval(node.test)
        if self.run.frame.loops:
            self.asked.append(test)
        return test, self.run.numbers.truth(test)

    def either(self, node: ir.If, test: V) -> Exit:
        """Executes both sides of a branch and joins the variables behind them."""
        self.run.facts.add_choice(test, node.loc)
        start = self.run.frame.env
        sides = self.run.sides.of(test, node.loc)
        why = self.branches(
            [node.body, node.orelse], [(side,) for side in sides], choosing(testing(test.origins)), node.test
        )
        if sides:
            self.run.sides.rest(sides, (returns(node.body), returns(node.orelse)))
            if goes_on(node.body) != goes_on(node.orelse):
                self.run.sides.jumped(test, node.loc, goes_on(node.orelse))
        if test.origins and why is None:
            self.chosen(start, flagged(test.origins, "index"))
        return why

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
        self, bodies: Sequence[Iterable[Any]], sides: Sequence[tuple[Side, ...]] = (), test: Origins = NO_ORIGINS,
        asked: ir.Expr | None = None,
    ) -> Exit:  # fmt: skip
        """Executes each body from the same variables and joins the variables at their ends; `sides` collect the
        products of each body, `test` is the data that chooses between the bodies. Returns where control goes behind
        them."""
        frame = self.run.frame
        start = frame.env
        self.run.step(len(start) >> 5)
        self.doubtful += 1
        merged: Env | None = None
        exits: list[Exit] = []
        ends: list[Any] = []
        memory, marked = self.run.memory, len(self.run.memory.marked)
        try:
            for position, body in enumerate(bodies):
                frame.env = dict(start)
                with self.run.sides.watching(*sides[position] if sides else ()):
                    exits.append(self.run.statements.side(body))
                if len(memory.marked) > marked:
                    ends.append(memory.turned_back(marked))
                if exits[-1] is None:
                    merged = frame.env if merged is None else merge(merged, frame.env, test)
        finally:
            self.doubtful -= 1
        frame.env = start if merged is None else merged
        if ends:
            varies = bool(frame.inside) and asked is not None and moves(frame.inside[-1], asked)
            memory.met(ends, whole=len(ends) == len(bodies) or not varies)
        return together(exits)

    # --- loops ---

    def looped(
        self, body: Callable[[], Exit], test: V = UNKNOWN_V, node: ir.For | ir.While | ir.CFor | None = None
    ) -> None:
        """Executes a loop's body until the joined variables stop changing. `test` is the condition that is evaluated
        before the first iteration."""
        frame = self.run.frame
        self._enter(node)
        self.run.memory.repeats += 1
        if self.run.memory.repeats == 1:
            known = node is not None and self.run.memory.alone
            self.run.memory.first = in_first_round(node) if known else frozenset()
        memory = self.run.memory
        late, first, chose = memory.late_write, memory.new_total, choosing(testing(test.origins))
        for _ in range(MAX_PASSES):
            if node is not None:
                self.run.products.loops.again()
            memory.late_write = memory.new_total = False
            self.run.step(len(frame.env) >> 5)
            before = frame.env
            frame.env = dict(before)
            jumps: list[tuple[str, Env]] = []
            frame.jumps.append(jumps)
            with self.run.sides.in_frame():
                if body() is None:
                    jumps.append(("", frame.env))
            frame.jumps.pop()
            changed = memory.late_write or memory.new_total
            first = first or memory.new_total
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
        self._leave(node)
        memory.repeats -= 1
        memory.late_write, memory.new_total = late, first

    def _enter(self, node: ir.For | ir.While | ir.CFor | None) -> None:
        self.run.frame.loops += 1
        if node is not None:
            self.run.frame.inside.append(node)
            self.run.products.loops.enter(node)

    def _leave(self, node: ir.For | ir.While | ir.CFor | None) -> None:
        self.run.frame.loops -= 1
        if node is not None:
            self.run.frame.inside.pop()
            self.run.products.loops.leave()

    def next(self, node: ir.For | ir.While | ir.CFor, why: Exit) -> Exit:
        """Joins the variables at the end of an iteration with those at each `continue`; None if a next iteration may
        follow, else `why`."""
        frame = self.run.frame
        jumps = frame.jumps[-1]
        ends = [frame.env] if why is None else []
        ends += [env for kind, env in jumps if kind == "continue"]
        if not ends:
            return why
        jumps[:] = [jump for jump in jumps if jump[0] != "continue"]
        frame.env = ends[0]
        for env in ends[1:]:
            merge(frame.env, env)
        return None

    def each(self, node: ir.For) -> Exit:
        """Executes a loop over an iterable: short tuples item by item, else one iteration that stands for all."""
        walk = self.run.statements
        iterable = self.run.facts.add_bound(self.run.expressions.eval(node.iterable), node.loc)
        if isinstance(iterable.const, range) and len(iterable.const) < 2:
            self.run.facts.decide(iterable)
            if not len(iterable.const):
                return walk.block(node.orelse)
        if isinstance(iterable.x, tuple) and len(iterable.x) <= MAX_UNROLL:
            return self.unrolled(node, iterable.x)
        if isinstance(iterable.x, tuple):
            element = mix(list(iterable.x))
        elif isinstance(iterable.const, range):
            element = V("i32", "i32", shape=())
        else:
            element = self.run.expressions.elements(iterable)[0]

        def body() -> Exit:
            walk.assign(node.target, element)
            with self.run.sides.hanging(iterable.with_(origins=choosing(iterable.origins)), node.loc):
                return walk.round(node)

        self.looped(body, node=node)
        return walk.block(node.orelse)

    def unrolled(self, node: ir.For, items: tuple[V, ...]) -> Exit:
        """Executes a loop over the values `items`, one iteration for each."""
        frame = self.run.frame
        left: list[Env] = []
        self._enter(node)
        self.run.memory.repeats += 1
        for item in items:
            jumps: list[tuple[str, Env]] = []
            frame.jumps.append(jumps)
            self.run.products.loops.again()
            self.run.statements.assign(node.target, item)
            with self.run.sides.in_frame():
                why = self.run.statements.round(node)
            frame.jumps.pop()
            left += [env for kind, env in jumps if kind == "break"]
            if why is not None:
                break
        self._leave(node)
        self.run.memory.repeats -= 1
        for env in left:
            merge(frame.env, env)
        return self.run.statements.block(node.orelse)

    def iterations(self, node: ir.While | ir.CFor) -> Exit:
        """Executes a `while` loop, or a C++ `for` behind its initialisation, until nothing changes."""
        once = isinstance(node, ir.While) and node.once
        test = UNKNOWN_V
        sides: Pair | tuple[()] = ()
        if not once:
            test = UNKNOWN_V if node.test is None else self.run.expressions.eval(node.test)
            if self.run.numbers.truth(test) is False:
                return None
            sides = self.run.sides.of(test, node.loc) if runs_once(node.body) else ()
        for name in stepped_names(node.step) if isinstance(node, ir.CFor) else ():
            value = self.run.frame.env.get(name)
            if value is not None and value.const is not NOTHING:
                self.run.frame.env[name] = value.with_(const=NOTHING, deps=NO_NAMES)

        def ask() -> V:
            if node.test is not None:
                self.asked.append(self.run.facts.add_bound(self.run.expressions.eval(node.test), node.loc))
            return self.asked[-1] if node.test is not None else UNKNOWN_V

        def body() -> Exit:
            held = UNKNOWN_V if once else ask()
            with self.run.sides.watching(*sides[:1]), self.run.sides.hanging(held, node.loc):
                why = self.run.statements.round(node)
            if once:
                ask()
            return why

        with self.waiting(node.loc):
            self.looped(body, test, node)
        if sides:
            self.run.sides.rest(sides, (returns(node.body), False))
        return None

    @contextmanager
    def waiting(self, loc: ir.Loc) -> Iterator[None]:
        """A context manager around the analysis of a loop that recognises a spin wait: if all that the body changes was
        read again from the memory that the test reads, it records a `Wait` on that memory."""
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

    # --- switches ---

    def cases(self, node: ir.Switch) -> Exit:
        """Executes every case of a switch that may be chosen, and joins the variables behind them."""
        frame = self.run.frame
        value = self.run.expressions.eval(node.value)
        start = frame.env
        taken = [position for position, case in enumerate(node.cases) if self._may_be(value, case[0])]
        bodies: list[Iterable[Any]] = [self._falling(node, position) for position in taken]
        if all(labels for labels, _ in node.cases):
            bodies.append(())
        jumps: list[tuple[str, Env]] = []
        frame.jumps.append(jumps)
        places = [(labels[0] if labels else node).loc for labels, _ in (node.cases[at] for at in taken)]
        sides = self._sides_of_cases(value, places[: len(bodies) - 1])
        test = choosing(testing(value.origins))
        why = self.branches(bodies, [own for _, own in sides], test)
        frame.jumps.pop()
        for position, (pair, _) in zip(taken, sides, strict=False):
            if pair:
                self.run.sides.rest(pair, (returns(node.cases[position][1]), False))
        for kind, env in jumps:
            if kind == "continue":  # of the loop around it
                if frame.jumps:
                    frame.jumps[-1].append((kind, env))
            elif why is None:
                merge(frame.env, env, test)
            else:
                frame.env, why = env, None
        if value.origins and why is None:
            self.chosen(start, flagged(value.origins, "index"))
        return why

    def _may_be(self, value: V, labels: tuple[ir.Expr, ...]) -> bool:
        """Whether a switch on `value` may go to these labels; none are the default."""
        if not labels or not value.known:
            return True
        return any(
            self.run.numbers.compare("==", value, self.run.expressions.eval(label)).const is not False
            for label in labels
        )

    def _falling(self, node: ir.Switch, position: int) -> Iterator[object]:
        """The statements from one case on; executing them ends at the first that ends the case."""
        for body in self.run.statements.falling(node, position):
            self.run.step()
            yield from body

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


def stepped_names(step: object) -> list[str]:
    """The variables that the step of a C++ `for` changes."""
    if isinstance(step, ir.AssignE) and isinstance(step.target, ir.Name):
        return [step.target.id]
    if isinstance(step, ir.Binary) and step.op == ",":
        return stepped_names(step.left) + stepped_names(step.right)
    return []
