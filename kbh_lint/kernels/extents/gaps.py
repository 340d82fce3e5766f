"""Places that loops step over: what the loads of a launch leave out between the first and the last that they read.

A loop `for i in range(first, last, step)` of a Triton kernel goes from tile to tile. Where a step is longer than what
an iteration reads, other programs may read what lies between, or nobody does. All iterations of all programs are put
together on numbers, and what is read is never taken for less than it can be: masks and early ends do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import gcd, prod
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.frontends.walk import all_nodes, by_node
from kbh_lint.kernels.extents.control import OneRound
from kbh_lint.kernels.extents.expressions import NEVER, Expressions
from kbh_lint.kernels.extents.follow import NOT_FOLLOWED, Follow, can_be_followed
from kbh_lint.kernels.extents.intervals import Limits, Linear, add
from kbh_lint.kernels.extents.lines import columns, worked_out
from kbh_lint.kernels.extents.values import Described, Dims, Pointer, Test, Value

MAX_PLACES = 20_000  # addresses that are looked at for one storage
LEFT_OUT = 8  # less than one part in so many is no claim
_OTHERWISE = ("make_block_ptr", "make_tensor_descriptor", "inline_asm_elementwise", "atomic_cas", "gather")


def stepped_over(
    kernel: values.Func, args: Mapping[str, object], grid: Dims, known: Mapping[int, int]
) -> dict[int, ir.Loc]:
    """The storages of which a kernel reads elements and never those between them, by id, with the place of the loop
    that steps over these.

    `known` has the storages whose elements all hold one number, with that number. Empty for a kernel with loads that
    cannot be followed.
    """
    body = kernel.node.body or ()
    if kernel.node.kind != "python" or not can_be_followed(kernel):
        return {}
    calls, loops = _calls(body)
    if not loops:
        return {}
    with Rounds(kernel, args, grid, known) as follow:
        own = [call for call in calls if follow.is_own(call)]
        if any(follow.called(call) in _OTHERWISE for call in calls) or own and _holds_others(args):
            return {}
        try:
            follow.run()
            loads = sum(follow.called(call) == "load" for call in calls)
            met = loads == len(follow.loads) and len(own) == len(follow.handed)
            return follow.left_out() if met and not follow.lost else {}
        except NOT_FOLLOWED:
            return {}


@by_node
def _calls(body: tuple[ir.Stmt, ...]) -> tuple[list[ir.Call], bool]:
    """The calls of a kernel, and whether it loops."""
    nodes = all_nodes(body)
    return [node for node in nodes if isinstance(node, ir.Call)], any(isinstance(node, ir.For) for node in nodes)


def _holds_others(args: Mapping[str, object]) -> bool:
    """Whether an argument may hold pointers that no name of the kernel stands for."""
    return any(isinstance(given, (tuple, list, values.StructArg, values.Made)) for given in args.values())


class Iterations:
    """A loop variable: its first value, the end before which it stops, its step, and the place of the loop."""

    def __init__(self, first: Linear, last: Linear, step: Linear, loc: ir.Loc) -> None:
        self.first, self.last, self.step, self.loc = first, last, step, loc


class Rounds(Follow):
    """A walk that records every load and store, and the iterations of every loop."""

    def __init__(self, kernel: values.Func, args: Mapping[str, Any], grid: Dims, known: Mapping[int, int]) -> None:
        super().__init__(kernel, args, grid, ())
        self.expressions = _Loads(self, known)
        self.statements.control = _Counted(self)
        self.loads: dict[Any, Pointer] = {}
        self.handed: dict[Any, set[int]] = {}  # by call of the submission's own functions, the storages it is given
        self.stores: dict[Any, Pointer | None] = {}  # by place; None where it is not one address
        self.lost = False
        self.iterations: dict[int, Iterations] = {}
        self.counts: set[int] = set()  # numbers of iterations, by which names grow that are no loop variables

    def called(self, call: ir.Call) -> str:
        """The name of the called function of the language; empty for others."""
        return self.expressions.called(call.func)

    def is_own(self, call: ir.Call) -> bool:
        """Whether a call calls a function of the submission."""
        try:
            found = self.frame.kernel.env.lookup(call.func.id) if isinstance(call.func, ir.Name) else None
        except KeyError:
            return False
        return isinstance(found, (values.Func, values.JitFunction))

    def begins(self, stmt: object) -> None:
        """Evaluates a statement that is only a call of a function of the submission, so that its loads are recorded."""
        if isinstance(stmt, ir.ExprS) and isinstance(stmt.value, ir.Call) and self.is_own(stmt.value):
            self.value(stmt.value)

    def inlined(self, node: ir.Call) -> list[Value] | None:
        made = super().inlined(node)
        if made is not None and self.calls == 0:
            self.handed.setdefault(node.loc, set())
        return made

    def stored(self, where: Value, *places: ir.Loc) -> None:
        for loc in places:
            at = where if isinstance(where, Pointer) else None
            self.stores[loc] = at if self.stores.get(loc, at) == at else None

    def turns(self, turn: Iterations) -> list[range] | None:
        """The iterations of a loop in each program of the launch, as ranges; None where unknown."""
        programs = sorted(self._base(turn.first) | self._base(turn.last) | self._base(turn.step))
        ranges = []
        for atom in programs:
            low, high = self.atoms.ranges[atom]
            if low is None or high is None or high - low >= MAX_PLACES:
                return None
            ranges.append(range(low, high + 1))
        if prod(map(len, ranges)) > MAX_PLACES:
            return None
        return self._counted(turn, programs, list(product(*ranges)))

    # --- what all programs read ---

    def left_out(self) -> dict[int, ir.Loc]:
        """The storages that loops step over a part of, by id, with the place of such a loop."""
        by_storage: dict[int, list[Linear]] = {}
        for pointer in self.loads.values():
            by_storage.setdefault(pointer.storage, []).append(pointer.offset)
        found: dict[int, ir.Loc] = {}
        elsewhere = {storage for given in self.handed.values() for storage in given}
        for storage, addresses in by_storage.items():
            if storage in elsewhere:
                continue
            bases = [atom for address in addresses for atom in self._base(address)]
            over = [self.iterations[atom] for atom in bases if atom in self.iterations]
            if over and self._has_gap(addresses):
                found[storage] = over[0].loc
        return found

    def _base(self, value: Linear) -> set[int]:
        """The numbers that a sum is made of, through operations."""
        found: set[int] = set()
        stack = [value]
        while stack:
            for atom, _ in stack.pop().terms:
                made = self.atoms.made.get(atom)
                if made is None:
                    found.add(atom)
                else:
                    stack += made[1:]
        return found

    def _has_gap(self, addresses: list[Linear]) -> bool:
        read: set[int] = set()
        beside: set[int] = set()
        unit = 0
        for address in addresses:
            found = self._parts(address)
            if found is None:
                return False
            over, near, alone = found
            turn = self.iterations[over]
            programs = self._base(turn.first) | self._base(turn.last) | self._base(turn.step)
            lanes = self._base(near) - programs - {over}
            places = (
                None if self._covers(near, over, lanes) else self._places(near, over, sorted(programs), sorted(lanes))
            )
            if places is None:
                return False
            beside |= {abs(factor) for _, factor in alone}
            unit = gcd(unit, *(factor for _, factor in near.terms))
            read |= places
            if len(read) > MAX_PLACES:
                return False
        first, width = min(read, default=0), max(read, default=0) - min(read, default=0) + 1
        if not read or not unit or any(factor < width for factor in beside):
            return False
        visited, all_places = len({(place - first) // unit for place in read}), (width - 1) // unit + 1
        return (all_places - visited) * LEFT_OUT >= all_places

    def _parts(self, address: Linear) -> tuple[int, Linear, list[tuple[int, int]]] | None:
        """The one loop variable of an address, the terms of its iterations and of what each reads, and the others."""
        base = {atom: self._base(Linear(0, ((atom, 1),))) for atom, _ in address.terms}
        iterations = {atom for below in base.values() for atom in below if atom in self.iterations}
        if len(iterations) != 1 or any(below & self.counts for below in base.values()):
            return None
        (over,) = iterations
        turn = self.iterations[over]
        moving = {over} | self._base(turn.first) | self._base(turn.last) | self._base(turn.step)
        factors = {factor for atom, factor in address.terms if over in base[atom]}
        near = [
            (atom, factor)
            for atom, factor in address.terms
            if base[atom] & moving or factor in factors and self._is_lane(atom)
        ]
        alone = [term for term in address.terms if term not in near]
        within = {atom for term in near for atom in base[term[0]]}
        if any(base[atom] & within for atom, _ in alone):
            return None
        return over, Linear(address.const, tuple(near)), alone

    def _is_lane(self, atom: int) -> bool:
        low, high = self.atoms.ranges[atom]
        return atom not in self.atoms.made and low == 0 and high is not None

    def _covers(self, value: Linear, over: int, lanes: set[int]) -> bool:
        """Whether an iteration plainly reads up to where the next one begins."""
        step = self.iterations[over].step
        stack = [value]
        while stack:
            part = stack.pop()
            inner = [Linear(0, ((atom, 1),)) for atom, _ in part.terms if atom != over]
            once = not any(over in self._base(number) for number in inner)
            own = next((abs(factor) for atom, factor in part.terms if atom == over and once), None)
            for atom, factor in part.terms:
                stack += self.atoms.made.get(atom, ())[1:]
                high = self.atoms.ranges[atom][1] if atom in lanes else None
                if own is not None and high is not None and not step.terms:
                    far = own * step.const
                    if abs(factor) <= far <= abs(factor) * (high + 1):
                        return True
        return False

    def _places(self, address: Linear, over: int, programs: list[int], lanes: list[int]) -> set[int] | None:
        """All values of an address; None where there are too many or one is not known."""
        ranges = self._ranges([*programs, *lanes])
        if ranges is None:
            return None
        every = list(product(*ranges[: len(programs)]))
        counts = self._counted(self.iterations[over], programs, every)
        if counts is None:
            return None
        beside = list(product(*ranges[len(programs) :]))
        self.steps += sum(map(len, counts)) * len(beside)
        if self.steps > 4 * MAX_PLACES:
            return None
        some = self._differing(address, programs, [(given, at) for given, at in zip(every, counts, strict=True) if at])
        if some is None:
            return None
        begun = [(*given, at) for given, turns in some for at in turns]
        within = Linear(0, tuple(term for term in address.terms if term[0] in lanes))
        rest = Linear(address.const, tuple(term for term in address.terms if term[0] not in lanes))
        if not self._base(rest) & set(lanes):  # as most tiles lie: what lanes add is the same in each iteration
            starts = worked_out(self.atoms, rest, columns([*programs, over], begun), len(begun))
            steps = worked_out(self.atoms, within, columns(lanes, beside), len(beside))
            return None if starts is None or steps is None else {at + by for at in set(starts) for by in set(steps)}
        lines = [(*start, *lane) for start in begun for lane in beside]
        places = worked_out(self.atoms, address, columns([*programs, over, *lanes], lines), len(lines))
        return None if places is None else set(places)

    def _ranges(self, numbers: list[int]) -> list[range] | None:
        """What each of some numbers can be; None where one has no end, or where they can be too much together."""
        ranges = []
        count = 1
        for atom in numbers:
            low, high = self.atoms.ranges[atom]
            if low is None or high is None:
                return None
            ranges.append(range(low, high + 1))
            count *= len(ranges[-1])
            if count > MAX_PLACES:
                return None
        return ranges

    def _counted(self, turn: Iterations, programs: list[int], every: list[tuple[int, ...]]) -> list[range] | None:
        """The iterations of a loop in each program; None where its bounds are not known."""
        held = columns(programs, every)
        bounds = [worked_out(self.atoms, part, held, len(every)) for part in (turn.first, turn.last, turn.step)]
        known = [numbers for numbers in bounds if numbers is not None]
        if len(known) < len(bounds) or min(known[2], default=1) <= 0:
            return None
        return [range(first, last, step) for first, last, step in zip(*known, strict=True)]

    def _differing(
        self, address: Linear, programs: list[int], given: list[tuple[tuple[int, ...], range]]
    ) -> list[tuple[tuple[int, ...], range]] | None:
        """Programs with their iterations, one of those that read the same; None when a number is not known.

        Terms made of programs alone move all that one reads. Where no other term has anything of them, those that begin
        alike and have the same iterations read the same.
        """
        names = set(programs)
        own = [term for term in address.terms if self._base(Linear(0, (term,))) <= names]
        rest = Linear(0, tuple(term for term in address.terms if term not in own))
        if self._base(rest) & names:
            return given
        starts = worked_out(self.atoms, Linear(0, tuple(own)), columns(programs, [at for at, _ in given]), len(given))
        if starts is None:
            return None
        return list({(start, one[1]): one for start, one in zip(starts, given, strict=True)}.values())


class _Counted(OneRound):
    """Notes the iterations of loops that count."""

    run: Rounds

    def counted(self, node: ir.For, limits: Limits, iterations: Linear) -> tuple[Limits, Linear]:
        run, call = self.run, node.iterable
        given = [run.value(arg) for arg in call.args] if isinstance(call, ir.Call) else []
        inside = super().counted(node, limits, iterations)
        run.counts |= {atom for part in (iterations, inside[1]) for atom, _ in part.terms}
        numbers = [value for value in given if isinstance(value, Linear)]
        ranged = isinstance(call, ir.Call) and run.called(call) in ("range", "static_range")
        if ranged and isinstance(node.target, ir.Name) and 0 < len(numbers) == len(given) <= 3:
            now = run.env[node.target.id] = run.position()
            first, last = (Linear(0), numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
            step = numbers[2] if len(numbers) == 3 else Linear(1)
            run.iterations[now.terms[0][0]] = Iterations(first, last, step, node.loc)
        return inside


class _Loads(Expressions):
    """Notes loads; what storages hold of which all elements are one number is `known`."""

    run: Rounds

    def __init__(self, run: Rounds, known: Mapping[int, int]) -> None:
        super().__init__(run)
        self.known = known

    def _noted(self, node: ir.Call) -> Value:
        name = self.called(node.func)
        if not name and self.run.is_own(node):
            return self._handed_on(node)
        if name not in ("load", "where"):
            return self._call(node)
        if name == "where":
            return self._chosen(node)
        at = node.args[0] if node.args else None
        where = self._call(at) if isinstance(at, ir.Call) else self.value(at)
        for part in (*node.args[1:], *(value for _, value in node.keywords)):
            self.value(part)
        run = self.run
        if not isinstance(where, Pointer) or run.loads.setdefault(node.loc, where) != where:
            run.lost = True
            return run.unknown()
        number = self.known.get(where.storage)
        return run.unknown() if number is None else Linear(number)

    def _handed_on(self, node: ir.Call) -> Value:
        """A call of a function of the submission, which may read all that it is given."""
        made = self.run.inlined(node)
        if made is not None and len(made) == 1:
            return made[0]
        given = [self.value(part) for part in (*node.args, *(value for _, value in node.keywords))]
        storages = {value.storage for value in given if isinstance(value, (Pointer, Described))}
        self.run.handed.setdefault(node.loc, set()).update(storages)
        return self.run.unknown()

    def _chosen(self, node: ir.Call) -> Value:
        """`tl.where` between two numbers by a comparison of two: the other one, and so much more where it holds."""
        test, *sides = [self.value(part) for part in (*node.args, *(value for _, value in node.keywords))]
        yes, no = sides if len(sides) == 2 else (None, None)
        if not (isinstance(test, Test) and isinstance(yes, Linear) and isinstance(no, Linear)):
            return self.run.unknown()
        if NEVER in (test.yes, test.no):  # constants decide it
            return yes if test.no == NEVER else no
        if len(test.yes) != 1 or len(test.no) != 1:
            return self.run.unknown()
        atoms, (a, b, room) = self.run.atoms, test.yes[0]
        b = add(b, Linear(room), -1)
        if not a.terms and not b.terms:
            return yes if a.const <= b.const else no
        return add(no, atoms.apply("*", atoms.apply("<=", a, b), add(yes, no, -1)))


_Loads.handlers = {**Expressions.handlers, ir.Call: _Loads._noted}
